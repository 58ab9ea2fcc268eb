//! Options about signatures of images, and about the key manager that has their certificates.

use super::super::{Config, Severity};
use super::services::is_address;
use super::{Clash, error};

/// Checks the options of the key manager. The checks of images need a key manager. An operator who turns the checks on
/// relies on them, so Chronova does not start without one.
pub(super) fn signatures(config: &Config) -> Vec<Clash> {
    let (glance, barbican) = (&config.glance, &config.barbican);
    let mut clashes = Vec::new();
    let mut found = |is: bool, clash: Clash| clashes.extend(is.then_some(clash));
    let backend = &config.key_manager.backend;
    let is_vault = config.key_manager.is_vault();
    found(
        !config.key_manager.is_barbican() && !is_vault,
        Clash {
            severity: Severity::Error,
            at: ("key_manager", "backend"),
            message: format!(
                "[key_manager] backend = {backend} is not supported: set barbican or vault, or remove the option if no \
                 image is signed"
            )
            .into(),
        },
    );
    found(
        barbican.barbican_api_version.as_deref().is_some_and(|version| version.trim_matches('/') != "v1"),
        error(
            ("barbican", "barbican_api_version"),
            "[barbican] barbican_api_version is not v1: Barbican has no other version, so set v1 or remove the option",
        ),
    );
    found(
        barbican.barbican_endpoint.as_deref().is_some_and(|address| !is_address(address)),
        error(
            ("barbican", "barbican_endpoint"),
            "[barbican] barbican_endpoint is no address; write it as http://controller:9311",
        ),
    );
    let of_vault = if is_vault { vault(config) } else { Vec::new() };
    for clash in of_vault {
        found(true, clash);
    }
    let without_keystone = config.keystone_authtoken.auth_url.is_none() || config.api.auth_strategy == "noauth2";
    let keyless = without_keystone && !is_vault;
    found(
        keyless && config.chronova.key_manager == "external",
        error(
            ("chronova", "key_manager"),
            "[chronova] key_manager = external and this cloud has no key manager: set [keystone_authtoken] auth_url to a \
             Keystone that has Barbican in its catalogue, or set [key_manager] backend to vault",
        ),
    );
    for (is, name) in [
        (glance.verify_glance_signatures, "verify_glance_signatures"),
        (glance.enable_certificate_validation, "enable_certificate_validation"),
    ] {
        let message = format!(
            "[glance] {name} is on and this cloud has no key manager with certificates: set [keystone_authtoken] auth_url \
             to a Keystone that has Barbican in its catalogue, set [key_manager] backend to vault, or set {name} to false"
        );
        found(is && keyless, Clash { severity: Severity::Error, at: ("glance", name), message: message.into() });
    }
    warnings(config, keyless, found);
    clashes
}

/// The options of Vault, if it is the key manager.
fn vault(config: &Config) -> Vec<Clash> {
    let vault = &config.vault;
    let mut clashes = Vec::new();
    if !is_address(&vault.vault_url) {
        let words = "[vault] vault_url is no address; write it as https://controller:8200";
        clashes.push(error(("vault", "vault_url"), words));
    }
    if vault.root_token_id.is_none() && vault.approle_role_id.is_none() {
        let words =
            "[key_manager] backend = vault needs an account in Vault: set [vault] root_token_id or approle_role_id";
        clashes.push(error(("key_manager", "backend"), words));
    }
    clashes
}

/// Options that have no effect beside the others.
fn warnings(config: &Config, keyless: bool, mut found: impl FnMut(bool, Clash)) {
    let glance = &config.glance;
    let both = glance.verify_glance_signatures && glance.enable_certificate_validation;
    let warning = |name, message: &'static str| Clash {
        severity: Severity::Warning,
        at: ("glance", name),
        message: message.into(),
    };
    found(
        glance.enable_certificate_validation && !glance.verify_glance_signatures,
        warning(
            "enable_certificate_validation",
            "[glance] enable_certificate_validation has no effect without verify_glance_signatures, except for servers \
             whose request names trusted_image_certificates: set verify_glance_signatures to true",
        ),
    );
    found(
        !glance.default_trusted_certificate_ids.is_empty() && !both,
        warning(
            "default_trusted_certificate_ids",
            "[glance] default_trusted_certificate_ids has no effect unless verify_glance_signatures and \
             enable_certificate_validation are on",
        ),
    );
    found(
        both && glance.default_trusted_certificate_ids.is_empty(),
        warning(
            "enable_certificate_validation",
            "[glance] default_trusted_certificate_ids is empty, so a server whose request names no \
             trusted_image_certificates fails",
        ),
    );
    found(
        glance.unchecked_certificates && !keyless,
        warning(
            "unchecked_certificates",
            "[glance] unchecked_certificates has no effect: certificates are verified with the key manager",
        ),
    );
}
