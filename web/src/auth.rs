//! Authentication: a token becomes a [`Caller`].
//!
//! In the normal mode, an [`IdentityProvider`] (the embedded identity service, or real Keystone) says who owns the
//! token in `X-Auth-Token`. A service that passes a user's request on adds its own token (`X-Service-Token`). Then the
//! user's token is still accepted for a while after it expires. In the test mode `noauth2`, the token *is* the
//! identity: `USER` or `USER:PROJECT`.
//!
//! Invariants: tokens are never logged; `is_admin` is the result of the policy rule `context_is_admin`.

use std::fmt;
use std::sync::Arc;

use actix_web::http::header::HeaderMap;
use chronova_actors::ports::UserToken;
use chronova_actors::ports::identity::{
    AccessRule, IdentityProvider, TokenError, TokenOwner, TokenQuestion, TokenScope,
};
use chronova_events::envelope::{Cause, Meta, RequestSource};
use chronova_events::ids::{DomainId, ProjectId, RequestId, UserId};
use regex::Regex;
use uuid::Uuid;

pub use crate::secret::{Secret, SecretHash};

/// The identity behind a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub user: UserId,
    pub user_name: String,
    pub user_domain: Option<DomainId>,
    /// `None` for a token with domain scope or system scope, and for an unscoped token.
    pub project: Option<ProjectId>,
    pub project_name: Option<String>,
    pub project_domain: Option<DomainId>,
    /// The domain of a domain-scoped token.
    pub domain: Option<DomainId>,
    /// `all` for a system-scoped token.
    pub system_scope: Option<String>,
    pub roles: Vec<String>,
    /// Whether the project is Keystone's admin project (`admin_project_name`). True if Keystone names no admin project.
    pub is_admin_project: bool,
    /// The result of the rule `context_is_admin`; the dispatcher fills it in.
    pub is_admin: bool,
    /// The hash of the token, by which the identity service finds the token, for example to revoke it.
    pub token: Option<SecretHash>,
}

impl Caller {
    /// The caller of a request without a token, for public operations.
    pub fn anonymous() -> Self {
        Self::of_user(UserId::new(""))
    }

    /// A user without scope or roles.
    pub fn of_user(user: UserId) -> Self {
        Self {
            user_name: user.as_str().to_owned(),
            user,
            user_domain: None,
            project: None,
            project_name: None,
            project_domain: None,
            domain: None,
            system_scope: None,
            roles: Vec::new(),
            is_admin_project: true,
            is_admin: false,
            token: None,
        }
    }

    fn of_owner(owner: &TokenOwner) -> Self {
        let mut caller = Self::of_user(owner.user.clone());
        caller.user_name.clone_from(&owner.user_name);
        caller.user_domain.clone_from(&owner.user_domain);
        caller.roles.clone_from(&owner.roles);
        caller.is_admin_project = owner.is_admin_project;
        match &owner.scope {
            TokenScope::Unscoped => {}
            TokenScope::Project { id, name, domain } => {
                caller.project = Some(id.clone());
                caller.project_name = Some(name.clone());
                caller.project_domain.clone_from(domain);
            }
            TokenScope::Domain(id) => caller.domain = Some(id.clone()),
            TokenScope::System => caller.system_scope = Some("all".to_owned()),
        }
        caller
    }

    pub fn is_anonymous(&self) -> bool {
        self.user.as_str().is_empty()
    }

    /// Whether a token is scoped neither to a project, nor to a domain, nor to the system.
    pub fn is_unscoped(&self) -> bool {
        !self.is_anonymous() && self.project.is_none() && self.domain.is_none() && self.system_scope.is_none()
    }

    /// Compares roles without case, as oslo.policy does.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|held| held.eq_ignore_ascii_case(role))
    }
}

/// A caller, and the ids of the request. Permits and events record both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    pub caller: Caller,
    pub request_id: RequestId,
    /// The global request id, if another service sent one.
    pub global_request_id: Option<RequestId>,
    /// The client's address and program.
    pub source: Option<Arc<RequestSource>>,
}

impl Requester {
    /// The metadata of events that the caller causes. `source`: the client to record; `None` for an event that has the
    /// client in its payload.
    pub(crate) fn meta(&self, source: Option<Arc<RequestSource>>) -> Arc<Meta> {
        let Caller { user, project, roles, .. } = &self.caller;
        self.meta_by(Cause::User { user: user.clone(), project: project.clone(), roles: roles.clone(), source })
    }

    /// The metadata of events with this cause.
    pub(crate) fn meta_by(&self, cause: Cause) -> Arc<Meta> {
        let (request_id, correlation) = (Some(self.request_id.clone()), correlation(&self.request_id));
        Arc::new(Meta { request_id, correlation, causation: None, cause })
    }
}

/// The correlation id, which all events of a request share.
pub(crate) fn correlation(request: &RequestId) -> Uuid {
    let uuid = request.as_str().strip_prefix("req-").and_then(|id| Uuid::parse_str(id).ok());
    uuid.unwrap_or_else(chronova_events::entropy::uuid)
}

