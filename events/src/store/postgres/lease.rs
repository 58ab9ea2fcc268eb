//! The lease: which member leads, until when, and how a member learns that it has lost the lead.
//!
//! The head row says until when its holder leads, by the database's clock. No other member takes the epoch before that
//! time, unless the holder's process has ended ([`super::leader_lock`]). Even then, the other member works on no host
//! before that time. The holder renews the lease and measures it by its own clock, from the moment before it sends each
//! request. It gives up well before the end of the lease. Its clock ([`elapsed`]) also runs while the machine or the
//! process is suspended. The keeper has a thread of its own, because a busy process must not lose the lease.
//!
//! Each append checks the epoch, which fences the log. The lease fences the leader's other work, such as calls to
//! hosts: a [`LeaseTimer`] kills the leader's process before another member may begin such work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::address::DatabaseAddress;
use super::leader_lock::LeaderLock;
use super::link::DatabaseLink;
use super::log_level::LogLevel;
use super::schema::{self, HeldHead, RenewedLease, TakenFrom};
use super::timer::{LeaseTimer, elapsed};
use crate::store::StoreError;
use crate::store::tail::Tail;

/// How often a standby member asks whether it may lead.
const ASKS: Duration = Duration::from_millis(250);

/// The log and the holder of a lease, and its duration.
#[derive(Clone)]
pub(super) struct LeaseTerms {
    pub(super) config: DatabaseAddress,
    pub(super) cell: String,
    /// The id of the holder: random, and new at each start of a process.
    pub(super) holder: Vec<u8>,
    /// The name of the member, by which a switchover may request it as the next leader.
    pub(super) name: Option<String>,
    /// The duration of the lease without a renewal. Zero means no lease: any other member may take the epoch at once.
    pub(super) lasts: Duration,
    /// The lock by which other members learn that this process has ended. `None` without a file of keys.
    pub(super) lock: Option<Arc<LeaderLock>>,
    /// Whether this process ends with its lease.
    pub(super) end_process: bool,
    /// The events that this process knows, and the level of the log.
    pub(super) level: Arc<LogLevel>,
}

impl LeaseTerms {
    /// Takes the lead, unless another member leads. Returns the head row, and the time at which the lease began.
    pub(super) async fn ask(&self, link: &DatabaseLink) -> Result<Option<(HeldHead, Duration)>, StoreError> {
        self.take_from(link, TakenFrom::Free).await
    }

    /// Takes over from the leader `ended`, whose lock has become free, before the end of the leader's lease. First
    /// takes that lock. This proves that the process of `ended` has ended, so that `ended` answers no more reads and
    /// writes no more files.
    pub(super) async fn ask_for(
        &self,
        link: &DatabaseLink,
        ended: &[u8],
    ) -> Result<Option<(HeldHead, Duration)>, StoreError> {
        let Some(lock) = &self.lock else { return Ok(None) };
        let Some(_held) = lock.take(ended).await else { return Ok(None) };
        self.take_from(link, TakenFrom::Ended(ended)).await
    }

    async fn take_from(
        &self,
        link: &DatabaseLink,
        from: TakenFrom<'_>,
    ) -> Result<Option<(HeldHead, Duration)>, StoreError> {
        let (asked, name, newest) = (elapsed(), self.name.as_deref(), self.level.newest());
        let held = schema::take_epoch(&link.client, &self.cell, &self.holder, name, from, self.lasts, newest).await?;
        if held.is_none() {
            // A process that is too old for the log would otherwise wait for ever.
            schema::check_level(&link.client, &self.cell, newest).await?;
        }
        Ok(held.map(|held| (held, asked)))
    }

    /// Waits until no other member leads, then takes the lead like [`LeaseTerms::ask`].
    pub(super) async fn take(&self, link: &mut Arc<DatabaseLink>) -> Result<(HeldHead, Duration), StoreError> {
        let mut stands_by = false;
        loop {
            match self.ask(link).await {
                Ok(Some(taken)) => {
                    if stands_by {
                        tracing::info!("this member leads the log now");
                    }
                    return Ok(taken);
                }
                Ok(None) if !stands_by => {
                    tracing::warn!(cell = self.cell, "another member leads this log: standing by");
                    stands_by = true;
                }
                Ok(None) => {}
                Err(failure) if !stands_by || matches!(failure, StoreError::NewerLevel { .. }) => return Err(failure),
                Err(failure) => {
                    tracing::warn!(%failure, "this member stands by, but the database does not answer");
                    if let Ok(other) = DatabaseLink::open(&self.config).await {
                        *link = other;
                    }
                }
            }
            tokio::time::sleep(ASKS).await;
        }
    }

