//! Options of the connections between the console gateway and hosts' VNC servers.

use super::super::Config;
use super::{Clash, error, half_set};

const SCHEMES: (&str, &str) = ("vnc", "auth_schemes");

/// A gateway without an authority of the hosts, or with half a certificate, could open no screen.
pub(super) fn screens(config: &Config) -> Vec<Clash> {
    let vnc = &config.vnc;
    let mut clashes = Vec::new();
    let mut found = |is: bool, clash: Clash| clashes.extend(is.then_some(clash));
    found(
        vnc.auth_schemes.is_empty(),
        error(SCHEMES, "[vnc] auth_schemes is empty, so no screen could be opened: name none, vencrypt, or both"),
    );
    found(
        vnc.auth_schemes.iter().any(|scheme| scheme == "vencrypt") && vnc.vencrypt_ca_certs.is_none(),
        error(
            SCHEMES,
            "[vnc] auth_schemes has vencrypt and vencrypt_ca_certs is not set: name the file of the authorities that \
             signed the certificates of the hosts' VNC servers",
        ),
    );
    let certificate = ("vencrypt_client_cert", vnc.vencrypt_client_cert.is_some());
    clashes.extend(half_set("vnc", certificate, ("vencrypt_client_key", vnc.vencrypt_client_key.is_some())));
    clashes
}
