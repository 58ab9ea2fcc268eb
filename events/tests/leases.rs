//! Tests which of several members leads the log of a real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::StreamId;
use chronova_events::store::conformance::event;
use chronova_events::store::levels::EventLevels;
use chronova_events::store::postgres::{PostgresOptions, PostgresStore};
use chronova_events::store::{AppendError, EventStore, Expected, StoreError};

use crate::database::Postgres;

/// Longer than any test takes. Only a member that waits for ever would wait so long.
const LONG: Duration = Duration::from_hours(1);

fn options(database: &Postgres, lease: Duration) -> PostgresOptions {
    PostgresOptions {
        url: database.url(),
        cell: "cell1".to_owned(),
        keys: None,
        allow_asynchronous: true,
        patience: Duration::from_mins(1),
        lease,
        end_process: false,
        levels: EventLevels::default(),
    }
}

async fn open(database: &Postgres, lease: Duration) -> Arc<PostgresStore> {
    PostgresStore::open(&options(database, lease)).await.unwrap()
}

async fn append(store: &PostgresStore, text: &str) -> Result<(), AppendError> {
    store.append(&StreamId::new("process", "a"), Expected::Any, vec![event(text)]).await.map(drop)
}

/// Waits until the condition holds in the database.
async fn until(database: &Postgres, condition: &str) {
    while database.sql(&format!("SELECT {condition} FROM chronova_head")) != "t" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_waits_while_another_leads() {
    let database = Postgres::new();
    let short = Duration::from_secs(3);
    let first = open(&database, short).await;
    let second =
        tokio::spawn(async move { PostgresStore::open(&options(&database, short)).await.map(|s| (s, database)) });
    append(&first, "1").await.unwrap();
    let watched = short * 3;
    // The sleep is much longer than a lease without a renewal.
    tokio::time::sleep(watched).await;
    assert!(!second.is_finished(), "a second member leads although the leader renews its lease");
    append(&first, "2").await.unwrap();
    assert_eq!(first.health(), Ok(()));
    // The leader is dropped without releasing the lease, as by a crash.
    drop(first);
    let (second, _database) = second.await.unwrap().unwrap();
    assert_eq!(second.head().0, 2);
    append(&second, "3").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_database_leads_no_more() {
    let database = Postgres::new();
    let first = open(&database, Duration::from_secs(3)).await;
    append(&first, "1").await.unwrap();
    database.stop();
    let reason = first.lost().wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(reason.contains("has not confirmed the lease"), "{reason}");
    database.start();
    // Although no other member leads yet, the old leader must not write.
    let refused = append(&first, "late").await.unwrap_err();
    assert!(refused.to_string().contains("another member leads"), "{refused}");
    assert!(first.health().is_err());
    let second = open(&database, Duration::from_secs(3)).await;
    assert_eq!(second.head().0, 1);
    append(&second, "2").await.unwrap();
}

/// An operator may give the lease to another member by hand. The leader learns of it at its next renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_leader_learns_of_it() {
    let database = Postgres::new();
    let first = open(&database, Duration::from_secs(8)).await;
    database.sql("UPDATE chronova_head SET holder = 'another', epoch = epoch + 1");
    let reason = first.lost().wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(reason.contains("another member leads"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_lease_is_taken_at_once() {
    let database = Postgres::new();
    let first = open(&database, LONG).await;
    append(&first, "1").await.unwrap();
    first.close().await;
    assert_eq!(append(&first, "late").await, Err(AppendError::Store(StoreError::Closed)));
    until(&database, "lease_until = '-infinity'").await;
    let second = open(&database, LONG).await;
    assert_eq!(second.head().0, 1);
}

/// A member without the keys of the log is refused before it waits for the lead.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_the_keys_is_refused_while_another_leads() {
    let database = Postgres::new();
    let _first = open(&database, LONG).await;
    database.sql("UPDATE chronova_head SET keys = 'ring'");
    let refused = PostgresStore::open(&options(&database, LONG)).await.unwrap_err();
    assert!(refused.to_string().contains("put their file back"), "{refused}");
}
