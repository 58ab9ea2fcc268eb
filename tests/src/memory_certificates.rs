//! A key manager in memory with the certificates of `tests/golden/image_signatures.json`, under their names.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use async_trait::async_trait;
use chronova_actors::ports::PortError;
use chronova_actors::ports::keys::CertificateKeeper;
use chronova_events::envelope::Meta;
use serde::Deserialize;

/// A signature of the four bytes `tiny`.
#[derive(Debug, Clone, Deserialize)]
pub struct GoldenSignature {
    pub certificate: String,
    pub key_type: String,
    pub method: String,
    pub signature: String,
}

#[derive(Deserialize)]
struct GoldenFile {
    certificates: BTreeMap<String, String>,
    signatures: Vec<GoldenSignature>,
}

static GOLDEN: LazyLock<GoldenFile> =
    LazyLock::new(|| serde_json::from_str(include_str!("../golden/image_signatures.json")).unwrap());

/// The signature by this certificate with this hash method.
pub fn golden_signature(certificate: &str, method: &str) -> GoldenSignature {
    let found = GOLDEN.signatures.iter().find(|one| one.certificate == certificate && one.method == method);
    found.unwrap().clone()
}

impl GoldenSignature {
    /// The properties of an image with this signature.
    pub fn properties(&self) -> [(&str, &str); 4] {
        [
            ("img_signature", &self.signature),
            ("img_signature_hash_method", &self.method),
            ("img_signature_key_type", &self.key_type),
            ("img_signature_certificate_uuid", &self.certificate),
        ]
    }
}

/// The key manager. While it is silent, it gives no answer.
#[derive(Default)]
pub struct MemoryCertificates {
    silent: Mutex<bool>,
}

impl MemoryCertificates {
    pub fn silence(&self, silent: bool) {
        *self.silent.lock().unwrap() = silent;
    }
}

#[async_trait]
impl CertificateKeeper for MemoryCertificates {
    async fn certificate(&self, id: &str, _: &Meta) -> Result<Vec<u8>, PortError> {
        if *self.silent.lock().unwrap() {
            return Err(PortError::Unavailable("no answer".to_owned()));
        }
        let found = GOLDEN.certificates.get(id).map(|text| text.as_bytes().to_vec());
        found.ok_or_else(|| PortError::NotFound(id.to_owned()))
    }
}
