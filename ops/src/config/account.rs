//! Reads an account in Keystone from the options of a section.
//!
//! keystoneauth finds out at its first call that an account is incomplete. Here an incomplete account stops the start.

use std::path::Path;

use chronova_actors::ports::UserToken;
use chronova_actors::services::external::http::TlsTrust;
use chronova_actors::services::external::keystone::account::DomainChoice;
use chronova_actors::services::external::keystone::{AccountScope, Credentials, NamedInDomain, ServiceAccount};

use super::options::services::Glance;

/// A section with an account.
pub trait HasAccount {
    fn account(&self) -> AccountFields<'_>;
}

/// The options of an account.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "it holds secrets")]
pub struct AccountFields<'a> {
    pub section: &'static str,
    pub auth_url: Option<&'a str>,
    pub auth_type: Option<&'a str>,
    pub auth_section: Option<&'a str>,
    pub username: Option<&'a str>,
    pub user_id: Option<&'a str>,
    pub password: Option<&'a str>,
    pub user_domain_name: Option<&'a str>,
    pub user_domain_id: Option<&'a str>,
    pub project_name: Option<&'a str>,
    pub project_id: Option<&'a str>,
    pub project_domain_name: Option<&'a str>,
    pub project_domain_id: Option<&'a str>,
    pub default_domain_name: Option<&'a str>,
    pub default_domain_id: Option<&'a str>,
    pub domain_name: Option<&'a str>,
    pub domain_id: Option<&'a str>,
    pub system_scope: Option<&'a str>,
    pub trust_id: Option<&'a str>,
    pub application_credential_id: Option<&'a str>,
    pub application_credential_name: Option<&'a str>,
    pub application_credential_secret: Option<&'a str>,
    pub cafile: Option<&'a Path>,
    pub certfile: Option<&'a Path>,
    pub keyfile: Option<&'a Path>,
    pub insecure: bool,
}

/// A mistake in an account: the option to correct, and how to correct it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountProblem {
    pub option: &'static str,
    pub message: String,
}

