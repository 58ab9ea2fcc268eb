//! Members that follow a log that another member leads, in a real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Position, StreamId};
use chronova_events::store::conformance::event;
use chronova_events::store::postgres::{
    ClusterMember, LeaderProcess, MemberName, PostgresConnection, PostgresOptions, PostgresStore, admin,
};
use chronova_events::store::{AppendError, Appended, EventStore, Expected, StoreError};

use crate::database::Postgres;

/// Only a store that hangs makes a test reach this limit.
const LONG: Duration = Duration::from_mins(1);
const LEASE: Duration = Duration::from_secs(2);

fn options(database: &Postgres) -> PostgresOptions {
    PostgresOptions {
        allow_asynchronous: true,
        lease: LEASE,
        ..PostgresOptions::at(database.url(), "cell1".to_owned())
    }
}

fn member(name: &str, secret: u8) -> ClusterMember {
    let address = format!("{name}:1");
    ClusterMember { name: MemberName { name: name.to_owned(), address }, secret: Some([secret; 32]) }
}

async fn join(database: &Postgres, name: &str) -> Arc<PostgresStore> {
    PostgresStore::join(&options(database), member(name, 7)).await.unwrap()
}

async fn append(store: &PostgresStore, text: &str) -> Result<Appended, AppendError> {
    store.append(&StreamId::new("process", "a"), Expected::Any, vec![event(text)]).await
}

