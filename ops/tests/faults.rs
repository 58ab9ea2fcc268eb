//! Runs the whole control plane on a disk that fills up or fails, and verifies the log that it wrote.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]
#![allow(dead_code, reason = "of the cloud of all tests, some use this and some that")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cloud::{Answer, Client, Cloud};

const FLEET: &str = "sim://1?latency_ms=1";

/// A small file system for the data folder.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the file system; `None` if this user may not mount.
    fn mount(at: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&at).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then_some(Self(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The free bytes on the disk of a folder.
fn room(folder: &Path) -> usize {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().last().unwrap().parse().unwrap()
}

fn create_flavor(client: &Client, name: &str) -> Answer {
    let flavor = json!({"flavor": {"name": name, "ram": 64, "vcpus": 1, "disk": 1}});
    client.post("/compute/v2.1/flavors", &flavor).unwrap()
}

/// The names of all flavors, read page by page.
fn flavors(client: &Client) -> Vec<String> {
    let (mut names, mut marker) = (Vec::new(), String::new());
    loop {
        let path = format!("/compute/v2.1/flavors?is_public=None{marker}");
        let page = client.get(&path).unwrap().expect(200).body["flavors"].as_array().unwrap().clone();
        let Some(last) = page.last() else { return names };
        marker = format!("&marker={}", last["id"].as_str().unwrap());
        names.extend(page.iter().map(|flavor| flavor["name"].as_str().unwrap().to_owned()));
    }
}

/// The number of rounds: `soak` if `CHRONOVA_SOAK` is set, else `usual`.
fn rounds(usual: u64, soak: u64) -> u64 {
    if std::env::var_os("CHRONOVA_SOAK").is_some() { soak } else { usual }
}

#[test]
fn a_full_disk_refuses_commands_until_there_is_space_and_serves_reads() {
    let mut cloud = Cloud::new(FLEET);
    let rounds = rounds(1, 12);
    let Some(_disk) = SmallDisk::mount(cloud.data(), &format!("{}m", 12 + rounds)) else {
        eprintln!("skipped: mounting a small file system needs root");
        return;
    };
    cloud.start();
    let mut created = Vec::new();
    for round in 0..rounds {
        // The ballast leaves one MiB free.
        let ballast = cloud.data().join("ballast");
        std::fs::write(&ballast, vec![1; room(&cloud.data()) - (1 << 20)]).unwrap();
        until_full(&cloud.client(), &mut created);
        let told = |health: u16| {
            move |cloud: &mut Cloud| cloud.client().get("/healthz").is_ok_and(|told| told.status == health)
        };
        cloud.wait("its health says that the log cannot be written", told(503));
        let health = cloud.client().get("/healthz").unwrap();
        assert!(health.text("/checks/event log").contains("full"), "{health:?}");
        if round % 3 == 2 {
            // A server that is killed on a full disk starts on a full disk, and serves reads.
            cloud.kill();
            cloud.launch();
            cloud.wait("it reads", |cloud| {
                cloud.client().get("/compute/v2.1/flavors").is_ok_and(|answer| answer.status == 200)
            });
        }
        let there = flavors(&cloud.client());
        assert!(created.iter().all(|name| there.contains(name)), "reads lack flavors");
        assert!(!there.contains(&"again".to_owned()), "a refused flavor exists");
        std::fs::remove_file(&ballast).unwrap();
        let name = format!("room {round}");
        cloud.wait("the service goes on by itself", |cloud| create_flavor(&cloud.client(), &name).status == 200);
        created.push(name);
        cloud.wait("its health says that the log can be written again", told(200));
    }
    let there = flavors(&cloud.client());
    assert!(created.iter().all(|name| there.contains(name)), "a flavor is missing");
    cloud.stop();
    let (code, text) = cloud.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{text}");
}

/// Creates flavors until one is refused, and checks the refusal.
fn until_full(client: &Client, created: &mut Vec<String>) {
    let before = created.len();
    let refused = loop {
        let name = format!("f{}", created.len());
        let answer = create_flavor(client, &name);
        match answer.status {
            200 => created.push(name),
            _ => break answer,
        }
        assert!(created.len() - before < 2_000, "the disk never became full");
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.text("/serviceUnavailable/message").contains("disk of the event log is full"), "{refused:?}");
    // A checkpoint that could not be written may have freed some space meanwhile, but only a little.
    for _ in 0..2 {
        let answer = create_flavor(client, "again");
        assert_eq!(answer.status, 503, "{answer:?}");
    }
}

/// A cloud on a disk that fails, and the file that says which calls fail.
fn on_a_disk_that_can_fail() -> Option<(Cloud, PathBuf)> {
    let mut cloud = Cloud::new(FLEET);
    match cloud.let_calls_fail("log.db") {
        Ok(how) => Some((cloud, how)),
        Err(reason) => {
            eprintln!("skipped: calls cannot be made to fail here: {reason}");
            None
        }
    }
}

#[test]
fn after_a_failed_fsync_nothing_is_acknowledged_until_a_restart() {
    let Some((mut cloud, how)) = on_a_disk_that_can_fail() else { return };
    cloud.start();
    let mut created = Vec::new();
    for round in 0..rounds(1, 25) {
        for n in 0..5 {
            let name = format!("good {round}.{n}");
            assert_eq!(create_flavor(&cloud.client(), &name).status, 200);
            created.push(name);
        }
        std::fs::write(&how, "fsync 5").unwrap();
        // Another call may have failed first. The test only requires that nothing is acknowledged.
        assert_eq!(create_flavor(&cloud.client(), &format!("in doubt {round}")).status, 503);
        std::fs::write(&how, "").unwrap();
        for n in 0..3 {
            let answer = create_flavor(&cloud.client(), &format!("later {round}.{n}"));
            assert_eq!(answer.status, 503, "a command is accepted after a failed fsync: {answer:?}");
        }
        let there = flavors(&cloud.client());
        assert!(created.iter().all(|name| there.contains(name)), "reads lack flavors");
        assert!(!there.iter().any(|name| name.starts_with("later")), "a flavor that was refused later exists");
        cloud.kill();
        cloud.start();
        let there = flavors(&cloud.client());
        assert!(created.iter().all(|name| there.contains(name)), "a flavor is missing");
        assert!(
            !there.iter().any(|name| name.starts_with("later")),
            "a flavor that was refused later exists after the restart"
        );
    }
    cloud.stop();
    let (code, text) = cloud.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_disk_that_became_read_only_refuses_commands_and_serves_reads() {
    let Some((mut cloud, how)) = on_a_disk_that_can_fail() else { return };
    cloud.start();
    let mut created = Vec::new();
    for round in 0..rounds(1, 25) {
        let name = format!("good {round}");
        cloud.wait("the service goes on by itself", |cloud| create_flavor(&cloud.client(), &name).status == 200);
        created.push(name);
        // EROFS, as after an error on a file system that is mounted with errors=remount-ro.
        std::fs::write(&how, "write 30").unwrap();
        for n in 0..3 {
            let answer = create_flavor(&cloud.client(), &format!("refused {round}.{n}"));
            assert_eq!(answer.status, 503, "{answer:?}");
            assert!(answer.text("/serviceUnavailable/message").contains("event log is not available"), "{answer:?}");
        }
        let there = flavors(&cloud.client());
        assert!(created.iter().all(|name| there.contains(name)), "reads lack flavors");
        assert!(!there.iter().any(|name| name.starts_with("refused")), "a refused flavor exists");
        std::fs::write(&how, "").unwrap();
    }
    cloud.wait("the service goes on by itself", |cloud| create_flavor(&cloud.client(), "after").status == 200);
    cloud.stop();
    let (code, text) = cloud.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{text}");
}

/// Needs a stopped cloud with an intact log. Restores all files in the end.
fn check_reports_of_damaged_caches_and_missing_seals(cloud: &Cloud) {
    // Without the seals, a quick verification checks nothing.
    let (seals, aside) = (cloud.data().join("log.db.seals"), cloud.folder.path().join("seals"));
    std::fs::rename(&seals, &aside).unwrap();
    let (code, text) = cloud.command(&["audit", "verify", "--quick"]);
    assert!(code == 1 && text.contains("was NOT checked") && !text.contains("the log is whole"), "{text}");
    let (code, text) = cloud.command(&["audit", "verify", "--quick", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &report["whole"]), (1, &Value::Null), "{text}");
    let (code, text) = cloud.command(&["audit", "verify"]);
    assert!(code == 0 && text.contains("the log is whole"), "a full verification must need no seals: {text}");
    std::fs::rename(&aside, &seals).unwrap();

    // A damaged checkpoint is reported as a damaged cache, not as a damaged log.
    let views = std::fs::read_dir(cloud.data().join("views")).unwrap().map(|entry| entry.unwrap().path());
    let mut damaged = Vec::new();
    for path in views.filter(|path| path.is_file()) {
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&path, bytes).unwrap();
        damaged.push((path, whole));
    }
    assert!(!damaged.is_empty());
    let (code, text) = cloud.command(&["audit", "verify"]);
    assert!(code == 1 && text.contains("DAMAGED CACHE"), "{text}");
    assert!(text.contains("the log is whole") && !text.contains("the log is NOT whole"), "{text}");
    let (code, text) = cloud.command(&["audit", "verify", "--json"]);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &report["whole"], &report["read_models"]["equal"]), (1, &json!(true), &json!(false)), "{text}");
    for (path, whole) in damaged {
        std::fs::write(path, whole).unwrap();
    }
}

