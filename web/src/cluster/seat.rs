//! This member's place in its cluster.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chronova_events::envelope::Position;
use chronova_projections::views::Views;
use tokio::sync::watch;

use super::peers::{HeadAnswer, PeerClient};
use super::read_index::ReadIndex;

/// How long a read waits for a leader that confirms what is acknowledged.
const READ_PATIENCE: Duration = Duration::from_secs(3);
/// How long a read waits until this member has folded what is acknowledged.
const FOLD_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Whether this member leads for certain at this moment.
pub type Certainty = Arc<dyn Fn() -> bool + Send + Sync>;

/// Where the leader answers other members, as far as this member knows; `None`: nobody leads.
pub type LeaderAddress = watch::Receiver<Option<String>>;

/// This member's part.
pub enum ClusterSeat {
    Leads(Certainty),
    Follows(FollowerSeat),
}

impl fmt::Debug for ClusterSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Leads(_)) { "Leads" } else { "Follows" })
    }
}

/// What a follower needs to serve.
pub struct FollowerSeat {
    pub(super) peers: Arc<PeerClient>,
    leader: LeaderAddress,
    index: ReadIndex,
    views: Arc<Views>,
    /// Whether reads are answered without a leader, with their age.
    answers_stale: bool,
    fresh: Arc<Mutex<Instant>>,
    /// This member has begun to lead, in another seat.
    promoted: watch::Receiver<bool>,
}

/// How a read may be answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ReadPermit {
    /// With everything that was acknowledged before it began.
    Fresh,
    /// As it was so long ago.
    Stale(Duration),
    /// Not at all: nobody confirms what is acknowledged.
    Refused,
}

impl FollowerSeat {
    pub fn new(
        peers: Arc<PeerClient>,
        leader: LeaderAddress,
        views: Arc<Views>,
        answers_stale: bool,
        promoted: watch::Receiver<bool>,
    ) -> Self {
        let fresh = Arc::new(Mutex::new(Instant::now()));
        let (client, address, known) = (Arc::clone(&peers), leader.clone(), Arc::clone(&fresh));
        let index = ReadIndex::new(Arc::new(move || {
            let (client, address, known) = (Arc::clone(&client), address.clone(), Arc::clone(&known));
            Box::pin(async move {
                let head = acknowledged(&client, address).await?;
                *known.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                Some(head)
            })
        }));
        Self { peers, leader, index, views, answers_stale, fresh, promoted }
    }

    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    pub(super) fn is_promoted(&self) -> bool {
        *self.promoted.borrow()
    }

    /// The leader's address, as soon as there is one; `None`: nobody leads until then, or this member does.
    pub(super) async fn leader(&self, until: Instant) -> Option<String> {
        let (mut leader, mut promoted) = (self.leader.clone(), self.promoted.clone());
        let known = tokio::time::timeout_at(until.into(), leader.wait_for(Option::is_some));
        tokio::select! {
            biased;
            _ = promoted.wait_for(|promoted| *promoted) => None,
            found = known => found.ok()?.ok()?.clone(),
        }
    }

    async fn read(&self) -> ReadPermit {
        let head = self.index.ask().await;
        match head {
            Some(head) if self.views.wait_for(head, FOLD_PATIENCE).await => ReadPermit::Fresh,
            _ if self.answers_stale => {
                ReadPermit::Stale(self.fresh.lock().unwrap_or_else(PoisonError::into_inner).elapsed())
            }
            _ => ReadPermit::Refused,
        }
    }
}

/// Asks whoever leads until somebody confirms.
async fn acknowledged(peers: &PeerClient, leader: LeaderAddress) -> Option<Position> {
    let until = Instant::now() + READ_PATIENCE;
    loop {
        let known = leader.borrow().clone();
        if let Some(address) = known
            && let HeadAnswer::At(position) = peers.head(&address, None).await
        {
            return Some(position);
        }
        if Instant::now() >= until {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl ClusterSeat {
    /// In `/healthz`.
    pub fn role(&self) -> &'static str {
        if self.leads() { "leader" } else { "follower" }
    }

    pub fn leads(&self) -> bool {
        matches!(self, Self::Leads(_))
    }

    /// Waits until a read that begins now can be answered.
    pub(crate) async fn read(&self) -> ReadPermit {
        match self {
            Self::Follows(seat) => seat.read().await,
            Self::Leads(certain) => match until_certain(certain).await {
                true => ReadPermit::Fresh,
                false => ReadPermit::Refused,
            },
        }
    }
}

/// Whether the leader is certain of its lead, now or soon: its lease may have to be confirmed first.
pub(super) async fn until_certain(certain: &Certainty) -> bool {
    let until = Instant::now() + READ_PATIENCE;
    while !certain() {
        if Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
    true
}
