//! Certificates and signatures of another implementation (`tests/golden/image_signatures.py`), and changed ones.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::clock::SystemClock;
use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::ImageId;
use chronova_hypervisor::driver::{ByteStream, Driver, DriverError, DriverResult, ImageSource};
use chronova_hypervisor::guest::{ImageFormat, ImageRef};
use chronova_hypervisor::sim::{CoreOnly, SimFleet, SimUri};
use serde::Deserialize;
use uuid::Uuid;

use super::certificate::SigningCertificate;
use super::chain::{self, TrustedCertificate};
use super::hash::{HashMethod, hex};
use super::*;
use crate::ports::PortError;
use crate::ports::keys::CertificateKeeper;

#[derive(Debug, Clone, Deserialize)]
struct GoldenSignature {
    certificate: String,
    key_type: String,
    method: String,
    #[serde(rename = "signature")]
    base64: String,
}

#[derive(Debug, Deserialize)]
struct Golden {
    certificates: BTreeMap<String, String>,
    signatures: Vec<GoldenSignature>,
    short_salt: Vec<GoldenSignature>,
}

static GOLDEN: LazyLock<Golden> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../tests/golden/image_signatures.json")).unwrap());

const CONTENT: &[u8] = b"tiny";

/// 2030-01-01.
const NOW: Timestamp = Timestamp(1_893_456_000_000_000);

fn certificate(name: &str) -> SigningCertificate {
    SigningCertificate::read(GOLDEN.certificates[name].as_bytes()).unwrap()
}

fn signed_by(name: &str, method: &str) -> GoldenSignature {
    GOLDEN.signatures.iter().find(|one| one.certificate == name && one.method == method).unwrap().clone()
}

fn properties(of: &GoldenSignature) -> Vec<(String, String)> {
    [
        ("img_signature", of.base64.as_str()),
        ("img_signature_hash_method", &of.method),
        ("img_signature_key_type", &of.key_type),
        ("img_signature_certificate_uuid", &of.certificate),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec()
}

fn but(name: &str, value: Option<&str>, of: &[(String, String)]) -> Vec<(String, String)> {
    let mut properties: Vec<_> = of.iter().filter(|(key, _)| key != name).cloned().collect();
    properties.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    properties
}

/// Has the golden certificates under their names, and `broken`, which is no certificate. `silent` has no answer.
struct GoldenKeeper;

#[async_trait]
impl CertificateKeeper for GoldenKeeper {
    async fn certificate(&self, id: &str, _: &Meta) -> Result<Vec<u8>, PortError> {
        match id {
            "broken" => Ok(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----".to_vec()),
            "silent" => Err(PortError::Unavailable("no answer".to_owned())),
            "opaque" => Err(PortError::Invalid("Invalid certificate format: opaque".to_owned())),
            _ => GOLDEN
                .certificates
                .get(id)
                .map(|text| text.as_bytes().to_vec())
                .ok_or_else(|| PortError::NotFound(id.to_owned())),
        }
    }
}

fn signatures(options: SignatureOptions) -> Arc<ImageSignatures> {
    ImageSignatures::new(options, Some(Arc::new(GoldenKeeper)), Arc::new(SystemClock))
}

fn verifying() -> SignatureOptions {
    SignatureOptions { verify: true, ..SignatureOptions::default() }
}

fn both(default_trusted: &[&str]) -> SignatureOptions {
    let default_trusted = default_trusted.iter().map(|id| (*id).to_owned()).collect();
    SignatureOptions { verify: true, validate_certificates: true, default_trusted, unchecked: false }
}

/// A source that counts how often it is opened.
struct Counted {
    content: &'static [u8],
    opened: AtomicUsize,
}

impl Counted {
    fn new(content: &'static [u8]) -> Arc<Self> {
        Arc::new(Self { content, opened: AtomicUsize::new(0) })
    }

    fn opened(&self) -> usize {
        self.opened.swap(0, Ordering::SeqCst)
    }
}

#[async_trait]
impl ImageSource for Counted {
    async fn open(&self, _: &ImageRef) -> DriverResult<ByteStream> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Box::pin(futures::stream::iter(self.content.chunks(3).map(|piece| Ok(Bytes::from_static(piece))))))
    }
}

fn image() -> ImageRef {
    let checksum = hex(&HashMethod::Sha512.digest(CONTENT));
    ImageRef { id: ImageId(Uuid::nil()), checksum, format: ImageFormat::Raw, size: 4, virtual_size: 4 }
}

