//! `audit forward`: every selected event reaches a web server at least once and in order, whatever fails in between. A
//! collector of syslog gets the events in order.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronova::commands::audit::forward::{self, DeliveryPauses, ForwardArgs};
use chronova::commands::{CommandFailure, Exit};
use chronova_events::envelope::{Meta, NewEvent, StreamId};
use chronova_events::instance::{InstanceEvent, Renamed};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use serde_json::Value;

use super::{NOW, audited, positions};
use crate::log::{self, WEB, filled};

/// The receiver's reaction to a request.
#[derive(Debug, Clone, Copy)]
enum Reaction {
    Answer(u16),
    /// It reads the request and closes the connection without an answer.
    HangUp,
}

/// A web server that keeps the events that it has accepted. When its script ends, it accepts everything.
struct FakeReceiver {
    url: String,
    accepted: Arc<Mutex<Vec<Value>>>,
    heads: Arc<Mutex<Vec<String>>>,
    script: Arc<Mutex<Vec<Reaction>>>,
}

impl FakeReceiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Self {
            url: format!("http://{}/events", listener.local_addr().unwrap()),
            accepted: Arc::default(),
            heads: Arc::default(),
            script: Arc::default(),
        };
        let (accepted, heads, script) =
            (Arc::clone(&receiver.accepted), Arc::clone(&receiver.heads), Arc::clone(&receiver.script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (head, body) = request(&mut stream);
                heads.lock().unwrap().push(head);
                let mut script = script.lock().unwrap();
                let next = if script.is_empty() { Reaction::Answer(204) } else { script.remove(0) };
                let Reaction::Answer(status) = next else { continue };
                if status < 300 {
                    let events: Vec<Value> = serde_json::from_slice(&body).unwrap();
                    accepted.lock().unwrap().extend(events);
                }
                let place = if (300..400).contains(&status) { "Location: /elsewhere\r\n" } else { "" };
                let answer = format!("HTTP/1.1 {status} X\r\n{place}Content-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        receiver
    }

    fn react(&self, script: &[Reaction]) {
        script.clone_into(&mut self.script.lock().unwrap());
    }

    fn positions(&self) -> Vec<u64> {
        self.accepted.lock().unwrap().iter().map(|event| event["data"]["position"].as_u64().unwrap()).collect()
    }
}

/// The head and the body of a request.
pub(super) fn request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while reader.read_line(&mut head).unwrap() > 2 {}
    let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}

fn args(to: &str, outbox: PathBuf) -> ForwardArgs {
    ForwardArgs {
        to: to.to_owned(),
        outbox,
        stream: Vec::new(),
        kind: Vec::new(),
        from_position: None,
        personal: false,
        token_file: None,
        cacert: None,
        batch: 4,
        once: true,
    }
}

async fn forwarded(args: &ForwardArgs, store: &MemoryStore) -> Result<String, CommandFailure> {
    let pauses = DeliveryPauses { shortest: Duration::from_millis(1), longest: Duration::from_millis(4) };
    let mut out = Vec::new();
    assert_eq!(forward::run(args, store, pauses, &mut out).await?, Exit::Yes);
    Ok(String::from_utf8(out).unwrap())
}

fn position_in(outbox: &Path) -> u64 {
    let state: Value = serde_json::from_slice(&std::fs::read(outbox).unwrap()).unwrap();
    state["position"].as_u64().unwrap()
}

async fn all_positions(store: &Arc<MemoryStore>) -> Vec<u64> {
    positions(&audited(store, chronova::commands::audit::AuditArgs::default()).await)
}

#[tokio::test]
async fn a_receiver_gets_every_event_although_it_fails() {
    let (store, folder, receiver) = (filled().await, tempfile::tempdir().unwrap(), FakeReceiver::start());
    let args = args(&receiver.url, folder.path().join("outbox"));
    receiver.react(&[Reaction::Answer(503), Reaction::HangUp, Reaction::Answer(204), Reaction::Answer(429)]);
    let told = forwarded(&args, &store).await.unwrap();
    assert_eq!(told.matches("are not delivered").count(), 3, "{told}");
    let all = all_positions(&store).await;
    assert_eq!(receiver.positions(), all);
    assert!(told.ends_with(&format!(
        "{} events are delivered; the outbox is at position {}\n",
        all.len(),
        store.head()
    )));
    let head = receiver.heads.lock().unwrap()[0].to_lowercase();
    assert!(head.contains("content-type: application/cloudevents-batch+json"), "{head}");
    // Only what is new is sent.
    assert!(forwarded(&args, &store).await.unwrap().starts_with("0 events"));
    log::add_one(&store).await;
    assert!(forwarded(&args, &store).await.unwrap().starts_with("1 events"));
    assert_eq!(receiver.positions(), all_positions(&store).await);
}

