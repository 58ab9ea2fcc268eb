#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::checkpoint::tests::filled;
use crate::checkpoint::{CheckpointOptions, differences};
use crate::runner::catch_up;
use chronova_events::envelope::{Meta, NewEvent, StreamId};
use chronova_events::flavor::FlavorEvent;
use chronova_events::registry::NounEvent;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::Expected;
use chronova_events::store::memory::MemoryStore;

const LATER: Timestamp = Timestamp(i64::MAX);

fn keys() -> Arc<KeyRing> {
    KeyRing::in_memory().unwrap()
}

async fn live(store: &Arc<MemoryStore>) -> Arc<Views> {
    let views = Arc::new(Views::new());
    catch_up(&**store, &views).await.unwrap();
    views
}

async fn alone(store: &Arc<MemoryStore>, position: u64) -> Views {
    let views = Views::new();
    if position > 0 {
        let batch = store.read_all(Position::START, usize::try_from(position).unwrap()).await.unwrap();
        views.apply(&batch).unwrap();
    }
    views
}

async fn history(store: &Arc<MemoryStore>, options: HistoryOptions) -> Arc<History> {
    History::new(Arc::clone(store) as _, live(store).await, None, options)
}

fn position(position: u64) -> PastMoment {
    PastMoment::Position(Position(position))
}

#[tokio::test]
async fn past_states_equal_the_states_at_their_times() {
    let store = filled(2).await;
    let folder = tempfile::tempdir().unwrap();
    let checkpoints =
        Checkpoints::new(folder.path(), CheckpointOptions { spacing: 1, ..CheckpointOptions::default() }, keys());
    for at in [0, 30, 60] {
        checkpoints.save(&alone(&store, at).await).unwrap();
    }
    let options = HistoryOptions { near: 0, ..HistoryOptions::default() };
    let history = History::new(Arc::clone(&store) as _, live(&store).await, Some(checkpoints), options);
    let head = store.head().0;
    for at in [0, 1, 30, 29, 45, head, 45, 60, 61, head - 1, 44] {
        let then = history.at(position(at), LATER).await.unwrap();
        assert_eq!(differences(&then, &alone(&store, at).await, 5), [""; 0], "position {at}");
        assert_eq!(then.position(), Position(at));
    }
    assert_eq!(history.held().0, options.held);
}