/// The rules for service tokens, from `[keystone_authtoken]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTokenRules {
    /// `service_token_roles`: the roles of services. If a service with one of them vouches for an expired user token,
    /// the token is still accepted for a while.
    pub roles: Vec<String>,
    /// `service_token_roles_required`: whether a request is refused if its service token has none of these roles.
    pub required: bool,
}

impl Default for ServiceTokenRules {
    fn default() -> Self {
        Self { roles: vec!["service".to_owned()], required: true }
    }
}

/// A request's tokens, and the operation that it asks for.
#[derive(Debug, Clone, Copy)]
pub struct TokenClaim<'a> {
    pub headers: &'a HeaderMap,
    /// `None` for a later check of an operation that was already permitted, for example the repeated check of a live
    /// feed.
    pub asked: Option<AskedOperation<'a>>,
    pub request: Option<&'a RequestId>,
    pub rules: &'a ServiceTokenRules,
}

/// An operation in the terms of access rules. Application credentials have such rules.
#[derive(Debug, Clone, Copy)]
pub struct AskedOperation<'a> {
    /// The service's type in the catalogue.
    pub service: &'a str,
    pub method: &'a str,
    /// The path below the service's root.
    pub path: &'a str,
}

/// How callers prove who they are.
#[derive(Clone)]
pub enum Authentication {
    Tokens(Arc<dyn IdentityProvider>),
    /// Test mode: every caller is believed. The start refuses this mode if a listener has another address than
    /// loopback.
    NoAuth,
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokens(_) => "Tokens",
            Self::NoAuth => "NoAuth",
        })
    }
}

impl Authentication {
    /// The owner of the token in the headers; `None` if there is no token.
    pub async fn caller(&self, claim: &TokenClaim<'_>) -> Result<Option<Caller>, TokenError> {
        let Some(token) = text(claim.headers, "X-Auth-Token").filter(|token| !token.is_empty()) else {
            return Ok(None);
        };
        let identity = match self {
            Self::Tokens(identity) => identity,
            Self::NoAuth => return Ok(Some(noauth_caller(token, claim.headers))),
        };
        let vouched = service_vouches(identity, claim).await?;
        let user_token = UserToken::new(token);
        let question = TokenQuestion { token: &user_token, allow_expired: vouched, request: claim.request };
        let owner = identity.owner(question).await?;
        // The access rules apply to the user's own request to the first service. They do not apply to the request that
        // this service then sends to another service.
        if !vouched {
            obeys_rules(&owner, claim)?;
        }
        let mut caller = Caller::of_owner(&owner);
        caller.token = Some(Secret::new(token).hash());
        Ok(Some(caller))
    }
}

/// Whether a service with one of the roles of `service_token_roles` sends the request.
async fn service_vouches(identity: &Arc<dyn IdentityProvider>, claim: &TokenClaim<'_>) -> Result<bool, TokenError> {
    let Some(token) = text(claim.headers, "X-Service-Token").filter(|token| !token.is_empty()) else {
        return Ok(false);
    };
    let token = UserToken::new(token);
    let question = TokenQuestion { token: &token, allow_expired: false, request: claim.request };
    let owner = identity.owner(question).await?;
    let named = |role: &String| claim.rules.roles.iter().any(|wanted| wanted.eq_ignore_ascii_case(role));
    let vouches = owner.roles.iter().any(named);
    // The service itself sends this request, so its own access rules must permit the request. Without this check, a
    // token with access rules could be its own service token, and would then escape its rules.
    if vouches {
        obeys_rules(&owner, claim)?;
    }
    if vouches || !claim.rules.required { Ok(vouches) } else { Err(TokenError::Invalid) }
}

/// Refuses a request that the access rules of a token do not permit. A token without rules may ask for everything.
fn obeys_rules(owner: &TokenOwner, claim: &TokenClaim<'_>) -> Result<(), TokenError> {
    match (&owner.access_rules, &claim.asked) {
        (Some(rules), Some(asked)) => check_rules(rules, owner.service_types.as_deref(), asked),
        _ => Ok(()),
    }
}

/// Checks access rules as keystonemiddleware does. The token's catalogue must list the service, and one of the rules
/// must name the operation.
fn check_rules(rules: &[AccessRule], listed: Option<&[String]>, asked: &AskedOperation<'_>) -> Result<(), TokenError> {
    let listed = listed.is_some_and(|listed| listed.iter().any(|kind| kind == asked.service));
    let names = |rule: &AccessRule| {
        rule.service == asked.service && rule.method == asked.method && path_matches(&rule.path, asked.path)
    };
    if listed && rules.iter().any(names) { Ok(()) } else { Err(TokenError::Invalid) }
}

/// One part of a path: the visible characters of ASCII, without the slash.
const PART: &str = "[!-.0-~]+";

