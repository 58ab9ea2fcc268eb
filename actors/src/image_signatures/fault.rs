//! Why an image was refused. The messages are those of Nova and of the library `cursive`, which Nova uses.

use thiserror::Error;

/// The image's signature or its certificate is not acceptable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignatureFault {
    /// cursive's `SignatureVerificationError`.
    #[error("Signature verification for the image failed: {0}.")]
    Signature(String),
    /// Nova's `CertificateValidationFailed`.
    #[error("Image signature certificate validation failed for certificate: {certificate}. {reason}")]
    Certificate { certificate: String, reason: String },
    /// `[glance] enable_certificate_validation` is on, and neither the request nor the configuration names
    /// certificates.
    #[error(
        "Image signature certificate validation enabled, but no trusted certificate IDs were provided. Unable to \
         validate the certificate used to verify the image signature."
    )]
    NoTrustedCertificates,
}

impl SignatureFault {
    pub(super) fn signature(reason: impl Into<String>) -> Self {
        Self::Signature(reason.into())
    }

    /// The content has another signature than the image's properties say. Nova's exception has no text here.
    pub(super) fn mismatch() -> Self {
        Self::signature("the signature does not match the image's data")
    }
}
