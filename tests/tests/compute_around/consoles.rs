//! Remote consoles, their tokens, and the records of access.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use chronova_events::access::{AccessClient, AccessEvent};
use chronova_events::clock::SystemClock;
use chronova_events::console::MAX_TOKENS;
use chronova_events::envelope::{Cause, Position, Recorded, Timestamp};
use chronova_events::registry::NounEvent as _;
use chronova_events::store::EventStore;
use chronova_tests::compute_api::{ADMIN, Api};
use chronova_tests::world::World;
use chronova_web::access::AccessLog;
use chronova_web::app::App;
use chronova_web::auth::Authentication;
use chronova_web::compute::{ComputeConfig, ComputeState};
use chronova_web::config::WebConfig;
use chronova_web::console::ConsoleConfig;
use chronova_web::metrics::HttpMetrics;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::server::{HttpOptions, Listener, Offer, serve};
use chronova_web::startup_gate::StartupGate;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::interfaces::{USER, is};

async fn open(
    api: &Api,
    server: &str,
    version: &str,
    protocol: &str,
    kind: &str,
) -> chronova_tests::compute_api::Answer {
    let body = json!({"remote_console": {"protocol": protocol, "type": kind}});
    api.call("POST", &format!("/servers/{server}/remote-consoles"), version, USER, Some(body)).await
}

fn token(url: &Value) -> String {
    url.as_str().unwrap().split("token%3D").nth(1).unwrap().to_owned()
}

#[actix_rt::test]
async fn a_vnc_console_is_opened_and_its_token_is_known_to_the_proxy() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    let made = open(&api, &server, "2.6", "vnc", "novnc").await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let console = &made.body["remote_console"];
    assert_eq!((&console["protocol"], &console["type"]), (&json!("vnc"), &json!("novnc")));
    let url = console["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:6080/vnc_auto.html?path=%3Ftoken%3D"), "{url}");
    let token = token(&console["url"]);

    let path = format!("/os-console-auth-tokens/{token}");
    let shown = api.get(&path, "2.31").await;
    assert_eq!(
        shown["console"],
        json!({"instance_uuid": server, "host": "127.0.0.1", "port": 5900, "internal_access_path": null})
    );
    assert_eq!(api.get(&path, "2.99").await, shown, "version 2.99 shows other fields of a VNC console");
    is(&api.call("GET", &path, "2.30", ADMIN, None).await, 400, "malformed");
    is(&api.call("GET", &path, "2.31", USER, None).await, 403, "os-console-auth-tokens");
    is(&api.call("GET", &format!("{path}?a=b"), "2.99", ADMIN, None).await, 400, "Additional properties");
    assert_eq!(api.call("GET", &format!("{path}?a=b"), "2.98", ADMIN, None).await.status, 200);
    is(&api.call("GET", "/os-console-auth-tokens/nonsense", "2.31", ADMIN, None).await, 404, "Token not found");

    // The log has a hash, not the token itself.
    let log: Arc<dyn EventStore> = Arc::clone(&api.world.log) as Arc<dyn EventStore>;
    let events = log.read_all(Position::START, usize::MAX).await.unwrap();
    assert!(events.iter().any(|event| event.kind.as_ref() == "console.authorized"));
    let holds = |data: &[u8]| data.windows(token.len()).any(|window| window == token.as_bytes());
    assert!(!events.iter().any(|event| holds(&event.data)), "the log has the token itself");

    // Deleting a server ends its consoles.
    assert_eq!(api.call("DELETE", &format!("/servers/{server}"), "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    is(&api.call("GET", &path, "2.31", ADMIN, None).await, 404, "Token not found");
    api.stop().await;
}

#[actix_rt::test]
async fn old_versions_open_consoles_by_server_actions() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    let act = async |version: &str, body: Value| {
        api.call("POST", &format!("/servers/{server}/action"), version, USER, Some(body)).await
    };
    let made = act("2.5", json!({"os-getVNCConsole": {"type": "novnc"}})).await;
    assert_eq!((made.status, &made.body["console"]["type"]), (200, &json!("novnc")), "{:?}", made.body);
    let path = format!("/os-console-auth-tokens/{}", token(&made.body["console"]["url"]));
    assert_eq!(api.get(&path, "2.31").await["console"]["instance_uuid"], json!(server));
    is(&act("2.1", json!({"os-getVNCConsole": {"type": "xvpvnc"}})).await, 400, "Invalid console type xvpvnc");
    is(&act("2.1", json!({"os-getVNCConsole": {"type": "x"}})).await, 400, "is not one of");
    let spice = act("2.1", json!({"os-getSPICEConsole": {"type": "spice-html5"}})).await;
    is(&spice, 400, "Unavailable console type spice-html5.");
    let serial = act("2.1", json!({"os-getSerialConsole": {"type": "serial"}})).await;
    is(&serial, 400, "Unavailable console type serial.");
    assert_eq!(act("2.1", json!({"os-getRDPConsole": {"type": "rdp-html5"}})).await.status, 400);
    for (action, kind) in [
        ("os-getVNCConsole", "novnc"),
        ("os-getSPICEConsole", "spice-html5"),
        ("os-getSerialConsole", "serial"),
        ("os-getRDPConsole", "rdp-html5"),
    ] {
        assert_eq!(act("2.6", json!({action: {"type": kind}})).await.status, 404, "{action}");
    }
    api.stop().await;
}

