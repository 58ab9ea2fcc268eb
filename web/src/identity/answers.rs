//! The schemas of the identity service's answers.

use crate::answers::{Answers, done, json, ok};
use crate::schema::{Schema, any, array, choice, object, opt, req, shape};

fn one(name: &'static str, resource: Schema) -> Schema {
    object([req(name, resource)])
}

/// A list. `truncated` says that `limit` cut it.
fn list(name: &'static str, resource: Schema) -> Answers {
    ok(with_list_links(name, resource).plus([opt("truncated", shape::boolean())]))
}

fn with_list_links(name: &'static str, resource: Schema) -> Schema {
    object([req(name, array(resource)), req("links", list_links())])
}

fn list_links() -> Schema {
    object([
        req("next", shape::string_or_null()),
        req("self", shape::string()),
        req("previous", shape::string_or_null()),
    ])
}

fn self_link() -> Schema {
    object([req("self", shape::string())])
}

/// A name with its id.
fn named() -> Schema {
    object([req("id", shape::string()), req("name", shape::string())])
}

/// The services with their endpoints, as a token shows them.
fn catalog() -> Schema {
    let endpoint = object([
        req("id", shape::string()),
        req("interface", choice(["public", "internal", "admin"])),
        req("region_id", shape::string()),
        req("url", shape::string()),
        req("region", shape::string()),
    ]);
    array(object([
        req("endpoints", array(endpoint)),
        req("id", shape::string()),
        req("type", shape::string()),
        req("name", shape::string()),
    ]))
}

fn whole_system() -> Schema {
    object([req("all", shape::boolean())])
}

/// The application credential of a token.
fn token_credential() -> Schema {
    named().plus([req("restricted", shape::boolean()), opt("access_rules", array(access_rule()))])
}

/// A token has at most one scope: a project, a domain or the system. A token without a scope has no roles and no
/// catalogue.
fn token() -> Schema {
    let user = named().plus([req("domain", named()), req("password_expires_at", shape::time_or_null())]);
    one(
        "token",
        object([
            req("methods", shape::strings()),
            req("user", user),
            req("audit_ids", shape::strings()),
            req("expires_at", shape::time()),
            req("issued_at", shape::time()),
            opt("project", named().plus([req("domain", named())])),
            opt("is_domain", shape::boolean()),
            opt("domain", named()),
            opt("system", whole_system()),
            opt("roles", array(named())),
            opt("catalog", catalog()),
            opt("application_credential", token_credential()),
        ]),
    )
}

pub(super) fn token_issued() -> Answers {
    json(201, token()).header("X-Subject-Token")
}

pub(super) fn token_shown() -> Answers {
    ok(token()).header("X-Subject-Token")
}

/// The answer to HEAD has no body.
pub(super) fn token_checked() -> Answers {
    done().header("X-Subject-Token")
}

pub(super) fn catalog_shown() -> Answers {
    ok(object([req("catalog", catalog()), req("links", list_links())]))
}

pub(super) fn systems() -> Answers {
    list("system", whole_system())
}

fn service() -> Schema {
    named().plus([
        req("description", shape::string()),
        req("type", shape::string()),
        req("enabled", shape::boolean()),
        req("links", self_link()),
    ])
}

pub(super) fn services() -> Answers {
    list("services", service())
}

pub(super) fn service_shown() -> Answers {
    ok(one("service", service()))
}

fn endpoint() -> Schema {
    named().plus([
        req("interface", choice(["public", "internal", "admin"])),
        req("region_id", shape::string()),
        req("service_id", shape::string()),
        req("url", shape::string()),
        req("region", shape::string()),
        req("enabled", shape::boolean()),
        req("links", self_link()),
    ])
}

pub(super) fn endpoints() -> Answers {
    list("endpoints", endpoint())
}

pub(super) fn endpoint_shown() -> Answers {
    ok(one("endpoint", endpoint()))
}

fn region() -> Schema {
    object([
        req("id", shape::string()),
        req("description", shape::string()),
        req("parent_region_id", shape::string_or_null()),
        req("links", self_link()),
    ])
}

pub(super) fn regions() -> Answers {
    list("regions", region())
}

pub(super) fn region_shown() -> Answers {
    ok(one("region", region()))
}

fn domain() -> Schema {
    named().plus([
        req("description", shape::string()),
        req("enabled", shape::boolean()),
        req("tags", shape::strings()),
        req("options", object([]).open()),
        req("links", self_link()),
    ])
}

pub(super) fn domains() -> Answers {
    list("domains", domain())
}

pub(super) fn domain_created() -> Answers {
    json(201, one("domain", domain()))
}

pub(super) fn domain_shown() -> Answers {
    ok(one("domain", domain()))
}

/// Clients may give a project more attributes than these.
fn project() -> Schema {
    let own = [
        req("domain_id", shape::string()),
        req("description", shape::string()),
        req("enabled", shape::boolean()),
        req("parent_id", shape::string()),
        req("is_domain", shape::boolean()),
        req("tags", shape::strings()),
        req("options", object([]).open()),
        req("links", self_link()),
    ];
    named().plus(own).open()
}

pub(super) fn projects() -> Answers {
    list("projects", project())
}

pub(super) fn project_created() -> Answers {
    json(201, one("project", project()))
}

/// On request, the answer shows the projects above and below this one, as a list or as a tree of ids.
pub(super) fn project_shown() -> Answers {
    ok(one("project", project().plus([opt("parents", any()), opt("subtree", any())])))
}

