//! Tests which of several members leads the log of a real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::StreamId;
use chronova_events::store::conformance::event;
use chronova_events::store::levels::EventLevels;
use chronova_events::store::postgres::{PostgresOptions, PostgresStore};
use chronova_events::store::{AppendError, EventStore, Expected, StoreError};

use crate::child::{log_and_run, say, spawn};
use crate::database::Postgres;

/// The full name of the test [`child`].
const CHILD: &str = "leases::child";
/// Longer than any test takes. Only a member that waits for ever would wait so long.
const LONG: Duration = Duration::from_hours(1);

/// Long enough that a busy machine renews it.
const SHORT: Duration = Duration::from_secs(3);

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

/// Not a test, but the leader that another test stops. It leads the log in the database of a folder. In the run 1, a
/// timer ends the process with its lease.
#[test]
fn child() {
    let Some((folder, run)) = log_and_run() else { return };
    let url = format!("host={} user=postgres dbname=postgres", folder.display());
    let options = PostgresOptions {
        allow_asynchronous: true,
        lease: SHORT,
        end_process: run == "1",
        ..PostgresOptions::at(url, "cell1".to_owned())
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = PostgresStore::open(&options).await.unwrap();
        say("leads");
        // Without its parent, the child ends with the database.
        let _ = store.lost().wait_for(Option::is_some).await;
    });
}

/// Stops a leader (SIGSTOP). Returns how its process had ended when another member led.
async fn stopped_leader(has_timer: bool) -> Option<ExitStatus> {
    let database = Postgres::new();
    let mut child = spawn(CHILD, database.folder.path(), u64::from(has_timer));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "leads"), "the child does not lead");
    assert!(Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap().success());
    let _second = open(&database, SHORT).await;
    let ended = child.try_wait().unwrap();
    if ended.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    ended
}

/// Without the timer, a stopped leader would go on after another member has taken the lead.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_timer_ends_a_stopped_leader_before_another_leads() {
    let ended = stopped_leader(true).await;
    assert_eq!(ended.and_then(|ended| ended.signal()), Some(9), "the leader is alive while another leads: {ended:?}");
    assert_eq!(stopped_leader(false).await, None, "something else than the timer ends a stopped leader");
}
