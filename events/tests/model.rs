//! Runs random operations on SQLite and on the store in memory, which is the model. Both must give the same answers.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use chronova_events::envelope::{NewEvent, Position, Revision, StreamId};
use chronova_events::store::conformance::{equals_model, event};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected, StreamSnapshot};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Operation {
    Append { stream: u8, expected: Option<u64>, sizes: Vec<u16> },
    ReadStream { stream: u8, after: u64, limit: usize },
    ReadAll { after: u64, limit: usize },
    SaveSnapshot { stream: u8, revision: u64, bytes: Vec<u8> },
    LoadSnapshot { stream: u8 },
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let stream = 0_u8..4;
    let append = (stream.clone(), prop::option::of(0_u64..12), prop::collection::vec(0_u16..9_000, 0..4));
    prop_oneof![
        8 => append.prop_map(|(stream, expected, sizes)| Operation::Append { stream, expected, sizes }),
        2 => (stream.clone(), 0_u64..12, 0_usize..6)
            .prop_map(|(stream, after, limit)| Operation::ReadStream { stream, after, limit }),
        2 => (0_u64..30, 0_usize..30).prop_map(|(after, limit)| Operation::ReadAll { after, limit }),
        1 => (stream.clone(), 0_u64..9, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(stream, revision, bytes)| Operation::SaveSnapshot { stream, revision, bytes }),
        1 => stream.prop_map(|stream| Operation::LoadSnapshot { stream }),
        1 => Just(Operation::Reopen),
    ]
}

fn stream(number: u8) -> StreamId {
    StreamId::new("process", number)
}

/// The same events, ids included, for both stores.
fn payloads(sizes: &[u16]) -> Vec<NewEvent> {
    sizes.iter().map(|size| event("ä".repeat(usize::from(*size)))).collect()
}

async fn apply(operation: &Operation, store: &dyn EventStore, model: &dyn EventStore) {
    match operation {
        Operation::Append { stream: number, expected, sizes } => {
            let expected = expected.map_or(Expected::Any, |revision| Expected::Exact(Revision(revision)));
            let events = payloads(sizes);
            let theirs = model.append(&stream(*number), expected, events.clone()).await;
            assert_eq!(store.append(&stream(*number), expected, events).await, theirs);
        }
        Operation::ReadStream { stream: number, after, limit } => {
            let read = async |log: &dyn EventStore| {
                let events = log.read_stream(&stream(*number), Revision(*after), *limit).await.unwrap();
                events.iter().map(|event| (event.position, event.revision, event.data.clone())).collect::<Vec<_>>()
            };
            assert_eq!(read(store).await, read(model).await);
        }
        Operation::ReadAll { after, limit } => {
            let read = async |log: &dyn EventStore| {
                let events = log.read_all(Position(*after), *limit).await.unwrap();
                events.iter().map(|event| (event.position, event.stream.clone(), event.revision)).collect::<Vec<_>>()
            };
            assert_eq!(read(store).await, read(model).await);
        }
        Operation::SaveSnapshot { stream: number, revision, bytes } => {
            let snapshot = StreamSnapshot { revision: Revision(*revision), state_version: 1, bytes: bytes.clone() };
            model.save_snapshot(&stream(*number), snapshot.clone()).await.unwrap();
            store.save_snapshot(&stream(*number), snapshot).await.unwrap();
        }
        Operation::LoadSnapshot { stream: number } => {
            let theirs = model.load_snapshot(&stream(*number)).await;
            assert_eq!(store.load_snapshot(&stream(*number)).await, theirs);
        }
        Operation::Reopen => {}
    }
}

async fn run(operations: &[Operation]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let options = SqliteOptions { checkpoint_pages: 20, ..SqliteOptions::default() };
    let model = MemoryStore::new();
    let mut store = SqliteStore::open(&path, &options).unwrap();
    for operation in operations {
        if matches!(operation, Operation::Reopen) {
            store.close().await;
            store = SqliteStore::open(&path, &options).unwrap();
        }
        apply(operation, &*store, &*model).await;
    }
    equals_model(&*store, &*model).await;
    let verified = store.verify().await.unwrap();
    assert_eq!(verified.head, model.head());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_behaves_like_the_model(operations in prop::collection::vec(operation(), 1..40)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(&operations));
    }
}
