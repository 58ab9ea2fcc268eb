//! The log in PostgreSQL, where one machine is not enough: the database replicates what is acknowledged.
//!
//! * One [`writer`] appends, a batch in one round trip; its epoch is part of every append, so a deposed one is refused.
//! * Readers of this process see only what the database has confirmed, as the live end ([`Tail`]) knows it.
//! * One member leads, as long as its [`lease`] lasts: opening waits until no other one does.
//! * A member that joins follows the log that another one leads ([`following`]), until it leads itself.
//! * Keys of personal fields stay in a file on this machine; the head row notes which.

mod address;
pub mod admin;
pub mod copying;
mod following;
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
use super::{AppendError, Appended, EventStore, Expected, StoreError, StreamSnapshot};
use crate::chain::Anchor;
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::sealed::keys::KeyRing;
use address::DatabaseAddress;
pub use address::PostgresAddress;
use following::LogFollower;
pub use following::SeenLeader;
use lease::{LeaseKeeper, LeaseTerms, TakenLease};
use link::DatabaseLink;
pub use read_only::ReadOnlyPostgres;
use reading::PostgresReader;
use row::signed;
use schema::EpochWhen;
pub use schema::{ClusterPicture, ListedMember, MemberName};
use writer::{PostgresAppend, PostgresWriter};

/// Where the log is, and what is asked of its database.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgresql://USER:PASSWORD@HOST/NAME`, or `host=/run/postgresql user=... dbname=...`.
    pub url: String,
    /// The cell whose log it is.
    pub cell: String,
    /// The file of the keys of personal fields; without one they are in the clear.
    pub keys: Option<PathBuf>,
    /// A database without synchronous standby is accepted.
    pub allow_asynchronous: bool,
    /// How long the database may be away before appends are refused for good.
    pub patience: Duration,
    /// How long this member leads without a word to the database; zero: until another one opens the log.
    pub lease: Duration,
    /// Whether the kernel kills this process when its lease ends without a renewal. A process that drives hosts needs it.
    pub end_process: bool,
    /// The name and address of a member of a cluster, which others ask and which may follow.
    pub member: Option<MemberName>,
    /// What all members of a cluster derive from their common secret.
    pub secret: Option<[u8; 32]>,
}

impl PostgresOptions {
    /// The log of `cell` at that address, for one process that does not drive hosts.
    pub fn at(url: String, cell: String) -> Self {
        Self {
            url,
            cell,
            keys: None,
            allow_asynchronous: false,
            patience: Duration::from_secs(30),
            lease: Duration::from_secs(10),
            end_process: false,
            member: None,
            secret: None,
        }
    }

    fn config(&self, holder: &[u8]) -> Result<DatabaseAddress, StoreError> {
        let mut config = address::parse(&self.url)?;
        let hex: String = holder.iter().map(|byte| format!("{byte:02x}")).collect();
        config.config.application_name(format!("chronova-{hex}"));
        Ok(config)
    }
}

/// A member that has just begun to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BegunLead {
    /// How long calls of the leader before to hosts may still be under way: this member makes none before.
    pub hosts_in: Duration,
}

/// The part of a store that appends.
#[derive(Default)]
struct LeadingPart {
    /// `None` while another member leads, and once the store is closed.
    jobs: Option<mpsc::Sender<PostgresAppend>>,
    writer: Option<JoinHandle<()>>,
    keeper: Option<LeaseKeeper>,
    closed: bool,
}

/// The log in a PostgreSQL database.
pub struct PostgresStore {
    options: PostgresOptions,
    terms: LeaseTerms,
    leading: Mutex<LeadingPart>,
    /// Whether this member leads, or did.
    leads: watch::Sender<bool>,
    lost: watch::Sender<Option<String>>,
    failed: watch::Sender<Option<StoreError>>,
    wish: watch::Sender<Option<String>>,
    follower: Arc<LogFollower>,
    following: JoinHandle<()>,
    reader: Arc<PostgresReader>,
    this: Weak<Self>,
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("head", &self.reader.tail.head()).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects, makes the tables if there are none, waits while another member leads, and takes the next epoch.
    pub async fn open(options: &PostgresOptions) -> Result<Arc<Self>, StoreError> {
        let (terms, link) = Self::connect(options).await?;
        let taken = terms.take(link).await?;
        let store = Self::over(options, terms, taken.held.head, taken.held.keys.as_deref())?;
        store.begin(taken).await?;
        Ok(store)
    }

