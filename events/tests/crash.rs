//! Tests of the SQLite log: a killed process, a full disk, and a lock that another process holds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use chronova_events::envelope::{NewEvent, Position, Recorded, StreamId};
use chronova_events::store::conformance::{event, text};
use chronova_events::store::sqlite::verify::{VerifyOptions, verify};
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{AppendError, EventStore, Expected, StoreError};

use crate::child::{kill_after, log_and_run, say, spawn};

/// The full name of the test [`child`].
const CHILD: &str = "crash::child";
const WRITERS: usize = 16;
/// The number of events in one append.
const EVENTS_PER_APPEND: usize = 3;
/// The number of kills of one log.
const KILLS_PER_LOG: u64 = 30;

/// The usual number of rounds, or the larger one of a soak run.
fn rounds(usual: u64, soak: u64) -> u64 {
    if std::env::var_os("CHRONOVA_SOAK").is_some() { soak } else { usual }
}

fn open(path: &Path) -> Result<Arc<SqliteStore>, StoreError> {
    // Checkpoints are frequent, so that many kills come during a checkpoint.
    SqliteStore::open(path, &SqliteOptions { checkpoint_pages: 100, ..SqliteOptions::default() })
}

fn tagged(tag: &str) -> Vec<NewEvent> {
    (0..EVENTS_PER_APPEND).map(|n| event(format!("{tag} {n}"))).collect()
}

