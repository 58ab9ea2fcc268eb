//! The lease: which member leads, until when, and how a member learns that it leads no more.
//!
//! The head row says until when its holder leads, by the database's clock; nobody else takes the epoch before that. The
//! holder renews the lease and measures it by its own clock, from before each request, and gives up well before its
//! end. That clock ([`elapsed`]) runs while the machine or the process is suspended. The keeper has a thread of its own,
//! because a busy process must not lose the lease.
//!
//! The fence of the log is the epoch, which each append checks. The lease is for everything else that a leader does, such
//! as calls to hosts: a [`LeaseTimer`] kills the leader's process before another member may begin with that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::address::DatabaseAddress;
use super::link::DatabaseLink;
use super::schema::{self, EpochWhen, HeldHead};
use super::timer::{LeaseTimer, elapsed};
use crate::store::StoreError;
use crate::store::tail::Tail;

/// How often a member that stands by asks whether it may lead.
const ASKS: Duration = Duration::from_millis(250);

/// How soon the holder notices that the connection is closed on which its lease is confirmed.
const NOTICES: Duration = Duration::from_millis(20);

/// The log and the holder of a lease, and its duration without a renewal.
#[derive(Clone)]
pub(super) struct LeaseTerms {
    pub(super) config: DatabaseAddress,
    pub(super) cell: String,
    /// Made for one life of a process, and never used again.
    pub(super) holder: Vec<u8>,
    /// The member's name, which a switch of the leader may wish.
    pub(super) name: Option<String>,
    /// Zero is none: any other member may take the epoch at once.
    pub(super) lasts: Duration,
    /// Whether this process ends with its lease.
    pub(super) end_process: bool,
}

/// A lease that was just taken.
pub(super) struct TakenLease {
    pub(super) link: Arc<DatabaseLink>,
    pub(super) held: HeldHead,
    /// Since when it counts, by [`elapsed`].
    pub(super) since: Duration,
}

impl LeaseTerms {
    /// Waits until no other member leads, then leads.
    pub(super) async fn take(&self, link: Arc<DatabaseLink>) -> Result<TakenLease, StoreError> {
        let (mut link, mut stands_by) = (link, false);
        loop {
            match self.ask(&link, EpochWhen::Free).await {
                Ok(Some(taken)) => {
                    if stands_by {
                        tracing::info!("this member leads now");
                    }
                    return Ok(taken);
                }
                Ok(None) if !stands_by => {
                    tracing::warn!(cell = self.cell, "another member leads this log: standing by");
                    stands_by = true;
                }
                Ok(None) => {}
                Err(failure) if !stands_by => return Err(failure),
                Err(failure) => {
                    tracing::warn!(%failure, "standing by without the database");
                    if let Ok(other) = DatabaseLink::open(&self.config).await {
                        link = other;
                    }
                }
            }
            tokio::time::sleep(ASKS).await;
        }
    }

    /// Leads, if `when` holds now.
    pub(super) async fn ask(
        &self,
        link: &Arc<DatabaseLink>,
        when: EpochWhen,
    ) -> Result<Option<TakenLease>, StoreError> {
        let since = elapsed();
        let held =
            schema::take_epoch(&link.client, self.name.as_deref(), &self.cell, &self.holder, when, self.lasts).await?;
        Ok(held.map(|held| TakenLease { link: Arc::clone(link), held, since }))
    }

    /// How long the holder leads without a renewal.
    fn trusted(&self) -> Duration {
        self.lasts * 11 / 20
    }

    /// When the process must have ended, if the lease counts since `since`. The rest of the lease is for clocks that run
    /// unequally, and for calls that hosts have begun.
    fn end(&self, since: Duration) -> Duration {
        since + self.lasts * 3 / 5
    }
}

/// Renews the lease on a thread of its own.
pub(super) struct LeaseKeeper {
    trusted: Duration,
    /// Dropped: the lease lapses by itself. Sent: it is released.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    shown: Arc<ShownLease>,
}

/// What the keeper's thread shows to others.
struct ShownLease {
    renewed: AtomicU64,
    /// Where the lease is confirmed. Without it somebody else may have taken the log.
    link: Mutex<Option<Arc<DatabaseLink>>>,
}

