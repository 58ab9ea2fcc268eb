//! Tests of the log on a failing disk. Calls on its files fail on demand, in a child process of this test.
//!
//! The child loads a small library (`preload/fault.c`) before the C library, so that SQLite's own system calls fail.
//! Without a C compiler the tests are skipped and print the reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use chronova_events::envelope::{NewEvent, Position, Revision, StreamId, Timestamp};
use chronova_events::store::conformance::{event, text};
use chronova_events::store::sqlite::verify::{VerifyOptions, verify};
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};
use chronova_events::store::{AppendError, EventStore, Expected, StoreError};

/// The variable with the path of the child's log. It is set only for children.
const LOG: &str = "CHRONOVA_TEST_LOG";
/// The variable with the child's scenario.
const SCENE: &str = "CHRONOVA_TEST_SCENE";
/// The variable with the file that tells the library which calls fail.
const FAULT: &str = "CHRONOVA_FAULT";

/// The usual number of rounds, or the larger one of a soak run.
fn rounds(usual: u64, soak: u64) -> u64 {
    if std::env::var_os("CHRONOVA_SOAK").is_some() { soak } else { usual }
}

fn stream() -> StreamId {
    StreamId::new("process", "a")
}

/// Lets calls fail from now on, for example `fsync 5`. An empty text ends the failures.
fn fault(what: &str) {
    std::fs::write(std::env::var_os(FAULT).unwrap(), what).unwrap();
}

async fn append(store: &dyn EventStore, what: &str) -> Result<(), StoreError> {
    match store.append(&stream(), Expected::Any, vec![event(what)]).await {
        Ok(_) => Ok(()),
        Err(AppendError::Store(error)) => Err(error),
        Err(other) => panic!("{other}"),
    }
}

async fn texts(store: &dyn EventStore) -> Vec<String> {
    store.read_all(Position::START, usize::MAX).await.unwrap().iter().map(|event| text(event)).collect()
}

fn open(path: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(path, &SqliteOptions { checkpoint_pages: 30, ..SqliteOptions::default() }).unwrap()
}

/// Not a test, but the process in which calls fail.
#[tokio::test]
async fn child() {
    let Some(path) = std::env::var_os(LOG).map(PathBuf::from) else { return };
    match std::env::var(SCENE).unwrap().as_str() {
        "fsync" => {
            failing_fsync(&path).await;
            for round in 0..rounds(3, 120) {
                failing_fsync_under_load(&nth(&path, round), round).await;
            }
        }
        "full" => failing_write(&path, "write 28", &StoreError::Full).await,
        "quota" => failing_write(&path, "write 122", &StoreError::Full).await,
        "read-only" => failing_write(&path, "write 30", &StoreError::Io(String::new())).await,
        "broken" => failing_write(&path, "write 5", &StoreError::Io(String::new())).await,
        other => panic!("no scene {other}"),
    }
}

/// The path of the log of this round.
fn nth(path: &Path, round: u64) -> PathBuf {
    path.with_file_name(round.to_string()).join("log.db")
}

/// After a failed fsync the content of the disk is unknown, so this process acknowledges no more appends.
async fn failing_fsync(path: &Path) {
    let store = open(path);
    let mut acknowledged = Vec::new();
    for n in 0..20 {
        append(&*store, &format!("good {n}")).await.unwrap();
        acknowledged.push(format!("good {n}"));
    }
    fault("fsync 5");
    let refused = append(&*store, "in doubt").await.expect_err("an append without a sync must fail");
    assert!(matches!(refused, StoreError::Io(_)), "{refused}");
    fault("");
    for _ in 0..5 {
        // The kernel may have dropped the pages that it could not write, and reports this only once.
        assert_eq!(append(&*store, "later").await.expect_err("no later append may succeed"), refused);
    }
    assert_eq!(texts(&*store).await[..20], acknowledged[..], "acknowledged events must be readable");
    store.close().await;
    let store = open(path);
    let found = texts(&*store).await;
    assert_eq!(found[..20], acknowledged[..]);
    assert!(found[20..].iter().all(|text| text == "in doubt") && found.len() <= 21, "{:?}", &found[20..]);
    append(&*store, "after").await.unwrap();
    store.close().await;
    assert_eq!(verify(path, &VerifyOptions::default()).unwrap().damages, []);
}

