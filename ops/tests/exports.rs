//! Tests that an export and an archive can be verified, and that a changed byte is found.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use chronova::commands::audit::prove::merkle::TreeHead;
use chronova::commands::audit::{self, archive, export, prove};
use chronova::commands::{CommandFailure, Exit};
use chronova_events::envelope::{Cause, Meta, NewEvent, StreamId, Timestamp};
use chronova_events::ids::{EventId, InstanceId};
use chronova_events::instance::{InstanceEvent, Renamed};
use chronova_events::place::{FilePlace, FolderPlace};
use chronova_events::sealed::DataSubject;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use serde_json::Value;

use crate::log::{NOON, WEB, filled};

const NOW: Timestamp = Timestamp(NOON + 60_000_000);

fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap()
}

/// The archive in a folder.
fn at(folder: &Path) -> Arc<dyn FilePlace> {
    Arc::new(FolderPlace::new(folder.to_owned()))
}

fn make_key(folder: &Path) {
    let args = export::keys::ExportKeysArgs { out: folder.join("key") };
    assert_eq!(export::keys::run(&args, &mut Vec::new()).unwrap(), Exit::Yes);
    assert!(
        matches!(export::keys::run(&args, &mut Vec::new()), Err(CommandFailure::Usage(_))),
        "an existing key must not be overwritten"
    );
}

async fn exported(folder: &Path, name: &str, args: export::ExportArgs, store: &dyn EventStore) -> String {
    let args = export::ExportArgs { sign_key: folder.join("key"), out: folder.join(name), ..args };
    let mut out = Vec::new();
    assert_eq!(export::run(&args, store, NOW, &mut out).await.unwrap(), Exit::Yes);
    text(out)
}

fn verified(folder: &Path, name: &str, anchors: &[&str]) -> (Exit, String) {
    let anchor = anchors.iter().map(|anchor| anchor.parse().unwrap()).collect();
    let args = export::ExportVerifyArgs { file: folder.join(name), public_key: folder.join("key.pub"), anchor };
    let mut out = Vec::new();
    let exit = export::verify(&args, &mut out).unwrap();
    (exit, text(out))
}

#[tokio::test]
async fn an_export_is_valid_until_it_is_changed() {
    let store = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_key(folder);
    let said = exported(folder, "all", export::ExportArgs::default(), &*store).await;
    assert!(said.contains(" 0 represented by their hashes"), "{said}");
    let anchor = store.anchor().await.unwrap().unwrap().to_string();
    assert_eq!(verified(folder, "all", &[&anchor]).0, Exit::Yes);
    let wrong = anchor.replace(':', ":0").chars().take(anchor.len()).collect::<String>();
    assert_eq!(verified(folder, "all", &[&wrong]).0, Exit::No);
    assert_eq!(
        verified(folder, "all", &["9999:0000000000000000000000000000000000000000000000000000000000000000"]).0,
        Exit::No
    );
    // Each of these changes is found: a flipped byte, a missing line, a missing end, another key.
    let whole = std::fs::read(folder.join("all")).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(folder.join("changed"), bytes).unwrap();
        let (exit, said) = verified(folder, "changed", &[]);
        assert_eq!(exit, Exit::No, "byte {at}: {said}");
    }
    let lines: Vec<&str> = std::str::from_utf8(&whole).unwrap().lines().collect();
    for left_out in [1, lines.len() / 2, lines.len() - 2, lines.len() - 1] {
        let rest: Vec<&str> = lines.iter().enumerate().filter(|(n, _)| *n != left_out).map(|(_, line)| *line).collect();
        std::fs::write(folder.join("changed"), rest.join("\n") + "\n").unwrap();
        assert_eq!(verified(folder, "changed", &[]).0, Exit::No, "line {left_out}");
    }
    std::fs::remove_file(folder.join("key")).unwrap();
    std::fs::remove_file(folder.join("key.pub")).unwrap();
    make_key(folder);
    let (exit, said) = verified(folder, "all", &[]);
    assert!(exit == Exit::No && said.contains("signature"), "{said}");
}

