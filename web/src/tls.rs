//! TLS with rustls: certificates and keys from files, for every listener that has them.
//!
//! TLS 1.2 and 1.3 are offered (some listeners offer 1.3 alone), with the cipher suites that rustls considers safe. The
//! files are read at start-up. If a file cannot be used, the start fails with an error that names the file. The
//! certificates of the listeners are read again on request ([`ServedCertificate`]).

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DEFAULT_VERSIONS, DigitallySignedStruct, Error as RustlsError, RootCertStore,
    ServerConfig, SignatureScheme, SupportedProtocolVersion, version,
};

/// The versions of a listener for clients with TLS 1.3.
static NEWEST: &[&SupportedProtocolVersion] = &[&version::TLS13];

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

/// The certificate of running listeners. Connections that begin after a [`ServedCertificate::reload`] get the new one.
#[derive(Debug, Clone)]
pub struct ServedCertificate(Arc<ServedPair>);

#[derive(Debug)]
struct ServedPair {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
    versions: &'static [&'static SupportedProtocolVersion],
}

impl ServedCertificate {
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        Self::open_with(files, DEFAULT_VERSIONS)
    }

    /// Like [`open`](Self::open), for listeners that refuse clients without TLS 1.3.
    pub fn open_for_newest(files: TlsFiles) -> Result<Self, TlsError> {
        Self::open_with(files, NEWEST)
    }

    fn open_with(files: TlsFiles, versions: &'static [&'static SupportedProtocolVersion]) -> Result<Self, TlsError> {
        let current = RwLock::new(Arc::new(files.certified()?));
        Ok(Self(Arc::new(ServedPair { files, current, versions })))
    }

    /// Reads the certificate and the key again. After an error the present ones stay. The authorities of clients stay
    /// until the next start.
    pub fn reload(&self) -> Result<(), TlsError> {
        let fresh = Arc::new(self.0.files.certified()?);
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// The configuration of a listener that shows the present certificate.
    pub fn server_config(&self) -> Result<ServerConfig, TlsError> {
        self.0.files.server_config_with(Arc::clone(&self.0) as _, self.0.versions)
    }
}

impl ResolvesServerCert for ServedPair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl TlsFiles {
    /// The configuration of a listener.
    pub fn server_config(&self) -> Result<ServerConfig, TlsError> {
        ServedCertificate::open(self.clone())?.server_config()
    }

    fn pair_error(&self, error: &tokio_rustls::rustls::Error) -> TlsError {
        TlsError::Pair { certificate: self.certificate.clone(), key: self.key.clone(), reason: error.to_string() }
    }

    fn certified(&self) -> Result<CertifiedKey, TlsError> {
        let certificates = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?).map_err(|error| unusable(&self.key, error))?;
        let certified = CertifiedKey::from_der(certificates, key, &ring::default_provider());
        certified.map_err(|error| self.pair_error(&error))
    }

    fn server_config_with(
        &self,
        resolver: Arc<dyn ResolvesServerCert>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Result<ServerConfig, TlsError> {
        let pair = |error: tokio_rustls::rustls::Error| self.pair_error(&error);
        // The provider is explicit, because another crate may have installed a different default.
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(pair)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| unusable(path, error))?)
            }
        };
        Ok(builder.with_cert_resolver(resolver))
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
        let pair = |error: tokio_rustls::rustls::Error| self.pair_error(&error);
        let roots = self.client_ca.as_deref().map_or_else(|| Ok(RootCertStore::empty()), roots)?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(pair)?;
        let builder = builder.with_root_certificates(roots);
        builder.with_client_auth_cert(certificates(&self.certificate)?, key).map_err(pair)
    }
}

/// The configuration of a client that accepts any server whose certificate one of the authorities has signed. The name
/// in the certificate does not matter. `own` is the client's certificate and its key.
pub(crate) fn client_of_any_name(authorities: &Path, own: Option<(&Path, &Path)>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots(authorities)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|error| unusable(authorities, error))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(authorities, error))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyNameVerifier(verifier)));
    let Some((certificate, key)) = own else { return Ok(builder.with_no_client_auth()) };
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unusable(key, error))?;
    builder.with_client_auth_cert(certificates(certificate)?, private).map_err(|error| TlsError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        reason: error.to_string(),
    })
}

/// Checks everything but the name in a server's certificate.
#[derive(Debug)]
struct AnyNameVerifier(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyNameVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        // The inner verifier checks the name last, so everything else is right if only the name is wrong.
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(RustlsError::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
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
