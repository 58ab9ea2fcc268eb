//! The listener for other members. The leader tells them the acknowledged position of the log, and performs the
//! requests that they forward.
//!
//! A client must show a certificate that the cluster's authority has signed; the TLS handshake refuses all others. A
//! forwarded request carries the user's own token, and the leader authenticates it again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, HttpServer, dev, web};
use chronova_events::envelope::Position;
use chronova_events::ids::RequestId;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::headers::{EPOCH, FOLLOWS, HEAD, HOST, ONLY, POSITION, PROTOCOL, REMOTE, REQUEST, RequestOrigin};
use super::protocol::PeerProtocol;
use super::seat::{ClusterSeat, ConfirmedEpoch, until_confirmed};
use crate::app::App;
use crate::server::{self, OpenedApp};
use crate::service::Service;
use crate::startup_gate::StartupGate;
use crate::tables::Routers;
use crate::tls::TlsFiles;

/// How long the leader waits for a position later than the position that the asking member already knows.
const NEWS: Duration = Duration::from_millis(500);
/// How long requests under way may take when the listener ends.
const FAREWELL: Duration = Duration::from_secs(20);

/// The options of the listener for other members.
#[derive(Debug, Clone)]
pub struct PeerDoorOptions {
    pub address: SocketAddr,
    /// The TLS files. They include `client_ca`, so that other members must show certificates.
    pub tls: TlsFiles,
    pub workers: usize,
}

struct PeerDoor {
    gate: StartupGate,
    routers: Arc<Routers>,
    state: Arc<DoorState>,
}

#[derive(Debug, Default)]
struct DoorState {
    closes: AtomicBool,
    under_way: AtomicUsize,
}

/// A started listener.
#[derive(Debug)]
pub struct RunningDoor {
    handle: dev::ServerHandle,
    state: Arc<DoorState>,
}

impl RunningDoor {
    /// Refuses new requests, waits for those under way, and closes the connections that other members keep open.
    pub async fn close(&self) {
        self.state.closes.store(true, Ordering::SeqCst);
        let until = tokio::time::Instant::now() + FAREWELL;
        while self.state.under_way.load(Ordering::SeqCst) > 0 && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.handle.stop(false).await;
    }
}

/// Counts a request while it is under way.
struct UnderWay<'a>(&'a DoorState);

impl<'a> UnderWay<'a> {
    fn begin(state: &'a DoorState) -> Self {
        state.under_way.fetch_add(1, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Starts the listener.
pub fn serve(gate: &StartupGate, options: &PeerDoorOptions) -> std::io::Result<RunningDoor> {
    let routers = Arc::new(Routers::all());
    routers.compile_all().map_err(std::io::Error::other)?;
    if options.tls.client_ca.is_none() {
        return Err(std::io::Error::other("the listener for other members needs the authority of their certificates"));
    }
    let tls = options.tls.server_config().map_err(std::io::Error::other)?;
    let state = Arc::<DoorState>::default();
    let door = Data::new(PeerDoor { gate: gate.clone(), routers, state: Arc::clone(&state) });
    let server = HttpServer::new(move || actix_web::App::new().app_data(door.clone()).default_service(web::to(entry)))
        .workers(options.workers.max(1))
        .disable_signals()
        .shutdown_timeout(30)
        .keep_alive(Duration::from_secs(75))
        .listen_rustls_0_23(server::bind(options.address, Duration::ZERO)?, tls)?
        .run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Ok(RunningDoor { handle, state })
}

async fn entry(request: HttpRequest, payload: web::Payload, door: Data<PeerDoor>) -> HttpResponse {
    let theirs = request.headers().get(PROTOCOL).map(|value| value.to_str().unwrap_or_default().to_owned());
    let mut response = match PeerProtocol::mismatch(theirs.as_deref()) {
        Some(reason) => {
            tracing::debug!(reason, "refused a request of another member, which reports this as an error");
            HttpResponse::build(StatusCode::UPGRADE_REQUIRED).finish()
        }
        None => answer(request, payload, door).await,
    };
    if let Ok(own) = HeaderValue::try_from(PeerProtocol::OWN.to_string()) {
        response.headers_mut().insert(HeaderName::from_static(PROTOCOL), own);
    }
    response
}

async fn answer(request: HttpRequest, payload: web::Payload, door: Data<PeerDoor>) -> HttpResponse {
    let _under_way = UnderWay::begin(&door.state);
    if door.state.closes.load(Ordering::SeqCst) {
        return follows();
    }
    let Some(app) = door.gate.opened() else { return follows() };
    let Some(ClusterSeat::Leads(confirmed)) = &app.cluster else { return follows() };
    if request.path() == HEAD {
        return head(&app, request.query_string(), confirmed).await;
    }
    let Some(epoch) = until_confirmed(confirmed).await else { return follows() };
    let Some(origin) = origin(&request) else { return HttpResponse::BadRequest().finish() };
    let front = OpenedApp { app: Arc::clone(&app), routers: &door.routers, only: origin.only };
    let request_id = origin.request_id.clone();
    let span = tracing::info_span!(
        "request",
        request_id = request_id.as_str(),
        service = Empty,
        operation = Empty,
        status = Empty
    );
    let handled = server::handle(&front, request, payload.into_inner(), request_id, Some(&origin));
    let mut response = handled.instrument(span).await;
    if let Ok(log) = app.log() {
        // By now the log has all effects of the request, so the position of its end includes them.
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static(POSITION), log.head().0.into());
        headers.insert(HeaderName::from_static(EPOCH), epoch.into());
    }
    response
}

/// The refusal of a member that does not lead and has not performed the request.
fn follows() -> HttpResponse {
    HttpResponse::build(StatusCode::MISDIRECTED_REQUEST).insert_header((FOLLOWS, "1")).finish()
}

/// The acknowledged position. With `after=N`, the answer waits up to [`NEWS`] for a position after N.
async fn head(app: &App, query: &str, confirmed: &ConfirmedEpoch) -> HttpResponse {
    let (Ok(log), Ok(queries)) = (app.log(), app.queries()) else { return follows() };
    if let Some(after) = query.strip_prefix("after=").and_then(|after| after.parse::<u64>().ok()) {
        queries.views.wait_for(Position(after.saturating_add(1)), NEWS).await;
    }
    // The position is read before the check of the epoch. So a leader that was deposed after the reading does not
    // answer with the position.
    let position = log.head();
    match confirmed() {
        Some(epoch) => HttpResponse::Ok().insert_header((POSITION, position.0)).insert_header((EPOCH, epoch)).finish(),
        None => follows(),
    }
}

/// The request, as seen by the member to which the client is connected.
fn origin(request: &HttpRequest) -> Option<RequestOrigin> {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let only = match text(ONLY) {
        Some(name) => Some(Service::ALL.into_iter().find(|service| service.name() == name)?),
        None => None,
    };
    let remote: Option<IpAddr> = text(REMOTE).and_then(|address| address.parse().ok());
    Some(RequestOrigin { host: text(HOST)?.to_owned(), remote, only, request_id: RequestId::new(text(REQUEST)?) })
}
