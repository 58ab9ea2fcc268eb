//! TLS with rustls: certificates and keys from files, for every listener that has them.
//!
//! TLS 1.2 and 1.3 are offered, with the cipher suites that rustls considers safe. The files are read once, at
//! start-up. Start-up fails with the name of a file that cannot be used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A certificate (with its chain) and its private key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The certificate authorities of clients. With this file every client needs a certificate that one of these
    /// authorities signed.
    pub client_ca: Option<PathBuf>,
}

/// A certificate or key file that cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("{path} cannot be used for TLS: {reason}")]
    File { path: PathBuf, reason: String },
    #[error("the certificate {certificate} cannot be used with the key {key}: {reason}")]
    Pair { certificate: PathBuf, key: PathBuf, reason: String },
}

impl TlsFiles {
    /// The configuration of a listener.
    pub fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let certificates = certificates(&self.certificate)?;
        let key = read(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable(&self.key, error))?;
        let pair = |error: tokio_rustls::rustls::Error| TlsError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            reason: error.to_string(),
        };
        // The provider is explicit, because another crate may have installed a different default.
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(pair)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| unusable(path, error))?)
            }
        };
        builder.with_single_cert(certificates, key).map_err(pair)
    }

    /// Checks that `client_ca` has signed this certificate, so that peers with the same authority accept it.
    pub fn check_authority(&self) -> Result<(), TlsError> {
        let Some(path) = &self.client_ca else { return Ok(()) };
        let chain = certificates(&self.certificate)?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider).build();
        let verifier = verifier.map_err(|error| unusable(path, error))?;
        let Some((own, others)) = chain.split_first() else { return Ok(()) };
        match verifier.verify_client_cert(own, others, UnixTime::now()) {
            Ok(_) => Ok(()),
            Err(error) => {
                Err(unusable(&self.certificate, format!("{} has not signed it for clients: {error}", path.display())))
            }
        }
    }

    /// The configuration of a client. The client shows this certificate, and accepts servers whose certificate
    /// `client_ca` has signed.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?).map_err(|error| unusable(&self.key, error))?;
        let pair = |error: tokio_rustls::rustls::Error| TlsError::Pair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            reason: error.to_string(),
        };
        let roots = self.client_ca.as_deref().map_or_else(|| Ok(RootCertStore::empty()), roots)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(pair)?;
        let builder = builder.with_root_certificates(roots);
        builder.with_client_auth_cert(certificates(&self.certificate)?, key).map_err(pair)
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, error))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| unusable(path, error))?;
    if found.is_empty() {
        return Err(unusable(path, "there is no certificate in it"));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, reason: impl std::fmt::Display) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn errors_name_the_unusable_file() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("a.pem"), folder.path().join("a.key"));
        let files = TlsFiles { certificate: certificate.clone(), key, client_ca: None };
        let error = files.server_config().unwrap_err().to_string();
        assert!(error.contains("a.pem cannot be used for TLS"), "{error}");
        std::fs::write(&certificate, "not a certificate").unwrap();
        let error = files.server_config().unwrap_err().to_string();
        assert!(error.contains("there is no certificate in it"), "{error}");
    }
}
