//! The hash methods of `img_signature_hash_method`.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

/// A hash method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashMethod {
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl HashMethod {
    const NAMES: [(&'static str, Self); 4] =
        [("SHA-224", Self::Sha224), ("SHA-256", Self::Sha256), ("SHA-384", Self::Sha384), ("SHA-512", Self::Sha512)];

    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }

    pub(super) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }

    /// The hash method of an image's checksum, recognised by the number of hexadecimal digits. `None` for MD5.
    pub(super) fn of_checksum(checksum: &str) -> Option<Self> {
        match checksum.len() {
            64 => Some(Self::Sha256),
            128 => Some(Self::Sha512),
            _ => None,
        }
    }

    pub(super) fn begin(self) -> RunningHash {
        match self {
            Self::Sha224 => RunningHash::Sha224(Sha224::new()),
            Self::Sha256 => RunningHash::Sha256(Sha256::new()),
            Self::Sha384 => RunningHash::Sha384(Sha384::new()),
            Self::Sha512 => RunningHash::Sha512(Sha512::new()),
        }
    }

    pub(super) fn digest(self, content: &[u8]) -> Vec<u8> {
        let mut hash = self.begin();
        hash.update(content);
        hash.finish()
    }
}

/// A hash of content that arrives in pieces.
#[derive(Clone)]
pub(super) enum RunningHash {
    Sha224(Sha224),
    Sha256(Sha256),
    Sha384(Sha384),
    Sha512(Sha512),
}

impl RunningHash {
    pub(super) fn update(&mut self, piece: &[u8]) {
        match self {
            Self::Sha224(hash) => hash.update(piece),
            Self::Sha256(hash) => hash.update(piece),
            Self::Sha384(hash) => hash.update(piece),
            Self::Sha512(hash) => hash.update(piece),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Self::Sha224(hash) => hash.finalize().to_vec(),
            Self::Sha256(hash) => hash.finalize().to_vec(),
            Self::Sha384(hash) => hash.finalize().to_vec(),
            Self::Sha512(hash) => hash.finalize().to_vec(),
        }
    }
}

/// The bytes of lower-case or upper-case hexadecimal digits; `None` if the text has anything else.
pub(super) fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|it| u8::try_from(it).ok())).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