/// The command ends at two moments of each step: before the delivery, and between the delivery and the record in the
/// outbox. The next run continues.
#[tokio::test]
async fn a_command_that_ends_at_any_step_loses_nothing() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let all = all_positions(&store).await;
    let batches = all.len().div_ceil(4);
    for step in 0..batches {
        let receiver = FakeReceiver::start();
        let outbox = folder.path().join(format!("before-{step}"));
        let args = args(&receiver.url, outbox.clone());
        // The batch of this step is refused for good, and the command ends.
        let mut script = vec![Reaction::Answer(200); step];
        script.push(Reaction::Answer(400));
        receiver.react(&script);
        let refused = forwarded(&args, &store).await.unwrap_err().to_string();
        assert!(refused.contains("the status is 400"), "{refused}");
        assert_eq!(receiver.positions(), all[..4 * step], "nothing after the refused batch is sent");
        forwarded(&args, &store).await.unwrap();
        assert_eq!(receiver.positions(), all, "step {step}");

        // The outbox is put back to its content before the delivery of this step.
        let receiver = FakeReceiver::start();
        let args =
            ForwardArgs { to: receiver.url.clone(), outbox: folder.path().join(format!("after-{step}")), ..args };
        let mut script = vec![Reaction::Answer(200); step];
        script.push(Reaction::Answer(400));
        receiver.react(&script);
        forwarded(&args, &store).await.unwrap_err();
        let before = std::fs::read(&args.outbox).ok();
        forwarded(&args, &store).await.unwrap();
        match before {
            Some(before) => std::fs::write(&args.outbox, before).unwrap(),
            None => std::fs::remove_file(&args.outbox).unwrap(),
        }
        forwarded(&args, &store).await.unwrap();
        let got = receiver.positions();
        assert_eq!(got.iter().copied().collect::<BTreeSet<u64>>(), all.iter().copied().collect(), "step {step}");
        assert_eq!(got[all.len()..], all[4 * step..], "what was not recorded is sent again");
    }
}

#[tokio::test]
async fn a_redirection_is_no_delivery() {
    let (store, folder, receiver) = (filled().await, tempfile::tempdir().unwrap(), FakeReceiver::start());
    let args = args(&receiver.url, folder.path().join("outbox"));
    receiver.react(&[Reaction::Answer(302)]);
    let refused = forwarded(&args, &store).await.unwrap_err().to_string();
    assert!(refused.contains("the status is 302"), "{refused}");
    assert_eq!(receiver.heads.lock().unwrap().len(), 1, "the redirection is not followed");
    assert!(!args.outbox.exists());
    forwarded(&args, &store).await.unwrap();
    assert_eq!(receiver.positions(), all_positions(&store).await);
}

#[tokio::test]
async fn an_outbox_that_cannot_be_written_ends_the_command() {
    let (store, folder, receiver) = (filled().await, tempfile::tempdir().unwrap(), FakeReceiver::start());
    let outbox = folder.path().join("outbox");
    let args = args(&receiver.url, outbox.clone());
    std::fs::create_dir(folder.path().join("outbox.new")).unwrap();
    forwarded(&args, &store).await.unwrap_err();
    assert_eq!(receiver.positions().len(), 4, "the command ends after the first delivery");
    assert!(!outbox.exists());
    std::fs::remove_dir(folder.path().join("outbox.new")).unwrap();
    forwarded(&args, &store).await.unwrap();
    assert_eq!(receiver.positions()[4..], all_positions(&store).await);
}

