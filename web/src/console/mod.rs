//! The console gateway, which replaces `nova-novncproxy`, `nova-spicehtml5proxy` and `nova-serialproxy`.
//!
//! `GET /console?token=...` becomes a WebSocket, which relays to and from the token's console. A screen is a TCP
//! connection to the guest's host, and [`rfb`] protects the connection of a VNC screen. A serial line uses the
//! hypervisor's own connection, so that no host needs a port for it. `/console/FILE` serves the files of the viewer in
//! `[DEFAULT] web` (noVNC, spice-html5). A listener that serves only the gateway has all this at its root, like Nova's
//! proxies.
//!
//! The gateway checks a request in Nova's order. First, the token must be known and not expired, and its server must
//! exist. Second, a browser's `Origin` must be this host or one of `[console] allowed_origins`, and as secure as the
//! console's URL. Last, the guest's screen must still have the address in the token. A refusal has no body, because
//! viewers would show it as console output. The process logs the reason.
//!
//! `[chronova] max_consoles` bounds the number of all connections. [`limits`] bounds the connections of each token,
//! server and user, and [`relay`] bounds the buffered data. All consoles end with the process. [`recording`] keeps what
//! is shown and typed, if the operator wants that.

mod config;
mod connection;
mod frames;
mod limits;
mod open_consoles;
mod pages;
mod recording;
mod relay;
mod rfb;
mod vnc_security;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderMap, USER_AGENT};
use actix_web::{HttpRequest, HttpResponse, web};
use chronova_actors::hosts::readings::HostReadings;
use chronova_events::console::ConsoleAuthorized;
use chronova_hypervisor::capability::consoles::{ConsoleAddress, Screen, SerialLine};
use chronova_hypervisor::driver::DriverError;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use self::config::ConsoleConfig;
use self::limits::{ConsoleSlot, NoConsoleSlot};
pub use self::open_consoles::OpenConsoles;
use self::recording::ConsoleRecording;
use self::rfb::RfbError;
pub use self::vnc_security::{VncScheme, VncSecurity};
use crate::access::{self, consoles::ConsoleSession};
use crate::address;
use crate::app::App;
use crate::cluster::seat::ClusterSeat;
use crate::config::WebConfig;
use crate::fault::Fault;
use crate::query::Query;
use crate::secret::Secret;

/// The path of the gateway on the common port.
pub const PATH: &str = "/console";

/// The time limit for a connection to a guest's host.
const DIAL: Duration = Duration::from_secs(10);

