//! `chronova log prune` and `chronova log hold` with the real binary: old events leave the log's file, and everything
//! still reads them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cloud::{Cloud, pause};

const LIST: &str = "/compute/v2.1/servers/detail?all_tenants=1";
const PRUNE: [&str; 4] = ["log", "prune", "--older-than", "0s"];
const ERASE: [&str; 8] = ["audit", "erase", "--user", "admin", "--reason", "asked for", "--yes", "--even-alive"];

/// Runs a command that must succeed.
#[track_caller]
fn done(cloud: &Cloud, words: &[&str]) -> String {
    let (code, told) = cloud.command(words);
    assert_eq!(code, 0, "{words:?}: {told}");
    told
}

/// The last position that left the file, as `log prune` told it.
#[track_caller]
fn floor(told: &str) -> u64 {
    let moved = told.lines().find_map(|line| line.strip_prefix("moved: positions 1 to "));
    let moved = moved.unwrap_or_else(|| panic!("nothing was moved: {told}"));
    moved.split(' ').next().unwrap().parse().unwrap()
}

/// The position of each event that a listing has.
fn positions(listing: &str) -> Vec<u64> {
    let position = |line: &str| serde_json::from_str::<Value>(line).unwrap()["position"].as_u64().unwrap();
    listing.lines().map(position).collect()
}

fn segment(cloud: &Cloud) -> PathBuf {
    let mut files = std::fs::read_dir(cloud.data().join("archive")).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|extension| extension == "zst")).expect("a segment")
}

#[test]
fn archived_events_are_read_by_every_command_and_by_the_api() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let furniture = cloud.furnish();
    let first = cloud.server(&furniture, "old", &json!({}));
    let then = cloud.client().get(LIST).unwrap().expect(200).body;
    let position = cloud.client().get("/healthz").unwrap().body["read_models"]["position"].as_u64().unwrap();
    let second = cloud.server(&furniture, "new", &json!({}));
    cloud.delete_server(&first);
    cloud.stop();
    let at = position.to_string();
    let questions: [&[&str]; 7] = [
        &["audit"],
        &["audit", "--server", &first],
        &["audit", "--without-index", "--server", &first],
        &["audit", "--kind", "instance.*", "-o", "csv"],
        &["audit", "head", "--tree"],
        &["audit", "prove", "--position", "7"],
        &["audit", "servers", "--at", &at],
    ];
    let before: Vec<String> = questions.iter().map(|words| done(&cloud, words)).collect();
    let told = done(&cloud, &PRUNE);
    assert!(told.contains("equal: ") && floor(&told) > position, "{told}");
    // A log as short as this one has no index and no kept tree, so each command reads the archive.
    assert!(!cloud.data().join("log.db.index").exists() && !cloud.data().join("log.db.tree").exists());
    for (words, before) in questions.iter().zip(&before) {
        assert_eq!(done(&cloud, words), *before, "{words:?}");
    }
    let verified = done(&cloud, &["audit", "verify"]);
    assert!(verified.contains("the log is whole") && verified.contains("are in the archive in"), "{verified}");
    assert!(done(&cloud, &["inspect", &first]).contains("instance.deleted"));
    assert!(done(&cloud, &["audit", "verify-archive"]).starts_with("valid: "));
    assert!(done(&cloud, &["rebuild"]).starts_with("equal: "));
    assert!(done(&cloud, &PRUNE).contains("nothing to move"));
    // The next start folds the archive, because the checkpoints are lost.
    std::fs::remove_dir_all(cloud.data().join("views")).unwrap();
    cloud.start();
    let as_of = format!("{LIST}&as_of={position}");
    assert_eq!(cloud.client().get(&as_of).unwrap().expect(200).body, then);
    // The server's actor is loaded from its archived events.
    cloud.delete_server(&second);
    cloud.stop();
    assert!(floor(&done(&cloud, &PRUNE)) > position);
    assert!(done(&cloud, &["audit", "verify"]).contains("the log is whole"));
}

/// Takes the archive away, or puts it back.
fn away(cloud: &Cloud, is_away: bool) {
    let (here, there) = (cloud.data().join("archive"), cloud.folder.path().join("away"));
    if is_away { std::fs::rename(here, there) } else { std::fs::rename(there, here) }.unwrap();
}

