//! The contract suite and further cases, on a real PostgreSQL that each test starts for itself.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronova_events::envelope::{Position, Revision, StreamId};
use chronova_events::event_store_conformance;
use chronova_events::store::conformance::{Backend, event, text};
use chronova_events::store::levels::EventLevels;
use chronova_events::store::postgres::{PostgresOptions, PostgresStore};
use chronova_events::store::{EventStore, Expected, StoreError, StreamSnapshot};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::database::Postgres;

fn options(database: &Postgres) -> PostgresOptions {
    PostgresOptions {
        url: database.url(),
        cell: "cell1".to_owned(),
        keys: None,
        allow_asynchronous: true,
        patience: Duration::from_mins(1),
        lease: Duration::ZERO,
        end_process: false,
        levels: EventLevels::default(),
    }
}

impl Backend for Postgres {
    #[expect(clippy::disallowed_methods, reason = "the suite opens without await; these tests have several threads")]
    fn open(&self) -> Arc<dyn EventStore> {
        let options = options(self);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(PostgresStore::open(&options)))
            .unwrap()
    }

    fn reopen(&self, store: Arc<dyn EventStore>) -> Arc<dyn EventStore> {
        drop(store);
        self.open()
    }
}

event_store_conformance!(contract, Postgres::new());

fn stream(name: &str) -> StreamId {
    StreamId::new("process", name)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_epoch_appends_nothing() {
    let database = Postgres::new();
    let old = database.open();
    old.append(&stream("a"), Expected::Any, vec![event("1")]).await.unwrap();
    let new = database.open();
    let refused = old.append(&stream("b"), Expected::Any, vec![event("late")]).await.unwrap_err();
    assert!(refused.to_string().contains("another member leads"), "{refused}");
    new.append(&stream("a"), Expected::Exact(Revision(1)), vec![event("2")]).await.unwrap();
    assert_eq!(new.read_all(Position::START, 9).await.unwrap().len(), 2);
}

/// The control of the test above: a take-over that changes no epoch does not stop the former writer.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_new_epoch_a_deposed_writer_appends() {
    let database = Postgres::new();
    let old = database.open();
    old.append(&stream("a"), Expected::Any, vec![event("1")]).await.unwrap();
    database.sql(
        "CREATE FUNCTION broken() RETURNS trigger AS $$ BEGIN NEW.epoch := OLD.epoch; RETURN NEW; END $$ \
         LANGUAGE plpgsql; \
         CREATE TRIGGER broken BEFORE UPDATE ON chronova_head FOR EACH ROW EXECUTE FUNCTION broken()",
    );
    let new = database.open();
    old.append(&stream("b"), Expected::Any, vec![event("late")]).await.unwrap();
    let refused = new.append(&stream("a"), Expected::Exact(Revision(1)), vec![event("2")]).await.unwrap_err();
    assert!(refused.to_string().contains("another member leads"), "{refused}");
    let texts: Vec<String> = old.read_all(Position::START, 9).await.unwrap().iter().map(|event| text(event)).collect();
    assert_eq!(texts, ["1", "late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_in_the_database_is_encrypted() {
    let (database, folder) = (Postgres::new(), tempfile::tempdir().unwrap());
    let options = PostgresOptions { keys: Some(folder.path().join("keys")), ..options(&database) };
    let store = PostgresStore::open(&options).await.unwrap();
    let snapshot = StreamSnapshot { revision: Revision(3), state_version: 1, bytes: b"anna".to_vec() };
    store.save_snapshot(&stream("a"), snapshot.clone()).await.unwrap();
    assert_eq!(store.load_snapshot(&stream("a")).await.unwrap(), Some(snapshot));

    assert_eq!(database.sql("SELECT position('anna' IN encode(data, 'escape')) FROM chronova_snapshots"), "0");
    database.sql("UPDATE chronova_snapshots SET revision = 4");
    assert_eq!(store.load_snapshot(&stream("a")).await.unwrap(), None, "a snapshot of another revision is read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_standby_is_refused() {
    let database = Postgres::new();
    let options = PostgresOptions { allow_asynchronous: false, ..options(&database) };
    let refused = PostgresStore::open(&options).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Io(why) if why.contains("no synchronous standby")), "{refused}");
}

/// Writers append while `fault` happens. Afterwards each acknowledged event is in the log exactly once.
async fn nothing_is_lost_or_doubled(database: &Postgres, fault: impl AsyncFn(&Postgres)) {
    let store = database.open();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for n in 0..300 {
                    let new = event(format!("{writer}/{n}"));
                    store.append(&stream(&writer.to_string()), Expected::Exact(Revision(n)), vec![new]).await.unwrap();
                }
            })
        })
        .collect();
    fault(database).await;
    for writer in writers {
        writer.await.unwrap();
    }
    let store = database.reopen(store);
    assert_eq!(store.head(), Position(1_200));
    for writer in 0..4 {
        let read = store.read_stream(&stream(&writer.to_string()), Revision::NONE, 999).await.unwrap();
        let texts: Vec<String> = read.iter().map(|event| text(event)).collect();
        assert_eq!(texts, (0..300).map(|n| format!("{writer}/{n}")).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_connections_lose_and_double_nothing() {
    let kill = async |database: &Postgres| {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(60)).await;
            let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                          WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
            database.sql(others);
        }
    };
    nothing_is_lost_or_doubled(&Postgres::new(), kill).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_database_loses_nothing() {
    let kill = async |database: &Postgres| {
        tokio::time::sleep(Duration::from_millis(100)).await;
        database.stop();
        database.start();
    };
    nothing_is_lost_or_doubled(&Postgres::new(), kill).await;
}

/// The fate of a client's next message.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Nothing,
    /// The message never reaches the database.
    Request,
    /// The database performs the statement, and the answer is lost.
    Answer,
}