/// In a pattern, `*` and `{name}` match one part of a path, and `**` matches any number of parts. Clients escape all
/// characters of a path that are not ASCII, so the classes are ASCII, too. Users choose the patterns, and each request
/// compiles them again. Classes of Unicode would make this expensive.
fn path_matches(pattern: &str, path: &str) -> bool {
    let mut expression = String::from("^");
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let (form, length) = if rest.starts_with("**") {
            ("[!-~]*".to_owned(), 2)
        } else if next == '*' {
            (PART.to_owned(), 1)
        } else if let Some(end) = rest.find('}').filter(|_| next == '{') {
            (PART.to_owned(), end + 1)
        } else {
            (regex::escape(next.encode_utf8(&mut [0; 4])), next.len_utf8())
        };
        expression.push_str(&form);
        rest = &rest[length..];
    }
    expression.push('$');
    Regex::new(&expression).is_ok_and(|expression| expression.is_match(path))
}

/// Reads the caller from a token of `noauth2`: `USER` or `USER:PROJECT`. The user `admin` has the roles `admin`,
/// `manager`, `member` and `reader`; other users have the last two. `X-Roles` replaces the roles, and `X-Project-Id`
/// the project. With `OpenStack-System-Scope`, the token has no project.
fn noauth_caller(token: &str, headers: &HeaderMap) -> Caller {
    let (user, project) = token.split_once(':').unwrap_or((token, token));
    let mut caller = Caller::of_user(UserId::new(user));
    let default_domain = Some(DomainId::new("default"));
    caller.user_domain.clone_from(&default_domain);
    caller.roles = match text(headers, "X-Roles") {
        Some(roles) => roles.split(',').map(str::trim).filter(|role| !role.is_empty()).map(str::to_owned).collect(),
        None if user == "admin" => ["admin", "manager", "member", "reader"].map(str::to_owned).to_vec(),
        None => ["member", "reader"].map(str::to_owned).to_vec(),
    };
    caller.system_scope = text(headers, "OpenStack-System-Scope").map(str::to_owned);
    if caller.system_scope.is_none() {
        let project = text(headers, "X-Project-Id").unwrap_or(project);
        caller.project = Some(ProjectId::new(project));
        caller.project_name = Some(project.to_owned());
        caller.project_domain = default_domain;
    }
    caller.token = Some(Secret::new(token).hash());
    caller
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn paths_match_the_patterns_of_access_rules() {
        for (pattern, path, fits) in [
            ("/v2.1/servers", "/v2.1/servers", true),
            ("/v2.1/servers", "/v2.1/servers/1", false),
            ("/v2.1/servers", "/v2x1/servers", false),
            ("/v2.1/servers/*", "/v2.1/servers/1", true),
            ("/v2.1/servers/*", "/v2.1/servers/1/action", false),
            ("/v2.1/servers/{server_id}/ips", "/v2.1/servers/1/ips", true),
            ("/v2.1/servers/{server_id}/ips", "/v2.1/servers//ips", false),
            ("/v2.1/servers/*", "/v2.1/servers/../flavors", false),
            ("/v2.1/servers", "/v2.1//servers", false),
            ("/v2.1/servers", "/v2.1/servers/", false),
            ("/v2.1/servers", "/v2.1/%73ervers", false),
            ("/v2.1/servers/*", "/v2.1/servers/%2e%2e", true),
            ("/v2.1/**", "/v2.1/servers/1/action", true),
            ("**", "/", true),
            ("/(x|y)", "/x", false),
            ("/{open", "/{open", true),
        ] {
            assert_eq!(path_matches(pattern, path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn access_rules_name_service_method_and_path() {
        let rule = |service: &str, method: &str| AccessRule {
            service: service.to_owned(),
            method: method.to_owned(),
            path: "/v2.1/servers".to_owned(),
        };
        let asked = AskedOperation { service: "compute", method: "GET", path: "/v2.1/servers" };
        let listed = ["compute".to_owned()];
        let check = |rules: &[AccessRule], listed: Option<&[String]>| check_rules(rules, listed, &asked).is_ok();
        assert!(check(&[rule("image", "GET"), rule("compute", "GET")], Some(&listed)));
        assert!(!check(&[rule("compute", "POST")], Some(&listed)));
        assert!(!check(&[rule("image", "GET")], Some(&listed)));
        assert!(!check(&[rule("compute", "GET")], Some(&[])), "a service outside the catalogue was admitted");
        assert!(!check(&[rule("compute", "GET")], None));
        assert!(!check(&[], Some(&listed)));
    }

    #[test]
    fn noauth_reads_user_project_and_roles() {
        let admin = noauth_caller("admin", &headers(&[]));
        assert!(admin.has_role("ADMIN") && admin.has_role("reader"));
        assert_eq!(admin.project, Some(ProjectId::new("admin")));

        let user = noauth_caller("alice:web", &headers(&[]));
        assert_eq!((user.user.as_str(), user.project.clone()), ("alice", Some(ProjectId::new("web"))));
        assert!(!user.has_role("admin") && user.has_role("member"));

        let roles = noauth_caller("admin", &headers(&[("X-Roles", "service, reader")]));
        assert_eq!(roles.roles, ["service", "reader"]);

        let system = noauth_caller("admin", &headers(&[("OpenStack-System-Scope", "all")]));
        assert_eq!((system.project, system.system_scope.as_deref()), (None, Some("all")));
    }
}
