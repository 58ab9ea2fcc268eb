//! This member's role in its cluster.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Position;
use chronova_projections::views::Views;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::older_reads::{CurrentAt, ReadPermit};
use super::peers::{HeadAnswer, PeerClient};
use super::read_index::ReadIndex;

/// How long a read waits for the leader's answer. On the leader, a read waits as long for the database to confirm the
/// lease.
const CONFIRMS: Duration = Duration::from_secs(3);
/// How long a read waits until this member has folded what is acknowledged.
const FOLDS: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// How often a member that may answer older reads asks the leader, so that it knows their age.
const LEARNS: Duration = Duration::from_secs(1);

/// Returns the epoch in which this member certainly leads at this moment.
pub type ConfirmedEpoch = Arc<dyn Fn() -> Option<i64> + Send + Sync>;

/// The address of the leader's listener for other members. `None` if this member knows of no leader.
pub type LeaderAddress = watch::Receiver<Option<String>>;

/// This member's role.
pub enum ClusterSeat {
    Leads(ConfirmedEpoch),
    Follows(FollowerSeat),
}

impl fmt::Debug for ClusterSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.role())
    }
}

/// The log of a member that follows.
pub trait FollowedLog: Send + Sync {
    /// The newest epoch that this member has seen.
    fn epoch(&self) -> i64;

    /// Lets this member read up to `position`, because the leader has acknowledged everything up to there.
    fn told(&self, position: Position);

    /// The time since the machine started, including the time in which it was suspended.
    fn now(&self) -> Duration;
}

/// The parts that a follower needs to answer reads and to forward other requests.
pub struct FollowerSeat {
    pub(super) peers: Arc<PeerClient>,
    pub(super) views: Arc<Views>,
    leader: LeaderAddress,
    log: Arc<dyn FollowedLog>,
    index: ReadIndex,
    current_at: Arc<CurrentAt>,
    /// The largest age of an answer while nobody leads. With zero, this member refuses reads while nobody leads.
    stale_reads: Duration,
    _learns: JoinSet<()>,
    /// Whether this member has become the leader. A leader has a [`ClusterSeat`] of its own.
    promoted: watch::Receiver<bool>,
}

impl fmt::Debug for FollowerSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowerSeat").field("leader", &*self.leader.borrow()).finish_non_exhaustive()
    }
}

impl FollowerSeat {
    /// Needs a running tokio runtime.
    pub fn new(
        peers: Arc<PeerClient>,
        leader: LeaderAddress,
        views: Arc<Views>,
        log: Arc<dyn FollowedLog>,
        promoted: watch::Receiver<bool>,
        stale_reads: Duration,
    ) -> Self {
        let (client, address, followed) = (Arc::clone(&peers), leader.clone(), Arc::clone(&log));
        let index = ReadIndex::new(Arc::new(move || {
            let (client, address, followed) = (Arc::clone(&client), address.clone(), Arc::clone(&followed));
            Box::pin(async move { acknowledged(&client, address, &*followed).await })
        }));
        let (current_at, mut learns) = (Arc::<CurrentAt>::default(), JoinSet::new());
        if !stale_reads.is_zero() {
            let (index, views) = (index.clone(), Arc::clone(&views));
            let (log, current_at) = (Arc::clone(&log), Arc::clone(&current_at));
            learns.spawn(async move {
                loop {
                    shows_all(&index, &views, &*log, &current_at).await;
                    tokio::time::sleep(LEARNS).await;
                }
            });
        }
        Self { peers, views, leader, log, index, current_at, stale_reads, _learns: learns, promoted }
    }

    pub(super) fn is_promoted(&self) -> bool {
        *self.promoted.borrow()
    }

    /// Waits for the leader's address, at most until `until`. `None`: there is no leader, or this member leads now.
    pub(super) async fn leader(&self, until: Instant) -> Option<String> {
        let (mut leader, mut promoted) = (self.leader.clone(), self.promoted.clone());
        let known = tokio::time::timeout_at(until, leader.wait_for(Option::is_some));
        tokio::select! {
            biased;
            _ = promoted.wait_for(|promoted| *promoted) => None,
            found = known => found.ok()?.ok()?.clone(),
        }
    }

