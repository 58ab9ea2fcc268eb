//! The contract of [`EventStore`] as one test suite that every back end must pass.
//!
//! To add a back end, implement [`Backend`] in a test and write `event_store_conformance!(name, factory)`. `factory`
//! returns a [`Backend`] with an empty log. Each case is a function of its own. `tests/model.rs` calls [`equals_model`]
//! with random operations.

// Other crates compile this test suite, so it is no test module. A case reports a failure by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use super::memory::MemoryStore;
use super::{AppendError, EventStore, Expected, StreamSnapshot};
use crate::chain::{Anchor, Chain, EventHash};
use crate::codec::MAX_PAYLOAD;
use crate::envelope::{Cause, Meta, NewEvent, Position, Recorded, RequestSource, Revision, StreamId, Timestamp};
use crate::ids::{EventId, ProcessId, ProjectId, RequestId, UserId};
use crate::process::{ProcessEvent, StepUndone};
use crate::registry::{Event, NounEvent};

/// Storage for one log, which is empty at first.
pub trait Backend: Send + Sync {
    fn open(&self) -> Arc<dyn EventStore>;

    /// Closes `store` (this is its last handle) and opens its log again.
    fn reopen(&self, store: Arc<dyn EventStore>) -> Arc<dyn EventStore>;
}

/// The model in memory. It cannot be closed: reopening returns the same log.
#[derive(Debug)]
pub struct MemoryFixture(pub Arc<MemoryStore>);

impl Default for MemoryFixture {
    fn default() -> Self {
        Self(MemoryStore::new())
    }
}

impl Backend for MemoryFixture {
    fn open(&self) -> Arc<dyn EventStore> {
        self.0.clone()
    }

    fn reopen(&self, store: Arc<dyn EventStore>) -> Arc<dyn EventStore> {
        store
    }
}

/// Instantiates the suite for one back end.
#[macro_export]
macro_rules! event_store_conformance {
    ($name:ident, $factory:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::event_store_conformance!(@cases $factory;
                an_append_tells_where_it_ended,
                an_exact_expectation_is_held,
                an_append_is_all_or_nothing,
                any_appends_at_every_revision,
                an_empty_append_writes_nothing,
                a_stream_is_read_in_parts,
                the_whole_log_is_read_in_parts,
                what_is_read_is_what_was_written,
                unicode_survives_a_round_trip,
                hashes_form_one_chain,
                too_large_a_payload_is_refused,
                the_log_survives_being_reopened,
                snapshots_are_kept_and_replaced,
                one_of_many_writers_wins,
                many_writers_of_any_all_win,
                a_subscriber_sees_everything_once,
                a_subscriber_catches_up_and_goes_on_live,
                a_subscriber_goes_on_where_it_was,
                a_subscriber_does_not_wait_when_asked_not_to,
            );
        }
    };
    (@cases $factory:expr; $($case:ident,)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $case() {
            $crate::store::conformance::$case(&$factory).await;
        }
    )+};
}

fn stream(name: &str) -> StreamId {
    StreamId::new("process", name)
}

/// An event that is identified by `text`.
pub fn event(text: impl Into<String>) -> NewEvent {
    let payload = ProcessEvent::from(StepUndone { step: text.into() });
    NewEvent::new(payload, Timestamp(1_700_000_000_000_001), &Meta::system("conformance"))
}

fn events<const N: usize>(texts: [&str; N]) -> Vec<NewEvent> {
    texts.into_iter().map(event).collect()
}

/// The text of an event made by [`event`].
pub fn text(recorded: &Recorded) -> String {
    match ProcessEvent::of(recorded.event().expect("an appended event must decode")) {
        Some(ProcessEvent::StepUndone(undone)) => undone.step.clone(),
        other => panic!("{other:?} was never appended"),
    }
}

fn texts(events: &[Arc<Recorded>]) -> Vec<String> {
    events.iter().map(|event| text(event)).collect()
}

