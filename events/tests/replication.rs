//! The log in a real PostgreSQL with a synchronous standby. The standby is promoted after the primary was lost.
//!
//! Each protection has a control: a test that takes the protection away, and sees the loss that it prevents.

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

/// The fate of an append that only the primary had.
struct LostPrimary {
    appending: JoinHandle<Result<Appended, AppendError>>,
    /// Whether the append was acknowledged before the primary was lost.
    acknowledged: bool,
    /// The number of events that the promoted standby has.
    survived: String,
}

/// Appends a second event while the standby is away, and loses the primary.
async fn lose_the_primary(pair: &Pair, store: &Arc<PostgresStore>) -> LostPrimary {
    append(store, "1").await.unwrap().unwrap();
    let replayed = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()";
    until("the standby has the first event", || pair.primary.sql(replayed) == "1").await;
    // The primary commits the next append by itself. Only a wait for the standby keeps it from an acknowledgement.
    pair.standby.stop();
    let appending = append(store, "2");
    until("the append has reached the primary", || appending.is_finished() || waiting(&pair.primary, "WITH moved AS%"))
        .await;
    let acknowledged = appending.is_finished();
    pair.fail_over();
    let survived = pair.standby.sql("SELECT count(*) FROM chronova_events");
    LostPrimary { appending, acknowledged, survived }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_event_survives_the_loss_of_the_primary() {
    let pair = Pair::new();
    let store = PostgresStore::open(&pair.options()).await.unwrap();
    let LostPrimary { appending, acknowledged, survived } = lose_the_primary(&pair, &store).await;
    assert!(!acknowledged || survived == "2", "an acknowledged event is lost");
    // The writer finds the new primary, learns there that the event is lost, and appends it again.
    assert_eq!(appending.await.unwrap().unwrap().position, Position(2));
    append(&store, "3").await.unwrap().unwrap();
    assert_eq!(texts(&store).await, ["1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_asynchronous_standby_loses_an_acknowledged_event() {
    let pair = Pair::new();
    pair.primary.sql("ALTER SYSTEM RESET synchronous_standby_names");
    pair.primary.sql("SELECT pg_reload_conf()");
    until("the primary waits for no standby", || pair.primary.sql("SHOW synchronous_standby_names").is_empty()).await;
    let options = PostgresOptions { allow_asynchronous: true, ..pair.options() };
    let store = PostgresStore::open(&options).await.unwrap();
    let lost = lose_the_primary(&pair, &store).await;
    assert_eq!((lost.acknowledged, lost.survived.as_str()), (true, "1"), "no acknowledged event is lost");
}

/// The fate of an event that the primary showed and that no standby had.
struct OrphanedEvent {
    acknowledged: bool,
    /// How far the follower had read.
    followed: Position,
    /// The number of events that the promoted standby has.
    survived: String,
    follower: Arc<PostgresStore>,
}

/// A cancelled wait for the standby leaves a commit that the primary shows and that no standby has. Then the leader
/// dies together with the primary. `broken` are statements that take a protection away; empty: none.
async fn orphan(pair: &Arc<Pair>, broken: &str) -> OrphanedEvent {
    // The leader has a runtime of its own, so that it can die.
    let (leader, database) = (Runtime::new().unwrap(), Arc::clone(pair));
    let a = leader.spawn(async move { database.join("a").await }).await.unwrap();
    let b = pair.join("b").await;
    let leads = Arc::clone(&a);
    assert!(leader.spawn(async move { leads.lead().await }).await.unwrap().unwrap());
    append(&a, "1").await.unwrap().unwrap();
    b.told(append(&a, "2").await.unwrap().unwrap().position);
    until("the follower has both events", || b.head() == Position(2)).await;
    if !broken.is_empty() {
        pair.primary.sql(broken);
    }
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
    // A follower writes `seen` just before it reads the head row and then the events. When `seen` has changed three
    // times, `b` has read both since the event appeared.
    let announced = || pair.primary.sql("SELECT seen FROM chronova_members WHERE name = 'b'");
    for _ in 0..3 {
        let before = announced();
        until("the follower looks again", || announced() != before).await;
    }
    let (acknowledged, followed) = (appending.is_finished(), b.head());
    appending.abort();
    drop(a);
    leader.shutdown_background();
    pair.fail_over();
    let survived = pair.standby.sql("SELECT count(*) FROM chronova_events");
    OrphanedEvent { acknowledged, followed, survived, follower: b }
}

/// The writer must not learn from a read that the event is there, and followers must not fold the event.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_no_standby_has_is_neither_acknowledged_nor_followed() {
    let pair = Arc::new(Pair::new());
    let OrphanedEvent { acknowledged, followed, follower: b, .. } = orphan(&pair, "").await;
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

/// The statements that let `change` run before each update of the head row.
fn at_each_update(change: &str) -> String {
    format!(
        "CREATE FUNCTION broken() RETURNS trigger AS $$ BEGIN {change} RETURN NEW; END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER broken BEFORE UPDATE ON chronova_head FOR EACH ROW EXECUTE FUNCTION broken()"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_does_not_wait_for_the_standby_acknowledges_an_event_that_is_lost() {
    // The writer asks with a write. If this write does not wait for the standby, it knows no more than a read.
    let local = "IF NEW.epoch <> OLD.epoch THEN PERFORM set_config('synchronous_commit', 'local', true); END IF;";
    let orphaned = orphan(&Arc::new(Pair::new()), &at_each_update(local)).await;
    assert_eq!((orphaned.acknowledged, orphaned.survived.as_str()), (true, "2"), "no acknowledged event is lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_acknowledged_position_a_follower_reads_an_event_that_is_lost() {
    let orphaned = orphan(&Arc::new(Pair::new()), &at_each_update("NEW.durable := NEW.position;")).await;
    assert_eq!((orphaned.followed, orphaned.survived.as_str()), (Position(3), "2"), "no event is lost that was read");
}
