//! A log whose first events left its file: every read gives the same events as before, after a crash at any step, too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "s3/mod.rs"]
mod s3;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chronova_events::archive::cold::ColdEvents;
use chronova_events::archive::{Manifest, manifests, segment};
use chronova_events::envelope::{Meta, NewEvent, Position, Revision, StreamId, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::instance::{InstanceEvent, Renamed};
use chronova_events::place::{FilePlace, FolderPlace, PlaceAddress};
use chronova_events::registry::Event;
use chronova_events::sealed::{DataSubject, ERASED};
use chronova_events::store::audit_index::{IndexOptions, IndexProgress, IndexedLog};
use chronova_events::store::conformance::{equals_model, event};
use chronova_events::store::criteria::Criteria;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::sqlite::retention::{MovePace, STEP};
use chronova_events::store::sqlite::verify::{Verification, VerifyOptions, verify};
use chronova_events::store::sqlite::{ReadOnlyLog, SqliteOptions, SqliteStore};
use chronova_events::store::{AppendError, EventStore, Expected, StoreError, StreamSnapshot};
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

fn open(path: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(path, &SqliteOptions::default()).unwrap()
}

fn stream(n: u64) -> StreamId {
    StreamId::new("process", n)
}

/// The archive in a folder.
fn at(folder: &Path) -> Arc<dyn FilePlace> {
    Arc::new(FolderPlace::new(folder.to_owned()))
}

/// Continues the archive up to `to`.
async fn archive(store: &SqliteStore, folder: &Path, to: u64) {
    extend(store, &*at(folder), to).await;
}

async fn extend(store: &SqliteStore, place: &dyn FilePlace, to: u64) {
    place.prepare().unwrap();
    let mut next = manifests(place).unwrap().last().map_or(1, |newest| newest.last + 1);
    while next <= to {
        let written = segment::write(store, place, (next, to), Timestamp(1), None, |_| ()).await.unwrap();
        next = written.last + 1;
    }
}

async fn prune(store: &SqliteStore, folder: &Path, to: u64) {
    archive(store, folder, to).await;
    let floor = store.move_to_archive(Position(to), at(folder), |_| ControlFlow::Continue(())).await.unwrap();
    assert!(floor.position >= Position(to), "the floor is at {floor}");
}

/// Appends the same events to both logs, in parts of at most 500. The parts alternate between three streams.
async fn fill(store: &dyn EventStore, model: &dyn EventStore, count: u64) {
    let mut left = count;
    while left > 0 {
        let part = left.min(500);
        let events: Vec<NewEvent> = (0..part).map(|n| event(format!("event {n}"))).collect();
        let stream = stream(left % 3);
        store.append(&stream, Expected::Any, events.clone()).await.unwrap();
        model.append(&stream, Expected::Any, events).await.unwrap();
        left -= part;
    }
}

fn look(path: &Path) -> Verification {
    verify(path, &VerifyOptions::default()).unwrap()
}

fn assert_whole(path: &Path, events: u64) {
    let found = look(path);
    assert!(found.is_whole(), "{found:?}");
    assert_eq!(found.events, events);
}

/// A log of `count` events, its model, and the folder of its archive.
async fn log(count: u64) -> (TempDir, PathBuf, PathBuf, Arc<MemoryStore>) {
    let folder = tempfile::tempdir().unwrap();
    let (path, cold) = (folder.path().join("log.db"), folder.path().join("archive"));
    let (store, model) = (open(&path), MemoryStore::new());
    fill(&*store, &*model, count).await;
    store.close().await;
    (folder, path, cold, model)
}

#[derive(Debug, Clone)]
enum RetentionStep {
    Append { stream: u64, count: usize },
    Prune { of_hundred: u64 },
    Reopen,
}

fn step() -> impl Strategy<Value = RetentionStep> {
    prop_oneof![
        4 => (0_u64..4, 1_usize..30).prop_map(|(stream, count)| RetentionStep::Append { stream, count }),
        2 => (0_u64..=100).prop_map(|of_hundred| RetentionStep::Prune { of_hundred }),
        1 => Just(RetentionStep::Reopen),
    ]
}

type EventPlaces = Vec<(Position, StreamId, Revision)>;

fn places(events: &[Arc<chronova_events::envelope::Recorded>]) -> EventPlaces {
    events.iter().map(|event| (event.position, event.stream.clone(), event.revision)).collect()
}

async fn found(log: &dyn EventStore, criteria: &Criteria, limit: usize) -> EventPlaces {
    let (mut all, mut at) = (EventPlaces::new(), Position::START);
    loop {
        let part = log.search(at, limit, criteria).await.unwrap();
        all.extend(places(&part.events));
        if part.until == at {
            return all;
        }
        at = part.until;
    }
}

/// Compares every kind of read.
async fn reads_are_equal(store: &dyn EventStore, model: &dyn EventStore) {
    equals_model(store, model).await;
    let head = model.head().0;
    for n in 0..4 {
        for (after, limit) in [(0, usize::MAX), (0, 1), (3, 5), (17, 2), (40, 9)] {
            let ours = store.read_stream(&stream(n), Revision(after), limit).await.unwrap();
            let theirs = model.read_stream(&stream(n), Revision(after), limit).await.unwrap();
            assert_eq!(places(&ours), places(&theirs), "stream {n} after {after}, {limit} events");
        }
        let criteria = Criteria { streams: vec![stream(n).to_string()], ..Criteria::default() };
        for limit in [1, 7, 100] {
            assert_eq!(found(store, &criteria, limit).await, found(model, &criteria, limit).await);
        }
    }
    for after in 0..=head {
        let ours = store.read_all(Position(after), 3).await.unwrap();
        assert_eq!(places(&ours), places(&model.read_all(Position(after), 3).await.unwrap()));
    }
    let some: Vec<Position> = (1..=head).step_by(3).map(Position).collect();
    assert_eq!(places(&store.read_at(&some).await.unwrap()), places(&model.read_at(&some).await.unwrap()));
    let mut subscription = store.subscribe(Position::START);
    let mut seen = Vec::new();
    while seen.len() < usize::try_from(head).unwrap() {
        seen.extend(subscription.next().await.unwrap());
    }
    assert_eq!(places(&seen), places(&model.read_all(Position::START, usize::MAX).await.unwrap()));
}

async fn run(steps: &[RetentionStep]) {
    let folder = tempfile::tempdir().unwrap();
    let (path, cold) = (folder.path().join("log.db"), folder.path().join("archive"));
    let (mut store, model) = (open(&path), MemoryStore::new());
    for step in steps {
        match step {
            RetentionStep::Append { stream: n, count } => {
                let events: Vec<NewEvent> = (0..*count).map(|n| event(format!("text {n}"))).collect();
                let theirs = model.append(&stream(*n), Expected::Any, events.clone()).await;
                assert_eq!(store.append(&stream(*n), Expected::Any, events).await, theirs);
            }
            RetentionStep::Prune { of_hundred } => prune(&store, &cold, model.head().0 * of_hundred / 100).await,
            RetentionStep::Reopen => {
                store.close().await;
                store = open(&path);
            }
        }
    }
    reads_are_equal(&*store, &*model).await;
    // The index of the whole log is made from the archive and the file.
    let options = IndexOptions { part: 8, block: 32 };
    let indexed = IndexedLog::new(store.clone(), folder.path().join("log.db.index"), options);
    while let IndexProgress::Behind(_) = indexed.extend().await.unwrap() {}
    for n in 0..4 {
        let criteria = Criteria { streams: vec![stream(n).to_string()], ..Criteria::default() };
        assert_eq!(found(&*indexed, &criteria, 7).await, found(&*model, &criteria, 7).await);
    }
    assert_eq!(store.verify().await.unwrap().events, model.head().0);
    let beside = ReadOnlyLog::open(&path).unwrap();
    reads_are_equal_of_a_reader(&*beside, &*model).await;
    store.close().await;
    assert_whole(&path, model.head().0);
}

/// A reader has no live events.
async fn reads_are_equal_of_a_reader(store: &dyn EventStore, model: &dyn EventStore) {
    equals_model(store, model).await;
    for n in 0..4 {
        let ours = store.read_stream(&stream(n), Revision(2), 11).await.unwrap();
        assert_eq!(places(&ours), places(&model.read_stream(&stream(n), Revision(2), 11).await.unwrap()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_read_tells_where_the_events_lie(steps in prop::collection::vec(step(), 1..14)) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(&steps));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        // The copy has the write-ahead log, as after a kill, but not its index in shared memory, which SQLite makes
        // again.
        match path.is_dir() {
            true => copy(&path, &to.join(name)),
            false if name.to_string_lossy().ends_with("-shm") => {}
            false => {
                std::fs::copy(&path, to.join(name)).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_crash_after_any_step_leaves_a_whole_log_and_a_repetition_completes_it() {
    let count = 2 * STEP + 700;
    let (folder, path, cold, model) = log(count).await;
    let (to, store) = (Position(count - 50), open(&path));
    archive(&store, &cold, to.0).await;
    for steps in 0..=3 {
        let reached = match steps {
            0 => Position::START,
            _ => store.move_to_archive(to, at(&cold), |_| ControlFlow::Break(())).await.unwrap().position,
        };
        assert_eq!(reached, Position((steps * STEP).min(to.0)));
        // The writer answers in order, so nothing is being written after this answer.
        store.forget(&[]).await.unwrap();
        let crashed = folder.path().join(format!("crash-{steps}"));
        std::fs::create_dir(&crashed).unwrap();
        for name in ["log.db", "log.db-wal", "log.db.witness", "log.db.seals"] {
            let _ = std::fs::copy(folder.path().join(name), crashed.join(name));
        }
        let keys = folder.path().join("log.db.keys");
        if keys.exists() {
            std::fs::copy(keys, crashed.join("log.db.keys")).unwrap();
        }
        copy(&cold, &crashed.join("archive"));
        let (path, cold) = (crashed.join("log.db"), crashed.join("archive"));
        let again = open(&path);
        assert_eq!(again.archived().await.unwrap().end.position, reached);
        equals_model(&*again, &*model).await;
        prune(&again, &cold, to.0).await;
        equals_model(&*again, &*model).await;
        again.close().await;
        assert_whole(&path, count);
    }
    store.close().await;
}

#[tokio::test]
async fn a_move_in_batches_reaches_the_same_end() {
    let (_folder, path, cold, model) = log(30).await;
    let store = open(&path);
    archive(&store, &cold, 24).await;
    let (pace, mut reached) = (MovePace { batch: 7, pause: Duration::from_millis(1) }, Vec::new());
    let tell = |position: Position| {
        reached.push(position.0);
        ControlFlow::Continue(())
    };
    let end = store.move_at_pace(Position(24), at(&cold), pace, tell).await.unwrap();
    assert_eq!((end.position, reached), (Position(24), vec![7, 14, 21, 24]));
    equals_model(&*store, &*model).await;
    store.close().await;
    assert_whole(&path, 30);
}

#[tokio::test]
async fn a_move_asks_after_a_pause_whether_it_may_go_on() {
    let (_folder, path, cold, _) = log(30).await;
    let store = open(&path);
    archive(&store, &cold, 24).await;
    let (pace, mut asked) = (MovePace { batch: 7, pause: Duration::from_hours(1) }, false);
    let tell = |_: Position| {
        asked = true;
        ControlFlow::Continue(())
    };
    let pauses = async {
        while store.archived().await.unwrap().end.position != Position(7) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // By now a move that asks before its pause would have asked.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    tokio::select! {
        end = store.move_at_pace(Position(24), at(&cold), pace, tell) => panic!("no pause: {end:?}"),
        () = pauses => {}
    }
    assert!(!asked, "a hold that is set in the pause would be overlooked");
    store.close().await;
    assert_whole(&path, 30);
}

#[tokio::test]
async fn a_crash_while_the_archive_is_written_is_repaired_by_a_repetition() {
    let (_folder, path, cold, model) = log(40).await;
    let store = open(&path);
    archive(&store, &cold, 30).await;
    let written: Manifest = manifests(&*at(&cold)).unwrap().remove(0);
    let (file, description) = (cold.join(written.file_name()), cold.join(written.described_in()));
    // A crash leaves a part of the segment, or the segment without its description.
    for crash in 0..3 {
        match crash {
            0 => {
                std::fs::rename(&file, cold.join(format!("{}.tmp", written.file))).unwrap();
                std::fs::remove_file(&description).unwrap();
            }
            1 => std::fs::remove_file(&description).unwrap(),
            _ => std::fs::rename(&description, description.with_extension("tmp")).unwrap(),
        }
        let refused = store.move_to_archive(Position(30), at(&cold), |_| ControlFlow::Continue(())).await.unwrap_err();
        assert!(refused.to_string().contains("ends at position 0"), "{refused}");
        assert_eq!(store.archived().await.unwrap().end.position, Position::START);
        archive(&store, &cold, 30).await;
    }
    prune(&store, &cold, 30).await;
    equals_model(&*store, &*model).await;
    store.close().await;
    assert_whole(&path, 40);
}

#[tokio::test]
async fn a_flipped_byte_in_the_archive_is_located() {
    let (_folder, path, cold, model) = log(3_500).await;
    let store = open(&path);
    prune(&store, &cold, 3_300).await;
    store.close().await;
    let written = manifests(&*at(&cold)).unwrap().remove(0);
    assert_eq!(written.frames.iter().map(|frame| frame.first).collect::<Vec<_>>(), [1, 1_025, 2_049, 3_073]);
    let file = cold.join(written.file_name());
    let whole = std::fs::read(&file).unwrap();
    for nth in 0..12 {
        // The bytes behind the header of a frame; the header has bits without a meaning.
        let at = 40 + nth * (whole.len() - 41) / 12;
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&file, bytes).unwrap();
        let found = look(&path);
        let frame = written.frames.iter().rposition(|frame| frame.offset <= at as u64).unwrap();
        let first = written.frames[frame].first;
        let last = written.frames.get(frame + 1).map_or(3_300, |next| next.first - 1);
        let named = |damage: &chronova_events::store::sqlite::verify::LogDamage| {
            let inside = damage.position.is_some_and(|position| (first..=last).contains(&position.0));
            inside && damage.what.contains(&written.file)
        };
        assert!(found.damages.iter().any(named), "byte {at}, positions {first} to {last}: {found:?}");
        assert_eq!(found.damages.iter().filter(|damage| damage.position.is_some()).count(), 1, "{found:?}");
        // The other frames can still be read.
        let store = open(&path);
        let other = if frame == 0 { 1_100 } else { 7 };
        assert_eq!(store.read_all(Position(other), 2).await.unwrap().len(), 2);
        let lost = store.read_all(Position(first - 1), 1).await.unwrap_err();
        assert!(matches!(lost, StoreError::Corrupt { position, .. } if (first..=last).contains(&position)), "{lost}");
        store.close().await;
    }
    // A frame's header has a bit without a meaning, so the hash of the file alone finds its change (RFC 8878, 3.1.1.1.1).
    let mut bytes = whole.clone();
    bytes[4] ^= 0x10;
    std::fs::write(&file, bytes).unwrap();
    let found = look(&path);
    assert!(
        found.damages.len() == 1 && found.damages[0].what.ends_with("the file is not as it was written"),
        "{found:?}"
    );
    std::fs::write(&file, whole).unwrap();
    assert_whole(&path, 3_500);
    let store = open(&path);
    equals_model(&*store, &*model).await;
    store.close().await;
}

#[tokio::test]
async fn an_archive_that_lacks_events_or_is_of_another_log_is_refused() {
    let (_folder, path, cold, _) = log(60).await;
    let (_other_folder, other_path, other_cold, _) = log(60).await;
    let (store, other) = (open(&path), open(&other_path));
    archive(&store, &cold, 20).await;
    archive(&other, &other_cold, 40).await;
    let refused = async |to: u64, folder: &Path| {
        let moved = store.move_to_archive(Position(to), at(folder), |_| ControlFlow::Continue(())).await;
        moved.unwrap_err().to_string()
    };
    assert!(refused(21, &cold).await.contains("ends at position 20"));
    assert!(refused(61, &cold).await.contains("the log ends at position 60"));
    assert!(refused(20, &other_cold).await.contains("of another log"));
    assert_eq!(store.archived().await.unwrap().archive, None, "a refused move changed the log");
    prune(&store, &cold, 20).await;
    store.close().await;
    // Somebody exchanges the archive.
    std::fs::rename(&cold, cold.with_extension("away")).unwrap();
    copy(&other_cold, &cold);
    let store = open(&path);
    let foreign = store.read_all(Position::START, 5).await.unwrap_err();
    assert!(matches!(&foreign, StoreError::Corrupt { position: 20, reason } if reason.contains("another log")));
    assert!(!look(&path).is_whole());
    store.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_log_opens_without_its_archive_and_names_it() {
    let (_folder, path, cold, model) = log(60).await;
    let store = open(&path);
    let first = store.first_event().await.unwrap();
    prune(&store, &cold, 50).await;
    store.close().await;
    let away = cold.with_extension("away");
    std::fs::rename(&cold, &away).unwrap();
    let store = open(&path);
    assert_eq!(store.read_all(Position(50), 100).await.unwrap().len(), 10);
    let lost = store.read_all(Position(49), 1).await.unwrap_err();
    assert!(matches!(lost, StoreError::ArchiveAway { position: 50, .. }), "{lost:?}");
    let told = lost.to_string();
    assert!(told.contains("the archive cannot be read") && told.contains(cold.to_str().unwrap()), "{told}");
    // The file notes the first event, which names the installation.
    assert!(first.is_some());
    assert_eq!(store.first_event().await.unwrap(), first);
    assert_eq!(ReadOnlyLog::open(&path).unwrap().first_event().await.unwrap(), first);
    fill(&*store, &*model, 5).await;
    // The archive may move to another place, if the log is told.
    store.move_to_archive(Position(50), at(&away), |_| ControlFlow::Continue(())).await.unwrap();
    assert_eq!(store.archived().await.unwrap().archive, Some(PlaceAddress::Folder(away)));
    equals_model(&*store, &*model).await;
    store.close().await;
    assert_whole(&path, 65);
}

#[tokio::test]
async fn an_archive_that_is_away_is_asked_again_after_a_pause() {
    let (_folder, path, cold, _) = log(60).await;
    let store = open(&path);
    prune(&store, &cold, 50).await;
    store.close().await;
    let away = cold.with_extension("away");
    let (long, none) = (Duration::from_hours(1), Duration::ZERO);
    // Without a pause each read asks the place.
    for (pause, is_asked) in [(None, true), (Some(none), true), (Some(long), false)] {
        let events = match pause {
            Some(pause) => ColdEvents::new(at(&cold)).sparing(pause),
            None => ColdEvents::new(at(&cold)),
        };
        std::fs::rename(&cold, &away).unwrap();
        for position in [7, 8] {
            let lost = events.event(position, None).unwrap_err();
            assert!(matches!(lost, StoreError::ArchiveAway { position: found, .. } if found == position), "{lost:?}");
        }
        std::fs::rename(&away, &cold).unwrap();
        assert_eq!(events.event(7, None).is_ok(), is_asked, "pause {pause:?}");
    }
    // Events in memory are read without the place.
    let events = ColdEvents::new(at(&cold)).sparing(long);
    assert_eq!(events.event(7, None).unwrap().position, Position(7));
    std::fs::rename(&cold, &away).unwrap();
    assert_eq!(events.event(8, None).unwrap().position, Position(8));
    // If a place disappears after its manifests were read, it counts as away and not as damaged.
    let events = ColdEvents::new(at(&away));
    assert!(events.end_of_part(7).is_some());
    std::fs::rename(&away, &cold).unwrap();
    let lost = events.event(7, None).unwrap_err();
    assert!(matches!(lost, StoreError::ArchiveAway { .. }), "{lost:?}");
}

#[tokio::test]
async fn a_stream_goes_on_after_its_archived_events() {
    let (_folder, path, cold, _) = log(30).await;
    let store = open(&path);
    let before = store.read_stream(&stream(0), Revision::NONE, usize::MAX).await.unwrap().len() as u64;
    prune(&store, &cold, 30).await;
    store.close().await;
    let store = open(&path);
    let stale = store.append(&stream(0), Expected::Exact(Revision(0)), vec![event("x")]).await;
    assert!(matches!(stale, Err(AppendError::Conflict { actual, .. }) if actual == Revision(before)), "{stale:?}");
    let appended = store.append(&stream(0), Expected::Exact(Revision(before)), vec![event("x")]).await.unwrap();
    assert_eq!((appended.revision, appended.position), (Revision(before + 1), Position(31)));
    let all = store.read_stream(&stream(0), Revision::NONE, usize::MAX).await.unwrap();
    assert_eq!(all.len() as u64, before + 1);
    store.close().await;
    assert_whole(&path, 31);
}

#[tokio::test]
async fn the_streams_of_a_part_are_found_in_the_file_and_in_the_archive() {
    let (_folder, path, cold, model) = log(700).await;
    let store = open(&path);
    fill(&*store, &*model, 5).await;
    // The first events of a third stream, which stay in the file.
    fill(&*store, &*model, 3).await;
    prune(&store, &cold, 600).await;
    for (after, until) in [(0, 708), (0, 500), (500, 600), (0, 600), (550, 701), (600, 705), (703, 708), (705, 705)] {
        let part = model.read_all(Position(after), usize::try_from(until - after).unwrap()).await.unwrap();
        let expected: BTreeSet<StreamId> = part.iter().map(|recorded| recorded.stream.clone()).collect();
        let found = store.streams_between(Position(after), Position(until)).await.unwrap();
        assert_eq!(found.len(), expected.len(), "after {after} up to {until}");
        for part in &found {
            let first = model.read_stream(&part.stream, Revision::NONE, 1).await.unwrap()[0].position;
            assert_eq!(part.is_archived, first <= Position(600), "{}", part.stream);
        }
        let streams: BTreeSet<StreamId> = found.into_iter().map(|part| part.stream).collect();
        assert_eq!(streams, expected, "after {after} up to {until}");
    }
    store.close().await;
}

#[tokio::test]
async fn a_forgotten_snapshot_is_known_until_nobody_needs_it() {
    let (_folder, path, _, _) = log(700).await;
    let store = open(&path);
    let snapshot = StreamSnapshot { revision: Revision(3), state_version: 2, bytes: b"a state".to_vec() };
    let known = async || {
        let all = store.kept_snapshots().await.unwrap();
        all.into_iter().map(|kept| (kept.stream, kept.state_version, kept.is_readable)).collect::<Vec<_>>()
    };
    assert!(known().await.is_empty());
    for n in 1..3 {
        store.save_snapshot(&stream(n), snapshot.clone()).await.unwrap();
    }
    assert_eq!(known().await, [(stream(1), 2, true), (stream(2), 2, true)]);
    // A late snapshot does not replace a newer one.
    let late = StreamSnapshot { revision: Revision(2), ..snapshot.clone() };
    store.save_snapshot(&stream(1), late).await.unwrap();
    assert_eq!(store.load_snapshot(&stream(1)).await.unwrap(), Some(snapshot.clone()));
    let keys = store.keys().unwrap();
    keys.destroy(&DataSubject::Caches, keys.next()).unwrap();
    assert_eq!(known().await, [(stream(1), 2, false), (stream(2), 2, false)]);
    store.save_snapshot(&stream(1), snapshot.clone()).await.unwrap();
    assert_eq!(known().await, [(stream(1), 2, true), (stream(2), 2, false)]);
    store.forget(&[stream(1), stream(0)]).await.unwrap();
    assert_eq!(store.load_snapshot(&stream(1)).await.unwrap(), None);
    assert_eq!(known().await, [(stream(1), 0, false), (stream(2), 2, false)]);
    store.forget_for_ever(vec![stream(1)]).await.unwrap();
    assert_eq!(known().await, [(stream(2), 2, false)]);
    store.save_snapshot(&stream(2), snapshot.clone()).await.unwrap();
    assert_eq!(store.load_snapshot(&stream(2)).await.unwrap(), Some(snapshot));
    store.close().await;
    assert_whole(&path, 700);
}

#[tokio::test]
async fn removed_events_leave_space_in_the_file() {
    let (_folder, path, cold, _) = log(6_000).await;
    let store = open(&path);
    let before = store.size().await.unwrap();
    prune(&store, &cold, 5_900).await;
    let after = store.size().await.unwrap();
    assert!(after.used < before.used / 2 && after.free > before.used / 3, "{before:?}, then {after:?}");
    assert_eq!(ReadOnlyLog::open(&path).unwrap().archived().await.unwrap().end.position, Position(5_900));
    store.close().await;
}

#[tokio::test]
async fn an_erasure_reaches_the_archived_events() {
    let folder = tempfile::tempdir().unwrap();
    let (path, cold) = (folder.path().join("log.db"), folder.path().join("archive"));
    let (store, server) = (open(&path), InstanceId(Uuid::from_u128(7)));
    let stream = StreamId::new("instance", server);
    for n in 0..20 {
        let renamed = InstanceEvent::from(Renamed { name: format!("annas-{n}") });
        let renamed = NewEvent::new(renamed, Timestamp(n), &Meta::system("test"));
        store.append(&stream, Expected::Any, vec![renamed]).await.unwrap();
    }
    prune(&store, &cold, 15).await;
    let names = async || {
        let all = store.read_stream(&stream, Revision::NONE, usize::MAX).await.unwrap();
        let name = |event: &Event| match event {
            Event::InstanceEvent(InstanceEvent::Renamed(renamed)) => renamed.name.clone(),
            other => format!("{other:?}"),
        };
        all.iter().map(|recorded| name(recorded.event().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(names().await, (0..20).map(|n| format!("annas-{n}")).collect::<Vec<_>>());
    let keys = store.keys().unwrap();
    assert!(keys.destroy(&DataSubject::Server(server), keys.next()).unwrap() > 0);
    store.forget(std::slice::from_ref(&stream)).await.unwrap();
    assert_eq!(names().await, vec![ERASED; 20], "the archive must not keep the names");
    store.close().await;
    assert_whole(&path, 20);
}
