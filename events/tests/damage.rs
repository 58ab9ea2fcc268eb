//! Tests of the SQLite log with changed files: damage is found, and a file that the log refuses stays as it was.
//! Further tests cover the modes of the files, readers with plain SQL, closing, and the index by stream.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_events::envelope::{Position, Recorded, Revision, StreamId};
use chronova_events::store::conformance::{event, text};
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

/// The usual number of rounds, or the larger one of a soak run.
fn rounds(usual: u64, soak: u64) -> u64 {
    if std::env::var_os("CHRONOVA_SOAK").is_some() { soak } else { usual }
}

fn stream(n: u64) -> StreamId {
    StreamId::new("process", n % 7)
}

fn open(path: &Path) -> Result<Arc<SqliteStore>, StoreError> {
    SqliteStore::open(path, &SqliteOptions::default())
}

fn refusal(path: &Path) -> StoreError {
    open(path).expect_err("a damaged log must be refused")
}

/// The text of the nth event. Tests find it in the file by its bytes.
fn mark(n: u64) -> String {
    format!("event number {n:06}.")
}

async fn fill(store: &dyn EventStore, from: u64, to: u64) {
    for n in from..=to {
        store.append(&stream(n), Expected::Any, vec![event(mark(n))]).await.unwrap();
    }
}

