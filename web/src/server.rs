//! The HTTP server: listeners, request ids, headers of every answer, the access log, and the paths outside the APIs.

mod options;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::body::{BoxBody, SizedStream};
use actix_web::http::header::{AGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{KeepAlive, StatusCode};
use actix_web::web::{Data, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, HttpServer, dev, web};
use chronova_events::ids::{ProjectId, RequestId};
use socket2::SockRef;
use tracing::Instrument as _;
use tracing::field::Empty;
use uuid::Uuid;

pub use self::options::{ClientTimeouts, HttpOptions};
use crate::access::{self, requests::AskedPath};
use crate::address;
use crate::app::App;
use crate::cluster::headers::{self, RequestOrigin};
use crate::cluster::routing::{self, RoutedRequest};
use crate::fault::{Fault, RenderContext, render};
use crate::microversion::{HEADER, LEGACY_HEADER};
use crate::pipeline::{self, IncomingRequest, ResponseFacts};
use crate::reply::{Reply, ReplyBody};
use crate::route::Method;
use crate::service::Service;
use crate::startup_gate::StartupGate;
use crate::tables::Routers;
use crate::tls::ServedCertificate;
use crate::{console, cors, dashboard, discovery, openapi};

/// The services of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Every service under its prefix, the console gateway and the dashboard.
    All,
    /// One service at the root, as on the service's usual port.
    Only(Service),
    /// The console gateway at the root, as on the port of `nova-novncproxy`.
    Consoles,
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    pub offer: Offer,
    /// Whether the listener uses TLS.
    pub secure: bool,
}

/// Starts the listeners. Returns each server with its address. A server is a future, which ends after its handle has
/// stopped the server.
pub fn serve(
    door: &StartupGate,
    listeners: &[Listener],
    serving: &HttpOptions,
) -> std::io::Result<Vec<(SocketAddr, dev::Server)>> {
    // Each schema is compiled at its first use, because most are never used. A test compiles all of them.
    let routers = Arc::new(Routers::all());
    let config = |of: Option<&ServedCertificate>| {
        of.map(ServedCertificate::server_config).transpose().map_err(std::io::Error::other)
    };
    let (apis, proxies) = (config(serving.tls.as_ref())?, config(serving.proxies_tls.as_ref())?);
    let patience = serving.patience;
    listeners
        .iter()
        .map(|listener| {
            let (door, routers, offer) = (door.clone(), Arc::clone(&routers), listener.offer);
            let server = HttpServer::new(move || {
                actix_web::App::new().configure(configure_behind(door.clone(), Arc::clone(&routers), offer))
            })
            .workers(serving.workers.max(1))
            .disable_signals()
            .shutdown_timeout(serving.shutdown_seconds())
            .client_request_timeout(patience.head)
            .tls_handshake_timeout(patience.head)
            .keep_alive(patience.idle.map_or(KeepAlive::Disabled, KeepAlive::Timeout));
            let socket = bind(listener.address, patience.stalled)?;
            let own = proxies.as_ref().filter(|_| listener.offer == Offer::Consoles);
            let server = match (own.or(apis.as_ref()), listener.secure) {
                (Some(tls), true) => server.listen_rustls_0_23(socket, tls.clone())?,
                (None, true) => return Err(std::io::Error::other("a secure listener needs a certificate")),
                (_, false) => server.listen(socket)?,
            };
            let address = server.addrs().first().copied().unwrap_or(listener.address);
            Ok((address, server.run()))
        })
        .collect()
}

/// Opens a listening socket. Accepted connections inherit its options.
pub(crate) fn bind(address: SocketAddr, stalled: Duration) -> std::io::Result<TcpListener> {
    const BACKLOG: i32 = 2048;
    // The system's error does not say which address is in use.
    let named = |error: std::io::Error| std::io::Error::new(error.kind(), format!("{address}: {error}"));
    let listener = TcpListener::bind(address).map_err(named)?;
    let socket = SockRef::from(&listener);
    socket.listen(BACKLOG)?;
    if !stalled.is_zero() {
        // This timeout also runs while the client's receive window is zero (tcp(7), TCP_USER_TIMEOUT).
        socket.set_tcp_user_timeout(Some(stalled))?;
    }
    Ok(listener)
}

/// Puts the dispatcher into an actix application; tests use it without a listener.
pub fn configure(
    app: Arc<App>,
    routers: Arc<Routers>,
    only: Option<Service>,
) -> impl FnOnce(&mut ServiceConfig) + Clone {
    configure_behind(StartupGate::open(app), routers, only.map_or(Offer::All, Offer::Only))
}