/// Runs the commands that an auditor or a backup would run beside the server.
fn read_with_tools(log: &Path) {
    let copy = log.with_file_name("copy");
    let looks = [
        ("sqlite3", "select count(*) from events".to_owned()),
        ("sqlite3", format!(".backup '{}'", copy.display())),
        ("cp", copy.display().to_string()),
    ];
    for (program, argument) in looks {
        let status = Command::new(program).arg(log).arg(&argument).stdout(Stdio::null()).status();
        assert!(status.unwrap_or_else(|error| panic!("{program}: {error}")).success(), "{program} {argument}");
    }
}

#[test]
fn reading_the_log_with_sqlite_loses_nothing_at_the_next_kill() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let mut created = Vec::new();
    let log = cloud.data().join("log.db");
    for round in 0..rounds(3, 100) {
        for n in 0..10 {
            let name = format!("f{round}.{n}");
            assert_eq!(create_flavor(&cloud.client(), &name).status, 200);
            created.push(name);
            if n == 4 {
                read_with_tools(&log);
            }
        }
        assert_eq!(cloud.client().get("/healthz").unwrap().status, 200);
        cloud.kill();
        cloud.start();
        let there = flavors(&cloud.client());
        assert!(created.iter().all(|name| there.contains(name)), "a flavor is missing");
    }
    cloud.stop();
    let (code, text) = cloud.command(&["audit", "verify"]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_removed_write_ahead_log_refuses_commands_and_shows_in_the_health() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    assert_eq!(create_flavor(&cloud.client(), "before").status, 200);
    std::fs::remove_file(cloud.data().join("log.db-wal")).unwrap();
    let health = cloud.client().get("/healthz").unwrap();
    assert_eq!(health.status, 503, "{health:?}");
    let told = health.text("/checks/event log");
    assert!(told.contains("log.db-wal") && told.contains("removed"), "{told}");
    assert_eq!(create_flavor(&cloud.client(), "after").status, 503);
    assert_eq!(cloud.client().get("/healthz").unwrap().status, 503);
    assert!(!flavors(&cloud.client()).contains(&"after".to_owned()), "reads show a refused flavor");
}

