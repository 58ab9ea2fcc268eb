//! Restarts the real binary, for example after a change of a read model's version and with a damaged checkpoint. Also
//! tests what the data folder reveals, and queries about the past.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    unreachable_pub,
    dead_code
)]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chronova_events::sealed::keys::KeyRing;
use chronova_projections::checkpoint::{CheckpointFile, CheckpointOptions, Checkpoints, relabel};
use serde_json::{Value, json};

use crate::cloud::{Client, Cloud, Furniture, pause};

const LIST: &str = "/compute/v2.1/servers/detail?all_tenants=1";

fn make(client: &Client, furniture: &Furniture, name: &str) -> String {
    let server = json!({"server": {
        "name": name,
        "imageRef": furniture.image,
        "flavorRef": furniture.flavor,
        "networks": [{"uuid": furniture.network}],
    }});
    client.post("/compute/v2.1/servers", &server).unwrap().expect(202).text("/server/id")
}

/// The files and folders from `folder` downwards that have another mode than 0600 or 0700, with their modes.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    let mut found = Vec::new();
    let mut all = vec![folder.to_owned()];
    while let Some(path) = all.pop() {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        if mode(&path) != wanted {
            found.push(format!("{:o} {}", mode(&path), path.display()));
        }
        if path.is_dir() {
            all.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn a_start_closes_the_data_folder_to_all_but_its_owner() {
    let (mut cloud, _) = settled();
    assert_eq!(open_to_others(&cloud.data()), Vec::<String>::new(), "others may open files while the server runs");
    cloud.stop();
    let checkpoint = newest(&cloud);
    assert_eq!(open_to_others(&cloud.data()), Vec::<String>::new(), "open after a run, with a checkpoint");
    for (path, mode) in [(cloud.data(), 0o755), (cloud.data().join("views"), 0o755), (checkpoint, 0o644)] {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    cloud.start();
    assert_eq!(open_to_others(&cloud.data()), Vec::<String>::new(), "others may open files after the next start");
    assert!(cloud.log().contains("closed=3"), "the log must say how many entries were closed:\n{}", cloud.log());
    cloud.stop();
}

/// Words of a tenant, by the field of the request that has them. They occur nowhere else.
const WORDS: [(&str, &str); 5] = [
    ("name", "zanzibar-named"),
    ("description", "zanzibar-described"),
    ("user_data", "emFuemliYXItdXNlci1kYXRh"),
    ("metadata", "zanzibar-metadata"),
    ("key", "AAAAC3NzaC1lZDI1NTE5AAAAIGsr6i3xIGfN1JhmdCL1ViFV1ZmuQ7XfYk7FJJYCxm1r"),
];

/// The files of a folder and of its subfolders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn no_file_has_a_tenants_words_in_clear_text() {
    let mut cloud = Cloud::new("sim://1?vcpus=64&memory_mib=65536&disk_gib=1000");
    cloud.start();
    let (furniture, client) = (cloud.furnish(), cloud.client());
    let said = |what: &str| WORDS.iter().find(|(name, _)| *name == what).unwrap().1;
    let key = json!({"keypair": {"name": "k", "type": "ssh", "public_key": format!("ssh-ed25519 {} k", said("key"))}});
    client.post("/compute/v2.1/os-keypairs", &key).unwrap().expect(201);
    let server = json!({"server": {
        "name": said("name"),
        "description": said("description"),
        "imageRef": furniture.image,
        "flavorRef": furniture.flavor,
        "networks": [{"uuid": furniture.network}],
        "key_name": "k",
        "user_data": said("user_data"),
        "metadata": {"m": said("metadata")},
        "config_drive": true,
    }});
    let id = client.post("/compute/v2.1/servers", &server).unwrap().expect(202).text("/server/id");
    let path = format!("/compute/v2.1/servers/{id}");
    cloud.wait("the server runs", |_| client.get(&path).unwrap().expect(200).text("/server/status") == "ACTIVE");
    let addresses = client.get(&path).unwrap().body["server"]["addresses"].to_string();
    let address = addresses.split('"').find(|text| text.starts_with("10.0.")).expect("an address").to_owned();
    cloud.stop();
    let checkpoint = newest(&cloud);
    let clear = |path: &Path, text: &str| {
        std::fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    };
    for (what, text) in WORDS {
        for file in files(&cloud.data()) {
            assert!(!clear(&file, text), "the {what} is in {}", file.display());
        }
    }
    assert!(!clear(&checkpoint, &address), "the address is in the checkpoint in clear text");
    // Operators' commands also write into the data folder.
    let (code, told) = cloud.command(&["audit", "archive", "--before", "20"]);
    assert_eq!(code, 0, "{told}");
    assert!(files(&cloud.data().join("archive")).len() >= 2, "{told}");
    assert_eq!(open_to_others(&cloud.data()), Vec::<String>::new());
    // The next start can read the sealed data. After an erasure, nothing can read it.
    cloud.start();
    assert_eq!(health(&cloud)["read_models"]["remarks"], json!([]));
    let shown = cloud.client().get(&path).unwrap().expect(200).body;
    assert_eq!(shown["server"]["name"], said("name"));
    let copy = std::fs::read(&checkpoint).unwrap();
    let erasure = json!({"erasure": {"server": id, "reason": "asked for", "even_alive": true, "dry_run": false}});
    let erased = cloud.client().post("/chronova/v1/erasures", &erasure).unwrap();
    assert!(erased.status < 300, "{}", erased.body);
    assert!(!checkpoint.exists(), "the erasure left an earlier checkpoint");
    cloud.stop();
    for file in files(&cloud.data().join("views")) {
        std::fs::remove_file(file).unwrap();
    }
    std::fs::write(&checkpoint, copy).unwrap();
    let (_, told) = cloud.command(&["rebuild"]);
    assert!(told.contains("its key was destroyed by an erasure"), "{told}");
}

#[test]
fn a_request_that_is_too_large_for_the_log_is_refused_alone() {
    let mut cloud = Cloud::new("sim://1?vcpus=64&memory_mib=65536&disk_gib=1000");
    cloud.configure(
        "[chronova]\nmax_body_bytes = 16777216\n[quota]\ninjected_files = -1\ninjected_file_content_bytes = -1\n",
    );
    cloud.start();
    let (furniture, client) = (cloud.furnish(), cloud.client());
    let request = |contents: &str| {
        json!({"server": {
            "name": "large",
            "imageRef": furniture.image,
            "flavorRef": furniture.flavor,
            "networks": [{"uuid": furniture.network}],
            "personality": [{"path": "/a", "contents": contents}],
        }})
    };
    let send = |contents: &str| client.post_at("/compute/v2.1/servers", "compute 2.1", &request(contents)).unwrap();
    let large = "YWJj".repeat(400_000);
    let beside: Vec<_> = (0..4)
        .map(|_| {
            let (client, request) = (client.clone(), request("YWJj"));
            std::thread::spawn(move || {
                client.post_at("/compute/v2.1/servers", "compute 2.1", &request).unwrap().expect(202);
            })
        })
        .collect();
    for _ in 0..4 {
        let refused = send(&large);
        assert_eq!(refused.status, 413, "{}", refused.body);
        assert!(refused.body.to_string().contains("large"), "{}", refused.body);
    }
    for thread in beside {
        thread.join().unwrap();
    }
    send("YWJj").expect(202);
    let all = client.get(LIST).unwrap().expect(200).body;
    assert_eq!(all["servers"].as_array().unwrap().len(), 5, "the refused request created a server: {all}");
    client.get("/healthz").unwrap().expect(200);
    cloud.stop();
}

fn both_hosts_are_up(cloud: &mut Cloud) {
    cloud.wait("the hosts are up", |cloud| {
        let hosts = cloud.client().get("/compute/v2.1/os-hypervisors").unwrap().expect(200);
        hosts.body["hypervisors"].as_array().unwrap().iter().filter(|host| host["state"] == "up").count() == 2
    });
}

/// A cloud with a few servers that do not change any more.
fn settled() -> (Cloud, Vec<String>) {
    let mut cloud = Cloud::new("sim://2?vcpus=64&memory_mib=65536&disk_gib=1000");
    cloud.start();
    let furniture = cloud.furnish();
    both_hosts_are_up(&mut cloud);
    let client = cloud.client();
    let servers: Vec<String> = (0..5).map(|number| make(&client, &furniture, &format!("server-{number}"))).collect();
    cloud.wait("the servers run", |cloud| {
        let list = cloud.client().get(LIST).unwrap().expect(200).body;
        list["servers"].as_array().unwrap().iter().filter(|server| server["status"] == "ACTIVE").count() == 5
    });
    (cloud, servers)
}

fn checkpoints(cloud: &Cloud) -> Vec<CheckpointFile> {
    Checkpoints::new(cloud.data().join("views"), CheckpointOptions::default(), KeyRing::in_memory().unwrap()).list().0
}

fn newest(cloud: &Cloud) -> PathBuf {
    checkpoints(cloud).pop().expect("a graceful end must leave a checkpoint").path
}

fn health(cloud: &Cloud) -> Value {
    cloud.client().get("/healthz").unwrap().expect(200).body
}

/// Sends requests without a pause until `over`. Every answer must be `expected`.
fn asking(client: Client, expected: Value, over: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let over = Arc::clone(over);
    std::thread::spawn(move || {
        let mut answered = 0;
        while !over.load(Ordering::SeqCst) {
            // Connections may fail until the process listens, and never after that.
            match client.get(LIST) {
                Ok(answer) => {
                    assert_eq!(answer.expect(200).body, expected);
                    answered += 1;
                }
                Err(error) => assert_eq!(answered, 0, "{error}"),
            }
        }
        answered
    })
}

/// Work that a graceful stop interrupts goes on after the next start.
#[test]
fn servers_requested_right_before_a_stop_are_built_after_the_next_start() {
    let mut cloud = Cloud::new("sim://2?latency_ms=20&vcpus=64&memory_mib=65536&disk_gib=1000");
    cloud.start();
    let furniture = cloud.furnish();
    both_hosts_are_up(&mut cloud);
    let client = cloud.client();
    let servers: Vec<String> = (0..5).map(|number| make(&client, &furniture, &format!("late-{number}"))).collect();
    cloud.stop();
    cloud.start();
    for id in servers {
        let path = format!("/compute/v2.1/servers/{id}");
        cloud.wait("the server runs", |cloud| {
            let shown = cloud.client().get(&path).unwrap().expect(200);
            shown.text("/server/status") == "ACTIVE"
        });
    }
    cloud.stop();
}

#[test]
fn a_changed_version_of_a_read_model_fails_no_request() {
    let (mut cloud, _) = settled();
    let before = cloud.client().get(LIST).unwrap().expect(200).body;
    cloud.stop();
    for name in ["servers", "hosts", "identities"] {
        relabel(&newest(&cloud), name, 0).unwrap();
    }
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..3).map(|_| asking(cloud.client(), before.clone(), &over)).collect();
    cloud.start();
    let told = health(&cloud);
    let remark = told["read_models"]["remarks"][0].as_str().unwrap_or_default().to_owned();
    assert!(remark.contains("are rebuilt first: hosts, identities, servers"), "{told}");
    pause(100);
    over.store(true, Ordering::SeqCst);
    for client in clients {
        assert!(client.join().unwrap() > 0);
    }
    // If a read model can show the state of the older version, requests do not even wait.
    cloud.stop();
    relabel(&newest(&cloud), "placement", 1).unwrap();
    cloud.start();
    let told = health(&cloud)["read_models"]["remarks"][0].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("while they are rebuilt: placement"), "{told}");
    cloud.wait("the read model is rebuilt and saved", |cloud| {
        health(cloud)["read_models"]["checkpoint"]["position"].as_u64() > Some(0)
    });
    assert_eq!(cloud.client().get(LIST).unwrap().expect(200).body, before);
    // At the next start, the checkpoint has every read model in its present version.
    cloud.stop();
    cloud.start();
    assert_eq!(health(&cloud)["read_models"]["remarks"], json!([]));
    assert_eq!(cloud.client().get(LIST).unwrap().expect(200).body, before);
}

