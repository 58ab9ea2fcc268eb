//! The trusted certificates of other services, and Chronova's own certificate for services that request one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_events::authorities;
use chronova_events::unchecked_certificate::UncheckedCertificate;
use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The files of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsTrust {
    /// The file of the trusted authorities (PEM); `None`: the file of the system.
    pub ca_file: Option<PathBuf>,
    /// Whether any certificate is trusted.
    pub insecure: bool,
    /// Chronova's own certificate and its key (PEM), for services that request a certificate.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Why the files cannot be used.
#[derive(Debug, Error)]
pub enum TrustError {
    #[error("{path} cannot be read: {reason}")]
    Read { path: PathBuf, reason: String },
    #[error("{path} holds no certificate")]
    Empty { path: PathBuf },
    #[error("the certificate and its key cannot be used: {0}")]
    Certificate(String),
}

impl TlsTrust {
    /// The settings of TLS.
    pub(in crate::services::external) fn client_config(&self) -> Result<ClientConfig, TrustError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TrustError::Certificate(error.to_string()))?;
        let trusting = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(UncheckedCertificate(provider)))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        match &self.certificate {
            None => Ok(trusting.with_no_client_auth()),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
                trusting
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .map_err(|error| TrustError::Certificate(error.to_string()))
            }
        }
    }

    /// The trusted authorities. A system without a file of authorities trusts none; then only plain HTTP can be called.
    fn roots(&self) -> Result<RootCertStore, TrustError> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = self.ca_file.clone().or_else(authorities::system_file) {
            // A system's file may hold an authority in a form that rustls cannot read. Such an authority is left out.
            let (taken, _) = roots.add_parsable_certificates(certificates(&path)?);
            if taken == 0 {
                return Err(TrustError::Empty { path });
            }
        }
        Ok(roots)
    }
}

fn unreadable(path: &Path, reason: &impl ToString) -> TrustError {
    TrustError::Read { path: path.to_owned(), reason: reason.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let text = std::fs::read(path).map_err(|error: io::Error| unreadable(path, &error))?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| unreadable(path, &error))?;
    if all.is_empty() { Err(TrustError::Empty { path: path.to_owned() }) } else { Ok(all) }
}

#[cfg(test)]
mod tests;
