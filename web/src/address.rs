//! Finds the service of a URL, and the address under which the client knows that service.

use std::net::{IpAddr, SocketAddr};

use actix_web::HttpRequest;
use actix_web::http::header::HeaderMap;

use crate::config::WebConfig;
use crate::links::Links;
use crate::query::percent_decode;
use crate::service::Service;

/// A request's service, its path below the service's root, and the addresses for links.
#[derive(Debug, Clone)]
pub(crate) struct RequestAddress {
    pub service: Service,
    /// `/v2.1/servers/...`
    pub path: String,
    pub links: Links,
}

/// Finds the service of a request. A listener with `only` serves that service at the root. The common listener serves
/// all services, each under its prefix. `host` is the address under which the client knows the listener.
pub(crate) fn place(only: Option<Service>, path: &str, host: String, config: &WebConfig) -> Option<RequestAddress> {
    let (service, prefix) = match only {
        Some(service) => (service, ""),
        None => Service::ALL.into_iter().find_map(|service| {
            let rest = path.strip_prefix('/')?.strip_prefix(service.name())?;
            (rest.is_empty() || rest.starts_with('/')).then_some((service, service.name()))
        })?,
    };
    let below = if prefix.is_empty() { path } else { path.get(prefix.len() + 1..)? };
    let mut root = if prefix.is_empty() { host.clone() } else { [host.as_str(), "/", prefix].concat() };
    let configured = match service {
        Service::Compute => config.compute_link_prefix.as_deref(),
        Service::Image => config.glance_link_prefix.as_deref(),
        _ => None,
    };
    if let Some(configured) = configured {
        configured.trim_end_matches('/').clone_into(&mut root);
    }
    let api = [root.as_str(), service.api_root()].concat();
    let links = Links { host, root, api, project: None, path: path.to_owned() };
    Some(RequestAddress { service, path: below.to_owned(), links })
}

/// The beginning (`http://host:port`) of links for which no prefix is configured. The host is the one in the client's
/// request, or the local address if the client named no valid host. If a trusted proxy sent the request, the proxy's
/// headers give the scheme, the host and a path prefix.
pub(crate) fn host(request: &HttpRequest, config: &WebConfig) -> String {
    let text = |name: &str| first(request.headers(), name);
    let (scheme, host, prefix) = if is_trusted(request, config) {
        (text("X-Forwarded-Proto"), text("X-Forwarded-Host"), text("X-Forwarded-Prefix"))
    } else {
        (None, None, None)
    };
    let scheme = match scheme {
        Some("https") => "https",
        None if request.app_config().secure() => "https",
        _ => "http",
    };
    let own = || request.app_config().local_addr().to_string();
    let host = host
        .or_else(|| text("Host"))
        .or_else(|| request.uri().authority().map(actix_web::http::uri::Authority::as_str))
        // A header that holds no valid host must not become part of a link.
        .filter(|host| {
            host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'[' | b']' | b'_'))
        })
        .map_or_else(own, str::to_owned);
    format!("{scheme}://{host}{}", prefix.map_or("", |prefix| prefix.trim_end_matches('/')))
}

/// The scheme that the client used, if a trusted proxy reports it.
pub(crate) fn forwarded_scheme<'a>(request: &'a HttpRequest, config: &WebConfig) -> Option<&'a str> {
    first(request.headers(), "X-Forwarded-Proto").filter(|_| is_trusted(request, config))
}

/// Any client can write `X-Forwarded-` headers, so only the proxies in `trusted_proxies` are believed.
fn is_trusted(request: &HttpRequest, config: &WebConfig) -> bool {
    config.enable_proxy_headers_parsing && request.peer_addr().is_some_and(|peer| is_proxy(peer.ip(), config))
}

fn is_proxy(address: IpAddr, config: &WebConfig) -> bool {
    // An IPv4 client on an IPv6 socket has an IPv4-mapped address.
    let address = address.to_canonical();
    config.trusted_proxies.iter().any(|proxy| proxy.contains(&address))
}

