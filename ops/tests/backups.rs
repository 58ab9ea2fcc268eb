//! Tests backups of the real binary while clients create and delete. A restored cloud equals the original. Neither a
//! kill nor a full disk damages a backup. Every flipped byte is found.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

#[path = "backups/in_s3.rs"]
mod in_s3;
#[path = "backups/upkeep.rs"]
mod upkeep;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::cloud::{Client, Cloud, Furniture, pause};

const FLEET: &str = "sim://2?vcpus=512&memory_mib=1048576&disk_gib=100000";
const IMAGE: [u8; 512] = [9; 512];

/// Runs the program without a data directory; returns exit code and output.
fn chronova(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_chronova")).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text)
}

#[track_caller]
fn done((code, text): (i32, String)) -> String {
    assert_eq!(code, 0, "{text}");
    text
}

fn backups(cloud: &Cloud) -> String {
    cloud.folder.path().join("backups/here").display().to_string()
}

/// A cloud, and the file that says which system call on its folder of backups fails. The error says why calls cannot be
/// made to fail on this machine.
fn fragile() -> Result<(Cloud, PathBuf), String> {
    let mut cloud = Cloud::new(FLEET);
    let how = cloud.let_calls_fail("/backups/")?;
    std::fs::write(&how, "").unwrap();
    Ok((cloud, how))
}

/// The number of backups that the folder lists.
fn count(dir: &str) -> usize {
    let text = done(chronova(&["backup", "list", dir, "--json"]));
    serde_json::from_str::<Value>(&text).unwrap()["backups"].as_array().unwrap().len()
}

/// The newest position of the log.
fn head(cloud: &Cloud) -> u64 {
    let (position, _) =
        done(cloud.command(&["audit", "head"])).split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    position.trim().parse().unwrap()
}

fn servers(client: &Client) -> BTreeSet<(String, String)> {
    let answer = client.get("/compute/v2.1/servers/detail?all_tenants=1").unwrap().expect(200);
    let text = |server: &Value, key: &str| server[key].as_str().unwrap().to_owned();
    answer.body["servers"].as_array().unwrap().iter().map(|one| (text(one, "id"), text(one, "name"))).collect()
}

/// Clients that create and delete servers and images until the flag is set. Every request must succeed.
struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Load {
    fn begin(cloud: &Cloud, goods: &Furniture) -> Self {
        let over = Arc::<AtomicBool>::default();
        let run = |work: fn(&Client, &Furniture, u64)| {
            let (client, goods, over) = (cloud.client(), goods.clone(), Arc::clone(&over));
            std::thread::spawn(move || {
                let mut rounds = 0;
                while !over.load(Ordering::SeqCst) {
                    work(&client, &goods, rounds);
                    rounds += 1;
                }
                rounds
            })
        };
        Self { threads: vec![run(server_comes_and_goes), run(image_comes_and_goes)], over }
    }

    /// Stops the clients. Returns the smallest number of rounds that a client has done.
    fn end(self) -> u64 {
        self.over.store(true, Ordering::SeqCst);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).min().unwrap()
    }
}

fn create(client: &Client, goods: &Furniture, name: &str) -> String {
    let server =
        json!({"server": {"name": name, "imageRef": goods.image, "flavorRef": goods.flavor, "networks": "none"}});
    client.post("/compute/v2.1/servers", &server).unwrap().expect(202).text("/server/id")
}

fn server_comes_and_goes(client: &Client, goods: &Furniture, round: u64) {
    let id = create(client, goods, &format!("s{round}"));
    if round.is_multiple_of(3) {
        client.delete(&format!("/compute/v2.1/servers/{id}")).unwrap().expect(204);
    }
    pause(20);
}

fn image_comes_and_goes(client: &Client, _: &Furniture, round: u64) {
    let image = json!({"name": "i", "disk_format": "raw", "container_format": "bare"});
    let id = client.post("/image/v2/images", &image).unwrap().expect(201).text("/id");
    client.put_bytes(&format!("/image/v2/images/{id}/file"), &IMAGE).unwrap().expect(204);
    // Most images live for a moment, so that a backup meets images at every stage.
    if !round.is_multiple_of(8) {
        client.delete(&format!("/image/v2/images/{id}")).unwrap().expect(204);
    }
}

/// Checks that every active image of the cloud has its content. Returns the number of these images.
fn images_are_whole(client: &Client) -> usize {
    let answer = client.get("/image/v2/images?limit=1000&status=active").unwrap().expect(200);
    let all = answer.body["images"].as_array().unwrap();
    for image in all {
        let id = image["id"].as_str().unwrap();
        let answer = client.get(&format!("/image/v2/images/{id}/file")).unwrap();
        assert_eq!(answer.status, 200, "image {id} has no content: {}", answer.body);
    }
    all.len()
}

