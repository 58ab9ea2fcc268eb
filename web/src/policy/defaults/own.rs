//! What is Chronova's own: who may read the log over HTTP, and who may have personal data erased.

use super::{RuleDefault, Scope, rule};

/// The log tells of every project, so a project's own roles do not reach it: administrators, and readers of the system.
pub(super) const RULES: &[RuleDefault] = &[
    rule("chronova:events:list", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[Scope::System, Scope::Project])
        .guards("GET /chronova/v1/events"),
    rule("chronova:erasures:list", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[Scope::System, Scope::Project])
        .guards("GET /chronova/v1/erasures"),
    rule("chronova:erasures:create", "role:admin")
        .any_of(&[Scope::System, Scope::Project])
        .guards("POST /chronova/v1/erasures"),
];
