//! Remote consoles and the tokens by which proxies know them.

use std::sync::Arc;

use chronova_events::envelope::Position;
use chronova_events::store::EventStore;
use chronova_tests::compute_api::{ADMIN, Api};
use serde_json::{Value, json};

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
    assert_eq!(api.get(&path, "2.99").await, shown, "only direct SPICE connections have a TLS port");
    is(&api.call("GET", &path, "2.30", ADMIN, None).await, 400, "malformed");
    is(&api.call("GET", &path, "2.31", USER, None).await, 403, "os-console-auth-tokens");
    is(&api.call("GET", &format!("{path}?a=b"), "2.99", ADMIN, None).await, 400, "Additional properties");
    assert_eq!(api.call("GET", &format!("{path}?a=b"), "2.98", ADMIN, None).await.status, 200);
    is(&api.call("GET", "/os-console-auth-tokens/nonsense", "2.31", ADMIN, None).await, 404, "Token not found");

    // What is kept is no token.
    let log: Arc<dyn EventStore> = Arc::clone(&api.world.log) as Arc<dyn EventStore>;
    let events = log.read_all(Position::START, usize::MAX).await.unwrap();
    assert!(events.iter().any(|event| event.kind.as_ref() == "console.authorized"));
    let holds = |data: &[u8]| data.windows(token.len()).any(|window| window == token.as_bytes());
    assert!(!events.iter().any(|event| holds(&event.data)), "the token itself is not in the log");

    // A server that is gone takes its consoles along.
    assert_eq!(api.call("DELETE", &format!("/servers/{server}"), "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    is(&api.call("GET", &path, "2.31", ADMIN, None).await, 404, "Token not found");
    api.stop().await;
}

#[actix_rt::test]
async fn old_clients_ask_by_action() {
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
    assert_eq!(act("2.6", json!({"os-getVNCConsole": {"type": "novnc"}})).await.status, 404);
    api.stop().await;
}

#[actix_rt::test]
async fn consoles_are_refused_in_novas_words() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    for (version, protocol, kind, words) in [
        ("2.6", "spice", "spice-html5", "Unavailable console type spice-html5."),
        ("2.6", "serial", "serial", "Unavailable console type serial."),
        ("2.6", "rdp", "rdp-html5", "Unavailable console type rdp."),
        ("2.6", "vnc", "serial", "Invalid console type serial"),
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
    // A guest that is off listens nowhere.
    let stop = Some(json!({"os-stop": null}));
    assert_eq!(api.call("POST", &format!("/servers/{server}/action"), "2.1", USER, stop).await.status, 202);
    api.life.settled().await;
    is(&open(&api, &server, "2.6", "vnc", "novnc").await, 400, "Unavailable console type novnc.");
    api.stop().await;
}

#[actix_rt::test]
async fn tokens_expire() {
    let api = Api::start().await;
    let server = api.server(USER, Api::wish("web")).await;
    let made = open(&api, &server, "2.6", "vnc", "novnc").await;
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
    let house = api.life.house();
    let tokens = &house.views.console_tokens;
    let expires = tokens.read(|tokens| tokens.valid(&hash, house.clock.now()).unwrap().expires_at);
    assert!(tokens.read(|tokens| tokens.valid(&hash, expires).is_none()), "at its end it is over");
    api.stop().await;
}
