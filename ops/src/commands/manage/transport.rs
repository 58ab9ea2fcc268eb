//! The addresses of message queues, as oslo.messaging reads them. Chronova's cell has no queue, so an address is only
//! checked.

/// Why the address is invalid; `None` if it is valid. The words have no part of the address, because it has a password.
pub(super) fn problem(url: &str) -> Option<&'static str> {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let is_scheme = scheme.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && scheme.chars().all(|sign| sign.is_ascii_alphanumeric() || "+-.".contains(sign));
    if !is_scheme {
        return Some("No scheme specified");
    }
    let place = rest.strip_prefix("//").unwrap_or_default();
    let hosts = place.split(['/', '?', '#']).next().unwrap_or_default();
    hosts.split(',').find_map(problem_of_host)
}

/// Checks `USER:PASSWORD@HOST:PORT`.
fn problem_of_host(host: &str) -> Option<&'static str> {
    let host = host.split_once('@').map_or(host, |(_, host)| host);
    let port = match host.strip_prefix('[') {
        None => host.split_once(':').map(|(_, port)| port),
        Some(rest) => match rest.split_once(']') {
            Some((_, port)) => port.strip_prefix(':'),
            None => return Some("Invalid IPv6 URL"),
        },
    };
    port.is_some_and(|port| port.parse::<u16>().is_err()).then_some("A port is not a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_oslo_messaging_reads_them() {
        for url in ["rabbit://u:p@h1:5672,u:p@h2/vhost", "rabbit://", "none:///", "fake:", "rabbit://u:p@[::1]:5672/"] {
            assert_eq!(problem(url), None, "{url}");
        }
        for url in ["", "rabbit", "://h", "5://h", "//h:5672"] {
            assert_eq!(problem(url), Some("No scheme specified"), "{url}");
        }
        assert_eq!(problem("rabbit://u:p@h:amqp/"), Some("A port is not a number"));
        assert_eq!(problem("rabbit://[::1/"), Some("Invalid IPv6 URL"));
    }
}
