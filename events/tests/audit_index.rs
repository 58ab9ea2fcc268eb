//! The index of the log: a search by it finds what the log alone finds, even if its file is removed or damaged. A
//! forged index with correct checksums is an exception, which these tests leave out.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use chronova_events::envelope::{
    Cause, Meta, NewEvent, Position, Recorded, RequestSource, Revision, StreamId, Timestamp,
};
use chronova_events::ids::{ConsumerId, InstanceId, ProcessId, ProjectId, RequestId, UserId};
use chronova_events::ledger::{LedgerEvent, Released};
use chronova_events::quota::{QuotaEvent, QuotaReleased};
use chronova_events::registry::{Event, samples};
use chronova_events::sealed::DataSubject;
use chronova_events::store::audit_index::{AuditIndexError, IndexComparison, IndexOptions, IndexProgress, IndexedLog};
use chronova_events::store::criteria::Criteria;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::tail::Subscription;
use chronova_events::store::{AppendError, Appended, EventStore, Expected, StoreError, StreamSnapshot};
use proptest::prelude::*;
use uuid::{Uuid, uuid};

/// Small parts, so that a short log has many.
const SMALL: IndexOptions = IndexOptions { part: 8, block: 32 };

/// Servers and hosts of the random logs. The index cannot find the last one, which is no UUID of RFC 9562.
const THINGS: [Uuid; 4] = [
    uuid!("6f9d2a31-8c54-4e0b-9a77-1d2c3b4a5f60"),
    uuid!("0b1c2d3e-4f50-5162-b374-8596a7b8c9da"),
    uuid!("7a7a7a7a-7a7a-7a7a-8a7a-7a7a7a7a7a7a"),
    uuid!("00000000-0000-0000-0000-000000000007"),
];
const USERS: [&str; 3] = ["anna", "bob", "carla"];
const PROJECTS: [&str; 2] = ["p1", "6f9d2a318c544e0b9a771d2c3b4a5f60"];
const REQUESTS: [&str; 4] = ["req-1", "2", "req-req-1", "1"];
const ADDRESSES: [&str; 3] = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
const KINDS: [&str; 6] = ["instance.", "*_failed", "ledger.released", "nothing", "*", "access"];
const STREAMS: [&str; 7] =
    ["instance", "instance-6f9d2a31-8c54", "quota-*", "*-6f9d2a31*", "l", "access-user-anna", "instance-6f9?2*"];

/// The numbers from which [`event`] makes one event of a random log.
type Draw = (u16, u8, u8, u8, u8, i64);

fn event(draw: Draw, samples: &[Event]) -> (StreamId, NewEvent) {
    let (which, cause, request, thing, correlation, time) = draw;
    let thing = THINGS[usize::from(thing) % THINGS.len()];
    let event = match which % 8 {
        0 => LedgerEvent::from(Released { consumer: ConsumerId::new(thing.to_string()) }).into(),
        1 => LedgerEvent::from(Released { consumer: ConsumerId::new(format!("ab{}", thing.simple())) }).into(),
        2 => QuotaEvent::from(QuotaReleased { project: ProjectId::new("p1"), instance: InstanceId(thing) }).into(),
        _ => samples[usize::from(which) % samples.len()].clone(),
    };
    let cause = match cause % 4 {
        0 => Cause::Process { process: ProcessId(THINGS[0]) },
        1 => Cause::System { part: "test".into() },
        sourced => Cause::User {
            user: UserId::new(USERS[usize::from(cause) % USERS.len()]),
            project: (cause % 5 > 1).then(|| ProjectId::new(PROJECTS[usize::from(cause) % 2])),
            roles: vec![],
            source: (sourced == 2)
                .then(|| RequestSource::new(ADDRESSES[usize::from(cause) % 3].parse().ok(), Some("curl")))
                .flatten(),
        },
    };
    let meta = Arc::new(Meta {
        request_id: (request % 3 > 0).then(|| RequestId::new(REQUESTS[usize::from(request) % 4])),
        correlation: Uuid::from_u128(u128::from(correlation % 9)),
        causation: None,
        cause,
    });
    let category = event.kind().split_once('.').unwrap().0.to_owned();
    let stream = match category.as_str() {
        "access" => StreamId::new("access", format!("user-{}", USERS[usize::from(which) % 3])),
        _ => StreamId::new(&category, thing),
    };
    (stream, NewEvent::new(event, Timestamp(time), &meta))
}