    /// As [`PostgresStore::open`], but waits for nobody: `None` when another member leads.
    pub async fn open_now(options: &PostgresOptions) -> Result<Option<Arc<Self>>, StoreError> {
        let (terms, link) = Self::connect(options).await?;
        let Some(taken) = terms.ask(&link, EpochWhen::Free).await? else { return Ok(None) };
        let store = Self::over(options, terms, taken.held.head, taken.held.keys.as_deref())?;
        store.begin(taken).await?;
        Ok(Some(store))
    }

    /// Connects, makes the tables if there are none, and follows the log. Appends are refused until this member leads.
    pub async fn join(options: &PostgresOptions) -> Result<Arc<Self>, StoreError> {
        let (terms, link) = Self::connect(options).await?;
        let keys = schema::ring(&link.client, &options.cell).await?;
        let end = schema::durable(&link.client, &options.cell).await?;
        Self::over(options, terms, end, keys.as_deref())
    }

    async fn connect(options: &PostgresOptions) -> Result<(LeaseTerms, Arc<DatabaseLink>), StoreError> {
        let holder = Uuid::new_v4().as_bytes().to_vec();
        let config = options.config(&holder)?;
        let link = DatabaseLink::open(&config).await?;
        schema::check_durability(&link.client, options.allow_asynchronous).await?;
        schema::create(&link.client, &options.cell).await?;
        schema::check_secret(&link.client, &options.cell, options.secret.as_ref().map(<[u8; 32]>::as_slice)).await?;
        // A member with other keys is refused now, not when it is needed.
        check_keys(schema::ring(&link.client, &options.cell).await?.as_deref(), options)?;
        let terms = LeaseTerms {
            config,
            cell: options.cell.clone(),
            holder,
            name: options.member.as_ref().map(|member| member.name.clone()),
            lasts: options.lease,
            end_process: options.end_process,
        };
        Ok((terms, link))
    }

    /// A store that follows from `end` on.
    fn over(
        options: &PostgresOptions,
        terms: LeaseTerms,
        end: Anchor,
        needed: Option<&[u8]>,
    ) -> Result<Arc<Self>, StoreError> {
        // Only now: the member before may have made more of them.
        check_keys(needed, options)?;
        let keys = options.keys.as_ref().map(KeyRing::open).transpose()?;
        let tail = Tail::new(end.position);
        let reader = Arc::new(PostgresReader::new(terms.config.clone(), keys, tail));
        let follower = Arc::new(LogFollower::new(Arc::clone(&reader), terms.clone(), options.member.clone(), end));
        let leads = watch::channel(false).0;
        let following = match &options.member {
            Some(_) => tokio::spawn(Arc::clone(&follower).run(leads.subscribe())),
            // Nobody asks for it: it leads from the beginning.
            None => tokio::spawn(std::future::ready(())),
        };
        Ok(Arc::new_cyclic(|this| Self {
            options: options.clone(),
            terms,
            leading: Mutex::default(),
            leads,
            lost: watch::channel(None).0,
            failed: watch::channel(None).0,
            wish: watch::channel(None).0,
            follower,
            following,
            reader,
            this: this.clone(),
        }))
    }

    /// Leads, if no other member does. `gone`: the leader's process does not answer, so that the log may be taken from it
    /// before its lease ends, if it has no connection to the database either. An error is final: this member has the
    /// lease and cannot use it.
    pub async fn lead(&self, gone: bool) -> Result<Option<BegunLead>, StoreError> {
        let link = match DatabaseLink::open(&self.terms.config).await {
            Ok(link) => link,
            Err(failure) => {
                tracing::warn!(%failure, "standing by without the database");
                return Ok(None);
            }
        };
        let when = if gone { EpochWhen::Gone } else { EpochWhen::Free };
        match self.terms.ask(&link, when).await {
            Ok(Some(taken)) => self.begin(taken).await.map(Some),
            Ok(None) => Ok(None),
            Err(failure) => {
                // If the lease was taken all the same, the next call takes it again: the holder is the same.
                tracing::warn!(%failure, "cannot ask for the lease of the log");
                Ok(None)
            }
        }
    }