#[test]
fn a_start_and_the_work_after_it_need_no_archived_event() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let furniture = cloud.furnish();
    let old = cloud.server(&furniture, "old", &json!({}));
    let gone = cloud.server(&furniture, "gone", &json!({}));
    cloud.delete_server(&gone);
    cloud.stop();
    let told = done(&cloud, &PRUNE);
    assert!(told.contains("kept: the states of ") && floor(&told) > 10, "{told}");
    away(&cloud, true);
    cloud.start();
    // The actors of the server, the host, the quota and the rest are loaded although their events are archived.
    assert_eq!(cloud.client().get(LIST).unwrap().expect(200).body["servers"].as_array().unwrap().len(), 1);
    cloud.delete_server(&old);
    cloud.server(&furniture, "new", &json!({}));
    assert!(!cloud.log().contains("the archive cannot be read"), "{}", cloud.log());
    // A query that needs an archived event says so.
    for question in [format!("{LIST}&as_of=2"), "/chronova/v1/events?after=0".to_owned()] {
        let answer = cloud.client().get(&question).unwrap().expect(503).body.to_string();
        assert!(answer.contains("the archive cannot be read now"), "{question}: {answer}");
    }
    cloud.stop();
    let (code, told) = cloud.command(&["audit", "--server", &gone]);
    let place = cloud.data().join("archive");
    assert!(code == 2 && told.contains("the archive cannot be read"), "{told}");
    assert!(told.contains(place.to_str().unwrap()), "{told}");
    away(&cloud, false);
    assert!(done(&cloud, &["audit", "verify"]).contains("the log is whole"));
    assert!(done(&cloud, &["rebuild"]).starts_with("equal: "));
}

#[test]
fn the_states_of_streams_are_kept_again_after_an_erasure() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let furniture = cloud.furnish();
    let id = cloud.server(&furniture, "annas-laptop", &json!({}));
    cloud.stop();
    floor(&done(&cloud, &PRUNE));
    // The erasure destroys the keys of all snapshots and checkpoints.
    assert!(done(&cloud, &ERASE).contains("erased: "));
    away(&cloud, true);
    cloud.start();
    cloud.delete_server(&id);
    assert!(!cloud.log().contains("the archive cannot be read"), "{}", cloud.log());
    cloud.stop();
}

#[test]
fn a_dry_run_and_a_running_server_change_nothing() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let (code, told) = cloud.command(&PRUNE);
    assert!(code == 2 && told.contains("a running server moves old events by itself"), "{told}");
    cloud.stop();
    cloud.start();
    let planned = done(&cloud, &["log", "prune", "--older-than", "0s", "--dry-run"]);
    assert!(planned.contains("events may leave the file: positions 1 to "), "{planned}");
    assert!(planned.contains("nothing was moved: this was a dry run"), "{planned}");
    cloud.stop();
    let huge = done(&cloud, &["log", "prune", "--keep-size", "1TiB"]);
    assert!(huge.contains("nothing to move: the file has all events"), "{huge}");
    let old = done(&cloud, &["log", "prune", "--older-than", "36500d"]);
    assert!(old.contains("nothing to move"), "{old}");
    assert!(!cloud.data().join("archive").exists());
    let (code, told) = cloud.command(&["log", "prune"]);
    assert!(code == 2 && told.contains("--older-than"), "{told}");
    let conf = cloud.folder.path().join("database.conf");
    std::fs::write(&conf, "[chronova]\nevent_store = postgresql://nova@127.0.0.1/nova\n").unwrap();
    for words in [&PRUNE[..], &["log", "hold", "list"]] {
        let words: Vec<&str> = words.iter().copied().chain(["--config-file", conf.to_str().unwrap()]).collect();
        let (code, told) = cloud.command(&words);
        assert!(code == 2 && told.contains("a log in PostgreSQL"), "{told}");
    }
    // Without a checkpoint, the next start would have to fold the archive.
    std::fs::remove_dir_all(cloud.data().join("views")).unwrap();
    let refused = done(&cloud, &PRUNE);
    assert!(refused.contains("there is no checkpoint") && refused.contains("nothing to move"), "{refused}");
    let all = done(&cloud, &["rebuild", "--replace"]);
    assert!(all.contains("replaced"), "{all}");
    // Without options, the command uses folder and key of the configuration, as a running server does.
    let (elsewhere, key) = (cloud.folder.path().join("elsewhere"), cloud.folder.path().join("key"));
    let made = Command::new(env!("CARGO_BIN_EXE_chronova")).args(["audit", "keygen", "--out"]).arg(&key).status();
    assert!(made.unwrap().success());
    let lines = format!("retention_archive = {}\nretention_sign_key = {}\n", elsewhere.display(), key.display());
    std::fs::write(&conf, format!("[chronova]\n{lines}")).unwrap();
    let moved = done(&cloud, &["log", "prune", "--keep-size", "0", "--config-file", conf.to_str().unwrap()]);
    assert!(floor(&moved) > 0 && !cloud.data().join("archive").exists(), "{moved}");
    let files = std::fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().path());
    let manifests: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    assert!(!manifests.is_empty());
    for manifest in manifests {
        let read: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
        assert!(read["signature"].is_string(), "{read}");
    }
}

