//! Runs two members of the real binary on one log in a real PostgreSQL and one data folder: one leads, one stands by.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

use std::os::unix::process::ExitStatusExt as _;

use serde_json::json;

use crate::cloud::{Cloud, Furniture};
use crate::database::Postgres;

const FLEET: &str = "sim://2?latency_ms=1&vcpus=512&memory_mib=1048576&disk_gib=100000";

fn first_member(database: &Postgres) -> Cloud {
    let cloud = Cloud::new(FLEET);
    let url = database.url();
    cloud.configure(&format!(
        "[chronova]\nevent_store = {url}\nevent_store_lease = 3\nevent_store_asynchronous = true\n"
    ));
    cloud
}

fn create(cloud: &Cloud, furniture: &Furniture, name: &str) {
    let server = json!({"server": {
        "name": name,
        "imageRef": furniture.image,
        "flavorRef": furniture.flavor,
        "networks": [{"uuid": furniture.network}],
    }});
    cloud.client().post("/compute/v2.1/servers", &server).unwrap().expect(202);
}

fn active(cloud: &Cloud) -> Vec<String> {
    let list = cloud.client().get("/compute/v2.1/servers/detail?status=ACTIVE&sort_key=display_name&sort_dir=asc");
    let list = list.unwrap().expect(200).body;
    let servers = list["servers"].as_array().unwrap().iter();
    servers.map(|server| server["name"].as_str().unwrap().to_owned()).collect()
}

fn leads(cloud: &mut Cloud) -> bool {
    let ended = cloud.ended();
    assert!(ended.is_none(), "the member ended by itself: {ended:?}\n{}", cloud.log());
    cloud.client().get("/healthz").is_ok_and(|answer| answer.status == 200)
}

#[test]
fn the_standby_leads_after_the_leader_was_killed_or_stopped() {
    let database = Postgres::new();
    let mut a = first_member(&database);
    let mut b = a.member();
    a.start();
    let furniture = a.furnish();
    create(&a, &furniture, "one");
    a.wait("a server of the first leader is active", |a| active(a) == ["one"]);

    b.launch();
    b.wait("the second member stands by", |b| b.log().contains("standing by") || leads(b));
    assert!(b.client().get("/healthz").is_err(), "a standby must not answer");
    create(&a, &furniture, "two");
    a.kill();
    b.wait("the second member leads", leads);
    b.wait("the second member completes the work of the first one", |b| active(b) == ["one", "two"]);
    create(&b, &furniture, "three");
    b.wait("the new leader builds more servers", |b| active(b) == ["one", "three", "two"]);

    // SIGSTOP keeps the leader from reading its clock and the database's answers.
    a.launch();
    a.wait("the first member stands by", |a| a.log().matches("standing by").count() == 1 || leads(a));
    b.signal("STOP");
    a.wait("the first member leads again", leads);
    let ended = b.ended().expect("another member led before the stopped leader died");
    assert_eq!(ended.signal(), Some(9), "{ended}");
    assert_eq!(active(&a), ["one", "three", "two"]);
    create(&a, &furniture, "four");
    a.wait("the new leader builds more servers", |a| active(a).len() == 4);

    // A graceful end releases the lease, so the next leader need not wait for it to expire.
    a.stop();
    assert_eq!(database.sql("SELECT lease_until = '-infinity' FROM chronova_head"), "t");
}

#[test]
fn a_leader_without_its_database_ends() {
    let database = Postgres::new();
    let mut cloud = first_member(&database);
    cloud.start();
    let furniture = cloud.furnish();
    create(&cloud, &furniture, "one");
    cloud.wait("the server is active", |cloud| active(cloud) == ["one"]);
    database.stop();
    cloud.wait("the process ends", |cloud| cloud.ended().is_some());
    assert_eq!(cloud.ended().unwrap().signal(), Some(9));
    assert!(cloud.log().contains("has not confirmed the lease"), "{}", cloud.log());
    database.start();
    cloud.start();
    assert_eq!(active(&cloud), ["one"]);
}

/// A switch to a database would leave the log in the folder behind.
#[test]
fn a_folder_with_a_log_is_not_used_with_a_database() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    cloud.stop();
    cloud.configure("[chronova]\nevent_store = postgresql://nobody:secret@127.0.0.1:1/none\n");
    cloud.launch();
    cloud.wait("the server refuses to start", |cloud| cloud.ended().is_some());
    assert_eq!(cloud.ended().unwrap().code(), Some(2));
    let log = cloud.log();
    assert!(log.contains("set event_store = sqlite") && !log.contains("secret"), "{log}");
}

#[test]
fn the_operators_commands_work_on_the_log_in_the_database() {
    let database = Postgres::new();
    let mut cloud = first_member(&database);
    cloud.start();
    let furniture = cloud.furnish();
    create(&cloud, &furniture, "one");
    cloud.wait("the server is active", |cloud| active(cloud) == ["one"]);
    let config = cloud.folder.path().join("chronova.conf").display().to_string();
    let command = |cloud: &Cloud, words: &[&str]| cloud.command(&[words, &["--config-file", &config]].concat());

    // The commands work beside the leader.
    let (code, output) = command(&cloud, &["audit"]);
    assert!(code == 0 && output.contains("instance."), "{code} {output}");
    let (code, output) = command(&cloud, &["audit", "head"]);
    assert_eq!(code, 0, "{output}");
    let (code, output) = command(&cloud, &["audit", "erase", "--user", "nobody", "--reason", "asked"]);
    assert!(code == 2 && output.contains("POST /chronova/v1/erasures"), "{code} {output}");
    cloud.stop();

    let (code, output) = command(&cloud, &["rebuild"]);
    assert_eq!(code, 0, "the checkpoint differs from the log: {output}");
    let head = database.sql("SELECT position || ':' || encode(hash, 'hex') FROM chronova_head");
    assert_eq!(command(&cloud, &["audit", "head"]), (0, format!("{head}\n")));
    let (code, output) = command(&cloud, &["rebuild", "--replace"]);
    assert_eq!(code, 0, "{output}");
    let erase = ["audit", "erase", "--user", "admin", "--reason", "asked", "--yes", "--even-alive"];
    let (code, output) = command(&cloud, &erase);
    assert!(code == 0 && output.contains("keys destroyed"), "{code} {output}");
    assert_eq!(
        database.sql("SELECT lease_until = '-infinity' FROM chronova_head"),
        "t",
        "the command must release the lease"
    );
    let (code, output) = command(&cloud, &["audit", "verify", "--against", &head]);
    assert!(code == 0 && output.contains("were erased") && output.contains("holds"), "{code} {output}");
    let (code, output) = command(&cloud, &["audit", "verify", "--quick"]);
    assert!(code == 2 && output.contains("--data-checksums"), "{code} {output}");

    database.sql("UPDATE chronova_events SET recorded_at = recorded_at + 1 WHERE position = 5");
    let (code, output) = command(&cloud, &["audit", "verify"]);
    assert!(code == 1 && output.contains("position 5"), "{code} {output}");
    database.sql("DELETE FROM chronova_events WHERE position = 3");
    let (code, output) = command(&cloud, &["audit", "verify"]);
    assert!(code == 1 && output.contains("position 3: events are missing"), "{code} {output}");
    let (code, output) = command(&cloud, &["rebuild", "--replace"]);
    assert!(code == 2 && output.contains("events are missing"), "{code} {output}");
}
