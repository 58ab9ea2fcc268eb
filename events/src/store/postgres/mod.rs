//! The log in PostgreSQL, for clouds where one machine is not enough: the database replicates acknowledged events.
//!
//! * One [`writer`] appends, each batch in one round trip. Every append has the writer's epoch, so a deposed writer is
//!   refused.
//! * Readers of this process see only events that the database has confirmed and the live end ([`Tail`]) knows.
//! * One member leads while its [`lease`] lasts. Opening the log waits until no other member leads.
//! * A leader whose process has ended is replaced at once: [`leader_lock`].
//! * A member that joins ([`PostgresStore::join`]) follows the log of another leader ([`following`]), until it leads.
//! * The keys of personal fields stay in a file outside of the database. The head row has the id of that file.

mod address;
pub mod admin;
mod connection;
pub mod copying;
mod following;
mod leader_lock;
mod lease;
mod link;
mod log_level;
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
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::levels::EventLevels;
use super::tail::{Subscription, Tail};
use super::{AppendError, AppendRight, Appended, EventStore, Expected, StoreError, StreamSnapshot};
use crate::chain::Anchor;
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId};
use crate::sealed::keys::KeyRing;
use address::DatabaseAddress;
pub use address::PostgresAddress;
pub use connection::PostgresConnection;
use following::LogFollower;
pub use following::SeenLeader;
pub use leader_lock::LeaderProcess;
use leader_lock::{HeldLock, LeaderLock};
use lease::{LeaseKeeper, LeaseTerms};
use link::DatabaseLink;
use log_level::LogLevel;
pub use read_only::ReadOnlyPostgres;
use reading::PostgresReader;
use row::signed;
use schema::HeldHead;
pub use schema::{ClusterPicture, ListedMember, MemberName};
pub use timer::elapsed;
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
    /// The duration of the lease without a renewal. Zero: this member leads until another member opens the log.
    pub lease: Duration,
    /// Whether the kernel kills this process if its lease is not renewed in time. A process that drives hosts needs
    /// this.
    pub end_process: bool,
    /// The events that this process knows.
    pub levels: EventLevels,
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
            levels: EventLevels::default(),
        }
    }
}

/// The settings with which a member joins a cluster.
#[derive(Debug, Clone)]
pub struct ClusterMember {
    pub name: MemberName,
    /// A mark of the secret that all members must share. `None`: they share none.
    pub secret: Option<[u8; 32]>,
}

/// The parts of a store that appends.
#[derive(Default)]
struct LeadingParts {
    /// `None` while another member leads, and after the log was closed.
    jobs: Option<mpsc::Sender<PostgresAppend>>,
    writer: Option<JoinHandle<()>>,
    keeper: Option<LeaseKeeper>,
    /// Released after the lease.
    lock: Option<HeldLock>,
    /// The time of [`elapsed`] before which this leader must not work on hosts.
    hosts_from: Duration,
    closed: bool,
}

/// The task of a member that follows or has followed.
struct RunningFollower {
    follower: Arc<LogFollower>,
    task: JoinHandle<()>,
}