/// Sets a hold, and returns its id.
#[track_caller]
fn hold(cloud: &Cloud, of: &[&str]) -> String {
    let words: Vec<&str> = ["log", "hold", "add", "--reason", "case 12"].iter().chain(of).copied().collect();
    done(cloud, &words).trim().to_owned()
}

#[track_caller]
fn remove(cloud: &Cloud, id: &str) {
    assert_eq!(done(cloud, &["log", "hold", "remove", id]), "removed\n");
}

/// An erasure of the user's data is refused because of the hold on this part.
#[track_caller]
fn refused(cloud: &Cloud, of: &str) {
    let (code, told) = cloud.command(&ERASE);
    assert!(code == 1 && told.contains(&format!("refused: a legal hold keeps this data: {of} (case 12)")), "{told}");
}

#[test]
fn a_legal_hold_keeps_events_in_the_file_and_refuses_their_erasure() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let furniture = cloud.furnish();
    let id = cloud.server(&furniture, "annas-laptop", &json!({}));
    cloud.stop();
    let range = hold(&cloud, &["--positions", "6-9"]);
    let told = done(&cloud, &PRUNE);
    assert!(told.contains("limited: position 6 is under a legal hold: positions 6 to 9"), "{told}");
    assert_eq!(floor(&told), 5);
    remove(&cloud, &range);
    let listed = positions(&done(&cloud, &["audit", "--server", &id]));
    let of_server = hold(&cloud, &["--server", &id]);
    assert_eq!(floor(&done(&cloud, &PRUNE)), listed[0] - 1, "{listed:?}");
    refused(&cloud, &format!("server {id}"));
    // Holds are set beside a running server, too, and its API refuses the erasure.
    cloud.start();
    let erasure = json!({"erasure": {"server": id, "reason": "asked for", "even_alive": true, "dry_run": false}});
    let answer = cloud.client().post("/chronova/v1/erasures", &erasure).unwrap().expect(409).body.to_string();
    assert!(answer.contains(&of_server), "{answer}");
    cloud.stop();
    remove(&cloud, &of_server);
    // The project and the user have events on both sides of the first position in the file, so their holds stop a move.
    for of in ["project", "user"] {
        let held = hold(&cloud, &[&format!("--{of}"), "admin"]);
        let told = done(&cloud, &PRUNE);
        assert!(told.contains(&format!("is under a legal hold: {of} admin")), "{told}");
        refused(&cloud, &format!("{of} admin"));
        remove(&cloud, &held);
    }
    // A hold on a range of positions also keeps the personal data in these events.
    let last = *listed.last().unwrap();
    let range = hold(&cloud, &["--positions", &format!("{}-{last}", listed[0])]);
    refused(&cloud, &format!("positions {} to {last}", listed[0]));
    let all = done(&cloud, &["log", "hold", "list", "--json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!((&all["holds"][0]["id"], &all["holds"][0]["reason"]), (&json!(range), &json!("case 12")));
    let (code, told) = cloud.command(&["log", "hold", "remove", "00000000-0000-0000-0000-000000000000"]);
    assert!(code == 1 && told.starts_with("there is no hold"), "{told}");
    remove(&cloud, &range);
    assert_eq!(done(&cloud, &["log", "hold", "list"]), "");
    assert!(floor(&done(&cloud, &PRUNE)) > listed[0]);
    // The erasure reaches the archived events.
    assert!(done(&cloud, &["audit", "--without-index"]).contains("annas-laptop"));
    assert!(done(&cloud, &ERASE).contains("erased: "));
    let listing = done(&cloud, &["audit", "--without-index"]);
    assert!(!listing.contains("annas-laptop") && listing.contains("[erased]"), "the archive kept the name");
    assert!(done(&cloud, &["audit", "verify"]).contains("the log is whole"));
}

#[test]
fn verify_names_the_place_of_a_flipped_byte_in_the_archive() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    cloud.furnish();
    cloud.stop();
    let end = floor(&done(&cloud, &PRUNE));
    let file = segment(&cloud);
    let whole = std::fs::read(&file).unwrap();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (code, told) = cloud.command(&["audit", "verify", "--json"]);
    assert_eq!(code, 1, "{told}");
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(told.contains(name) && told.contains("\"position\""), "{told}");
    let (code, told) = cloud.command(&["audit", "verify"]);
    assert!(code == 1 && told.contains("the log is NOT whole"), "{told}");
    let place = told.split("position ").nth(1).and_then(|rest| rest.split([' ', ':']).next()).unwrap();
    assert!((1..=end).contains(&place.parse().unwrap()), "{told}");
    std::fs::write(&file, whole).unwrap();
    // The archive may be moved, if `log prune --archives` then notes the new place in the log.
    let listing = done(&cloud, &["audit"]);
    let elsewhere = cloud.folder.path().join("elsewhere");
    std::fs::rename(cloud.data().join("archive"), &elsewhere).unwrap();
    let (code, told) = cloud.command(&["audit"]);
    assert!(code == 2 && told.contains("the archive cannot be read"), "{told}");
    let words: Vec<&str> = PRUNE.iter().copied().chain(["--archives", elsewhere.to_str().unwrap()]).collect();
    assert!(done(&cloud, &words).contains("the log reads its archive in "));
    assert_eq!(done(&cloud, &["audit"]), listing);
    assert!(done(&cloud, &["audit", "verify"]).contains("the log is whole"));
}