#[actix_rt::test]
async fn refused_consoles_get_novas_messages() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    for (version, protocol, kind, words) in [
        ("2.6", "spice", "spice-html5", "Unavailable console type spice-html5."),
        ("2.6", "serial", "serial", "Unavailable console type serial."),
        ("2.6", "rdp", "rdp-html5", "Unavailable console type rdp."),
        ("2.6", "vnc", "serial", "Invalid console type serial"),
        ("2.6", "vnc", "xvpvnc", "Invalid console type xvpvnc"),
        ("2.7", "mks", "webmks", "is not one of"),
        ("2.8", "mks", "webmks", "Unavailable console type webmks."),
        ("2.98", "spice", "spice-direct", "is not one of"),
        ("2.99", "spice", "spice-direct", "Unavailable console type spice-direct."),
    ] {
        is(&open(&api, &server, version, protocol, kind).await, 400, words);
    }
    assert_eq!(open(&api, &server, "2.5", "vnc", "novnc").await.status, 404);
    let none = "11111111-2222-3333-4444-555555555555";
    is(&open(&api, none, "2.6", "vnc", "novnc").await, 404, "Instance");
    let stranger = api
        .call(
            "POST",
            &format!("/servers/{server}/remote-consoles"),
            "2.6",
            "eve:other",
            Some(json!({"remote_console": {"protocol": "vnc", "type": "novnc"}})),
        )
        .await;
    is(&stranger, 404, "Instance");
    // A stopped guest has no console.
    let stop = Some(json!({"os-stop": null}));
    assert_eq!(api.call("POST", &format!("/servers/{server}/action"), "2.1", USER, stop).await.status, 202);
    api.life.settled().await;
    is(&open(&api, &server, "2.6", "vnc", "novnc").await, 400, "Unavailable console type novnc.");
    api.stop().await;
}

/// The same cloud with all kinds of consoles enabled.
fn with_all_kinds(api: Api) -> Api {
    recorded(api, None)
}

/// The same cloud with all kinds of consoles enabled. The gateway records each console in a file whose name begins with
/// `record`.
fn recorded(api: Api, record: Option<PathBuf>) -> Api {
    let (config, operations) = (WebConfig::default(), Arc::clone(api.life.operations()));
    let policy = Enforcer::new(&config.policy, &Overrides::parse("", "policy.yaml").unwrap()).unwrap();
    let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
    let access = AccessLog::start(Arc::clone(&api.world.log) as _, Arc::new(SystemClock), config.access);
    let mut app = App::new(config, policy, Authentication::NoAuth, metrics).with_operations(operations);
    app = app.with_access_log(access);
    let serial_url = "ws://cloud:8774/console".to_owned();
    let consoles = ConsoleConfig { spice: true, serial: true, serial_url, record, ..ConsoleConfig::default() };
    app.compute = ComputeState::new(ComputeConfig { consoles, ..ComputeConfig::default() });
    Api { app: Arc::new(app), ..api }
}

