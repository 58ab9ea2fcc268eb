//! Time stamps of an authority (RFC 3161).
//!
//! Chronova writes the request and keeps the whole reply. It checks only the reply's status and digest, so that it keeps
//! no wrong reply. `openssl ts -verify` checks the signature.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::super::super::CommandFailure;
use super::super::super::credentials::agent;

const QUERY: &str = "application/timestamp-query";
/// The algorithm SHA-256 and the beginning of the digest, in DER.
const IMPRINT: [u8; 19] = [0x30, 0x31, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20];
/// The statuses `granted` and `grantedWithMods`.
const GRANTED: [u8; 2] = [0, 1];

/// Asks the authority at `url` for a time stamp of `text`. Returns the reply.
pub(super) fn request(url: &str, cacert: Option<&Path>, text: &[u8]) -> Result<Vec<u8>, CommandFailure> {
    let wrong = |reason: &str| CommandFailure::Usage(format!("{url} gave no time stamp: {reason}"));
    let digest: [u8; 32] = Sha256::digest(text).into();
    let mut nonce = [0; 8];
    getrandom::fill(&mut nonce).map_err(|error| wrong(&error.to_string()))?;
    let sent = agent(cacert, false)?.post(url).header("Content-Type", QUERY).send(&query(&digest, nonce)[..]);
    let mut answer = sent.map_err(|error| wrong(&error.to_string()))?;
    if answer.status().as_u16() != 200 {
        return Err(wrong(&format!("the status is {}", answer.status().as_u16())));
    }
    let reply = answer.body_mut().read_to_vec().map_err(|error| wrong(&error.to_string()))?;
    match status(&reply) {
        Some(status) if GRANTED.contains(&status) => {}
        Some(status) => return Err(wrong(&format!("the authority's status is {status}"))),
        None => return Err(wrong("the reply is malformed")),
    }
    match reply.windows(digest.len()).any(|window| window == digest) {
        true => Ok(reply),
        false => Err(wrong("the reply is about something else")),
    }
}

/// `TimeStampReq` with a nonce, which asks for the authority's certificate, too.
fn query(digest: &[u8; 32], mut nonce: [u8; 8]) -> Vec<u8> {
    // A positive number of eight bytes, as DER writes it.
    nonce[0] = (nonce[0] & 0x7f) | 0x40;
    let version = [2, 1, 1];
    let certificate = [1, 1, 0xff];
    let parts = [&version[..], &IMPRINT, digest, &[2, 8], &nonce, &certificate].concat();
    let mut query = vec![0x30, u8::try_from(parts.len()).unwrap_or(u8::MAX)];
    query.extend(parts);
    query
}

/// The status in a `TimeStampResp`: the first number of the first sequence inside the outer one.
fn status(reply: &[u8]) -> Option<u8> {
    let inner = content(reply, 0x30)?;
    let info = content(inner, 0x30)?;
    match content(info, 2)? {
        [status] => Some(*status),
        _ => None,
    }
}

/// The content of the first element of `der`, which must have this tag.
fn content(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    if *first != tag {
        return None;
    }
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        // The long form: the low bits say how many bytes of the length follow.
        _ => {
            let bytes = usize::from(length & 0x7f);
            let digits = rest.get(..bytes).filter(|digits| (1..=4).contains(&digits.len()))?;
            (digits.iter().fold(0, |sum, digit| (sum << 8) | usize::from(*digit)), rest.get(bytes..)?)
        }
    };
    rest.get(..length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_well_formed() {
        let query = query(&[7; 32], [0xff; 8]);
        assert_eq!(content(&query, 0x30).map(<[u8]>::len), Some(query.len() - 2));
        assert_eq!(query.len(), 69);
        assert!(query[2..].starts_with(&[2, 1, 1]) && query.ends_with(&[1, 1, 0xff]));
        assert!(query.windows(32).any(|window| window == [7; 32]));
    }

    #[test]
    fn the_status_of_a_reply() {
        assert_eq!(status(&[0x30, 5, 0x30, 3, 2, 1, 0]), Some(0));
        assert_eq!(status(&[0x30, 0x81, 5, 0x30, 3, 2, 1, 2]), Some(2));
        for malformed in [&[][..], &[0x30], &[0x30, 9, 0x30], &[0x30, 0xff, 1], &[0x30, 3, 2, 1, 0], &[0x31, 0]] {
            assert_eq!(status(malformed), None, "{malformed:?}");
        }
    }
}