#[tokio::test]
async fn an_export_of_a_project_hides_the_events_of_others() {
    let store = filled().await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    make_key(folder);
    let lines = store.read_all(chronova_events::envelope::Position::START, 1_000).await.unwrap();
    let project = lines.iter().find_map(|recorded| match &recorded.meta.cause {
        chronova_events::envelope::Cause::User { project: Some(project), .. } => Some(project.to_string()),
        _ => None,
    });
    // One event outside of the project, and then one of the project again.
    let own =
        lines.iter().rfind(|recorded| matches!(recorded.meta.cause, Cause::User { project: Some(_), .. })).unwrap();
    let foreign = Arc::clone(lines[0].event().unwrap());
    for (stream, event, meta) in [
        (StreamId::new("host", "elsewhere"), foreign, Meta::system("test")),
        (own.stream.clone(), Arc::clone(own.event().unwrap()), Arc::clone(&own.meta)),
    ] {
        let event = NewEvent { id: EventId::random(), event, recorded_at: NOW, meta };
        store.append(&stream, Expected::Any, vec![event]).await.unwrap();
    }
    let args = export::ExportArgs { project, ..export::ExportArgs::default() };
    let said = exported(folder, "project", args, &*store).await;
    let (exit, proved) = verified(folder, "project", &[]);
    assert_eq!(exit, Exit::Yes, "{proved}");
    let whole = std::fs::read_to_string(folder.join("project")).unwrap();
    assert!(whole.contains(WEB), "the export lacks the project's servers");
    assert!(whole.contains("\"content\":") && !said.contains(" 0 represented"), "{said}");
    // A third party verifies the export with Python and openssl, without Chronova.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/verify_export.py");
    let run =
        |file: &str| Command::new("python3").arg(&script).arg(folder.join(file)).arg(folder.join("key.pub")).output();
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped the third party's half: there is no openssl");
        return;
    }
    let Ok(output) = run("project") else {
        eprintln!("skipped the third party's half: there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.starts_with("valid: "), "{said}");
    std::fs::write(folder.join("changed"), whole.replacen("\"revision\":1", "\"revision\":2", 1)).unwrap();
    assert!(!run("changed").unwrap().status.success());
    // The signature also covers the readable form of an event, which the hash chain does not cover.
    std::fs::write(folder.join("changed"), whole.replacen("\"outcome\":\"success\"", "\"outcome\":\"failure\"", 1))
        .unwrap();
    assert!(!run("changed").unwrap().status.success());
}

fn until(before: &str) -> archive::ArchiveArgs {
    archive::ArchiveArgs { before: before.parse().unwrap(), out: None, sign_key: None, dry_run: false }
}

#[tokio::test]
async fn segments_of_an_archive_are_signed_and_planned() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let (kept, key) = (folder.path().join("archive"), folder.path().join("key.pub"));
    make_key(folder.path());
    let archived = async |args: archive::ArchiveArgs| {
        let mut out = Vec::new();
        assert_eq!(archive::run(&args, &*store, &*at(&kept), NOW, &mut out).await.unwrap(), Exit::Yes);
        text(out)
    };
    let planned = archived(archive::ArchiveArgs { dry_run: true, ..until("11") }).await;
    assert!(planned.contains("would be written: positions 1 to 10") && !kept.exists(), "{planned}");
    archived(archive::ArchiveArgs { sign_key: Some(folder.path().join("key")), ..until("11") }).await;
    let key = export::keys::verifying_key(&key).unwrap();
    let verify = async || {
        let mut out = Vec::new();
        let exit = archive::verify(None, &*at(&kept), Some(&key), &mut out).await.unwrap();
        (exit, text(out))
    };
    assert_eq!(verify().await, (Exit::Yes, "valid: 1 segments, positions 1 to 10\n".to_owned()));
    let manifest = kept.join(format!("log-{:020}-{:020}.json", 1, 10));
    let signed = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, signed.replace("2026-01-31T12:01", "2026-01-31T12:02")).unwrap();
    assert!(verify().await.1.contains("it is not signed by this key"));
    std::fs::write(&manifest, signed).unwrap();
    archived(until("15")).await;
    let (exit, told) = verify().await;
    assert!(exit == Exit::No && told.contains("it is not signed\n"), "{told}");
}

