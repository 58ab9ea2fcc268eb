//! The log in PostgreSQL, for clouds where one machine is not enough: the database replicates acknowledged events.
//!
//! * One [`writer`] appends, each batch in one round trip. Every append has the writer's epoch, so a deposed writer is
//!   refused.
//! * Readers of this process see only events that the database has confirmed and the live end ([`Tail`]) knows.
//! * One member leads while its [`lease`] lasts. Opening the log waits until no other member leads.
//! * The keys of personal fields stay in a file on this machine. The head row has the id of that file.

mod address;
pub mod copying;
mod lease;
mod link;
mod read_only;
mod reading;
mod row;
mod schema;
mod timer;
mod tls;
pub mod verifying;
mod writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::tail::{Subscription, Tail};
use super::{AppendError, AppendRight, Appended, EventStore, Expected, StoreError, StreamSnapshot};
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::sealed::keys::KeyRing;
pub use address::PostgresAddress;
use lease::{LeaseKeeper, LeaseTerms};
use link::DatabaseLink;
pub use read_only::ReadOnlyPostgres;
use reading::PostgresReader;
use row::signed;
use schema::HeldHead;
use writer::{PostgresAppend, PostgresWriter};

/// The address of the log, and the requirements on its database.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgresql://USER:PASSWORD@HOST/NAME`, or `host=/run/postgresql user=... dbname=...`. With TLS: see
    /// `address.rs`.
    pub url: String,
    /// The cell of the log.
    pub cell: String,
    /// The file with the keys of personal fields; `None`: they are not encrypted.
    pub keys: Option<PathBuf>,
    /// Whether a database without synchronous standby is accepted.
    pub allow_asynchronous: bool,
    /// How long the database may be unreachable before appends are refused for good.
    pub patience: Duration,
    /// How long this member leads without an answer of the database. Zero: until another member opens the log.
    pub lease: Duration,
    /// Whether the kernel kills this process when its lease ends without a renewal. A process that drives hosts needs
    /// it.
    pub end_process: bool,
}

impl PostgresOptions {
    /// The options for the log of `cell` at that address, for a process that does not drive hosts.
    pub fn at(url: String, cell: String) -> Self {
        Self {
            url,
            cell,
            keys: None,
            allow_asynchronous: false,
            patience: Duration::from_secs(30),
            lease: Duration::from_secs(10),
            end_process: false,
        }
    }
}

/// The log in a PostgreSQL database.
pub struct PostgresStore {
    /// `None` after the log was closed.
    jobs: Mutex<Option<mpsc::Sender<PostgresAppend>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    keeper: Mutex<Option<LeaseKeeper>>,
    lost: watch::Receiver<Option<String>>,
    failed: watch::Receiver<Option<StoreError>>,
    reader: PostgresReader,
    this: Weak<Self>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("head", &self.reader.tail.head()).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects, creates missing tables, waits while another member leads, and takes the next epoch.
    pub async fn open(options: &PostgresOptions) -> Result<Arc<Self>, StoreError> {
        let (terms, mut link) = Self::connect(options).await?;
        let (held, since) = terms.take(&mut link).await?;
        Self::lead(options, terms, link, held, since).await
    }

    /// Like [`PostgresStore::open`], but without waiting: `None` if another member leads.
    pub async fn open_now(options: &PostgresOptions) -> Result<Option<Arc<Self>>, StoreError> {
        let (terms, link) = Self::connect(options).await?;
        let Some((held, since)) = terms.ask(&link).await? else { return Ok(None) };
        Self::lead(options, terms, link, held, since).await.map(Some)
    }

    async fn connect(options: &PostgresOptions) -> Result<(LeaseTerms, Arc<DatabaseLink>), StoreError> {
        let config = address::parse(&options.url)?;
        let link = DatabaseLink::open(&config).await?;
        schema::check_durability(&link.client, options.allow_asynchronous).await?;
        schema::create(&link.client, &options.cell).await?;
        // A member with other keys is refused now, and not only when it is about to lead.
        check_keys(schema::ring(&link.client, &options.cell).await?, options)?;
        let terms = LeaseTerms {
            config,
            cell: options.cell.clone(),
            holder: Uuid::new_v4().as_bytes().to_vec(),
            lasts: options.lease,
            end_process: options.end_process,
        };
        Ok((terms, link))
    }