/// A log of `count` events, closed.
async fn log(count: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    fill(&*store, 1, count).await;
    store.close().await;
    (folder, path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// A copy of the files as a crash at this moment would leave them.
fn crash_image(path: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("log.db");
    for suffix in ["", "-wal", ".witness"] {
        if beside(path, suffix).exists() {
            std::fs::copy(beside(path, suffix), beside(&copy, suffix)).unwrap();
        }
    }
    (folder, copy)
}

fn position_of(bytes: &[u8], wanted: &str) -> usize {
    bytes.windows(wanted.len()).position(|window| window == wanted.as_bytes()).expect("the text must be in the file")
}

fn flip(path: &Path, wanted: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = position_of(&bytes, wanted);
    bytes[at + wanted.len() / 2] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn truncate(path: &Path, length: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// `count` lengths shorter than the whole file, the same in every run.
fn cuts(whole: usize, count: u64) -> impl Iterator<Item = usize> {
    let mut seed = 5;
    (0..count).map(move |_| usize::try_from(random(&mut seed)).unwrap() % whole)
}

fn is_corrupt_at(error: &StoreError, at: u64) -> bool {
    matches!(error, StoreError::Corrupt { position, .. } if *position == at)
}

#[tokio::test]
async fn a_flipped_bit_in_a_payload_is_found_at_its_position() {
    let (_folder, path) = log(600).await;
    flip(&path, &mark(100));
    let store = open(&path).unwrap();
    let error = store.read_all(Position::START, usize::MAX).await.unwrap_err();
    assert!(is_corrupt_at(&error, 100), "{error}");
    let error = store.read_all(Position(99), 1).await.unwrap_err();
    assert!(is_corrupt_at(&error, 100), "{error}");
    let error = store.read_stream(&stream(100), Revision::NONE, usize::MAX).await.unwrap_err();
    assert!(is_corrupt_at(&error, 100), "{error}");
    let error = store.verify().await.unwrap_err();
    assert!(is_corrupt_at(&error, 100), "{error}");
    assert_eq!(store.read_all(Position::START, 99).await.unwrap().len(), 99, "the other events must be readable");
    assert_eq!(store.read_all(Position(100), 500).await.unwrap().len(), 500);
    let mut subscription = store.subscribe(Position::START);
    assert!(is_corrupt_at(&subscription.next().await.unwrap_err(), 100));
}

#[tokio::test]
async fn a_flipped_bit_in_a_recent_event_keeps_the_log_closed() {
    let (_folder, path) = log(600).await;
    flip(&path, &mark(550));
    let error = refusal(&path);
    assert!(is_corrupt_at(&error, 550), "{error}");
    flip(&path, &mark(1)); // The refusal left the file unchanged, so the first event is still in it.
}

/// A small random generator, so that each run flips the same bits.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 17
}

fn contents(events: &[Arc<Recorded>]) -> Vec<(Position, StreamId, Revision, String)> {
    events.iter().map(|event| (event.position, event.stream.clone(), event.revision, text(event))).collect()
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_found_or_harmless() {
    let (_folder, path) = log(300).await;
    let store = open(&path).unwrap();
    let whole = contents(&store.read_all(Position::START, usize::MAX).await.unwrap());
    store.close().await;
    let good = std::fs::read(&path).unwrap();
    let (mut seed, mut found) = (7, 0);
    let copies = tempfile::tempdir().unwrap();
    let flips = rounds(300, 6_000);
    for round in 0..flips {
        // Each copy has a folder that is removed with it, because thousands of copies would fill the disk.
        let folder = tempfile::tempdir_in(copies.path()).unwrap();
        let copy = folder.path().join(format!("{round}.db"));
        let mut bytes = good.clone();
        let bit = usize::try_from(random(&mut seed)).unwrap() % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&copy, bytes).unwrap();
        let Ok(store) = open(&copy) else {
            found += 1;
            continue;
        };
        if store.verify().await.is_err() {
            found += 1;
        } else {
            let read = contents(&store.read_all(Position::START, usize::MAX).await.unwrap());
            assert_eq!(read, whole, "bit {bit} changed the log and nobody noticed");
        }
        store.close().await;
    }
    assert!(found > flips * 2 / 5, "only {found} of {flips} flips were found: are the rest really unused bytes?");
}

#[tokio::test]
async fn a_changed_envelope_is_found() {
    let (_folder, path) = log(600).await;
    let changes = [
        "UPDATE events SET recorded_at = recorded_at + 1 WHERE position = 50",
        "UPDATE events SET system = 'somebody else' WHERE position = 50",
        "UPDATE events SET system = NULL, user = 'eve', roles = '[]' WHERE position = 50",
        "UPDATE events SET user = 'eve', roles = '[]' WHERE position = 50",
        "UPDATE events SET request_id = '' WHERE position = 50",
        "UPDATE events SET id = randomblob(16) WHERE position = 50",
        "UPDATE events SET id = randomblob(15) WHERE position = 50",
        "UPDATE events SET version = 70000 WHERE position = 50",
        "UPDATE events SET stream = 99 WHERE position = 50",
        "DELETE FROM events WHERE position = 50",
    ];
    for change in changes {
        let (_image_folder, image) = crash_image(&path);
        // The connection of an attacker, without the constraints of the table.
        let connection = Connection::open(&image).unwrap();
        connection.execute_batch(&format!("PRAGMA foreign_keys = OFF; {change}")).unwrap();
        drop(connection);
        let store = open(&image).unwrap();
        let error = store.read_all(Position::START, usize::MAX).await.unwrap_err();
        assert!(is_corrupt_at(&error, 50), "{change}: {error}");
        store.close().await;
    }
}

#[tokio::test]
async fn events_missing_at_the_end_keep_the_log_closed() {
    for change in [
        "DELETE FROM events WHERE position > 8",
        "DELETE FROM events WHERE position = 5",
        "UPDATE head SET position = 9",
        "UPDATE head SET position = 11",
    ] {
        let (_folder, path) = log(10).await;
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let error = refusal(&path);
        assert!(matches!(error, StoreError::Corrupt { .. }), "{change}: {error}");
    }
}

#[tokio::test]
async fn a_revision_missing_in_a_stream_is_found() {
    let (_folder, path) = log(600).await;
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("UPDATE events SET revision = 1000 WHERE position = 50").unwrap();
    drop(connection);
    let store = open(&path).unwrap();
    let error = store.read_stream(&stream(50), Revision::NONE, usize::MAX).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn a_write_ahead_log_cut_short_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    fill(&*store, 1, 40).await;
    let (_image_folder, image) = crash_image(&path);
    store.close().await;
    let wal = beside(&image, "-wal");
    let whole = std::fs::read(&wal).unwrap();
    assert!(whole.len() > 40 * 4_096, "the write-ahead log must hold the events");
    let mut lengths = vec![0, 32, 5_000, whole.len() / 2, whole.len() - 1];
    lengths.extend(cuts(whole.len(), rounds(0, 500)));
    for length in lengths {
        truncate(&wal, length as u64);
        let error = refusal(&image);
        assert!(matches!(error, StoreError::Corrupt { .. }), "{length}: {error}");
        std::fs::write(&wal, &whole).unwrap();
    }
    let mut torn = whole.clone();
    let middle = torn.len() / 2;
    torn[middle] ^= 1;
    std::fs::write(&wal, &torn).unwrap();
    assert!(matches!(refusal(&image), StoreError::Corrupt { .. }));
    std::fs::remove_file(&wal).unwrap();
    assert!(matches!(refusal(&image), StoreError::Corrupt { .. }));
    std::fs::write(&wal, &whole).unwrap();
    let store = open(&image).expect("the refusal must not change the files");
    assert_eq!(store.verify().await.unwrap().events, 40);
}

#[tokio::test]
async fn an_unfinished_commit_at_the_end_of_the_write_ahead_log_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    fill(&*store, 1, 20).await;
    let (_image_folder, image) = crash_image(&path);
    store.close().await;
    let wal = beside(&image, "-wal");
    let mut bytes = std::fs::read(&wal).unwrap();
    bytes.extend_from_slice(&[0x5a; 3_000]);
    std::fs::write(&wal, bytes).unwrap();
    let store = open(&image).unwrap();
    assert_eq!(store.verify().await.unwrap().events, 20);
    fill(&*store, 21, 30).await;
    assert_eq!(store.verify().await.unwrap().events, 30);
}

#[tokio::test]
async fn a_data_file_cut_short_keeps_the_log_closed() {
    let (_folder, path) = log(400).await;
    let whole = std::fs::read(&path).unwrap();
    let mut lengths = vec![0, 100, 4_096, whole.len() / 2, whole.len() - 4_096, whole.len() - 1];
    lengths.extend(cuts(whole.len(), rounds(0, 500)));
    for length in lengths {
        truncate(&path, length as u64);
        assert!(matches!(refusal(&path), StoreError::Corrupt { .. }), "{length}");
        std::fs::write(&path, &whole).unwrap();
    }
    // Without the note, SQLite itself must detect the damage.
    std::fs::remove_file(beside(&path, ".witness")).unwrap();
    truncate(&path, whole.len() as u64 - 4_096);
    assert!(matches!(refusal(&path), StoreError::Corrupt { .. }));
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(open(&path).unwrap().verify().await.unwrap().events, 400);
}

#[tokio::test]
async fn a_missing_data_file_is_not_created_again() {
    let (_folder, path) = log(3).await;
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(refusal(&path), StoreError::Corrupt { .. }));
}

#[tokio::test]
async fn an_older_copy_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    fill(&*store, 1, 5).await;
    store.close().await;
    let older = std::fs::read(&path).unwrap();
    let store = open(&path).unwrap();
    fill(&*store, 6, 6).await;
    store.close().await;
    std::fs::write(&path, older).unwrap();
    let error = refusal(&path);
    assert!(is_corrupt_at(&error, 6) && error.to_string().contains("log.db.witness"), "{error}");
    std::fs::remove_file(beside(&path, ".witness")).unwrap();
    assert_eq!(open(&path).unwrap().head(), Position(5), "the log must open with the file put back");
}

