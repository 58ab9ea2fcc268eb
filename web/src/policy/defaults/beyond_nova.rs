//! The rules of Chronova's own API. They say, for example, who may read the log over HTTP, erase personal data, drain
//! hosts, run forecasts, change records of servers, and repair Placement.

use super::rule::{RuleDefault, ScopeType, rule};

/// The log has events of every project. So only administrators and readers with system scope may read it. The rule
/// `chronova:changes:list` lets other readers follow the servers of their own project.
pub(super) const RULES: &[RuleDefault] = &[
    rule("chronova:events:list", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("GET /chronova/v1/events"),
    rule("chronova:events:personal", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("personal fields in GET /chronova/v1/events"),
    rule("chronova:changes:list", "role:admin or (role:reader and project_id:%(project_id)s)")
        .any_of(&[ScopeType::Project])
        .guards("GET /chronova/v1/changes"),
    rule("chronova:erasures:list", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("GET /chronova/v1/erasures"),
    rule("chronova:erasures:create", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("POST /chronova/v1/erasures"),
    rule("chronova:hosts:list", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("GET /chronova/v1/hosts"),
    rule("chronova:hosts:show", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("GET /chronova/v1/hosts/{host}"),
    rule("chronova:hosts:add", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("POST /chronova/v1/hosts"),
    rule("chronova:hosts:remove", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("DELETE /chronova/v1/hosts/{host}"),
    rule("chronova:hosts:drain", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("POST /chronova/v1/hosts/{host}/drain; DELETE /chronova/v1/hosts/{host}/drain"),
    rule("chronova:hosts:maintenance", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("PUT /chronova/v1/hosts/{host}/maintenance; DELETE /chronova/v1/hosts/{host}/maintenance"),
    rule("chronova:scheduler:what_if", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("POST /chronova/v1/scheduler/what-if; GET /chronova/v1/hosts/{host}/drain/plan"),
    rule("chronova:servers:show", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("GET /chronova/v1/servers/{server}; GET /chronova/v1/machine-types/unset"),
    rule("chronova:limits:show", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("GET /chronova/v1/limits"),
    rule("chronova:image_properties:set", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("PUT /chronova/v1/servers/{server}/image-properties"),
    rule("chronova:machine_types:set", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("PUT /chronova/v1/servers/{server}/machine-type"),
    rule("chronova:volume_attachments:refresh", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("PUT /chronova/v1/servers/{server}/attachments/{volume}"),
    rule("chronova:orphans:list", "role:admin or (role:reader and system_scope:all)")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("GET /chronova/v1/placement/orphans"),
    rule("chronova:orphans:delete", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("DELETE /chronova/v1/placement/orphans/{consumer}/{provider}"),
    rule("chronova:allocations:heal", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("POST /chronova/v1/servers/{server}/allocations/heal"),
    rule("chronova:aggregates:mirror", "role:admin")
        .any_of(&[ScopeType::System, ScopeType::Project])
        .guards("POST /chronova/v1/placement/aggregates/mirror"),
];
