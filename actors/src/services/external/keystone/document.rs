//! The document of a token (`{"token": {...}}`), and the catalogue in it.

use chrono::DateTime;
use chronova_events::envelope::Timestamp;
use serde::Deserialize;

use crate::ports::identity::{AccessRule, TokenOwner, TokenScope};

#[derive(Debug, Deserialize)]
pub(super) struct TokenBody {
    pub token: TokenDocument,
}

/// The parts of a token's document that Chronova reads.
#[derive(Debug, Deserialize)]
pub(super) struct TokenDocument {
    user: NamedPart,
    expires_at: String,
    #[serde(default)]
    roles: Vec<RolePart>,
    project: Option<NamedPart>,
    domain: Option<IdPart>,
    system: Option<SystemPart>,
    application_credential: Option<CredentialPart>,
    #[serde(default)]
    pub catalog: Option<Vec<CatalogueService>>,
    is_admin_project: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct IdPart {
    id: String,
}

#[derive(Debug, Deserialize)]
struct RolePart {
    name: String,
}

#[derive(Debug, Deserialize)]
struct NamedPart {
    id: String,
    name: String,
    domain: Option<IdPart>,
}

#[derive(Debug, Deserialize)]
struct SystemPart {
    #[serde(default)]
    all: bool,
}

#[derive(Debug, Deserialize)]
struct CredentialPart {
    access_rules: Option<Vec<RulePart>>,
}

#[derive(Debug, Deserialize)]
struct RulePart {
    service: String,
    method: String,
    path: String,
}

/// A service in the catalogue.
#[derive(Debug, Clone, Deserialize)]
pub struct CatalogueService {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub endpoints: Vec<CatalogueEndpoint>,
}

/// An address of a service.
#[derive(Debug, Clone, Deserialize)]
pub struct CatalogueEndpoint {
    pub interface: String,
    pub region_id: Option<String>,
    pub url: String,
}

/// The address of a service that has one of these types. If several interfaces match, the one that comes first in
/// `interfaces` wins.
pub fn endpoint<'a>(
    catalogue: &'a [CatalogueService],
    kinds: &[&str],
    interfaces: &[&str],
    region: Option<&str>,
) -> Option<&'a str> {
    let endpoints = || {
        let services = catalogue.iter().filter(|service| kinds.contains(&service.kind.as_str()));
        let all = services.flat_map(|service| &service.endpoints);
        all.filter(|endpoint| region.is_none() || endpoint.region_id.as_deref() == region)
    };
    interfaces.iter().find_map(|wanted| endpoints().find(|one| one.interface == *wanted)).map(|one| one.url.as_str())
}

/// Parses a time of Keystone: `2030-01-02T03:04:05.000000Z`.
fn time(text: &str) -> Option<Timestamp> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| Timestamp(time.timestamp_micros()))
}

impl TokenDocument {
    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        time(&self.expires_at)
    }

    pub(super) fn project_id(&self) -> Option<String> {
        self.project.as_ref().map(|project| project.id.clone())
    }

    /// The owner of the token; `None` if the document is not valid.
    pub(super) fn owner(self) -> Option<TokenOwner> {
        let expires_at = self.expires_at()?;
        let domain = |part: Option<IdPart>| part.map(|part| part.id.into());
        let scope = match (self.project, self.domain, self.system) {
            (Some(project), ..) => {
                TokenScope::Project { id: project.id.into(), name: project.name, domain: domain(project.domain) }
            }
            (None, Some(part), _) => TokenScope::Domain(part.id.into()),
            (None, None, Some(system)) if system.all => TokenScope::System,
            _ => TokenScope::Unscoped,
        };
        let rules = self.application_credential.and_then(|credential| credential.access_rules);
        let rule = |part: RulePart| AccessRule { service: part.service, method: part.method, path: part.path };
        Some(TokenOwner {
            user: self.user.id.into(),
            user_name: self.user.name,
            user_domain: domain(self.user.domain),
            scope,
            roles: self.roles.into_iter().map(|role| role.name).collect(),
            expires_at,
            access_rules: rules.map(|rules| rules.into_iter().map(rule).collect()),
            service_types: self.catalog.map(|all| all.into_iter().map(|service| service.kind).collect()),
            is_admin_project: self.is_admin_project.unwrap_or(true),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn owner(more: &Value) -> Option<TokenOwner> {
        let mut token = json!({
            "user": {"id": "u1", "name": "ann", "domain": {"id": "default", "name": "Default"}},
            "expires_at": "2030-01-02T03:04:05.000000Z",
        });
        token.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value::<TokenBody>(json!({"token": token})).unwrap().token.owner()
    }

    #[test]
    fn every_scope_is_read() {
        let project = json!({"id": "p1", "name": "web", "domain": {"id": "default"}});
        let found = owner(&json!({"project": project, "roles": [{"id": "r", "name": "member"}]})).unwrap();
        let scope = TokenScope::Project { id: "p1".into(), name: "web".to_owned(), domain: Some("default".into()) };
        assert_eq!((found.scope, found.roles), (scope, vec!["member".to_owned()]));
        assert_eq!(found.expires_at.iso_seconds(), "2030-01-02T03:04:05Z");
        assert!(found.is_admin_project && found.access_rules.is_none() && found.service_types.is_none());
        let domain = json!({"domain": {"id": "d1", "name": "Sales"}, "is_admin_project": false});
        let found = owner(&domain).unwrap();
        assert_eq!((found.scope, found.is_admin_project), (TokenScope::Domain("d1".into()), false));
        assert_eq!(owner(&json!({"system": {"all": true}})).unwrap().scope, TokenScope::System);
        assert_eq!(owner(&json!({})).unwrap().scope, TokenScope::Unscoped);
        assert_eq!(owner(&json!({"expires_at": "soon"})), None);
    }

    #[test]
    fn rules_of_an_application_credential_are_kept() {
        let rules = json!([{"id": "1", "service": "compute", "method": "GET", "path": "/v2.1/servers"}]);
        let found = owner(&json!({"application_credential": {"id": "c", "access_rules": rules}})).unwrap();
        assert_eq!(found.access_rules.unwrap().len(), 1);
        let none = owner(&json!({"application_credential": {"id": "c", "access_rules": []}})).unwrap();
        assert_eq!(none.access_rules, Some(Vec::new()), "an empty list of rules permits no request");
        assert_eq!(owner(&json!({"application_credential": {"id": "c"}})).unwrap().access_rules, None);
    }

    #[test]
    fn the_catalogue_is_searched_by_interface_and_region() {
        let one = |interface: &str, region: &str| {
            let url = format!("{interface}.{region}");
            CatalogueEndpoint { interface: interface.to_owned(), region_id: Some(region.to_owned()), url }
        };
        let endpoints = vec![one("public", "A"), one("public", "B"), one("internal", "B")];
        let catalogue = [CatalogueService { kind: "image".to_owned(), endpoints }];
        let find = |interfaces: &[&str], region| endpoint(&catalogue, &["image"], interfaces, region);
        assert_eq!(find(&["internal", "public"], None), Some("internal.B"));
        assert_eq!(find(&["internal", "public"], Some("A")), Some("public.A"));
        assert_eq!(find(&["admin"], None), None);
        assert_eq!(endpoint(&catalogue, &["network"], &["public"], None), None);
    }
}