#[tokio::test]
async fn a_newer_format_is_refused_untouched() {
    let (_folder, path) = log(3).await;
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 5).unwrap();
    let before = std::fs::read(&path).unwrap();
    assert_eq!(refusal(&path), StoreError::NewerFormat { found: 5, supported: 4 });
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_file_that_is_no_log_is_refused_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(refusal(&path), StoreError::Io(_)));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::write(&path, "this is a text file, and a longer one than SQLite's header of a hundred bytes is".repeat(9))
        .unwrap();
    assert!(matches!(refusal(&path), StoreError::Corrupt { .. }));
}

#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/log/log.db");
    let store = open(&path).unwrap();
    fill(&*store, 1, 3).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = entry.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn auditors_read_the_log_with_plain_sql() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    fill(&*store, 1, 3).await;
    let id = store.read_all(Position(1), 1).await.unwrap()[0].id;
    let auditor = Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT recorded_at, stream, kind, system, id FROM audit_events WHERE position = 2";
    let row = auditor.query_row(sql, [], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, String>(3)?,
            row.get(4)?,
        ))
    });
    let (at, stream, kind, system, found): (_, _, _, _, String) = row.unwrap();
    assert_eq!(at, "2023-11-14T22:13:20.000001Z");
    assert_eq!((stream.as_str(), kind.as_str(), system.as_str()), ("process-2", "process.step_undone", "conformance"));
    assert_eq!(found, id.to_string());
    drop(auditor);
    fill(&*store, 4, 5).await;
}