impl Drop for RunningFollower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The log in a PostgreSQL database.
pub struct PostgresStore {
    options: PostgresOptions,
    terms: LeaseTerms,
    leading: Mutex<LeadingParts>,
    /// Whether this member leads or has led. It then no longer reads events as a follower.
    leads: watch::Sender<bool>,
    epoch: Arc<AtomicI64>,
    lost: watch::Sender<Option<String>>,
    failed: watch::Sender<Option<StoreError>>,
    wish: watch::Sender<Option<String>>,
    /// `None`: this store leads from the beginning.
    follower: Option<RunningFollower>,
    reader: Arc<PostgresReader>,
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
        let (terms, mut link) = Self::connect(options, None).await?;
        let (held, since) = terms.take(&mut link).await?;
        let store = Self::over(options, terms, held.head, None)?;
        store.begin(link, held, since).await?;
        Ok(store)
    }

    /// Like [`PostgresStore::open`], but without waiting: `None` if another member leads.
    pub async fn open_now(options: &PostgresOptions) -> Result<Option<Arc<Self>>, StoreError> {
        let (terms, link) = Self::connect(options, None).await?;
        let Some((held, since)) = terms.ask(&link).await? else { return Ok(None) };
        let store = Self::over(options, terms, held.head, None)?;
        store.begin(link, held, since).await?;
        Ok(Some(store))
    }

    /// Connects, creates missing tables, and follows the log. Appends are refused until this member leads
    /// ([`PostgresStore::lead`]).
    pub async fn join(options: &PostgresOptions, member: ClusterMember) -> Result<Arc<Self>, StoreError> {
        let (terms, link) = Self::connect(options, Some(&member)).await?;
        let (end, newest) = (schema::durable(&link.client, &options.cell).await?, terms.level.newest());
        // The leader learns the level of this member before this member looks at the level of the log. An announcement
        // is soon repeated, so it need not be replicated.
        link.set("SET synchronous_commit = local").await?;
        schema::announce(&link.client, &member.name, &terms.holder, end.position, newest).await?;
        schema::check_level(&link.client, &options.cell, newest).await?;
        Self::over(options, terms, end, Some(member.name))
    }

    async fn connect(
        options: &PostgresOptions,
        member: Option<&ClusterMember>,
    ) -> Result<(LeaseTerms, Arc<DatabaseLink>), StoreError> {
        let config = address::parse(&options.url)?;
        let link = DatabaseLink::open(&config).await?;
        schema::check_durability(&link.client, options.allow_asynchronous).await?;
        schema::create(&link.client, &options.cell).await?;
        schema::check_level(&link.client, &options.cell, options.levels.newest()).await?;
        // A member with other keys is refused now, and not only when it is about to lead.
        check_keys(schema::ring(&link.client, &options.cell).await?, options)?;
        if let Some(mark) = member.and_then(|member| member.secret) {
            schema::check_secret(&link.client, &options.cell, &mark).await?;
        }
        let terms = LeaseTerms {
            config,
            cell: options.cell.clone(),
            holder: Uuid::new_v4().as_bytes().to_vec(),
            name: member.map(|member| member.name.name.clone()),
            lasts: options.lease,
            lock: None,
            end_process: options.end_process,
            level: Arc::new(LogLevel::new(options.levels.clone())),
        };
        Ok((terms, link))
    }

    /// A store that does not append yet. It has the log up to `end`. With a `member`, it follows the log.
    fn over(
        options: &PostgresOptions,
        mut terms: LeaseTerms,
        end: Anchor,
        member: Option<MemberName>,
    ) -> Result<Arc<Self>, StoreError> {
        let keys = options.keys.as_ref().map(KeyRing::open).transpose()?;
        terms.lock = options.keys.as_deref().map(LeaderLock::open).transpose().map_err(|error| lock_failed(&error))?;
        let config: DatabaseAddress = terms.config.clone();
        let reader = Arc::new(PostgresReader::new(config, keys, Tail::new(end.position)));
        let leads = watch::channel(false).0;
        let follower = member.map(|member| {
            let follower = Arc::new(LogFollower::new(Arc::clone(&reader), terms.clone(), member, end));
            let task = tokio::spawn(Arc::clone(&follower).run(leads.subscribe()));
            RunningFollower { follower, task }
        });
        Ok(Arc::new_cyclic(|this| Self {
            options: options.clone(),
            terms,
            leading: Mutex::default(),
            leads,
            epoch: Arc::default(),
            lost: watch::channel(None).0,
            failed: watch::channel(None).0,
            wish: watch::channel(None).0,
            follower,
            reader,
            this: this.clone(),
        }))
    }

    /// Takes the lead if no other member has it, or if the leader's process has ended. Returns whether it did. An error
    /// is final, because this member then has the lease and cannot use it.
    pub async fn lead(&self) -> Result<bool, StoreError> {
        let ended = self.follower.as_ref().and_then(|running| running.follower.ended());
        let asked = match DatabaseLink::open(&self.terms.config).await {
            Ok(link) => match ended {
                Some(ended) => self.terms.ask_for(&link, &ended).await,
                None => self.terms.ask(&link).await,
            }
            .map(|taken| taken.map(|taken| (link, taken))),
            Err(failure) => Err(failure),
        };
        match asked {
            Ok(Some((link, (held, since)))) => self.begin(link, held, since).await.map(|()| true),
            Ok(None) => Ok(false),
            // If the lost request took the lease nevertheless, the next call takes it again, because the holder is the
            // same.
            Err(failure) => {
                tracing::warn!(%failure, "cannot ask for the lease of the log");
                Ok(false)
            }
        }
    }

    async fn begin(&self, link: Arc<DatabaseLink>, held: HeldHead, since: Duration) -> Result<(), StoreError> {
        // Checked again, because the previous leader may have created keys meanwhile.
        check_keys(held.keys, &self.options)?;
        let tail = Arc::clone(&self.reader.tail);
        self.terms.level.reach(held.level);
        if !self.options.lease.is_zero() {
            let (terms, told) = (self.terms.clone(), Arc::clone(&tail));
            let keeper = LeaseKeeper::start(terms, since, told, self.lost.clone(), self.wish.clone()).await?;
            locked(&self.leading).keeper = Some(keeper);
        }
        locked(&self.leading).lock = self.terms.lock.as_ref().map(|lock| lock.hold(&self.terms.holder));
        locked(&self.leading).hosts_from = timer::elapsed().saturating_add(held.hosts_after);
        self.leads.send_replace(true);
        if let Some(running) = &self.follower {
            running.follower.complete(&held.head).await?;
        }
        if let Some(keys) = &self.reader.keys {
            keys.take_over()?;
        }
        // A command that only borrows the log leaves its level as it is. A new log has the level of its first process.
        let serves = self.follower.is_some() || self.options.end_process;
        if (serves || held.head.position == Position::START)
            && held.level < self.terms.level.newest()
            && let Err(failure) = self.terms.raise_level(&link).await
        {
            tracing::warn!(%failure, "the level of the log cannot be raised");
        }
        self.epoch.store(held.epoch, Ordering::SeqCst);
        let (jobs, queue) = mpsc::channel(1_024);
        let writer = PostgresWriter {
            config: self.terms.config.clone(),
            cell: self.terms.cell.clone(),
            holder: self.terms.holder.clone(),
            lease: self.options.lease,
            newest: self.terms.level.newest(),
            lost: self.lost.subscribe(),
            failed: self.failed.clone(),
            link: Some(link),
            epoch: Arc::clone(&self.epoch),
            head: held.head,
            keys: self.reader.keys.clone(),
            tail,
            patience: self.options.patience,
            revisions: HashMap::new(),
        };
        let mut leading = locked(&self.leading);
        leading.writer = Some(tokio::spawn(writer.run(queue)));
        leading.jobs = Some(jobs);
        Ok(())
    }

    /// The epoch in which this member certainly leads now. `None`: it follows, or another member may lead.
    pub fn confirmed_epoch(&self) -> Option<i64> {
        let leading = locked(&self.leading);
        let certain = leading.keeper.as_ref().is_none_or(LeaseKeeper::is_certain);
        let leads = leading.jobs.is_some() && certain && self.lost.borrow().is_none();
        leads.then(|| self.epoch.load(Ordering::SeqCst))
    }

    /// How long this leader must not work on hosts yet, because the lease of an earlier leader lasts.
    pub fn hosts_after(&self) -> Duration {
        locked(&self.leading).hosts_from.saturating_sub(timer::elapsed())
    }

    /// The leader, as this member sees it. `None` before its first look, and in a store that did not join.
    pub fn leader(&self) -> watch::Receiver<Option<SeenLeader>> {
        match &self.follower {
            Some(running) => running.follower.seen(),
            None => watch::channel(None).1,
        }
    }

    /// The level of the log, as the leader knows it. Zero in a follower.
    pub fn level(&self) -> u16 {
        self.terms.level.reached()
    }

    /// Contains the reason after a follower has met a newer level of the log, or an event that this version does not
    /// know. The process must then stop, because it cannot follow the log any more.
    pub fn outdated(&self) -> watch::Receiver<Option<StoreError>> {
        match &self.follower {
            Some(running) => running.follower.outdated(),
            None => watch::channel(None).1,
        }
    }

    /// Lets a follower read up to `position`, because the leader has acknowledged everything up to there.
    pub fn told(&self, position: Position) {
        if let Some(running) = &self.follower {
            running.follower.told(position);
        }
    }

    /// The member that a switchover requests as the next leader, while this member leads.
    pub fn wish(&self) -> watch::Receiver<Option<String>> {
        self.wish.subscribe()
    }

    /// Contains the reason after this member has lost the lead. The process must then end, because another member
    /// drives the hosts.
    pub fn lost(&self) -> watch::Receiver<Option<String>> {
        self.lost.subscribe()
    }

    /// Whether appends can be acknowledged, or whether a follower can follow. This does not ask the database.
    pub fn health(&self) -> Result<(), StoreError> {
        if let Some(failure) = self.failed.borrow().clone() {
            return Err(failure);
        }
        if let Some(reason) = self.lost.borrow().clone() {
            return Err(StoreError::Io(reason));
        }
        if let Some(failure) = self.follower.as_ref().and_then(|running| running.follower.trouble()) {
            return Err(failure);
        }
        match locked(&self.leading).keeper.as_ref().and_then(LeaseKeeper::overdue) {
            Some(age) => Err(StoreError::Io(format!("the database has not answered for {} s", age.as_secs()))),
            None => Ok(()),
        }
    }

    /// Writes the waiting requests and releases the lease. Later appends fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        let closed = LeadingParts { closed: true, ..LeadingParts::default() };
        let LeadingParts { jobs, writer, keeper, lock, .. } = std::mem::replace(&mut *locked(&self.leading), closed);
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
        drop(lock);
        if let Some(running) = &self.follower {
            running.task.abort();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_failed(error: &std::io::Error) -> StoreError {
    StoreError::Io(format!("cannot open the file of keys: {error}"))
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
        locked(&self.leading).jobs.is_some().then_some(AppendRight(()))
    }

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
        let versions: Result<Vec<u16>, StoreError> =
            events.iter().map(|new| self.terms.level.version(&new.event)).collect();
        let versions = versions?;
        super::make_keys(self.reader.keys.as_ref(), stream, &events).await?;
        let mut encoded = Vec::with_capacity(events.len());
        for (new, version) in events.into_iter().zip(versions) {
            let stored = super::encode_payload_as(self.reader.keys.as_ref(), stream, &new, version)?;
            encoded.push((stored, version, new));
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

    async fn read_at(&self, positions: &[Position]) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.reader.read_at(positions).await
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
                   revision = excluded.revision, state_version = excluded.state_version, data = excluded.data \
                   WHERE excluded.revision >= chronova_snapshots.revision";
        let (name, version) = (stream.as_str().as_bytes(), i64::from(snapshot.state_version));
        self.reader.query(sql, &[&name, &signed(snapshot.revision.0), &version, &snapshot.bytes]).await.map(drop)
    }
}
