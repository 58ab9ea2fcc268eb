//! Several members on one log: where a request is served.
//!
//! | file | what |
//! |---|---|
//! | [`seat`] | this member's place: it leads, or it follows; reads wait here until they are not stale |
//! | [`read_index`] | asks the leader up to where the log is acknowledged, for many reads at once |
//! | `forward` | sends a whole request to the leader, and waits until the read models show what it did |
//! | [`peers`] | connections to other members |
//! | [`door`] | what this member answers to other members |
//!
//! Invariants: a request that changes something is decided by the leader. It is sent to the leader once: when its answer
//! is lost, nobody knows whether it was done, so the client is told to look and to try again. A read is answered from
//! read models that have everything which was acknowledged before the read began, or it says how old its answer is.

pub mod door;
mod forward;
pub mod peers;
pub mod read_index;
pub mod seat;

use std::net::IpAddr;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{HeaderMap, HeaderName};
use actix_web::{HttpRequest, HttpResponse};
use chronova_events::ids::RequestId;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use self::forward::Forwarded;
use self::seat::{ClusterSeat, ReadPermit};
use crate::fault::{Fault, RenderContext, render};
use crate::route::Method;
use crate::secret::Secret;
use crate::server::{self, OpenedApp};
use crate::service::Service;
use crate::{address, pipeline};

/// The header by which members know each other.
const PASS: &str = "x-chronova-pass";
/// What the member that got a request says about it.
const HOST: &str = "x-chronova-host";
const REMOTE: &str = "x-chronova-remote";
const ONLY: &str = "x-chronova-only";
const REQUEST: &str = "x-chronova-request";
/// The answers of the leader: up to where its log is acknowledged, and that it does not lead.
const POSITION: &str = "x-chronova-log-position";
const FOLLOWS: &str = "x-chronova-follows";
const INTERNAL: [&str; 7] = [PASS, HOST, REMOTE, ONLY, REQUEST, POSITION, FOLLOWS];
/// The path where the leader says up to where its log is acknowledged.
const HEAD: &str = "/-/head";
/// Seconds since the read models were last known to be complete.
const AGE: &str = "x-chronova-age";

/// A forwarded request, as the member that got it saw it.
#[derive(Debug, Clone)]
pub(crate) struct RequestOrigin {
    /// `https://HOST:PORT`, as the client knows the service.
    pub host: String,
    pub remote: Option<IpAddr>,
    /// The one service of the listener.
    pub only: Option<Service>,
    pub request_id: RequestId,
}

/// What the members of a cluster have in common: a secret, and what is derived from it.
#[derive(Clone)]
pub struct ClusterSecret(Vec<u8>);

impl std::fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterSecret(...)")
    }
}

impl ClusterSecret {
    /// Fewer bytes can be guessed.
    pub const SHORTEST: usize = 32;

    /// `None`: it is too short.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= Self::SHORTEST).then(|| Self(bytes.to_vec()))
    }

    /// A key for one use. Nobody learns the secret or another key from it.
    pub fn derive(&self, usage: &str) -> [u8; 32] {
        // The first block of HKDF-Expand, and the secret is random already.
        let mut block = [0_u8; 64];
        let folded = <sha2::Sha256 as sha2::Digest>::digest(&self.0);
        block[..32].copy_from_slice(&folded);
        let mut mac = <Hmac<Sha256> as Mac>::new(&block.into());
        mac.update(b"chronova cluster 1: ");
        mac.update(usage.as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn pass(&self) -> Secret {
        let hex: String = self.derive("door").iter().map(|byte| format!("{byte:02x}")).collect();
        Secret::new(hex)
    }
}

/// Where a request is answered.
pub(crate) enum RoutedRequest {
    /// Here; the answer may be old.
    Here { payload: Payload, age: Option<Duration> },
    /// By the leader, or not at all.
    Answered(HttpResponse),
}

/// Waits until the request can be answered here, or has the leader answer it.
pub(crate) async fn route(
    front: &OpenedApp<'_>,
    request: &HttpRequest,
    payload: Payload,
    request_id: &RequestId,
) -> RoutedRequest {
    let here = |payload| RoutedRequest::Here { payload, age: None };
    let Some(seat) = &front.app.cluster else { return here(payload) };
    let config = &front.app.config;
    let host = address::host(request, config);
    let Some(place) = address::place(front.only, request.path(), host.clone(), config) else { return here(payload) };
    let method = Method::parse(request.method().as_str());
    if method.is_none() || pipeline::asks_nothing(front.routers, &place, method) {
        return here(payload);
    }
    let fails = |fault: Fault| {
        let service = place.service;
        let context = RenderContext { service, accept: "", version: None, request_id: request_id.as_str() };
        let mut reply = render(&fault, &context);
        reply.headers.push(("x-openstack-request-id", request_id.as_str().to_owned()));
        RoutedRequest::Answered(server::finish(reply, request.method() == "HEAD"))
    };
    if place.service == Service::Metadata || pipeline::is_for_leader(front.routers, &place, method) {
        let ClusterSeat::Follows(follower) = seat else { return here(payload) };
        let remote = request.peer_addr().map(|peer| peer.ip());
        let origin = RequestOrigin { host, remote, only: front.only, request_id: request_id.clone() };
        return match forward::forward(follower, &origin, request, payload).await {
            Forwarded::Answered(response) => RoutedRequest::Answered(response),
            Forwarded::Promoted(payload) => here(payload),
            Forwarded::Failed(fault) => fails(fault),
        };
    }
    match seat.read().await {
        ReadPermit::Fresh => here(payload),
        ReadPermit::Stale(age) => RoutedRequest::Here { payload, age: Some(age) },
        ReadPermit::Refused => fails(
            Fault::unavailable("No member of the control plane leads, so nobody knows whether this answer is current.")
                .header("Retry-After", "1"),
        ),
    }
}

/// Says how old the answer is, if it may be old.
pub(crate) fn dated(mut response: HttpResponse, age: Option<Duration>) -> HttpResponse {
    if let Some(age) = age {
        response.headers_mut().insert(HeaderName::from_static(AGE), age.as_secs().into());
    }
    response
}

/// Removes what only members say to each other.
pub(crate) fn strip(headers: &mut HeaderMap) {
    for name in INTERNAL {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_differ_by_secret_and_use() {
        assert!(ClusterSecret::new(&[1; 31]).is_none());
        let (one, other) = (ClusterSecret::new(&[1; 32]).unwrap(), ClusterSecret::new(&[2; 32]).unwrap());
        assert_eq!(one.derive("tokens"), one.clone().derive("tokens"));
        assert_ne!(one.derive("tokens"), one.derive("door"));
        assert_ne!(one.derive("tokens"), other.derive("tokens"));
        assert!(!format!("{one:?}").contains('1'));
    }
}