impl AccountFields<'_> {
    fn problem(&self, option: &'static str, what: &str) -> AccountProblem {
        AccountProblem { option, message: format!("[{}] {option} {what}", self.section) }
    }

    /// The account; `None` where the section has none.
    pub fn complete(&self) -> Result<Option<ServiceAccount>, AccountProblem> {
        for (option, value) in [("auth_section", self.auth_section), ("trust_id", self.trust_id)] {
            if value.is_some() {
                return Err(self.problem(option, "is not supported: write the account's own options in this section"));
            }
        }
        let Some(auth_url) = self.auth_url else { return self.without_address() };
        let host = auth_url.strip_prefix("http://").or_else(|| auth_url.strip_prefix("https://"));
        if host.is_none_or(|host| host.is_empty() || host.starts_with('/') || auth_url.contains(char::is_whitespace)) {
            return Err(
                self.problem("auth_url", "is not an address of Keystone: write it as http://controller:5000/v3")
            );
        }
        let (credentials, scope) = match self.auth_type {
            Some("v3applicationcredential") => (self.application_credential()?, AccountScope::OfCredential),
            Some(_) => (self.password()?, self.scope()?),
            None => return Err(self.problem("auth_type", "is not set: password is what most accounts have")),
        };
        Ok(Some(ServiceAccount { auth_url: auth_url.to_owned(), credentials, scope }))
    }

    /// Refuses an account without `auth_url`, because the operator would believe that the account is in effect.
    fn without_address(&self) -> Result<Option<ServiceAccount>, AccountProblem> {
        let set = [
            ("auth_type", self.auth_type),
            ("username", self.username),
            ("user_id", self.user_id),
            ("password", self.password),
            ("project_name", self.project_name),
            ("project_id", self.project_id),
            ("application_credential_id", self.application_credential_id),
            ("application_credential_name", self.application_credential_name),
            ("application_credential_secret", self.application_credential_secret),
        ];
        match set.into_iter().find(|(_, value)| value.is_some()) {
            None => Ok(None),
            Some((option, _)) => Err(self.problem(
                option,
                "is set and auth_url is not: set auth_url to Keystone's address, or take the account out",
            )),
        }
    }

    fn password(&self) -> Result<Credentials, AccountProblem> {
        let user = self.user()?;
        let password = self.password.ok_or_else(|| self.problem("password", "is not set"))?;
        Ok(Credentials::Password { user, password: UserToken::new(password) })
    }

    fn user(&self) -> Result<NamedInDomain, AccountProblem> {
        let domain = domain(self.user_domain_id, self.user_domain_name).or_else(|| self.default_domain());
        match (self.user_id, self.username) {
            (Some(id), _) => Ok(NamedInDomain::Id(id.to_owned())),
            (None, Some(name)) => {
                let missing = "is not set: the domain of the user, Default in most clouds";
                let domain = domain.ok_or_else(|| self.problem("user_domain_name", missing))?;
                Ok(NamedInDomain::Name { name: name.to_owned(), domain })
            }
            (None, None) => Err(self.problem("username", "is not set")),
        }
    }

    fn application_credential(&self) -> Result<Credentials, AccountProblem> {
        let secret = self.application_credential_secret;
        let secret = secret.ok_or_else(|| self.problem("application_credential_secret", "is not set"))?;
        let credential = match (self.application_credential_id, self.application_credential_name) {
            (Some(id), _) => Ok(id.to_owned()),
            (None, Some(name)) => Err((name.to_owned(), self.user()?)),
            (None, None) => return Err(self.problem("application_credential_id", "is not set")),
        };
        Ok(Credentials::ApplicationCredential { credential, secret: UserToken::new(secret) })
    }

    fn scope(&self) -> Result<AccountScope, AccountProblem> {
        if self.system_scope.is_some() {
            return Ok(AccountScope::System);
        }
        if let Some(domain) = domain(self.domain_id, self.domain_name) {
            return Ok(AccountScope::Domain(domain));
        }
        let domain = domain(self.project_domain_id, self.project_domain_name).or_else(|| self.default_domain());
        match (self.project_id, self.project_name) {
            (Some(id), _) => Ok(AccountScope::Project(NamedInDomain::Id(id.to_owned()))),
            (None, Some(name)) => {
                let missing = "is not set: the domain of the project, Default in most clouds";
                let domain = domain.ok_or_else(|| self.problem("project_domain_name", missing))?;
                Ok(AccountScope::Project(NamedInDomain::Name { name: name.to_owned(), domain }))
            }
            (None, None) => Err(self.problem("project_name", "is not set: service in most clouds")),
        }
    }

    fn default_domain(&self) -> Option<DomainChoice> {
        domain(self.default_domain_id, self.default_domain_name)
    }

    /// The settings of TLS. A certificate needs its key, and a key its certificate.
    pub fn trust(&self) -> Result<TlsTrust, AccountProblem> {
        trust_of(self.section, self.cafile, (self.certfile, self.keyfile), self.insecure)
    }
}

/// The files of TLS of `[glance]`, which has no account of its own.
pub fn glance_trust(section: &Glance) -> Result<TlsTrust, AccountProblem> {
    trust_of(
        "glance",
        section.cafile.as_deref(),
        (section.certfile.as_deref(), section.keyfile.as_deref()),
        section.insecure,
    )
}

fn trust_of(
    section: &str,
    ca_file: Option<&Path>,
    certificate: (Option<&Path>, Option<&Path>),
    insecure: bool,
) -> Result<TlsTrust, AccountProblem> {
    let needs = |option, other| AccountProblem { option, message: format!("[{section}] {option} needs {other}") };
    let certificate = match certificate {
        (Some(certificate), Some(key)) => Some((certificate.to_owned(), key.to_owned())),
        (None, None) => None,
        (Some(_), None) => return Err(needs("certfile", "keyfile")),
        (None, Some(_)) => return Err(needs("keyfile", "certfile")),
    };
    Ok(TlsTrust { ca_file: ca_file.map(Path::to_owned), insecure, certificate })
}

fn domain(id: Option<&str>, name: Option<&str>) -> Option<DomainChoice> {
    let by_id = id.map(|id| DomainChoice::Id(id.to_owned()));
    by_id.or_else(|| name.map(|name| DomainChoice::Name(name.to_owned())))
}
