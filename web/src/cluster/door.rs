//! What this member answers to other members, on a listener of its own: where its log is, and forwarded requests.
//!
//! Whoever does not know the cluster's secret gets 403, and learns nothing. Over TLS a client needs a certificate, too.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, HttpServer, dev, web};
use chronova_events::envelope::Position;
use chronova_events::ids::RequestId;
use tracing::Instrument as _;

use super::seat::{ClusterSeat, until_certain};
use super::{ClusterSecret, FOLLOWS, HEAD, HOST, ONLY, PASS, POSITION, REMOTE, REQUEST, RequestOrigin};
use crate::app::App;
use crate::door::StartupGate;
use crate::secret::Secret;
use crate::server::{self, OpenedApp};
use crate::service::Service;
use crate::tables::Routers;
use crate::tls::TlsFiles;

/// How long the question for news waits.
const NEWS: Duration = Duration::from_millis(500);
/// How long requests under way may take when the listener ends.
const FAREWELL: Duration = Duration::from_secs(20);

/// The listener for other members.
#[derive(Debug, Clone)]
pub struct PeerDoorOptions {
    pub address: SocketAddr,
    /// With `client_ca`: members show certificates to each other.
    pub tls: Option<TlsFiles>,
    pub workers: usize,
}

struct PeerDoor {
    gate: StartupGate,
    routers: Arc<Routers>,
    pass: Secret,
}

/// A started listener.
#[derive(Debug)]
pub struct RunningDoor {
    handle: dev::ServerHandle,
    state: Arc<DoorState>,
}

#[derive(Debug, Default)]
struct DoorState {
    closes: AtomicBool,
    under_way: AtomicUsize,
}

impl RunningDoor {
    /// Takes no more requests, waits for those under way, and ends all connections: other members keep theirs open.
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
pub fn serve(gate: &StartupGate, options: &PeerDoorOptions, secret: &ClusterSecret) -> std::io::Result<RunningDoor> {
    let routers = Arc::new(Routers::all());
    routers.compile_all().map_err(std::io::Error::other)?;
    let state = Arc::<DoorState>::default();
    let (gate, pass) = (gate.clone(), secret.pass());
    let door = Data::new(PeerDoor { gate, routers, pass, state: Arc::clone(&state) });
    let server = HttpServer::new(move || actix_web::App::new().app_data(door.clone()).default_service(web::to(entry)))
        .workers(options.workers.max(1))
        .disable_signals()
        .shutdown_timeout(30)
        .keep_alive(Duration::from_secs(75));
    let socket = server::bind(options.address, Duration::ZERO)?;
    let server = match &options.tls {
        Some(tls) => {
            let tls = tls.server_config().map_err(std::io::Error::other)?;
            server.listen_rustls_0_23(socket, tls)?
        }
        None => server.listen(socket)?,
    };
    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Ok(RunningDoor { handle, state })
}

async fn entry(request: HttpRequest, payload: web::Payload, door: Data<PeerDoor>) -> HttpResponse {
    let pass = request.headers().get(PASS).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if Secret::new(pass) != door.pass {
        return HttpResponse::Forbidden().finish();
    }
    let _under_way = UnderWay::begin(&door.state);
    if door.state.closes.load(Ordering::SeqCst) {
        return follows();
    }
    let Some(app) = door.gate.opened() else { return follows() };
    let Some(ClusterSeat::Leads(certain)) = &app.cluster else { return follows() };
    if request.path() == HEAD {
        return if certain() { head(&app, request.query_string(), certain).await } else { follows() };
    }
    if !until_certain(certain).await {
        return follows();
    }
    let Some(origin) = origin(&request) else { return HttpResponse::BadRequest().finish() };
    let front = OpenedApp { app: Arc::clone(&app), routers: &door.routers, only: origin.only };
    let request_id = origin.request_id.clone();
    let span = tracing::info_span!("request", request_id = request_id.as_str());
    let mut response =
        server::handle(&front, request, payload.into_inner(), request_id, Some(&origin)).instrument(span).await;
    if let (Ok(log), Ok(name)) = (app.log(), actix_web::http::header::HeaderName::try_from(POSITION)) {
        // Whatever the request did is before the end of the log now.
        response.headers_mut().insert(name, log.head().0.into());
    }
    response
}

/// Not here: nothing was done.
fn follows() -> HttpResponse {
    HttpResponse::build(StatusCode::MISDIRECTED_REQUEST).insert_header((FOLLOWS, "1")).finish()
}

/// Up to where the log is acknowledged. `after=N` waits a little for more than N.
async fn head(app: &App, query: &str, certain: &super::seat::Certainty) -> HttpResponse {
    let (Ok(log), Ok(queries)) = (app.log(), app.queries()) else { return follows() };
    if let Some(after) = query.strip_prefix("after=").and_then(|after| after.parse().ok()) {
        let next = Position(u64::saturating_add(after, 1));
        if log.head() < next {
            queries.views.wait_for(next, NEWS).await;
        }
    }
    // First the position, then whether somebody else may have taken the log.
    let position = log.head();
    if !certain() {
        return follows();
    }
    HttpResponse::Ok().insert_header((POSITION, position.0)).finish()
}

/// What the member says about the request that it forwards.
fn origin(request: &HttpRequest) -> Option<RequestOrigin> {
    let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let only = match text(ONLY) {
        Some(name) => Some(Service::ALL.into_iter().find(|service| service.name() == name)?),
        None => None,
    };
    let remote: Option<IpAddr> = text(REMOTE).and_then(|address| address.parse().ok());
    Some(RequestOrigin { host: text(HOST)?.to_owned(), remote, only, request_id: RequestId::new(text(REQUEST)?) })
}