fn exact(revision: u64) -> Expected {
    Expected::Exact(Revision(revision))
}

pub async fn an_append_tells_where_it_ended(backend: &dyn Backend) {
    let store = backend.open();
    assert_eq!(store.head(), Position::START);
    let first = store.append(&stream("a"), exact(0), events(["1", "2"])).await.unwrap();
    assert_eq!(first.revision, Revision(2));
    assert_eq!(store.head(), first.position);
    let other = store.append(&stream("b"), exact(0), events(["3"])).await.unwrap();
    assert_eq!(other.revision, Revision(1));
    assert!(other.position > first.position);
    let last = store.append(&stream("a"), exact(2), events(["4"])).await.unwrap();
    assert_eq!(last.revision, Revision(3));
    assert!(last.position > other.position);
    assert_eq!(store.head(), last.position);
}

pub async fn an_exact_expectation_is_held(backend: &dyn Backend) {
    let mut store = backend.open();
    let a = stream("a");
    for wrong in [1, 7, u64::MAX] {
        let refused = store.append(&a, exact(wrong), events(["x"])).await.unwrap_err();
        let (expected, actual) = (Revision(wrong), Revision::NONE);
        assert_eq!(refused, AppendError::Conflict { stream: a.clone(), expected, actual });
    }
    store.append(&a, exact(0), events(["1"])).await.unwrap();
    for wrong in [0, 2] {
        let refused = store.append(&a, exact(wrong), events(["x"])).await.unwrap_err();
        let (expected, actual) = (Revision(wrong), Revision(1));
        assert_eq!(refused, AppendError::Conflict { stream: a.clone(), expected, actual });
        store = backend.reopen(store);
    }
    store.append(&a, exact(1), events(["2"])).await.unwrap();
    assert_eq!(texts(&store.read_stream(&a, Revision::NONE, 9).await.unwrap()), ["1", "2"]);
}

pub async fn an_append_is_all_or_nothing(backend: &dyn Backend) {
    let store = backend.open();
    let a = stream("a");
    store.append(&a, exact(0), events(["1"])).await.unwrap();
    let head = store.head();
    store.append(&a, exact(0), events(["x", "y", "z"])).await.unwrap_err();
    let mut with_too_large = events(["x", "y"]);
    with_too_large.push(event("z".repeat(MAX_PAYLOAD + 1)));
    store.append(&a, exact(1), with_too_large).await.unwrap_err();
    assert_eq!(store.head(), head);
    let store = backend.reopen(store);
    assert_eq!(store.head(), head);
    assert_eq!(texts(&store.read_all(Position::START, 9).await.unwrap()), ["1"]);
}

pub async fn any_appends_at_every_revision(backend: &dyn Backend) {
    let store = backend.open();
    for revision in 1..=3 {
        let appended = store.append(&stream("a"), Expected::Any, events(["x"])).await.unwrap();
        assert_eq!(appended.revision, Revision(revision));
    }
}

pub async fn an_empty_append_writes_nothing(backend: &dyn Backend) {
    let store = backend.open();
    let a = stream("a");
    let nothing = store.append(&a, exact(0), Vec::new()).await.unwrap();
    assert_eq!((nothing.revision, nothing.position), (Revision::NONE, Position::START));
    store.append(&a, exact(1), Vec::new()).await.expect_err("an empty append must check the revision, too");
    let first = store.append(&a, exact(0), events(["1"])).await.unwrap();
    let nothing = store.append(&a, Expected::Any, Vec::new()).await.unwrap();
    assert_eq!(nothing, first);
    assert_eq!(store.head(), first.position);
    assert_eq!(store.read_all(Position::START, 9).await.unwrap().len(), 1);
}