/// Restores to a new data directory, and checks the log and its read models.
fn restored(dir: &str, more: &[&str]) -> Cloud {
    let cloud = Cloud::new(FLEET);
    let mut args = vec!["backup", "restore", dir];
    args.extend(more);
    done(cloud.command(&args));
    let text = done(cloud.command(&["audit", "verify"]));
    assert!(text.contains("the log is whole"), "{text}");
    assert!(
        done(cloud.command(&["audit", "verify", "--quick"])).contains("the log is whole"),
        "a quick verification of the restored log does not pass"
    );
    cloud
}

/// Starts a restored cloud, and compares its read models with a rebuild.
fn run(cloud: &mut Cloud, check: impl FnOnce(&Client)) {
    cloud.start();
    check(&cloud.client());
    cloud.stop();
    assert!(done(cloud.command(&["rebuild"])).contains("equal"));
}

fn at_rest(cloud: &mut Cloud) {
    cloud.wait("no server is being built or deleted", |cloud| {
        let answer = cloud.client().get("/compute/v2.1/servers/detail?all_tenants=1").unwrap().expect(200);
        let all = answer.body["servers"].as_array().unwrap();
        all.iter().all(|server| server["OS-EXT-STS:task_state"].is_null() && server["status"] != "BUILD")
    });
}

#[test]
fn a_backup_of_a_busy_cloud_restores_to_any_position() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let goods = cloud.furnish();
    let dir = backups(&cloud);
    let create = |cloud: &Cloud| done(cloud.command(&["backup", "create", &dir]));
    let load = Load::begin(&cloud, &goods);
    for _ in 0..6 {
        pause(150);
        create(&cloud);
    }
    assert!(load.end() > 5, "the clients did too little work during the backups");
    at_rest(&mut cloud);
    let (then, at_that_time) = (head(&cloud), servers(&cloud.client()));
    assert!(at_that_time.len() > 3, "{at_that_time:?}");
    let load = Load::begin(&cloud, &goods);
    pause(300);
    create(&cloud);
    pause(200);
    load.end();
    at_rest(&mut cloud);
    create(&cloud);
    let now = servers(&cloud.client());
    assert!(done(chronova(&["backup", "verify", &dir])).contains("the backups are whole"));
    assert_eq!(count(&dir), 8);
    // An unchanged file has one copy.
    let copies = std::fs::read_dir(Path::new(&dir).join("files")).unwrap().count();
    let text = done(chronova(&["backup", "list", &dir, "--json"]));
    let listed: Value = serde_json::from_str(&text).unwrap();
    let named: u64 = listed["backups"].as_array().unwrap().iter().map(|one| one["files"].as_u64().unwrap()).sum();
    assert!((copies as u64) < named, "{copies} copies for {named} files");
    cloud.stop();

    run(&mut restored(&dir, &[]), |client| {
        assert_eq!(servers(client), now);
        assert!(images_are_whole(client) > 0);
    });
    run(&mut restored(&dir, &["--at", &then.to_string()]), |client| {
        assert_eq!(servers(client), at_that_time);
        images_are_whole(client);
    });
    for backup in listed["backups"].as_array().unwrap() {
        let position = backup["position"].as_u64().unwrap().to_string();
        run(&mut restored(&dir, &["--at", &position]), |client| {
            images_are_whole(client);
        });
    }
    let by_time = listed["backups"][3]["recorded_at"].as_str().unwrap().to_owned();
    let cloud = restored(&dir, &["--at", &by_time]);
    assert!(head(&cloud) >= listed["backups"][3]["position"].as_u64().unwrap());
}

#[test]
fn what_cannot_be_restored_is_refused() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let dir = backups(&cloud);
    let refused = |cloud: &Cloud, args: &[&str], told: &str| {
        let (code, text) = cloud.command(args);
        assert!(code == 2 && text.contains(told), "{args:?}: {code} {text}");
    };
    refused(&cloud, &["backup", "create", "s3://bucket/cloud"], "set [chronova] s3_key_file");
    refused(&cloud, &["backup", "create", "https://store/cloud"], "give a folder, or s3://BUCKET/PREFIX");
    let inside = cloud.data().join("backups").display().to_string();
    refused(&cloud, &["backup", "create", &inside], "in the data directory");
    done(cloud.command(&["backup", "create", &dir]));
    refused(&cloud, &["backup", "restore", &dir], "an empty directory only");
    let (end, empty) = (head(&cloud), Cloud::new(FLEET));
    refused(&empty, &["backup", "restore", &dir, "--at", &(end + 1_000).to_string()], "the newest backup ends at");
    refused(&empty, &["backup", "restore", &dir, "--at", "2999-01-01"], "the newest backup was made at");
    refused(&empty, &["backup", "restore", &dir, "--at", "2001-01-01"], "all events in the backups are newer");
    // A restored cloud writes a log of its own, which must not continue the backups of the original log.
    cloud.furnish();
    done(cloud.command(&["backup", "create", &dir]));
    let other = restored(&dir, &["--at", &end.to_string()]);
    refused(&other, &["backup", "create", &dir], "has another log");
    cloud.stop();
}