/// Not a test, but the process that other tests kill. It appends endlessly and prints each acknowledged tag.
#[test]
fn child() {
    let Some((path, run)) = log_and_run() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async move {
        let store = match open(&path) {
            Ok(store) => store,
            Err(StoreError::Locked { pid, .. }) => return say(&format!("locked by {}", pid.unwrap_or(0))),
            Err(other) => panic!("{other}"),
        };
        say("open");
        let writers = (0..WRITERS).map(|writer| {
            let (store, run) = (Arc::clone(&store), run.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    let tag = format!("{run}/{writer}/{n}");
                    let stream = StreamId::new("process", writer % 5);
                    store.append(&stream, Expected::Any, tagged(&tag)).await.unwrap();
                    say(&format!("ack {tag}"));
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

/// The number of times that each append is in the log, by its tag. Each append must be whole.
fn appends(events: &[Arc<Recorded>]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for together in events.chunks(EVENTS_PER_APPEND) {
        let texts: Vec<String> = together.iter().map(|event| text(event)).collect();
        let tag = texts[0].split_once(' ').unwrap().0.to_owned();
        let whole: Vec<String> = (0..EVENTS_PER_APPEND).map(|n| format!("{tag} {n}")).collect();
        assert_eq!(texts, whole, "the events of an append are incomplete or not adjacent");
        *found.entry(tag).or_default() += 1;
    }
    found
}

#[tokio::test]
async fn killed_at_any_moment_it_keeps_what_it_acknowledged() {
    let kills = std::env::var("CHRONOVA_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills = kills.unwrap_or_else(|| rounds(60, 600));
    let mut folder = tempfile::tempdir().unwrap();
    let mut path = folder.path().join("log.db");
    let mut acknowledged = Vec::new();
    for run in 0_u64..kills {
        if run % KILLS_PER_LOG == 0 && run > 0 {
            // Each round verifies the whole log. A new log from time to time bounds the cost.
            acknowledged.clear();
            folder = tempfile::tempdir().unwrap();
            path = folder.path().join("log.db");
        }
        let mut child = spawn(CHILD, &path, run);
        // The first kills hit the log while it is being created.
        let after = usize::try_from(run * 37 % 211).unwrap();
        acknowledged.extend(kill_after(&mut child, after));
        let store = open(&path).unwrap();
        let found = appends(&store.read_all(Position::START, usize::MAX).await.unwrap());
        for tag in &acknowledged {
            assert_eq!(found.get(tag), Some(&1), "the log must have {tag} exactly once (run {run})");
        }
        assert!(found.values().all(|count| *count == 1));
        store.close().await;
        let verified = verify(&path, &VerifyOptions::default()).unwrap();
        assert_eq!(verified.damages, [], "run {run}");
    }
    println!("{kills} kills survived");
}

#[tokio::test]
async fn the_error_of_a_second_process_names_the_process_that_holds_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let mut child = spawn(CHILD, &path, 0);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "open"));
    let refused = open(&path).unwrap_err();
    assert_eq!(refused, StoreError::Locked { path: path.display().to_string(), pid: Some(child.id()) });
    assert!(refused.to_string().contains(&child.id().to_string()));
    child.kill().unwrap();
    child.wait().unwrap();
    let store = open(&path).expect("the log must open after its holder died");
    let again = open(&path).unwrap_err();
    assert!(matches!(again, StoreError::Locked { pid: Some(pid), .. } if pid == std::process::id()), "{again}");
    drop(store);
    open(&path).unwrap();
}

/// The line in which a child process says whether it opened the log, and the rest of its output. Without a reader, the
/// child would end.
fn first_word(child: &mut Child) -> (String, impl Iterator + use<>) {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let word = lines.find(|line| line == "open" || line.starts_with("locked by ")).unwrap();
    (word, lines)
}

#[test]
fn only_one_of_concurrent_processes_opens_a_log_and_the_others_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let races = rounds(4, 200);
    for race in 0..races {
        // The lock file names the previous process, which was killed.
        let mut children: Vec<Child> = (0..4).map(|_| spawn(CHILD, &path, race)).collect();
        let first_words: Vec<_> = children.iter_mut().map(first_word).collect();
        let winners: Vec<u32> = children
            .iter()
            .zip(&first_words)
            .filter(|(_, (word, _))| word == "open")
            .map(|(child, _)| child.id())
            .collect();
        assert_eq!(winners.len(), 1, "race {race}: {:?}", first_words.iter().map(|(word, _)| word).collect::<Vec<_>>());
        for (word, _) in first_words.iter().filter(|(word, _)| word != "open") {
            assert_eq!(*word, format!("locked by {}", winners[0]), "race {race}");
        }
        for mut child in children {
            // The refused processes have ended or are about to end.
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
    println!("{races} races of 4 processes, each with one winner");
    assert_eq!(verify(&path, &VerifyOptions::default()).unwrap().damages, []);
}

/// Appends with several writers until the log is full. Returns the number of acknowledged appends.
async fn fill(store: &dyn EventStore, run: &str) -> usize {
    let mut acknowledged = 0;
    for round in 0..20_000 {
        let appends = (0..8).map(|n| {
            let (stream, new) = (StreamId::new("process", n % 5), tagged(&format!("{run}/{round}/{n}")));
            async move { store.append(&stream, Expected::Any, new).await }
        });
        let mut full = false;
        for done in futures::future::join_all(appends).await {
            match done {
                Ok(_) => acknowledged += 1,
                Err(AppendError::Store(StoreError::Full)) => full = true,
                Err(other) => panic!("{other}"),
            }
        }
        if full {
            return acknowledged;
        }
    }
    panic!("the log never became full");
}

async fn holds(store: &SqliteStore, count: usize) {
    let found = appends(&store.read_all(Position::START, usize::MAX).await.unwrap());
    assert_eq!(found.len(), count);
    assert_eq!(store.head(), Position((count * EVENTS_PER_APPEND) as u64));
    assert_eq!(store.verify().await.unwrap().events, (count * EVENTS_PER_APPEND) as u64);
}

#[tokio::test]
async fn a_log_at_its_limit_refuses_and_goes_on_with_more_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let small = SqliteOptions { max_pages: Some(100), ..SqliteOptions::default() };
    let store = SqliteStore::open(&path, &small).unwrap();
    let first = fill(&*store, "small").await;
    assert!(first > 100);
    holds(&store, first).await;
    // A stream that only a refused append names does not exist.
    let fresh = StreamId::new("process", "fresh");
    let refused = store.append(&fresh, Expected::Any, vec![event("x".repeat(100_000))]).await;
    assert_eq!(refused, Err(StoreError::Full.into()));
    assert!(store.read_stream(&fresh, chronova_events::envelope::Revision::NONE, 9).await.unwrap().is_empty());
    store.close().await;
    let larger = SqliteOptions { max_pages: Some(200), ..SqliteOptions::default() };
    let store = SqliteStore::open(&path, &larger).unwrap();
    let second = fill(&*store, "larger").await;
    assert!(second > 50);
    holds(&store, first + second).await;
}

/// A small file system of its own.
struct SmallDisk(PathBuf, #[allow(dead_code)] tempfile::TempDir);

impl SmallDisk {
    /// Mounts a file system in memory. `None` if this user may not mount.
    fn tmpfs(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&path).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then_some(Self(path, folder))
    }

    /// Mounts ext4 in a file. It has a journal, and allocates blocks late.
    fn ext4(size: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (image, path) = (folder.path().join("image"), folder.path().join("mounted"));
        std::fs::create_dir(&path).unwrap();
        std::fs::File::create(&image).unwrap().set_len(size).unwrap();
        let succeeds = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let made = succeeds(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image))
            && succeeds(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path));
        made.then_some(Self(path, folder))
    }

    /// Fills the disk except for about this many bytes.
    fn leave(&self, room: u64) {
        let mut ballast = std::fs::File::create(self.0.join("ballast")).unwrap();
        for step in [512 << 10, 8 << 10] {
            while ballast.write_all(&vec![1; step]).and_then(|()| ballast.sync_data()).is_ok() {}
        }
        let length = ballast.metadata().unwrap().len();
        ballast.set_len(length.saturating_sub(room)).unwrap();
        // After this sync, the freed blocks are certainly available.
        ballast.sync_all().unwrap();
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
        let _ = std::fs::File::open(&self.0).and_then(|folder| folder.sync_all());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The disk becomes full, stays full for a while, and gets space again, several times.
async fn on_a_full_disk(disk: &SmallDisk, times: u64, seed: u64) {
    let path = disk.0.join("log.db");
    let store = open(&path).unwrap();
    let mut acknowledged = 0;
    for time in 0..times {
        let room = 300_000 + (seed * 7_919 + time * 104_729) % 700_000;
        disk.leave(room);
        acknowledged += fill(&*store, &format!("full-{seed}.{time}")).await;
        for _ in 0..10 {
            let large = vec![event("x".repeat(50_000))];
            // A large event is refused as long as there is no space for it. A smaller event may still fit.
            match store.append(&StreamId::new("process", 1), Expected::Any, large).await {
                Err(AppendError::Store(StoreError::Full)) => {}
                other => panic!("on a full disk: {other:?}"),
            }
        }
        holds(&store, acknowledged).await;
        disk.make_room();
        for n in 0..30 {
            let tag = format!("room-{seed}.{time}/{n}");
            store.append(&StreamId::new("process", n % 5), Expected::Any, tagged(&tag)).await.expect("no space");
        }
        acknowledged += 30;
        holds(&store, acknowledged).await;
    }
    disk.leave(100_000);
    acknowledged += fill(&*store, &format!("last-{seed}")).await;
    // Copies the log to a disk with space, as if the process had crashed on the full disk.
    let roomy = tempfile::tempdir().unwrap();
    for name in ["log.db", "log.db-wal", "log.db.witness"] {
        std::fs::copy(disk.0.join(name), roomy.path().join(name)).unwrap();
    }
    drop(store);
    let store = open(&roomy.path().join("log.db")).unwrap();
    holds(&store, acknowledged).await;
    store.close().await;
    let store = open(&path).expect("the log must be readable on a full disk");
    holds(&store, acknowledged).await;
    store.close().await;
    disk.make_room();
    assert_eq!(verify(&path, &VerifyOptions::default()).unwrap().damages, []);
}

#[tokio::test]
async fn a_full_disk_refuses_and_goes_on_by_itself_once_there_is_room() {
    for seed in 0..rounds(1, 25) {
        let Some(disk) = SmallDisk::tmpfs("8m") else {
            println!("skipped: mounting a small file system needs root");
            return;
        };
        on_a_full_disk(&disk, rounds(2, 4), seed).await;
    }
}

#[tokio::test]
async fn a_full_ext4_refuses_and_goes_on_by_itself_once_there_is_room() {
    for seed in 0..rounds(1, 25) {
        let Some(disk) = SmallDisk::ext4(16 << 20) else {
            println!("skipped: a file cannot be mounted as a file system here");
            return;
        };
        on_a_full_disk(&disk, rounds(2, 4), seed).await;
    }
}