/// Appends the events. Consecutive events of one stream are one append.
async fn append(store: &dyn EventStore, draws: &[Draw]) {
    let samples = samples();
    let events: Vec<_> = draws.iter().map(|draw| event(*draw, &samples)).collect();
    for run in events.chunk_by(|one, next| one.0 == next.0) {
        let news = run.iter().map(|(_, new)| new.clone()).collect();
        store.append(&run[0].0, Expected::Any, news).await.unwrap();
    }
}

fn draw() -> impl Strategy<Value = Draw> {
    (any::<u16>(), any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>(), 0_i64..1_000)
}

/// A random query. Each filter has no values in two of three cases, otherwise one or two. Each end of the time range is
/// set in one of five cases.
fn criteria() -> impl Strategy<Value = Criteria> {
    let texts = |of: &'static [&'static str]| {
        let one = prop::sample::select(of).prop_map(str::to_owned);
        prop_oneof![4 => Just(Vec::new()), 2 => prop::collection::vec(one, 1..3)]
    };
    let things = || {
        let one = prop::sample::select(&THINGS[..]);
        prop_oneof![4 => Just(Vec::new()), 2 => prop::collection::vec(one, 1..3)]
    };
    let time = || prop::option::weighted(0.2, (0_i64..1_000).prop_map(Timestamp));
    let texts = (texts(&STREAMS), texts(&KINDS), texts(&USERS), texts(&PROJECTS), texts(&REQUESTS), texts(&ADDRESSES));
    (texts, things(), things(), time(), time()).prop_map(|(texts, servers, hosts, since, until)| {
        let (streams, kinds, users, projects, request_ids, addresses) = texts;
        let base = Criteria { streams, kinds, users, projects, request_ids, addresses, ..Criteria::default() };
        Criteria { servers, hosts, since, until, ..base }
    })
}

/// All answers to a query, page by page.
async fn answer(store: &dyn EventStore, criteria: &Criteria, after: u64, limit: usize) -> Vec<Recorded> {
    let mut criteria = criteria.clone();
    criteria.learn(store).await.unwrap();
    let (mut at, mut found) = (Position(after), Vec::new());
    loop {
        let page = store.search(at, limit, &criteria).await.unwrap();
        assert!(page.events.len() <= limit && page.until >= at, "{criteria:?}");
        found.extend(page.events.iter().map(|event| event.encoded()));
        if page.until == at {
            return found;
        }
        at = page.until;
    }
}

/// The events as text, because they have no equality.
async fn answers(store: &dyn EventStore, asked: &[Criteria], after: u64, limit: usize) -> Vec<String> {
    let mut all = Vec::new();
    for criteria in asked {
        let found = answer(store, criteria, after, limit).await;
        let text = |event: &Recorded| format!("{} {} {:?}", event.position, event.kind, event.hash);
        all.push(found.iter().map(text).collect::<Vec<_>>().join("\n"));
    }
    all
}

#[derive(Debug, Clone)]
enum Step {
    Append(Vec<Draw>),
    Extend(u8),
    Remove,
    Damage(u32, u8),
    Ask(Vec<Criteria>, u64, usize),
    Erase(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(draw(), 1..40).prop_map(Step::Append),
        4 => (0_u8..9).prop_map(Step::Extend),
        1 => Just(Step::Remove),
        2 => (any::<u32>(), 1_u8..).prop_map(|(at, bits)| Step::Damage(at, bits)),
        5 => (prop::collection::vec(criteria(), 1..12), 0_u64..40, 1_usize..40)
            .prop_map(|(asked, after, limit)| Step::Ask(asked, after, limit)),
        1 => (0_u8..3).prop_map(Step::Erase),
    ]
}