#[test]
fn the_operator_verifies_the_log_against_an_earlier_head() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    cloud.furnish();
    let (code, head) = cloud.command(&["audit", "head"]);
    assert_eq!(code, 0, "{head}");
    // Verification also works beside the running server.
    let (code, text) = cloud.command(&["audit", "verify", "--against", head.trim()]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("the log is whole") && text.contains("holds"), "{text}");
    assert_eq!(create_flavor(&cloud.client(), "after the head").status, 200);
    cloud.stop();
    let anchors = cloud.folder.path().join("anchors");
    std::fs::write(&anchors, format!("# kept on paper\n{head}")).unwrap();
    let (code, text) = cloud.command(&["audit", "verify", "--json", "--anchor-file", &anchors.display().to_string()]);
    assert_eq!(code, 0, "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["whole"], true, "{text}");
    assert_eq!(report["anchors"], json!([head.trim()]), "{text}");
    assert_eq!(report["read_models"]["equal"], true, "{text}");
    assert_eq!(report["events"], report["head"]["position"], "{text}");

    let (position, hash) = head.trim().split_once(':').unwrap();
    let digit = if hash.starts_with('0') { "1" } else { "0" };
    let (code, text) = cloud.command(&["audit", "verify", "--against", &format!("{position}:{digit}{}", &hash[1..])]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains(&format!("DAMAGE      position {position}: the anchor says")), "{text}");
    let (code, _) = cloud.command(&["audit", "verify", "--against", "7"]);
    assert_eq!(code, 2);

    check_reports_of_damaged_caches_and_missing_seals(&cloud);

    // Flips one bit.
    let log = cloud.data().join("log.db");
    let mut bytes = std::fs::read(&log).unwrap();
    let at =
        bytes.windows(5).position(|window| window == b"tiny\0" || window == b"tiny\x01").unwrap_or(bytes.len() / 2);
    bytes[at] ^= 4;
    std::fs::write(&log, bytes).unwrap();
    for args in [&["audit", "verify"][..], &["audit", "verify", "--quick"]] {
        let (code, text) = cloud.command(args);
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("DAMAGE") && text.contains("the log is NOT whole"), "{text}");
    }
}