#[tokio::test]
async fn an_archive_is_listed_verified_and_erased_with_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("log.db"), folder.path().join("archive"));
    let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
    let server = InstanceId(uuid::Uuid::from_u128(1));
    let stream = chronova_events::envelope::StreamId::new("instance", server);
    for n in 0..20 {
        let event = InstanceEvent::from(Renamed { name: format!("annas-{n}") });
        let event = NewEvent::new(event, Timestamp(NOON + n), &Meta::system("test"));
        store.append(&stream, Expected::Any, vec![event]).await.unwrap();
    }
    let archived = async |before: &str| {
        let args = until(before);
        let mut out = Vec::new();
        assert_eq!(archive::run(&args, &*store, &*at(&kept), NOW, &mut out).await.unwrap(), Exit::Yes);
        text(out)
    };
    assert!(archived("11").await.contains("positions 1 to 10"));
    assert!(archived("11").await.contains("nothing to archive: 10 positions"));
    assert!(archived("2030-01-01").await.contains("positions 11 to 20"));
    let verify = async || {
        let mut out = Vec::new();
        let exit = archive::verify(Some(&*store as &dyn EventStore), &*at(&kept), None, &mut out).await.unwrap();
        (exit, text(out))
    };
    assert_eq!(verify().await, (Exit::Yes, "valid: 2 segments, positions 1 to 20, as the log has them\n".to_owned()));
    let list = |keys: &Arc<KeyRing>| {
        let mut out = Vec::new();
        archive::list(&audit::AuditArgs::default(), &*at(&kept), keys, NOW, &mut out).unwrap();
        text(out)
    };
    let mut live = Vec::new();
    audit::run(&audit::AuditArgs::default(), &*store, NOW, &mut live).await.unwrap();
    assert_eq!(list(store.keys().unwrap()), text(live), "the archive differs from the log");
    assert!(list(store.keys().unwrap()).contains("annas-19"));
    let keys = Arc::clone(store.keys().unwrap());
    keys.destroy(&DataSubject::Server(server), keys.next()).unwrap();
    let after = list(&keys);
    assert!(!after.contains("annas-") && after.contains("\"personal\":\"erased\""));
    assert_eq!(verify().await.0, Exit::Yes, "an erasure changed the archive");
    let segment = std::fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.into_iter().find(|path| path.extension().is_some_and(|ext| ext == "zst")).unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let (exit, told) = verify().await;
    assert!(exit == Exit::No && told.contains("was changed after it was written"), "{told}");
    assert!(told.lines().count() == 1 && told.ends_with(" whole\n"), "the other segment is whole: {told}");
    store.close().await;
}

#[tokio::test]
async fn an_archive_of_another_log_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let args = until("5");
    let store = filled().await;
    archive::run(&args, &*store, &*at(folder.path()), NOW, &mut Vec::new()).await.unwrap();
    let other = MemoryStore::new();
    let stream = chronova_events::envelope::StreamId::new("instance", uuid::Uuid::from_u128(1));
    for _ in 0..9 {
        let event = InstanceEvent::from(Renamed { name: "x".into() });
        other.append(&stream, Expected::Any, vec![NewEvent::new(event, NOW, &Meta::system("test"))]).await.unwrap();
    }
    let refused = archive::run(&args, &*other, &*at(folder.path()), NOW, &mut Vec::new()).await.unwrap_err();
    assert!(refused.to_string().contains("another log"), "{refused}");
}

