//! Digests of image content, by other hash methods than the method of the image's checksum. If two members placed
//! images, each would have to learn a digest by a download of its own.
//!
//! A digest is valid for all content with the same checksum, in any image, on any host and in any project. A restart
//! forgets all digests, so the content is read again when a digest is needed. The number of digests is bounded, and the
//! oldest are forgotten first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

const MOST: usize = 4_096;

/// The known digests.
#[derive(Debug, Default)]
pub struct KnownDigests {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    digests: HashMap<DigestName, Vec<u8>>,
    order: VecDeque<DigestName>,
}

/// The checksum of the content in hexadecimal digits, and the hash method of the digest.
type DigestName = (String, &'static str);

impl KnownDigests {
    /// The digest of the content with this checksum.
    pub fn of(&self, checksum: &str, method: &'static str) -> Option<Vec<u8>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.digests.get(&(checksum.to_owned(), method)).cloned()
    }

    pub fn keep(&self, checksum: &str, method: &'static str, digest: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (checksum.to_owned(), method);
        if kept.digests.insert(name.clone(), digest).is_none() {
            kept.order.push_back(name);
        }
        while kept.order.len() > MOST {
            let oldest = kept.order.pop_front();
            oldest.and_then(|name| kept.digests.remove(&name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_digests_go() {
        let known = KnownDigests::default();
        for number in 0..=MOST {
            known.keep(&number.to_string(), "SHA-256", vec![1]);
        }
        assert_eq!(known.of("0", "SHA-256"), None);
        assert_eq!(known.of("1", "SHA-256"), Some(vec![1]));
        assert_eq!(known.of("1", "SHA-384"), None);
    }
}
