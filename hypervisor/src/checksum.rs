//! Digests of image content. The length of a digest identifies its algorithm.

use std::fmt::Write as _;

use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

/// A digest that is being computed.
pub(crate) enum RunningDigest {
    Md5(Md5),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl RunningDigest {
    /// Begins a digest with the algorithm of `checksum`, so that the result can be compared with `checksum`.
    pub(crate) fn new(checksum: &str) -> Self {
        match checksum.len() {
            32 => Self::Md5(Md5::new()),
            64 => Self::Sha256(Sha256::new()),
            _ => Self::Sha512(Sha512::new()),
        }
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Md5(digest) => digest.update(data),
            Self::Sha256(digest) => digest.update(data),
            Self::Sha512(digest) => digest.update(data),
        }
    }

    /// Returns the digest in lower-case hexadecimal.
    pub(crate) fn finish(self) -> String {
        match self {
            Self::Md5(digest) => hex(&digest.finalize()),
            Self::Sha256(digest) => hex(&digest.finalize()),
            Self::Sha512(digest) => hex(&digest.finalize()),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
