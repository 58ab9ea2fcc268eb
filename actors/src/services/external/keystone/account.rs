//! The account with which Chronova calls other services, as a section of the configuration describes it.

use serde_json::{Map, Value, json};

use crate::ports::UserToken;

/// Keystone's address, an account that gets its tokens there, and the scope of the tokens.
#[derive(Debug, Clone)]
pub struct ServiceAccount {
    /// `http://controller:5000`, with or without `/v3`.
    pub auth_url: String,
    pub credentials: Credentials,
    pub scope: AccountScope,
}

/// A user or a project: by its id, or by its name in a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedInDomain {
    Id(String),
    Name { name: String, domain: DomainChoice },
}

/// A domain, by its id or its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DomainChoice {
    Id(String),
    Name(String),
}

/// How the account authenticates.
#[derive(Debug, Clone)]
pub enum Credentials {
    Password {
        user: NamedInDomain,
        password: UserToken,
    },
    /// An application credential, by its id or by its name and its user.
    ApplicationCredential {
        credential: Result<String, (String, NamedInDomain)>,
        secret: UserToken,
    },
}

/// The scope that the account asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountScope {
    /// The scope of the application credential.
    OfCredential,
    Project(NamedInDomain),
    Domain(DomainChoice),
    System,
}

impl DomainChoice {
    fn json(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name(name) => json!({"name": name}),
        }
    }
}

impl NamedInDomain {
    fn json(&self) -> Map<String, Value> {
        let mut map = Map::new();
        match self {
            Self::Id(id) => drop(map.insert("id".to_owned(), json!(id))),
            Self::Name { name, domain } => {
                map.insert("name".to_owned(), json!(name));
                map.insert("domain".to_owned(), domain.json());
            }
        }
        map
    }
}

impl ServiceAccount {
    /// The address of Keystone's API, version 3.
    pub fn root(&self) -> String {
        root(&self.auth_url)
    }

    /// The body of `POST /v3/auth/tokens`.
    pub fn request(&self) -> Value {
        let identity = match &self.credentials {
            Credentials::Password { user, password } => {
                let mut user = user.json();
                user.insert("password".to_owned(), json!(password.expose()));
                json!({"methods": ["password"], "password": {"user": user}})
            }
            Credentials::ApplicationCredential { credential, secret } => {
                let mut proof = Map::new();
                match credential {
                    Ok(id) => drop(proof.insert("id".to_owned(), json!(id))),
                    Err((name, user)) => {
                        proof.insert("name".to_owned(), json!(name));
                        proof.insert("user".to_owned(), Value::Object(user.json()));
                    }
                }
                proof.insert("secret".to_owned(), json!(secret.expose()));
                json!({"methods": ["application_credential"], "application_credential": proof})
            }
        };
        let mut auth = json!({"identity": identity});
        match &self.scope {
            AccountScope::OfCredential => {}
            AccountScope::Project(project) => auth["scope"] = json!({"project": project.json()}),
            AccountScope::Domain(domain) => auth["scope"] = json!({"domain": domain.json()}),
            AccountScope::System => auth["scope"] = json!({"system": {"all": true}}),
        }
        json!({"auth": auth})
    }
}

/// The root of Keystone's API, version 3. `url` is an identity endpoint, with a version or without one.
pub(super) fn root(url: &str) -> String {
    let url = url.trim_end_matches('/');
    let bare = url.strip_suffix("/v2.0").unwrap_or(url);
    if bare.ends_with("/v3") { bare.to_owned() } else { format!("{bare}/v3") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> NamedInDomain {
        NamedInDomain::Name { name: name.to_owned(), domain: DomainChoice::Name("Default".to_owned()) }
    }

    #[test]
    fn every_address_leads_to_version_3() {
        for url in ["http://c:5000", "http://c:5000/", "http://c:5000/v3", "http://c:5000/v3/", "http://c:5000/v2.0"] {
            assert_eq!(root(url), "http://c:5000/v3", "{url}");
        }
        assert_eq!(root("https://c/identity"), "https://c/identity/v3");
    }

    #[test]
    fn a_password_asks_for_a_project() {
        let account = ServiceAccount {
            auth_url: String::new(),
            credentials: Credentials::Password { user: named("nova"), password: UserToken::new("s3cret") },
            scope: AccountScope::Project(named("service")),
        };
        assert!(!format!("{account:?}").contains("s3cret"), "no secret is printed");
        let expected = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": "nova", "domain": {"name": "Default"}, "password": "s3cret",
            }}},
            "scope": {"project": {"name": "service", "domain": {"name": "Default"}}},
        }});
        assert_eq!(account.request(), expected);
    }

    #[test]
    fn an_application_credential_has_its_scope() {
        let secret = UserToken::new("s3cret");
        let credential = Err(("chronova".to_owned(), NamedInDomain::Id("77".to_owned())));
        let account = ServiceAccount {
            auth_url: String::new(),
            credentials: Credentials::ApplicationCredential { credential, secret },
            scope: AccountScope::OfCredential,
        };
        let expected = json!({"auth": {"identity": {
            "methods": ["application_credential"],
            "application_credential": {"name": "chronova", "user": {"id": "77"}, "secret": "s3cret"},
        }}});
        assert_eq!(account.request(), expected);
    }
}
