//! Tests the listeners of the real binary: TLS, with certificates from openssl and with curl as the client, and
//! metrics.
//!
//! Without openssl or curl, the tests of TLS print the reason and skip.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_debug_implementations, unreachable_pub)]

mod cloud;
mod tls;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use cloud::Cloud;
use tls::{certificates, curl};

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