#[tokio::test]
async fn filters_and_personal_fields() {
    let (store, folder, receiver) = (filled().await, tempfile::tempdir().unwrap(), FakeReceiver::start());
    let mut some = args(&receiver.url, folder.path().join("some"));
    some.kind = vec!["instance.build_requested".into()];
    some.token_file = Some(folder.path().join("token"));
    std::fs::write(folder.path().join("token"), "key-of-the-siem\n").unwrap();
    forwarded(&some, &store).await.unwrap();
    assert_eq!(position_in(&some.outbox), store.head().0, "events that are not selected are passed, too");
    let sent = receiver.accepted.lock().unwrap().clone();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|event| event["type"] == "chronova.instance.build_requested"), "{sent:?}");
    assert!(!sent[0].to_string().contains("web-1"), "the name of a server is a personal field: {}", sent[0]);
    assert!(receiver.heads.lock().unwrap()[0].to_lowercase().contains("authorization: bearer key-of-the-siem\r\n"));
    let personal = ForwardArgs { personal: true, outbox: folder.path().join("personal"), ..some };
    forwarded(&personal, &store).await.unwrap();
    assert!(receiver.accepted.lock().unwrap()[2].to_string().contains("web-1"));
}

#[tokio::test]
async fn an_outbox_belongs_to_one_log_and_one_destination() {
    let (store, folder, receiver) = (filled().await, tempfile::tempdir().unwrap(), FakeReceiver::start());
    let right = args(&receiver.url, folder.path().join("outbox"));
    forwarded(&right, &store).await.unwrap();
    let refused = async |args: &ForwardArgs, store: &MemoryStore| forwarded(args, store).await.unwrap_err().to_string();
    let elsewhere = ForwardArgs { to: "http://127.0.0.1:1/".into(), ..right.clone() };
    assert!(refused(&elsewhere, &store).await.contains("it belongs to http://127.0.0.1"));
    let begins = ForwardArgs { from_position: Some(3), ..right.clone() };
    assert!(refused(&begins, &store).await.contains("it has a position already"));
    let unknown = ForwardArgs { to: "kafka://x".into(), ..right.clone() };
    assert!(refused(&unknown, &store).await.contains("begins with http://"));
    let secure = ForwardArgs { to: "https://127.0.0.1:1/".into(), ..right.clone() };
    assert!(refused(&secure, &store).await.contains("needs --cacert"));
    for wrong in ["syslog+tcp://", "syslog+tcp://localhost", "syslog+tcp://:514", "syslog+tcp://h:port"] {
        let nowhere = ForwardArgs { to: wrong.into(), ..right.clone() };
        assert!(refused(&nowhere, &store).await.contains("syslog+tcp://HOST:PORT"), "{wrong}");
    }
    // The log was restored to an earlier moment, and then got other events.
    let shorter = MemoryStore::new();
    assert!(refused(&right, &shorter).await.contains("the log ends at 0"));
    let name = |n: u32| InstanceEvent::from(Renamed { name: format!("name-{n}") });
    let news = (0..50).map(|n| NewEvent::new(name(n), NOW, &Meta::system("test"))).collect();
    shorter.append(&StreamId::new("instance", WEB), Expected::Any, news).await.unwrap();
    assert!(refused(&right, &shorter).await.contains("another log"));
    assert_eq!(position_in(&right.outbox), store.head().0, "a refusal changes nothing");
    // A new outbox may begin at a position.
    let late = ForwardArgs { from_position: Some(5), outbox: folder.path().join("late"), ..right };
    let before = receiver.positions().len();
    forwarded(&late, &store).await.unwrap();
    assert_eq!(receiver.positions()[before], 5);
}

/// The lengths before the messages divide the stream of bytes.
#[tokio::test]
async fn a_collector_of_syslog_gets_framed_messages() {
    let (store, folder) = (filled().await, tempfile::tempdir().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("syslog+tcp://{}", listener.local_addr().unwrap());
    let collecting = std::thread::spawn(move || {
        let mut text = String::new();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let told = forwarded(&args(&to, folder.path().join("outbox")), &store).await.unwrap();
    assert!(!told.contains("not delivered"), "{told}");
    let text = collecting.join().unwrap();
    let (mut rest, mut found) = (text.as_str(), Vec::new());
    while let Some((length, after)) = rest.split_once(' ') {
        let (message, next) = after.split_at(length.parse().unwrap());
        let (head, line) = message.split_once("] ").unwrap();
        assert!(head.starts_with("<109>1 2026-") || head.starts_with("<108>1 2026-"), "{head}");
        found.push(serde_json::from_str::<Value>(line).unwrap()["position"].as_u64().unwrap());
        rest = next;
    }
    assert_eq!(found, all_positions(&store).await);
    assert!(text.contains(" - chronova - instance.build_failed [meta sequenceId="), "{text}");
}