    async fn begin(&self, taken: TakenLease) -> Result<BegunLead, StoreError> {
        let TakenLease { link, held, since } = taken;
        check_keys(held.keys.as_deref(), &self.options)?;
        let (terms, tail) = (self.terms.clone(), Arc::clone(&self.reader.tail));
        let keeper = match self.options.lease.is_zero() {
            true => None,
            false => {
                Some(LeaseKeeper::start(terms, since, Arc::clone(&tail), self.lost.clone(), self.wish.clone()).await?)
            }
        };
        locked(&self.leading).keeper = keeper;
        self.leads.send_replace(true);
        self.follower.complete(&held.head).await?;
        if let Some(keys) = &self.reader.keys {
            keys.take_over(!held.hosts_in.is_zero())?;
        }
        let (jobs, queue) = mpsc::channel(1_024);
        let writer = PostgresWriter {
            config: self.terms.config.clone(),
            cell: self.terms.cell.clone(),
            holder: self.terms.holder.clone(),
            lease: self.options.lease,
            lost: self.lost.subscribe(),
            failed: self.failed.clone(),
            link: Some(link),
            epoch: held.epoch,
            head: held.head,
            keys: self.reader.keys.clone(),
            tail,
            patience: self.options.patience,
            revisions: HashMap::new(),
        };
        let mut leading = locked(&self.leading);
        leading.writer = Some(tokio::spawn(writer.run(queue)));
        leading.jobs = Some(jobs);
        Ok(BegunLead { hosts_in: held.hosts_in })
    }

    /// Whether this member leads, and it is certain that nobody else does now. What it has acknowledged is all there is.
    pub fn is_certain(&self) -> bool {
        let leading = locked(&self.leading);
        let keeper = leading.keeper.as_ref();
        leading.jobs.is_some() && keeper.is_none_or(LeaseKeeper::is_certain)
    }

    /// The leader, as this member sees it; nothing before it has looked.
    pub fn leader(&self) -> watch::Receiver<Option<SeenLeader>> {
        self.follower.seen()
    }

    /// The leader says that everything up to `position` is acknowledged.
    pub fn told(&self, position: Position) {
        self.follower.told(position);
    }

    /// The member that a switch of the leader wishes, while this one leads.
    pub fn wish(&self) -> watch::Receiver<Option<String>> {
        self.wish.subscribe()
    }

    /// Says why this member leads no more, once that is so. Its process must end then: another one drives the hosts.
    pub fn lost(&self) -> watch::Receiver<Option<String>> {
        self.lost.subscribe()
    }

    /// Whether appends can be acknowledged, as far as is known without asking the database. A member that follows is well
    /// as long as it sees a leader.
    pub fn health(&self) -> Result<(), StoreError> {
        if let Some(failure) = self.failed.borrow().clone() {
            return Err(failure);
        }
        if let Some(reason) = self.lost.borrow().clone() {
            return Err(StoreError::Io(reason));
        }
        match locked(&self.leading).keeper.as_ref().and_then(LeaseKeeper::overdue) {
            Some(age) => Err(StoreError::Io(format!("the database has not answered for {} s", age.as_secs()))),
            None => Ok(()),
        }
    }

    /// Writes the waiting requests and releases the lease. Later appends fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        let part = {
            let mut leading = locked(&self.leading);
            std::mem::replace(&mut *leading, LeadingPart { closed: true, ..LeadingPart::default() })
        };
        let LeadingPart { jobs, writer, keeper, .. } = part;
        self.leads.send_replace(true);
        drop(jobs);
        match writer {
            // A failure means a panic, which the panic hook has reported.
            Some(writer) => drop(writer.await),
            None => self.reader.tail.close(),
        }
        if let Some(keeper) = keeper {
            keeper.end().await;
        }
        self.following.abort();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses a file of keys that is not the one which the log needs. Makes none.
fn check_keys(needed: Option<&[u8]>, options: &PostgresOptions) -> Result<(), StoreError> {
    let Some(needed) = needed else { return Ok(()) };
    let ring = match options.keys.as_ref().filter(|path| path.exists()) {
        Some(path) => Some(KeyRing::open_read_only(path)?.ring().0.to_vec()),
        None => None,
    };
    if ring.as_deref() == Some(needed) {
        return Ok(());
    }
    let what = "the keys of the personal fields are missing or belong to another log: put their file back";
    Err(StoreError::Io(what.to_owned()))
}

#[async_trait]
impl EventStore for PostgresStore {
    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        let jobs = {
            let leading = locked(&self.leading);
            match &leading.jobs {
                Some(jobs) => jobs.clone(),
                None if leading.closed => return Err(StoreError::Closed.into()),
                None => return Err(StoreError::Io("another member leads this log".to_owned()).into()),
            }
        };
        super::make_keys(self.reader.keys.as_ref(), stream, &events).await?;
        let mut encoded = Vec::with_capacity(events.len());
        for new in events {
            encoded.push((super::encode_payload(self.reader.keys.as_ref(), stream, &new)?, new));
        }
        let (reply, answer) = oneshot::channel();
        let job = PostgresAppend { stream: stream.clone(), expected, events: encoded, reply };
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
