//! The certificate authorities that a system trusts.

use std::path::PathBuf;

/// The usual files of a system's trusted certificate authorities.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// The system's file of trusted authorities; `None` if it is in none of the usual places.
pub fn system_file() -> Option<PathBuf> {
    AUTHORITIES.iter().map(PathBuf::from).find(|path| path.is_file())
}
