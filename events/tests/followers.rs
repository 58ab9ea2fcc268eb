//! Members that follow a log that another one leads, in a real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod database;

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Position, StreamId};
use chronova_events::store::conformance::event;
use chronova_events::store::postgres::{MemberName, PostgresOptions, PostgresStore};
use chronova_events::store::{AppendError, Appended, EventStore, Expected, StoreError};
use database::Postgres;

/// Only a store that hangs reaches it.
const LONG: Duration = Duration::from_secs(60);

fn options(database: &Postgres, name: &str) -> PostgresOptions {
    PostgresOptions {
        allow_asynchronous: true,
        lease: Duration::from_secs(5),
        member: Some(MemberName { name: name.to_owned(), address: format!("{name}:1") }),
        secret: Some([7; 32]),
        ..PostgresOptions::at(database.url(), "cell1".to_owned())
    }
}

async fn join(database: &Postgres, name: &str) -> Arc<PostgresStore> {
    PostgresStore::join(&options(database, name)).await.unwrap()
}

async fn append(store: &PostgresStore, text: &str) -> Result<Appended, AppendError> {
    store.append(&StreamId::new("process", "a"), Expected::Any, vec![event(text)]).await
}

/// Waits until the follower has folded the event at `position`.
async fn has(store: &PostgresStore, position: Position) {
    let begun = tokio::time::Instant::now();
    while store.head() < position {
        assert!(begun.elapsed() < LONG, "it does not come to {position}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_has_what_is_acknowledged_and_leads_on_it() {
    let database = Postgres::new();
    let (a, b) = (join(&database, "a").await, join(&database, "b").await);
    let refused = append(&a, "0").await.unwrap_err();
    assert!(refused.to_string().contains("another member leads"), "{refused}");
    a.lead(false).await.unwrap().expect("nobody else leads");
    assert!(a.is_certain() || !b.is_certain());
    assert_eq!(b.lead(false).await.unwrap(), None, "one leads already");
    let mut news = b.subscribe(Position::START);
    let first = append(&a, "1").await.unwrap();
    // Told by the leader, or by the row at the next renewal.
    b.told(first.position);
    assert_eq!(news.next().await.unwrap().len(), 1);
    for text in ["2", "3"] {
        append(&a, text).await.unwrap();
    }
    has(&b, Position(3)).await;
    assert_eq!(b.leader().borrow().clone().unwrap().leader.unwrap().address, "a:1");

    a.close().await;
    let begun = b.lead(false).await.unwrap().expect("the lease was released");
    assert!(begun.hosts_in.is_zero(), "{begun:?}");
    assert_eq!(append(&b, "4").await.unwrap().position, Position(4));
    assert_eq!(append(&a, "5").await.unwrap_err(), StoreError::Closed.into());
    let c = join(&database, "c").await;
    has(&c, Position(4)).await;
    assert_eq!(c.read_all(Position::START, 10).await.unwrap().len(), 4);
    b.close().await;
}

/// After a crash of the database an event may be there that nobody acknowledged, and that a standby does not have.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_acknowledged_is_not_followed() {
    let database = Postgres::new();
    let (a, b) = (join(&database, "a").await, join(&database, "b").await);
    a.lead(false).await.unwrap().unwrap();
    append(&a, "1").await.unwrap();
    append(&a, "2").await.unwrap();
    has(&b, Position(2)).await;
    database.sql(
        "INSERT INTO chronova_events SELECT 3, stream, 3, id, kind, version, codec, recorded_at, meta, data, hash \
         FROM chronova_events WHERE position = 2; UPDATE chronova_head SET position = 3",
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(b.head(), Position(2));
}

/// The leader's process is gone: its log is taken before its lease ends, and its hosts are left alone until then.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_leader_without_connections_is_taken_at_once() {
    let database = Postgres::new();
    let b = join(&database, "b").await;
    let a = join(&database, "a").await;
    a.lead(false).await.unwrap().unwrap();
    append(&a, "1").await.unwrap();
    has(&b, Position(1)).await;
    assert_eq!(b.lead(true).await.unwrap(), None, "it has connections");
    let begun = tokio::time::Instant::now();
    while !a.is_certain() {
        assert!(begun.elapsed() < LONG, "it is never certain");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The others cannot connect again, as if the process were gone: the user's name is taken from them.
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity, chronova_head \
               WHERE application_name = 'chronova-' || encode(holder, 'hex')";
    let taken = loop {
        database.sql(cut);
        if let Some(taken) = b.lead(true).await.unwrap() {
            break taken;
        }
        assert!(begun.elapsed() < LONG, "it is never taken");
    };
    assert!(!taken.hosts_in.is_zero() && taken.hosts_in <= Duration::from_secs(5), "{taken:?}");
    assert_eq!(append(&b, "2").await.unwrap().position, Position(2));
    // The deposed one appends nothing, and is certain of nothing.
    append(&a, "zombie").await.unwrap_err();
    assert!(!a.is_certain());
    assert_eq!(b.read_all(Position::START, 10).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_secret_is_refused() {
    let database = Postgres::new();
    let _a = join(&database, "a").await;
    for secret in [Some([8; 32]), None] {
        let other = PostgresOptions { secret, ..options(&database, "b") };
        let refused = PostgresStore::join(&other).await.unwrap_err().to_string();
        assert!(refused.contains("another secret"), "{refused}");
    }
}
