//! Personal fields in the SQLite log: sealed on disk, readable in memory, gone after their keys are destroyed. The
//! other fields and the chain of hashes stay. One more test compares searches by SQL with the criteria.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;

use chronova_events::envelope::{Meta, NewEvent, Position, Revision, StreamId, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::instance::{InstanceEvent, Renamed};
use chronova_events::registry::Event;
use chronova_events::sealed::{DataSubject, ERASED, Personal};
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected, StoreError, StreamSnapshot};
use uuid::Uuid;

fn server(n: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(n))
}

fn stream(n: u128) -> StreamId {
    StreamId::new("instance", server(n))
}

async fn rename(store: &dyn EventStore, n: u128, name: &str) {
    let event = NewEvent::new(InstanceEvent::from(Renamed { name: name.into() }), Timestamp(1), &Meta::system("test"));
    store.append(&stream(n), Expected::Any, vec![event]).await.unwrap();
}

async fn names(store: &dyn EventStore) -> Vec<String> {
    let events = store.read_all(Position::START, usize::MAX).await.unwrap();
    let name = |event: &Event| match event {
        Event::InstanceEvent(InstanceEvent::Renamed(renamed)) => renamed.name.clone(),
        other => panic!("{other:?}"),
    };
    events.iter().map(|recorded| name(recorded.event().unwrap())).collect()
}

fn open(path: &Path) -> Result<Arc<SqliteStore>, StoreError> {
    SqliteStore::open(path, &SqliteOptions::default())
}

/// Whether any file of the folder contains these bytes.
fn is_on_disk(folder: &Path, needle: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    })
}

async fn erase(store: &dyn EventStore, n: u128) -> u64 {
    let keys = store.keys().unwrap();
    let destroyed = keys.destroy(&DataSubject::Server(server(n)), keys.next()).unwrap();
    store.forget(&[stream(n)]).await.unwrap();
    destroyed
}

#[tokio::test]
async fn erased_fields_are_gone_everywhere_and_the_log_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    rename(&*store, 1, "annas-laptop").await;
    rename(&*store, 2, "build-machine").await;
    rename(&*store, 1, "annas-new-laptop").await;
    assert_eq!(names(&*store).await, ["annas-laptop", "build-machine", "annas-new-laptop"]);
    assert!(!is_on_disk(folder.path(), "annas"));
    // A snapshot repeats the folded fields. It is sealed, and an erasure removes it from the data file and from the
    // write-ahead log.
    let long = "annas-laptop ".repeat(2_000);
    for bytes in [long.into_bytes(), b"annas-laptop".to_vec()] {
        let snapshot = StreamSnapshot { revision: Revision(1), state_version: 1, bytes };
        store.save_snapshot(&stream(1), snapshot.clone()).await.unwrap();
        assert_eq!(store.load_snapshot(&stream(1)).await.unwrap(), Some(snapshot));
    }
    assert!(!is_on_disk(folder.path(), "annas"));
    let before = std::fs::read(&path).unwrap().len();
    assert_eq!(erase(&*store, 1).await, 1);
    assert!(!is_on_disk(folder.path(), "annas"), "an erased name is still on disk; the data file had {before} bytes");
    let expected = [ERASED, "build-machine", ERASED];
    assert_eq!(names(&*store).await, expected);
    let mut subscription = store.subscribe(Position::START);
    let seen = subscription.next().await.unwrap();
    assert_eq!(seen[0].personal(), Personal::Erased);
    assert_eq!(seen[1].personal(), Personal::Sealed);
    assert!(store.load_snapshot(&stream(1)).await.unwrap().is_none());
    // Later events are sealed under a new key.
    rename(&*store, 1, "later").await;
    assert_eq!(store.verify().await.unwrap().events, 4);
    store.close().await;
    let store = open(&path).unwrap();
    assert_eq!(names(&*store).await, [ERASED, "build-machine", ERASED, "later"]);
    assert_eq!(store.verify().await.unwrap().events, 4);
    store.close().await;
}

#[tokio::test]
async fn an_auditor_beside_the_writer_sees_what_the_writer_sees() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    rename(&*store, 1, "anna").await;
    let log = ReadOnlyLog::open(&path).unwrap();
    assert_eq!(names(&*log).await, ["anna"]);
    erase(&*store, 1).await;
    assert_eq!(names(&*log).await, [ERASED]);
}