/// Puts the dispatcher into an actix application, behind a start-up gate that may still be closed.
pub fn configure_behind(
    door: StartupGate,
    routers: Arc<Routers>,
    offer: Offer,
) -> impl FnOnce(&mut ServiceConfig) + Clone {
    move |config: &mut ServiceConfig| {
        config.app_data(Data::new(ListenerContext { door, routers, offer })).default_service(web::to(entry));
    }
}

struct ListenerContext {
    door: StartupGate,
    routers: Arc<Routers>,
    offer: Offer,
}

/// The application, once it has started.
pub(crate) struct OpenedApp<'a> {
    pub(crate) app: Arc<App>,
    pub(crate) routers: &'a Routers,
    pub(crate) only: Option<Service>,
}

async fn entry(request: HttpRequest, payload: web::Payload, entrance: Data<ListenerContext>) -> HttpResponse {
    let app = match entrance.door.enter(request.path()).await {
        Ok(app) => app,
        Err(reply) => return finish(reply, request.head().method == "HEAD"),
    };
    let everything = entrance.offer == Offer::All;
    let consoles = match entrance.offer {
        Offer::All => console::below(request.path()),
        Offer::Consoles => Some(request.path()),
        Offer::Only(_) => None,
    };
    if let Some(path) = consoles {
        return console::answer(&app, &request, path, payload).await;
    }
    // The dashboard logs in at the identity API of its own address. Without that API, the dashboard is not served.
    let dashboard = app.config.dashboard && app.elsewhere(Service::Identity).is_none();
    if everything && dashboard && dashboard::is_here(request.path()) {
        return dashboard::answer(&request);
    }
    let only = if let Offer::Only(service) = entrance.offer { Some(service) } else { None };
    let mut front = OpenedApp { app, routers: &entrance.routers, only };
    let request_id = RequestId::new(format!("req-{}", chronova_events::entropy::uuid()));
    // The empty fields are for traces: see `tell_traces`.
    let span = tracing::info_span!(
        "request",
        request_id = request_id.as_str(),
        service = Empty,
        operation = Empty,
        status = Empty
    );
    let answered = async {
        let parts = (&*front.app, front.routers, front.only);
        match routing::route(parts, &request, payload.into_inner(), &request_id).await {
            RoutedRequest::Here(payload) => {
                // This member may have begun to lead while the request waited, so the request uses the newest
                // application.
                if let Some(app) = entrance.door.opened() {
                    front.app = app;
                }
                handle(&front, request, payload, request_id, None).await
            }
            RoutedRequest::Older(payload, age) => {
                let mut response = handle(&front, request, payload, request_id, None).await;
                // The age is rounded up, so that the answer is never older than its header says.
                response.headers_mut().insert(AGE, (age.as_secs() + 1).into());
                response
            }
            RoutedRequest::Answered(response) => response,
            RoutedRequest::Refused(reply) => finish(reply, request.method() == "HEAD"),
        }
    };
    answered.instrument(span).await
}