async fn take(step: &Step, store: &Arc<SqliteStore>, indexed: &IndexedLog, path: &Path) {
    match step {
        Step::Append(draws) => append(&**store, draws).await,
        Step::Extend(times) => {
            for _ in 0..*times {
                indexed.extend().await.unwrap();
            }
        }
        Step::Remove => drop(std::fs::remove_file(path)),
        Step::Damage(at, bits) => {
            let Ok(file) = std::fs::OpenOptions::new().read(true).write(true).open(path) else { return };
            let size = file.metadata().unwrap().len();
            if size > 0 {
                let at = u64::from(*at) % size;
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ bits], at).unwrap();
            }
        }
        Step::Ask(asked, after, limit) => {
            let expected = answers(&**store, asked, *after, *limit).await;
            assert_eq!(answers(indexed, asked, *after, *limit).await, expected, "{asked:?}");
        }
        Step::Erase(user) => {
            let subject = DataSubject::User(UserId::new(USERS[usize::from(*user)]));
            let keys = store.keys().unwrap();
            keys.destroy(&subject, keys.next()).unwrap();
            store.forget(&[StreamId::new("access", format!("user-{}", USERS[usize::from(*user)]))]).await.unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Random logs and filters. The index is made, half made, removed and damaged meanwhile.
    #[test]
    fn the_index_changes_no_answer(steps in prop::collection::vec(step(), 4..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let store = SqliteStore::open(folder.path().join("log.db"), &SqliteOptions::default()).unwrap();
            let path = folder.path().join("log.db.index");
            let indexed = IndexedLog::new(store.clone(), path.clone(), SMALL);
            append(&*store, &[(3, 2, 1, 0, 4, 5)]).await;
            for step in &steps {
                take(step, &store, &indexed, &path).await;
            }
            if !steps.iter().any(|step| matches!(step, Step::Damage(..))) {
                let expected = match complete(&indexed).await {
                    _ if !path.exists() => IndexComparison::Unused,
                    end => IndexComparison::Equal(end),
                };
                assert_eq!(indexed.compare().await.unwrap(), expected);
            }
            store.close().await;
        });
    }
}

async fn complete(indexed: &IndexedLog) -> Position {
    loop {
        if let IndexProgress::Complete(end) = indexed.extend().await.unwrap() {
            return end;
        }
    }
}

/// A log that counts the events that [`EventStore::read_all`] returns. Other reads do not count.
struct CountingLog {
    log: Arc<MemoryStore>,
    read: AtomicUsize,
    /// The position of an event that cannot be read; 0 for none.
    unreadable: AtomicU64,
}

async fn counting_log() -> Arc<CountingLog> {
    Arc::new(CountingLog { log: long_log().await, read: AtomicUsize::new(0), unreadable: AtomicU64::new(0) })
}

#[async_trait]
impl EventStore for CountingLog {
    async fn append(&self, _: &StreamId, _: Expected, _: Vec<NewEvent>) -> Result<Appended, AppendError> {
        Err(StoreError::Closed.into())
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.log.read_stream(stream, after, limit).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let events = self.log.read_all(after, limit).await?;
        self.read.fetch_add(events.len(), Ordering::SeqCst);
        let position = self.unreadable.load(Ordering::SeqCst);
        if events.iter().any(|event| event.position.0 == position) {
            return Err(StoreError::Corrupt { position, reason: "test".to_owned() });
        }
        Ok(events)
    }

    fn subscribe(&self, after: Position) -> Subscription {
        self.log.subscribe(after)
    }

    fn head(&self) -> Position {
        self.log.head()
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        self.log.load_snapshot(stream).await
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
        self.log.save_snapshot(stream, snapshot).await
    }
}

fn number(n: u64) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &n.to_le_bytes())
}

/// A log of 20,000 events, 10 for each server and request.
async fn long_log() -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    for n in 0..2_000_u64 {
        let cause = Cause::User {
            user: UserId::new(format!("user-{}", n % 50)),
            project: Some(ProjectId::new(format!("project-{}", n % 200))),
            roles: vec![],
            source: None,
        };
        let meta = Arc::new(Meta {
            request_id: Some(RequestId::new(format!("req-{}", number(n)))),
            correlation: number(n),
            causation: None,
            cause,
        });
        let released = LedgerEvent::from(Released { consumer: ConsumerId::new(number(n).to_string()) });
        let event = |nth: i64| {
            let time = Timestamp(i64::try_from(n).unwrap() * 10 + nth);
            NewEvent::new(released.clone(), time, &meta)
        };
        let stream = StreamId::new("ledger", format!("cell-{n}"));
        store.append(&stream, Expected::Any, (0..10).map(event).collect()).await.unwrap();
    }
    store
}

