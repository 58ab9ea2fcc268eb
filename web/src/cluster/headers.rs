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
/// Headers of an answer between members: the acknowledged position, the leader's epoch, and the refusal of a member
/// that does not lead.
pub(super) const POSITION: &str = "x-chronova-acknowledged";
pub(super) const EPOCH: &str = "x-chronova-epoch";
pub(super) const FOLLOWS: &str = "x-chronova-follows";
pub(super) const INTERNAL: [&str; 7] = [HOST, REMOTE, ONLY, REQUEST, POSITION, EPOCH, FOLLOWS];
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
    for name in INTERNAL {
        headers.remove(name);
    }
}
