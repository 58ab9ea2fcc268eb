//! The parts that clients of key managers share.

use std::fmt::Write as _;

use crate::ports::PortError;
use crate::ports::keys::SecretPayload;

/// The kinds of secrets that Chronova reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    Certificate,
    Symmetric,
    /// The passphrase of an emulated TPM.
    Passphrase,
}

impl SecretKind {
    /// castellan's word for the type of such a secret.
    fn word(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Symmetric => "symmetric",
            Self::Passphrase => "passphrase",
        }
    }

    /// Refuses a secret of another type.
    pub(super) fn check(self, found: &str) -> Result<(), PortError> {
        if found == self.word() {
            return Ok(());
        }
        Err(PortError::Invalid(match self {
            Self::Certificate => format!("Invalid certificate format: {found}"),
            Self::Symmetric => format!("The key of the volume is no symmetric key: {found}"),
            Self::Passphrase => format!("The secret of the TPM is no passphrase: {found}"),
        }))
    }
}

/// The name of the secret with the passphrase of an emulated TPM. `id` is the secret's id here.
pub(super) fn tpm_name(id: &str) -> String {
    format!("chronova-tpm-{id}")
}

/// The text of a passphrase.
pub(super) fn text_of(payload: Vec<u8>) -> Result<SecretPayload, PortError> {
    let text = String::from_utf8(payload);
    text.map(SecretPayload::new).map_err(|_| PortError::Invalid("The passphrase of the TPM is no text".to_owned()))
}

/// Bytes in lower-case hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes of hexadecimal digits.
pub(super) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2 && !pair.starts_with('+'))?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_bytes_are_the_same() {
        assert_eq!(hexadecimal(&[0, 15, 255]), "000fff");
        assert_eq!(bytes_of("000fFF"), Some(vec![0, 15, 255]));
        for wrong in ["0", "+5", "-5", "0g", "\u{e9}"] {
            assert_eq!(bytes_of(wrong), None, "{wrong}");
        }
    }
}
