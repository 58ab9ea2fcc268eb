//! Members of two versions on one log in a real PostgreSQL: the leader writes only events that all of them know.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chronova_events::codec::BINCODE_2;
use chronova_events::envelope::{NewEvent, Position, StreamId};
use chronova_events::ids::ProviderId;
use chronova_events::ledger::{AggregatesReplaced, LedgerEvent};
use chronova_events::process::{ProcessEvent, Started};
use chronova_events::registry::{Event, catalogue, samples};
use chronova_events::store::conformance::event;
use chronova_events::store::levels::{EventLevels, lines};
use chronova_events::store::postgres::{ClusterMember, MemberName, PostgresOptions, PostgresStore};
use chronova_events::store::{AppendError, EventStore, Expected, StoreError};

use crate::database::Postgres;

/// The number of lines of each released level in `levels.txt`, from level 1 on.
const RELEASED: [usize; 1] = [352];

/// Only a store that hangs makes a test reach this limit.
const LONG: Duration = Duration::from_mins(1);
/// The events that only the newer version of these tests knows.
const NEWER: &str = "server_group.created@1 ledger.aggregates_replaced@2";

fn levels(version: &str) -> EventLevels {
    EventLevels::rehearsed(&format!("{version} {NEWER}")).unwrap()
}

fn options(database: &Postgres, version: &str) -> PostgresOptions {
    PostgresOptions {
        allow_asynchronous: true,
        levels: levels(version),
        ..PostgresOptions::at(database.url(), "cell1".to_owned())
    }
}

async fn try_join(database: &Postgres, name: &str, version: &str) -> Result<Arc<PostgresStore>, StoreError> {
    let member = MemberName { name: name.to_owned(), address: format!("{name}:1") };
    PostgresStore::join(&options(database, version), ClusterMember { name: member, secret: Some([7; 32]) }).await
}

async fn join(database: &Postgres, name: &str, version: &str) -> Arc<PostgresStore> {
    try_join(database, name, version).await.unwrap()
}