/// The client's address. If the peer of the connection is a trusted proxy, it is the address that the proxy names.
/// Otherwise it is the address of the peer.
pub(crate) fn client(peer: Option<IpAddr>, headers: &HeaderMap, config: &WebConfig) -> Option<IpAddr> {
    let peer = peer?;
    if !(config.enable_proxy_headers_parsing && is_proxy(peer, config)) {
        return Some(peer);
    }
    let values = headers.get_all("X-Forwarded-For").filter_map(|value| value.to_str().ok());
    let texts: Vec<&str> = values.flat_map(|text| text.split(',')).map(str::trim).collect();
    // Each proxy appends the address from which the request came to it. The client is the last address that is no
    // trusted proxy. The client itself may have written the addresses before that one.
    for text in texts.into_iter().rev() {
        match address(text) {
            Some(one) if is_proxy(one, config) => {}
            Some(one) => return Some(one),
            // A trusted proxy wrote no address. The client may have written the texts before this one.
            None => break,
        }
    }
    Some(peer)
}

/// The prefix length of the IPv6 network that one customer typically has.
const PREFIX: u8 = 64;

/// The address of an IPv4 client, or the network of an IPv6 client. That network belongs to one customer.
pub(crate) fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let bits = u128::from(address) >> (128 - PREFIX) << (128 - PREFIX);
            format!("{}/{PREFIX}", std::net::Ipv6Addr::from(bits))
        }
    }
}

/// Reads an address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

fn first<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?;
    value.split(',').next().map(str::trim).filter(|value| !value.is_empty())
}

/// The decoded segments of a path; `None` when one is not UTF-8.
pub(crate) fn segments(path: &str) -> Option<Vec<String>> {
    path.split('/').filter(|segment| !segment.is_empty()).map(percent_decode).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use actix_web::test::TestRequest;

    fn seen_as(peer: &str, parsing: bool) -> String {
        let config = WebConfig {
            enable_proxy_headers_parsing: parsing,
            trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
            ..WebConfig::default()
        };
        let request = TestRequest::with_uri("/compute/v2.1")
            .insert_header(("Host", "inside:8774"))
            .insert_header(("X-Forwarded-Proto", "https"))
            .insert_header(("X-Forwarded-Host", "cloud.example"))
            .insert_header(("X-Forwarded-Prefix", "/os"))
            .peer_addr(peer.parse().unwrap());
        host(&request.to_http_request(), &config)
    }

    #[test]
    fn client_address_comes_from_trusted_proxies_only() {
        let config = WebConfig {
            enable_proxy_headers_parsing: true,
            trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
            ..WebConfig::default()
        };
        let request = TestRequest::default().insert_header(("X-Forwarded-For", "10.0.0.1, 198.51.100.7, 192.0.2.8"));
        let headers = request.to_http_request().headers().clone();
        let from = |peer: &str, config: &WebConfig| client(peer.parse().ok(), &headers, config).unwrap().to_string();
        assert_eq!(from("192.0.2.7", &config), "198.51.100.7", "the client's own text was believed");
        assert_eq!(from("203.0.113.1", &config), "203.0.113.1");
        for (text, client_is) in
            [("10.9.9.9, 198.51.100.7:51234", "198.51.100.7"), ("10.9.9.9, unknown", "192.0.2.7"), ("", "192.0.2.7")]
        {
            let request = TestRequest::default().insert_header(("X-Forwarded-For", text)).to_http_request();
            let found = client("192.0.2.7".parse().ok(), request.headers(), &config).unwrap();
            assert_eq!(found.to_string(), client_is, "{text}");
        }
        assert_eq!(from("192.0.2.7", &WebConfig { enable_proxy_headers_parsing: false, ..config }), "192.0.2.7");
        assert_eq!(client(None, &headers, &WebConfig::default()), None);
    }

    #[test]
    fn host_comes_from_trusted_proxies_only() {
        assert_eq!(seen_as("192.0.2.7:1", true), "https://cloud.example/os");
        assert_eq!(seen_as("[::ffff:192.0.2.7]:1", true), "https://cloud.example/os");
        assert_eq!(seen_as("198.51.100.7:1", true), "http://inside:8774");
        assert_eq!(seen_as("192.0.2.7:1", false), "http://inside:8774");
    }
}