fn host() -> Arc<dyn Driver> {
    SimFleet::new(SimUri::new(1)).drivers().remove(0)
}

async fn place(
    signatures: &ImageSignatures,
    host: &Arc<dyn Driver>,
    source: &Arc<Counted>,
    properties: &[(String, String)],
    trusted: &[&str],
) -> Result<(), String> {
    let trusted: Vec<String> = trusted.iter().map(|id| (*id).to_owned()).collect();
    let wanted = ImageToPlace { image: &image(), properties, trusted: &trusted, work: &Meta::system("test") };
    let placed = signatures.place(host.as_ref(), Arc::clone(source) as _, wanted).await;
    placed.map_err(|error| error.to_string())
}

/// Whether the host has the image. A host that has it does not read the source.
async fn has_image(host: &Arc<dyn Driver>) -> bool {
    let source = Counted::new(b"");
    let _ = host.ensure_image(&image(), Arc::clone(&source) as _).await;
    source.opened() == 0
}

const MISMATCH: &str = "Signature verification for the image failed: the signature does not match the image's data.";

#[tokio::test]
async fn signatures_of_all_methods_and_keys_are_verified() {
    assert_eq!(GOLDEN.signatures.len(), 29);
    for one in &GOLDEN.signatures {
        let (right, source) = (properties(one), Counted::new(CONTENT));
        let placed = place(&signatures(verifying()), &host(), &source, &right, &[]).await;
        assert_eq!(placed, Ok(()), "{one:?}");
        // The same signature with one other bit.
        let mut bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &one.base64).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let other = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
        let changed = but("img_signature", Some(&other), &right);
        let refused = place(&signatures(verifying()), &host(), &source, &changed, &[]).await;
        assert_eq!(refused, Err(MISMATCH.to_owned()), "{one:?}");
        // Another method than the signer's.
        let method = if one.method == "SHA-256" { "SHA-384" } else { "SHA-256" };
        let changed = but("img_signature_hash_method", Some(method), &right);
        let refused = place(&signatures(verifying()), &host(), &source, &changed, &[]).await;
        assert_eq!(refused, Err(MISMATCH.to_owned()), "{one:?}");
    }
    let short = properties(&GOLDEN.short_salt[0]);
    let refused = place(&signatures(verifying()), &host(), &Counted::new(CONTENT), &short, &[]).await;
    assert_eq!(refused, Err(MISMATCH.to_owned()), "a salt that is not of the maximal length");
}

#[tokio::test]
async fn properties_that_describe_no_signature_are_refused() {
    let right = properties(&signed_by("leaf", "SHA-256"));
    let absent = |name: &str| {
        format!(
            "Required image properties for signature verification do not exist. Cannot verify signature. Missing \
             property: {name}"
        )
    };
    let cases = [
        ("img_signature_certificate_uuid", None, absent("img_signature_uuid")),
        ("img_signature_hash_method", None, absent("img_signature_hash_method")),
        ("img_signature", None, absent("img_signature")),
        ("img_signature_key_type", None, absent("img_signature_key_type")),
        (
            "img_signature",
            Some("fake_signature"),
            "The signature data was not properly encoded using base64".to_owned(),
        ),
        ("img_signature_hash_method", Some("MD5"), "Invalid signature hash method: MD5".to_owned()),
        ("img_signature_key_type", Some("DSA"), "Invalid signature key type: DSA".to_owned()),
        ("img_signature_key_type", Some("ECC_SECT571K1"), "Invalid signature key type: ECC_SECT571K1".to_owned()),
        (
            "img_signature_key_type",
            Some("ECC_SECP384R1"),
            "Invalid public key type for signature key type: ECC_SECP384R1".to_owned(),
        ),
        ("img_signature_certificate_uuid", Some("none"), "Certificate not found with ID: none".to_owned()),
        ("img_signature_certificate_uuid", Some("silent"), "Unable to retrieve certificate with ID: silent".to_owned()),
        ("img_signature_certificate_uuid", Some("opaque"), "Invalid certificate format: opaque".to_owned()),
        (
            "img_signature_certificate_uuid",
            Some("broken"),
            "The certificate broken is not an X.509 certificate".to_owned(),
        ),
        (
            "img_signature_certificate_uuid",
            Some("p384"),
            "Invalid public key type for signature key type: RSA-PSS".to_owned(),
        ),
        (
            "img_signature_certificate_uuid",
            Some("impostor"),
            "the signature does not match the image's data".to_owned(),
        ),
        ("img_signature", Some(""), "the signature does not match the image's data".to_owned()),
    ];
    for (name, value, reason) in cases {
        let (source, host, changed) = (Counted::new(CONTENT), host(), but(name, value, &right));
        let refused = place(&signatures(verifying()), &host, &source, &changed, &[]).await;
        assert_eq!(refused, Err(format!("Signature verification for the image failed: {reason}.")), "{name} {value:?}");
        assert!(!has_image(&host).await, "{name} {value:?}: the host keeps no image");
        // Nobody asks for a check.
        assert_eq!(place(&signatures(SignatureOptions::default()), &host, &source, &changed, &[]).await, Ok(()));
    }
}