#[tokio::test]
async fn an_archive_without_segments_or_longer_than_the_log_is_not_valid() {
    let folder = tempfile::tempdir().unwrap();
    let verify = async |store: Option<&dyn EventStore>| {
        let mut out = Vec::new();
        let exit = archive::verify(store, &*at(folder.path()), None, &mut out).await.unwrap();
        (exit, text(out))
    };
    let (exit, told) = verify(None).await;
    assert!(exit == Exit::No && told.starts_with("NOT valid: ") && told.ends_with(" has no segments\n"), "{told}");
    archive::run(&until("5"), &*filled().await, &*at(folder.path()), NOW, &mut Vec::new()).await.unwrap();
    let shorter = MemoryStore::new();
    let (exit, told) = verify(Some(&*shorter as &dyn EventStore)).await;
    assert!(exit == Exit::No && told.ends_with("00004.jsonl.zst: the log ends at position 0\n"), "{told}");
    assert_eq!(verify(None).await, (Exit::Yes, "valid: 1 segments, positions 1 to 4\n".to_owned()));
}

#[tokio::test]
async fn two_commands_do_not_write_the_same_archive() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let other = std::fs::File::open(folder.path()).unwrap();
    other.lock().unwrap();
    let archived = async |args: archive::ArchiveArgs| {
        archive::run(&args, &*store, &*at(folder.path()), NOW, &mut Vec::new()).await
    };
    let refused = archived(until("5")).await.unwrap_err().to_string();
    assert!(refused.contains("another command writes to this archive"), "{refused}");
    assert!(archive::manifests(&*at(folder.path())).unwrap().is_empty());
    archived(archive::ArchiveArgs { dry_run: true, ..until("5") }).await.unwrap();
    drop(other);
    assert_eq!(archived(until("5")).await.unwrap(), Exit::Yes);
}

#[tokio::test]
async fn an_archive_of_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let args = until("5");
    archive::run(&args, &*filled().await, &*at(folder.path()), NOW, &mut Vec::new()).await.unwrap();
    let mut paths = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let manifest = paths.find(|path| path.extension().is_some_and(|ext| ext == "json")).unwrap();
    let newer = std::fs::read_to_string(&manifest).unwrap().replace("\"version\": 1", "\"version\": 2");
    std::fs::write(&manifest, newer).unwrap();
    let refused = archive::manifests(&*at(folder.path())).unwrap_err().to_string();
    assert!(refused.contains("of version 2 of the format"), "{refused}");
}

/// A log that is long enough for several parts of the tree, and a folder for the file with the parts' roots.
async fn long_log() -> (Arc<MemoryStore>, tempfile::TempDir) {
    let store = filled().await;
    let server = StreamId::new("instance", InstanceId(uuid::Uuid::from_u128(9)));
    let renamed = |n: u64| InstanceEvent::from(Renamed { name: format!("name-{n}") });
    let events = (0..2_200).map(|n| NewEvent::new(renamed(n), NOW, &Meta::system("test"))).collect();
    store.append(&server, Expected::Any, events).await.unwrap();
    (store, tempfile::tempdir().unwrap())
}

async fn proved(store: &MemoryStore, folder: &Path, args: &prove::ProveArgs) -> String {
    let mut out = Vec::new();
    let cache = folder.join("log.db.tree");
    assert_eq!(prove::run(args, store, &cache, NOW, &mut out).await.unwrap(), Exit::Yes);
    text(out)
}

async fn tree_head(store: &MemoryStore, folder: &Path) -> TreeHead {
    let mut out = Vec::new();
    prove::head(store, &folder.join("log.db.tree"), &mut out).await.unwrap();
    text(out).parse().unwrap()
}

