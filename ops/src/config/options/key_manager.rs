//! The key manager that has the certificates of signed images, with castellan's option names.

use std::path::PathBuf;

use super::super::option::Default::Text;

section! {
    /// Key manager: where the certificates of signed images are.
    KeyManager = "key_manager" from Nova {
        backend: String => here {
            default: Text("barbican"), deprecated: &[("key_manager", "api_class")],
            help: "Key manager with the certificates of signed images. Only barbican is supported: another value stops the \
                   start. Secrets of emulated TPMs are elsewhere, see [chronova] key_manager.",
        }
    }
}

impl KeyManager {
    /// Whether the backend is Barbican: by its short name, or by the name of castellan's class.
    pub fn is_barbican(&self) -> bool {
        let class = "barbican_key_manager.BarbicanKeyManager";
        self.backend == "barbican" || self.backend == class || self.backend.ends_with(&format!(".{class}"))
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