#[tokio::test]
async fn a_download_is_hashed_once_and_a_cached_image_is_verified_too() {
    let right = properties(&signed_by("leaf", "SHA-256"));
    let wrong = properties(&GoldenSignature { method: "SHA-256".to_owned(), ..signed_by("leaf", "SHA-384") });
    let source = Counted::new(CONTENT);
    let (first, host) = (signatures(verifying()), host());
    assert_eq!(place(&first, &host, &source, &wrong, &[]).await, Err(MISMATCH.to_owned()));
    assert_eq!(source.opened(), 1);
    assert!(!has_image(&host).await, "the host keeps no refused download");
    assert_eq!(place(&first, &host, &source, &right, &[]).await, Ok(()));
    assert_eq!(source.opened(), 1, "the image is read once");
    // The digest is known, so nothing is read.
    assert_eq!(place(&first, &host, &source, &right, &[]).await, Ok(()));
    assert_eq!(place(&first, &host, &source, &wrong, &[]).await, Err(MISMATCH.to_owned()));
    assert_eq!(source.opened(), 0);
    // After a restart, the content is read once for each hash method.
    let second = signatures(verifying());
    assert_eq!(place(&second, &host, &source, &wrong, &[]).await, Err(MISMATCH.to_owned()));
    assert_eq!(place(&second, &host, &source, &right, &[]).await, Ok(()));
    assert_eq!(source.opened(), 1, "the cached image is read once");
    // The image service no longer has the content that is in the cache.
    let third = signatures(verifying());
    let other = Counted::new(b"tony");
    let refused = place(&third, &host, &other, &right, &[]).await.unwrap_err();
    assert!(refused.ends_with("its content does not match its checksum"), "{refused}");
}

#[tokio::test]
async fn a_signature_of_the_checksum_s_own_method_is_verified_before_the_download() {
    let (right, source, host) = (properties(&signed_by("leaf", "SHA-512")), Counted::new(CONTENT), host());
    let wrong = properties(&GoldenSignature { method: "SHA-512".to_owned(), ..signed_by("leaf", "SHA-384") });
    assert_eq!(place(&signatures(verifying()), &host, &source, &wrong, &[]).await, Err(MISMATCH.to_owned()));
    assert_eq!(source.opened(), 0);
    assert_eq!(place(&signatures(verifying()), &host, &source, &right, &[]).await, Ok(()));
    assert_eq!(source.opened(), 1);
    // The host compares the checksum, so other content does not get through.
    let changed = Counted::new(b"tony");
    let refused = place(&signatures(verifying()), &self::host(), &changed, &right, &[]).await.unwrap_err();
    assert!(refused.ends_with("its content does not match its checksum"), "{refused}");
}

/// A source whose stream breaks off.
struct Interrupted;

#[async_trait]
impl ImageSource for Interrupted {
    async fn open(&self, _: &ImageRef) -> DriverResult<ByteStream> {
        let pieces = [Ok(Bytes::from_static(b"ti")), Err(std::io::Error::other("gone"))];
        Ok(Box::pin(futures::stream::iter(pieces)))
    }
}

#[tokio::test]
async fn an_interrupted_download_is_no_wrong_signature() {
    let properties = properties(&signed_by("leaf", "SHA-256"));
    let (host, image) = (host(), image());
    let wanted = ImageToPlace { image: &image, properties: &properties, trusted: &[], work: &Meta::system("test") };
    let failed = signatures(verifying()).place(host.as_ref(), Arc::new(Interrupted), wanted).await;
    assert!(matches!(failed, Err(PlaceError::Driver(DriverError::ImageUnread { .. }))), "{failed:?}");
}