#[tokio::test]
async fn a_part_of_a_past_state_equals_that_part_of_the_whole() {
    let store = filled(2).await;
    let folder = tempfile::tempdir().unwrap();
    let checkpoints =
        Checkpoints::new(folder.path(), CheckpointOptions { spacing: 1, ..CheckpointOptions::default() }, keys());
    for at in [30, 60] {
        checkpoints.save(&alone(&store, at).await).unwrap();
    }
    let head = store.head().0;
    let all: BTreeSet<&'static str> = Views::NAMES.iter().copied().collect();
    for names in [BTreeSet::from(["identities"]), BTreeSet::from(["hosts", "servers"]), all] {
        for at in [0, 1, 29, 30, 45, 60, 61, head - 1, head] {
            let expected = Views::only(names.clone());
            expected.apply(&store.read_all(Position::START, usize::try_from(at).unwrap()).await.unwrap()).unwrap();
            // The events have the times 1000, 1001, ...
            for moment in [position(at), PastMoment::Time(Timestamp(999 + i64::try_from(at).unwrap()))] {
                for is_sparse in [true, false] {
                    let part = PastPart { names: names.clone(), is_sparse };
                    let then = moment.part(&*store, &checkpoints, LATER, &part).await.unwrap();
                    assert_eq!(differences(&then, &expected, 5), [""; 0], "{moment:?} {part:?}");
                    assert_eq!(then.marked(), expected.marked(), "{moment:?} {part:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_query_at_a_time_sees_all_events_recorded_by_then() {
    let store = filled(1).await;
    let history = history(&store, HistoryOptions::default()).await;
    let head = store.head().0;
    // The events have the times 1000, 1001, ...
    for (time, expected) in [(0, 0), (999, 0), (1_000, 1), (1_010, 11), (1_009, 10), (999 + i64::MAX / 2, head)] {
        let then = history.at(PastMoment::Time(Timestamp(time)), LATER).await.unwrap();
        assert_eq!(then.position(), Position(expected), "time {time}");
        assert!(Arc::ptr_eq(&then, &history.at(PastMoment::Time(Timestamp(time)), LATER).await.unwrap()));
    }
}

#[tokio::test]
async fn a_query_at_a_time_ends_before_the_first_later_event() {
    let store = MemoryStore::new();
    let sample: chronova_events::registry::Event =
        chronova_events::flavor::samples().into_iter().next().map(FlavorEvent::into).unwrap();
    for time in [10, 20, 15, 5, 30] {
        let new = NewEvent::new(sample.clone(), Timestamp(time), &Meta::system("test"));
        store.append(&StreamId::new(FlavorEvent::NOUN, "1"), Expected::Any, vec![new]).await.unwrap();
    }
    for options in [HistoryOptions::default(), HistoryOptions { near: 0, ..HistoryOptions::default() }] {
        let history = history(&store, options).await;
        for (time, expected) in [(30, 5), (9, 0), (16, 1), (29, 4), (20, 4), (10, 1)] {
            let then = history.at(PastMoment::Time(Timestamp(time)), LATER).await.unwrap();
            assert_eq!(then.position(), Position(expected), "time {time}");
        }
    }
}

#[tokio::test]
async fn queries_of_the_future_are_refused() {
    let store = filled(1).await;
    let history = history(&store, HistoryOptions::default()).await;
    let head = store.head();
    let after = history.at(position(head.0 + 1), LATER).await;
    assert!(matches!(after, Err(HistoryError::AfterHead { head: at, .. }) if at == head));
    let future = history.at(PastMoment::Time(Timestamp(11)), Timestamp(10)).await;
    assert!(matches!(future, Err(HistoryError::Future { .. })));
    assert!(history.at(PastMoment::Time(Timestamp(10)), Timestamp(10)).await.is_ok());
}

#[tokio::test]
async fn memory_is_bounded() {
    let store = filled(1).await;
    let weight = live(&store).await.weight();
    assert!(weight > 0);
    let none = history(&store, HistoryOptions { memory: weight - 1, ..HistoryOptions::default() }).await;
    let head = store.head().0;
    assert!(matches!(none.at(position(head), LATER).await, Err(HistoryError::TooLarge { .. })));
    assert!(none.at(position(1), LATER).await.is_ok());
    // There is memory for one state only, so the other state is dropped.
    let one = history(&store, HistoryOptions { memory: weight, ..HistoryOptions::default() }).await;
    one.at(position(head - 1), LATER).await.unwrap();
    one.at(position(head), LATER).await.unwrap();
    assert!(one.held().0 <= 1 && one.held().1 <= weight);
    assert_eq!(one.bytes_under_construction.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn queries_beyond_the_limit_are_refused_as_busy() {
    let store = filled(1).await;
    let options = HistoryOptions { at_once: 1, waiting: 0, ..HistoryOptions::default() };
    let history = history(&store, options).await;
    let slot = history.slot().await.unwrap();
    assert!(matches!(history.at(position(3), LATER).await, Err(HistoryError::Busy)));
    drop(slot);
    history.at(position(3), LATER).await.unwrap();
    // A held state needs no slot.
    let _slot = history.slot().await.unwrap();
    assert!(history.at(position(3), LATER).await.is_ok());
    assert_eq!(history.waiting.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn simultaneous_queries_for_one_moment_share_one_state() {
    let store = filled(1).await;
    let options = HistoryOptions { at_once: 2, ..HistoryOptions::default() };
    let history = history(&store, options).await;
    let ask = |at| history.at(position(at), LATER);
    let (first, second, other) = tokio::join!(ask(9), ask(9), ask(5));
    assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()), "the state was built twice");
    assert_eq!(other.unwrap().position(), Position(5));
    assert!(history.turn_of(position(9)).try_lock().is_ok(), "the turn must be released");
}

#[tokio::test]
async fn a_long_replay_writes_a_checkpoint() {
    let store = filled(1).await;
    let folder = tempfile::tempdir().unwrap();
    let checkpoints =
        Checkpoints::new(folder.path(), CheckpointOptions { spacing: 5, ..CheckpointOptions::default() }, keys());
    let history = History::new(
        Arc::clone(&store) as _,
        live(&store).await,
        Some(Arc::clone(&checkpoints)),
        HistoryOptions::default(),
    );
    history.at(position(20), LATER).await.unwrap();
    while checkpoints.list().0.is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(checkpoints.list().0[0].mark.position, Position(20));
}
