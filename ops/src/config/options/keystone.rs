//! Real Keystone: who may call, and the accounts with which other services are called.

use std::path::PathBuf;

use super::super::account::{AccountFields, HasAccount};
use super::super::option::Default::Text;

/// Declares a section with an account in Keystone: the options of keystoneauth's plugins, and further options.
macro_rules! account_section {
    (
        $(#[$doc:meta])*
        $ty:ident = $section:literal from $origin:ident { $($rest:tt)* }
    ) => {
        section! {
            $(#[$doc])*
            $ty = $section from $origin {
                auth_url: Option<String> => here {
                    help: "Address of Keystone, with or without /v3.",
                }
                auth_type: Option<String> => here {
                    choices: &["password", "v3password", "v3applicationcredential"],
                    deprecated: &[($section, "auth_plugin")],
                    help: "How the account proves itself.",
                }
                auth_section: Option<String> => here {
                    help: "Section to take the account from. Not supported: a value stops the start.",
                }
                username: Option<String> => here {
                    deprecated: &[($section, "user_name")],
                    help: "Name of the account's user.",
                }
                user_id: Option<String> => here {
                    help: "Id of the account's user, in place of its name and domain.",
                }
                password: Option<String> => here {
                    secret: true,
                    help: "Password of the account's user.",
                }
                user_domain_name: Option<String> => here {
                    help: "Domain of the user, by name.",
                }
                user_domain_id: Option<String> => here {
                    help: "Domain of the user, by id.",
                }
                project_name: Option<String> => here {
                    deprecated: &[($section, "tenant_name")],
                    help: "Name of the project in which the account works.",
                }
                project_id: Option<String> => here {
                    deprecated: &[($section, "tenant_id")],
                    help: "Id of that project, in place of its name and domain.",
                }
                project_domain_name: Option<String> => here {
                    help: "Domain of the project, by name.",
                }
                project_domain_id: Option<String> => here {
                    help: "Domain of the project, by id.",
                }
                default_domain_name: Option<String> => here {
                    help: "Domain of the user and of the project by name, if their own options are not set.",
                }
                default_domain_id: Option<String> => here {
                    help: "Domain of the user and of the project by id, if their own options are not set.",
                }
                domain_name: Option<String> => here {
                    help: "Domain in which the account works, by name; in place of a project.",
                }
                domain_id: Option<String> => here {
                    help: "Domain in which the account works, by id; in place of a project.",
                }
                system_scope: Option<String> => here {
                    choices: &["all"],
                    help: "Let the account work in the whole cloud; in place of a project.",
                }
                trust_id: Option<String> => here {
                    help: "Trust with which the account works. Not supported: a value stops the start.",
                }
                application_credential_id: Option<String> => here {
                    help: "Id of the application credential of auth_type v3applicationcredential.",
                }
                application_credential_name: Option<String> => here {
                    help: "Name of the application credential. With it, set the user that owns the credential.",
                }
                application_credential_secret: Option<String> => here {
                    secret: true,
                    help: "Secret of the application credential.",
                }
                cafile: Option<PathBuf> => here {
                    help: "File with certificates (PEM) of authorities that sign the certificates of the services called. Unset: \
                           the system's.",
                }
                certfile: Option<PathBuf> => here {
                    help: "File with the certificate (PEM) that Chronova shows to the services called.",
                }
                keyfile: Option<PathBuf> => here {
                    help: "File with the private key of certfile (PEM).",
                }
                insecure: bool => here {
                    default: Text("false"),
                    help: "Trust any certificate.",
                }
                $($rest)*
            }
        }

        impl HasAccount for $ty {
            fn account(&self) -> AccountFields<'_> {
                AccountFields {
                    section: $section,
                    auth_url: self.auth_url.as_deref(),
                    auth_type: self.auth_type.as_deref(),
                    auth_section: self.auth_section.as_deref(),
                    username: self.username.as_deref(),
                    user_id: self.user_id.as_deref(),
                    password: self.password.as_deref(),
                    user_domain_name: self.user_domain_name.as_deref(),
                    user_domain_id: self.user_domain_id.as_deref(),
                    project_name: self.project_name.as_deref(),
                    project_id: self.project_id.as_deref(),
                    project_domain_name: self.project_domain_name.as_deref(),
                    project_domain_id: self.project_domain_id.as_deref(),
                    default_domain_name: self.default_domain_name.as_deref(),
                    default_domain_id: self.default_domain_id.as_deref(),
                    domain_name: self.domain_name.as_deref(),
                    domain_id: self.domain_id.as_deref(),
                    system_scope: self.system_scope.as_deref(),
                    trust_id: self.trust_id.as_deref(),
                    application_credential_id: self.application_credential_id.as_deref(),
                    application_credential_name: self.application_credential_name.as_deref(),
                    application_credential_secret: self.application_credential_secret.as_deref(),
                    cafile: self.cafile.as_deref(),
                    certfile: self.certfile.as_deref(),
                    keyfile: self.keyfile.as_deref(),
                    insecure: self.insecure,
                }
            }
        }
    };
}

pub(super) use account_section;

account_section! {
    /// keystonemiddleware's section: the Keystone that validates tokens. With `auth_url` it takes the place of the
    /// embedded identity service.
    KeystoneAuthtoken = "keystone_authtoken" from Nova {
        www_authenticate_uri: Option<String> => web.www_authenticate_uri {
            deprecated: &[("keystone_authtoken", "auth_uri")],
            help: "Keystone's public address, which a 401 answer names. Unset: auth_url. With the embedded identity \
                   service: the host of the request.",
        }
        interface: String => here {
            default: Text("internal"), choices: &["public", "internal", "admin"],
            help: "Which of Keystone's endpoints in the catalogue is asked about tokens.",
        }
        region_name: Option<String> => here {
            help: "Region of that endpoint. Unset: any.",
        }
        include_service_catalog: bool => here {
            default: Text("true"),
            help: "Ask for the catalogue of tokens. Without it, tokens with access rules are refused.",
        }
        token_cache_time: i32 => here {
            default: Text("300"), min: Some(-1.0), unit: "seconds",
            help: "How long Keystone's answer about a token is kept; for that time a revoked token may still be accepted. \
                   -1 asks Keystone for every request. At most 10000 tokens are kept, in this process.",
        }
        service_token_roles: Vec<String> => web.service_tokens.roles {
            help: "Roles of services. If X-Service-Token has a token with one of these roles, a user's token is \
                   valid for some time after it has expired.",
        }
        service_token_roles_required: bool => web.service_tokens.required {
            help: "Refuse an X-Service-Token without any of these roles. This is keystonemiddleware's present \
                   default; it was false until 2025.",
        }
        http_connect_timeout: Option<u32> => here {
            min: Some(1.0), max: Some(300.0), unit: "seconds",
            help: "How long one answer of Keystone may take. Unset: 10, where Nova waits without end.",
        }
        http_request_max_retries: u32 => here {
            default: Text("3"), max: Some(10.0),
            help: "How often a call is repeated when Keystone cannot be reached.",
        }
    }
}

account_section! {
    /// Nova's section for the token that goes beside a user's token to Glance and the other services.
    ServiceUser = "service_user" from Nova {
        send_service_user_token: bool => here {
            default: Text("false"),
            help: "Send a token of this account (X-Service-Token) with calls that carry a user's token. Long work \
                   then succeeds even if the user's token expires meanwhile.",
        }
        timeout: Option<u32> => here {
            min: Some(1.0), max: Some(300.0), unit: "seconds",
            help: "How long Keystone may take to issue that token. Unset: 10, where Nova waits without end.",
        }
    }
}

account_section! {
    /// Nova's section for the account that calls the services of `[api] vendordata_dynamic_targets`.
    VendorDataAuth = "vendordata_dynamic_auth" from Nova {
        timeout: Option<u32> => here {
            min: Some(1.0), max: Some(300.0), unit: "seconds",
            help: "How long Keystone may take to issue a token for these services. Unset: 10, where Nova waits without end.",
        }
    }
}