/// Clients may give a user more attributes than these.
fn user() -> Schema {
    let own = [
        req("domain_id", shape::string()),
        req("enabled", shape::boolean()),
        req("password_expires_at", shape::time_or_null()),
        req("options", object([]).open()),
        req("links", self_link()),
        opt("default_project_id", shape::string()),
    ];
    named().plus(own).open()
}

pub(super) fn users() -> Answers {
    list("users", user())
}

pub(super) fn user_created() -> Answers {
    json(201, one("user", user()))
}

pub(super) fn user_shown() -> Answers {
    ok(one("user", user()))
}

/// There are no groups.
pub(super) fn groups() -> Answers {
    list("groups", object([]).open())
}

fn limited_resource() -> Schema {
    object([
        req("id", shape::string()),
        req("service_id", shape::string()),
        req("region_id", shape::string_or_null()),
        req("resource_name", shape::string()),
        req("description", shape::string_or_null()),
        req("links", self_link()),
    ])
}

fn registered_limit() -> Schema {
    limited_resource().plus([req("default_limit", shape::integer())])
}

fn limit() -> Schema {
    limited_resource().plus([
        req("resource_limit", shape::integer()),
        req("project_id", shape::string_or_null()),
        req("domain_id", shape::string_or_null()),
    ])
}

pub(super) fn registered_limits() -> Answers {
    list("registered_limits", registered_limit())
}

pub(super) fn registered_limits_created() -> Answers {
    json(201, with_list_links("registered_limits", registered_limit()))
}

pub(super) fn registered_limit_shown() -> Answers {
    ok(one("registered_limit", registered_limit()))
}

pub(super) fn limits() -> Answers {
    list("limits", limit())
}

pub(super) fn limits_created() -> Answers {
    json(201, with_list_links("limits", limit()))
}

pub(super) fn limit_shown() -> Answers {
    ok(one("limit", limit()))
}

pub(super) fn limit_model() -> Answers {
    ok(one("model", object([req("name", shape::string()), req("description", shape::string())])))
}

fn access_rule() -> Schema {
    object([
        req("id", shape::string()),
        req("service", shape::string()),
        req("method", shape::string()),
        req("path", shape::string()),
    ])
}

fn access_rule_with_links() -> Schema {
    access_rule().plus([req("links", self_link())])
}

pub(super) fn access_rules() -> Answers {
    list("access_rules", access_rule_with_links())
}

pub(super) fn access_rule_shown() -> Answers {
    ok(one("access_rule", access_rule_with_links()))
}

/// If the credential has no access rules, only its roles and `unrestricted` limit the requests that it permits.
fn application_credential() -> Schema {
    let role = named().plus([req("domain_id", shape::string_or_null())]);
    named().plus([
        req("user_id", shape::string()),
        req("project_id", shape::string()),
        req("description", shape::string_or_null()),
        req("roles", array(role)),
        req("expires_at", shape::time_or_null()),
        req("unrestricted", shape::boolean()),
        opt("access_rules", array(access_rule())),
        req("links", self_link()),
    ])
}

pub(super) fn application_credentials() -> Answers {
    list("application_credentials", application_credential())
}

/// Only this answer has the secret.
pub(super) fn application_credential_created() -> Answers {
    json(201, one("application_credential", application_credential().plus([req("secret", shape::string())])))
}

pub(super) fn application_credential_shown() -> Answers {
    ok(one("application_credential", application_credential()))
}

fn role() -> Schema {
    named().plus([
        req("domain_id", shape::string_or_null()),
        req("description", shape::string_or_null()),
        req("options", object([]).open()),
        req("links", self_link()),
    ])
}

pub(super) fn roles() -> Answers {
    list("roles", role())
}

pub(super) fn role_created() -> Answers {
    json(201, one("role", role()))
}

pub(super) fn role_shown() -> Answers {
    ok(one("role", role()))
}

fn brief_role() -> Schema {
    named().plus([req("links", self_link())])
}

fn inference(implied: Schema) -> Schema {
    object([req("prior_role", brief_role()), req("implies", implied)])
}

pub(super) fn inferences() -> Answers {
    ok(one("role_inferences", array(inference(array(brief_role())))))
}

pub(super) fn implied_roles() -> Answers {
    ok(one("role_inference", inference(array(brief_role()))).plus([req("links", self_link())]))
}

fn implied_role() -> Schema {
    one("role_inference", inference(brief_role())).plus([req("links", self_link())])
}

pub(super) fn implied_role_created() -> Answers {
    json(201, implied_role())
}

pub(super) fn implied_role_shown() -> Answers {
    ok(implied_role())
}

/// Names are shown with `include_names`.
pub(super) fn assignments() -> Answers {
    let id = || req("id", shape::string());
    let domain = || object([id(), opt("name", shape::string_or_null())]);
    let in_domain = || object([id(), opt("name", shape::string()), opt("domain", domain())]);
    let scope = object([
        opt("system", whole_system()),
        opt("domain", domain()),
        opt("project", in_domain()),
        opt("OS-INHERIT:inherited_to", shape::string()),
    ]);
    let assignment = object([
        req("links", object([req("assignment", shape::string())])),
        req("scope", scope),
        req("user", in_domain()),
        req("role", object([id(), opt("name", shape::string())])),
    ]);
    list("role_assignments", assignment)
}
