//! The service catalogue: the services of this cloud and their endpoints.
//!
//! The configuration determines the catalogue. So the catalogue is not stored, and the API cannot change it. Ids are
//! derived from the region and the services' types, so the same configuration gives the same ids on every start.

use chronova_events::identity::IdentityScope;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::links::Links;

/// The interfaces under which every endpoint is listed.
const INTERFACES: [&str; 3] = ["admin", "internal", "public"];

/// A service of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceEntry {
    /// `compute`, `placement`...
    pub kind: String,
    /// `nova`, `placement`...: the names that tools expect.
    pub name: String,
    pub description: String,
    pub url: String,
}

/// All services, in one region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceCatalogue {
    pub region: String,
    pub services: Vec<ServiceEntry>,
}

/// Type, name, description and path of the services on the common port.
const ON_ONE_PORT: [(&str, &str, &str, &str); 7] = [
    ("block-storage", "cinder", "Block Storage", "/volume/v3"),
    ("compute", "nova", "Compute", "/compute/v2.1"),
    ("identity", "keystone", "Identity", "/identity"),
    ("image", "glance", "Image", "/image"),
    ("network", "neutron", "Network", "/network"),
    ("placement", "placement", "Placement", "/placement"),
    ("volumev3", "cinderv3", "Block Storage", "/volume/v3/$(project_id)s"),
];

impl ServiceCatalogue {
    /// Every service below one address: `http://host:port`.
    pub fn on_one_port(base: &str, region: &str) -> Self {
        let base = base.trim_end_matches('/');
        let services = ON_ONE_PORT
            .iter()
            .map(|(kind, name, description, path)| ServiceEntry {
                kind: (*kind).to_owned(),
                name: (*name).to_owned(),
                description: (*description).to_owned(),
                url: format!("{base}{path}"),
            })
            .collect();
        Self { region: region.to_owned(), services }
    }

    /// Adds a service. The entry replaces a service of the same kind.
    #[must_use]
    pub fn with(mut self, entry: ServiceEntry) -> Self {
        self.services.retain(|known| known.kind != entry.kind);
        self.services.push(entry);
        self.services.sort_by(|a, b| a.kind.cmp(&b.kind));
        self
    }

    fn id(&self, what: &str) -> String {
        let seed = Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("chronova:{}", self.region).as_bytes());
        Uuid::new_v5(&seed, what.as_bytes()).simple().to_string()
    }

    /// The catalogue for a token. The token's project replaces `%(project_id)s` and its other spellings. For a token
    /// without a project, services stay in the catalogue, but endpoints whose URLs need a project are left out.
    pub(super) fn in_token(&self, scope: Option<&IdentityScope>) -> Value {
        let services = self.services.iter().map(|service| {
            let url = substitute(&service.url, scope);
            let endpoints: Vec<Value> = url.map_or_else(Vec::new, |url| {
                INTERFACES.iter().map(|interface| self.endpoint_in_token(service, interface, &url)).collect()
            });
            json!({
                "endpoints": endpoints,
                "id": self.service_id(service),
                "type": service.kind,
                "name": service.name,
            })
        });
        Value::Array(services.collect())
    }

    fn endpoint_in_token(&self, service: &ServiceEntry, interface: &str, url: &str) -> Value {
        json!({
            "id": self.endpoint_id(service, interface),
            "interface": interface,
            "region_id": self.region,
            "url": url,
            "region": self.region,
        })
    }

    fn service_id(&self, service: &ServiceEntry) -> String {
        self.id(&format!("service:{}", service.kind))
    }

    fn endpoint_id(&self, service: &ServiceEntry, interface: &str) -> String {
        self.id(&format!("endpoint:{}:{interface}", service.kind))
    }

    pub(super) fn services(&self, links: &Links) -> Vec<Value> {
        self.services
            .iter()
            .map(|service| {
                let id = self.service_id(service);
                json!({
                    "description": service.description,
                    "name": service.name,
                    "id": id,
                    "type": service.kind,
                    "enabled": true,
                    "links": {"self": links.to_self("services", &id)},
                })
            })
            .collect()
    }

    pub(super) fn endpoints(&self, links: &Links) -> Vec<Value> {
        let of = |service: &ServiceEntry, interface: &str| {
            let id = self.endpoint_id(service, interface);
            json!({
                "id": id,
                "interface": interface,
                "region_id": self.region,
                "service_id": self.service_id(service),
                "url": service.url,
                "name": service.name,
                "region": self.region,
                "enabled": true,
                "links": {"self": links.to_self("endpoints", &id)},
            })
        };
        self.services.iter().flat_map(|service| INTERFACES.map(|interface| of(service, interface))).collect()
    }

    pub(super) fn regions(&self, links: &Links) -> Vec<Value> {
        vec![json!({
            "id": self.region,
            "description": "",
            "parent_region_id": null,
            "links": {"self": links.to_self("regions", &self.region)},
        })]
    }
}

/// Replaces the project in a URL. `None` if the URL needs a project and the token has none.
fn substitute(url: &str, scope: Option<&IdentityScope>) -> Option<String> {
    if !url.contains("%(") && !url.contains("$(") {
        return Some(url.to_owned());
    }
    let Some(IdentityScope::Project(project)) = scope else { return None };
    let mut url = url.to_owned();
    for name in ["%(project_id)s", "%(tenant_id)s", "$(project_id)s", "$(tenant_id)s"] {
        url = url.replace(name, project.as_str());
    }
    Some(url)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn ids_are_stable_and_urls_know_the_project() {
        let volume = ServiceEntry {
            kind: "volumev3".into(),
            name: "cinderv3".into(),
            description: String::new(),
            url: "http://h/volume/v3/$(project_id)s".into(),
        };
        let catalogue = ServiceCatalogue::on_one_port("http://h:1/", "RegionOne").with(volume);
        let scoped = catalogue.in_token(Some(&IdentityScope::Project("p1".into())));
        assert_eq!(scoped, catalogue.in_token(Some(&IdentityScope::Project("p1".into()))));
        assert_eq!(scoped[1]["endpoints"][2]["url"], "http://h:1/compute/v2.1");
        assert_eq!(scoped[6]["endpoints"][0]["url"], "http://h/volume/v3/p1");
        // The URL of `volumev3` needs a project, and this token has none. As in Keystone, the service stays.
        let unscoped = catalogue.in_token(None);
        let kinds = |shown: &Value| -> Vec<Value> {
            shown.as_array().unwrap().iter().map(|service| service["type"].clone()).collect()
        };
        assert_eq!(kinds(&unscoped), kinds(&scoped));
        assert_eq!((&unscoped[6]["type"], &unscoped[6]["endpoints"]), (&json!("volumev3"), &json!([])));
        assert_eq!(unscoped[1], scoped[1]);
    }
}
