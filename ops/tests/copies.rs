//! A copied data directory does not drive the hosts of its original.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

mod cloud;

use std::path::Path;
use std::process::Command;

use cloud::Cloud;

const FLEET: &str = "sim://2";

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// Starts the cloud, waits until all its hosts are in this state, and stops it.
fn sees_hosts(cloud: &mut Cloud, state: &str) {
    cloud.start();
    cloud.wait(&format!("all hosts are {state}"), |cloud| {
        let answer = cloud.client().get("/compute/v2.1/os-hypervisors/detail").unwrap().expect(200);
        let all = answer.body["hypervisors"].as_array().unwrap();
        all.len() == 2 && all.iter().all(|host| host["state"] == state)
    });
    cloud.stop();
}

fn claim(cloud: &Cloud) {
    let config = cloud.folder.path().join("chronova.conf").display().to_string();
    let (code, text) = cloud.command(&["host", "claim", "--all", "--config-file", &config]);
    assert!(code == 0 && text.matches("claimed for generation").count() == 2, "{code} {text}");
}

#[test]
fn the_hosts_of_a_log_refuse_its_copies_until_they_are_claimed() {
    let (mut original, mut second) = (Cloud::new(FLEET), Cloud::new(FLEET));
    sees_hosts(&mut original, "up");
    sees_hosts(&mut original, "up");
    copy(&original.data(), &second.data());
    sees_hosts(&mut second, "down");
    let told = second.log();
    assert!(
        told.contains("another copy of this log drives the host") && told.contains("chronova host claim sim://"),
        "{told}"
    );
    // A refusal lasts.
    sees_hosts(&mut second, "down");
    claim(&second);
    sees_hosts(&mut second, "up");
    // The hosts remember the copy now, and refuse the original.
    copy(&second.data().join("sim"), &original.data().join("sim"));
    sees_hosts(&mut original, "down");
    claim(&original);
    sees_hosts(&mut original, "up");
    for cloud in [&original, &second] {
        let (code, text) = cloud.command(&["audit", "verify"]);
        assert_eq!(code, 0, "{text}");
    }
    let (_, text) = second.command(&["audit", "--kind", "installation"]);
    assert_eq!(text.lines().count(), 1, "one copy must begin one generation: {text}");
}

/// Chronova recognises a copy by the note about the log's file. Without the note, Chronova takes the copy for the
/// original.
#[test]
fn a_copy_without_its_note_is_not_recognised() {
    let (mut original, mut second) = (Cloud::new(FLEET), Cloud::new(FLEET));
    sees_hosts(&mut original, "up");
    copy(&original.data(), &second.data());
    std::fs::remove_file(second.data().join("log.db.home")).unwrap();
    sees_hosts(&mut second, "up");
}
