//! Sends a whole request to the leader.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use actix_web::body::SizedStream;
use actix_web::dev::Payload;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use chronova_events::envelope::Position;
use futures::StreamExt as _;
use hyper::body::{Body as _, Frame, Incoming};
use hyper::{Request, Response};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::headers::{FOLLOWS, HOST, INTERNAL, ONLY, POSITION, PROTOCOL, REMOTE, REQUEST, RequestOrigin};
use super::peers::{PeerBody, PeerFailure};
use super::protocol::PeerProtocol;
use super::seat::FollowerSeat;
use crate::body;
use crate::fault::Fault;

/// A body up to this size is read before the request is sent. So if one leader refuses the request, it can be sent
/// again to the next leader.
const WHOLE: usize = 1 << 20;
/// An upload that brings no byte for this long is ended.
const STALLED: Duration = Duration::from_mins(1);
/// The most chunks of an upload that wait for the leader.
const DEPTH: usize = 16;
/// Headers that belong to one connection (RFC 9110, 7.6.1).
const OF_CONNECTION: [&str; 8] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"];

/// How long a request waits for a leader that accepts it. Waiting is safe, because no member has performed the request.
const WAITS: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(30);

/// The outcome of a request for the leader.
pub(super) enum Forwarded {
    Answered(HttpResponse),
    /// This member leads now. No member has performed the request.
    Promoted(Payload),
    Failed(Fault),
}

/// The body of the request, if it can still be sent.
enum UnsentBody {
    Whole(Bytes),
    Chunks(mpsc::Receiver<io::Result<Bytes>>),
    /// A part of this upload was sent. The upload cannot be sent again.
    Gone,
}