    async fn lead(
        options: &PostgresOptions,
        terms: LeaseTerms,
        link: Arc<DatabaseLink>,
        held: HeldHead,
        since: Duration,
    ) -> Result<Arc<Self>, StoreError> {
        let config = terms.config.clone();
        // Checked again, because the previous leader may have created keys meanwhile.
        check_keys(held.keys, options)?;
        let keys = options.keys.as_ref().map(KeyRing::open).transpose()?;
        let (tell_lost, lost) = watch::channel(None);
        let (tell_failed, failed) = watch::channel(None);
        let tail = Tail::new(held.head.position);
        let (jobs, queue) = mpsc::channel(1_024);
        let writer = PostgresWriter {
            config: config.clone(),
            cell: options.cell.clone(),
            holder: terms.holder.clone(),
            lease: options.lease,
            lost: lost.clone(),
            failed: tell_failed,
            link: Some(link),
            epoch: held.epoch,
            head: held.head,
            keys: keys.clone(),
            tail: Arc::clone(&tail),
            patience: options.patience,
            revisions: HashMap::new(),
        };
        let keeper =
            if options.lease.is_zero() { None } else { Some(LeaseKeeper::start(terms, since, tell_lost).await?) };
        let writer = tokio::spawn(writer.run(queue));
        Ok(Arc::new_cyclic(|this| Self {
            jobs: Mutex::new(Some(jobs)),
            writer: Mutex::new(Some(writer)),
            keeper: Mutex::new(keeper),
            lost,
            failed,
            reader: PostgresReader::new(config, keys, tail),
            this: this.clone(),
        }))
    }

    /// Contains the reason after this member has lost the lead. The process must then end, because another member
    /// drives the hosts.
    pub fn lost(&self) -> watch::Receiver<Option<String>> {
        self.lost.clone()
    }

    /// Whether appends can be acknowledged, as far as is known without asking the database.
    pub fn health(&self) -> Result<(), StoreError> {
        if let Some(failure) = self.failed.borrow().clone() {
            return Err(failure);
        }
        if let Some(reason) = self.lost.borrow().clone() {
            return Err(StoreError::Io(reason));
        }
        match locked(&self.keeper).as_ref().and_then(LeaseKeeper::overdue) {
            Some(age) => Err(StoreError::Io(format!("the database has not answered for {} s", age.as_secs()))),
            None => Ok(()),
        }
    }

    /// Writes the waiting requests and releases the lease. Later appends fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        drop(locked(&self.jobs).take());
        let (writer, keeper) = (locked(&self.writer).take(), locked(&self.keeper).take());
        if let Some(writer) = writer {
            // A failure means a panic, which the panic hook has reported.
            let _ = writer.await;
        }
        if let Some(keeper) = keeper {
            keeper.end().await;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails if the file of keys that the log needs is missing or belongs to another log. Creates no file.
fn check_keys(needed: Option<Vec<u8>>, options: &PostgresOptions) -> Result<(), StoreError> {
    let Some(needed) = needed else { return Ok(()) };
    let ring = match options.keys.as_ref().filter(|path| path.exists()) {
        Some(path) => Some(KeyRing::open_read_only(path)?.ring().0.to_vec()),
        None => None,
    };
    if ring == Some(needed) {
        return Ok(());
    }
    let what = "the keys of the personal fields are missing or belong to another log: put their file back";
    Err(StoreError::Io(what.to_owned()))
}

#[async_trait]
impl EventStore for PostgresStore {
    fn append_right(&self) -> Option<AppendRight> {
        Some(AppendRight(()))
    }

    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        super::make_keys(self.reader.keys.as_ref(), stream, &events).await?;
        let mut encoded = Vec::with_capacity(events.len());
        for new in events {
            encoded.push((super::encode_payload(self.reader.keys.as_ref(), stream, &new)?, new));
        }
        let (reply, answer) = oneshot::channel();
        let job = PostgresAppend { stream: stream.clone(), expected, events: encoded, reply };
        let jobs = locked(&self.jobs).clone().ok_or(StoreError::Closed)?;
        jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.reader.read_stream(stream, after, limit).await
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.reader.read_all(after, limit).await
    }

    fn subscribe(&self, after: Position) -> Subscription {
        let store: Weak<dyn EventStore> = self.this.clone();
        Subscription::new(store, &self.reader.tail, after)
    }

    fn head(&self) -> Position {
        self.reader.tail.head()
    }

    fn keys(&self) -> Option<&Arc<KeyRing>> {
        self.reader.keys.as_ref()
    }

    async fn forget(&self, streams: &[StreamId]) -> Result<(), StoreError> {
        self.reader.tail.forget();
        let names: Vec<&[u8]> = streams.iter().map(|stream| stream.as_str().as_bytes()).collect();
        self.reader.query("DELETE FROM chronova_snapshots WHERE stream = ANY($1)", &[&names]).await.map(drop)
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        self.reader.load_snapshot(stream).await
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
        let snapshot = self.reader.sealed(stream, snapshot).await?;
        let sql = "INSERT INTO chronova_snapshots VALUES ($1, $2, $3, $4) ON CONFLICT (stream) DO UPDATE SET \
                   revision = excluded.revision, state_version = excluded.state_version, data = excluded.data";
        let (name, version) = (stream.as_str().as_bytes(), i64::from(snapshot.state_version));
        self.reader.query(sql, &[&name, &signed(snapshot.revision.0), &version, &snapshot.bytes]).await.map(drop)
    }
}
