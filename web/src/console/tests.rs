#![allow(clippy::unwrap_used, clippy::panic)]
use actix_web::test::TestRequest;
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::frames::{FrameError, LARGEST, PendingFrames, WebSocketFrame, close, data};
use super::*;

/// A frame as a client sends it.
fn masked(head: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [7, 11, 13, 17];
    let mut bytes = vec![head];
    match payload.len() {
        short @ 0..=125 => bytes.push(0x80 | u8::try_from(short).unwrap()),
        length => {
            bytes.push(0xfe);
            bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

fn read_all(frames: &mut PendingFrames) -> Vec<WebSocketFrame> {
    std::iter::from_fn(|| frames.next().unwrap()).collect()
}

#[test]
fn frames_come_in_any_pieces() {
    let long = vec![0xa5; 3_000];
    let sent = [
        masked(0x82, b"root\r"),
        masked(0x01, b"be"),
        masked(0x89, b"there?"),
        masked(0x80, b"gun"),
        masked(0x82, &long),
        masked(0x8a, b""),
        masked(0x88, &1000_u16.to_be_bytes()),
    ]
    .concat();
    let expected = [
        WebSocketFrame::Data(Bytes::from_static(b"root\r")),
        WebSocketFrame::Data(Bytes::from_static(b"be")),
        WebSocketFrame::Ping(Bytes::from_static(b"there?")),
        WebSocketFrame::Data(Bytes::from_static(b"gun")),
        WebSocketFrame::Data(Bytes::from(long)),
        WebSocketFrame::Pong,
        WebSocketFrame::Close,
    ];
    for size in [1, 2, 3, 7, 1_000, sent.len()] {
        let mut frames = PendingFrames::default();
        let mut seen = Vec::new();
        for piece in sent.chunks(size) {
            frames.feed(piece);
            seen.extend(read_all(&mut frames));
        }
        assert_eq!(seen, expected, "in pieces of {size}");
    }
}

#[test]
fn invalid_frames_end_the_connection() {
    let huge = [&[0x82, 0xff][..], &(LARGEST as u64 + 1).to_be_bytes()].concat();
    let cases: [(&[u8], FrameError); 6] = [
        (&[0x82, 0x01, b'a'], FrameError::NotMasked),
        (&[0xc2, 0x80, 0, 0, 0, 0], FrameError::Reserved),
        (&huge, FrameError::TooLarge),
        (&[0x89, 0xfe, 0, 126], FrameError::Control),
        (&[0x09, 0x80, 0, 0, 0, 0], FrameError::Control),
        (&[0x83, 0x80, 0, 0, 0, 0], FrameError::Kind(3)),
    ];
    for (bytes, error) in cases {
        let mut frames = PendingFrames::default();
        frames.feed(bytes);
        assert_eq!(frames.next(), Err(error), "{bytes:02x?}");
    }
}

/// Any input becomes frames or an error, and the buffer stays bounded.
#[test]
fn random_input_never_fills_the_buffer() {
    let mut random = chronova_events::entropy::SplitMix::new(1);
    for _ in 0..2_000 {
        let mut frames = PendingFrames::default();
        let start = [0x81, 0x82, 0x80, 0x88, 0x89][usize::try_from(random.draw() % 5).unwrap()];
        let length = usize::try_from(random.draw() % 300).unwrap();
        let mut bytes = vec![start, 0x80 | u8::try_from(random.draw() % 128).unwrap()];
        bytes.extend((0..length).map(|_| random.draw().to_le_bytes()[0]));
        frames.feed(&bytes);
        let mut seen = 0;
        while let Ok(Some(frame)) = frames.next() {
            seen += match frame {
                WebSocketFrame::Data(payload) | WebSocketFrame::Ping(payload) => payload.len(),
                WebSocketFrame::Pong | WebSocketFrame::Close => 0,
            };
        }
        assert!(seen <= bytes.len());
    }
}

#[test]
fn frames_of_the_server_have_the_shortest_length() {
    assert_eq!(data(b"ab").as_ref(), [0x82, 2, b'a', b'b']);
    assert_eq!(data(&[0; 126])[..4], [0x82, 126, 0, 126]);
    assert_eq!(data(&vec![0; 65_536])[..10], [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(close(super::frames::CloseReason::GoingAway).as_ref(), [0x88, 2, 0x03, 0xe9]);
}

#[test]
fn the_handshake_follows_rfc_6455() {
    let ask = || {
        TestRequest::get()
            .insert_header(("Upgrade", "WebSocket"))
            .insert_header(("Connection", "keep-alive, Upgrade"))
            .insert_header(("Sec-WebSocket-Version", "13"))
    };
    // The example of RFC 6455, 1.3.
    let key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let accept = handshake(&ask().insert_header(key).to_http_request());
    assert_eq!(accept.as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(handshake(&ask().to_http_request()), None, "without a key");
    let old = ask().insert_header(key).insert_header(("Sec-WebSocket-Version", "8"));
    assert_eq!(handshake(&old.to_http_request()), None);
}

#[test]
fn tokens_are_in_the_query_or_in_a_cookie() {
    let token = |uri: &str, cookie: Option<&str>| {
        let mut request = TestRequest::with_uri(uri);
        if let Some(cookie) = cookie {
            request = request.insert_header(("Cookie", cookie));
        }
        token(&request.to_http_request())
    };
    assert_eq!(token("/console?token=a", Some("token=b")).as_deref(), Some("a"));
    assert_eq!(token("/console", Some("x=y; token=b; z=1")).as_deref(), Some("b"));
    assert_eq!(token("/console?token=", None), None);
}

#[test]
fn pages_of_other_sites_open_no_console() {
    let config = ConsoleConfig { allowed_origins: vec!["panel".to_owned()], ..ConsoleConfig::default() };
    let secure = ConsoleConfig { novnc_url: "https://cloud/vnc.html".to_owned(), ..config.clone() };
    let check = |config: &ConsoleConfig, kind: &str, host: &str, origin: Option<&str>, forwarded: Option<&str>| {
        let mut request = TestRequest::default().insert_header(("Host", host));
        if let Some(origin) = origin {
            request = request.insert_header(("Origin", origin));
        }
        check_origin(config, kind, request.to_http_request().headers(), forwarded).is_ok()
    };
    for (kind, host, origin, good) in [
        ("novnc", "cloud:8774", None, true),
        ("novnc", "cloud:8774", Some("http://cloud:8774"), true),
        ("novnc", "cloud:8774", Some("http://cloud"), true),
        ("novnc", "[fd00::1]:8774", Some("http://[fd00::1]:80"), true),
        ("novnc", "cloud", Some("http://panel:3000"), true),
        ("novnc", "cloud", Some("http://cloud.evil"), false),
        ("novnc", "cloud", Some("null"), false),
        ("novnc", "cloud", Some("http://"), false),
        ("novnc", "cloud", Some("https://cloud"), false),
        ("serial", "cloud", Some("http://cloud"), true),
        ("serial", "cloud", Some("ws://cloud"), true),
        ("serial", "cloud", Some("https://cloud"), false),
    ] {
        assert_eq!(check(&config, kind, host, origin, None), good, "{kind} {host} {origin:?}");
    }
    assert!(!check(&secure, "novnc", "cloud", Some("http://cloud"), None));
    let plain = TestRequest::default().insert_header(("Host", "cloud")).insert_header(("Origin", "http://cloud"));
    let refusal = check_origin(&secure, "novnc", plain.to_http_request().headers(), None).unwrap_err();
    assert!(refusal.to_string().starts_with("Origin header protocol does not match this host"), "{refusal}");
    assert!(check(&secure, "novnc", "cloud", Some("http://cloud"), Some("https")), "behind a proxy that ends TLS");
}

#[actix_web::test]
async fn a_connection_is_a_console() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address = ConsoleAddress { host: "127.0.0.1".to_owned(), port, tls_port: None };
    let (socket, accepted) = tokio::join!(dial(&address), listener.accept());
    let (mut line, (mut guest, _)) = (connection::over(socket.unwrap()), accepted.unwrap());
    guest.write_all(b"RFB 003.008\n").await.unwrap();
    assert_eq!(line.output.next().await.unwrap().unwrap(), "RFB 003.008\n");
    line.input.send(Bytes::from_static(b"RFB 003.008\n")).await.unwrap();
    let mut said = [0; 12];
    guest.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"RFB 003.008\n");
    // The end of the console ends the connection. The end of the connection also ends the console.
    drop(line.input);
    assert_eq!(guest.read(&mut said).await.unwrap(), 0);
    drop(guest);
    assert!(line.output.next().await.is_none());
    drop(listener);
    assert_eq!(dial(&address).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[actix_web::test]
async fn viewers_are_given_out_and_nothing_else() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("viewer");
    std::fs::create_dir_all(folder.join("core")).unwrap();
    for name in ["vnc.html", "core/rfb.js", ".secret.txt", "key.pem", "../outside.txt"] {
        std::fs::write(folder.join(name), name).unwrap();
    }
    let status = async |method: &str, file: &str| {
        let request = TestRequest::default().method(method.parse().unwrap()).to_http_request();
        pages::answer(&folder, file, &request).await.status().as_u16()
    };
    for (file, expected) in [
        ("vnc.html", 200),
        ("core/rfb.js", 200),
        ("core", 404),
        ("core/", 404),
        (".secret.txt", 404),
        ("key.pem", 404),
        ("../outside.txt", 404),
        ("core/../../outside.txt", 404),
        ("%2e%2e/outside.txt", 404),
        ("/etc/hosts.txt", 404),
        ("none.html", 404),
    ] {
        assert_eq!(status("GET", file).await, expected, "{file}");
    }
    assert_eq!(status("POST", "vnc.html").await, 405);
}

#[actix_web::test]
async fn the_address_of_a_screen_opens_a_page_without_any_viewer() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("none");
    let request = TestRequest::default().to_http_request();
    let page = pages::answer(&folder, "vnc_auto.html", &request).await;
    assert_eq!(page.status(), 200);
    let text = String::from_utf8(actix_web::body::to_bytes(page.into_body()).await.unwrap().to_vec()).unwrap();
    let script = text.split("src=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let script = script.strip_prefix("..").unwrap();
    assert!(script.starts_with("/dashboard/") && script.ends_with("/vnc_auto.js"), "{script}");
    let request = TestRequest::with_uri(script).to_http_request();
    assert_eq!(crate::dashboard::answer(&request).status(), 200, "{script}");
    // A page in the operator's folder takes precedence over the dashboard's page.
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("vnc_auto.html"), "own").unwrap();
    let own = pages::answer(&folder, "vnc_auto.html", &TestRequest::default().to_http_request()).await;
    assert_eq!(actix_web::body::to_bytes(own.into_body()).await.unwrap(), "own");
    let spice = pages::answer(&folder, "spice_auto.html", &TestRequest::default().to_http_request()).await;
    assert_eq!(spice.status(), 404);
}

#[test]
fn viewers_that_are_missing_are_known() {
    let scratch = tempfile::tempdir().unwrap();
    let base = ConsoleConfig { pages: scratch.path().to_owned(), spice: true, ..ConsoleConfig::default() };
    let ours =
        ConsoleConfig { spice_html5_url: "http://c/console/spice_auto.html?path=console".to_owned(), ..base.clone() };
    assert_eq!(base.missing_viewer(), None, "the viewer of another program counts as missing");
    assert_eq!(ours.missing_viewer(), Some(scratch.path().join("spice_auto.html")));
    assert_eq!(ConsoleConfig { spice: false, ..ours.clone() }.missing_viewer(), None);
    std::fs::write(scratch.path().join("spice_auto.html"), "page").unwrap();
    assert_eq!(ours.missing_viewer(), None);
}