#[actix_rt::test]
async fn spice_and_serial_consoles_are_opened_where_they_are_enabled() {
    let api = with_all_kinds(Api::start().await);
    let server = api.server(USER, Api::wish("web")).await;
    let act = async |body: Value| {
        let path = format!("/servers/{server}/action");
        let made = api.call("POST", &path, "2.5", USER, Some(body)).await;
        assert_eq!(made.status, 200, "{:?}", made.body);
        made.body["console"].clone()
    };
    let shown = async |url: &str| {
        let path = format!("/os-console-auth-tokens/{}", url.split("?token=").nth(1).unwrap());
        (api.get(&path, "2.31").await["console"].clone(), api.get(&path, "2.99").await["console"].clone())
    };
    let serial = act(json!({"os-getSerialConsole": {"type": "serial"}})).await;
    let url = serial["url"].as_str().unwrap();
    assert!(url.starts_with("ws://cloud:8774/console?token="), "{url}");
    assert_eq!(serial["type"], "serial");
    assert_eq!(shown(url).await.0["instance_uuid"], json!(server));

    let spice = act(json!({"os-getSPICEConsole": {"type": "spice-html5"}})).await;
    let url = spice["url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:6082/spice_auto.html?token="), "{url}");
    let (old, new) = shown(url).await;
    assert_eq!((&old["port"], old.get("tls_port")), (&json!(5900), None));
    assert_eq!(new, old, "version 2.99 shows other fields of a console that is not direct");

    for (version, protocol, kind) in [("2.6", "spice", "spice-html5"), ("2.6", "serial", "serial")] {
        let made = open(&api, &server, version, protocol, kind).await;
        assert_eq!(made.status, 200, "{:?}", made.body);
        assert_eq!(made.body["remote_console"]["type"], kind);
    }
    let direct = open(&api, &server, "2.99", "spice", "spice-direct").await;
    assert_eq!(direct.status, 200, "{:?}", direct.body);
    let url = direct.body["remote_console"]["url"].as_str().unwrap();
    let (old, new) = shown(url).await;
    assert_eq!((old.get("tls_port"), &new["tls_port"]), (None, &json!(6000)));

    is(&open(&api, &server, "2.6", "spice", "novnc").await, 400, "Invalid console type novnc");
    is(&open(&api, &server, "2.8", "mks", "webmks").await, 400, "Unavailable console type webmks.");
    let stop = Some(json!({"os-stop": null}));
    assert_eq!(api.call("POST", &format!("/servers/{server}/action"), "2.1", USER, stop).await.status, 202);
    api.life.settled().await;
    is(&open(&api, &server, "2.6", "serial", "serial").await, 400, "Unavailable console type serial.");
    api.stop().await;
}

/// A client of the gateway.
struct Viewer(TcpStream);

impl Viewer {
    /// Requests a WebSocket; returns the status of the answer.
    async fn ask(address: SocketAddr, query: &str, origin: Option<&str>) -> (u16, Self) {
        Self::ask_at(address, &format!("/console{query}"), origin).await
    }

    async fn ask_at(address: SocketAddr, path: &str, origin: Option<&str>) -> (u16, Self) {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: binary, base64\r\n{origin}\r\n"
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        if status == 101 {
            assert!(head.contains("sec-websocket-protocol: binary\r\n"), "{head}");
            assert!(head.contains("upgrade: websocket\r\n"), "{head}");
        }
        (status, Self(socket))
    }

