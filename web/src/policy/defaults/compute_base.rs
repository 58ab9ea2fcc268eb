//! Compute: the building blocks that the other rules refer to.

use super::rule::{RuleDefault, rule};

pub(super) const RULES: &[RuleDefault] = &[
    rule("admin_api", "is_admin:True"),
    rule("admin_or_owner", "is_admin:True or project_id:%(project_id)s"),
    rule("context_is_admin", "role:admin").deprecates("rule:admin_api", "is_admin:True"),
    rule("project_manager_api", "role:manager and project_id:%(project_id)s")
        .deprecates("rule:admin_api", "is_admin:True"),
    rule("project_manager_or_admin", "rule:project_manager_api or rule:context_is_admin")
        .deprecates("rule:admin_api", "is_admin:True"),
    rule("project_member_api", "role:member and project_id:%(project_id)s")
        .deprecates("rule:admin_or_owner", "is_admin:True or project_id:%(project_id)s"),
    rule("project_member_or_admin", "rule:project_member_api or rule:context_is_admin")
        .deprecates("rule:admin_or_owner", "is_admin:True or project_id:%(project_id)s"),
    rule("project_reader_api", "role:reader and project_id:%(project_id)s")
        .deprecates("rule:admin_or_owner", "is_admin:True or project_id:%(project_id)s"),
    rule("project_reader_or_admin", "rule:project_reader_api or rule:context_is_admin")
        .deprecates("rule:admin_or_owner", "is_admin:True or project_id:%(project_id)s"),
    rule("service_api", "role:service").deprecates("rule:admin_api", "is_admin:True"),
    rule("service_or_admin", "rule:service_api or rule:context_is_admin").deprecates("rule:admin_api", "is_admin:True"),
];
