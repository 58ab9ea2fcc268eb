//! X.509 certificates: fingerprints of imported certificates, and new certificates with which a user logs in to Windows
//! guests (WinRM).
//!
//! As in Nova, the user is the subject of a new certificate, and the principal name `user@localhost` is an alternative
//! name. The certificate is for client authentication only, and valid for ten years. Its key is on the curve P-256. The
//! private key is in the answer only, as a PKCS#12 file without a password, in base64. Chronova does not store it.
//!
//! Source: nova `crypto.py`; RFC 5280 (certificates), RFC 7292 (PKCS#12).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Datelike, Days, Utc};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use ring::{digest, hmac};

use super::der::{self, NULL, bits, context, integer, octets, oid, sequence, set, tagged, utf8};
use super::{GeneratedKeyPair, PublicKeyInfo, hex};
use crate::fault::Fault;

const DATA: &[u64] = &[1, 2, 840, 113_549, 1, 7, 1];
const DAYS: u64 = 3_650;
const MAC_ROUNDS: u32 = 2_048;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

fn invalid(why: &str) -> Fault {
    Fault::bad_request(format!("Keypair data is invalid: failed to generate X509 fingerprint. Error message: {why}"))
}

/// Checks a certificate in PEM.
pub(in crate::compute) fn imported(text: &str) -> Result<PublicKeyInfo, Fault> {
    let inner = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(inner, _)| inner);
    let inner = inner.ok_or_else(|| invalid("Unable to load PEM file: no certificate in it."))?;
    let encoded: String = inner.split_whitespace().collect();
    let certificate = STANDARD.decode(encoded).map_err(|_| invalid("Unable to load PEM file: not base64."))?;
    if !is_certificate(&certificate) {
        return Err(invalid("the content is no certificate."));
    }
    Ok(PublicKeyInfo { text: text.to_owned(), fingerprint: fingerprint(&certificate) })
}

/// RFC 5280: a certificate is exactly a signed part, an algorithm and a signature.
fn is_certificate(bytes: &[u8]) -> bool {
    let whole = der::read(0x30, bytes).filter(|(_, rest)| rest.is_empty());
    let parts = || {
        let (_, rest) = der::read(0x30, whole?.0)?;
        let (_, rest) = der::read(0x30, rest)?;
        der::read(3, rest)
    };
    parts().is_some_and(|(_, rest)| rest.is_empty())
}

fn fingerprint(certificate: &[u8]) -> String {
    hex(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, certificate).as_ref())
}

/// A new certificate for `user`, valid from `now` on.
pub(in crate::compute) fn generated(user: &str, now: DateTime<Utc>) -> Result<GeneratedKeyPair, Fault> {
    let random = SystemRandom::new();
    let failed = |_| Fault::internal("the key could not be made");
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).map_err(failed)?;
    let pair =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random).map_err(Fault::internal)?;
    let mut serial = [0_u8; 16];
    let mut salt = [0_u8; 8];
    random.fill(&mut serial).and_then(|()| random.fill(&mut salt)).map_err(failed)?;
    // The serial number must be positive.
    serial[0] = serial[0] & 0x7F | 0x40;
    let signed = to_be_signed(user, &serial, pair.public_key().as_ref(), now);
    let signature = pair.sign(&random, &signed).map_err(failed)?;
    let certificate = sequence(&[&signed, &ecdsa_with_sha256(), &bits(signature.as_ref())]);
    let public = PublicKeyInfo { text: pem(&certificate), fingerprint: fingerprint(&certificate) };
    Ok(GeneratedKeyPair { public, private: STANDARD.encode(pkcs12(&certificate, key.as_ref(), &salt)) })
}

fn ecdsa_with_sha256() -> Vec<u8> {
    sequence(&[&oid(&[1, 2, 840, 10_045, 4, 3, 2])])
}

fn to_be_signed(user: &str, serial: &[u8], point: &[u8], now: DateTime<Utc>) -> Vec<u8> {
    let name = sequence(&[&set(&[&sequence(&[&oid(&[2, 5, 4, 3]), &utf8(user)])])]);
    let until = now.checked_add_days(Days::new(DAYS)).unwrap_or(now);
    let p256 = sequence(&[&oid(&[1, 2, 840, 10_045, 2, 1]), &oid(&[1, 2, 840, 10_045, 3, 1, 7])]);
    let principal = utf8(&format!("{user}@localhost"));
    // `otherName` is [0] IMPLICIT; its value is [0] EXPLICIT.
    let other_name = context(0, &[oid(&[1, 3, 6, 1, 4, 1, 311, 20, 2, 3]), context(0, &principal)].concat());
    let extension = |id: &[u64], value: Vec<u8>| sequence(&[&oid(id), &octets(&value)]);
    let extensions = sequence(&[
        &extension(&[2, 5, 29, 37], sequence(&[&oid(&[1, 3, 6, 1, 5, 5, 7, 3, 2])])),
        &extension(&[2, 5, 29, 17], sequence(&[&other_name])),
    ]);
    sequence(&[
        &context(0, &integer(&[2])),
        &integer(serial),
        &ecdsa_with_sha256(),
        &name,
        &sequence(&[&time(now), &time(until)]),
        &name,
        &sequence(&[&p256, &bits(point)]),
        &context(3, &extensions),
    ])
}