    async fn say(&mut self, kind: u8, text: &str) {
        let mut frame = vec![0x80 | kind, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
        frame.extend(text.as_bytes());
        self.0.write_all(&frame).await.unwrap();
    }

    /// The next frame's kind and payload.
    async fn hear(&mut self) -> (u8, Vec<u8>) {
        let kind = self.0.read_u8().await.unwrap() & 0x0f;
        let length = self.0.read_u8().await.unwrap();
        assert!(length < 126, "the frame is not a short one");
        let mut payload = vec![0; usize::from(length)];
        self.0.read_exact(&mut payload).await.unwrap();
        (kind, payload)
    }

    async fn is_over(&mut self) -> bool {
        matches!(self.0.read_u8().await, Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof)
    }
}

/// The cloud on a listener, to which clients can connect.
fn listening(api: &Api) -> (SocketAddr, ServerHandle) {
    offering(api, Offer::All)
}

fn offering(api: &Api, offer: Offer) -> (SocketAddr, ServerHandle) {
    let listener = Listener { address: ([127, 0, 0, 1], 0).into(), offer, secure: false };
    let serving = HttpOptions { workers: 1, ..HttpOptions::default() };
    let (address, running) = serve(&StartupGate::open(Arc::clone(&api.app)), &[listener], &serving).unwrap().remove(0);
    let handle = running.handle();
    actix_rt::spawn(running);
    (address, handle)
}

/// Nova's URLs have the gateway at the root of its own port.
#[actix_rt::test]
async fn a_listener_of_the_gateway_alone_has_it_at_its_root() {
    let api = with_all_kinds(Api::start().await);
    let server = api.server(USER, Api::wish("web")).await;
    let (address, handle) = offering(&api, Offer::Consoles);
    let made = open(&api, &server, "2.6", "serial", "serial").await;
    let url = made.body["remote_console"]["url"].as_str().unwrap().to_owned();
    let query = format!("/?{}", url.split_once('?').unwrap().1);
    let (status, viewer) = Viewer::ask_at(address, &query, Some(&format!("http://{address}"))).await;
    assert_eq!(status, 101);
    drop(viewer);
    assert_eq!(Viewer::ask_at(address, "/?token=nonsense", None).await.0, 403);
    for (path, status) in [("/vnc_auto.html", 200), ("/compute/v2.1", 404), ("/console", 404), ("/dashboard/", 404)] {
        assert_eq!(Viewer::ask_at(address, path, None).await.0, status, "{path}");
    }
    handle.stop(true).await;
    api.stop().await;
}

/// A port that belonged to one guest may now belong to another.
#[actix_rt::test]
async fn a_console_that_has_moved_is_not_opened() {
    let api = Api::start_of(World::new(1), "", None).await;
    let (address, handle) = listening(&api);
    let mut servers = [api.server(USER, Api::wish("one")).await, api.server(USER, Api::wish("two")).await];
    servers.sort();
    let made = open(&api, &servers[1], "2.6", "vnc", "novnc").await;
    let query = format!("?token={}", token(&made.body["remote_console"]["url"]));
    let stop = Some(json!({"os-stop": null}));
    assert_eq!(api.call("POST", &format!("/servers/{}/action", servers[0]), "2.1", USER, stop).await.status, 202);
    api.life.settled().await;
    // Simulated hosts number the screens of the running guests.
    let again = open(&api, &servers[1], "2.6", "vnc", "novnc").await;
    let shown =
        async |token: String| api.get(&format!("/os-console-auth-tokens/{token}"), "2.31").await["console"].take();
    assert_eq!(shown(token(&again.body["remote_console"]["url"])).await["port"], 5900);
    assert_eq!(shown(query["?token=".len()..].to_owned()).await["port"], 5901);
    assert_eq!(Viewer::ask(address, &query, None).await.0, 403);
    handle.stop(true).await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_serial_console_is_typed_on_through_the_gateway() {
    let api = with_all_kinds(Api::start().await);
    let server = api.server(USER, Api::wish("web")).await;
    let (address, handle) = listening(&api);
    let query = async || {
        let made = open(&api, &server, "2.6", "serial", "serial").await;
        let url = made.body["remote_console"]["url"].as_str().unwrap().to_owned();
        format!("?{}", url.split_once('?').unwrap().1)
    };
    let known = query().await;
    assert_eq!(Viewer::ask(address, "?token=nonsense", None).await.0, 403);
    assert_eq!(Viewer::ask(address, "", None).await.0, 403);
    assert_eq!(Viewer::ask(address, &known, Some("http://elsewhere")).await.0, 403);
    let origin = format!("http://{address}");
    let (status, mut viewer) = Viewer::ask(address, &known, Some(&origin)).await;
    assert_eq!(status, 101);
    let (kind, greeting) = viewer.hear().await;
    assert_eq!(kind, 2);
    assert!(String::from_utf8(greeting).unwrap().ends_with(" ttyS0\r\n"));
    viewer.say(2, "uname\r").await;
    assert_eq!(viewer.hear().await, (2, b"uname\r".to_vec()));
    viewer.say(9, "there?").await;
    assert_eq!(viewer.hear().await, (10, b"there?".to_vec()));
    viewer.say(8, "").await;
    assert_eq!(viewer.hear().await, (8, 1000_u16.to_be_bytes().to_vec()));

    // A token is valid more than once. Consoles end when the control plane stops.
    let (status, mut viewer) = Viewer::ask(address, &known, None).await;
    assert_eq!(status, 101);
    assert_eq!(viewer.hear().await.0, 2);
    api.app.consoles.close();
    assert_eq!(viewer.hear().await, (8, 1001_u16.to_be_bytes().to_vec()));
    assert!(viewer.is_over().await);
    assert_eq!(Viewer::ask(address, &known, None).await.0, 503);
    handle.stop(true).await;
    api.stop().await;
}

#[actix_rt::test]
async fn what_a_console_shows_and_what_is_typed_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let api = recorded(Api::start().await, Some(folder.path().join("console")));
    let server = api.server(USER, Api::wish("web")).await;
    let (address, handle) = listening(&api);
    let made = open(&api, &server, "2.6", "serial", "serial").await;
    let url = made.body["remote_console"]["url"].as_str().unwrap().to_owned();
    let (status, mut viewer) = Viewer::ask(address, &format!("?{}", url.split_once('?').unwrap().1), None).await;
    assert_eq!(status, 101);
    viewer.hear().await;
    viewer.say(2, "uname\r").await;
    assert_eq!(viewer.hear().await, (2, b"uname\r".to_vec()));
    viewer.say(8, "").await;
    assert_eq!(viewer.hear().await.0, 8);
    // The recording is complete before the gateway closes the connection.
    let text = std::fs::read_to_string(folder.path().join("console.1")).unwrap();
    let frames: Vec<&str> = text.lines().skip(2).collect();
    let is = |frame: &str, mark: char, end: &str| frame.starts_with(&format!("'{mark}")) && frame.ends_with(end);
    assert_eq!(frames.len(), 4, "{text}");
    assert!(is(frames[0], '{', " ttyS0\\x0d\\x0a',"), "{text}");
    assert!(is(frames[1], '}', "}uname\\x0d',") && is(frames[2], '{', "{uname\\x0d',"), "{text}");
    assert_eq!(frames[3], "'EOF'];");

    // Without a place for the recording, no console is opened.
    folder.close().unwrap();
    let made = open(&api, &server, "2.6", "serial", "serial").await;
    let url = made.body["remote_console"]["url"].as_str().unwrap().to_owned();
    assert_eq!(Viewer::ask(address, &format!("?{}", url.split_once('?').unwrap().1), None).await.0, 503);
    handle.stop(true).await;
    api.stop().await;
}

#[actix_rt::test]
async fn one_token_takes_only_a_few_of_the_places() {
    let api = with_all_kinds(Api::start().await);
    let (server, other) = (api.server(USER, Api::wish("web")).await, api.server(USER, Api::wish("other")).await);
    let (address, handle) = listening(&api);
    let query = async |server: &str| {
        let made = open(&api, server, "2.6", "serial", "serial").await;
        let url = made.body["remote_console"]["url"].as_str().unwrap().to_owned();
        format!("?{}", url.split_once('?').unwrap().1)
    };
    let (first, mut open) = (query(&server).await, Vec::new());
    for _ in 0..8 {
        let (status, viewer) = Viewer::ask(address, &first, None).await;
        assert_eq!(status, 101);
        open.push(viewer);
    }
    assert_eq!(Viewer::ask(address, &first, None).await.0, 429, "a ninth console with the same token is not refused");
    let second = query(&server).await;
    for _ in 0..8 {
        let (status, viewer) = Viewer::ask(address, &second, None).await;
        assert_eq!(status, 101);
        open.push(viewer);
    }
    assert_eq!(
        Viewer::ask(address, &query(&server).await, None).await.0,
        429,
        "a seventeenth console of the same server is not refused"
    );
    assert_eq!(Viewer::ask(address, &query(&other).await, None).await.0, 101, "a console of another server is refused");
    // A closed console frees its slot for another one.
    let mut gone = open.pop().unwrap();
    gone.say(8, "").await;
    while gone.hear().await.0 != 8 {}
    assert!(gone.is_over().await);
    let again = async || {
        while Viewer::ask(address, &second, None).await.0 != 101 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), again()).await.unwrap();
    handle.stop(false).await;
    api.stop().await;
}

