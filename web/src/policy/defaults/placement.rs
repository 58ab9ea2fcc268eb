//! Placement: all rules.

use super::rule::{RuleDefault, rule};

pub(super) const RULES: &[RuleDefault] = &[
    // Chronova's own rule for queries about the past (`?as_of=`). The operation's own rule must hold, too.
    rule("placement:chronova:as_of", "role:admin").project().guards("GET with as_of"),
    rule("admin_api", "role:admin").project(),
    rule("service_api", "role:service").project().deprecates("rule:admin_api", "role:admin"),
    rule("admin_or_service_api", "role:admin or role:service").project().deprecates("rule:admin_api", "role:admin"),
    rule("project_reader_api", "role:reader and project_id:%(project_id)s").deprecates("rule:admin_api", "role:admin"),
    rule("admin_or_project_reader_or_service_api", "role:admin or rule:project_reader_api or role:service")
        .project()
        .deprecates("rule:admin_api", "role:admin"),
    rule("placement:resource_providers:list", "rule:admin_or_service_api").project().guards("GET /resource_providers"),
    rule("placement:resource_providers:create", "rule:admin_or_service_api")
        .project()
        .guards("POST /resource_providers"),
    rule("placement:resource_providers:show", "rule:admin_or_service_api")
        .project()
        .guards("GET /resource_providers/{uuid}"),
    rule("placement:resource_providers:update", "rule:admin_or_service_api")
        .project()
        .guards("PUT /resource_providers/{uuid}"),
    rule("placement:resource_providers:delete", "rule:admin_or_service_api")
        .project()
        .guards("DELETE /resource_providers/{uuid}"),
    rule("placement:resource_classes:list", "rule:admin_or_service_api").project().guards("GET /resource_classes"),
    rule("placement:resource_classes:create", "rule:admin_or_service_api").project().guards("POST /resource_classes"),
    rule("placement:resource_classes:show", "rule:admin_or_service_api")
        .project()
        .guards("GET /resource_classes/{name}"),
    rule("placement:resource_classes:update", "rule:admin_or_service_api")
        .project()
        .guards("PUT /resource_classes/{name}"),
    rule("placement:resource_classes:delete", "rule:admin_or_service_api")
        .project()
        .guards("DELETE /resource_classes/{name}"),
    rule("placement:resource_providers:inventories:list", "rule:admin_or_service_api")
        .project()
        .guards("GET /resource_providers/{uuid}/inventories"),
    rule("placement:resource_providers:inventories:create", "rule:admin_or_service_api")
        .project()
        .guards("POST /resource_providers/{uuid}/inventories"),
    rule("placement:resource_providers:inventories:show", "rule:admin_or_service_api")
        .project()
        .guards("GET /resource_providers/{uuid}/inventories/{resource_class}"),
    rule("placement:resource_providers:inventories:update", "rule:admin_or_service_api").project().guards(
        "PUT /resource_providers/{uuid}/inventories; PUT /resource_providers/{uuid}/inventories/{resource_class}",
    ),
    rule("placement:resource_providers:inventories:delete", "rule:admin_or_service_api").project().guards(
        "DELETE /resource_providers/{uuid}/inventories; DELETE /resource_providers/{uuid}/inventories/{resource_class}",
    ),
    rule("placement:resource_providers:aggregates:list", "rule:admin_or_service_api")
        .project()
        .guards("GET /resource_providers/{uuid}/aggregates"),
    rule("placement:resource_providers:aggregates:update", "rule:admin_or_service_api")
        .project()
        .guards("PUT /resource_providers/{uuid}/aggregates"),
    rule("placement:resource_providers:usages", "rule:admin_or_service_api")
        .project()
        .guards("GET /resource_providers/{uuid}/usages"),
    rule("placement:usages", "rule:admin_or_project_reader_or_service_api").project().guards("GET /usages"),
    rule("placement:traits:list", "rule:admin_or_service_api").project().guards("GET /traits"),
    rule("placement:traits:show", "rule:admin_or_service_api").project().guards("GET /traits/{name}"),
    rule("placement:traits:update", "rule:admin_or_service_api").project().guards("PUT /traits/{name}"),
    rule("placement:traits:delete", "rule:admin_or_service_api").project().guards("DELETE /traits/{name}"),
    rule("placement:resource_providers:traits:list", "rule:admin_or_service_api")
        .project()
        .guards("GET /resource_providers/{uuid}/traits"),
    rule("placement:resource_providers:traits:update", "rule:admin_or_service_api")
        .project()
        .guards("PUT /resource_providers/{uuid}/traits"),
    rule("placement:resource_providers:traits:delete", "rule:admin_or_service_api")
        .project()
        .guards("DELETE /resource_providers/{uuid}/traits"),
    rule("placement:allocations:manage", "rule:admin_or_service_api").project().guards("POST /allocations"),
    rule("placement:allocations:list", "rule:admin_or_service_api")
        .project()
        .guards("GET /allocations/{consumer_uuid}"),
    rule("placement:allocations:update", "rule:admin_or_service_api")
        .project()
        .guards("PUT /allocations/{consumer_uuid}"),
    rule("placement:allocations:delete", "rule:admin_or_service_api")
        .project()
        .guards("DELETE /allocations/{consumer_uuid}"),
    rule("placement:resource_providers:allocations:list", "rule:admin_or_service_api")
        .project()
        .guards("GET /resource_providers/{uuid}/allocations"),
    rule("placement:allocation_candidates:list", "rule:admin_or_service_api")
        .project()
        .guards("GET /allocation_candidates"),
    rule("placement:reshaper:reshape", "rule:service_api").project().guards("POST /reshaper"),
];
