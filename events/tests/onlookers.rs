//! Tests of the SQLite log while other programs read its file: auditors with a SQLite client, and backups.
//!
//! The other programs are processes of their own, because the locks that protect the write-ahead log work only between
//! processes. The tests use SQLite's shell if it is installed, otherwise Python's module.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chronova_events::envelope::{Position, StreamId};
use chronova_events::store::conformance::{event, text};
use chronova_events::store::sqlite::verify::{VerifyOptions, verify};
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected, StoreError};

use crate::child::{kill_after, log_and_run, say, spawn};

/// The full name of the test [`child`].
const CHILD: &str = "onlookers::child";
const WRITERS: usize = 8;
/// The number of kills of one log.
const EVERY: u64 = 10;

/// The usual number of kills, or the larger one of a soak run.
fn kills() -> u64 {
    let configured = std::env::var("CHRONOVA_KILLS").ok().and_then(|kills| kills.parse().ok());
    configured.unwrap_or(if std::env::var_os("CHRONOVA_SOAK").is_some() { 600 } else { 12 })
}

fn open(path: &Path) -> Result<Arc<SqliteStore>, StoreError> {
    // Checkpoints are frequent, because each of them reads the data file and moves the write-ahead log into it.
    SqliteStore::open(path, &SqliteOptions { checkpoint_pages: 60, ..SqliteOptions::default() })
}

