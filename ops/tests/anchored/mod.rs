//! `audit anchor` and `audit verify-anchors`: a file of signed anchors, and what it proves.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova::commands::audit::anchors::{self, AnchorArgs, AnchorVerifyArgs};
use chronova::commands::audit::export::keys;
use chronova::commands::{CommandFailure, Exit};
use chronova_events::envelope::{Meta, NewEvent, StreamId};
use chronova_events::instance::{InstanceEvent, Renamed};
use chronova_events::place::PlaceAddress;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use serde_json::Value;

use super::NOW;
use super::forwarding::request;
use crate::log::{self, WEB, filled};

/// A folder with a key and the file of anchors.
struct AnchorFolder(tempfile::TempDir);

impl AnchorFolder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        keys::run(&keys::ExportKeysArgs { out: folder.path("key") }, &mut Vec::new()).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self) -> PlaceAddress {
        PlaceAddress::Folder(self.path("anchors"))
    }

    fn args(&self) -> AnchorArgs {
        AnchorArgs { sign_key: self.path("key"), out: self.file(), tsa: None, cacert: None }
    }

    async fn anchor(&self, store: &MemoryStore) -> Result<(Exit, String), CommandFailure> {
        let mut out = Vec::new();
        let exit = anchors::run(&self.args(), store, &self.path("tree"), NOW, &mut out).await?;
        Ok((exit, String::from_utf8(out).unwrap()))
    }

    async fn verify(&self, store: Option<&MemoryStore>, key: &str) -> (Exit, String) {
        let args = AnchorVerifyArgs { file: self.file(), public_key: self.path(key) };
        let store = store.map(|store| store as &dyn EventStore);
        let mut out = Vec::new();
        let exit = anchors::verify(&args, store, &self.path("tree"), &mut out).await.unwrap();
        (exit, String::from_utf8(out).unwrap())
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(self.path("anchors")).unwrap().lines().map(str::to_owned).collect()
    }
}