pub async fn a_stream_is_read_in_parts(backend: &dyn Backend) {
    let store = backend.open();
    let (a, b) = (stream("a"), stream("b"));
    assert!(store.read_stream(&a, Revision::NONE, 9).await.unwrap().is_empty());
    for text in ["1", "2", "3", "4", "5"] {
        store.append(&a, Expected::Any, events([text])).await.unwrap();
        store.append(&b, Expected::Any, events(["other"])).await.unwrap();
    }
    let store = backend.reopen(store);
    let part = |after, limit| {
        let (store, a) = (Arc::clone(&store), a.clone());
        async move { texts(&store.read_stream(&a, Revision(after), limit).await.unwrap()) }
    };
    assert_eq!(part(0, usize::MAX).await, ["1", "2", "3", "4", "5"]);
    assert_eq!(part(0, 2).await, ["1", "2"]);
    assert_eq!(part(2, 2).await, ["3", "4"]);
    assert_eq!(part(4, 2).await, ["5"]);
    assert!(part(5, 2).await.is_empty());
    assert!(part(u64::MAX, 2).await.is_empty());
    assert!(part(0, 0).await.is_empty());
}

pub async fn the_whole_log_is_read_in_parts(backend: &dyn Backend) {
    let store = backend.open();
    for n in 0..10 {
        let name = if n % 3 == 0 { "a" } else { "b" };
        store.append(&stream(name), Expected::Any, vec![event(n.to_string())]).await.unwrap();
    }
    let store = backend.reopen(store);
    let (mut after, mut seen) = (Position::START, Vec::new());
    loop {
        let part = store.read_all(after, 3).await.unwrap();
        assert!(part.len() <= 3);
        let Some(last) = part.last() else { break };
        assert!(part.windows(2).all(|pair| pair[0].position < pair[1].position));
        assert!(part[0].position > after);
        after = last.position;
        seen.extend(texts(&part));
    }
    assert_eq!(after, store.head());
    assert_eq!(seen, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(store.read_all(Position(u64::MAX), 9).await.unwrap().is_empty());
    assert!(store.read_all(Position::START, 0).await.unwrap().is_empty());
}

pub async fn what_is_read_is_what_was_written(backend: &dyn Backend) {
    let store = backend.open();
    let user = |project: Option<&str>, roles: Vec<String>| Cause::User {
        user: UserId::new("u"),
        project: project.map(ProjectId::new),
        roles,
        source: None,
    };
    let from = |address: Option<&str>, agent: Option<&str>| Cause::User {
        user: UserId::new("u"),
        project: None,
        roles: vec!["member".into()],
        source: RequestSource::new(address.and_then(|address| address.parse().ok()), agent),
    };
    let causes = [
        user(Some("p"), vec!["admin".into(), "a \"quoted\", one".into()]),
        from(Some("192.0.2.1"), Some("openstacksdk/4.0 \"x\"")),
        from(Some("2001:db8::1"), None),
        from(None, Some("curl/8")),
        user(None, Vec::new()),
        user(Some(""), vec![String::new()]),
        Cause::Process { process: ProcessId::random() },
        Cause::System { part: "host-watch".into() },
    ];
    let mut written = Vec::new();
    for (n, cause) in causes.into_iter().enumerate() {
        let whole = n % 2 == 0;
        let meta = Arc::new(Meta {
            request_id: whole.then(|| RequestId::new("req-1")),
            correlation: uuid::Uuid::new_v4(),
            causation: whole.then(EventId::random),
            cause,
        });
        written.push(NewEvent::new(ProcessEvent::from(StepUndone { step: n.to_string() }), Timestamp(-1), &meta));
    }
    store.append(&stream("a"), exact(0), written.clone()).await.unwrap();
    let store = backend.reopen(store);
    let read = store.read_stream(&stream("a"), Revision::NONE, 9).await.unwrap();
    assert_eq!(read.len(), written.len());
    for (n, (read, written)) in read.iter().zip(&written).enumerate() {
        assert_eq!((&read.stream, read.revision), (&stream("a"), Revision(n as u64 + 1)));
        assert_eq!((read.id, read.recorded_at), (written.id, written.recorded_at));
        assert_eq!(read.meta, written.meta);
        assert_eq!((&*read.kind, read.version), (written.event.kind(), written.event.version()));
        assert_eq!(&*read.data, written.event.encode().unwrap());
        assert_eq!(read.event().unwrap(), &written.event);
        let decoded = Event::decode(&read.kind, read.version, read.codec, &read.data).unwrap();
        assert_eq!(decoded, *written.event);
    }
}

/// A back end without hashes must have no hash at all.
pub async fn hashes_form_one_chain(backend: &dyn Backend) {
    let store = backend.open();
    let empty = store.anchor().await.unwrap();
    for n in 0..12 {
        let batch = (0..=n % 3).map(|part| event(format!("{n}/{part}"))).collect();
        store.append(&stream(["a", "b"][n % 2]), Expected::Any, batch).await.unwrap();
    }
    let before = store.anchor().await.unwrap();
    let store = backend.reopen(store);
    let anchor = store.anchor().await.unwrap();
    assert_eq!(anchor, before);
    let all = store.read_all(Position::START, usize::MAX).await.unwrap();
    if empty.is_none() {
        assert!(anchor.is_none() && all.iter().all(|event| event.hash.is_none()));
        return;
    }
    assert_eq!(empty, Some(Anchor::START));
    let mut chain = Chain::after(EventHash::START);
    for event in &all {
        assert!(chain.accepts(event), "the chain is broken at {}", event.position);
    }
    assert_eq!(anchor, Some(Anchor { position: store.head(), hash: chain.head }));
    let a = store.read_stream(&stream("a"), Revision::NONE, usize::MAX).await.unwrap();
    let of_a: Vec<_> = all.iter().filter(|event| event.stream == stream("a")).map(|event| event.hash).collect();
    assert_eq!(a.iter().map(|event| event.hash).collect::<Vec<_>>(), of_a);
    // Appends after a restart continue the same chain.
    store.append(&stream("c"), exact(0), events(["x"])).await.unwrap();
    let last = store.read_all(anchor.unwrap().position, 1).await.unwrap();
    assert!(chain.accepts(&last[0]));
    let mut subscription = store.subscribe(Position::START);
    assert_eq!(subscription.next().await.unwrap()[0].hash, all[0].hash);
}

pub async fn unicode_survives_a_round_trip(backend: &dyn Backend) {
    let store = backend.open();
    let names = ["ſtraße-Ünïcode", "日本語", "🦀 \u{200d} \u{0}", "'; DROP TABLE events; --", "%_\\"];
    for name in names {
        store.append(&stream(name), exact(0), vec![event(name)]).await.unwrap();
    }
    let store = backend.reopen(store);
    for name in names {
        let read = store.read_stream(&stream(name), Revision::NONE, 9).await.unwrap();
        assert_eq!(texts(&read), [name]);
        assert_eq!(read[0].stream, stream(name));
    }
    assert_eq!(texts(&store.read_all(Position::START, 9).await.unwrap()), names);
}

pub async fn too_large_a_payload_is_refused(backend: &dyn Backend) {
    let store = backend.open();
    let refused = store.append(&stream("a"), exact(0), vec![event("x".repeat(MAX_PAYLOAD))]).await.unwrap_err();
    assert!(matches!(refused, AppendError::TooLarge { limit: MAX_PAYLOAD, size } if size > MAX_PAYLOAD), "{refused}");
    assert_eq!(store.head(), Position::START);
    let largest = "x".repeat(MAX_PAYLOAD - 5);
    store.append(&stream("a"), exact(0), vec![event(largest.clone())]).await.unwrap();
    let store = backend.reopen(store);
    assert_eq!(texts(&store.read_all(Position::START, 9).await.unwrap()), [largest]);
}

pub async fn the_log_survives_being_reopened(backend: &dyn Backend) {
    let mut store = backend.open();
    let a = stream("a");
    for round in 0..4 {
        let before = store.head();
        store.append(&a, exact(round * 2), events(["x", "y"])).await.unwrap();
        let head = store.head();
        assert!(head > before);
        store = backend.reopen(store);
        assert_eq!(store.head(), head);
        assert_eq!(store.read_all(Position::START, 99).await.unwrap().len() as u64, (round + 1) * 2);
        store.append(&a, exact(0), events(["x"])).await.expect_err("the reopened log accepted a wrong revision");
    }
}

pub async fn snapshots_are_kept_and_replaced(backend: &dyn Backend) {
    let store = backend.open();
    let (a, b) = (stream("a"), stream("b"));
    assert_eq!(store.load_snapshot(&a).await.unwrap(), None);
    let snapshot =
        |revision, bytes: &[u8]| StreamSnapshot { revision: Revision(revision), state_version: 3, bytes: bytes.into() };
    store.append(&a, exact(0), events(["1", "2"])).await.unwrap();
    store.save_snapshot(&a, snapshot(1, b"one")).await.unwrap();
    store.save_snapshot(&a, snapshot(2, &[0, 255, 10])).await.unwrap();
    store.save_snapshot(&b, snapshot(1, b"")).await.unwrap();
    let store = backend.reopen(store);
    assert_eq!(store.load_snapshot(&a).await.unwrap(), Some(snapshot(2, &[0, 255, 10])));
    assert_eq!(store.load_snapshot(&b).await.unwrap(), Some(snapshot(1, b"")));
    assert_eq!(store.read_all(Position::START, 9).await.unwrap().len(), 2, "the snapshots must not count as events");
    store.append(&b, exact(0), events(["1"])).await.expect("the snapshot must not create the stream");
}

pub async fn one_of_many_writers_wins(backend: &dyn Backend) {
    let store = backend.open();
    for round in 0..8 {
        let writers = (0..16).map(|writer| {
            let store = Arc::clone(&store);
            let batch = vec![event(format!("{writer}")), event(format!("{writer}"))];
            tokio::spawn(async move { store.append(&stream("a"), exact(round * 2), batch).await })
        });
        let mut winners = 0;
        for writer in writers.collect::<Vec<_>>() {
            match writer.await.unwrap() {
                Ok(appended) => {
                    assert_eq!(appended.revision, Revision(round * 2 + 2));
                    winners += 1;
                }
                Err(AppendError::Conflict { actual, .. }) => assert_eq!(actual, Revision(round * 2 + 2)),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(winners, 1);
    }
    let read = store.read_stream(&stream("a"), Revision::NONE, 99).await.unwrap();
    assert_eq!(read.len(), 16);
    assert!(read.chunks(2).all(|pair| text(&pair[0]) == text(&pair[1])), "the events of one append are not adjacent");
}

pub async fn many_writers_of_any_all_win(backend: &dyn Backend) {
    let store = backend.open();
    let writers = (0..32).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for n in 0..8 {
                let batch = vec![event(format!("{writer}/{n}"))];
                store.append(&stream(&format!("s{}", writer % 4)), Expected::Any, batch).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let store = backend.reopen(store);
    let all = store.read_all(Position::START, usize::MAX).await.unwrap();
    assert_eq!(all.iter().map(|event| text(event)).collect::<BTreeSet<_>>().len(), 256);
    for name in ["s0", "s1", "s2", "s3"] {
        let revisions = all.iter().filter(|event| event.stream == stream(name)).map(|event| event.revision.0);
        assert_eq!(revisions.collect::<Vec<_>>(), (1..=64).collect::<Vec<_>>());
    }
}

/// Appends `count` events from several concurrent tasks.
fn write_in_background(store: &Arc<dyn EventStore>, writers: usize, count: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let write = |writer: usize| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for n in 0..count / writers {
                let batch = vec![event(format!("{writer}/{n}"))];
                store.append(&stream(&writer.to_string()), Expected::Any, batch).await.unwrap();
            }
        })
    };
    (0..writers).map(write).collect()
}

pub async fn a_subscriber_sees_everything_once(backend: &dyn Backend) {
    let store = backend.open();
    let total = 512;
    let follow = |from: Position| {
        let mut subscription = store.subscribe(from);
        tokio::spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < total {
                let batch = subscription.next().await.unwrap();
                assert!(!batch.is_empty());
                seen.extend(batch.iter().map(|event| (event.position, text(event))));
            }
            seen
        })
    };
    let early = follow(Position::START);
    let writers = write_in_background(&store, 8, total);
    let late = follow(Position::START);
    for writer in writers {
        writer.await.unwrap();
    }
    let log = store.read_all(Position::START, usize::MAX).await.unwrap();
    let log: Vec<_> = log.iter().map(|event| (event.position, text(event))).collect();
    assert_eq!(log.len(), total);
    assert_eq!(early.await.unwrap(), log);
    assert_eq!(late.await.unwrap(), log);
}

