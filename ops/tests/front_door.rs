//! Tests the listeners of the real binary: TLS, with certificates from openssl and with curl as the client, metrics, and
//! a reverse proxy in front of the APIs.
//!
//! Without openssl or curl, the tests of TLS print the reason and skip.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_debug_implementations, unreachable_pub)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::tls::{certificates, curl};

fn skipped(folder: &Path) -> bool {
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no curl");
        return true;
    }
    if let Err(reason) = certificates(folder) {
        eprintln!("skipped: no certificates can be made: {reason}");
        return true;
    }
    false
}

const TRUST: [&str; 2] = ["--cacert", "authority.pem"];
const TOKEN: [&str; 2] = ["--header", "X-Auth-Token: admin"];

#[test]
fn the_metrics_name_the_build() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let metrics = cloud.client().get("/metrics").unwrap().expect(200).body;
    let lines = metrics.as_str().unwrap().lines();
    let build: Vec<&str> = lines.filter(|line| line.starts_with("chronova_build_info{")).collect();
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(build.len() == 1 && build[0].contains(&version) && build[0].ends_with(" 1"), "{build:?}");
    cloud.stop();
}

#[test]
fn with_a_certificate_the_apis_speak_only_tls() {
    let mut cloud = Cloud::new("sim://1");
    let folder = cloud.folder.path().to_owned();
    if skipped(&folder) {
        return;
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let metadata = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cloud.configure(&format!(
        "[wsgi]\nssl_cert_file = {}\nssl_key_file = {}\n[chronova]\nmetadata_listen = {metadata}\n",
        at("server.pem"),
        at("server.key")
    ));
    cloud.launch();
    let url = format!("https://{}", cloud.address());
    cloud.wait("it answers over TLS", |_| curl(&folder, &TRUST, &format!("{url}/healthz")).0 == 0);
    for version in ["--tlsv1.2", "--tlsv1.3"] {
        for http in ["--http1.1", "--http2"] {
            let args = [&TRUST[..], &TOKEN, &[version, http]].concat();
            let (code, body) = curl(&folder, &args, &format!("{url}/compute/v2.1/"));
            assert_eq!(code, 0, "{version} {http}: {body}");
            assert!(
                body.contains(&format!("\"{url}/compute/v2.1/\"")),
                "the link lacks the scheme of the request: {body}"
            );
        }
    }
    // These fail: an authority that the client does not know, unsafe versions, and no TLS at all.
    assert_ne!(curl(&folder, &["--cacert", "stranger.pem"], &format!("{url}/healthz")).0, 0);
    assert_ne!(curl(&folder, &[&TRUST[..], &["--tls-max", "1.1"]].concat(), &format!("{url}/healthz")).0, 0);
    let (code, body) = curl(&folder, &TOKEN, &format!("http://{}/compute/v2.1/", cloud.address()));
    assert!(code != 0 || !body.contains("v2.1"), "{code}: {body}");
    assert_eq!(curl(&folder, &[], &format!("http://{metadata}/")).0, 0, "guests must get metadata without TLS");
    let clouds = std::fs::read_to_string(cloud.data().join("clouds.yaml")).unwrap();
    assert!(clouds.contains(&format!("auth_url: \"{url}/identity/v3\"")), "{clouds}");
    cloud.stop();
}

#[test]
fn with_an_authority_for_clients_only_its_certificates_are_accepted() {
    let mut cloud = Cloud::new("sim://1");
    let folder = cloud.folder.path().to_owned();
    if skipped(&folder) {
        return;
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let metadata = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cloud.configure(&format!(
        "[wsgi]\nssl_cert_file = {}\nssl_key_file = {}\nssl_ca_file = {}\n\
         [DEFAULT]\nenabled_ssl_apis = osapi_compute,metadata\n[chronova]\nmetadata_listen = {metadata}\n",
        at("server.pem"),
        at("server.key"),
        at("authority.pem")
    ));
    cloud.launch();
    for url in [format!("https://{}/healthz", cloud.address()), format!("https://{metadata}/")] {
        let shown = |name: &str| {
            let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
            curl(&folder, &[&TRUST[..], &["--cert", &certificate, "--key", &key]].concat(), &url).0
        };
        cloud.wait("it lets its client in", |_| shown("client") == 0);
        assert_ne!(shown("stranger"), 0, "a certificate of an unknown authority was accepted");
        assert_ne!(curl(&folder, &TRUST, &url).0, 0, "a client without a certificate was accepted");
    }
    cloud.stop();
}

/// As in Nova's `self.pem`, one file has the certificate and the key.
#[test]
fn the_listener_of_consoles_has_its_own_certificate() {
    let mut cloud = Cloud::new("sim://1");
    let folder = cloud.folder.path().to_owned();
    if skipped(&folder) {
        return;
    }
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    std::fs::write(folder.join("self.pem"), text("server.pem") + &text("server.key")).unwrap();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cloud.configure(&format!(
        "[vnc]\nnovncproxy_host = 127.0.0.1\nnovncproxy_port = {}\n[DEFAULT]\ncert = {}\nssl_only = true\n\
         [console]\nssl_minimum_version = tlsv1_3\n",
        proxy.port(),
        folder.join("self.pem").display()
    ));
    cloud.start();
    let url = format!("https://{proxy}/vnc_auto.html");
    let (code, page) = curl(&folder, &TRUST, &url);
    assert!(code == 0 && page.contains("<script"), "{code}: {page}");
    assert_ne!(curl(&folder, &["--cacert", "stranger.pem"], &url).0, 0);
    assert_ne!(curl(&folder, &[&TRUST[..], &["--tls-max", "1.2"]].concat(), &url).0, 0, "TLS 1.2 is accepted");
    let (code, page) = curl(&folder, &[], &format!("http://{proxy}/vnc_auto.html"));
    assert!(code != 0 || !page.contains("<script"), "the page is served without TLS: {page}");
    cloud.stop();
}

#[test]
fn an_incomplete_tls_configuration_stops_the_start() {
    let cloud = Cloud::new("sim://1");
    let config = cloud.folder.path().join("chronova.conf");
    for (given, told) in [
        ("ssl_cert_file = /nowhere/a.pem", "ssl_cert_file and ssl_key_file go together"),
        ("ssl_ca_file = /nowhere/a.pem", "ssl_ca_file needs ssl_cert_file and ssl_key_file"),
        ("ssl_cert_file = /nowhere/a.pem\nssl_key_file = /nowhere/a.key", "/nowhere/a.pem cannot be used for TLS"),
    ] {
        std::fs::write(&config, format!("[wsgi]\n{given}\n")).unwrap();
        let args = ["serve", "--listen", "127.0.0.1:0", "--config-file", &config.display().to_string()];
        let (code, text) = cloud.command(&args);
        assert!(code > 0 && text.contains(told), "{given}: {code} {text}");
    }
}

/// The site of the reverse proxy, as its clients know it.
const SITE: &str = "https://cloud.example";

/// Starts a reverse proxy that has the APIs below `/cloud`, and answers 404 for other paths. Returns its address.
fn front_server(behind: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            pass_on(&client, &behind).unwrap();
        }
    });
    address
}

