//! At SIGHUP a running control plane reads log level, policy and certificates again. A mistake changes nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

mod cloud;
mod tls;

use std::path::Path;

use cloud::Cloud;
use serde_json::json;
use tls::{certificates, curl};

const SERVERS: &str = "/compute/v2.1/servers";

fn log(cloud: &Cloud) -> String {
    std::fs::read_to_string(cloud.folder.path().join("log")).unwrap_or_default()
}

/// Sends SIGHUP, and waits until the log contains the text `what` this many times.
fn hang_up(cloud: &mut Cloud, what: &str, times: usize) {
    cloud.signal("HUP");
    cloud.wait(what, |cloud| log(cloud).matches(what).count() == times);
}

const READ: &str = "read again on SIGHUP";

/// The last line that names the parts that were read.
fn last_read(cloud: &Cloud) -> String {
    log(cloud).lines().rfind(|line| line.contains(READ)).unwrap_or_default().trim_end().to_owned()
}

#[test]
fn a_hang_up_reads_policy_and_log_level_again() {
    let mut cloud = Cloud::new("sim://1");
    let policy = cloud.folder.path().join("policy.yaml");
    std::fs::write(&policy, "{}\n").unwrap();
    cloud.configure(&format!("[oslo_policy]\npolicy_file = {}\n", policy.display()));
    // The variable would override the configured level.
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.start();
    let status = |cloud: &Cloud| cloud.client().get(SERVERS).unwrap().status;
    assert_eq!(status(&cloud), 200);
    std::fs::write(&policy, "\"os_compute_api:servers:index\": \"!\"\n").unwrap();
    assert_eq!(status(&cloud), 200, "the changed file took effect before SIGHUP");
    hang_up(&mut cloud, READ, 1);
    assert!(last_read(&cloud).ends_with("SIGHUP: log level, policy"), "{}", last_read(&cloud));
    assert_eq!(status(&cloud), 403);
    std::fs::write(&policy, "\"os_compute_api:servers:index\": \"role:\n  - broken").unwrap();
    hang_up(&mut cloud, READ, 2);
    assert!(last_read(&cloud).ends_with("SIGHUP: log level"), "the log names a part that was not read");
    assert_eq!(status(&cloud), 403, "a policy that cannot be read replaced the policy in force");
    assert!(log(&cloud).contains("the policy stays as it was"));
    std::fs::write(&policy, "{}\n").unwrap();
    cloud.configure("[DEFAULT]\ndebug = true\n");
    assert!(!log(&cloud).contains("DEBUG"));
    hang_up(&mut cloud, READ, 3);
    assert_eq!(status(&cloud), 200);
    // Each step of a process writes a line of the level DEBUG.
    let goods = cloud.furnish();
    let server =
        json!({"name": "s", "imageRef": goods.image, "flavorRef": goods.flavor, "networks": [{"uuid": goods.network}]});
    cloud.client().post(SERVERS, &json!({"server": server})).unwrap().expect(202);
    cloud.wait("a line of the level DEBUG is written", |cloud| log(cloud).contains("DEBUG"));
    cloud.configure("[api]\nauth_strategy = nonsense\n");
    hang_up(&mut cloud, "the configuration is not valid, and nothing was read from it", 1);
    assert_eq!(status(&cloud), 200);
    cloud.stop();
}

#[test]
fn a_hang_up_exchanges_the_certificate() {
    let mut cloud = Cloud::new("sim://1");
    let folder = cloud.folder.path().to_owned();
    if let Err(reason) = certificates(&folder) {
        return println!("skipped: no certificates can be made: {reason}");
    }
    let copy = |from: &str, to: &str| {
        std::fs::copy(folder.join(from), folder.join(to)).unwrap();
    };
    let show = |name: &str| {
        copy(&format!("{name}.pem"), "shown.pem");
        copy(&format!("{name}.key"), "shown.key");
    };
    show("server");
    let at = |name: &str| folder.join(name).display().to_string();
    cloud.configure(&format!("[wsgi]\nssl_cert_file = {}\nssl_key_file = {}\n", at("shown.pem"), at("shown.key")));
    cloud.environment.push(("RUST_LOG".to_owned(), String::new()));
    cloud.launch();
    let url = format!("https://{}/healthz", cloud.address());
    let trusts = |folder: &Path, authority: &str| curl(folder, &["--cacert", authority], &url).0 == 0;
    cloud.wait("it answers over TLS", |_| trusts(&folder, "authority.pem"));
    assert!(!trusts(&folder, "stranger.pem"));
    show("foreign");
    hang_up(&mut cloud, READ, 1);
    assert!(last_read(&cloud).ends_with("SIGHUP: log level, policy, certificates"), "{}", last_read(&cloud));
    assert!(
        trusts(&folder, "stranger.pem") && !trusts(&folder, "authority.pem"),
        "the server does not show the new certificate"
    );
    copy("server.pem", "shown.pem");
    hang_up(&mut cloud, READ, 2);
    assert!(last_read(&cloud).ends_with("SIGHUP: log level, policy"), "the log names a part that was not read");
    assert!(trusts(&folder, "stranger.pem"), "a certificate without its key replaced the one in use");
    assert!(log(&cloud).contains("the certificate stays as it was"));
    cloud.stop();
}
