//! Decides which member answers a request.

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::{HttpRequest, HttpResponse};
use chronova_events::ids::RequestId;

use super::forward::{self, Forwarded};
use super::headers::RequestOrigin;
use super::older_reads::ReadPermit;
use super::seat::ClusterSeat;
use crate::app::App;
use crate::fault::{Fault, RenderContext, render};
use crate::reply::Reply;
use crate::route::Method;
use crate::service::Service;
use crate::tables::Routers;
use crate::{address, pipeline};

/// Where a request is answered.
pub(crate) enum RoutedRequest {
    Here(Payload),
    /// By this member, from read models that are at most this old.
    Older(Payload, Duration),
    /// By the leader; this is its answer.
    Answered(HttpResponse),
    /// By nobody; this is the refusal.
    Refused(Reply),
}

/// Waits until this member can answer the request, or lets the leader answer it. `only` is the one service of the
/// listener.
pub(crate) async fn route(
    (app, routers, only): (&App, &Routers, Option<Service>),
    request: &HttpRequest,
    payload: Payload,
    request_id: &RequestId,
) -> RoutedRequest {
    let Some(seat) = &app.cluster else { return RoutedRequest::Here(payload) };
    let host = address::host(request, &app.config);
    let Some(place) = address::place(only, request.path(), host.clone(), &app.config) else {
        return RoutedRequest::Here(payload);
    };
    let method = Method::parse(request.method().as_str());
    if method.is_none() || pipeline::needs_no_state(routers, &place, method) {
        return RoutedRequest::Here(payload);
    }
    let refused = |fault: &Fault| {
        let (service, request_id) = (place.service, request_id.as_str());
        let mut reply = render(fault, &RenderContext { service, accept: "", version: None, request_id });
        reply.headers.push(("x-openstack-request-id", request_id.to_owned()));
        RoutedRequest::Refused(reply)
    };
    let for_leader = pipeline::is_for_leader(routers, &place, method, request.query_string());
    if let (ClusterSeat::Follows(follower), true) = (seat, for_leader) {
        let remote = request.peer_addr().map(|peer| peer.ip());
        let origin = RequestOrigin { host, remote, only, request_id: request_id.clone() };
        return match forward::forward(follower, &origin, request, payload).await {
            Forwarded::Answered(response) => RoutedRequest::Answered(response),
            Forwarded::Promoted(payload) => RoutedRequest::Here(payload),
            Forwarded::Failed(fault) => refused(&fault),
        };
    }
    // A deposed leader must not even refuse a write, because its state is no longer current.
    match seat.may_read().await {
        ReadPermit::Current => return RoutedRequest::Here(payload),
        ReadPermit::Older(age) => return RoutedRequest::Older(payload, age),
        ReadPermit::Refused => {}
    }
    let what =
        "No member of the control plane confirms that it leads, so nobody knows whether an answer would be current.";
    refused(&Fault::unavailable(what).header("Retry-After", "1"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::WebConfig;

    fn is_for_leader(method: &str, path: &str, query: &str) -> bool {
        let place = address::place(None, path, "http://h".to_owned(), &WebConfig::default()).unwrap();
        pipeline::is_for_leader(&Routers::all(), &place, Method::parse(method), query)
    }

    #[test]
    fn changes_measurements_and_questions_about_the_past_are_for_the_leader() {
        for (method, path, query) in [
            ("POST", "/compute/v2.1/servers", ""),
            ("POST", "/compute/v2.1/servers/x/action", ""),
            ("DELETE", "/image/v2/images/x", ""),
            ("GET", "/compute/v2.1/os-hypervisors/detail", ""),
            ("GET", "/compute/v2.1/servers/detail", "limit=1&as_of=5"),
            ("GET", "/compute/v2.1/servers/detail", "chronova:as_of=5&limit=1"),
            ("GET", "/compute/v2.1/servers/detail", "chronova%3Aas_of=5"),
            ("GET", "/compute/v2.1/servers/detail", "as%5Fof=5"),
        ] {
            assert!(is_for_leader(method, path, query), "{method} {path}?{query}");
        }
        for (method, path, query) in [
            ("GET", "/compute/v2.1/servers/detail", "limit=1"),
            ("HEAD", "/identity/v3/auth/tokens", ""),
            ("GET", "/placement/resource_providers", ""),
            ("GET", "/compute/v2.1/servers/detail", "name=as_of"),
            ("GET", "/compute/v2.1/nothing", "as_of=5"),
        ] {
            assert!(!is_for_leader(method, path, query), "{method} {path}?{query}");
        }
    }
}
