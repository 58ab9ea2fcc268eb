//! Tests the back end against a server of EventStoreDB's protocol: `chronova serve-log` serves our own log in another
//! process.
//!
//! The program is `CHRONOVA_BIN`, or the one built beside this test. Without a program, the tests fail.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronova_events::envelope::{Position, Revision, StreamId};
use chronova_events::event_store_conformance;
use chronova_events::store::conformance::{Backend, event, text};
use chronova_events::store::eventstoredb::{EventStoreDb, EventStoreDbOptions};
use chronova_events::store::{EventStore, Expected};
use tempfile::TempDir;

fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHRONOVA_BIN") {
        return Some(named.into());
    }
    // This test is target/debug/deps/THIS; the program is target/debug/chronova.
    let beside = std::env::current_exe().ok()?.parent()?.parent()?.join("chronova");
    beside.is_file().then_some(beside)
}

/// A served log, which is empty at first.
struct Served {
    folder: TempDir,
    address: SocketAddr,
    process: Mutex<Option<Child>>,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = format!(
            "[eventstoredb]\nlisten = {address}\nusers = test:peer:a-long-password\nusers = reader:read:another-one\n"
        );
        std::fs::write(folder.path().join("log.conf"), config).unwrap();
        let served = Self { folder, address, process: Mutex::new(None) };
        served.start();
        served
    }

    fn start(&self) {
        let program = program().expect("CHRONOVA_BIN names no program, and none was built beside this test");
        let mut process = Command::new(program)
            .arg("serve-log")
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .arg("--config-file")
            .arg(self.folder.path().join("log.conf"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        let listening = said.any(|line| line.unwrap().contains("is served"));
        assert!(listening, "the log is not served");
        std::thread::spawn(move || said.for_each(drop));
        *self.process.lock().unwrap() = Some(process);
    }

    fn kill(&self) {
        let mut process = self.process.lock().unwrap().take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    fn options(&self, user: &str) -> EventStoreDbOptions {
        EventStoreDbOptions {
            url: format!("esdb://{user}@{}?tls=false&discoveryInterval=50", self.address),
            snapshots: Some(self.folder.path().join("snapshots")),
            patience: Duration::from_secs(30),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the tests that connect run on several threads")]
    fn connect(&self) -> Arc<EventStoreDb> {
        let options = self.options("test:a-long-password");
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(EventStoreDb::connect(&options)))
            .unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.process.get_mut().unwrap().is_some() {
            self.kill();
        }
    }
}

impl Backend for Served {
    fn open(&self) -> Arc<dyn EventStore> {
        self.connect()
    }

    fn reopen(&self, store: Arc<dyn EventStore>) -> Arc<dyn EventStore> {
        drop(store);
        self.connect()
    }
}

event_store_conformance!(eventstoredb, Served::new());

/// The server is killed under a subscriber and a writer. Both continue at their positions, and no event is lost or
/// repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_reconnect_to_a_restarted_server() {
    let served = Arc::new(Served::new());
    let (store, stream) = (served.connect(), StreamId::new("process", "a"));
    let mut subscription = store.subscribe(Position::START);
    let follower = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.len() < 40 {
            seen.extend(subscription.next().await.unwrap().iter().map(|event| text(event)));
        }
        seen
    });
    for n in 0..40_u64 {
        if n % 10 == 5 {
            let served = Arc::clone(&served);
            tokio::task::spawn_blocking(move || {
                served.kill();
                served.start();
            })
            .await
            .unwrap();
        }
        let appended = store.append(&stream, Expected::Exact(Revision(n)), vec![event(n.to_string())]).await.unwrap();
        assert_eq!(appended.revision, Revision(n + 1));
    }
    assert_eq!(follower.await.unwrap(), (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Two processes on one log see each other's events. If both want the same revision, only one gets it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_share_one_log() {
    let served = Served::new();
    let (one, other, stream) = (served.connect(), served.connect(), StreamId::new("process", "a"));
    let mut subscription = other.subscribe(Position::START);
    one.append(&stream, Expected::Exact(Revision::NONE), vec![event("one")]).await.unwrap();
    assert_eq!(text(&subscription.next().await.unwrap()[0]), "one");
    other.append(&stream, Expected::Exact(Revision::NONE), vec![event("x")]).await.expect_err("the stream exists");
    let second = other.append(&stream, Expected::Exact(Revision(1)), vec![event("other")]).await.unwrap();
    let read = one.read_stream(&stream, Revision(1), 9).await.unwrap();
    assert_eq!((text(&read[0]), read[0].position), ("other".to_owned(), second.position));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wrong_password_says_so() {
    let served = Served::new();
    let refused = EventStoreDb::connect(&served.options("test:wrong")).await.unwrap_err();
    assert!(refused.to_string().contains("Access denied"), "{refused}");
    let reader = EventStoreDb::connect(&served.options("reader:another-one")).await.unwrap();
    let appended = reader.append(&StreamId::new("process", "a"), Expected::Any, vec![event("x")]).await;
    assert!(appended.unwrap_err().to_string().contains("Access denied"));
}