#[test]
fn a_killed_prune_loses_no_position() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    cloud.furnish();
    cloud.stop();
    let before = done(&cloud, &["audit"]);
    for round in 0..12 {
        let mut prune = kill_later(&cloud.data());
        // Each round kills the command at another of its steps.
        pause(round * 9);
        prune.kill().unwrap();
        prune.wait().unwrap();
        assert_eq!(done(&cloud, &["audit"]), before, "round {round}");
        assert!(done(&cloud, &["audit", "verify"]).contains("the log is whole"), "round {round}");
    }
    let told = done(&cloud, &PRUNE);
    assert!(told.contains("moved: ") || told.contains("nothing to move"), "{told}");
    assert_eq!(done(&cloud, &["audit"]), before);
    let all = positions(&before);
    assert!(all.iter().zip(1..).all(|(position, expected)| *position == expected), "{all:?}");
    // The states of the streams were kept before their events left the file.
    away(&cloud, true);
    cloud.start();
    let flavor = json!({"flavor": {"name": "later", "vcpus": 1, "ram": 64, "disk": 1}});
    cloud.client().post("/compute/v2.1/flavors", &flavor).unwrap().expect(200);
    cloud.stop();
}

/// The archive cannot be written or synced, and then the log's file. The states of streams and the move itself are
/// written there: each run gets some writes further than the last one.
#[test]
fn a_full_disk_during_a_move_moves_nothing_and_a_repetition_completes_it() {
    let mut cloud = Cloud::new("sim://1");
    cloud.start();
    let furniture = cloud.furnish();
    let old = cloud.server(&furniture, "old", &json!({}));
    cloud.stop();
    let before = done(&cloud, &["audit", "--without-index"]);
    let how = match cloud.let_calls_fail("archive") {
        Ok(how) => how,
        Err(reason) => return println!("skipped: calls cannot be made to fail here: {reason}"),
    };
    let prune = |cloud: &Cloud, fault: &str| {
        std::fs::write(&how, fault).unwrap();
        let (code, told) = cloud.command(&PRUNE);
        std::fs::write(&how, "").unwrap();
        let is_done = told.contains("moved: ");
        assert_eq!(code, if is_done { 0 } else { 2 }, "{fault}: {told}");
        is_done
    };
    let nothing_has_moved = |cloud: &Cloud, fault: &str| {
        let told = done(cloud, &["audit", "verify"]);
        assert!(told.contains("the log is whole") && !told.contains("are in the archive in"), "{fault}: {told}");
    };
    // The segment, its manifest, and their folder. In the end the archive is complete, and cannot be made durable.
    for fault in ["write 28", "write 28 2", "fsync 28", "fsync 28 2", "fsync 5 3", "fsync 5"] {
        assert!(!prune(&cloud, fault), "{fault}: the events have moved");
        let mut files = std::fs::read_dir(cloud.data().join("archive")).unwrap().map(|entry| entry.unwrap().path());
        assert!(!files.any(|path| path.extension().is_some_and(|end| end == "tmp")), "{fault}: a draft stays");
    }
    nothing_has_moved(&cloud, "the archive");
    cloud.let_calls_fail("log.db").unwrap();
    let every = if std::env::var_os("CHRONOVA_SOAK").is_some() { 1 } else { 17 };
    let mut refused = 0;
    for call in (1..5_000).step_by(every) {
        let fault = format!("write 28 {call}");
        if prune(&cloud, &fault) {
            break;
        }
        nothing_has_moved(&cloud, &fault);
        refused += 1;
    }
    println!("refused at {refused} writes");
    assert!(refused > 2, "{refused}");
    assert_eq!(done(&cloud, &["audit", "--without-index"]), before);
    // The states of the streams were durable before their events left the file.
    away(&cloud, true);
    cloud.start();
    cloud.delete_server(&old);
    assert!(!cloud.log().contains("the archive cannot be read"), "{}", cloud.log());
    cloud.stop();
    away(&cloud, false);
    assert!(done(&cloud, &["audit", "verify"]).contains("the log is whole"));
}

fn kill_later(data: &Path) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronova"));
    command.args(PRUNE).arg("--data-dir").arg(data).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}
