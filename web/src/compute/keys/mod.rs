//! SSH keys: fingerprints of imported keys, and generated keys. Certificates are in [`x509`].

mod der;
pub(super) mod x509;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{LineEnding, PrivateKey};

use crate::fault::Fault;

/// A public key and its fingerprint.
#[derive(Debug)]
pub(super) struct PublicKeyInfo {
    pub text: String,
    /// The MD5 of an SSH key's bytes, or the SHA-1 of a certificate.
    pub fingerprint: String,
}

/// A new pair. The private key is in the answer only; Chronova does not store it.
pub(super) struct GeneratedKeyPair {
    pub public: PublicKeyInfo,
    pub private: String,
}

fn invalid(why: &str) -> Fault {
    Fault::bad_request(format!("Keypair data is invalid: {why}"))
}

/// Checks a public key in OpenSSH's form: kind, base64, comment. The decoded bytes must begin with the kind, too. The
/// text is stored unchanged, with its line end, because clients compare it with their own file.
pub(super) fn imported(text: &str) -> Result<PublicKeyInfo, Fault> {
    let mut words = text.split_whitespace();
    let (Some(kind), Some(encoded)) = (words.next(), words.next()) else {
        return Err(invalid("failed to generate fingerprint"));
    };
    if text.trim().lines().count() > 1 {
        return Err(invalid("more than one line"));
    }
    let blob = STANDARD.decode(encoded).map_err(|_| invalid("failed to generate fingerprint"))?;
    let named = blob
        .split_first_chunk::<4>()
        .and_then(|(length, rest)| rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?));
    if named != Some(kind.as_bytes()) {
        return Err(invalid("failed to generate fingerprint"));
    }
    Ok(PublicKeyInfo { text: text.to_owned(), fingerprint: fingerprint(&blob) })
}

fn fingerprint(blob: &[u8]) -> String {
    hex(&Md5::digest(blob))
}

/// The bytes in hexadecimal digits: `00:ff:...`.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// A new Ed25519 pair.
pub(super) fn generated() -> Result<GeneratedKeyPair, Fault> {
    let mut seed = [0_u8; 32];
    getrandom::fill(&mut seed).map_err(Fault::internal)?;
    let pair = KeypairData::Ed25519(Ed25519Keypair::from_seed(&seed));
    let private = PrivateKey::new(pair, "generated-by-chronova").map_err(Fault::internal)?;
    let public = private.public_key().to_openssh().map_err(Fault::internal)?;
    let private = private.to_openssh(LineEnding::LF).map_err(Fault::internal)?;
    Ok(GeneratedKeyPair { public: imported(&public)?, private: private.to_string() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn imports_keys_in_openssh_format() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home\n";
        let public = imported(key).unwrap();
        assert_eq!(public.text, key);
        assert_eq!(public.fingerprint.len(), 47);
        for bad in [
            "",
            "ssh-rsa",
            "ssh-rsa AAAA",
            "ssh-rsa !!!",
            "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x",
        ] {
            assert_eq!(imported(bad).unwrap_err().status, 400, "{bad}");
        }
    }

    #[test]
    fn new_pairs_differ_and_can_be_read() {
        let (one, other) = (generated().unwrap(), generated().unwrap());
        assert_ne!(one.public.text, other.public.text);
        let read = PrivateKey::from_openssh(&one.private).unwrap();
        assert_eq!(read.public_key().to_openssh().unwrap(), one.public.text);
    }
}
