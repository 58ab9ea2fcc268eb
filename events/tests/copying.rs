//! Copies a log into a real PostgreSQL: interrupted copies, damaged copies, and copies over another log.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use chronova_events::envelope::{Position, StreamId};
use chronova_events::store::conformance::event;
use chronova_events::store::postgres::copying::{CopyStage, copy};
use chronova_events::store::postgres::{PostgresOptions, PostgresStore, ReadOnlyPostgres, verifying};
use chronova_events::store::sqlite::verify::VerifyOptions;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use tempfile::TempDir;

use crate::database::Postgres;

/// More than two batches of a copy.
const EVENTS: u64 = 2_500;

fn options(database: &Postgres) -> PostgresOptions {
    PostgresOptions { allow_asynchronous: true, ..PostgresOptions::at(database.url(), "cell1".to_owned()) }
}

async fn source(first: &str) -> (TempDir, Arc<SqliteStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("log.db"), &SqliteOptions::default()).unwrap();
    let events = (1..EVENTS).map(|number| event(number.to_string())).collect();
    store.append(&StreamId::new("process", "a"), Expected::Any, vec![event(first)]).await.unwrap();
    store.append(&StreamId::new("process", "b"), Expected::Any, events).await.unwrap();
    (folder, store)
}

/// Copies, and ends the copy when `stop` says so. Returns the result and all stages.
async fn copied(
    database: &Postgres,
    source: &dyn EventStore,
    stop: impl Fn(CopyStage) -> bool + Send,
) -> (Result<(), String>, Vec<CopyStage>) {
    let mut stages = Vec::new();
    let mut tell = |stage| {
        stages.push(stage);
        if stop(stage) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let done = copy(&options(database), source, &mut tell).await;
    (done.map(drop).map_err(|failure| failure.to_string()), stages)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_copy_goes_on_where_it_stopped() {
    let database = Postgres::new();
    let (_folder, source) = source("1").await;
    let (result, stages) = copied(&database, &*source, |stage| matches!(stage, CopyStage::Copies(_))).await;
    assert!(result.unwrap_err().contains("start it again to continue"));
    let [CopyStage::Begins(Position::START), CopyStage::Copies(stopped)] = stages[..] else { panic!("{stages:?}") };
    assert!(stopped.0 > 0 && stopped.0 < EVENTS, "{stopped}");

    // A member must not serve a part of a log.
    let result = PostgresStore::open(&options(&database)).await.unwrap_err().to_string();
    assert!(result.contains("unfinished copy"), "{result}");

    let (result, stages) = copied(&database, &*source, |_| false).await;
    result.unwrap();
    assert_eq!(stages[0], CopyStage::Begins(stopped));
    assert_eq!(*stages.last().unwrap(), CopyStage::Verifies(Position(EVENTS)));
    // A member can open the copy as a log, with the same hashes.
    let store = PostgresStore::open(&options(&database)).await.unwrap();
    assert_eq!(store.anchor().await.unwrap(), source.anchor().await.unwrap());
    store.append(&StreamId::new("process", "a"), Expected::Any, vec![event("more")]).await.unwrap();
    store.close().await;
    let (result, _) = copied(&database, &*source, |_| false).await;
    assert!(result.unwrap_err().contains("another log"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_differs_is_noticed() {
    let database = Postgres::new();
    let (_folder, source) = source("1").await;
    copied(&database, &*source, |_| false).await.0.unwrap();
    database.sql("UPDATE chronova_events SET recorded_at = recorded_at + 1 WHERE position = 2000");
    let (result, _) = copied(&database, &*source, |_| false).await;
    assert_eq!(result.unwrap_err(), "the log is damaged at position 2000: the copy differs from the original");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_log_is_refused() {
    let database = Postgres::new();
    let (_folder, first) = source("1").await;
    let (result, _) = copied(&database, &*first, |stage| matches!(stage, CopyStage::Copies(_))).await;
    result.unwrap_err();
    let head = database.sql("SELECT position, hash FROM chronova_head");
    let (_folder, second) = source("2").await;
    let (result, _) = copied(&database, &*second, |_| false).await;
    assert!(result.unwrap_err().contains("another log"));
    assert_eq!(database.sql("SELECT position, hash FROM chronova_head"), head);
}

/// Damage of an event is found at its position, and a wrong hash of the log's end at the last position.
#[tokio::test(flavor = "multi_thread")]
async fn damage_in_the_database_is_found() {
    let database = Postgres::new();
    let (_folder, source) = source("1").await;
    copied(&database, &*source, |_| false).await.0.unwrap();
    let damages = async || {
        let log = ReadOnlyPostgres::open(&database.url(), "cell1", &PathBuf::from("/nowhere")).await.unwrap();
        let against = vec![source.anchor().await.unwrap().unwrap()];
        let found = verifying::verify(&log, &VerifyOptions { against, ..VerifyOptions::default() }).await.unwrap();
        let places: Vec<Option<u64>> = found.damages.iter().map(|damage| damage.position.map(|at| at.0)).collect();
        (places, found.head, found.anchors.len())
    };
    let head = source.anchor().await.unwrap();
    assert_eq!(damages().await, (Vec::new(), head, 1));
    for (sql, back, place) in [
        ("recorded_at = recorded_at + 1", "recorded_at = recorded_at - 1", 7),
        ("revision = revision + 9999", "revision = revision - 9999", 2_000),
        ("kind = kind || 'x'", "kind = left(kind, -1)", 2_500),
        ("data = data || '\\x00'", "data = substr(data, 1, length(data) - 1)", 1),
    ] {
        database.sql(&format!("UPDATE chronova_events SET {sql} WHERE position = {place}"));
        let (places, ..) = damages().await;
        assert!(!places.is_empty() && places.iter().all(|at| *at == Some(place)), "{sql}: {places:?}");
        database.sql(&format!("UPDATE chronova_events SET {back} WHERE position = {place}"));
    }
    assert_eq!(damages().await.0, []);
    database.sql("UPDATE chronova_head SET hash = decode(repeat('00', 32), 'hex')");
    assert_eq!(damages().await.0, [Some(2_500)]);
    database.sql("DELETE FROM chronova_events WHERE position = 1500");
    assert_eq!(damages().await.0, [Some(1_500)]);
}