/// Encodes a time. The year has two digits until 2049, and four from 2050 on.
fn time(at: DateTime<Utc>) -> Vec<u8> {
    match at.year() < 2_050 {
        true => tagged(23, at.format("%y%m%d%H%M%SZ").to_string().as_bytes()),
        false => tagged(24, at.format("%Y%m%d%H%M%SZ").to_string().as_bytes()),
    }
}

fn pem(certificate: &[u8]) -> String {
    let encoded = STANDARD.encode(certificate);
    let mut lines = vec![BEGIN];
    let mut rest = encoded.as_str();
    while let Some((line, next)) = rest.split_at_checked(64) {
        lines.push(line);
        rest = next;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines.push(END);
    lines.join("\n") + "\n"
}

/// Writes certificate and key into one file without a password. Programs that read PKCS#12 require the checksum even in
/// a file without a password.
fn pkcs12(certificate: &[u8], key: &[u8], salt: &[u8]) -> Vec<u8> {
    let key_id = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, certificate);
    let attributes = set(&[&sequence(&[&oid(&[1, 2, 840, 113_549, 1, 9, 21]), &set(&[&octets(key_id.as_ref())])])]);
    let bag = |kind: u64, value: &[u8]| {
        sequence(&[&oid(&[1, 2, 840, 113_549, 1, 12, 10, 1, kind]), &context(0, value), &attributes])
    };
    let certificate = sequence(&[&oid(&[1, 2, 840, 113_549, 1, 9, 22, 1]), &context(0, &octets(certificate))]);
    let content = |bytes: &[u8]| sequence(&[&oid(DATA), &context(0, &octets(bytes))]);
    let safe = sequence(&[&content(&sequence(&[&bag(3, &certificate), &bag(1, key)]))]);
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &mac_key(salt)), &safe);
    let sha1 = sequence(&[&oid(&[1, 3, 14, 3, 2, 26]), &NULL]);
    let mac =
        sequence(&[&sequence(&[&sha1, &octets(mac.as_ref())]), &octets(salt), &integer(&MAC_ROUNDS.to_be_bytes())]);
    sequence(&[&integer(&[3]), &content(&safe), &mac])
}

/// Derives the key of the checksum by RFC 7292, appendix B.2. The password is empty, which is encoded as two zero bytes
/// (the terminator).
fn mac_key(salt: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut input = vec![3_u8; BLOCK];
    input.extend(salt.iter().copied().cycle().take(BLOCK));
    input.extend([0_u8; BLOCK]);
    let mut key = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &input);
    for _ in 1..MAC_ROUNDS {
        key = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, key.as_ref());
    }
    key.as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000, 0).unwrap()
    }

    #[test]
    fn a_new_certificate_is_signed_by_its_own_key_and_can_be_imported() {
        let made = generated("alice", now()).unwrap();
        let read = imported(&made.public.text).unwrap();
        assert_eq!(read.fingerprint, made.public.fingerprint);
        assert_eq!(read.fingerprint.len(), 59, "SHA-1");
        assert_ne!(generated("alice", now()).unwrap().public.text, made.public.text);

        let encoded: String = made.public.text.lines().filter(|line| !line.starts_with("-----")).collect();
        let certificate = STANDARD.decode(encoded).unwrap();
        let (whole, _) = der::read(0x30, &certificate).unwrap();
        let (signed, rest) = der::read(0x30, whole).unwrap();
        let (_, rest) = der::read(0x30, rest).unwrap();
        let (signature, _) = der::read(3, rest).unwrap();
        // An uncompressed point of P-256 in a bit string.
        let start = signed.windows(4).position(|window| window == [3, 66, 0, 4]).unwrap() + 3;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &signed[start..start + 65]);
        key.verify(&tagged(0x30, signed), &signature[1..]).unwrap();
    }

    #[test]
    fn malformed_certificates_are_refused() {
        for text in ["", "x", &format!("{BEGIN}\n!!\n{END}"), &format!("{BEGIN}\nMAA=\n{END}")] {
            let fault = imported(text).unwrap_err();
            assert!(fault.status == 400 && fault.message.contains("failed to generate X509 fingerprint"), "{text}");
        }
    }

    #[test]
    fn years_beyond_2049_have_four_digits() {
        assert_eq!(time(now())[..2], [23, 13]);
        assert_eq!(time(DateTime::from_timestamp(2_600_000_000, 0).unwrap())[..2], [24, 15]);
    }
}
