//! The parts that clients of key managers share.

use std::fmt::Write as _;

use crate::ports::PortError;

/// The kinds of secrets that Chronova reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    Certificate,
    Symmetric,
}

impl SecretKind {
    /// Refuses a secret whose type, in castellan's word, is another one.
    pub(super) fn check(self, found: &str) -> Result<(), PortError> {
        match (self, found) {
            (Self::Certificate, "certificate") | (Self::Symmetric, "symmetric") => Ok(()),
            (Self::Certificate, _) => Err(PortError::Invalid(format!("Invalid certificate format: {found}"))),
            (Self::Symmetric, _) => {
                Err(PortError::Invalid(format!("The key of the volume is no symmetric key: {found}")))
            }
        }
    }
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