/// Sends one request to the server, without the prefix of its path. Sends the answer back to the client.
fn pass_on(mut client: &TcpStream, behind: &str) -> std::io::Result<()> {
    let (mut reader, mut head, mut length) = (BufReader::new(client), String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim_end().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let Some((method, rest)) = head.split_once(" /cloud/") else { return client.write_all(b"HTTP/1.1 404 -\r\n\r\n") };
    let mut server = TcpStream::connect(behind)?;
    write!(server, "{method} /{rest}X-Forwarded-Proto: https\r\nX-Forwarded-Host: cloud.example\r\n")?;
    write!(server, "X-Forwarded-Prefix: /cloud\r\n\r\n")?;
    server.write_all(&body)?;
    std::io::copy(&mut server, &mut client).map(drop)
}

/// Sends a request to the reverse proxy. Returns the answer's status, head and body.
fn sent(front: &str, method: &str, path: &str, body: &Value) -> (u16, String, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(front).unwrap();
    let (length, fixed) =
        (body.len(), "X-Auth-Token: admin\r\nContent-Type: application/json\r\nConnection: close\r\n");
    let head = format!("{method} {path} HTTP/1.1\r\nHost: cloud.example\r\n{fixed}Content-Length: {length}\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// All links in an answer.
fn links(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("href").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| links(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| links(value, found)),
        _ => {}
    }
}

#[test]
fn below_the_path_of_a_front_server_every_link_leads_to_it() {
    let mut cloud = Cloud::new("sim://2");
    cloud
        .configure("[oslo_middleware]\nenable_proxy_headers_parsing = true\n[chronova]\ntrusted_proxies = 127.0.0.1\n");
    cloud.start();
    let furniture = cloud.furnish();
    let front = front_server(cloud.address());
    let inside = |link: &str| {
        assert!(link.starts_with(SITE), "{link} leads elsewhere");
        link.replacen(SITE, "", 1)
    };
    assert_eq!(sent(&front, "GET", "/compute/v2.1/servers", &Value::Null).0, 404, "the front server has no prefix");
    let wish = json!({"server": {
        "name": "web", "imageRef": furniture.image, "flavorRef": furniture.flavor,
        "networks": [{"uuid": furniture.network}],
    }});
    for _ in 0..2 {
        let (status, head, _) = sent(&front, "POST", "/cloud/compute/v2.1/servers", &wish);
        assert_eq!(status, 202, "{head}");
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        let (_, location) = headers.find(|(name, _)| name.eq_ignore_ascii_case("location")).unwrap();
        let (status, _, shown) = sent(&front, "GET", &inside(location), &Value::Null);
        assert_eq!((status, &shown["server"]["name"]), (200, &json!("web")));
    }
    // The versions, and a list in pages: its links lead to the servers, and from page to page.
    for path in ["/cloud/compute/", "/cloud/compute/v2.1/", "/cloud/compute/v2.1/servers?limit=1"] {
        let (status, _, body) = sent(&front, "GET", path, &Value::Null);
        assert!(status == 200 || status == 300, "{path}: {status} {body}");
        let mut all = Vec::new();
        links(&body, &mut all);
        all.retain(|link| !link.starts_with("http://docs.openstack.org"));
        assert!(!all.is_empty(), "{path}: {body}");
        for link in all {
            assert!(inside(&link).starts_with("/cloud/compute/"), "{path}: {link}");
        }
    }
    let (mut next, mut seen) = ("/cloud/compute/v2.1/servers?limit=1".to_owned(), Vec::new());
    for _ in 0..2 {
        let (_, _, page) = sent(&front, "GET", &next, &Value::Null);
        assert_eq!(page["servers"].as_array().unwrap().len(), 1, "{page}");
        let own = page["servers"][0]["links"].as_array().unwrap().iter().find(|link| link["rel"] == "self").unwrap();
        let (status, _, shown) = sent(&front, "GET", &inside(own["href"].as_str().unwrap()), &Value::Null);
        assert_eq!((status, &shown["server"]["id"]), (200, &page["servers"][0]["id"]));
        seen.push(shown["server"]["id"].clone());
        // The last page has no link to a next one.
        if seen.len() == 1 {
            next = inside(page["servers_links"][0]["href"].as_str().unwrap());
        }
    }
    assert_ne!(seen[0], seen[1]);
    // A client that asks the server itself gets links to the server itself.
    let direct = cloud.client().get("/compute/v2.1/servers?limit=1").unwrap().expect(200);
    assert!(direct.text("/servers_links/0/href").starts_with(&format!("http://{}/compute/", cloud.address())));
    cloud.stop();
}