/// Answers a request here. `origin` comes with a request that another member has forwarded.
pub(crate) async fn handle(
    front: &OpenedApp<'_>,
    request: HttpRequest,
    payload: dev::Payload,
    request_id: RequestId,
    origin: Option<&RequestOrigin>,
) -> HttpResponse {
    let started = Instant::now();
    let config = &front.app.config;
    let host = origin.map_or_else(|| address::host(&request, config), |origin| origin.host.clone());
    let remote = origin.map_or_else(|| request.peer_addr().map(|peer| peer.ip()), |origin| origin.remote);
    let Some(place) = address::place(front.only, request.path(), host, config) else {
        return finish(outside_services(front, &request), request.head().method == "HEAD");
    };
    let service = place.service;
    let in_flight = front.app.metrics.began(service.name());
    let mut facts = ResponseFacts::default();
    let www_authenticate = config
        .www_authenticate_uri
        .clone()
        .unwrap_or_else(|| [place.links.host.as_str(), "/", Service::Identity.name()].concat());
    let preflight = if request.method() == "OPTIONS" { cors::preflight(&config.cors, request.headers()) } else { None };
    let preflighted = preflight.is_some();
    let result = if let Some(reply) = preflight {
        Ok(reply)
    } else {
        let mut headers = request.headers().clone();
        headers::strip(&mut headers);
        let incoming = IncomingRequest {
            place,
            method: Method::parse(request.method().as_str()),
            query: request.query_string().to_owned(),
            global_request_id: global_request_id(&headers),
            headers,
            payload: Some(payload),
            body: bytes::Bytes::new(),
            request_id: request_id.clone(),
            remote,
        };
        pipeline::run(&front.app, front.routers, incoming, &mut facts).await
    };
    let asked = AskedPath { service, method: request.method().as_str(), path: request.path() };
    access::requests::answered(&front.app, &asked, &facts, &result);
    let mut reply = result.unwrap_or_else(|fault| {
        match &fault.cause {
            Some(cause) if fault.status >= 500 => {
                tracing::error!(status = fault.status, cause = cause.as_str(), "{}", fault.message);
            }
            Some(cause) => tracing::debug!(status = fault.status, cause = cause.as_str(), "{}", fault.message),
            None => {}
        }
        let fault = if fault.status == 401 {
            fault.header("WWW-Authenticate", format!("Keystone uri=\"{www_authenticate}\""))
        } else {
            fault
        };
        let accept = accepted(&request);
        let context = RenderContext { service, accept, version: facts.version, request_id: request_id.as_str() };
        render(&fault, &context)
    });
    if !preflighted {
        reply.headers.extend(cors::headers(&config.cors, request.headers()));
    }
    reply.headers.extend(common_headers(service, &facts, request_id.as_str()));
    let took = started.elapsed();
    let operation = facts.operation.unwrap_or("none");
    front.app.metrics.answered(service.name(), operation, reply.status, took, &request_id);
    drop(in_flight);
    log(&request, remote, &facts, reply.status, took);
    tell_traces(service, &facts, reply.status);
    finish(reply, request.method() == "HEAD")
}

/// Completes the span of the request, if traces are exported.
fn tell_traces(service: Service, facts: &ResponseFacts, status: u16) {
    if tracing::span_enabled!(target: "spans", tracing::Level::INFO) {
        let span = tracing::Span::current();
        span.record("service", service.name()).record("operation", facts.operation.unwrap_or("none"));
        span.record("status", status);
    }
}

fn log(request: &HttpRequest, remote: Option<IpAddr>, facts: &ResponseFacts, status: u16, took: Duration) {
    let caller = facts.requester.as_ref().map(|requester| &requester.caller).filter(|caller| !caller.is_anonymous());
    tracing::info!(
        target: "chronova_web::access",
        method = request.method().as_str(),
        path = access::requests::without_secret(request.path()),
        status,
        operation = facts.operation.unwrap_or("none"),
        version = facts.version.map(tracing::field::display),
        user = caller.map(|caller| caller.user.as_str()),
        project = caller.and_then(|caller| caller.project.as_ref()).map(ProjectId::as_str),
        remote = remote.map(tracing::field::display),
        micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        "answered"
    );
}