impl LeaseKeeper {
    /// Keeps the lease that counts since `since`, and tells `lost` when it cannot.
    pub(super) async fn start(
        terms: LeaseTerms,
        since: Duration,
        tail: Arc<Tail>,
        lost: watch::Sender<Option<String>>,
        wish: watch::Sender<Option<String>>,
    ) -> Result<Self, StoreError> {
        let cannot = |error: std::io::Error| StoreError::Io(format!("cannot start the keeper of the lease: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let (end, told) = oneshot::channel();
        let (begun, begins) = oneshot::channel();
        let trusted = terms.trusted();
        let shown = Arc::new(ShownLease { renewed: AtomicU64::new(millis(since)), link: Mutex::default() });
        let showing = Arc::clone(&shown);
        let keep = move || {
            // A timer stays on its thread.
            let timer = terms.end_process.then(|| LeaseTimer::start(terms.end(since))).transpose();
            let (timer, failure) = timer.map_or_else(|failure| (None, Some(failure)), |timer| (timer, None));
            // Fails only if the opening was cancelled.
            let _ = begun.send(failure);
            let mut kept = KeptLease { terms, since, tail, told, wish, shown: showing, timer };
            if let Some(reason) = runtime.block_on(kept.keep()) {
                tracing::error!(reason, "this member leads no more");
                lost.send_replace(Some(reason));
                runtime.block_on(kept.end_process());
            }
        };
        let thread = std::thread::Builder::new().name("log-lease".to_owned()).spawn(keep).map_err(cannot)?;
        match begins.await {
            Ok(None) => Ok(Self { trusted, end: Some(end), thread: Some(thread), shown }),
            Ok(Some(failure)) => Err(failure),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// How long ago the database confirmed the lease, if that is longer than usual.
    pub(super) fn overdue(&self) -> Option<Duration> {
        let age = self.age();
        (age > self.trusted * 3 / 4).then_some(age)
    }

    fn age(&self) -> Duration {
        Duration::from_millis(millis(elapsed()).saturating_sub(self.shown.renewed.load(Ordering::SeqCst)))
    }

    /// Whether it is certain that nobody else leads now. A lease that lasts is not enough: another member may take the
    /// log from a holder whose connections are closed.
    pub(super) fn is_certain(&self) -> bool {
        self.age() < self.trusted && self.shown.linked().is_some()
    }

    /// Releases the lease.
    pub(super) async fn end(mut self) {
        if let Some(end) = self.end.take() {
            // Fails only if the lease is lost already.
            let _ = end.send(());
        }
        if let Some(thread) = self.thread.take() {
            // Both failures mean a panic, which the panic hook has reported.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

impl ShownLease {
    /// The connection, if it is open.
    fn linked(&self) -> Option<Arc<DatabaseLink>> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.as_ref().filter(|link| !link.client.is_closed()).cloned()
    }

    fn set_link(&self, link: Option<Arc<DatabaseLink>>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The state of the keeper's thread.
struct KeptLease {
    terms: LeaseTerms,
    since: Duration,
    tail: Arc<Tail>,
    told: oneshot::Receiver<()>,
    wish: watch::Sender<Option<String>>,
    shown: Arc<ShownLease>,
    timer: Option<LeaseTimer>,
}

impl KeptLease {
    /// Returns why the lease is lost, or `None` when it is not needed any more.
    async fn keep(&mut self) -> Option<String> {
        let (trusted, every) = (self.terms.trusted(), self.terms.lasts / 4);
        let shown = Arc::clone(&self.shown);
        // At once: this opens the connection, and says what is acknowledged.
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                () = unlinked(&shown), if !pause.is_zero() && shown.linked().is_some() => {}
                told = &mut self.told => {
                    if told.is_ok() && self.left().is_some() {
                        self.release().await;
                    }
                    return None;
                }
                () = tokio::time::sleep(pause) => {}
            }
            let asked = elapsed();
            let Some(left) = self.left() else { return Some(unconfirmed(trusted)) };
            pause = match tokio::time::timeout(left, self.renew()).await {
                Ok(Ok(Some(wish))) => {
                    self.wish.send_if_modified(|known| std::mem::replace(known, wish.clone()) != wish);
                    if let Err(failure) = self.prolong(asked) {
                        return Some(failure.to_string());
                    }
                    self.shown.renewed.store(millis(asked), Ordering::SeqCst);
                    every
                }
                Ok(Ok(None)) => return Some("another member leads this log".to_owned()),
                Ok(Err(failure)) => {
                    tracing::warn!(%failure, "the lease of the log is not confirmed");
                    self.shown.set_link(None);
                    every / 4
                }
                Err(_) => every / 4,
            };
            // The answer may be old: the process may have been stopped since it came.
            let Some(left) = self.left() else { return Some(unconfirmed(trusted)) };
            pause = pause.min(left);
        }
    }

    /// The lease counts since `asked`.
    fn prolong(&mut self, asked: Duration) -> Result<(), StoreError> {
        self.since = asked;
        self.timer.as_mut().map_or(Ok(()), |timer| timer.set(self.terms.end(asked)))
    }

    /// Ends the process at once, where it ends with its lease.
    async fn end_process(&mut self) {
        let Some(timer) = &mut self.timer else { return };
        if let Err(failure) = timer.set(elapsed()) {
            // Its earlier setting still holds.
            tracing::error!(%failure, "this process ends later");
        }
        std::future::pending::<()>().await;
    }

    /// For how long it is certain that nobody else leads.
    fn left(&self) -> Option<Duration> {
        let age = elapsed().saturating_sub(self.since);
        self.terms.trusted().checked_sub(age).filter(|left| !left.is_zero())
    }

    async fn link(&self) -> Result<Arc<DatabaseLink>, StoreError> {
        if let Some(link) = self.shown.linked() {
            return Ok(link);
        }
        DatabaseLink::open(&self.terms.config).await
    }

    async fn renew(&self) -> Result<Option<Option<String>>, StoreError> {
        let link = self.link().await?;
        let (terms, durable) = (&self.terms, self.tail.head());
        let renewed = schema::renew(&link.client, &terms.cell, &terms.holder, terms.lasts, durable).await?;
        // Only a connection on which the lease was confirmed says that nobody else leads.
        if renewed.is_some() {
            self.shown.set_link(Some(link));
        }
        Ok(renewed)
    }

    async fn release(&mut self) {
        let released = match self.link().await {
            Ok(link) => schema::release(&link.client, &self.terms.cell, &self.terms.holder).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = released {
            tracing::warn!(%failure, "the lease of the log is not released: another member waits for its end");
        }
    }
}

/// Returns when the connection is closed.
async fn unlinked(shown: &ShownLease) {
    while shown.linked().is_some() {
        tokio::time::sleep(NOTICES).await;
    }
}

fn unconfirmed(trusted: Duration) -> String {
    format!("the database has not confirmed the lease of the log for {:.1} s", trusted.as_secs_f64())
}
