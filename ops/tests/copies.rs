//! A copied data directory does not drive the hosts of its original.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cloud::{Cloud, Furniture};

const FLEET: &str = "sim://2";

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

const REFUSAL: &str = "another copy of this log drives the host";

/// How many times the refusal is in the log file of this control plane.
fn refusals(cloud: &Cloud) -> usize {
    std::fs::read_to_string(cloud.folder.path().join("log")).unwrap_or_default().matches(REFUSAL).count()
}

fn states(cloud: &Cloud) -> Vec<(String, String)> {
    let answer = cloud.client().get("/compute/v2.1/os-hypervisors/detail").unwrap().expect(200);
    let text = |host: &Value, key: &str| host[key].as_str().unwrap().to_owned();
    let all = answer.body["hypervisors"].as_array().unwrap();
    all.iter().map(|host| (text(host, "hypervisor_hostname"), text(host, "state"))).collect()
}

/// Starts a new cloud, and stops it when it has an image and a flavor.
fn furnished(cloud: &mut Cloud) -> Furniture {
    cloud.start();
    cloud.wait("both hosts are known", |cloud| states(cloud).len() == 2);
    let goods = cloud.furnish();
    cloud.stop();
    goods
}

/// Starts the cloud, builds a server on each host, and stops the cloud. The log of a copy says from the beginning that
/// the hosts are up, so only a new guest proves that the copy drives them.
fn drives(cloud: &mut Cloud, goods: &Furniture) {
    cloud.start();
    for (host, _) in states(cloud) {
        let server = json!({"server": {"name": "s", "imageRef": goods.image, "flavorRef": goods.flavor,
            "networks": "none", "host": host}});
        // While the log says that the host is down, the scheduler finds no valid host.
        cloud.wait(&format!("{host} takes a server"), |cloud| {
            let client = cloud.client();
            let made = client.post("/compute/v2.1/servers", &server).unwrap();
            if made.status != 202 {
                return false;
            }
            let path = format!("/compute/v2.1/servers/{}", made.text("/server/id"));
            let mut status = String::new();
            cloud.wait("the build of the server has ended", |_| {
                status = client.get(&path).unwrap().expect(200).text("/server/status");
                status != "BUILD"
            });
            status == "ACTIVE"
        });
    }
    assert!(states(cloud).iter().all(|(_, state)| state == "up"));
    cloud.stop();
}

/// Starts the cloud, waits until both hosts have refused it, and stops the cloud.
fn is_refused(cloud: &mut Cloud) {
    let before = refusals(cloud);
    cloud.start();
    cloud.wait("both hosts have refused the log", |cloud| refusals(cloud) >= before + 2);
    cloud.wait("both hosts are down", |cloud| states(cloud).iter().all(|(_, state)| state == "down"));
    cloud.stop();
}

fn claim(cloud: &Cloud) {
    let config = cloud.folder.path().join("chronova.conf").display().to_string();
    let (code, text) = cloud.command(&["host", "claim", "--all", "--config-file", &config]);
    assert!(code == 0 && text.matches("claimed for generation").count() == 2, "{code} {text}");
}

fn generations(cloud: &Cloud) -> usize {
    let (_, text) = cloud.command(&["audit", "--kind", "installation"]);
    text.lines().count()
}

#[test]
fn the_hosts_of_a_log_refuse_its_copies_until_they_are_claimed() {
    let (mut original, mut second) = (Cloud::new(FLEET), Cloud::new(FLEET));
    let goods = furnished(&mut original);
    drives(&mut original, &goods);
    drives(&mut original, &goods);
    copy(&original.data(), &second.data());
    is_refused(&mut second);
    assert!(second.log().contains("chronova host claim sim://"), "{}", second.log());
    // A refusal lasts.
    is_refused(&mut second);
    claim(&second);
    drives(&mut second, &goods);
    // The hosts remember the copy now, and refuse the original.
    copy(&second.data().join("sim"), &original.data().join("sim"));
    is_refused(&mut original);
    claim(&original);
    drives(&mut original, &goods);
    for cloud in [&original, &second] {
        let (code, text) = cloud.command(&["audit", "verify"]);
        assert_eq!(code, 0, "{text}");
    }
    assert_eq!(generations(&second), 1, "a copy must begin one generation");
}

/// The claim begins the generation of a copy that was never started. Otherwise the first start would begin another one,
/// which the hosts refuse.
#[test]
fn hosts_are_claimed_for_a_copy_before_its_first_start() {
    let (mut original, mut second) = (Cloud::new(FLEET), Cloud::new(FLEET));
    let goods = furnished(&mut original);
    drives(&mut original, &goods);
    copy(&original.data(), &second.data());
    claim(&second);
    assert_eq!(generations(&second), 1);
    claim(&second);
    assert_eq!(generations(&second), 1, "a second claim must begin no other generation");
    drives(&mut second, &goods);
    assert_eq!((generations(&second), refusals(&second)), (1, 0));
    copy(&second.data().join("sim"), &original.data().join("sim"));
    is_refused(&mut original);
}

/// Chronova recognises a copy by the note about the log's file. Without the note, Chronova takes the copy for the
/// original.
#[test]
fn a_copy_without_its_note_is_not_recognised() {
    let (mut original, mut second) = (Cloud::new(FLEET), Cloud::new(FLEET));
    let goods = furnished(&mut original);
    drives(&mut original, &goods);
    copy(&original.data(), &second.data());
    std::fs::remove_file(second.data().join("log.db.home")).unwrap();
    drives(&mut second, &goods);
}