/// The media types that the client accepts; empty if it names none.
fn accepted(request: &HttpRequest) -> &str {
    request.headers().get("Accept").and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The `X-OpenStack-Request-ID` of another service, if it has the form of a request id. No other text may get into logs
/// and events.
fn global_request_id(headers: &HeaderMap) -> Option<RequestId> {
    let text = headers.get("X-OpenStack-Request-ID")?.to_str().ok()?;
    let uuid = text.strip_prefix("req-")?;
    (uuid.len() == 36 && Uuid::try_parse(uuid).is_ok()).then(|| RequestId::new(text))
}

/// The index, health, metrics and OpenAPI documents: only on listeners that serve all services.
fn outside_services(front: &OpenedApp<'_>, request: &HttpRequest) -> Reply {
    match request.path() {
        "/" => discovery::index(&address::host(request, &front.app.config), &front.app),
        "/healthz" => front.app.health.report(),
        "/openapi.json" => openapi::answer(request.query_string()),
        "/metrics" => match front.app.metrics.render(accepted(request)) {
            Ok((content_type, text)) => Reply::bytes(200, content_type, text),
            Err(error) => {
                tracing::error!(%error, "the metrics cannot be shown");
                Reply::empty(500)
            }
        },
        _ => {
            let context = RenderContext { service: Service::Compute, accept: "", version: None, request_id: "" };
            render(&Fault::no_route(), &context)
        }
    }
}

fn common_headers(service: Service, facts: &ResponseFacts, request_id: &str) -> Vec<(&'static str, String)> {
    let mut headers = vec![("x-openstack-request-id", request_id.to_owned())];
    match service {
        Service::Compute => {
            headers.push(("x-compute-request-id", request_id.to_owned()));
            if let Some(version) = facts.version {
                headers.push((HEADER, format!("compute {version}")));
                headers.push((LEGACY_HEADER, version.to_string()));
            }
            headers.push(("Vary", HEADER.to_owned()));
            headers.push(("Vary", LEGACY_HEADER.to_owned()));
        }
        Service::Placement => {
            if let Some(version) = facts.version {
                headers.push((HEADER, format!("placement {version}")));
            }
            headers.push(("Vary", HEADER.to_owned()));
        }
        Service::Identity => headers.push(("Vary", "X-Auth-Token".to_owned())),
        Service::Volume => {
            if let Some(version) = facts.version {
                headers.push((HEADER, format!("volume {version}")));
            }
            headers.push(("Vary", HEADER.to_owned()));
        }
        Service::Image | Service::Network | Service::Metadata | Service::Chronova => {}
    }
    headers
}

fn finish(reply: Reply, head: bool) -> HttpResponse {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    for (name, value) in reply.headers {
        // Values with line breaks are dropped, so that a value cannot inject another header.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.append_header((name, value));
        }
    }
    match reply.body {
        ReplyBody::Empty => response.finish(),
        ReplyBody::Json(value) => {
            response.insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")));
            // Faster than `to_string`, which writes each piece through a formatter. A value always has a text.
            let text = if head { Vec::new() } else { serde_json::to_vec(&value).unwrap_or_default() };
            response.body(text)
        }
        ReplyBody::Bytes { content_type, bytes } => {
            response.insert_header((CONTENT_TYPE, HeaderValue::from_static(content_type)));
            if head { response.finish() } else { response.body(bytes) }
        }
        ReplyBody::Stream { content_type, length, stream } => {
            response.insert_header((CONTENT_TYPE, HeaderValue::from_static(content_type)));
            match length {
                _ if head => response.finish(),
                Some(length) => response.body(BoxBody::new(SizedStream::new(length, stream))),
                None => response.streaming(stream),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::auth::Authentication;
    use crate::config::WebConfig;
    use crate::metrics::HttpMetrics;
    use crate::policy::{Enforcer, Overrides};

    /// Tests reach this limit only when they hang.
    const FOR_EVER: Duration = Duration::from_mins(1);

    #[test]
    fn an_address_in_use_is_named() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = taken.local_addr().unwrap();
        let error = bind(address, Duration::ZERO).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{address}: ")), "{error}");
    }

    /// Starts a listener with these timeouts.
    fn listening(patience: ClientTimeouts) -> (SocketAddr, dev::ServerHandle) {
        let config = WebConfig::default();
        let policy = Enforcer::new(&config.policy, &Overrides::parse("", "policy.yaml").unwrap()).unwrap();
        let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
        let door = StartupGate::open(Arc::new(App::new(config, policy, Authentication::NoAuth, metrics)));
        let listener = Listener { address: ([127, 0, 0, 1], 0).into(), offer: Offer::All, secure: false };
        let serving = HttpOptions { workers: 1, patience, ..HttpOptions::default() };
        let (address, server) = serve(&door, &[listener], &serving).unwrap().remove(0);
        let handle = server.handle();
        actix_web::rt::spawn(server);
        (address, handle)
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(FOR_EVER)).unwrap();
        socket
    }

    /// Reads until the server closes the connection.
    fn until_closed(socket: &mut TcpStream) -> String {
        let mut bytes = Vec::new();
        match socket.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "not closed: {error}"),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[actix_web::test]
    async fn a_client_that_does_not_complete_a_request_head_gets_408() {
        let (address, server) =
            listening(ClientTimeouts { head: Duration::from_millis(200), ..ClientTimeouts::default() });
        let said = web::block(move || {
            let mut socket = connect(address);
            socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ").unwrap();
            until_closed(&mut socket)
        });
        assert!(said.await.unwrap().starts_with("HTTP/1.1 408"));
        server.stop(false).await;
    }

    #[actix_web::test]
    async fn an_idle_connection_is_closed_and_one_without_keep_alive_at_once() {
        let polls = Duration::from_secs(5);
        assert!(ClientTimeouts::default().idle.is_some_and(|idle| idle > polls + Duration::from_secs(1)));
        for idle in [Some(Duration::from_secs(1)), None] {
            let (address, server) = listening(ClientTimeouts { idle, ..ClientTimeouts::default() });
            let said = web::block(move || {
                let mut socket = connect(address);
                socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                until_closed(&mut socket)
            });
            assert!(said.await.unwrap().starts_with("HTTP/1.1 200"));
            server.stop(false).await;
        }
    }

    #[actix_web::test]
    async fn a_client_that_reads_no_answer_is_disconnected() {
        let (address, server) =
            listening(ClientTimeouts { stalled: Duration::from_secs(1), ..ClientTimeouts::default() });
        let failed = web::block(move || {
            // With a small buffer, the client's window is closed from the first answer on. With a larger buffer, the
            // kernel may send some bytes of an answer again and again.
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_recv_buffer_size(4096).unwrap();
            socket.connect(&address.into()).unwrap();
            let mut socket = TcpStream::from(socket);
            socket.set_nonblocking(true).unwrap();
            for _ in 0..3_000 {
                // The client sends request after request and reads no answer.
                if let Err(error) = socket.write(b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n")
                    && error.kind() != std::io::ErrorKind::WouldBlock
                {
                    return error;
                }
                #[expect(clippy::disallowed_methods, reason = "a thread of its own")]
                std::thread::sleep(Duration::from_millis(20));
            }
            std::io::Error::other("the server keeps the connection")
        });
        let failed = failed.await.unwrap().kind();
        assert!(matches!(failed, std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe), "{failed}");
        server.stop(false).await;
    }

    /// The gate is closed, so the request is under way until the server gives up.
    #[actix_web::test]
    async fn a_shutdown_waits_for_requests_no_longer_than_the_option_says() {
        let (_opener, door) = StartupGate::closed(Arc::new(|| serde_json::json!(null)));
        let listener = Listener { address: ([127, 0, 0, 1], 0).into(), offer: Offer::All, secure: false };
        let serving = HttpOptions { workers: 1, graceful: Duration::from_secs(1), ..HttpOptions::default() };
        let (address, server) = serve(&door, &[listener], &serving).unwrap().remove(0);
        let handle = server.handle();
        actix_web::rt::spawn(server);
        let mut socket = connect(address);
        socket.write_all(b"GET /servers HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        // The request has reached a worker. An idle worker would end at once.
        actix_web::rt::time::sleep(Duration::from_millis(300)).await;
        let began = Instant::now();
        handle.stop(true).await;
        let took = began.elapsed();
        assert!((Duration::from_millis(700)..Duration::from_secs(15)).contains(&took), "{took:?}");
        assert_eq!(until_closed(&mut socket), "", "it got an answer");
        assert_eq!(HttpOptions { graceful: Duration::ZERO, ..HttpOptions::default() }.shutdown_seconds(), u64::MAX);
    }

    #[actix_web::test]
    async fn a_request_under_way_is_answered_during_a_shutdown() {
        let config = WebConfig::default();
        let policy = Enforcer::new(&config.policy, &Overrides::parse("", "policy.yaml").unwrap()).unwrap();
        let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
        let app = Arc::new(App::new(config, policy, Authentication::NoAuth, metrics));
        let (opener, door) = StartupGate::closed(Arc::new(|| serde_json::json!(null)));
        let listener = Listener { address: ([127, 0, 0, 1], 0).into(), offer: Offer::All, secure: false };
        let serving = HttpOptions { workers: 1, ..HttpOptions::default() };
        let (address, server) = serve(&door, &[listener], &serving).unwrap().remove(0);
        let handle = server.handle();
        actix_web::rt::spawn(server);
        let mut socket = connect(address);
        socket.write_all(b"GET /compute/ HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        actix_web::rt::time::sleep(Duration::from_millis(300)).await;
        let stopping = actix_web::rt::spawn(handle.stop(true));
        actix_web::rt::time::sleep(Duration::from_millis(300)).await;
        assert!(!stopping.is_finished(), "the shutdown did not wait");
        opener.open(&app);
        stopping.await.unwrap();
        let said = until_closed(&mut socket);
        assert!(said.starts_with("HTTP/1.1 ") && said.contains("v2.1"), "{said}");
        assert!(TcpStream::connect(address).is_err(), "it still listens");
    }

    #[actix_web::test]
    async fn a_secure_listener_needs_a_certificate() {
        let config = WebConfig::default();
        let policy = Enforcer::new(&config.policy, &Overrides::parse("", "policy.yaml").unwrap()).unwrap();
        let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
        let door = StartupGate::open(Arc::new(App::new(config, policy, Authentication::NoAuth, metrics)));
        let listener = Listener { address: ([127, 0, 0, 1], 0).into(), offer: Offer::All, secure: true };
        assert!(serve(&door, &[listener], &HttpOptions::default()).is_err());
    }
}