pub async fn a_subscriber_catches_up_and_goes_on_live(backend: &dyn Backend) {
    let store = backend.open();
    store.append(&stream("a"), exact(0), events(["1", "2", "3"])).await.unwrap();
    let store = backend.reopen(store);
    let middle = store.read_all(Position::START, 1).await.unwrap()[0].position;
    let mut subscription = store.subscribe(middle);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(texts(&subscription.next().await.unwrap()));
    }
    let waiting = tokio::spawn(async move { subscription.next().await.unwrap() });
    store.append(&stream("b"), exact(0), events(["4"])).await.unwrap();
    seen.extend(texts(&waiting.await.unwrap()));
    assert_eq!(seen, ["2", "3", "4"]);
}

pub async fn a_subscriber_goes_on_where_it_was(backend: &dyn Backend) {
    let store = backend.open();
    let total = 256;
    let writers = write_in_background(&store, 4, total);
    let (mut after, mut seen) = (Position::START, Vec::new());
    while seen.len() < total {
        // Each batch has a new subscription, which begins at the last position of the previous one.
        let mut subscription = store.subscribe(after);
        seen.extend(texts(&subscription.next().await.unwrap()));
        after = subscription.position();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(seen, texts(&store.read_all(Position::START, usize::MAX).await.unwrap()));
    assert_eq!(after, store.head());
}

pub async fn a_subscriber_does_not_wait_when_asked_not_to(backend: &dyn Backend) {
    let store = backend.open();
    let mut subscription = store.subscribe(Position::START);
    assert!(subscription.poll().await.unwrap().is_empty());
    let appended = store.append(&stream("a"), exact(0), events(["1"])).await.unwrap();
    assert_eq!(texts(&subscription.poll().await.unwrap()), ["1"]);
    assert_eq!(subscription.position(), appended.position);
    assert!(subscription.poll().await.unwrap().is_empty());
}

/// Fails unless both logs have the same events.
pub async fn equals_model(store: &dyn EventStore, model: &dyn EventStore) {
    let rows = |events: Vec<Arc<Recorded>>| {
        let row = |event: &Arc<Recorded>| {
            let place = (event.position, event.stream.clone(), event.revision, event.id, event.kind.to_string());
            (place, event.version, event.codec, event.recorded_at, event.meta.clone(), event.data.clone(), event.hash)
        };
        events.iter().map(row).collect::<Vec<_>>()
    };
    let ours = store.read_all(Position::START, usize::MAX).await.unwrap();
    let theirs = model.read_all(Position::START, usize::MAX).await.unwrap();
    assert_eq!(rows(ours), rows(theirs));
    assert_eq!(store.head(), model.head());
}