#[tokio::test]
async fn a_question_reads_little_more_than_its_answer() {
    let folder = tempfile::tempdir().unwrap();
    let log = counting_log().await;
    let options = IndexOptions { part: 256, block: 4_096 };
    let indexed = IndexedLog::new(log.clone(), folder.path().join("log.db.index"), options);
    let end = complete(&indexed).await;
    assert_eq!(end, Position(20_000 / 256 * 256));
    let id = number(700).to_string();
    let text = |text: &str| vec![text.to_owned()];
    let asked = [
        (Criteria { request_ids: text(&id), ..Criteria::default() }, 10),
        (Criteria { servers: vec![number(700)], ..Criteria::default() }, 10),
        (Criteria { hosts: vec![number(700)], ..Criteria::default() }, 10),
        (Criteria { users: text("user-7"), ..Criteria::default() }, 400),
        (Criteria { users: text("user-7"), request_ids: text(&number(7).to_string()), ..Criteria::default() }, 10),
        (Criteria { users: text("nobody"), ..Criteria::default() }, 0),
        (Criteria { kinds: text("instance"), ..Criteria::default() }, 0),
        (Criteria { streams: text("ledger-cell-700"), ..Criteria::default() }, 10),
        (Criteria { since: Some(Timestamp(7_000)), until: Some(Timestamp(7_010)), ..Criteria::default() }, 10),
    ];
    for (criteria, events) in asked {
        log.read.store(0, Ordering::SeqCst);
        let found = answer(&*indexed, &criteria, 0, 1_000).await.len();
        // The search also reads the events after the last part. A search by time may also read all events of the steps
        // of 256 events that it touches.
        let rest = usize::try_from(20_000 - end.0).unwrap();
        let read = log.read.load(Ordering::SeqCst) - rest;
        assert_eq!(found, events, "{criteria:?}");
        assert!(read <= events + 2 * 256, "{criteria:?} read {read} events");
        log.read.store(0, Ordering::SeqCst);
        assert_eq!(answer(&*log, &criteria, 0, 1_000).await.len(), events);
        assert_eq!(log.read.load(Ordering::SeqCst), 20_000, "without the index, all events are read");
    }
}

/// The texts in a value.
fn leaves(value: &serde_json::Value, texts: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::String(text) => drop(texts.insert(text.clone())),
        serde_json::Value::Array(values) => values.iter().for_each(|value| leaves(value, texts)),
        serde_json::Value::Object(values) => values.values().for_each(|value| leaves(value, texts)),
        _ => {}
    }
}

#[tokio::test]
async fn the_index_has_no_sealed_data_and_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("log.db.index");
    let store = SqliteStore::open(folder.path().join("log.db"), &SqliteOptions::default()).unwrap();
    for event in samples() {
        let stream = StreamId::new(event.kind().split_once('.').unwrap().0, THINGS[0]);
        let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
        store.append(&stream, Expected::Any, vec![new]).await.unwrap();
    }
    let indexed = IndexedLog::new(store.clone(), path.clone(), SMALL);
    complete(&indexed).await;
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = std::fs::read(&path).unwrap();
    let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(contains("instance.build_requested"), "the names of kinds are stored as text");
    let mut personal = BTreeSet::new();
    for event in store.read_all(Position::START, usize::MAX).await.unwrap() {
        let blank = event.without_personal().unwrap();
        let texts = |event: &Recorded| {
            let mut texts = BTreeSet::new();
            leaves(&event.event().unwrap().json(), &mut texts);
            texts
        };
        personal.extend(texts(&event).difference(&texts(&blank)).cloned());
    }
    // A few of the texts are words of kinds, too.
    let kinds: Vec<_> = samples().iter().map(Event::kind).collect();
    let own = |text: &&String| text.len() > 3 && !kinds.iter().any(|kind| kind.contains(text.as_str()));
    assert!(personal.iter().filter(own).count() > 15, "{personal:?}");
    for text in personal.iter().filter(own) {
        assert!(!contains(text), "{text} is in the index");
    }
    store.close().await;
}