/// Not a test, but the process that other tests kill. It appends endlessly and prints each acknowledged text.
#[test]
fn child() {
    let Some((path, run)) = log_and_run() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        let store = open(&path).unwrap();
        let writers = (0..WRITERS).map(|writer| {
            let (store, run) = (Arc::clone(&store), run.clone());
            tokio::spawn(async move {
                let stream = StreamId::new("process", writer);
                for n in 0.. {
                    let text = format!("{run}/{writer}/{n}");
                    match store.append(&stream, Expected::Any, vec![event(text.clone())]).await {
                        Ok(_) => say(&format!("ack {text}")),
                        Err(error) => return say(&format!("refused {error}")),
                    }
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
}

const PYTHON: &str = "import sqlite3, sys
log = sqlite3.connect(sys.argv[1])
log.backup(sqlite3.connect(sys.argv[2])) if len(sys.argv) > 2 else log.execute('select count(*) from events').fetchone()
log.close()";

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The commands: a query and a backup by SQLite, and a plain copy of the file.
fn looks(path: &Path, copy: &Path) -> Vec<Command> {
    let mut all = Vec::new();
    if is_there("sqlite3") {
        for sql in ["select count(*) from events".to_owned(), format!(".backup '{}'", copy.display())] {
            let mut command = Command::new("sqlite3");
            command.arg(path).arg(sql);
            all.push(command);
        }
    } else {
        for copy in [None, Some(copy)] {
            let mut command = Command::new("python3");
            command.args(["-c", PYTHON]).arg(path).args(copy);
            all.push(command);
        }
    }
    let mut command = Command::new("cp");
    command.arg(path).arg(copy.with_extension("cp"));
    all.push(command);
    for command in &mut all {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    all
}

/// Programs that read a log. Each is started again and again until this value is dropped.
struct Onlookers {
    stop: Arc<AtomicBool>,
    looked: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Onlookers {
    fn at(path: &Path) -> Self {
        let copy = path.with_file_name("copy");
        let (stop, looked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = looks(path, &copy).into_iter().map(|mut command| {
            let (stop, looked) = (Arc::clone(&stop), Arc::clone(&looked));
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    // A program that reads a log during a kill may fail. The log may not fail.
                    if command.status().is_ok_and(|status| status.success()) {
                        looked.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        });
        Self { threads: threads.collect(), stop, looked }
    }

    /// Stops the programs. Returns the number of successful reads.
    fn leave(mut self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        self.looked.load(Ordering::SeqCst)
    }
}

impl Drop for Onlookers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

async fn texts(store: &SqliteStore) -> Vec<String> {
    store.read_all(Position::START, usize::MAX).await.unwrap().iter().map(|event| text(event)).collect()
}

#[tokio::test]
async fn a_log_killed_beside_readers_of_its_file_keeps_acknowledged_appends() {
    let (kills, mut looked) = (kills(), 0);
    let mut folder = tempfile::tempdir().unwrap();
    let mut path = folder.path().join("log.db");
    let mut acknowledged = Vec::new();
    for run in 0..kills {
        if run % EVERY == 0 && run > 0 {
            // Each round verifies the whole log. A new log from time to time bounds the cost.
            acknowledged.clear();
            folder = tempfile::tempdir().unwrap();
            path = folder.path().join("log.db");
        }
        // The log is created before any program reads it, because SQLite's shell would create a file of its own.
        drop(open(&path).unwrap());
        let onlookers = Onlookers::at(&path);
        let mut child = spawn(CHILD, &path, run);
        let after = usize::try_from(200 + run * 97 % 900).unwrap();
        acknowledged.extend(kill_after(&mut child, after));
        // The programs continue while the log is opened again. One of them may have been the last user of the old file.
        let store = open(&path).unwrap_or_else(|error| panic!("the log does not open after kill {run}: {error}"));
        let found = texts(&store).await;
        let distinct: BTreeSet<&String> = found.iter().collect();
        assert_eq!(distinct.len(), found.len(), "an event is in the log twice");
        for text in &acknowledged {
            assert!(distinct.contains(text), "the acknowledged event {text} is missing (run {run})");
        }
        looked += onlookers.leave();
        store.close().await;
        drop(store);
        let verified = verify(&path, &VerifyOptions::default()).unwrap();
        assert_eq!(verified.damages, [], "run {run}");
    }
    assert!(looked > 0, "no other program has read the log");
    println!("{kills} kills survived beside {looked} looks");
}

/// After a server was killed, the last SQLite client that closes the data file moves the write-ahead log into the data
/// file, without sealing.
#[tokio::test]
async fn a_log_last_closed_by_another_program_is_not_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let mut child = spawn(CHILD, &path, 0);
    let acknowledged = kill_after(&mut child, 300);
    for mut command in looks(&path, &path.with_file_name("copy")) {
        assert!(command.status().unwrap().success());
    }
    let seen = verify(&path, &VerifyOptions::default()).unwrap();
    assert_eq!(seen.damages, [], "{:?}", seen.remarks);
    let store = open(&path).unwrap();
    assert!(texts(&store).await.len() >= acknowledged.len());
    store.close().await;
    drop(store);
    let verified = verify(&path, &VerifyOptions::default()).unwrap();
    assert_eq!(verified.damages, []);
    assert!(verified.pages > 0, "the pages must be sealed again: {:?}", verified.remarks);
}

/// Removes or replaces the named file of a log under its writer.
fn take_away(path: &Path, suffix: &str, replace: bool) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    let file = PathBuf::from(name);
    if replace {
        let copy = path.with_file_name("replacement");
        std::fs::copy(&file, &copy).unwrap();
        std::fs::rename(copy, &file).unwrap();
    } else {
        std::fs::remove_file(&file).unwrap();
    }
    file
}

/// Writes to a removed file are lost when the process ends.
#[tokio::test]
async fn a_log_with_a_removed_or_replaced_file_acknowledges_no_more() {
    for (suffix, replace) in
        [("-wal", false), ("-wal", true), (".keys", false), (".keys", true), (".lock", false), ("", true)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        let store = open(&path).unwrap();
        let stream = StreamId::new("process", "a");
        for n in 0..20 {
            store.append(&stream, Expected::Any, vec![event(n.to_string())]).await.unwrap();
        }
        let gone = take_away(&path, suffix, replace);
        for _ in 0..3 {
            let refused = store.append(&stream, Expected::Any, vec![event("late")]).await;
            let refused = refused.expect_err(&format!("{suffix} {replace}: no later append may succeed")).to_string();
            assert!(refused.contains(&gone.display().to_string()), "the error must name the file: {refused}");
        }
        assert_eq!(store.head(), Position(20), "readers must see no later event");
    }
}
