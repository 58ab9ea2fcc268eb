//! Signatures by RSA and by the elliptic curves P-256, P-384 and P-521.
//!
//! Only public keys are used here, so the attacks on the time of private operations do not apply.

use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use rsa::sha2::{Sha224, Sha256, Sha384, Sha512};
use rsa::traits::PublicKeyParts as _;
use rsa::{Pkcs1v15Sign, Pss};
use x509_cert::spki::SubjectPublicKeyInfoRef;

use super::hash::HashMethod;

/// The public key of a certificate. RSA keys have 1024 to 8192 bits.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SignerKey {
    Rsa(rsa::PublicKey),
    P256(p256::ecdsa::VerifyingKey),
    P384(p384::ecdsa::VerifyingKey),
    P521(p521::ecdsa::VerifyingKey),
}

impl SignerKey {
    /// The key; `None` for an algorithm or a curve that is not supported.
    pub(super) fn read(info: &SubjectPublicKeyInfoRef<'_>) -> Option<Self> {
        let rsa = rsa::PublicKey::try_from(info.clone()).map(Self::Rsa);
        let p256 = || p256::ecdsa::VerifyingKey::try_from(info.clone()).map(Self::P256);
        let p384 = || p384::ecdsa::VerifyingKey::try_from(info.clone()).map(Self::P384);
        let p521 = || p521::ecdsa::VerifyingKey::try_from(info.clone()).map(Self::P521);
        rsa.or_else(|_| p256()).or_else(|_| p384()).or_else(|_| p521()).ok()
    }

    pub(super) fn is_rsa(&self) -> bool {
        matches!(self, Self::Rsa(_))
    }

    /// Verifies an RSASSA-PSS signature whose salt is as long as the key allows: cursive's `padding.PSS.MAX_LENGTH`.
    pub(super) fn verifies_pss(&self, method: HashMethod, digest: &[u8], signature: &[u8]) -> bool {
        let Self::Rsa(key) = self else { return false };
        // RFC 8017, section 9.1: the encoded message has one bit less than the modulus.
        let encoded = usize::try_from(key.n().bit_width().saturating_sub(1).div_ceil(8)).unwrap_or(0);
        let Some(salt) = encoded.checked_sub(digest.len() + 2) else { return false };
        let verified = match method {
            HashMethod::Sha224 => key.verify(Pss::<Sha224>::new_with_salt(salt), digest, signature),
            HashMethod::Sha256 => key.verify(Pss::<Sha256>::new_with_salt(salt), digest, signature),
            HashMethod::Sha384 => key.verify(Pss::<Sha384>::new_with_salt(salt), digest, signature),
            HashMethod::Sha512 => key.verify(Pss::<Sha512>::new_with_salt(salt), digest, signature),
        };
        verified.is_ok()
    }

    /// Verifies the signature of a certificate by RSASSA-PKCS1-v1_5.
    pub(super) fn verifies_pkcs1(&self, method: HashMethod, digest: &[u8], signature: &[u8]) -> bool {
        let Self::Rsa(key) = self else { return false };
        let scheme = match method {
            HashMethod::Sha224 => Pkcs1v15Sign::new::<Sha224>(),
            HashMethod::Sha256 => Pkcs1v15Sign::new::<Sha256>(),
            HashMethod::Sha384 => Pkcs1v15Sign::new::<Sha384>(),
            HashMethod::Sha512 => Pkcs1v15Sign::new::<Sha512>(),
        };
        key.verify(scheme, digest, signature).is_ok()
    }

    /// Verifies an ECDSA signature in DER.
    pub(super) fn verifies_ecdsa(&self, digest: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa(_) => false,
            Self::P256(key) => p256::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok()),
            Self::P384(key) => p384::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok()),
            Self::P521(key) => p521::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok()),
        }
    }
}
