//! Reservation ids and passwords of new servers.

use chronova_events::entropy;

const READABLE: &[u8] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// A password without letters and digits that look alike, such as `0` and `O`.
pub(in crate::compute::servers) fn password(length: usize) -> String {
    random(READABLE, length)
}

/// `r-0abc1234`: the reservation id that the servers of one request share.
pub(super) fn reservation() -> String {
    format!("r-{}", random(b"abcdefghijklmnopqrstuvwxyz0123456789", 8))
}

/// `length` random characters of `alphabet`, uniformly distributed.
fn random(alphabet: &[u8], length: usize) -> String {
    let bound = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(length);
    let mut bytes = [0_u8; 64];
    while text.len() < length {
        // If the system's random source fails, the bytes of random UUIDs replace it.
        let uuid = entropy::uuid();
        let fresh = if entropy::fill(&mut bytes) { &bytes[..] } else { &uuid.as_bytes()[..] };
        for byte in fresh {
            let index = usize::from(*byte);
            if index < bound && text.len() < length {
                text.push(char::from(alphabet[index % alphabet.len()]));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_differ() {
        assert_eq!(password(12).len(), 12);
        assert_ne!(password(12), password(12));
    }
}
