//! Follows the log that another member leads.
//!
//! A follower reads only acknowledged events. These end at the position that the leader noted in the head row, or told
//! this member. A crash of the database may remove later events, and no read model can take an event back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify, watch};

use super::leader_lock::{LeaderProcess, LockWatch};
use super::lease::LeaseTerms;
use super::link::DatabaseLink;
use super::reading::{self, PostgresReader};
use super::schema::{self, MemberName, SeenHead};
use crate::chain::{Anchor, EventHash};
use crate::envelope::Position;
use crate::store::StoreError;

/// How often a member reads the head row while the leader tells it nothing.
const LOOKS: Duration = Duration::from_millis(200);
/// How often a member records that it is there.
const ANNOUNCES: Duration = Duration::from_secs(1);
/// The number of events that are read at once.
const PAGE: usize = 4_096;

/// The leader, as this member sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenLeader {
    /// `None` if the holder of the lease is no member of a cluster, or has not yet announced itself.
    pub leader: Option<MemberName>,
    pub epoch: i64,
    pub lease_lasts: bool,
    pub process: LeaderProcess,
}

/// Reads the events that other members append.
pub(super) struct LogFollower {
    reader: Arc<PostgresReader>,
    terms: LeaseTerms,
    member: MemberName,
    /// The position up to which the leader has acknowledged events.
    told: AtomicU64,
    woken: Notify,
    seen: watch::Sender<Option<SeenLeader>>,
    lock: LockWatch,
    /// Why the head row or new events could not be read the last time.
    trouble: watch::Sender<Option<StoreError>>,
    /// Why this version is too old to follow the log any more.
    outdated: watch::Sender<Option<StoreError>>,
    /// The last event that was read. Its lock lets only one task read: the follower, or the take-over.
    end: Mutex<Anchor>,
}

impl LogFollower {
    pub(super) fn new(reader: Arc<PostgresReader>, terms: LeaseTerms, member: MemberName, end: Anchor) -> Self {
        let (seen, trouble, outdated) = (watch::channel(None).0, watch::channel(None).0, watch::channel(None).0);
        Self {
            reader,
            terms,
            member,
            told: AtomicU64::new(0),
            woken: Notify::new(),
            seen,
            lock: LockWatch::default(),
            trouble,
            outdated,
            end: Mutex::new(end),
        }
    }

    /// Lets this member read up to `position`, because the leader has acknowledged everything up to there.
    pub(super) fn told(&self, position: Position) {
        if self.told.fetch_max(position.0, Ordering::SeqCst) < position.0 {
            self.woken.notify_one();
        }
    }

    pub(super) fn seen(&self) -> watch::Receiver<Option<SeenLeader>> {
        self.seen.subscribe()
    }

    /// The leader whose process has ended, although its lease may last.
    pub(super) fn ended(&self) -> Option<Vec<u8>> {
        self.lock.ended()
    }

    pub(super) fn trouble(&self) -> Option<StoreError> {
        self.trouble.borrow().clone()
    }

    /// Contains the reason after this version has met a newer level of the log or an unknown event.
    pub(super) fn outdated(&self) -> watch::Receiver<Option<StoreError>> {
        self.outdated.subscribe()
    }

    /// Notes that this version is too old for the log. The process then stops. An event is never skipped.
    fn leave(&self, reason: StoreError) -> StoreError {
        self.outdated.send_replace(Some(reason.clone()));
        reason
    }

    /// Follows the log and watches the leader's lock, and never ends.
    pub(super) async fn run(self: Arc<Self>, leads: watch::Receiver<bool>) {
        tokio::join!(self.follow(leads), self.watch_lock());
    }

    /// Looks at the lock of the present leader again and again. The storage of the lock must not delay the events.
    async fn watch_lock(&self) {
        let Some(lock) = &self.terms.lock else { return };
        loop {
            tokio::time::sleep(LOOKS).await;
            let Some(holder) = self.lock.leader() else { continue };
            let process = self.lock.note(&holder, lock.is_taken(&holder).await);
            self.seen.send_if_modified(|seen| {
                seen.as_mut().is_some_and(|seen| std::mem::replace(&mut seen.process, process) != process)
            });
        }
    }

