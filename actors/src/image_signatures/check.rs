//! When an image is verified, and with which certificates: Nova's `_get_verifier`.

use std::sync::Arc;

use chronova_events::clock::Clock;
use chronova_events::envelope::Meta;
use futures::{StreamExt as _, stream};

use super::certificate::SigningCertificate;
use super::chain::{self, TrustedCertificate};
use super::fault::SignatureFault;
use super::hash::HashMethod;
use super::properties::{ImageSignature, KeyType};
use crate::coordination::known_digests::KnownDigests;
use crate::ports::PortError;
use crate::ports::keys::CertificateKeeper;

/// How many trusted certificates are read at the same time. A request names at most 50.
const AT_ONCE: usize = 8;

/// The operator's options of image signatures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignatureOptions {
    /// `[glance] verify_glance_signatures`.
    pub verify: bool,
    /// `[glance] enable_certificate_validation`.
    pub validate_certificates: bool,
    /// `[glance] default_trusted_certificate_ids`.
    pub default_trusted: Vec<String>,
    /// `[glance] unchecked_certificates`: without a key manager, a server keeps the certificates of its request, and
    /// Chronova does not check them. If `verify` is on, each image is nevertheless checked or refused.
    pub unchecked: bool,
}

impl SignatureOptions {
    /// The certificates that are trusted for a server, from its request or else from the configuration. As Nova
    /// documents it, the configuration's certificates count only if both checks are on.
    pub fn trusted<'a>(&'a self, requested: &'a [String]) -> &'a [String] {
        match (requested, self.verify && self.validate_certificates) {
            ([], true) => &self.default_trusted,
            _ => requested,
        }
    }
}

/// Verifies images. Shared by all processes and host agents.
pub struct ImageSignatures {
    options: SignatureOptions,
    /// `None`: this cloud has no key manager with certificates.
    keeper: Option<Arc<dyn CertificateKeeper>>,
    clock: Arc<dyn Clock>,
    pub(super) digests: KnownDigests,
}

impl std::fmt::Debug for ImageSignatures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImageSignatures").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The check that the content of one image must pass.
#[derive(Debug)]
pub(super) struct SignatureCheck {
    claimed: ImageSignature,
    certificate: SigningCertificate,
}

impl SignatureCheck {
    pub(super) fn method(&self) -> HashMethod {
        self.claimed.method
    }

    /// Compares the signature with the digest of the image's content.
    pub(super) fn judge(&self, digest: &[u8]) -> Result<(), SignatureFault> {
        let (claimed, key) = (&self.claimed, self.certificate.key());
        let right = key.is_some_and(|key| match claimed.key_type {
            KeyType::RsaPss => key.verifies_pss(claimed.method, digest, &claimed.signature),
            KeyType::Ecc => key.verifies_ecdsa(digest, &claimed.signature),
        });
        if right { Ok(()) } else { Err(SignatureFault::mismatch()) }
    }
}

impl ImageSignatures {
    pub fn new(
        options: SignatureOptions,
        keeper: Option<Arc<dyn CertificateKeeper>>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        Arc::new(Self { options, keeper, clock, digests: KnownDigests::default() })
    }

    /// The check of an image with these properties, for a server with the certificates `requested`. `None` if
    /// verification is off and the server needs no check: it has no trusted certificates, or `unchecked` lets them go
    /// unchecked.
    pub(super) async fn check(
        &self,
        properties: &[(String, String)],
        requested: &[String],
        work: &Meta,
    ) -> Result<Option<SignatureCheck>, SignatureFault> {
        let trusted = self.options.trusted(requested);
        let unchecked = self.keeper.is_none() && self.options.unchecked;
        if !self.options.verify && (trusted.is_empty() || unchecked) {
            return Ok(None);
        }
        let check = self.verifier(properties, work).await?;
        if !trusted.is_empty() {
            self.validate(&check.claimed.certificate, &check.certificate, trusted, work).await?;
        } else if self.options.validate_certificates {
            return Err(SignatureFault::NoTrustedCertificates);
        }
        Ok(Some(check))
    }

    /// The check of an upload. As in Glance, it depends only on the image's properties. `None`: they describe no
    /// signature, or this cloud has no key manager.
    pub(super) async fn check_of_upload(
        &self,
        properties: &[(String, String)],
        work: &Meta,
    ) -> Result<Option<SignatureCheck>, SignatureFault> {
        match self.keeper.is_some() && ImageSignature::is_described(properties) {
            true => self.verifier(properties, work).await.map(Some),
            false => Ok(None),
        }
    }

    /// Reads the signature that the properties describe, and its certificate.
    async fn verifier(&self, properties: &[(String, String)], work: &Meta) -> Result<SignatureCheck, SignatureFault> {
        let claimed = ImageSignature::read(properties)?;
        let certificate = self.certificate(&claimed.certificate, work).await?;
        let fits = certificate.key().is_some_and(|key| key.is_rsa() == (claimed.key_type == KeyType::RsaPss));
        if !fits {
            let name = &claimed.key_type_name;
            return Err(SignatureFault::signature(format!("Invalid public key type for signature key type: {name}")));
        }
        Ok(SignatureCheck { claimed, certificate })
    }

    /// Validates the certificate of a signature. A trusted certificate that cannot be read is left out, as in Nova.
    async fn validate(
        &self,
        id: &str,
        certificate: &SigningCertificate,
        trusted: &[String],
        work: &Meta,
    ) -> Result<(), SignatureFault> {
        let read = |id: String| async move {
            match self.certificate(&id, work).await {
                Ok(certificate) => Some(TrustedCertificate { id, certificate }),
                Err(error) => {
                    tracing::warn!(certificate = id, %error, "a trusted certificate cannot be used");
                    None
                }
            }
        };
        let all: Vec<_> = stream::iter(trusted.to_vec()).map(read).buffered(AT_ONCE).collect().await;
        let all: Vec<TrustedCertificate> = all.into_iter().flatten().collect();
        chain::verify(certificate, &all, self.clock.now())
            .map_err(|reason| SignatureFault::Certificate { certificate: id.to_owned(), reason })
    }

    /// Reads a certificate from the key manager, for the user whose request began the work.
    async fn certificate(&self, id: &str, work: &Meta) -> Result<SigningCertificate, SignatureFault> {
        let unread = || SignatureFault::signature(format!("Unable to retrieve certificate with ID: {id}"));
        let Some(keeper) = &self.keeper else {
            tracing::warn!(certificate = id, "this cloud has no key manager, so no certificate can be read");
            return Err(unread());
        };
        let bytes = keeper.certificate(id, work).await.map_err(|error| match error {
            PortError::NotFound(_) => SignatureFault::signature(format!("Certificate not found with ID: {id}")),
            PortError::Invalid(reason) => SignatureFault::signature(reason),
            other => {
                tracing::warn!(certificate = id, error = %other, "a certificate cannot be read");
                unread()
            }
        })?;
        let unusable = || SignatureFault::signature(format!("The certificate {id} is not an X.509 certificate"));
        SigningCertificate::read(&bytes).ok_or_else(unusable)
    }
}
