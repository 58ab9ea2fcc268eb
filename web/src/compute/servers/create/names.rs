//! Names, hostnames, reservation ids and passwords of new servers.

use chronova_events::entropy;
use chronova_events::ids::InstanceId;

use super::wish::Wish;

/// Name and hostname of the server `index` out of `of` made by one request.
pub(super) fn of(wish: &Wish, instance: InstanceId, index: usize, of: usize) -> (String, String) {
    let numbered = |text: &str| if of > 1 { format!("{text}-{}", index + 1) } else { text.to_owned() };
    let name = numbered(&wish.name);
    let hostname = match &wish.hostname {
        Some(hostname) => numbered(hostname),
        None => hostname(&name, instance),
    };
    (name, hostname)
}

/// A display name as a hostname (RFC 952 and 1123, at most 63 characters), as Nova makes it.
fn hostname(name: &str, instance: InstanceId) -> String {
    let mut text: String = name
        .chars()
        .map(|c| if matches!(c, ' ' | '_' | '.') { '-' } else { c })
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .map(|c| c.to_ascii_lowercase())
        .collect();
    text.truncate(63);
    let text = text.trim_matches('-');
    if text.is_empty() { format!("server-{instance}") } else { text.to_owned() }
}

const READABLE: &[u8] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// A password of letters and digits that are not mistaken for one another.
pub(in crate::compute::servers) fn password(length: usize) -> String {
    random(READABLE, length)
}

/// `r-0abc1234`: what the servers of one request have in common.
pub(super) fn reservation() -> String {
    format!("r-{}", random(b"abcdefghijklmnopqrstuvwxyz0123456789", 8))
}

/// `length` characters out of `alphabet`, each as likely as the others.
fn random(alphabet: &[u8], length: usize) -> String {
    let bound = 256 - 256 % alphabet.len();
    let mut text = String::with_capacity(length);
    let mut bytes = [0_u8; 64];
    while text.len() < length {
        if !entropy::fill(&mut bytes) {
            // Without the system's randomness there is still that of random ids.
            bytes[..16].copy_from_slice(entropy::uuid().as_bytes());
        }
        for byte in &bytes {
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
    fn hostnames_are_clean() {
        let id = InstanceId(uuid::Uuid::nil());
        assert_eq!(hostname("My Server_1.example", id), "my-server-1-example");
        assert_eq!(hostname("ü", id), "server-00000000-0000-0000-0000-000000000000");
        assert_eq!(hostname(&"a".repeat(80), id).len(), 63);
    }

    #[test]
    fn passwords_differ() {
        assert_eq!(password(12).len(), 12);
        assert_ne!(password(12), password(12));
    }
}