async fn until(what: &str, mut met: impl FnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !met() {
        let is_late = begun.elapsed() >= LONG;
        assert!(!is_late, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// An event of a kind that only the newer version knows.
fn group_created() -> Event {
    samples().into_iter().find(|sample| sample.kind() == "server_group.created").unwrap()
}

/// An event whose newest version only the newer version knows. The older version of the event cannot express spellings.
fn aggregates(spellings: Vec<(uuid::Uuid, String)>) -> Event {
    let (provider, aggregates) = (ProviderId(uuid::Uuid::from_u128(1)), vec![uuid::Uuid::from_u128(2)]);
    LedgerEvent::from(AggregatesReplaced { provider, aggregates, bumps_generation: true, spellings }).into()
}

async fn append(store: &PostgresStore, appended: Event) -> Result<Position, AppendError> {
    let new = NewEvent { event: Arc::new(appended), ..event("") };
    let stream = StreamId::new("process", "a");
    store.append(&stream, Expected::Any, vec![new]).await.map(|appended| appended.position)
}

/// The kind and version of the event at a position, after a check that it decodes to `expected`.
async fn read(store: &PostgresStore, position: Position, expected: &Event) -> (String, u16) {
    let found = store.read_all(Position(position.0 - 1), 1).await.unwrap();
    assert_eq!(**found[0].event().unwrap(), *expected);
    (found[0].kind.to_string(), found[0].version)
}

#[test]
fn each_event_has_one_level() {
    let mut listed = BTreeSet::new();
    let mut counts = BTreeMap::new();
    for (level, kind, last) in lines() {
        assert!(listed.insert((kind, last)), "{kind} {last} has two lines");
        *counts.entry(usize::from(level)).or_insert(0) += 1;
    }
    let mut known = BTreeSet::new();
    let entries = catalogue();
    for entry in &entries {
        known.extend(entry.older.iter().chain([&entry.version]).map(|version| (entry.kind, format!("v{version}"))));
    }
    for sample in samples() {
        if let Event::ProcessEvent(ProcessEvent::Started(Started { task, .. })) = &sample {
            known.insert(("task", task.name().to_owned()));
        }
    }
    let missing: Vec<_> = known.iter().filter(|(kind, last)| !listed.contains(&(*kind, last.as_str()))).collect();
    assert!(missing.is_empty(), "levels.txt has no line for {missing:?}: add one with the first level after a release");
    // Not every task has a sample.
    let is_known = |kind: &str, last: &str| kind == "task" || known.contains(&(kind, last.to_owned()));
    let strange: Vec<_> = listed.iter().filter(|(kind, last)| !is_known(kind, last)).collect();
    assert!(strange.is_empty(), "levels.txt has a line for {strange:?}, which do not exist");
    for (at, count) in RELEASED.into_iter().enumerate() {
        let level = at + 1;
        assert_eq!(counts.get(&level), Some(&count), "level {level} is released: its lines do not change");
    }
    let highest = counts.keys().max().unwrap();
    assert!(*highest <= RELEASED.len() + 1, "the first level after a release is {}", RELEASED.len() + 1);
    assert_eq!(usize::from(EventLevels::default().newest()), *highest);
}

#[test]
fn an_older_version_of_an_event_says_the_same() {
    let mut written = 0;
    for sample in samples().into_iter().chain([aggregates(vec![])]) {
        for version in 1..sample.version() {
            let Some(bytes) = sample.encode_as(version) else { continue };
            let read = Event::decode(sample.kind(), version, BINCODE_2, &bytes.unwrap()).unwrap();
            assert_eq!(read, sample, "version {version} loses a part of the event");
            written += 1;
        }
    }
    assert!(written > 0, "no event can be written in an older version");
    let spelled = aggregates(vec![(uuid::Uuid::from_u128(2), "2".to_owned())]);
    assert!(spelled.encode_as(1).is_none(), "version 1 has no spellings");
    assert_eq!(spelled.encode_as(2).unwrap().unwrap(), spelled.encode().unwrap());
    assert!(spelled.encode_as(3).is_none());
}

#[test]
fn a_leader_chooses_the_version_that_all_members_read() {
    let (old, new) = (levels("old"), levels("new"));
    let (low, high) = (old.newest(), new.newest());
    assert_eq!(high, low + 1);
    let started = samples().into_iter().find(|sample| sample.kind() == "process.started").unwrap();
    let (plain, spelled) = (aggregates(vec![]), aggregates(vec![(uuid::Uuid::from_u128(2), "2".to_owned())]));
    for (event, at_low, at_high) in [
        (&plain, Some(1), Some(2)),
        (&spelled, None, Some(2)),
        (&group_created(), None, Some(1)),
        (&*event("").event, Some(1), Some(1)),
        (&started, Some(1), Some(1)),
    ] {
        assert_eq!(new.version_to_write(event, low), at_low, "{}", event.kind());
        assert_eq!(new.version_to_write(event, high), at_high, "{}", event.kind());
        assert_eq!(old.version_to_write(event, low), at_low, "{}", event.kind());
        assert_eq!(new.version_to_write(event, 0), None, "{}", event.kind());
    }
    assert!(new.knows("server_group.created", 1) && !old.knows("server_group.created", 1));
    assert!(old.knows("ledger.aggregates_replaced", 1) && !old.knows("ledger.aggregates_replaced", 2));
    assert!(!new.knows("server_group.created", 9) && !new.knows("quux.happened", 1));
    for wrong in ["", "older x.y@1", "old x.y", "new x.y@z"] {
        assert_eq!(EventLevels::rehearsed(wrong), None, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_writes_newer_events_when_no_older_member_lives() {
    let database = Postgres::new();
    let (a, b) = (join(&database, "a", "new").await, join(&database, "b", "old").await);
    let (low, high) = (levels("old").newest(), levels("new").newest());
    assert!(a.lead().await.unwrap());
    assert_eq!(a.level(), low);
    let refused = append(&a, group_created()).await.unwrap_err();
    let below = StoreError::BelowLevel { kind: "server_group.created".to_owned(), needed: high, level: low };
    assert_eq!(refused, AppendError::Store(below));
    let at = append(&a, aggregates(vec![])).await.unwrap();
    assert_eq!(read(&a, at, &aggregates(vec![])).await, ("ledger.aggregates_replaced".to_owned(), 1));
    b.told(at);
    until("the older member has the event", || b.head() >= at).await;
    assert_eq!(read(&b, at, &aggregates(vec![])).await.1, 1);
    assert_eq!(*b.outdated().borrow(), None);

    // The older member leaves for longer than a minute.
    b.close().await;
    drop(b);
    database.sql("UPDATE chronova_members SET seen = seen - interval '2 minutes' WHERE name = 'b'");
    // The leader has watched for a short time only. So the database may have been away, and not the older member.
    for _ in 0..2 {
        let announced = database.sql("SELECT seen FROM chronova_members WHERE name = 'a'");
        let again = || database.sql("SELECT seen FROM chronova_members WHERE name = 'a'") != announced;
        until("the leader announces itself again", again).await;
    }
    assert_eq!(a.level(), low, "the leader takes a member as away after a break of the database");
    database.sql("UPDATE chronova_members SET since = since - interval '2 minutes' WHERE name = 'a'");
    until("the level rises", || a.level() == high).await;
    assert_eq!(database.sql("SELECT level FROM chronova_head"), high.to_string());
    let group = append(&a, group_created()).await.unwrap();
    let last = append(&a, aggregates(vec![])).await.unwrap();
    assert_eq!(read(&a, last, &aggregates(vec![])).await.1, 2);

    let refused = try_join(&database, "b", "old").await.unwrap_err();
    assert_eq!(refused, StoreError::NewerLevel { level: high, newest: low });
    let refused = PostgresStore::open_now(&options(&database, "old")).await.unwrap_err();
    assert_eq!(refused, StoreError::NewerLevel { level: high, newest: low });
    let c = join(&database, "c", "new").await;
    c.told(last);
    until("the newer member has the events", || c.head() >= last).await;
    assert_eq!(read(&c, group, &group_created()).await, ("server_group.created".to_owned(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_older_ones_reaches_its_level_at_once() {
    let database = Postgres::new();
    let a = join(&database, "a", "new").await;
    assert!(a.lead().await.unwrap());
    assert_eq!(a.level(), levels("new").newest());
    append(&a, group_created()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_member_leaves_a_log_that_it_cannot_read() {
    let database = Postgres::new();
    let (a, b) = (join(&database, "a", "old").await, join(&database, "b", "old").await);
    assert!(a.lead().await.unwrap());
    let (first, low) = (append(&a, aggregates(vec![])).await.unwrap(), levels("old").newest());
    b.told(first);
    until("the follower has the event", || b.head() >= first).await;
    // No leader does this. The follower must not skip the event nevertheless.
    database.sql(
        "INSERT INTO chronova_events SELECT 2, stream, 2, id, 'server_group.created', 1, codec, recorded_at, meta, \
         data, hash FROM chronova_events WHERE position = 1",
    );
    b.told(Position(2));
    until("the follower meets the event", || b.outdated().borrow().is_some()).await;
    let unknown = StoreError::UnknownEvent { position: 2, kind: "server_group.created".to_owned(), version: 1 };
    assert_eq!(*b.outdated().borrow(), Some(unknown));
    assert_eq!(b.head(), first, "the follower shows an event that it does not know");
    until("the follower is unhealthy", || b.health().is_err()).await;

    let c = join(&database, "c", "old").await;
    database.sql(&format!("UPDATE chronova_head SET level = {}", low + 1));
    until("the follower sees the level", || c.outdated().borrow().is_some()).await;
    assert_eq!(*c.outdated().borrow(), Some(StoreError::NewerLevel { level: low + 1, newest: low }));
    // The lead is free now.
    a.close().await;
    assert!(!c.lead().await.unwrap(), "a member leads a log that it cannot read");
}
