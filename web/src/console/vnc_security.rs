//! The options that protect connections to hosts' VNC servers.

use std::path::PathBuf;

use tokio_rustls::rustls::ClientConfig;

use crate::tls::{self, TlsError};

/// A way to protect the connection to a host's VNC server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VncScheme {
    /// No protection.
    None,
    /// TLS with certificates of both sides.
    Vencrypt,
}

impl VncScheme {
    /// All schemes.
    pub const ALL: [Self; 2] = [Self::None, Self::Vencrypt];

    /// The word in `[vnc] auth_schemes`.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Vencrypt => "vencrypt",
        }
    }
}

/// The protection of connections to hosts' VNC servers. The files are read for each connection, so that renewed
/// certificates need no restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VncSecurity {
    /// `[vnc] auth_schemes`, the preferred one first.
    pub schemes: Vec<VncScheme>,
    /// `[vnc] vencrypt_client_key`, in PEM.
    pub client_key: Option<PathBuf>,
    /// `[vnc] vencrypt_client_cert`, in PEM.
    pub client_certificate: Option<PathBuf>,
    /// `[vnc] vencrypt_ca_certs`, in PEM: the authorities of the hosts.
    pub authorities: Option<PathBuf>,
}

impl Default for VncSecurity {
    fn default() -> Self {
        Self { schemes: vec![VncScheme::None], client_key: None, client_certificate: None, authorities: None }
    }
}

impl VncSecurity {
    /// Reads the files once, if a scheme needs them. An error names the file that cannot be used.
    pub fn check(&self) -> Result<(), TlsError> {
        match self.authorities {
            Some(_) if self.schemes.contains(&VncScheme::Vencrypt) => self.client_config().map(drop),
            _ => Ok(()),
        }
    }

    /// The configuration of the gateway's side of TLS.
    pub(super) fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let own = self.client_certificate.as_deref().zip(self.client_key.as_deref());
        let authorities = self.authorities.clone().unwrap_or_default();
        tls::client_of_any_name(&authorities, own)
    }
}