#[tokio::test]
async fn a_missing_key_file_refuses_writes_until_an_operator_accepts_the_loss() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path).unwrap();
    rename(&*store, 1, "anna").await;
    store.close().await;
    let file = folder.path().join("log.db.keys");
    let kept = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    // Reading is possible: the fields are reported as lost, not as erased.
    let log = ReadOnlyLog::open(&path).unwrap();
    assert_eq!(log.read_all(Position::START, 9).await.unwrap()[0].personal(), Personal::Lost);
    assert_eq!(names(&*log).await, [ERASED]);
    assert_eq!(log.verify().await.unwrap().events, 1);
    // Writing is refused until an operator decides.
    let refused = open(&path).unwrap_err().to_string();
    assert!(refused.contains("are missing: put the file back"), "{refused}");
    assert!(!file.exists(), "the refusal must create no file");
    std::fs::write(&file, &kept).unwrap();
    let store = open(&path).unwrap();
    assert_eq!(names(&*store).await, ["anna"]);
    store.close().await;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(folder.path().join("log.db.keys.lost"), "").unwrap();
    for _ in 0..2 {
        let store = open(&path).expect("the log must open after the loss was accepted");
        assert_eq!(names(&*store).await[0], ERASED);
        rename(&*store, 1, "afterwards").await;
        assert_eq!(names(&*store).await.last().unwrap(), "afterwards");
        store.close().await;
    }
    assert!(!folder.path().join("log.db.keys.lost").exists());
}

/// For each of these queries, SQL finds exactly the events that `Criteria::admits` admits.
#[tokio::test]
async fn searching_by_sql_finds_what_the_criteria_say() {
    use chronova_events::envelope::Cause;
    use chronova_events::ids::{EventId, ProcessId, ProjectId, RequestId, UserId};
    use chronova_events::store::criteria::Criteria;

    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("log.db")).unwrap();
    let mut time = 0;
    for (n, event) in chronova_events::registry::samples().into_iter().enumerate() {
        let cause = match n % 3 {
            0 => Cause::User {
                user: UserId::new(["anna", "bob"][n % 2]),
                project: (n % 4 < 2).then(|| ProjectId::new("p1")),
                roles: vec![],
                source: None,
            },
            1 => Cause::Process { process: ProcessId(Uuid::from_u128(n as u128)) },
            _ => Cause::System { part: "test".into() },
        };
        let meta = Arc::new(Meta {
            request_id: (n % 5 < 3).then(|| RequestId::new(format!("req-{}", n % 5))),
            correlation: Uuid::from_u128(n as u128 % 7),
            causation: Some(EventId(Uuid::from_u128(n as u128))),
            cause,
        });
        time += 10;
        let kind = event.kind().split_once('.').unwrap().0.to_owned();
        let stream = StreamId::new(&kind, Uuid::from_u128(n as u128 % 3 + 1));
        store.append(&stream, Expected::Any, vec![NewEvent::new(event, Timestamp(time), &meta)]).await.unwrap();
    }
    let all = store.read_all(Position::START, usize::MAX).await.unwrap();
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut asked = vec![
        Criteria::default(),
        Criteria { kinds: words(&["instance.", "*_failed"]), ..Criteria::default() },
        Criteria { kinds: words(&["nothing"]), ..Criteria::default() },
        Criteria { streams: words(&["instance", "keypair-*", "[x"]), ..Criteria::default() },
        Criteria { users: words(&["anna"]), ..Criteria::default() },
        Criteria { users: words(&["bob"]), projects: words(&["p1"]), ..Criteria::default() },
        Criteria { request_ids: words(&["1", "req-2"]), ..Criteria::default() },
        Criteria { since: Some(Timestamp(100)), until: Some(Timestamp(300)), ..Criteria::default() },
        Criteria::default().server(server(1)),
        Criteria::default().server(server(2)).host(chronova_events::ids::HostId(Uuid::from_u128(5))),
    ];
    for criteria in &mut asked {
        criteria.learn(&*store).await.unwrap();
        let expected: Vec<u64> = all.iter().filter(|event| criteria.admits(event)).map(|e| e.position.0).collect();
        for limit in [1, 3, 1_000] {
            let (mut at, mut found) = (Position::START, Vec::new());
            loop {
                let page = store.search(at, limit, criteria).await.unwrap();
                found.extend(page.events.iter().map(|event| event.position.0));
                if page.until == at {
                    break;
                }
                at = page.until;
            }
            assert_eq!(found, expected, "{criteria:?} by {limit}");
        }
        let none = criteria.kinds == ["nothing"];
        assert_eq!(expected.is_empty(), none, "{criteria:?}");
    }
}
