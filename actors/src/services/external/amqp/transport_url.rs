//! `transport_url` of oslo.messaging: `rabbit://user:password@host1:5672,user:password@host2:5672/vhost?ssl=1`.

use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};

const PORT: u16 = 5672;

/// The brokers of a transport URL, in the order in which they are tried.
///
/// # Errors
/// The reason why the URL cannot be used. The text never has a part of the URL that may be a password.
pub fn brokers(url: &str, tls: bool) -> Result<Vec<AMQPUri>, String> {
    let (scheme, rest) = url.split_once("://").ok_or("has no scheme: write rabbit://USER:PASSWORD@HOST:PORT/VHOST")?;
    if !matches!(scheme, "rabbit" | "amqp" | "kombu") {
        return Err(format!("has the scheme {scheme}: only rabbit is supported"));
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let tls = tls || query.split('&').any(|pair| matches!(pair, "ssl=1" | "ssl=true" | "ssl=True"));
    let (hosts, vhost) = place.split_once('/').unwrap_or((place, ""));
    let vhost = if vhost.is_empty() { "/".to_owned() } else { decoded(vhost)? };
    let mut userinfo = ("guest".to_owned(), "guest".to_owned());
    let mut all = Vec::new();
    for host in hosts.split(',').filter(|host| !host.is_empty()) {
        let (account, address) = host.rsplit_once('@').map_or((None, host), |(account, at)| (Some(account), at));
        if let Some(account) = account {
            let (user, password) = account.split_once(':').unwrap_or((account, ""));
            userinfo = (decoded(user)?, decoded(password)?);
        }
        all.push(uri(address, &userinfo, &vhost, tls)?);
    }
    if all.is_empty() { Err("names no host".to_owned()) } else { Ok(all) }
}

/// The message repeats nothing of the URL, because without an `@` the password is in the place of the port.
const BAD_PORT: &str = "has a port that is not a number";

fn uri(address: &str, userinfo: &(String, String), vhost: &str, tls: bool) -> Result<AMQPUri, String> {
    let (host, port) = match address.rsplit_once(':') {
        // `[::1]` has colons and no port.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| BAD_PORT)?),
        _ => (address, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let (username, password) = userinfo.clone();
    Ok(AMQPUri {
        scheme: if tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority { userinfo: AMQPUserInfo { username, password }, host, port },
        vhost: vhost.to_owned(),
        query: AMQPQueryString::default(),
    })
}

fn decoded(text: &str) -> Result<String, String> {
    percent_decoded(text).ok_or_else(|| "has a part that is not percent-encoded UTF-8".to_owned())
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (high, low) = (char::from(rest.next()?).to_digit(16)?, char::from(rest.next()?).to_digit(16)?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_transport_url_names_accounts_hosts_and_the_virtual_host() {
        let all = brokers("rabbit://nova:s%40e@h1:5671,[::1]:5673,other:x@h3//nova", false).unwrap();
        let shown: Vec<(String, String, String, u16)> = all
            .iter()
            .map(|uri| {
                let authority = &uri.authority;
                let user = authority.userinfo.clone();
                (user.username, user.password, authority.host.clone(), authority.port)
            })
            .collect();
        let one = |user: &str, password: &str, host: &str, port| {
            (user.to_owned(), password.to_owned(), host.to_owned(), port)
        };
        assert_eq!(
            shown,
            [one("nova", "s@e", "h1", 5671), one("nova", "s@e", "::1", 5673), one("other", "x", "h3", 5672)]
        );
        assert_eq!(all[0].vhost, "/nova");
        let plain = brokers("rabbit://h", true).unwrap();
        assert_eq!((plain[0].vhost.as_str(), plain[0].scheme.clone()), ("/", AMQPScheme::AMQPS));
        for wrong in ["", "h:5672", "zmq://h", "rabbit://", "rabbit://h:many", "rabbit://a:%zz@h"] {
            let reason = brokers(wrong, false).unwrap_err();
            assert!(!reason.contains("zz"), "{reason}");
        }
    }
}