/// Chronova's verdict on a proof. With `by_script`, the script for third parties must give the same verdict.
fn judged(folder: &Path, proof: &str, heads: &[TreeHead], by_script: bool) -> bool {
    let file = folder.join("proof");
    std::fs::write(&file, proof).unwrap();
    let args = prove::ProofVerifyArgs { file: file.clone(), tree_head: heads.to_vec() };
    let mut out = Vec::new();
    let valid = prove::verify(&args, &mut out).unwrap() == Exit::Yes;
    if by_script {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/verify_proof.py");
        let mut command = Command::new("python3");
        let run = command.arg(script).arg(&file).args(heads.iter().map(ToString::to_string)).output().unwrap();
        assert_eq!(run.status.success(), valid, "{}{}", text(out), String::from_utf8_lossy(&run.stderr));
    }
    valid
}

/// The JSON pointers of all values except null. The readable form is left out, because no proof covers it.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter().filter(|(key, _)| *key != "event") {
                leaves(inner, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (n, inner) in items.iter().enumerate() {
                leaves(inner, &format!("{at}/{n}"), found);
            }
        }
        Value::Null => {}
        _ => found.push(at.to_owned()),
    }
}

/// A proof for each value of `line`, with one bit of this value flipped.
fn changed(line: &str) -> Vec<(String, String)> {
    let whole: Value = serde_json::from_str(line).unwrap();
    let mut pointers = Vec::new();
    leaves(&whole, "", &mut pointers);
    let change = |pointer: String| {
        let mut proof = whole.clone();
        let value = proof.pointer_mut(&pointer).unwrap();
        *value = match &*value {
            Value::Number(number) => Value::from(number.as_i64().unwrap() ^ 1),
            Value::String(text) => {
                let mut bytes = text.clone().into_bytes();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                Value::from(String::from_utf8(bytes).unwrap())
            }
            other => panic!("{pointer}: {other}"),
        };
        (pointer, proof.to_string())
    };
    pointers.into_iter().map(change).collect()
}

#[tokio::test]
async fn an_inclusion_proof_is_valid_until_a_value_changes() {
    let (store, folder) = long_log().await;
    let folder = folder.path();
    let head = tree_head(&store, folder).await;
    assert_eq!(head.size, store.head().0);
    let position = vec![1, 2, 1_023, 1_024, 1_025, 2_048, 2_049, head.size];
    let all = proved(&store, folder, &prove::ProveArgs { position, ..Default::default() }).await;
    assert_eq!(all.lines().count(), 8);
    assert!(judged(folder, &all, &[head], true));
    let other = TreeHead { size: head.size - 1, ..head };
    assert!(!judged(folder, &all, &[other], true), "a proof must be refused with another tree head");
    for line in all.lines() {
        assert!(serde_json::from_str::<Value>(line).unwrap()["path"].as_array().unwrap().len() <= 12, "{line}");
        assert!(judged(folder, line, &[head], false));
    }
    let line = all.lines().nth(3).unwrap();
    let changes = changed(line);
    assert!(changes.len() > 25, "{changes:?}");
    for (at, proof) in changes {
        assert!(!judged(folder, &proof, &[head], true), "{at}");
    }
    assert!(!judged(folder, "", &[head], true), "an empty file must not be valid");
    // A proof about an earlier tree.
    let size = head.size - 7;
    let args = prove::ProveArgs { position: vec![1_500], tree_size: Some(size), ..Default::default() };
    let earlier = proved(&store, folder, &args).await;
    let root = serde_json::from_str::<Value>(&earlier).unwrap()["root"].as_str().unwrap().to_owned();
    assert!(judged(folder, &earlier, &[format!("{size}:{root}").parse().unwrap()], true));
}