/// Every file in a folder and below.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

#[test]
fn a_flipped_byte_in_a_backup_is_located() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let goods = cloud.furnish();
    let dir = backups(&cloud);
    done(cloud.command(&["backup", "create", &dir]));
    create(&cloud.client(), &goods, "one");
    done(cloud.command(&["backup", "create", &dir]));
    cloud.stop();
    every_flipped_byte_is_located(&dir);
    done(chronova(&["backup", "verify", &dir]));
    let image = files(&Path::new(&dir).join("files")).pop().unwrap();
    std::fs::remove_file(image).unwrap();
    assert_eq!(chronova(&["backup", "verify", &dir]).0, 1, "a lost file");
}

fn every_flipped_byte_is_located(dir: &str) {
    let mut flipped = 0;
    for file in files(Path::new(dir)) {
        let bytes = std::fs::read(&file).unwrap();
        for at in [0, bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(2)] {
            if bytes.is_empty() {
                continue;
            }
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&file, changed).unwrap();
            let (code, text) = chronova(&["backup", "verify", dir]);
            let name = file.file_name().unwrap().to_string_lossy();
            assert!(
                code == 1 && text.contains(&*name) && text.contains("NOT whole"),
                "{name}, byte {at}: {code} {text}"
            );
            flipped += 1;
        }
        std::fs::write(&file, bytes).unwrap();
    }
    assert!(flipped > 30, "{flipped}");
}

/// Kills the command at system calls that change a file of the backups: at every 5th such call. With `CHRONOVA_SOAK`,
/// at each such call. Clients work meanwhile. The older backups stay whole, and the next command completes a new one.
#[test]
fn a_backup_that_dies_at_any_write_spoils_nothing() {
    let (mut cloud, how) = match fragile() {
        Ok(found) => found,
        Err(reason) => return println!("skipped: calls cannot be made to fail here: {reason}"),
    };
    cloud.start();
    let goods = cloud.furnish();
    let dir = backups(&cloud);
    done(cloud.command(&["backup", "create", &dir]));
    let load = Load::begin(&cloud, &goods);
    let every = if std::env::var_os("CHRONOVA_SOAK").is_some() { 1 } else { 5 };
    let (mut died, mut complete) = (0, 0);
    for call in (1..5_000).step_by(every) {
        let before = count(&dir);
        std::fs::write(&how, format!("kill {call}")).unwrap();
        let (code, text) = cloud.command(&["backup", "create", &dir]);
        std::fs::write(&how, "").unwrap();
        if code == 0 {
            complete += 1;
            // Files come and go, so the number of calls is not the same each time.
            if complete == 3 {
                break;
            }
            continue;
        }
        assert_eq!(code, -1, "call {call}: the process ended, but not by the kill: {text}");
        died += 1;
        let after = count(&dir);
        assert!(after == before || after == before + 1, "call {call}: {before} and then {after} backups");
        done(chronova(&["backup", "verify", &dir]));
        if died % 4 == 0 {
            restored(&dir, &[]);
            done(cloud.command(&["backup", "create", &dir]));
            assert_eq!(count(&dir), after + 1, "call {call}");
        }
    }
    println!("died at {died} calls");
    assert!(died > 5, "{died}");
    load.end();
    done(cloud.command(&["backup", "create", &dir]));
    at_rest(&mut cloud);
    done(cloud.command(&["backup", "create", &dir]));
    let now = servers(&cloud.client());
    cloud.stop();
    done(chronova(&["backup", "verify", &dir]));
    let left: Vec<_> =
        files(Path::new(&dir)).into_iter().filter(|path| path.extension().is_some_and(|e| e == "tmp")).collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "the last command left half-written files behind");
    run(&mut restored(&dir, &[]), |client| {
        assert_eq!(servers(client), now);
        images_are_whole(client);
    });
}

#[test]
fn a_full_disk_stops_a_backup_and_spoils_nothing() {
    let (mut cloud, how) = match fragile() {
        Ok(found) => found,
        Err(reason) => return println!("skipped: calls cannot be made to fail here: {reason}"),
    };
    cloud.start();
    let dir = backups(&cloud);
    done(cloud.command(&["backup", "create", &dir]));
    cloud.furnish();
    std::fs::write(&how, "write 28").unwrap();
    let (code, text) = cloud.command(&["backup", "create", &dir]);
    std::fs::write(&how, "").unwrap();
    assert!(code == 2 && text.contains("the 1 older backups") && text.contains("Free space"), "{code} {text}");
    assert_eq!(count(&dir), 1);
    done(chronova(&["backup", "verify", &dir]));
    done(cloud.command(&["backup", "create", &dir]));
    assert_eq!(count(&dir), 2);
    cloud.stop();
}

