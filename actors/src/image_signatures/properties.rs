//! The image properties that describe a signature, as Nova's administration guide documents them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::fault::SignatureFault;
use super::hash::HashMethod;

const SIGNATURE: &str = "img_signature";
const HASH_METHOD: &str = "img_signature_hash_method";
const KEY_TYPE: &str = "img_signature_key_type";
const CERTIFICATE: &str = "img_signature_certificate_uuid";

/// The kind of key in `img_signature_key_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyType {
    /// RSASSA-PSS with the longest salt that the key allows.
    RsaPss,
    /// ECDSA. As in cursive, the certificate alone determines the curve.
    Ecc,
}

impl KeyType {
    /// cursive also knows DSA and the curves SECT409K1, SECT409R1, SECT571K1 and SECT571R1, if its library has them.
    /// Chronova has none of them: DSA is withdrawn, and no maintained library in Rust has binary curves.
    const NAMES: [(&'static str, Self); 3] =
        [("RSA-PSS", Self::RsaPss), ("ECC_SECP384R1", Self::Ecc), ("ECC_SECP521R1", Self::Ecc)];
}

/// The signature that an image claims to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageSignature {
    pub signature: Vec<u8>,
    pub method: HashMethod,
    pub key_type: KeyType,
    /// The name of the key type, for messages.
    pub key_type_name: String,
    /// The id of the certificate in the key manager.
    pub certificate: String,
}

impl ImageSignature {
    /// Whether all properties of a signature are there: cursive's `should_create_verifier`.
    pub(super) fn is_described(properties: &[(String, String)]) -> bool {
        let has = |name: &str| properties.iter().any(|(key, _)| key == name);
        [SIGNATURE, HASH_METHOD, KEY_TYPE, CERTIFICATE].into_iter().all(has)
    }

    /// Reads the properties in cursive's order, so that an error names the same property as cursive's error.
    pub(super) fn read(properties: &[(String, String)]) -> Result<Self, SignatureFault> {
        let value = |name: &str, shown: &str| {
            let found = properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            found.ok_or_else(|| {
                SignatureFault::signature(format!(
                    "Required image properties for signature verification do not exist. Cannot verify signature. \
                     Missing property: {shown}"
                ))
            })
        };
        let certificate = value(CERTIFICATE, "img_signature_uuid")?;
        let method = value(HASH_METHOD, HASH_METHOD)?;
        let signature = value(SIGNATURE, SIGNATURE)?;
        let key_type = value(KEY_TYPE, KEY_TYPE)?;
        let bare: String = signature.split_ascii_whitespace().collect();
        let signature = STANDARD
            .decode(bare)
            .map_err(|_| SignatureFault::signature("The signature data was not properly encoded using base64"))?;
        let known = KeyType::NAMES.iter().find(|(name, _)| *name == key_type);
        let method = HashMethod::of_name(method)
            .ok_or_else(|| SignatureFault::signature(format!("Invalid signature hash method: {method}")))?;
        let (_, kind) =
            known.ok_or_else(|| SignatureFault::signature(format!("Invalid signature key type: {key_type}")))?;
        Ok(Self {
            signature,
            method,
            key_type: *kind,
            key_type_name: key_type.to_owned(),
            certificate: certificate.to_owned(),
        })
    }
}