/// A proxy between the store and the database, at a socket of its own in `folder`.
fn proxy(folder: &Path, server: PathBuf, cut: Arc<Mutex<Cut>>) {
    let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (cut, mut server) = (Arc::clone(&cut), UnixStream::connect(&server).await.unwrap());
            tokio::spawn(async move {
                let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
                loop {
                    tokio::select! {
                        n = client.read(&mut asked) => {
                            let Ok(n @ 1..) = n else { return };
                            let now = std::mem::replace(&mut *cut.lock().unwrap(), Cut::Nothing);
                            if now == Cut::Request { return }
                            server.write_all(&asked[..n]).await.unwrap();
                            if now == Cut::Answer {
                                // An answer means that the database has committed.
                                let committed = server.read(&mut answered).await.unwrap();
                                assert!(committed > 0);
                                return;
                            }
                        }
                        n = server.read(&mut answered) => {
                            let Ok(n @ 1..) = n else { return };
                            if client.write_all(&answered[..n]).await.is_err() { return }
                        }
                    }
                }
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_commit_is_resolved() {
    let database = Postgres::new();
    let (folder, cut) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(Cut::Nothing)));
    proxy(folder.path(), database.folder.path().join(".s.PGSQL.5432"), Arc::clone(&cut));
    let url = format!("host={} user=postgres dbname=postgres", folder.path().display());
    let store = PostgresStore::open(&PostgresOptions { url, ..options(&database) }).await.unwrap();
    let a = stream("a");
    store.append(&a, Expected::Exact(Revision(0)), vec![event("1")]).await.unwrap();
    for (n, how) in [Cut::Answer, Cut::Request, Cut::Answer].into_iter().enumerate() {
        *cut.lock().unwrap() = how;
        let n = n as u64 + 1;
        let appended = store.append(&a, Expected::Exact(Revision(n)), vec![event((n + 1).to_string())]).await.unwrap();
        assert_eq!((appended.revision, appended.position), (Revision(n + 1), Position(n + 1)));
        assert!(*cut.lock().unwrap() == Cut::Nothing, "nothing was cut");
    }
    let read = database.reopen(store).read_all(Position::START, 9).await.unwrap();
    assert_eq!(read.iter().map(|event| text(event)).collect::<Vec<_>>(), ["1", "2", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_cell_address_or_key_file_is_refused() {
    let database = Postgres::new();
    drop(database.open());
    let refused = async |options: PostgresOptions| PostgresStore::open(&options).await.unwrap_err().to_string();
    let other = refused(PostgresOptions { cell: "cell2".to_owned(), ..options(&database) }).await;
    assert!(other.contains("the log of cell \"cell1\", not of \"cell2\""), "{other}");
    let nonsense = refused(PostgresOptions { url: "postgres:/x".to_owned(), ..options(&database) }).await;
    assert!(nonsense.contains("the address of the database"), "{nonsense}");
    database.sql("UPDATE chronova_head SET keys = 'ring'");
    let keys = refused(options(&database)).await;
    assert!(keys.contains("put their file back"), "{keys}");
    database.sql("UPDATE chronova_head SET format = 99, keys = NULL");
    drop(PostgresStore::open(&options(&database)).await.unwrap());
    database.sql("UPDATE chronova_head SET oldest = 99");
    let newer = PostgresStore::open(&options(&database)).await.unwrap_err();
    assert_eq!(newer, StoreError::NewerFormat { found: 99, supported: 4 });
}

/// The writer gives up on a database that always refuses.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusing_database_ends_the_append() {
    let database = Postgres::new();
    let options = PostgresOptions { patience: Duration::from_secs(2), ..options(&database) };
    let store = PostgresStore::open(&options).await.unwrap();
    database.sql("ALTER TABLE chronova_events ADD CHECK (position < 1)");
    let refused = store.append(&stream("a"), Expected::Any, vec![event("1")]).await.unwrap_err();
    assert!(refused.to_string().contains("violates check constraint"), "{refused}");
}