#[actix_rt::test]
async fn tokens_expire() {
    expires_after(Api::start().await, 600).await;
    let mut api = Api::start().await;
    let mut config = ComputeConfig::default();
    config.consoles.token_ttl = 90;
    Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config);
    expires_after(api, 90).await;
}

async fn expires_after(api: Api, seconds: i64) {
    let server = api.server(USER, Api::wish("web")).await;
    let clock = &api.life.context().clock;
    let before = clock.now();
    let made = open(&api, &server, "2.6", "vnc", "novnc").await;
    let after = clock.now();
    let hash = {
        let token = token(&made.body["remote_console"]["url"]);
        chronova_web::secret::Secret::new(token)
            .hash()
            .0
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .concat()
    };
    let context = api.life.context();
    let tokens = &context.views.console_tokens;
    let expires = tokens.read(|tokens| tokens.valid(&hash, context.clock.now()).unwrap().authorized.expires_at);
    let ends = |from: Timestamp| Timestamp(from.0 + seconds * 1_000_000);
    assert!(ends(before) <= expires && expires <= ends(after), "{before} {expires} {after}");
    assert!(tokens.read(|tokens| tokens.valid(&hash, expires).is_none()), "the token is valid after its end");
    api.stop().await;
}

/// A user who requests many consoles cannot fill the memory, because the oldest tokens are dropped.
#[actix_rt::test]
async fn the_tokens_of_a_server_are_bounded() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    let other = api.server(USER, Api::wish("other")).await;
    let beside = token(&open(&api, &other, "2.6", "vnc", "novnc").await.body["remote_console"]["url"]);
    let mut tokens = Vec::new();
    for _ in 0..MAX_TOKENS + 3 {
        let made = open(&api, &server, "2.6", "vnc", "novnc").await;
        assert_eq!(made.status, 200, "{:?}", made.body);
        tokens.push(token(&made.body["remote_console"]["url"]));
    }
    let status = async |token: &String| {
        api.call("GET", &format!("/os-console-auth-tokens/{token}"), "2.31", ADMIN, None).await.status
    };
    for (nth, token) in tokens.iter().enumerate() {
        assert_eq!(status(token).await, if nth < 3 { 404 } else { 200 }, "token {nth}");
    }
    assert_eq!(status(&beside).await, 200, "another server's token ended");
    api.stop().await;
}