    /// Follows the log. While this member leads, it reads no events, but goes on announcing itself.
    async fn follow(&self, leads: watch::Receiver<bool>) {
        let (mut link, mut announced, mut looked_at) = (None, None::<Instant>, None::<Instant>);
        loop {
            // After a timeout without news from the leader, this member reads the head row itself. Even with news, it
            // reads the head row from time to time.
            let is_due = looked_at.is_none_or(|at| at.elapsed() >= ANNOUNCES);
            let looks = is_due || tokio::time::timeout(LOOKS, self.woken.notified()).await.is_err();
            if looks {
                looked_at = Some(Instant::now());
            }
            let looked = if looks { self.look(&mut link, &mut announced).await } else { Ok(()) };
            if let Err(failure) = &looked {
                tracing::warn!(%failure, "the head of the log cannot be read");
                link = None;
                // Without the head row, this member cannot know whether the lease still lasts.
                self.seen.send_if_modified(|seen| {
                    seen.as_mut().is_some_and(|seen| std::mem::replace(&mut seen.lease_lasts, false))
                });
            }
            let leads_now = *leads.borrow();
            if let Some(link) = link.as_ref().filter(|_| looks && leads_now)
                && let Err(failure) = self.terms.follow_levels(link).await
            {
                tracing::warn!(%failure, "the level of the log cannot be raised");
            }
            let read = match leads_now {
                true => Ok(()),
                false => self.read_on(Position(self.told.load(Ordering::SeqCst))).await,
            };
            if let Err(failure) = &read {
                tracing::warn!(%failure, "new events of the log cannot be read");
                tokio::time::sleep(LOOKS).await;
            }
            if looks || read.is_err() {
                self.trouble.send_replace(looked.and(read).err());
            }
        }
    }

    async fn look(
        &self,
        link: &mut Option<Arc<DatabaseLink>>,
        announced: &mut Option<Instant>,
    ) -> Result<(), StoreError> {
        let link = match link.as_ref().filter(|link| !link.client.is_closed()) {
            Some(link) => Arc::clone(link),
            None => {
                let opened = DatabaseLink::open(&self.terms.config).await?;
                // An announcement is soon repeated, so it need not be replicated.
                opened.set("SET synchronous_commit = local").await?;
                Arc::clone(link.insert(opened))
            }
        };
        if announced.is_none_or(|announced| announced.elapsed() >= ANNOUNCES) {
            let (at, newest) = (self.reader.tail.head(), self.terms.level.newest());
            schema::announce(&link.client, &self.member, &self.terms.holder, at, newest).await?;
            *announced = Some(Instant::now());
        }
        let SeenHead { epoch, holder, durable, lease_lasts, leader, level } =
            schema::look(&link.client, &self.terms.cell).await?;
        let newest = self.terms.level.newest();
        if level > newest {
            return Err(self.leave(StoreError::NewerLevel { level, newest }));
        }
        let seen = SeenLeader { leader, epoch, lease_lasts, process: self.lock.led_by(&holder) };
        self.seen.send_if_modified(|known| known.replace(seen.clone()).is_none_or(|known| known != seen));
        self.told.fetch_max(durable.0, Ordering::SeqCst);
        Ok(())
    }

    /// Reads and publishes all events up to `until`.
    async fn read_on(&self, until: Position) -> Result<(), StoreError> {
        let mut end = self.end.lock().await;
        while end.position < until {
            let page = usize::try_from(until.0 - end.position.0).unwrap_or(PAGE).min(PAGE);
            let events = self.reader.read_up_to(end.position, until, page).await?;
            if let Some(event) = events.iter().find(|event| !self.terms.level.knows(&event.kind, event.version)) {
                let (position, kind, version) = (event.position.0, event.kind.to_string(), event.version);
                return Err(self.leave(StoreError::UnknownEvent { position, kind, version }));
            }
            let Some(last) = events.last() else { return Err(reading::missing(end.position)) };
            *end = Anchor { position: last.position, hash: last.hash.unwrap_or(EventHash::START) };
            let erases = events.iter().any(|event| event.kind.starts_with("erasure."));
            self.reader.tail.publish(events);
            if erases {
                // Later subscribers read the events again, without the erased fields.
                self.reader.tail.forget();
            }
        }
        Ok(())
    }

    /// Reads the rest of the log up to its end `head`, because this member leads now. Fails if the log has another hash
    /// there.
    pub(super) async fn complete(&self, head: &Anchor) -> Result<(), StoreError> {
        self.read_on(head.position).await?;
        let end = *self.end.lock().await;
        if end == *head {
            return Ok(());
        }
        let reason = "the log differs from the one that this member has followed: start the member again".to_owned();
        Err(StoreError::Corrupt { position: end.position.0, reason })
    }
}