fn append(path: &Path, text: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn anchors_continue_each_other_and_are_valid() {
    let (store, folder) = (filled().await, AnchorFolder::new());
    let head = store.head().0;
    let (exit, told) = folder.anchor(&store).await.unwrap();
    assert!(exit == Exit::Yes && told.starts_with(&format!("{head}:")), "{told}");
    let (_, again) = folder.anchor(&store).await.unwrap();
    assert!(again.contains("is the last anchor") && folder.lines().len() == 1, "{again}");
    log::add_one(&store).await;
    folder.anchor(&store).await.unwrap();
    assert_eq!(folder.lines().len(), 2);
    let after = head + 1;
    let whole = (Exit::Yes, format!("valid: 2 anchors, up to position {after}\n"));
    assert_eq!(folder.verify(None, "key.pub").await, whole);
    let with = (Exit::Yes, format!("valid: 2 anchors, up to position {after}, as the log has them\n"));
    assert_eq!(folder.verify(Some(&store), "key.pub").await, with);
    // A crash has left a part of a line. The next anchor removes it.
    append(&folder.path("anchors"), "{\"format\":\"chron");
    log::add_one(&store).await;
    folder.anchor(&store).await.unwrap();
    assert_eq!(folder.lines().len(), 3);
    assert_eq!(folder.verify(Some(&store), "key.pub").await.0, Exit::Yes);
}

#[tokio::test]
async fn a_changed_anchor_or_another_log_is_found() {
    let (store, folder) = (filled().await, AnchorFolder::new());
    folder.anchor(&store).await.unwrap();
    log::add_one(&store).await;
    folder.anchor(&store).await.unwrap();
    let lines = folder.lines();
    let write = |lines: &[String]| std::fs::write(folder.path("anchors"), lines.join("\n") + "\n").unwrap();
    // Each field is signed.
    for field in ["log", "chain", "tree", "time", "signature"] {
        let mut line: Value = serde_json::from_str(&lines[0]).unwrap();
        let text = line[field].as_str().unwrap().to_owned();
        let other = if text.starts_with('1') { '2' } else { '1' };
        line[field] = Value::from(format!("{other}{}", &text[1..]));
        write(&[line.to_string(), lines[1].clone()]);
        let (exit, told) = folder.verify(None, "key.pub").await;
        assert!(exit == Exit::No && told.starts_with("NOT valid: line 1: "), "{field}: {told}");
    }
    write(&[lines[1].clone(), lines[0].clone()]);
    assert!(folder.verify(None, "key.pub").await.1.contains("line 2: position"));
    std::fs::write(folder.path("anchors"), "").unwrap();
    let (exit, told) = folder.verify(None, "key.pub").await;
    assert!(exit == Exit::No && told.contains("has no anchor"), "{told}");
    write(&lines);
    keys::run(&keys::ExportKeysArgs { out: folder.path("other") }, &mut Vec::new()).unwrap();
    assert!(folder.verify(None, "other.pub").await.1.contains("not signed by this key"));
    // The anchors do not verify against a log that was restored to an earlier moment, or against another log.
    let (_, told) = folder.verify(Some(&*filled().await), "key.pub").await;
    assert!(told.contains("line 2: the log ends at position"), "{told}");
    let other = MemoryStore::new();
    let name = |n: u32| InstanceEvent::from(Renamed { name: format!("name-{n}") });
    let news = (0..60).map(|n| NewEvent::new(name(n), NOW, &Meta::system("test"))).collect();
    other.append(&StreamId::new("instance", WEB), Expected::Any, news).await.unwrap();
    assert!(folder.verify(Some(&other), "key.pub").await.1.contains("line 1: it is of another log"));
    let (exit, told) = folder.anchor(&other).await.unwrap();
    assert!(exit == Exit::No && told.contains("another log") && folder.lines() == lines, "{told}");
    // This log has the same first event, but a later event differs.
    let changed = MemoryStore::new();
    for event in store.read_all(chronova_events::envelope::Position(0), 1_000).await.unwrap() {
        let new = NewEvent {
            id: event.id,
            event: Arc::clone(event.event().unwrap()),
            // An event with another time has another hash.
            recorded_at: if event.position.0 == 9 { NOW } else { event.recorded_at },
            meta: Arc::clone(&event.meta),
        };
        changed.append(&event.stream, Expected::Any, vec![new]).await.unwrap();
    }
    let (_, told) = folder.verify(Some(&changed), "key.pub").await;
    assert!(told.contains("line 1: the log has another event at position"), "{told}");
}

/// An authority that answers with this status, and with the digest of the request.
fn authority(status: u8) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (head, body) = request(&mut stream);
        assert!(head.to_lowercase().contains("content-type: application/timestamp-query"), "{head}");
        let reply = [&[0x30, 39, 0x30, 3, 2, 1, status, 4, 32][..], &body[24..56]].concat();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", reply.len());
        stream.write_all(&[head.as_bytes(), &reply].concat()).unwrap();
    });
    url
}

#[tokio::test]
async fn an_authority_confirms_the_time() {
    let (store, folder) = (filled().await, AnchorFolder::new());
    let run = async |tsa: String| {
        let args = AnchorArgs { tsa: Some(tsa), ..folder.args() };
        anchors::run(&args, &*store, &folder.path("tree"), NOW, &mut Vec::new()).await
    };
    let refused = run(authority(2)).await.unwrap_err().to_string();
    assert!(refused.contains("the authority's status is 2"), "{refused}");
    assert_eq!(folder.lines(), Vec::<String>::new(), "without a time stamp there is no anchor");
    run(authority(0)).await.unwrap();
    let line: Value = serde_json::from_str(&folder.lines()[0]).unwrap();
    assert!(line["stamp"].as_str().is_some_and(|stamp| stamp.len() > 40), "{line}");
    assert_eq!(folder.verify(Some(&store), "key.pub").await.0, Exit::Yes);
}