/// The hash under which the read model stores a token. The token itself is not stored.
pub(crate) fn token_hash(token: &str) -> String {
    let bytes = Secret::new(token).hash().0;
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// The reason for a refused console.
#[derive(Debug, Error)]
enum ConsoleRefusal {
    #[error("the request does not ask for a WebSocket")]
    NoWebSocket,
    #[error("the token is unknown or has expired")]
    Token,
    #[error("the origin {0:?} is neither this host nor an allowed one")]
    Origin(String),
    #[error("Origin header protocol does not match this host: the origin is {0:?}")]
    OriginScheme(String),
    #[error("the guest's console has moved to another address")]
    Moved,
    #[error("only the leader of the cluster relays consoles, and this member follows")]
    Follows,
    #[error("{0}")]
    Place(#[from] NoConsoleSlot),
    #[error("the guest's console cannot be reached: {0}")]
    Driver(#[from] DriverError),
    #[error("the guest's console cannot be reached: {0}")]
    Dial(#[from] std::io::Error),
    #[error("the guest's screen cannot be opened: {0}")]
    Screen(#[from] RfbError),
    #[error("the console cannot be recorded: {0}")]
    Recording(std::io::Error),
    #[error("{0}")]
    Internal(String),
}

impl ConsoleRefusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoWebSocket => StatusCode::UPGRADE_REQUIRED,
            Self::Token | Self::Origin(_) | Self::OriginScheme(_) | Self::Moved => StatusCode::FORBIDDEN,
            Self::Place(NoConsoleSlot::TooMany) => StatusCode::TOO_MANY_REQUESTS,
            Self::Place(NoConsoleSlot::Full) | Self::Recording(_) | Self::Internal(_) | Self::Follows => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Driver(_) | Self::Dial(_) | Self::Screen(_) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl From<Fault> for ConsoleRefusal {
    fn from(fault: Fault) -> Self {
        Self::Internal(fault.message)
    }
}

/// The part of a path below [`PATH`]; `None` if the path does not belong to the gateway.
pub(crate) fn below(path: &str) -> Option<&str> {
    path.strip_prefix(PATH).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers every request of the gateway. `path` is the part below its root.
pub(crate) async fn answer(app: &Arc<App>, request: &HttpRequest, path: &str, payload: web::Payload) -> HttpResponse {
    if let Some(file) = path.strip_prefix('/').filter(|file| !file.is_empty()) {
        return pages::answer(&app.compute.config.consoles.pages, file, request).await;
    }
    match open(app, request).await {
        Ok(OpenedConsole { accept, held, line, recording }) => {
            let mut response = HttpResponse::build(StatusCode::SWITCHING_PROTOCOLS);
            response.upgrade("websocket").insert_header(("Sec-WebSocket-Accept", accept));
            // Viewers request `binary`. Only browsers that no longer exist need `base64`.
            if names(request.headers(), "Sec-WebSocket-Protocol").any(|name| name == "binary") {
                response.insert_header(("Sec-WebSocket-Protocol", "binary"));
            }
            response.streaming(relay::start(payload, line, held, recording, app.consoles.closing.subscribe()))
        }
        Err(refusal) => {
            tracing::info!(remote = ?request.peer_addr(), reason = %refusal, "refused a console");
            let mut response = HttpResponse::build(refusal.status());
            if matches!(refusal, ConsoleRefusal::NoWebSocket) {
                response.insert_header(("Upgrade", "websocket")).insert_header(("Sec-WebSocket-Version", "13"));
            }
            response.finish()
        }
    }
}

/// The counted slot and the record of a console. The console holds both until it ends.
type HeldConsole = (ConsoleSlot, Option<ConsoleSession>);

/// A console that its client may use.
struct OpenedConsole {
    /// The value of `Sec-WebSocket-Accept`.
    accept: String,
    held: HeldConsole,
    line: SerialLine,
    recording: ConsoleRecording,
}

/// Checks a request and opens the console.
async fn open(app: &Arc<App>, request: &HttpRequest) -> Result<OpenedConsole, ConsoleRefusal> {
    let accept = handshake(request).ok_or(ConsoleRefusal::NoWebSocket)?;
    if matches!(app.cluster, Some(ClusterSeat::Follows(_))) {
        return Err(ConsoleRefusal::Follows);
    }
    let (queries, config) = (app.queries()?, &app.compute.config.consoles);
    let hash = token(request).map(|token| token_hash(&token)).ok_or(ConsoleRefusal::Token)?;
    let now = queries.clock.now();
    let token =
        queries.views.console_tokens.read(|tokens| tokens.valid(&hash, now).cloned()).ok_or(ConsoleRefusal::Token)?;
    let known = &token.authorized;
    let row =
        queries.views.servers.read(|servers| servers.get(known.instance).cloned()).ok_or(ConsoleRefusal::Token)?;
    let server = row.instance.alive().ok_or(ConsoleRefusal::Token)?;
    let forwarded = address::forwarded_scheme(request, &app.config);
    check_origin(config, &known.kind, request.headers(), forwarded)?;
    let requester = match app.access_log() {
        Some(log) => Some(access::consoles::requester(log, &token).await),
        None => None,
    };
    let user = requester.as_ref().and_then(|requester| requester.user.as_ref());
    let place = app.consoles.places.take(&hash, known.instance, user)?;
    let host = server.placement.as_ref().and_then(|placed| queries.host(placed.host)).ok_or(ConsoleRefusal::Moved)?;
    let line = reach(&host, known, &config.vnc_security).await?;
    let recording = ConsoleRecording::begin(config.record.as_deref(), &app.consoles.recorded).await;
    let recording = recording.map_err(ConsoleRefusal::Recording)?;
    tracing::info!(instance = %known.instance, kind = known.kind.as_str(), remote = ?request.peer_addr(), "console opened");
    let session = app
        .access_log()
        .zip(requester)
        .map(|(log, requester)| access::consoles::opened(log, client(request, &app.config), &token, requester));
    Ok(OpenedConsole { accept, held: (place, session), line, recording })
}

/// The address and the program of the client.
fn client<'a>(request: &'a HttpRequest, config: &WebConfig) -> (Option<IpAddr>, Option<&'a str>) {
    let agent = request.headers().get(USER_AGENT).and_then(|value| value.to_str().ok());
    (address::client(request.peer_addr().map(|peer| peer.ip()), request.headers(), config), agent)
}

/// Connects to the serial line, or to the screen if its address still equals the address in the token.
async fn reach(
    host: &HostReadings,
    known: &ConsoleAuthorized,
    security: &VncSecurity,
) -> Result<SerialLine, ConsoleRefusal> {
    let screen = match known.kind.as_str() {
        "serial" => return Ok(host.serial_line(known.instance).await?),
        "novnc" => Screen::Vnc,
        _ => Screen::Spice,
    };
    let address = host.screen(known.instance, screen).await?;
    if (address.host.as_str(), address.port) != (known.host.as_str(), known.port) {
        return Err(ConsoleRefusal::Moved);
    }
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    let socket = timeout(DIAL, dial(&address)).await.map_err(late)??;
    Ok(match screen {
        Screen::Vnc => timeout(DIAL, rfb::open(socket, &address.host, security)).await.map_err(late)??,
        Screen::Spice => connection::over(socket),
    })
}

async fn dial(address: &ConsoleAddress) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect((address.host.as_str(), address.port)).await?;
    // Each mouse event should be sent at once, in a packet of its own.
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// The token from the query, or from the viewer's cookie.
fn token(request: &HttpRequest) -> Option<String> {
    let query = Query::parse(request.query_string()).ok()?;
    if let Some(token) = query.last("token").filter(|token| !token.is_empty()) {
        return Some(token.to_owned());
    }
    let cookies = request.headers().get_all("Cookie").filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == "token").map(|(_, token)| token.to_owned())
}

/// The items of a header that is a list, in small letters.
fn names<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = String> + 'a {
    let texts = headers.get_all(name).filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(|item| item.trim().to_ascii_lowercase())
}

/// The value of `Sec-WebSocket-Accept` (RFC 6455, 4.2.2); `None` if the client does not ask for a WebSocket.
fn handshake(request: &HttpRequest) -> Option<String> {
    const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let headers = request.headers();
    let asks = request.method() == "GET"
        && names(headers, "Upgrade").any(|name| name == "websocket")
        && names(headers, "Connection").any(|name| name == "upgrade")
        && names(headers, "Sec-WebSocket-Version").any(|version| version == "13");
    let key = headers.get("Sec-WebSocket-Key").filter(|_| asks)?.to_str().ok()?.trim();
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{SALT}").as_bytes());
    Some(base64::Engine::encode(&base64::prelude::BASE64_STANDARD, digest.as_ref()))
}

/// Refuses other sites' pages, which must not open a console with a stolen token. Clients other than browsers send no
/// origin. `forwarded`: the browser's scheme, as a trusted proxy reports it.
fn check_origin(
    config: &ConsoleConfig,
    kind: &str,
    headers: &HeaderMap,
    forwarded: Option<&str>,
) -> Result<(), ConsoleRefusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(origin) = headers.get("Origin") else { return Ok(()) };
    let shown = String::from_utf8_lossy(origin.as_bytes()).into_owned();
    let refused = || ConsoleRefusal::Origin(shown.clone());
    let (scheme, rest) = shown.split_once("://").ok_or_else(refused)?;
    let host = host_name(rest);
    let own = text("Host").map(host_name);
    if host.is_empty() || !(own == Some(host) || config.allowed_origins.iter().any(|allowed| allowed == host)) {
        return Err(refused());
    }
    let scheme = forwarded.unwrap_or(scheme);
    let given = config.url(kind).split_once("://").map_or("", |(scheme, _)| scheme);
    let allowed = match given {
        "ws" => ["ws", "http"],
        "wss" => ["wss", "https"],
        other => [other, other],
    };
    if allowed.contains(&scheme) { Ok(()) } else { Err(ConsoleRefusal::OriginScheme(shown.clone())) }
}

/// `[::1]:80` and `host:80` without their ports.
fn host_name(text: &str) -> &str {
    let text = text.split('/').next().unwrap_or_default();
    match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => text.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
