//! The log in a real PostgreSQL with a synchronous standby. The standby is promoted after the primary was lost.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Position, StreamId};
use chronova_events::store::conformance::{event, text};
use chronova_events::store::postgres::{ClusterMember, MemberName, PostgresOptions, PostgresStore};
use chronova_events::store::{AppendError, Appended, EventStore, Expected};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::database::Postgres;

/// Only a store that hangs makes a test reach this limit.
const LONG: Duration = Duration::from_mins(1);

/// A primary, and its synchronous standby.
struct Pair {
    primary: Postgres,
    standby: Postgres,
}

impl Pair {
    fn new() -> Self {
        let primary = Postgres::new();
        let standby = primary.standby();
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.sql("SELECT pg_reload_conf()");
        Self { primary, standby }
    }

    /// The options of a store that finds the server that accepts writes. It has no lease, because a renewal that waits
    /// for the standby would lock the head row. The append would then wait for the renewal, and not for the standby.
    fn options(&self) -> PostgresOptions {
        let [first, second] = [&self.primary, &self.standby].map(|server| server.folder.path().display().to_string());
        let url = format!("host={first},{second} user=postgres dbname=postgres target_session_attrs=read-write");
        PostgresOptions { patience: LONG, lease: Duration::ZERO, ..PostgresOptions::at(url, "cell1".to_owned()) }
    }

    async fn join(&self, name: &str) -> Arc<PostgresStore> {
        let name = MemberName { name: name.to_owned(), address: format!("{name}:1") };
        PostgresStore::join(&self.options(), ClusterMember { name, secret: None }).await.unwrap()
    }

    /// Loses the primary like a broken machine, and lets the standby accept writes.
    fn fail_over(&self) {
        self.primary.stop();
        self.standby.start();
        self.standby.promote();
    }
}

fn append(store: &Arc<PostgresStore>, text: &str) -> JoinHandle<Result<Appended, AppendError>> {
    let (store, new) = (Arc::clone(store), event(text));
    tokio::spawn(async move { store.append(&StreamId::new("process", "a"), Expected::Any, vec![new]).await })
}

async fn texts(store: &PostgresStore) -> Vec<String> {
    store.read_all(Position::START, 99).await.unwrap().iter().map(|event| text(event)).collect()
}

async fn until(what: &str, mut met: impl FnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !met() {
        let is_late = begun.elapsed() >= LONG;
        assert!(!is_late, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The statements that wait for the standby.
fn waiting(server: &Postgres, like: &str) -> bool {
    let sql = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE";
    server.sql(&format!("{sql} '{like}'")) == "t"
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_event_survives_the_loss_of_the_primary() {
    let pair = Pair::new();
    let store = PostgresStore::open(&pair.options()).await.unwrap();
    append(&store, "1").await.unwrap().unwrap();
    // The primary commits the next append by itself. Only a wait for the standby keeps it from an acknowledgement.
    pair.standby.stop();
    let appending = append(&store, "2");
    until("the append has reached the primary", || appending.is_finished() || waiting(&pair.primary, "WITH moved AS%"))
        .await;
    let acknowledged = appending.is_finished();
    pair.fail_over();
    let survived = pair.standby.sql("SELECT count(*) FROM chronova_events");
    assert!(!acknowledged || survived == "2", "an acknowledged event is lost");
    // The writer finds the new primary, learns there that the event is lost, and appends it again.
    assert_eq!(appending.await.unwrap().unwrap().position, Position(2));
    append(&store, "3").await.unwrap().unwrap();
    assert_eq!(texts(&store).await, ["1", "2", "3"]);
}

/// A cancelled wait for the standby leaves a commit that the primary shows and that no standby has. The writer must not
/// learn from a read that the event is there, and followers must not fold the event.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_no_standby_has_is_neither_acknowledged_nor_followed() {
    let pair = Arc::new(Pair::new());
    // The leader has a runtime of its own, so that it can die.
    let (leader, database) = (Runtime::new().unwrap(), Arc::clone(&pair));
    let a = leader.spawn(async move { database.join("a").await }).await.unwrap();
    let b = pair.join("b").await;
    let leads = Arc::clone(&a);
    assert!(leader.spawn(async move { leads.lead().await }).await.unwrap().unwrap());
    append(&a, "1").await.unwrap().unwrap();
    b.told(append(&a, "2").await.unwrap().unwrap().position);
    until("the follower has both events", || b.head() == Position(2)).await;
    pair.standby.stop();
    let appending = append(&a, "3");
    until("the append waits for the standby", || appending.is_finished() || waiting(&pair.primary, "WITH moved AS%"))
        .await;
    pair.primary.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'WITH moved AS%'");
    until("the primary shows the event", || pair.primary.sql("SELECT max(position) FROM chronova_events") == "3").await;
    until("the writer asks for the outcome", || {
        appending.is_finished() || waiting(&pair.primary, "UPDATE chronova_head SET epoch%")
    })
    .await;
    // A follower writes `seen` just before it reads the head row. When `seen` has changed twice, `b` has read the head
    // row since the event appeared there.
    let announced = || pair.primary.sql("SELECT seen FROM chronova_members WHERE name = 'b'");
    for _ in 0..2 {
        let before = announced();
        until("the follower looks again", || announced() != before).await;
    }
    let (acknowledged, followed) = (appending.is_finished(), b.head());
    // The leader dies together with the primary.
    appending.abort();
    drop(a);
    leader.shutdown_background();
    pair.fail_over();
    assert!(!acknowledged, "an event was acknowledged that no standby has");
    assert_eq!(followed, Position(2), "a follower read an event that no standby has");
    let begun = tokio::time::Instant::now();
    while !b.lead().await.unwrap() {
        let is_late = begun.elapsed() >= LONG;
        assert!(!is_late, "the follower never leads");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    append(&b, "4").await.unwrap().unwrap();
    assert_eq!(texts(&b).await, ["1", "2", "4"]);
}