/// Kills a restore at a system call that changes a file of the new data directory.
#[test]
fn a_restore_that_dies_begins_again() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    cloud.furnish();
    let dir = backups(&cloud);
    done(cloud.command(&["backup", "create", &dir]));
    cloud.stop();
    let every = if std::env::var_os("CHRONOVA_SOAK").is_some() { 1 } else { 23 };
    let mut died = 0;
    for call in (1..5_000).step_by(every) {
        let mut target = Cloud::new(FLEET);
        let how = match target.let_calls_fail("/data/") {
            Ok(how) => how,
            Err(reason) => return println!("skipped: calls cannot be made to fail here: {reason}"),
        };
        std::fs::write(&how, format!("kill {call}")).unwrap();
        let (code, text) = target.command(&["backup", "restore", &dir]);
        std::fs::write(&how, "").unwrap();
        if code == 0 {
            break;
        }
        assert_eq!(code, -1, "call {call}: {text}");
        died += 1;
        if target.data().join("restore.unfinished").exists() {
            target.launch();
            target.wait("the control plane refuses the directory", |target| target.ended().is_some());
            assert!(target.log().contains("was not completed"), "{}", target.log());
        }
        if target.data().join("restore.unfinished").exists() || !target.data().join("log.db").exists() {
            done(target.command(&["backup", "restore", &dir]));
        }
        done(target.command(&["audit", "verify"]));
    }
    println!("died at {died} calls");
    assert!(died > 3, "{died}");
}

/// An erasure destroys keys. No older backup brings them back.
#[test]
fn erased_data_stays_erased_in_older_backups() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    let key = json!({"keypair": {"name": "annas-key", "public_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAgYCTjKdqPCWPQ3CVs7vkEYWVUzUJ1DnzWHjJGvU7Ja anna"}});
    client_created(&cloud.client().post("/compute/v2.1/os-keypairs", &key).unwrap());
    let dir = backups(&cloud);
    done(cloud.command(&["backup", "create", &dir]));
    let before = head(&cloud);
    let shown = |cloud: &Cloud| done(cloud.command(&["audit"])).contains("annas-key");
    assert!(shown(&restored(&dir, &[])), "the backup lacks the personal data");
    cloud.stop();
    done(cloud.command(&["audit", "erase", "--user", "admin", "--reason", "asked for", "--yes"]));
    done(cloud.command(&["backup", "create", &dir]));
    assert_eq!(files(&Path::new(&dir).join("keys")).len(), 1, "the folder must have the newest keys alone");
    done(chronova(&["backup", "verify", &dir]));
    assert!(!shown(&restored(&dir, &["--at", &before.to_string()])), "the older backup still shows the erased data");
}

fn client_created(answer: &crate::cloud::Answer) {
    assert!((200..300).contains(&answer.status), "{}", answer.body);
}

/// The commands in the shell blocks of a page.
fn commands_of(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// When the newest backup was made; empty if there is none.
fn newest_moment(dir: &str) -> String {
    let (_, text) = chronova(&["backup", "list", dir, "--json"]);
    let listed: Value = serde_json::from_str(&text).unwrap_or_default();
    let newest = listed["backups"].as_array().and_then(|all| all.last());
    newest.and_then(|newest| newest["made_at"].as_str()).unwrap_or_default().to_owned()
}

/// Runs the commands of the pages in their order, with this test's folders in place of the pages'.
#[test]
fn the_commands_in_the_pages_about_backups_and_disasters_work() {
    let mut cloud = Cloud::new(FLEET);
    cloud.start();
    cloud.furnish();
    cloud.configure(&format!("[chronova]\ndata_dir = {}\n", cloud.data().display()));
    let here = cloud.folder.path().display().to_string();
    let mut ran = 0;
    for command in [commands_of("backup.md"), commands_of("disaster.md")].concat() {
        let words = command
            .replace("/etc/chronova/chronova.conf", &format!("{here}/chronova.conf"))
            .replace("/srv/backups", &format!("{here}/backups"))
            .replace("/var/lib/", &format!("{here}/"))
            .replace("2026-01-31T12:00:00Z", &newest_moment(&format!("{here}/backups/cloud")));
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(words[0], "chronova", "{command}");
        let (code, text) = chronova(&words[1..]);
        assert_eq!(code, 0, "{command}: {text}");
        ran += 1;
    }
    assert!(ran >= 12, "{ran}");
    cloud.stop();
}
