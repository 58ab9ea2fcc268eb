//! X.509 certificates of a key manager.

use std::time::Duration;

use chronova_events::envelope::Timestamp;
use x509_cert::Certificate;
use x509_cert::der::referenced::OwnedToRef as _;
use x509_cert::der::{Decode as _, DecodePem as _, Encode as _};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage};

use super::hash::HashMethod;
use super::public_key::SignerKey;

/// RFC 8017, appendix A.2.4, and RFC 5758, section 3.2. SHA-1 is left out, because it no longer proves anything.
const ALGORITHMS: [(&str, Scheme, HashMethod); 8] = [
    ("1.2.840.113549.1.1.14", Scheme::Pkcs1, HashMethod::Sha224),
    ("1.2.840.113549.1.1.11", Scheme::Pkcs1, HashMethod::Sha256),
    ("1.2.840.113549.1.1.12", Scheme::Pkcs1, HashMethod::Sha384),
    ("1.2.840.113549.1.1.13", Scheme::Pkcs1, HashMethod::Sha512),
    ("1.2.840.10045.4.3.1", Scheme::Ecdsa, HashMethod::Sha224),
    ("1.2.840.10045.4.3.2", Scheme::Ecdsa, HashMethod::Sha256),
    ("1.2.840.10045.4.3.3", Scheme::Ecdsa, HashMethod::Sha384),
    ("1.2.840.10045.4.3.4", Scheme::Ecdsa, HashMethod::Sha512),
];

#[derive(Clone, Copy)]
enum Scheme {
    Pkcs1,
    Ecdsa,
}

/// A certificate, with the parts that a check needs.
#[derive(Debug, Clone)]
pub(super) struct SigningCertificate {
    certificate: Certificate,
    /// The bytes that the issuer has signed.
    signed: Vec<u8>,
    /// `None`: the algorithm of the key is not supported.
    key: Option<SignerKey>,
}

impl PartialEq for SigningCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate
    }
}

impl SigningCertificate {
    /// Reads a certificate in PEM or DER; `None` if it is neither.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let text = bytes.trim_ascii();
        let certificate = match text.starts_with(b"-----BEGIN") {
            true => Certificate::from_pem(text).ok()?,
            false => Certificate::from_der(bytes).ok()?,
        };
        let content = certificate.tbs_certificate();
        let signed = content.to_der().ok()?;
        let key = SignerKey::read(&content.subject_public_key_info().owned_to_ref());
        Some(Self { certificate, signed, key })
    }

    pub(super) fn key(&self) -> Option<&SignerKey> {
        self.key.as_ref()
    }

    /// Whether `now` is within the certificate's validity, both ends included.
    pub(super) fn is_valid_at(&self, now: Timestamp) -> bool {
        let validity = self.certificate.tbs_certificate().validity();
        let seconds = Duration::from_secs(u64::try_from(now.0.div_euclid(1_000_000)).unwrap_or(0));
        (validity.not_before.to_unix_duration()..=validity.not_after.to_unix_duration()).contains(&seconds)
    }

    fn constraints(&self) -> Option<BasicConstraints> {
        let found = self.certificate.tbs_certificate().get_extension::<BasicConstraints>();
        found.ok().flatten().map(|(_, constraints)| constraints)
    }

    /// Whether the certificate may sign other certificates.
    pub(super) fn can_sign(&self) -> bool {
        let usage = self.certificate.tbs_certificate().get_extension::<KeyUsage>().ok().flatten();
        let signs = usage.is_some_and(|(_, usage)| usage.key_cert_sign());
        signs && self.constraints().is_some_and(|constraints| constraints.ca)
    }

    /// How many certificates a chain may have between this certificate and the verified one. `None` means any number.
    pub(super) fn longest_path(&self) -> Option<usize> {
        self.constraints().and_then(|constraints| constraints.path_len_constraint).map(usize::from)
    }

    /// Whether this certificate's subject and key have issued `issued`.
    pub(super) fn has_issued(&self, issued: &Self) -> bool {
        let (own, other) = (self.certificate.tbs_certificate(), issued.certificate.tbs_certificate());
        // RFC 5280, section 4.1.1.2: both parts name the same algorithm.
        let algorithm = issued.certificate.signature_algorithm();
        own.subject() == other.issuer() && other.signature() == algorithm && self.has_signed(issued)
    }

    fn has_signed(&self, issued: &Self) -> bool {
        let oid = issued.certificate.signature_algorithm().oid.to_string();
        let known = ALGORITHMS.iter().find(|(known, ..)| *known == oid);
        let signature = issued.certificate.signature().as_bytes();
        let (Some((_, scheme, method)), Some(signature), Some(key)) = (known, signature, &self.key) else {
            return false;
        };
        let digest = method.digest(&issued.signed);
        match scheme {
            Scheme::Pkcs1 => key.verifies_pkcs1(*method, &digest, signature),
            Scheme::Ecdsa => key.verifies_ecdsa(&digest, signature),
        }
    }
}