#[tokio::test]
async fn a_consistency_proof_is_valid_until_a_value_changes() {
    let (store, folder) = long_log().await;
    let folder = folder.path();
    let new = tree_head(&store, folder).await;
    for first in [1, 2, 3, 1_023, 1_024, 1_025, 2_048, new.size - 1, new.size] {
        let args = prove::ProveArgs { from_size: Some(first), to_size: Some(new.size), ..Default::default() };
        let proof = proved(&store, folder, &args).await;
        let told: Value = serde_json::from_str(&proof).unwrap();
        assert!(told["path"].as_array().unwrap().len() <= 13, "{proof}");
        // The head that an auditor kept when the log had this size.
        let args = prove::ProveArgs { position: vec![1], tree_size: Some(first), ..Default::default() };
        let kept: Value = serde_json::from_str(&proved(&store, folder, &args).await).unwrap();
        let old: TreeHead = format!("{first}:{}", kept["root"].as_str().unwrap()).parse().unwrap();
        assert!(judged(folder, &proof, &[old, new], true), "{proof}");
        assert!(first == new.size || !judged(folder, &proof, &[new], true), "the proof is valid without the old head");
        for (at, proof) in changed(&proof) {
            assert!(!judged(folder, &proof, &[old, new], first == 1_025), "{first}: {at}");
        }
    }
}

/// A file of proofs shows the other events only as hashes.
#[tokio::test]
async fn the_events_of_a_request_are_proved_without_the_others() {
    let (store, folder) = long_log().await;
    let folder = folder.path();
    let head = tree_head(&store, folder).await;
    let args = prove::ProveArgs { kind: vec!["quota".into()], user: vec!["alice".into()], ..Default::default() };
    let proof = proved(&store, folder, &args).await;
    assert!(proof.lines().count() == 1 && proof.contains("quota.reserved"), "{proof}");
    assert!(judged(folder, &proof, &[head], true));
    assert!(!proof.contains("instance-") && !proof.contains("host-watch") && proof.len() < 4_000, "{proof}");
    let cache = folder.join("log.db.tree");
    for (args, wanted) in [
        (prove::ProveArgs::default(), "no event matches"),
        (prove::ProveArgs { position: vec![0], ..Default::default() }, "positions 1 to"),
        (prove::ProveArgs { position: vec![9_999], ..Default::default() }, "positions 1 to"),
        (prove::ProveArgs { from_size: Some(0), to_size: Some(3), ..Default::default() }, "sizes are from 1"),
        (prove::ProveArgs { from_size: Some(4), to_size: Some(3), ..Default::default() }, "not the larger"),
        (prove::ProveArgs { position: vec![1], tree_size: Some(9_999), ..Default::default() }, "the log has"),
    ] {
        let refused = prove::run(&args, &*store, &cache, NOW, &mut Vec::new()).await.unwrap_err().to_string();
        assert!(refused.contains(wanted), "{refused}");
    }
}

#[tokio::test]
async fn the_side_file_of_the_tree_is_a_cache() {
    let (store, folder) = long_log().await;
    let folder = folder.path();
    let (head, cache) = (tree_head(&store, folder).await, folder.join("log.db.tree"));
    let kept = std::fs::read(&cache).unwrap();
    assert_eq!(kept.len(), 2 * 96, "the file must have two whole parts");
    assert_eq!(tree_head(&store, folder).await, head, "the file must not change the head");
    for at in (0..kept.len()).step_by(5) {
        let mut damaged = kept.clone();
        damaged[at] ^= 1;
        std::fs::write(&cache, &damaged).unwrap();
        assert_eq!(tree_head(&store, folder).await, head, "byte {at}");
        assert_eq!(std::fs::read(&cache).unwrap(), kept, "byte {at}: the file was not mended");
    }
    // The file of another log, whose parts have other roots.
    let (other, elsewhere) = long_log().await;
    let others = tree_head(&other, elsewhere.path()).await;
    assert_ne!(others.root, head.root);
    std::fs::copy(elsewhere.path().join("log.db.tree"), &cache).unwrap();
    assert_eq!(tree_head(&store, folder).await, head);
}
