//! Tests that an export and an archive can be verified, and that a changed byte is found.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code, reason = "shared with other tests")]
mod log;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use chronova::commands::audit::{self, archive, export};
use chronova::commands::{CommandFailure, Exit};
use chronova_events::envelope::{Cause, Meta, NewEvent, StreamId, Timestamp};
use chronova_events::ids::{EventId, InstanceId};
use chronova_events::instance::{InstanceEvent, Renamed};
use chronova_events::sealed::DataSubject;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use log::{NOON, WEB, filled};

const NOW: Timestamp = Timestamp(NOON + 60_000_000);

fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap()
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
        let args = archive::ArchiveArgs { before: before.parse().unwrap(), out: None };
        let mut out = Vec::new();
        assert_eq!(archive::run(&args, &*store, &kept, NOW, &mut out).await.unwrap(), Exit::Yes);
        text(out)
    };
    assert!(archived("11").await.contains("positions 1 to 10"));
    assert!(archived("11").await.contains("nothing to archive: 10 positions"));
    assert!(archived("2030-01-01").await.contains("positions 11 to 20"));
    let verify = async || {
        let mut out = Vec::new();
        let exit = archive::verify(Some(&*store as &dyn EventStore), &kept, &mut out).await.unwrap();
        (exit, text(out))
    };
    assert_eq!(verify().await, (Exit::Yes, "valid: 2 segments, positions 1 to 20, as the log has them\n".to_owned()));
    let list = |keys: &Arc<KeyRing>| {
        let mut out = Vec::new();
        archive::list(&audit::AuditArgs::default(), &kept, keys, NOW, &mut out).unwrap();
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
    assert_eq!(verify().await.0, Exit::No);
    store.close().await;
}

#[tokio::test]
async fn an_archive_of_another_log_is_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let args = archive::ArchiveArgs { before: "5".parse().unwrap(), out: None };
    let store = filled().await;
    archive::run(&args, &*store, folder.path(), NOW, &mut Vec::new()).await.unwrap();
    let other = MemoryStore::new();
    let stream = chronova_events::envelope::StreamId::new("instance", uuid::Uuid::from_u128(1));
    for _ in 0..9 {
        let event = InstanceEvent::from(Renamed { name: "x".into() });
        other.append(&stream, Expected::Any, vec![NewEvent::new(event, NOW, &Meta::system("test"))]).await.unwrap();
    }
    let refused = archive::run(&args, &*other, folder.path(), NOW, &mut Vec::new()).await.unwrap_err();
    assert!(refused.to_string().contains("another log"), "{refused}");
}

#[tokio::test]
async fn an_archive_of_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let args = archive::ArchiveArgs { before: "5".parse().unwrap(), out: None };
    archive::run(&args, &*filled().await, folder.path(), NOW, &mut Vec::new()).await.unwrap();
    let mut paths = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let manifest = paths.find(|path| path.extension().is_some_and(|ext| ext == "json")).unwrap();
    let newer = std::fs::read_to_string(&manifest).unwrap().replace("\"version\": 1", "\"version\": 2");
    std::fs::write(&manifest, newer).unwrap();
    let refused = archive::manifests(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("of version 2 of the format"), "{refused}");
}
