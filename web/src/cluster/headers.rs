//! The headers and paths that only members send to each other.

use std::net::IpAddr;

use actix_web::http::header::HeaderMap;
use chronova_events::ids::RequestId;

use crate::service::Service;

/// Headers of a forwarded request. They tell how the client's request reached the first member.
pub(super) const HOST: &str = "x-chronova-host";
pub(super) const REMOTE: &str = "x-chronova-remote";
pub(super) const ONLY: &str = "x-chronova-only";
pub(super) const REQUEST: &str = "x-chronova-request";
/// Headers of an answer between members. They have the acknowledged position, the leader's epoch, and the mark of a
/// refusal by a member that does not lead.
pub(super) const POSITION: &str = "x-chronova-acknowledged";
pub(super) const EPOCH: &str = "x-chronova-epoch";
pub(super) const FOLLOWS: &str = "x-chronova-follows";
/// A header of every request and answer between members: the protocol of its sender ([`super::protocol`]).
pub(super) const PROTOCOL: &str = "x-chronova-protocol";
pub(super) const INTERNAL: [&str; 8] = [HOST, REMOTE, ONLY, REQUEST, POSITION, EPOCH, FOLLOWS, PROTOCOL];
/// The beginning of all names in [`INTERNAL`].
const PREFIX: &str = "x-chronova-";
/// The path at which the leader tells the acknowledged position.
pub(super) const HEAD: &str = "/-/head";

/// How the client's request reached the member that forwards it.
#[derive(Debug, Clone)]
pub(crate) struct RequestOrigin {
    /// `http://HOST:PORT` or `https://HOST:PORT`, as the client knows the service.
    pub host: String,
    pub remote: Option<IpAddr>,
    /// The one service of the listener.
    pub only: Option<Service>,
    pub request_id: RequestId,
}

/// Removes the headers that only members send to each other.
pub(crate) fn strip(headers: &mut HeaderMap) {
    // This check comes first, because nearly all requests have none of these headers.
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return;
    }
    for name in INTERNAL {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn internal_headers_are_removed_and_others_stay() {
        let mut headers = HeaderMap::new();
        for name in INTERNAL.into_iter().chain(["accept", "x-chronova-as-of"]) {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static("a"));
        }
        strip(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "x-chronova-as-of"]);
    }
}