/// Fails an fsync like [`failing_fsync`], but with many waiting callers, at any moment, and with several errors. A
/// quota error or a full disk that appears only when the kernel writes the pages must stop the log, too.
async fn failing_fsync_under_load(path: &Path, round: u64) {
    const WRITERS: usize = 8;
    let store = open(path);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0.. {
                    let text = format!("{writer}/{n}");
                    match append(&*store, &text).await {
                        Ok(()) => acknowledged.push(text),
                        Err(error) => return (acknowledged, error),
                    }
                }
                unreachable!()
            })
        })
        .collect();
    while store.head().0 < round * 13 % 500 {
        tokio::task::yield_now().await;
    }
    fault(["fsync 5", "fsync 28", "fsync 122"][usize::try_from(round % 3).unwrap()]);
    let mut acknowledged = Vec::new();
    for writer in writers {
        let (own, error) = writer.await.unwrap();
        assert!(matches!(error, StoreError::Io(_)), "round {round}: {error}");
        acknowledged.extend(own);
    }
    fault("");
    assert!(append(&*store, "later").await.is_err(), "round {round}: a later append succeeded");
    let seen = texts(&*store).await;
    assert!(acknowledged.iter().all(|text| seen.contains(text)), "round {round}: an event is missing");
    store.close().await;
    drop(store);
    let store = open(path);
    let mut found = texts(&*store).await;
    let count = found.len();
    assert!(count <= acknowledged.len() + WRITERS, "round {round}: {count} of {}", acknowledged.len());
    found.sort();
    found.dedup();
    assert_eq!(found.len(), count, "round {round}: an event is in the log twice");
    for text in &acknowledged {
        assert!(found.binary_search(text).is_ok(), "round {round}: the acknowledged event {text} is missing");
    }
    append(&*store, "after").await.unwrap();
    store.close().await;
    assert_eq!(verify(path, &VerifyOptions::default()).unwrap().damages, []);
}

/// Appends are refused and reads continue. Appends work again when the disk works again.
async fn failing_write(path: &Path, how: &str, expected: &StoreError) {
    let store = open(path);
    let mut acknowledged = Vec::new();
    for round in 0..rounds(4, 150) {
        // The failures come before, during and after a checkpoint of the write-ahead log.
        for n in 0..20 + round * 7 % 23 {
            append(&*store, &format!("{round}/{n}")).await.unwrap();
            acknowledged.push(format!("{round}/{n}"));
        }
        fault(how);
        for _ in 0..3 {
            let refused = append(&*store, "refused").await.expect_err("the append must be refused");
            assert_eq!(std::mem::discriminant(&refused), std::mem::discriminant(expected), "{refused}");
        }
        assert_eq!(texts(&*store).await, acknowledged, "only acknowledged events must be readable");
        fault("");
    }
    append(&*store, "by itself").await.expect("appends must work again by themselves");
    acknowledged.push("by itself".to_owned());
    store.close().await;
    let store = open(path);
    assert_eq!(texts(&*store).await, acknowledged);
    store.close().await;
    assert_eq!(verify(path, &VerifyOptions::default()).unwrap().damages, []);
}

/// Builds the library. An error says why it cannot be built.
fn library(folder: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/fault.c");
    let library = folder.join("fault.so");
    let output = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
    match output {
        Ok(output) if output.status.success() => Ok(library),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("cc: {error}")),
    }
}