#[tokio::test]
async fn closing_answers_waiting_requests_and_ends_all_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    let mut subscription = store.subscribe(Position::START);
    let writers: Vec<_> = (0..64)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.append(&stream(n), Expected::Any, vec![event(mark(n))]).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await;
    store.close().await;
    let mut acknowledged = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(_) => acknowledged += 1,
            Err(error) => assert_eq!(error, StoreError::Closed.into()),
        }
    }
    let mut seen = 0;
    let end = loop {
        match subscription.next().await {
            Ok(batch) => seen += batch.len(),
            Err(error) => break error,
        }
    };
    assert_eq!((end, seen), (StoreError::Closed, acknowledged));
    assert_eq!(store.read_all(Position::START, 9).await.unwrap_err(), StoreError::Closed);
    assert_eq!(store.load_snapshot(&stream(1)).await.unwrap_err(), StoreError::Closed);
    assert_eq!(std::fs::metadata(beside(&path, "-wal")).map_or(0, |wal| wal.len()), 0, "the WAL must be empty");
    let again = open(&path).expect("the lock must be free although the old handle still exists");
    assert_eq!(again.verify().await.unwrap().events, acknowledged as u64);
}

/// The index by stream is updated in steps. Events that it does not have yet can still be read.
#[tokio::test]
async fn a_stream_is_whole_on_both_sides_of_the_end_of_its_index() {
    const STREAMS: u64 = 7;
    const APPENDS: u64 = 12;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    for round in 0..APPENDS {
        for n in 0..STREAMS {
            let events = (0..100).map(|at| event(format!("{round} {at}"))).collect();
            let appended = store.append(&stream(n), Expected::Exact(Revision(round * 100)), events).await.unwrap();
            assert_eq!(appended.revision, Revision((round + 1) * 100));
        }
    }
    // Some of the 8,400 events are in the index, and some are not.
    let beside = chronova_events::store::sqlite::ReadOnlyLog::open(&path).unwrap();
    for n in 0..STREAMS {
        let all = store.read_stream(&stream(n), Revision::NONE, usize::MAX).await.unwrap();
        let revisions: Vec<u64> = all.iter().map(|event| event.revision.0).collect();
        assert_eq!(revisions, (1..=APPENDS * 100).collect::<Vec<_>>());
        assert_eq!(
            contents(&beside.read_stream(&stream(n), Revision::NONE, usize::MAX).await.unwrap()),
            contents(&all)
        );
        let middle = store.read_stream(&stream(n), Revision(1_150), 30).await.unwrap();
        assert_eq!(contents(&middle), contents(&all[1_150..1_180]));
    }
    store.verify().await.unwrap();
    store.close().await;
    let store = open(&path).unwrap();
    assert_eq!(store.read_stream(&stream(3), Revision(1_199), 9).await.unwrap().len(), 1);
    assert_eq!(store.verify().await.unwrap().events, STREAMS * APPENDS * 100);
    store.close().await;
}
