//! The key manager that has the certificates of signed images and the keys of encrypted volumes, with castellan's
//! option names.

use std::path::PathBuf;

use super::super::option::Default::Text;

section! {
    /// Key manager: where the certificates of signed images and the keys of encrypted volumes are.
    KeyManager = "key_manager" from Nova {
        backend: String => here {
            default: Text("barbican"), deprecated: &[("key_manager", "api_class")],
            help: "Key manager with the certificates of signed images and the keys of encrypted volumes: barbican or \
                   vault. Another value stops the start. Secrets of emulated TPMs are there only if [chronova] \
                   key_manager is external.",
        }
    }
}

impl KeyManager {
    /// Whether the backend is Barbican: by its short name, or by the name of castellan's class.
    pub fn is_barbican(&self) -> bool {
        self.is("barbican", "barbican_key_manager.BarbicanKeyManager")
    }

    /// Whether the backend is Vault.
    pub fn is_vault(&self) -> bool {
        self.is("vault", "vault_key_manager.VaultKeyManager")
    }

    fn is(&self, name: &str, class: &str) -> bool {
        self.backend == name || self.backend == class || self.backend.ends_with(&format!(".{class}"))
    }
}

section! {
    /// Vault, if it is the key manager. Chronova reads and writes secrets there with this account.
    Vault = "vault" from Nova {
        vault_url: String => here {
            default: Text("http://127.0.0.1:8200"),
            help: "Address of Vault.",
        }
        root_token_id: Option<String> => here {
            secret: true,
            help: "Token with which Chronova reads secrets. With [chronova] key_manager = external, it must also be \
                   allowed to create and delete secrets. It need not be a root token.",
        }
        approle_role_id: Option<String> => here {
            secret: true,
            help: "Role of Vault's AppRole, with which Chronova logs in if root_token_id is unset.",
        }
        approle_secret_id: Option<String> => here {
            secret: true,
            help: "Secret of that role.",
        }
        kv_mountpoint: String => here {
            default: Text("secret"),
            help: "Mount point of the key-value store in Vault.",
        }
        kv_path: Option<String> => here {
            help: "Folder of the secrets in the store. Unset: the store's root.",
        }
        kv_version: u32 => here {
            default: Text("2"), min: Some(1.0), max: Some(2.0),
            help: "Version of the key-value store.",
        }
        ssl_ca_crt_file: Option<PathBuf> => here {
            help: "File with certificates (PEM) of authorities that sign Vault's. Unset: the system's.",
        }
        namespace: Option<String> => here {
            help: "Namespace in Vault Enterprise.",
        }
        timeout: f64 => here {
            default: Text("60.0"), min: Some(0.1), max: Some(3600.0), unit: "seconds",
            help: "How long one answer of Vault may take.",
        }
    }
}

section! {
    /// Real Barbican. The user's token makes the calls, and [service_user] decides whether a service's token goes with it.
    Barbican = "barbican" from Nova {
        barbican_endpoint: Option<String> => here {
            help: "Address of Barbican. Unset: the one in Keystone's catalogue.",
        }
        barbican_api_version: Option<String> => here {
            help: "Version of Barbican's API: v1, which is the only one. Unset: v1.",
        }
        barbican_endpoint_type: String => here {
            default: Text("public"), choices: &["public", "internal", "admin"],
            help: "Barbican's endpoint in the catalogue.",
        }
        barbican_region_name: Option<String> => here {
            help: "Region of that endpoint. Unset: any.",
        }
        verify_ssl: bool => here {
            default: Text("true"),
            help: "Check Barbican's certificate.",
        }
        verify_ssl_path: Option<PathBuf> => here {
            help: "File with certificates (PEM) of authorities that sign Barbican's. Unset: the system's.",
        }
    }
}