    /// Raises the level of the log if all members that count know a higher level, or if no member counts. Does nothing
    /// without the lease. `looks` is a connection whose commits need not be replicated.
    pub(super) async fn follow_levels(&self, looks: &DatabaseLink) -> Result<(), StoreError> {
        let newest = self.level.newest();
        let reached = self.level.reached();
        if reached < newest
            && schema::common_level(&looks.client, &self.holder).await?.is_none_or(|common| common > reached)
        {
            // Every later leader must see the new level, so this write waits for the standby.
            let link = DatabaseLink::open(&self.config).await?;
            self.raise_level(&link).await?;
        }
        Ok(())
    }

    /// Like [`LeaseTerms::follow_levels`], on a connection whose commits are replicated.
    pub(super) async fn raise_level(&self, link: &DatabaseLink) -> Result<(), StoreError> {
        let raised = schema::raise_level(&link.client, &self.cell, &self.holder, self.level.newest()).await?;
        if let Some(level) = raised.filter(|level| *level > self.level.reached()) {
            tracing::warn!(level, "all members know the next level of the log: older versions cannot join any more");
            self.level.reach(level);
        }
        Ok(())
    }

    /// How long the holder trusts the lease without a renewal.
    fn trusted(&self) -> Duration {
        self.lasts * 11 / 20
    }

    /// When the process must have ended, if the lease began at `since`. The rest of the lease allows for clocks of
    /// unequal speed, and for calls that hosts have begun.
    fn end(&self, since: Duration) -> Duration {
        since + self.lasts * 3 / 5
    }
}

/// Renews the lease on a thread of its own.
pub(super) struct LeaseKeeper {
    trusted: Duration,
    /// A message on this channel releases the lease. If the sender is dropped, the lease ends by itself.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    renewed: Arc<AtomicU64>,
}