/// Waits until the log has at least `least` records of access, and returns them.
async fn records(api: &Api, least: usize) -> Vec<Arc<Recorded>> {
    loop {
        api.app.access_log().unwrap().flush().await;
        let all = api.world.log.read_all(Position::START, usize::MAX).await.unwrap();
        let found: Vec<_> = all.into_iter().filter(|recorded| recorded.stream.category() == "access").collect();
        if found.len() >= least {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

fn kinds(records: &[Arc<Recorded>]) -> Vec<&str> {
    records.iter().map(|recorded| &*recorded.kind).collect()
}

/// The session is recorded in the name of the user who got the token, with the address of the client that used it.
#[actix_rt::test]
async fn the_sessions_of_a_console_and_reads_of_its_token_are_recorded() {
    let api = with_all_kinds(Api::start().await);
    let server = api.server(USER, Api::wish("web")).await;
    let (address, handle) = listening(&api);
    let made = open(&api, &server, "2.6", "serial", "serial").await;
    let url = made.body["remote_console"]["url"].as_str().unwrap().to_owned();
    let token = url.split_once("?token=").unwrap().1;
    let (status, viewer) = Viewer::ask(address, &format!("?token={token}"), None).await;
    assert_eq!(status, 101);
    let opened = records(&api, 1).await;
    assert_eq!(kinds(&opened), ["access.console_opened"]);
    drop(viewer);
    let closed = records(&api, 2).await;
    assert_eq!(kinds(&closed), ["access.console_opened", "access.console_closed"]);
    let Some(AccessEvent::ConsoleOpened(session)) = AccessEvent::of(opened[0].event().unwrap()) else { panic!() };
    let user = USER.split(':').next().unwrap();
    assert_eq!(session.user.as_ref().map(chronova_events::ids::UserId::as_str), Some(user));
    assert_eq!(session.server.to_string(), server);
    assert_eq!(session.client, AccessClient { address: Some("127.0.0.1".into()), agent: None });
    let all = api.world.log.read_all(Position::START, usize::MAX).await.unwrap();
    let authorized = all.iter().find(|recorded| &*recorded.kind == "console.authorized").unwrap();
    assert_eq!(
        (opened[0].meta.causation, &opened[0].meta.request_id),
        (Some(authorized.id), &authorized.meta.request_id)
    );
    assert!(matches!(&opened[0].meta.cause, Cause::User { user: by, .. } if by.as_str() == user));

    api.get(&format!("/os-console-auth-tokens/{token}"), "2.31").await;
    api.get("/servers", "2.1").await;
    let read = records(&api, 3).await;
    assert_eq!(
        kinds(&read[2..]),
        ["access.secret_read"],
        "an answer without a secret is recorded, or one with it is not"
    );
    handle.stop(true).await;
    api.stop().await;
}

/// A 404 that hides another project's server is recorded as a refusal. A 404 for a server that does not exist is not.
#[actix_rt::test]
async fn hidden_servers_and_conflicts_are_refusals_and_misses_are_none() {
    let api = with_all_kinds(Api::start().await);
    let server = api.server(USER, Api::wish("web")).await;
    let none = "11111111-2222-3333-4444-555555555555";
    for path in [format!("/servers/{none}"), "/servers/a-name".to_owned()] {
        is(&api.call("GET", &path, "2.1", USER, None).await, 404, "could not be found");
    }
    is(&api.call("DELETE", &format!("/servers/{server}"), "2.1", "eve:other", None).await, 404, "could not be found");
    let resume = Some(json!({"resume": null}));
    is(&api.call("POST", &format!("/servers/{server}/action"), "2.1", USER, resume).await, 409, "vm_state");
    let refused = records(&api, 2).await;
    assert_eq!(kinds(&refused), ["access.request_refused", "access.request_refused"]);
    let refusals = refused.iter().filter_map(|recorded| match AccessEvent::of(recorded.event().unwrap()) {
        Some(AccessEvent::RequestRefused(refused)) => Some(refused),
        _ => None,
    });
    let mut told: Vec<_> = refusals.map(|one| (one.user.to_string(), one.operation.as_str(), one.status)).collect();
    told.sort();
    let user = USER.split(':').next().unwrap().to_owned();
    let mut expected = [("eve".to_owned(), "servers.delete", 404), (user, "suspend_server.resume", 409)];
    expected.sort();
    assert_eq!(told, expected);
    for recorded in &refused {
        let Some(AccessEvent::RequestRefused(one)) = AccessEvent::of(recorded.event().unwrap()) else { panic!() };
        assert_eq!(one.ids.iter().map(ToString::to_string).collect::<Vec<_>>(), [server.as_str()]);
    }
    api.stop().await;
}
