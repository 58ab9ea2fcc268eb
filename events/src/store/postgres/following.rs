//! Follows the log that another member leads.
//!
//! Only what is acknowledged is read: up to the position that the leader noted in the head row, or told this member. What
//! is beyond that may vanish with a crash of the database, and no read model can take an event back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify, watch};

use super::lease::LeaseTerms;
use super::link::DatabaseLink;
use super::reading::PostgresReader;
use super::schema::{self, MemberName, SeenHead};
use crate::chain::{Anchor, EventHash};
use crate::envelope::Position;
use crate::store::StoreError;

/// How often the head row is read where the leader tells nothing.
const LOOKS: Duration = Duration::from_millis(200);
/// How often this member says that it is there.
const SAYS: Duration = Duration::from_secs(1);
/// Events read at once.
const PAGE: usize = 4_096;

/// The leader, as this member sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenLeader {
    /// Who leads, if somebody does and has said where it answers.
    pub leader: Option<MemberName>,
    pub epoch: i64,
    /// Whether its lease lasts.
    pub lease_lasts: bool,
    /// It had a connection to the database, and has none any more.
    pub disconnected: bool,
}

/// Reads what other members append.
pub(super) struct LogFollower {
    pub(super) reader: Arc<PostgresReader>,
    pub(super) terms: LeaseTerms,
    pub(super) member: Option<MemberName>,
    /// What the leader said that it has acknowledged.
    told: AtomicU64,
    woken: Notify,
    seen: watch::Sender<Option<SeenLeader>>,
    /// One reads at a time: the task, or the take-over.
    end: Mutex<Anchor>,
}

impl LogFollower {
    pub(super) fn new(reader: Arc<PostgresReader>, terms: LeaseTerms, member: Option<MemberName>, end: Anchor) -> Self {
        let (told, woken, seen) = (AtomicU64::new(0), Notify::new(), watch::channel(None).0);
        Self { reader, terms, member, told, woken, seen, end: Mutex::new(end) }
    }

    /// Everything up to `position` is acknowledged: the leader says so.
    pub(super) fn told(&self, position: Position) {
        if self.told.fetch_max(position.0, Ordering::SeqCst) < position.0 {
            self.woken.notify_one();
        }
    }

    pub(super) fn seen(&self) -> watch::Receiver<Option<SeenLeader>> {
        self.seen.subscribe()
    }

    /// Follows for ever. `leads`: no event is read any more, but this member goes on saying that it is there.
    pub(super) async fn run(self: Arc<Self>, leads: watch::Receiver<bool>) {
        let (mut link, mut connected, mut said) = (None, (Vec::new(), false), None::<Instant>);
        loop {
            // A wake-up says that there is something to read, and nothing about the leader.
            let looks = tokio::time::timeout(LOOKS, self.woken.notified()).await.is_err();
            if looks {
                if let Err(failure) = self.look(&mut link, &mut connected, &mut said).await {
                    tracing::warn!(%failure, "the head of the log cannot be read");
                    link = None;
                    self.seen.send_if_modified(|seen| {
                        seen.as_mut().is_some_and(|seen| std::mem::replace(&mut seen.lease_lasts, false))
                    });
                }
            }
            if !*leads.borrow()
                && let Err(failure) = self.read_on(Position(self.told.load(Ordering::SeqCst))).await
            {
                tracing::warn!(%failure, "new events of the log cannot be read");
                tokio::time::sleep(LOOKS).await;
                self.woken.notify_one();
            }
        }
    }

    /// Reads the head row. `connected`: a holder, and whether it was seen with a connection.
    async fn look(
        &self,
        link: &mut Option<Arc<DatabaseLink>>,
        connected: &mut (Vec<u8>, bool),
        said: &mut Option<Instant>,
    ) -> Result<(), StoreError> {
        let link = match link.as_ref().filter(|link| !link.client.is_closed()) {
            Some(link) => Arc::clone(link),
            None => {
                let opened = DatabaseLink::open(&self.terms.config).await?;
                opened.set("SET synchronous_commit = local").await?;
                Arc::clone(link.insert(opened))
            }
        };
        if let Some(member) = self.member.as_ref().filter(|_| said.is_none_or(|said| said.elapsed() >= SAYS)) {
            schema::announce(&link.client, member, &self.terms.holder, self.reader.tail.head()).await?;
            *said = Some(Instant::now());
        }
        let SeenHead { epoch, holder, durable, lease_lasts, leader, connected: is_connected } =
            schema::look(&link.client, &self.terms.cell).await?;
        // A holder whose connections this member cannot see at all is not gone.
        let was = connected.0 == holder && connected.1;
        *connected = (holder, was || is_connected);
        let seen = SeenLeader { leader, epoch, lease_lasts, disconnected: was && !is_connected };
        self.seen.send_if_modified(|known| known.replace(seen.clone()).is_none_or(|known| known != seen));
        self.told.fetch_max(durable.0, Ordering::SeqCst);
        Ok(())
    }

    /// Reads and publishes everything up to `until`.
    async fn read_on(&self, until: Position) -> Result<(), StoreError> {
        let mut end = self.end.lock().await;
        while end.position < until {
            let page = usize::try_from(until.0 - end.position.0).unwrap_or(PAGE).min(PAGE);
            let events = self.reader.read_up_to(end.position, until, page).await?;
            let Some(last) = events.last() else { return Err(super::reading::missing(end.position)) };
            *end = Anchor { position: last.position, hash: last.hash.unwrap_or(EventHash::START) };
            let erases = events.iter().any(|event| event.kind.starts_with("erasure."));
            self.reader.tail.publish(events);
            if erases {
                // Whoever has not had them reads them again, without the erased fields.
                self.reader.tail.forget();
            }
        }
        Ok(())
    }

    /// Reads the rest of the log: this member has taken it, and it ends at `head`.
    pub(super) async fn complete(&self, head: &Anchor) -> Result<(), StoreError> {
        self.read_on(head.position).await?;
        let end = *self.end.lock().await;
        if end == *head {
            return Ok(());
        }
        let reason = "the log differs from the one that this member has followed: start it again".to_owned();
        Err(StoreError::Corrupt { position: end.position.0, reason })
    }
}