    /// Waits, at most for [`FOLDS`], until the read models of this member show the effects of everything up to
    /// `position`. Returns whether they do.
    pub(super) async fn shows(&self, position: Position) -> bool {
        self.log.told(position);
        self.views.wait_for(position, FOLDS).await
    }

    async fn may_read(&self) -> ReadPermit {
        let mut promoted = self.promoted.clone();
        tokio::select! {
            shows = shows_all(&self.index, &self.views, &*self.log, &self.current_at) => match shows {
                true => ReadPermit::Current,
                false => self.current_at.permit(self.log.now(), self.stale_reads),
            },
            // This member has begun to lead. It folded the whole log before, and nobody else appends.
            _ = promoted.wait_for(|promoted| *promoted) => ReadPermit::Current,
        }
    }
}

/// Waits until the read models show everything that was acknowledged before this call. Returns whether they do.
async fn shows_all(index: &ReadIndex, views: &Views, log: &dyn FollowedLog, current_at: &CurrentAt) -> bool {
    let asked = log.now();
    let Some(head) = index.ask().await else { return false };
    log.told(head);
    let shows = views.wait_for(head, FOLDS).await;
    if shows {
        current_at.note(asked);
    }
    shows
}

/// Asks the leader until it confirms a position.
async fn acknowledged(peers: &PeerClient, leader: LeaderAddress, log: &dyn FollowedLog) -> Option<Position> {
    let until = Instant::now() + CONFIRMS;
    loop {
        let known = leader.borrow().clone();
        if let Some(address) = known
            && let Some(position) = current(&peers.head(&address, None).await, log)
        {
            return Some(position);
        }
        if Instant::now() >= until {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The position in an answer; `None` if there is no valid answer. An answer from an older epoch is invalid. It comes
/// from a deposed leader, and the log may have acknowledged more events since.
fn current(answer: &HeadAnswer, log: &dyn FollowedLog) -> Option<Position> {
    match answer {
        HeadAnswer::At { position, epoch } if *epoch >= log.epoch() => Some(*position),
        HeadAnswer::At { .. } | HeadAnswer::NotLeading | HeadAnswer::Silent(_) | HeadAnswer::OtherProtocol(_) => None,
    }
}

impl ClusterSeat {
    /// The role, as `/healthz` shows it.
    pub fn role(&self) -> &'static str {
        match self {
            Self::Leads(_) => "leader",
            Self::Follows(_) => "follower",
        }
    }

    /// Waits until this member's read models show everything that was acknowledged before this call. Stops waiting when
    /// no leader confirms this in time.
    pub(crate) async fn may_read(&self) -> ReadPermit {
        match self {
            Self::Follows(seat) => seat.may_read().await,
            Self::Leads(confirmed) => match until_confirmed(confirmed).await {
                Some(_) => ReadPermit::Current,
                None => ReadPermit::Refused,
            },
        }
    }
}

/// The epoch in which this member leads. Waits at most [`CONFIRMS`] until the database has confirmed the lease; `None`
/// if it has not.
pub(super) async fn until_confirmed(confirmed: &ConfirmedEpoch) -> Option<i64> {
    let until = Instant::now() + CONFIRMS;
    loop {
        if let Some(epoch) = confirmed() {
            return Some(epoch);
        }
        if Instant::now() >= until {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct AtEpoch(i64);

    impl FollowedLog for AtEpoch {
        fn epoch(&self) -> i64 {
            self.0
        }

        fn told(&self, _: Position) {}

        fn now(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn the_answer_of_a_deposed_leader_does_not_count() {
        let answer = HeadAnswer::At { position: Position(9), epoch: 2 };
        assert_eq!(current(&answer, &AtEpoch(3)), None);
        assert_eq!(current(&answer, &AtEpoch(2)), Some(Position(9)));
        assert_eq!(current(&answer, &AtEpoch(1)), Some(Position(9)), "the newer epoch was refused");
        assert_eq!(current(&HeadAnswer::NotLeading, &AtEpoch(1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_without_confirmation_answers_no_read() {
        let unconfirmed = ClusterSeat::Leads(Arc::new(|| None));
        assert_eq!(unconfirmed.may_read().await, ReadPermit::Refused);
        assert_eq!(ClusterSeat::Leads(Arc::new(|| Some(1))).may_read().await, ReadPermit::Current);
    }
}
