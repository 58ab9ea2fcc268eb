//! Cross-origin requests. As in oslo.middleware, only answers to allowed origins get CORS headers, and a preflight
//! request never reaches an operation.

use actix_web::http::header::HeaderMap;

use crate::config::CorsConfig;
use crate::reply::Reply;

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The value for `Access-Control-Allow-Origin`, if the request's origin is allowed.
fn allowed<'a>(config: &CorsConfig, headers: &'a HeaderMap) -> Option<&'a str> {
    let origin = text(headers, "Origin")?;
    config.allowed_origin.iter().any(|allowed| allowed == "*" || allowed == origin).then_some(origin)
}

/// The answer to a preflight `OPTIONS` request; `None` if the configuration allows no origin.
pub(crate) fn preflight(config: &CorsConfig, headers: &HeaderMap) -> Option<Reply> {
    if config.allowed_origin.is_empty() {
        return None;
    }
    let mut reply = Reply::empty(200);
    let Some(origin) = allowed(config, headers) else { return Some(reply) };
    let Some(method) = text(headers, "Access-Control-Request-Method") else { return Some(reply) };
    if !config.allow_methods.iter().any(|allowed| allowed == method) {
        return Some(reply);
    }
    let wanted: Vec<&str> = text(headers, "Access-Control-Request-Headers")
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    let simple = [
        "accept",
        "accept-language",
        "content-type",
        "cache-control",
        "content-language",
        "expires",
        "last-modified",
        "pragma",
    ];
    let known = |name: &str| {
        simple.iter().any(|simple| simple.eq_ignore_ascii_case(name))
            || config.allow_headers.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    };
    if !wanted.iter().all(|name| known(name)) {
        return Some(reply);
    }
    reply = reply
        .header("Vary", "Origin")
        .header("Access-Control-Allow-Origin", origin)
        .header("Access-Control-Max-Age", config.max_age.to_string())
        .header("Access-Control-Allow-Methods", method);
    if config.allow_credentials {
        reply = reply.header("Access-Control-Allow-Credentials", "true");
    }
    if !wanted.is_empty() {
        reply = reply.header("Access-Control-Allow-Headers", wanted.join(","));
    }
    Some(reply)
}

/// The CORS headers of an ordinary answer.
pub(crate) fn headers(config: &CorsConfig, request: &HeaderMap) -> Vec<(&'static str, String)> {
    let Some(origin) = allowed(config, request) else { return Vec::new() };
    let mut headers = vec![("Vary", "Origin".to_owned()), ("Access-Control-Allow-Origin", origin.to_owned())];
    if config.allow_credentials {
        headers.push(("Access-Control-Allow-Credentials", "true".to_owned()));
    }
    if !config.expose_headers.is_empty() {
        headers.push(("Access-Control-Expose-Headers", config.expose_headers.join(",")));
    }
    headers
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    #[test]
    fn only_allowed_origins_get_headers() {
        let config = CorsConfig {
            allowed_origin: vec!["http://valid.example.com".into()],
            allow_headers: vec!["openstack-api-version".into()],
            ..CorsConfig::default()
        };
        let asking = |origin: &str, headers: &str| {
            let map = map(&[
                ("Origin", origin),
                ("Access-Control-Request-Method", "GET"),
                ("Access-Control-Request-Headers", headers),
            ]);
            preflight(&config, &map).unwrap().headers
        };
        let good = asking("http://valid.example.com", "openstack-api-version");
        assert!(good.contains(&("Access-Control-Allow-Headers", "openstack-api-version".to_owned())));
        assert!(asking("http://invalid.example.com", "").is_empty());
        assert!(asking("http://valid.example.com", "x-unknown").is_empty());
        assert!(headers(&config, &map(&[("Origin", "http://valid.example.com")])).len() >= 2);
        assert!(headers(&config, &map(&[("Origin", "http://other")])).is_empty());
        assert!(preflight(&CorsConfig::default(), &map(&[])).is_none());
    }
}