fn play(scene: &str) {
    let folder = tempfile::tempdir().unwrap();
    let library = match library(folder.path()) {
        Ok(library) => library,
        Err(reason) => {
            println!("skipped: calls cannot be made to fail here: {reason}");
            return;
        }
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["faults::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(LOG, folder.path().join("log.db"))
        .env(SCENE, scene)
        .env(FAULT, folder.path().join("fault"))
        .env("LD_PRELOAD", library)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn a_failed_fsync_ends_all_appends() {
    play("fsync");
}

#[test]
fn a_log_on_a_full_disk_refuses_appends_until_there_is_space() {
    play("full");
}

#[test]
fn a_log_over_its_quota_refuses_appends_until_there_is_space() {
    play("quota");
}

#[test]
fn a_log_on_a_read_only_disk_refuses_appends_and_serves_reads() {
    play("read-only");
}

#[test]
fn a_log_on_a_failing_disk_refuses_appends_and_serves_reads() {
    play("broken");
}

/// A file system of its own, which the test later makes read-only.
struct Mounted(PathBuf, #[allow(dead_code)] tempfile::TempDir);

impl Mounted {
    /// `None` if this user may not mount.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(&path).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then_some(Self(path, folder))
    }

    #[expect(clippy::disallowed_methods, reason = "a test that waits for the system")]
    fn read_only(&self) {
        // The file system is busy until the last writable file is closed.
        let remount = || Command::new("mount").args(["-o", "remount,ro"]).arg(&self.0).status().unwrap().success();
        let done = (0..100).any(|_| {
            remount() || {
                std::thread::sleep(std::time::Duration::from_millis(50));
                false
            }
        });
        assert!(done, "the file system stays busy");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_log_on_a_read_only_file_system_can_be_read_and_verified_and_not_written() {
    for round in 0..rounds(1, 40) {
        let Some(disk) = Mounted::new() else {
            println!("skipped: mounting a file system needs root");
            return;
        };
        read_only(&disk, 50 + round * 97).await;
    }
}

async fn read_only(disk: &Mounted, events: u64) {
    // Tests the files of a stopped server, and a copy of its log, keys, seals and note.
    let (left, copied) = (disk.0.join("left/log.db"), disk.0.join("copied/log.db"));
    let store = open(&left);
    for n in 0..events {
        append(&*store, &n.to_string()).await.unwrap();
    }
    store.close().await;
    drop(store);
    std::fs::create_dir(copied.parent().unwrap()).unwrap();
    for name in ["log.db", "log.db.keys", "log.db.seals", "log.db.witness"] {
        std::fs::copy(left.with_file_name(name), copied.with_file_name(name)).unwrap();
    }
    disk.read_only();
    for path in [left, copied] {
        let refused = SqliteStore::open(&path, &SqliteOptions::default()).unwrap_err();
        assert!(refused.to_string().to_lowercase().contains("read-only"), "{refused}");
        let log = ReadOnlyLog::open(&path).unwrap();
        let all: Vec<String> = (0..events).map(|n| n.to_string()).collect();
        assert_eq!(texts(&*log).await, all);
        assert_eq!(log.read_stream(&stream(), Revision(events - 10), 99).await.unwrap().len(), 10);
        assert_eq!(verify(&path, &VerifyOptions::default()).unwrap().damages, []);
    }
}

/// Positions and the chain follow the order of the appends, not the clock.
#[tokio::test]
async fn a_clock_that_goes_backwards_disturbs_no_order() {
    const BEGIN: i64 = 1_769_860_800_000_000;
    const HOUR: i64 = 3_600_000_000;
    let events = i64::try_from(rounds(60, 6_000)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let mut store = open(&path);
    for n in 0..events {
        // The clock steps back an hour after every tenth event. Sometimes it jumps before the epoch or to the end of
        // time, or stands still.
        let at = match n % 101 {
            97 => Timestamp(-1),
            98 => Timestamp(i64::MAX),
            99 => Timestamp(i64::MIN),
            100 => Timestamp(BEGIN),
            _ => Timestamp(BEGIN + n * 1_000_000 - n / 10 % 500 * HOUR),
        };
        let new = NewEvent { recorded_at: at, ..event(n.to_string()) };
        store.append(&stream(), Expected::Exact(Revision(n.unsigned_abs())), vec![new]).await.unwrap();
        if n % 25 == 0 {
            store.close().await;
            store = open(&path);
        }
    }
    let all = store.read_all(Position::START, usize::MAX).await.unwrap();
    assert_eq!(texts(&*store).await, (0..events).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(all.windows(2).any(|pair| pair[0].recorded_at > pair[1].recorded_at), "the clock never went backwards");
    assert!(all.windows(2).all(|pair| pair[0].position < pair[1].position));
    let mut subscription = store.subscribe(Position(30));
    assert_eq!(subscription.next().await.unwrap()[0].position, Position(31));
    store.close().await;
    assert_eq!(verify(&path, &VerifyOptions::default()).unwrap().damages, []);
}