/// Sends the request to the leader and waits for its answer.
pub(super) async fn forward(
    seat: &FollowerSeat,
    origin: &RequestOrigin,
    request: &HttpRequest,
    payload: Payload,
) -> Forwarded {
    let mut unsent = match take(request, payload).await {
        Ok(body) => body,
        Err(fault) => return Forwarded::Failed(fault),
    };
    let until = Instant::now() + WAITS;
    loop {
        let Some(leader) = seat.leader(until).await else {
            return match unsent {
                UnsentBody::Whole(bytes) if seat.is_promoted() => Forwarded::Promoted(payload_of(bytes)),
                _ => Forwarded::Failed(nobody()),
            };
        };
        let body = match std::mem::replace(&mut unsent, UnsentBody::Gone) {
            UnsentBody::Whole(bytes) => {
                unsent = UnsentBody::Whole(bytes.clone());
                PeerBody::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
            }
            UnsentBody::Chunks(chunks) => PeerBody::Chunks(chunks),
            UnsentBody::Gone => return Forwarded::Failed(nobody()),
        };
        let outgoing = match outgoing(origin, request, &leader, body) {
            Ok(outgoing) => outgoing,
            Err(fault) => return Forwarded::Failed(fault),
        };
        match seat.peers.send(&leader, outgoing).await {
            Ok(response) if response.headers().contains_key(FOLLOWS) => {}
            Ok(response) => return Forwarded::Answered(answer(seat, response).await),
            Err(PeerFailure::NotSent { reason, request }) => {
                tracing::debug!(leader, reason, "the leader did not accept the request");
                if let Some(PeerBody::Chunks(chunks)) = request.map(|request| request.into_body()) {
                    unsent = UnsentBody::Chunks(chunks);
                }
            }
            Err(PeerFailure::OtherProtocol { reason }) => {
                tracing::error!(leader, reason, "the leader cannot be asked");
                return Forwarded::Failed(incompatible());
            }
            Err(PeerFailure::Unknown { reason }) => {
                tracing::warn!(leader, reason, "the leader's answer is lost");
                return Forwarded::Failed(lost());
            }
        }
        if Instant::now() >= until {
            return Forwarded::Failed(nobody());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads a small body. A large body, or a body of unknown length, is streamed.
async fn take(request: &HttpRequest, payload: Payload) -> Result<UnsentBody, Fault> {
    let headers = request.headers();
    let announced = headers.get("content-length").and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    match announced {
        None if !headers.contains_key("transfer-encoding") => Ok(UnsentBody::Whole(Bytes::new())),
        Some(length) if length <= WHOLE => Ok(UnsentBody::Whole(body::read(payload, headers, WHOLE).await?)),
        _ => {
            let (sender, chunks) = mpsc::channel(DEPTH);
            actix_web::rt::spawn(pump(payload, sender));
            Ok(UnsentBody::Chunks(chunks))
        }
    }
}

async fn pump(mut payload: Payload, sender: mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let chunk = match tokio::time::timeout(STALLED, payload.next()).await {
            Ok(Some(chunk)) => chunk.map_err(io::Error::other),
            Ok(None) => return,
            Err(_) => Err(io::Error::other("nothing more of the body arrived in time")),
        };
        let failed = chunk.is_err();
        if sender.send(chunk).await.is_err() || failed {
            return;
        }
    }
}

fn payload_of(bytes: Bytes) -> Payload {
    Payload::Stream { payload: Box::pin(futures::stream::once(std::future::ready(Ok(bytes)))) }
}

/// Builds the request for the leader. It has the client's own headers, including the token. Further headers tell how
/// the request reached this member.
fn outgoing(
    origin: &RequestOrigin,
    request: &HttpRequest,
    leader: &str,
    body: PeerBody,
) -> Result<Request<PeerBody>, Fault> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    let mut outgoing = Request::builder().method(request.method().as_str()).uri(target);
    for (name, value) in request.headers() {
        let name = name.as_str();
        if !OF_CONNECTION.contains(&name) && !INTERNAL.contains(&name) && name != "host" {
            outgoing = outgoing.header(name, value.as_bytes());
        }
    }
    outgoing = outgoing.header("host", leader).header(HOST, &origin.host).header(REQUEST, origin.request_id.as_str());
    outgoing = outgoing.header(PROTOCOL, PeerProtocol::OWN.to_string());
    if let Some(remote) = origin.remote {
        outgoing = outgoing.header(REMOTE, remote.to_string());
    }
    if let Some(only) = origin.only {
        outgoing = outgoing.header(ONLY, only.name());
    }
    outgoing.body(body).map_err(|error| Fault::malformed().caused_by(error))
}

/// The leader's answer, as soon as the read models of this member show the effects of the request.
async fn answer(seat: &FollowerSeat, response: Response<Incoming>) -> HttpResponse {
    let status = StatusCode::from_u16(response.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut outgoing = HttpResponse::build(status);
    for (name, value) in response.headers() {
        let name = name.as_str();
        if OF_CONNECTION.contains(&name) || INTERNAL.contains(&name) || name == "content-length" || name == "date" {
            continue;
        }
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
            outgoing.append_header((name, value));
        }
    }
    let position = response.headers().get(POSITION).and_then(|value| value.to_str().ok()?.parse().ok());
    if let Some(position) = position.map(Position)
        && !seat.shows(position).await
    {
        tracing::warn!(%position, "the read models of this member lag behind the leader");
    }
    let body = response.into_body();
    let length = body.size_hint().exact();
    let stream = futures::stream::unfold(body, |mut body| async move {
        loop {
            let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await?;
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => return Some((Ok(data), body)),
                // Trailers carry no data of the body.
                Ok(Err(_)) => {}
                Err(error) => return Some((Err(io::Error::other(error)), body)),
            }
        }
    });
    match length {
        Some(0) => outgoing.finish(),
        Some(length) => outgoing.body(SizedStream::new(length, Box::pin(stream))),
        None => outgoing.streaming(Box::pin(stream)),
    }
}

fn nobody() -> Fault {
    Fault::unavailable("No member of the control plane leads at the moment. Nothing was done; send the request again.")
        .header("Retry-After", "1")
}

fn incompatible() -> Fault {
    Fault::unavailable(
        "This member of the control plane and the leader have versions that do not work together. Nothing was done; ask \
         another member.",
    )
    .header("Retry-After", "5")
}

fn lost() -> Fault {
    Fault::unavailable(
        "The connection to the leader of the control plane ended during this request. Check whether the request was \
         performed before you send it again.",
    )
    .header("Retry-After", "2")
}