async fn until(what: &str, mut met: impl FnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !met() {
        let is_late = begun.elapsed() >= LONG;
        assert!(!is_late, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn has(store: &PostgresStore, position: Position) {
    until("the follower has the event", || store.head() >= position).await;
}

/// Waits until `store` has taken the lead. Calls `watch` after each attempt that failed.
async fn take(store: &PostgresStore, mut watch: impl FnMut()) {
    let begun = tokio::time::Instant::now();
    while !store.lead().await.unwrap() {
        watch();
        let is_late = begun.elapsed() >= LONG;
        assert!(!is_late, "the store never leads");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_has_what_is_acknowledged_and_leads_on_it() {
    let database = Postgres::new();
    let (a, b) = (join(&database, "a").await, join(&database, "b").await);
    let refused = append(&a, "0").await.unwrap_err();
    assert!(refused.to_string().contains("another member leads"), "{refused}");
    assert!(a.append_right().is_none(), "a follower must not have the right to append");
    assert!(a.lead().await.unwrap(), "`a` must lead: nobody else does");
    assert_eq!(a.confirmed_epoch(), Some(1));
    assert!(!b.lead().await.unwrap(), "`b` must not lead: `a` does");
    assert_eq!(b.confirmed_epoch(), None);
    let mut news = b.subscribe(Position::START);
    let first = append(&a, "1").await.unwrap();
    // The test tells `b` the position, as the leader's process would. Otherwise `b` would read the position in the head
    // row a moment later.
    b.told(first.position);
    assert_eq!(news.next().await.unwrap().len(), 1);
    for text in ["2", "3"] {
        append(&a, text).await.unwrap();
    }
    has(&b, Position(3)).await;
    let seen = b.leader().borrow().clone().unwrap();
    assert_eq!((seen.leader.unwrap().address, seen.epoch, seen.lease_lasts), ("a:1".to_owned(), 1, true));

    a.close().await;
    assert_eq!(a.confirmed_epoch(), None);
    take(&b, || {}).await;
    assert_eq!(b.confirmed_epoch(), Some(2));
    assert_eq!(append(&b, "4").await.unwrap().position, Position(4));
    assert_eq!(append(&a, "5").await.unwrap_err(), StoreError::Closed.into());
    let c = join(&database, "c").await;
    has(&c, Position(4)).await;
    assert_eq!(c.read_all(Position::START, 10).await.unwrap().len(), 4);
    // A member announces itself soon after it joined.
    let begun = tokio::time::Instant::now();
    let names = loop {
        let picture = admin::picture(&options(&database)).await.unwrap();
        let names: Vec<_> = picture.members.iter().map(|listed| (listed.member.name.clone(), listed.leads)).collect();
        if names.len() == 3 || begun.elapsed() >= LONG {
            break names;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(names, [("a", false), ("b", true), ("c", false)].map(|(name, leads)| (name.to_owned(), leads)));
    b.close().await;
}

/// After a crash of the database, the log may contain an event that nobody acknowledged and that a standby lacks.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_does_not_read_unacknowledged_events() {
    let database = Postgres::new();
    let (a, b) = (join(&database, "a").await, join(&database, "b").await);
    assert!(a.lead().await.unwrap());
    append(&a, "1").await.unwrap();
    append(&a, "2").await.unwrap();
    has(&b, Position(2)).await;
    database.sql(
        "INSERT INTO chronova_events SELECT 3, stream, 3, id, kind, version, codec, recorded_at, meta, data, hash \
         FROM chronova_events WHERE position = 2; UPDATE chronova_head SET position = 3",
    );
    // A follower writes `seen` just before it reads the head row, at most once a second. When `seen` has changed twice,
    // `b` has read the head row since the insert.
    let announced = || database.sql("SELECT seen FROM chronova_members WHERE name = 'b'");
    for _ in 0..2 {
        let before = announced();
        until("the follower looks again", || announced() != before).await;
    }
    assert_eq!(b.head(), Position(2));
}

/// If a leader cannot renew its lease, it first stops confirming that it leads; only then can another member lead.
#[tokio::test(flavor = "multi_thread")]
async fn two_members_never_both_confirm_that_they_lead() {
    let database = Postgres::new();
    let (a, b) = (join(&database, "a").await, join(&database, "b").await);
    assert!(a.lead().await.unwrap());
    append(&a, "1").await.unwrap();
    has(&b, Position(1)).await;
    // Renewals of the lease hang in the database.
    let holder = "SELECT encode(holder, 'hex') FROM chronova_head";
    let first = database.sql(holder);
    database.sql(
        "CREATE FUNCTION stall() RETURNS trigger AS $$ BEGIN \
             IF NEW.holder = OLD.holder AND NEW.epoch = OLD.epoch THEN PERFORM pg_sleep(60); END IF; RETURN NEW; \
         END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER stall BEFORE UPDATE ON chronova_head FOR EACH ROW EXECUTE FUNCTION stall()",
    );
    until("the leader no longer confirms that it leads", || a.confirmed_epoch().is_none()).await;
    assert_eq!(database.sql(holder), first, "another member led before the leader gave up");
    database.sql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE query LIKE 'UPDATE chronova_head SET lease_until%'; \
         DROP TRIGGER stall ON chronova_head",
    );
    take(&b, || assert!(a.confirmed_epoch().is_none() || b.confirmed_epoch().is_none())).await;
    assert!(a.confirmed_epoch().is_none() && b.confirmed_epoch().is_some());
    append(&b, "2").await.unwrap();
    append(&a, "of the deposed leader").await.unwrap_err();
    assert_eq!(b.read_all(Position::START, 10).await.unwrap().len(), 2);
}

/// An operator can end a lease by hand. The old leader learns this at its next renewal. Until then, followers recognise
/// the deposed leader by its old epoch.
#[tokio::test(flavor = "multi_thread")]
async fn followers_know_a_newer_epoch_than_that_of_a_deposed_leader() {
    let database = Postgres::new();
    let (a, b, c) = (join(&database, "a").await, join(&database, "b").await, join(&database, "c").await);
    assert!(a.lead().await.unwrap());
    append(&a, "1").await.unwrap();
    database.sql("UPDATE chronova_head SET lease_until = '-infinity'");
    take(&b, || {}).await;
    let seen = c.leader();
    until("the other follower sees the new epoch", || seen.borrow().as_ref().is_some_and(|seen| seen.epoch >= 2)).await;
    assert!(a.confirmed_epoch().is_none_or(|epoch| epoch < 2));
    assert!(b.confirmed_epoch().is_some_and(|epoch| epoch >= 2));
    append(&a, "of the deposed leader").await.unwrap_err();
    until("the deposed leader learns that it is deposed", || a.confirmed_epoch().is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switchover_lets_only_the_named_member_lead() {
    let database = Postgres::new();
    let (a, b, c) = (join(&database, "a").await, join(&database, "b").await, join(&database, "c").await);
    assert!(a.lead().await.unwrap());
    admin::switch_over(&options(&database), "c").await.unwrap();
    let wish = a.wish();
    until("the leader sees the request of a switchover", || wish.borrow().as_deref() == Some("c")).await;
    a.close().await;
    assert!(!b.lead().await.unwrap(), "`b` must not lead: the switchover names `c`");
    assert!(c.lead().await.unwrap());
    assert_eq!(*c.wish().borrow(), None);
    // The switchover is complete, so any member may lead next.
    c.close().await;
    assert!(b.lead().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_with_another_secret_is_refused() {
    let database = Postgres::new();
    let _a = join(&database, "a").await;
    let refused = PostgresStore::join(&options(&database), member("b", 8)).await.unwrap_err().to_string();
    assert!(refused.contains("sign tokens with another key"), "{refused}");
}

/// A database of format 1 gets the new columns, and keeps its log.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_log_is_brought_up_to_date() {
    let database = Postgres::new();
    let old = PostgresStore::open(&options(&database)).await.unwrap();
    append(&old, "1").await.unwrap();
    old.close().await;
    database.sql(
        "ALTER TABLE chronova_head DROP COLUMN durable, DROP COLUMN secret, DROP COLUMN wish, DROP COLUMN wish_until, \
         DROP COLUMN hosts_from, DROP COLUMN level, DROP COLUMN oldest; \
         DROP TABLE chronova_members; UPDATE chronova_head SET format = 1",
    );
    let refused = admin::picture(&options(&database)).await.unwrap_err();
    assert_eq!(refused, StoreError::OlderFormat { found: 1, supported: 4 });
    let a = join(&database, "a").await;
    assert!(a.lead().await.unwrap());
    assert_eq!(append(&a, "2").await.unwrap().position, Position(2));
    a.close().await;
}

/// A lease that ends only after the test.
const NEVER: Duration = Duration::from_mins(30);

/// Options with a file of keys. The leader locks a byte of this file. When the byte is free again, the other members
/// know that the leader's process has ended.
fn with_lock(database: &Postgres, folder: &tempfile::TempDir) -> PostgresOptions {
    PostgresOptions { keys: Some(folder.path().join("keys")), lease: NEVER, ..options(database) }
}

async fn join_with(options: &PostgresOptions, name: &str) -> Arc<PostgresStore> {
    PostgresStore::join(options, member(name, 7)).await.unwrap()
}

/// Waits until `store` sees that the leader's process runs, or that it has ended.
async fn sees(store: &PostgresStore, process: LeaderProcess) {
    let mut seen = store.leader();
    let known = seen.wait_for(|seen| seen.as_ref().is_some_and(|seen| seen.process == process));
    tokio::time::timeout(LONG, known).await.expect("the follower sees the leader's process").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_process_ended_is_replaced_before_its_lease_ends() {
    let (database, folder) = (Postgres::new(), tempfile::tempdir().unwrap());
    let options = with_lock(&database, &folder);
    let (a, b) = (join_with(&options, "a").await, join_with(&options, "b").await);
    assert!(a.lead().await.unwrap());
    assert_eq!(a.hosts_after(), Duration::ZERO, "nobody led before `a`");
    append(&a, "1").await.unwrap();
    sees(&b, LeaderProcess::Runs).await;
    assert!(!b.lead().await.unwrap(), "`b` must not lead: `a` runs");

    // The leader is dropped without releasing the lease, as by a crash.
    drop(a);
    sees(&b, LeaderProcess::Ended).await;
    take(&b, || {}).await;
    assert_eq!(b.confirmed_epoch(), Some(2));
    assert_eq!(append(&b, "2").await.unwrap().position, Position(2));
    let waits = |store: &PostgresStore| store.hosts_after() > NEVER / 2;
    assert!(waits(&b), "work on hosts must wait for the lease of `a`, not for {:?}", b.hosts_after());

    // The next leader waits for the lease of `a`, too, although `b` released its own.
    b.close().await;
    let c = join_with(&options, "c").await;
    take(&c, || {}).await;
    assert!(waits(&c), "work on hosts must wait for the lease of `a`, not for {:?}", c.hosts_after());
    c.close().await;
}

/// The clock of the database was a day ahead when an earlier leader wrote the end of its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_fast_clock_stops_work_on_hosts_for_one_lease_at_most() {
    let (database, folder) = (Postgres::new(), tempfile::tempdir().unwrap());
    let options = with_lock(&database, &folder);
    let a = join_with(&options, "a").await;
    assert!(a.lead().await.unwrap());
    a.close().await;
    database.sql("UPDATE chronova_head SET hosts_from = clock_timestamp() + interval '1 day'");
    let b = join_with(&options, "b").await;
    take(&b, || {}).await;
    assert!(b.hosts_after() > NEVER / 2 && b.hosts_after() <= NEVER, "{:?}", b.hosts_after());
    let is_bounded = "SELECT hosts_from <= clock_timestamp() + interval '30 minutes' FROM chronova_head";
    assert_eq!(database.sql(is_bounded), "t", "the next leader would wait for longer");
    b.close().await;
}

/// Two signs are needed that the leader has ended: nobody has its lock, and it has no session in the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_with_a_lock_or_a_session_is_not_replaced_before_its_lease_ends() {
    let (database, folder) = (Postgres::new(), tempfile::tempdir().unwrap());
    let options = with_lock(&database, &folder);
    let (a, b) = (join_with(&options, "a").await, join_with(&options, "b").await);
    assert!(a.lead().await.unwrap());
    sees(&b, LeaderProcess::Runs).await;
    let holder = database.sql("SELECT encode(holder, 'hex') FROM chronova_head");
    let of_leader = format!("FROM pg_stat_activity WHERE application_name = 'chronova leader {holder}'");
    assert_eq!(database.sql(&format!("SELECT count(*) {of_leader}")), "1");
    database.sql(&format!("SELECT pg_terminate_backend(pid) {of_leader}"));
    assert!(!b.lead().await.unwrap(), "`b` must not lead: `a` has its lock");

    // The lock becomes free, but a session of the leader is there.
    let session = PostgresConnection::open(&database.url()).await.unwrap();
    session.client().batch_execute(&format!("SET application_name = 'chronova leader {holder}'")).await.unwrap();
    drop(a);
    sees(&b, LeaderProcess::Ended).await;
    for _ in 0..10 {
        assert!(!b.lead().await.unwrap(), "`b` must not lead: `a` has a session");
    }
    drop(session);
    take(&b, || {}).await;
    b.close().await;
}