/// The command `chronova host`, which calls the running server.
fn host_command(cloud: &Cloud, args: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_chronova"));
    command.arg("host").args(args).arg("--url").arg(format!("http://{}", cloud.address()));
    command.arg("--config-file").arg(cloud.folder.path().join("chronova.conf"));
    command.arg("--data-dir").arg(cloud.data());
    command
}

/// Runs the command; returns its exit status and its output.
fn said(cloud: &Cloud, args: &[&str]) -> (Option<i32>, String) {
    let output = host_command(cloud, args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

fn host_of(cloud: &Cloud, server: &str) -> String {
    let shown = cloud.client().get(&format!("/compute/v2.1/servers/{server}")).unwrap().expect(200);
    shown.text("/server/OS-EXT-SRV-ATTR:host")
}

/// The operator's command follows a drain across a kill of the server.
#[test]
fn a_drain_goes_on_after_a_kill() {
    let mut cloud = Cloud::new("sim://2?latency_ms=15&vcpus=64&memory_mib=65536&disk_gib=1000");
    cloud.start();
    let furniture = cloud.furnish();
    cloud.wait("the hosts are up", |cloud| {
        let (code, text) = said(cloud, &["list"]);
        code == Some(0) && text.matches(" up ").count() == 2
    });
    let client = cloud.client();
    let servers: Vec<String> = (0..6).map(|number| make(&client, &furniture, &format!("server-{number}"))).collect();
    cloud.wait("the servers run", |cloud| {
        let list = cloud.client().get(LIST).unwrap().expect(200).body;
        list["servers"].as_array().unwrap().iter().all(|server| server["status"] == "ACTIVE")
    });
    let first = host_of(&cloud, &servers[0]);
    client
        .post(&format!("/compute/v2.1/servers/{}/action", servers[0]), &json!({"suspend": null}))
        .unwrap()
        .expect(202);
    cloud.wait("one is suspended", |cloud| {
        let shown = cloud.client().get(&format!("/compute/v2.1/servers/{}", servers[0])).unwrap().expect(200);
        shown.body["server"]["status"] == "SUSPENDED"
    });
    let watching = host_command(&cloud, &["maintenance", &first, "on", "--reason", "new memory", "--parallel", "1"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    cloud.wait("the drain has begun", |cloud| {
        let shown = cloud.client().get(&format!("/chronova/v1/hosts/{first}")).unwrap().expect(200);
        shown.body["host"]["drain"]["leaving"].as_array().is_some_and(|leaving| !leaving.is_empty())
            || shown.body["host"]["drain"]["left"].as_array().is_some_and(|left| !left.is_empty())
    });
    cloud.kill();
    pause(300);
    cloud.start();
    let output = watching.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        output.status.code(),
        Some(1),
        "the exit code must say that one server stays\n{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(told.contains(&format!("{first} is in maintenance\n")), "{told}");
    assert!(told.contains("server-0 (") && told.contains("it is suspended"), "{told}");
    assert!(told.ends_with("left, 1 stay\n") && told.contains(&format!("{first} is not empty")), "{told}");
    for server in &servers[1..] {
        assert_ne!(host_of(&cloud, server), first);
    }

    // After the resume, the last server leaves the host, and the operator ends the maintenance.
    let path = format!("/compute/v2.1/servers/{}/action", servers[0]);
    cloud.client().post(&path, &json!({"resume": null})).unwrap().expect(202);
    cloud.wait("it is resumed", |cloud| {
        let shown = cloud.client().get(&format!("/compute/v2.1/servers/{}", servers[0])).unwrap().expect(200);
        shown.body["server"]["status"] == "ACTIVE"
    });
    let (code, told) = said(&cloud, &["drain", &first]);
    assert!(code == Some(0) && told.ends_with(&format!("{first} is empty: 1 left, 0 stay\n")), "{code:?} {told}");
    let (code, told) = said(&cloud, &["list"]);
    assert!(code == Some(0) && told.contains("maintenance: new memory"), "{told}");
    assert_eq!(said(&cloud, &["maintenance", &first, "off"]).0, Some(0));
    let (code, told) = said(&cloud, &["maintenance", &first, "off"]);
    assert!(code == Some(2) && told.contains("is not in maintenance"), "{code:?} {told}");
    let (code, told) = said(&cloud, &["drain", "nowhere"]);
    assert!(code == Some(2) && told.contains("Compute host nowhere could not be found."), "{code:?} {told}");
    cloud.stop();
    let (code, told) = said(&cloud, &["list"]);
    assert!(code == Some(2) && told.contains("does not answer"), "{code:?} {told}");
}

#[test]
fn a_damaged_checkpoint_is_reported_and_not_used() {
    let (mut cloud, _) = settled();
    let before = cloud.client().get(LIST).unwrap().expect(200).body;
    cloud.stop();
    let file = newest(&cloud);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    cloud.start();
    let told = health(&cloud)["read_models"]["remarks"][0].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("is not used") && told.contains("damaged"), "{told}");
    assert!(cloud.log().contains("is not used"), "{}", cloud.log());
    assert_eq!(cloud.client().get(LIST).unwrap().expect(200).body, before);
    cloud.stop();
    let (exit, text) = cloud.command(&["rebuild"]);
    assert!(exit == 0 && text.starts_with("equal: "), "{text}");
}

#[test]
fn questions_about_the_past_work_after_restarts() {
    let (mut cloud, servers) = settled();
    let then = cloud.client().get(LIST).unwrap().expect(200).body;
    let position = health(&cloud)["read_models"]["position"].as_u64().unwrap();
    cloud.client().delete(&format!("/compute/v2.1/servers/{}", servers[0])).unwrap().expect(204);
    cloud.wait("the server is gone", |cloud| {
        cloud.client().get(LIST).unwrap().expect(200).body["servers"].as_array().unwrap().len() == 4
    });
    let as_of = format!("{LIST}&as_of={position}");
    assert_eq!(cloud.client().get(&as_of).unwrap().expect(200).body, then);
    cloud.kill();
    cloud.start();
    assert_eq!(cloud.client().get(&as_of).unwrap().expect(200).body, then);
    let claim = format!("/placement/allocations/{}", servers[0]);
    assert_eq!(cloud.client().get(&claim).unwrap().expect(200).body["allocations"], json!({}));
    let held = cloud.client().get(&format!("{claim}?as_of={position}")).unwrap().expect(200).body;
    assert_eq!(held["allocations"].as_object().unwrap().len(), 1, "{held}");
    let (exit, story) = cloud.command(&["inspect", &servers[0], "--as-of", &position.to_string()]);
    assert!(exit == 0 && story.contains("ACTIVE") && !story.contains("deleted"), "{story}");
    let (exit, story) = cloud.command(&["inspect", &servers[0]]);
    assert!(exit == 0 && story.contains("instance.deleted"), "{story}");
}