/// A source whose image service names the place of the content in Ceph.
struct PlacedSource(Arc<Counted>);

#[async_trait]
impl ImageSource for PlacedSource {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        self.0.open(image).await
    }

    async fn places(&self, image: &ImageRef) -> DriverResult<Vec<String>> {
        Ok(vec![format!("rbd://cluster/images/{}/snap", image.id)])
    }
}

/// Ceph clones an image without reading its bytes. So an image whose signature is verified is copied instead.
#[tokio::test]
async fn an_image_whose_signature_is_verified_is_never_cloned() {
    let counted = Counted::new(CONTENT);
    let image = image();
    // The digest of SHA-512 is the image's checksum. The digest of SHA-256 is found during the copy.
    for method in ["SHA-256", "SHA-512"] {
        let right = properties(&signed_by("leaf", method));
        let wrong = properties(&GoldenSignature { method: method.to_owned(), ..signed_by("leaf", "SHA-384") });
        for (options, properties, refused, copies) in [
            (SignatureOptions::default(), &wrong, false, 0),
            (verifying(), &right, false, 1),
            (verifying(), &wrong, true, usize::from(method == "SHA-256")),
        ] {
            let (host, source) = (CoreOnly::that_clones(host()), Arc::new(PlacedSource(Arc::clone(&counted))));
            let wanted = ImageToPlace { image: &image, properties, trusted: &[], work: &Meta::system("test") };
            let placed = signatures(options).place(host.as_ref(), source, wanted).await;
            assert_eq!((placed.is_err(), counted.opened()), (refused, copies), "{method}: {placed:?}");
        }
    }
}

#[test]
fn chains_are_built_as_in_cursive() {
    let base = "Certificate chain building failed. Could not locate the signing certificate for the base certificate in the \
                set of trusted certificates.";
    let of = |id: &str| {
        format!(
            "Certificate chain building failed. Could not locate the signing certificate for certificate '{id}' in the \
             set of trusted certificates."
        )
    };
    let too_short = "Certificate validation failed. The signing certificate 'short-root' is not configured to support \
                     certificate chains of sufficient length.";
    let outside = "The certificate is outside its valid date range.";
    let cases: [(&str, &[&str], Result<(), String>); 22] = [
        ("leaf", &["root", "middle-a", "middle-b"], Ok(())),
        ("leaf", &["middle-b", "p384", "middle-a", "root"], Ok(())),
        ("leaf", &[], Err(base.to_owned())),
        ("leaf", &["leaf"], Err(base.to_owned())),
        ("leaf", &["root", "middle-a"], Err(base.to_owned())),
        ("leaf", &["root", "middle-b"], Err(of("middle-b"))),
        // A trusted intermediate certificate is no root.
        ("leaf", &["middle-a", "middle-b"], Err(of("middle-a"))),
        ("leaf", &["impostor", "middle-a", "middle-b"], Err(of("middle-a"))),
        ("leaf", &["impostor", "root", "middle-a", "middle-b"], Ok(())),
        ("root", &["root"], Ok(())),
        ("root", &["impostor"], Err(base.to_owned())),
        // A self-signed certificate that may not sign others is refused, even if it is trusted.
        ("alone", &["alone"], Err(base.to_owned())),
        ("of-no-authority", &["root", "no-authority"], Err(base.to_owned())),
        ("of-no-signer", &["root", "no-signer"], Err(base.to_owned())),
        ("of-bare", &["root", "bare"], Err(base.to_owned())),
        ("of-past-authority", &["root", "past-authority"], Err(base.to_owned())),
        ("past", &["root"], Err(outside.to_owned())),
        ("future", &["root"], Err(outside.to_owned())),
        ("too-deep", &["short-root", "below-short-root"], Err(too_short.to_owned())),
        ("below-short-root", &["short-root"], Ok(())),
        ("p521", &["curve-root", "p521-authority"], Ok(())),
        ("rsa-1024", &["curve-root"], Err(base.to_owned())),
    ];
    for (subject, trusted, expected) in cases {
        let trusted: Vec<TrustedCertificate> = trusted
            .iter()
            .map(|id| TrustedCertificate { id: (*id).to_owned(), certificate: certificate(id) })
            .collect();
        assert_eq!(chain::verify(&certificate(subject), &trusted, NOW), expected, "{subject} {trusted:?}");
    }
}