#[tokio::test]
async fn an_index_of_another_log_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db.index");
    let draws: Vec<Draw> = (0..64).map(|n| (n, 2, 1, 0, 0, i64::from(n))).collect();
    let asked = [
        Criteria { users: vec!["carla".into()], ..Criteria::default() },
        Criteria::default().server(InstanceId(THINGS[0])),
    ];
    for round in 0..3_u16 {
        // The second and third log have as many events as the first.
        let store = MemoryStore::new();
        let other: Vec<Draw> = draws.iter().map(|draw| (draw.0 + round, draw.1, 1, 0, 0, draw.5)).collect();
        append(&*store, &other).await;
        let indexed = IndexedLog::new(store.clone(), path.clone(), SMALL);
        let expected = answers(&*store, &asked, 0, 10).await;
        assert_eq!(answers(&*indexed, &asked, 0, 10).await, expected, "before the update");
        assert_eq!(complete(&indexed).await, Position(64));
        assert_eq!(answers(&*indexed, &asked, 0, 10).await, expected, "after the update");
    }
}

#[tokio::test]
async fn two_logs_that_share_a_file_hide_no_event_from_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db.index");
    let mut logs = Vec::new();
    for round in 0..2_u16 {
        let store = MemoryStore::new();
        // Each part needs more than a few events. A search reads a part with few candidates without a look at its
        // terms.
        let draws: Vec<Draw> = (0..256_u16)
            .map(|n| (n * 3 + round, 4 * u8::try_from(n % 50).unwrap() + 2, 1, 0, 0, i64::from(n)))
            .collect();
        append(&*store, &draws).await;
        let options = IndexOptions { part: 64, block: 128 };
        logs.push((IndexedLog::new(store.clone(), path.clone(), options), store));
    }
    let asked = [
        Criteria { users: vec!["carla".into()], ..Criteria::default() },
        Criteria { kinds: vec!["instance".into()], ..Criteria::default() },
        Criteria::default().server(InstanceId(THINGS[0])),
    ];
    for turns in [1, 1, 2, 3, 1, 4, 2, 5] {
        for (indexed, _) in &logs {
            for _ in 0..turns {
                indexed.extend().await.unwrap();
            }
            for (asking, store) in &logs {
                let expected = answers(&**store, &asked, 0, 100).await;
                assert_eq!(answers(&**asking, &asked, 0, 100).await, expected);
            }
        }
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_hides_no_match_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = counting_log().await;
    let options = IndexOptions { part: 256, block: 4_096 };
    let indexed = IndexedLog::new(log.clone(), folder.path().join("log.db.index"), options);
    complete(&indexed).await;
    log.unreadable.store(575, Ordering::SeqCst);
    let criteria = Criteria { users: vec!["user-7".to_owned()], ..Criteria::default() };
    let found = indexed.search(Position::START, 1_000, &criteria).await.unwrap();
    let positions: Vec<u64> = found.events.iter().map(|event| event.position.0).collect();
    assert_eq!(positions, (71..81).chain(571..575).collect::<Vec<u64>>());
    assert_eq!(found.until, Position(574));
    assert!(indexed.search(found.until, 1_000, &criteria).await.is_err());
}

#[tokio::test]
async fn a_file_that_is_no_index_is_replaced_and_a_missing_folder_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db.index");
    let store = MemoryStore::new();
    append(&*store, &[(3, 2, 1, 0, 4, 5); 20]).await;
    std::fs::write(&path, "this is a text, and much longer than the head of a database ".repeat(40)).unwrap();
    let indexed = IndexedLog::new(store.clone(), path.clone(), SMALL);
    assert_eq!(complete(&indexed).await, Position(16));
    let lost = IndexedLog::new(store.clone(), folder.path().join("none/log.db.index"), SMALL);
    assert!(matches!(lost.extend().await, Err(AuditIndexError::Io(_))));
    let asked = [Criteria { users: vec!["carla".into()], ..Criteria::default() }];
    let expected = answers(&*store, &asked, 0, 10).await;
    assert_eq!(expected[0].lines().count(), 20);
    assert_eq!(answers(&*lost, &asked, 0, 10).await, expected);
    assert_eq!(answers(&*indexed, &asked, 0, 10).await, expected);
}