impl LeaseKeeper {
    /// Renews the lease, which began at `since`. Sends to `lost` when the lease is lost, and to `wish` when a
    /// switchover requests another leader.
    pub(super) async fn start(
        terms: LeaseTerms,
        since: Duration,
        tail: Arc<Tail>,
        lost: watch::Sender<Option<String>>,
        wish: watch::Sender<Option<String>>,
    ) -> Result<Self, StoreError> {
        let cannot = |error: std::io::Error| StoreError::Io(format!("cannot start the keeper of the lease: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let (end, ended) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let (trusted, renewed) = (terms.trusted(), Arc::new(AtomicU64::new(millis(since))));
        let shown = Arc::clone(&renewed);
        let keep = move || {
            // The timer must stay on its thread.
            let timer = terms.end_process.then(|| LeaseTimer::start(terms.end(since))).transpose();
            let (timer, failure) = timer.map_or_else(|failure| (None, Some(failure)), |timer| (timer, None));
            // The send fails only if the opening was cancelled.
            let _ = begun.send(failure);
            let mut kept = KeptLease { terms, link: None, since, tail, wish, ended, shown, timer };
            if let Some(reason) = runtime.block_on(kept.keep()) {
                tracing::error!(reason, "this member lost the lease of the log and no longer leads");
                lost.send_replace(Some(reason));
                runtime.block_on(kept.end_process());
            }
        };
        let thread = std::thread::Builder::new().name("log-lease".to_owned()).spawn(keep).map_err(cannot)?;
        match begins.await {
            Ok(None) => Ok(Self { trusted, end: Some(end), thread: Some(thread), renewed }),
            Ok(Some(failure)) => Err(failure),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// The age of the database's last confirmation, if it is longer than usual.
    pub(super) fn overdue(&self) -> Option<Duration> {
        let age = self.age();
        (age > self.trusted * 3 / 4).then_some(age)
    }

    /// Whether no other member can lead now.
    pub(super) fn is_certain(&self) -> bool {
        self.age() < self.trusted
    }

    fn age(&self) -> Duration {
        Duration::from_millis(millis(elapsed()).saturating_sub(self.renewed.load(Ordering::SeqCst)))
    }

    /// Releases the lease.
    pub(super) async fn end(mut self) {
        if let Some(end) = self.end.take() {
            // The send fails only if the lease is already lost.
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            // Both failures mean a panic, which the panic hook has reported.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The state of the keeper's thread.
struct KeptLease {
    terms: LeaseTerms,
    link: Option<Arc<DatabaseLink>>,
    since: Duration,
    tail: Arc<Tail>,
    wish: watch::Sender<Option<String>>,
    ended: oneshot::Receiver<()>,
    shown: Arc<AtomicU64>,
    timer: Option<LeaseTimer>,
}

impl KeptLease {
    /// Renews the lease. Returns why the lease is lost, or `None` when it is no longer needed.
    async fn keep(&mut self) -> Option<String> {
        let (trusted, every) = (self.terms.trusted(), self.terms.lasts / 4);
        // The first renewal comes at once, because it tells followers which events are acknowledged.
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                ended = &mut self.ended => {
                    if ended.is_ok() && self.left().is_some() {
                        self.release().await;
                    }
                    return None;
                }
                () = tokio::time::sleep(pause) => {}
            }
            let asked = elapsed();
            let Some(left) = self.left() else { return Some(unconfirmed(trusted)) };
            pause = match tokio::time::timeout(left, self.renew()).await {
                Ok(Ok(Some(RenewedLease { wish }))) => {
                    self.wish.send_if_modified(|known| std::mem::replace(known, wish.clone()) != wish);
                    if let Err(failure) = self.prolong(asked) {
                        return Some(failure.to_string());
                    }
                    self.shown.store(millis(asked), Ordering::SeqCst);
                    every
                }
                Ok(Ok(None)) => return Some("another member leads this log".to_owned()),
                Ok(Err(failure)) => {
                    tracing::warn!(%failure, "the database did not confirm the lease of the log");
                    self.link = None;
                    every / 4
                }
                Err(_) => every / 4,
            };
            // The answer may be old, because the process may have been stopped after the answer came.
            let Some(left) = self.left() else { return Some(unconfirmed(trusted)) };
            pause = pause.min(left);
        }
    }

    /// Makes the lease begin at `asked`.
    fn prolong(&mut self, asked: Duration) -> Result<(), StoreError> {
        self.since = asked;
        self.timer.as_mut().map_or(Ok(()), |timer| timer.set(self.terms.end(asked)))
    }

    /// Ends the process at once if [`LeaseTerms::end_process`] is set.
    async fn end_process(&mut self) {
        let Some(timer) = &mut self.timer else { return };
        if let Err(failure) = timer.set(elapsed()) {
            // The timer keeps its earlier setting. So the timer still ends the process before the lease ends.
            tracing::error!(%failure, "cannot set the timer to now: this process ends when the lease does");
        }
        std::future::pending::<()>().await;
    }

    /// The time for which no other member can lead.
    fn left(&self) -> Option<Duration> {
        let age = elapsed().saturating_sub(self.since);
        self.terms.trusted().checked_sub(age).filter(|left| !left.is_zero())
    }

    async fn link(&mut self) -> Result<Arc<DatabaseLink>, StoreError> {
        if let Some(link) = self.link.as_ref().filter(|link| !link.client.is_closed()) {
            return Ok(Arc::clone(link));
        }
        let opened = DatabaseLink::open(&self.terms.config).await?;
        schema::show_session(&opened.client, &self.terms.holder).await?;
        Ok(Arc::clone(self.link.insert(opened)))
    }

    async fn renew(&mut self) -> Result<Option<RenewedLease>, StoreError> {
        let link = self.link().await?;
        let (terms, durable) = (&self.terms, self.tail.head());
        schema::renew(&link.client, &terms.cell, &terms.holder, terms.lasts, durable).await
    }

    async fn release(&mut self) {
        let released = match self.link().await {
            Ok(link) => schema::release(&link.client, &self.terms.cell, &self.terms.holder).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = released {
            tracing::warn!(
                %failure,
                "cannot release the lease of the log: another member can lead only after it expires"
            );
        }
    }
}

fn unconfirmed(trusted: Duration) -> String {
    format!("the database has not confirmed the lease of the log for {:.1} s", trusted.as_secs_f64())
}