#[test]
fn a_certificate_is_read_in_pem_and_in_der_and_a_changed_one_is_not_signed() {
    use x509_cert::der::{DecodePem as _, Encode as _};
    let text = &GOLDEN.certificates["middle-a"];
    let mut bytes = x509_cert::Certificate::from_pem(text.as_bytes()).unwrap().to_der().unwrap();
    assert_eq!(SigningCertificate::read(&bytes).unwrap(), certificate("middle-a"));
    assert_eq!(SigningCertificate::read(format!("\n{text}\n").as_bytes()).unwrap(), certificate("middle-a"));
    assert!(certificate("root").has_issued(&certificate("middle-a")));
    // A letter of the subject's name.
    let name = bytes.windows(8).rposition(|eight| eight == b"middle-a").unwrap();
    bytes[name + 7] = b'z';
    assert!(!certificate("root").has_issued(&SigningCertificate::read(&bytes).unwrap()));
    for nonsense in [&b""[..], b"text", b"\x30\x80", &bytes[..bytes.len() - 1]] {
        assert!(SigningCertificate::read(nonsense).is_none());
    }
}

#[tokio::test]
async fn options_and_requests_decide_about_the_check() {
    type Case<'a> = (SignatureOptions, &'a [(String, String)], &'a [&'a str], Option<&'a str>);

    let (signed, unsigned) = (properties(&signed_by("leaf", "SHA-256")), Vec::new());
    let source = Counted::new(CONTENT);
    let whole: &[&str] = &["root", "middle-a", "middle-b"];
    let missing = "Signature verification for the image failed: Required image properties";
    let untrusted =
        "Image signature certificate validation failed for certificate: leaf. Certificate chain building failed";
    let no_ids = "Image signature certificate validation enabled, but no trusted certificate IDs were provided.";
    let off = SignatureOptions::default;
    let validating = || SignatureOptions { validate_certificates: true, ..both(whole) };
    let only_validating = || SignatureOptions { verify: false, ..validating() };
    let cases: [Case<'_>; 15] = [
        (off(), &unsigned, &[], None),
        // A list of the request forces both checks.
        (off(), &unsigned, whole, Some(missing)),
        (off(), &signed, whole, None),
        (off(), &signed, &["root"], Some(untrusted)),
        (off(), &signed, &["silent", "none", "broken"], Some(untrusted)),
        (verifying(), &unsigned, &[], Some(missing)),
        (verifying(), &signed, &[], None),
        (verifying(), &signed, &["root"], Some(untrusted)),
        // Validation without verification concerns only requests with a list.
        (only_validating(), &unsigned, &[], None),
        (only_validating(), &signed, &["root"], Some(untrusted)),
        (both(&[]), &signed, &[], Some(no_ids)),
        (both(&[]), &signed, whole, None),
        (both(whole), &signed, &[], None),
        (both(&["impostor"]), &signed, &[], Some(untrusted)),
        // The configuration's list counts only if the request has none.
        (both(whole), &signed, &["impostor"], Some(untrusted)),
    ];
    for (options, properties, trusted, refusal) in cases {
        let shown = format!("{options:?} {trusted:?} {}", properties.len());
        let placed = place(&signatures(options), &host(), &source, properties, trusted).await;
        match (placed, refusal) {
            (Ok(()), None) => {}
            (Err(said), Some(begin)) => assert!(said.starts_with(begin), "{shown}: {said}"),
            (placed, _) => panic!("{shown}: {placed:?}"),
        }
    }
}

#[tokio::test]
async fn without_a_key_manager_only_an_operator_lets_certificates_through() {
    let properties = properties(&signed_by("leaf", "SHA-256"));
    let unread =
        Err("Signature verification for the image failed: Unable to retrieve certificate with ID: leaf.".to_owned());
    for (unchecked, verify, trusted, expected) in [
        (false, false, &[][..], Ok(())),
        (true, false, &["root"], Ok(())),
        (false, false, &["root"], unread.clone()),
        (true, true, &["root"], unread.clone()),
        (true, true, &[], unread.clone()),
    ] {
        let options = SignatureOptions { verify, unchecked, ..SignatureOptions::default() };
        let signatures = ImageSignatures::new(options, None, Arc::new(SystemClock));
        let placed = place(&signatures, &host(), &Counted::new(CONTENT), &properties, trusted).await;
        assert_eq!(placed, expected, "{unchecked} {verify} {trusted:?}");
    }
}
