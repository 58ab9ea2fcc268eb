//! Writes the networks into OVN's northbound database, if OVN carries them.
//!
//! The reconciler compares the whole database with the read models after each event that concerns a network, and after
//! each change of the database by another program. So a change reaches the database within moments. If another program
//! changes rows of Chronova, the reconciler restores them as fast. While the database does not answer, nothing is lost:
//! the first comparison after the next connection finds all differences.
//!
//! Another copy of the log may drive the hosts. So this log writes only if a host has admitted it, or if it has no host.
//! The database also remembers the log that writes it, so that no two logs remove each other's rows. A copy whose hosts
//! admit it takes the database over. On a copied or restored log, rows that this log does not have may be those of guests
//! that the other copy made. They stay until an operator removes them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::envelope::Recorded;
use chronova_events::ids::NetworkId;
use chronova_events::instance::InstanceEvent;
use chronova_events::registry::Event;
use chronova_events::store::tail::Subscription;
use chronova_hypervisor::capability::owner_mark::HostOwner;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::hosts::fence::LogIdentity;
use crate::ports::{NetworkPlane, PlaneOwner, PlaneRemovals, PortError};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::reconcile::run_counts::ReconcilerTally;

/// How long changes are gathered. A longer comparison makes the pause longer, so that comparisons take at most a third
/// of a processor.
const PAUSE: Duration = Duration::from_millis(50);

/// The limit on the pause after comparisons in a row that found a difference, as a multiple of [`PAUSE`].
const MOST_PAUSES: u32 = 40;

/// The pause before another look whether a host has admitted this log.
const SOON: Duration = Duration::from_millis(500);

/// The most comparisons of one repair. Each sends what is left, in transactions of limited size.
const MOST_ROUNDS: usize = 64;

/// Differences between the log and OVN's northbound database.
#[derive(Debug)]
pub struct NorthboundRows;

impl Reconciler for NorthboundRows {
    type Finding = NetworkId;

    const NAME: &'static str = "ovn-northbound";
    const REPAIRS: &'static str = "rows of OVN's northbound database that differ from the networks in the log";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::IsHarmless("rows that this log does not have stay");
    const BY_CLOCK: bool = false;
    const FOLLOWS_LOG: bool = true;
    const FROM_LOG_ALONE: bool = false;

    fn is_woken_by(event: &Event) -> bool {
        match event {
            Event::NetworkEvent(_) | Event::RouterEvent(_) | Event::SecurityGroupEvent(_) => true,
            // During a live migration, two hosts may bind the ports of the server.
            Event::InstanceEvent(event) => matches!(
                event,
                InstanceEvent::MoveTargeted(_)
                    | InstanceEvent::MoveUntargeted(_)
                    | InstanceEvent::MoveFailed(_)
                    | InstanceEvent::LiveMoved(_)
                    | InstanceEvent::LiveMoveAborted(_)
            ),
            _ => false,
        }
    }

    /// All networks, because only the database shows which of them differ.
    fn plan(situation: Situation<'_>) -> BTreeSet<NetworkId> {
        situation.views.networks.read(|view| view.networks().map(|network| network.created.network).collect())
    }

    fn describe(network: &NetworkId) -> String {
        format!("network {network}")
    }

    /// Compares the whole database, whatever the findings are.
    async fn act(context: &ReconcileContext, findings: BTreeSet<NetworkId>) -> usize {
        let Some(plane) = context.networks.plane() else { return 0 };
        let (mut identity, mut removals) = (None, PlaneRemovals::default());
        for _ in 0..MOST_ROUNDS {
            match compare(context, &*plane, &mut identity, &mut removals).await {
                Ok(true) => return 0,
                Ok(false) => {}
                Err(_) => break,
            }
        }
        findings.len().max(1)
    }

    fn run(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>) -> BoxFuture<'static, ()> {
        let subscription = context.log.subscribe(context.views.position());
        Box::pin(async move {
            if let Some(plane) = context.networks.plane() {
                let follower =
                    NorthboundFollower { changes: plane.changes(), subscription, plane, context, tally, differing: 0 };
                follower.follow().await;
            }
        })
    }
}

/// Whether this log drives the hosts, as far as anybody knows. A copy whose configuration names no hosts still has them
/// in its log.
fn may_write(context: &ReconcileContext) -> bool {
    if context.fleet.drivers().is_empty() {
        return context.views.hosts.read(|hosts| hosts.all().next().is_none());
    }
    !context.driven().is_empty()
}

/// This log, as the database remembers it. `None` if logs are not distinguished, or if the log is empty. `known`: the
/// identity of the log, which is read once, because it does not change.
async fn owner(context: &ReconcileContext, known: &mut Option<LogIdentity>) -> Result<Option<PlaneOwner>, PortError> {
    if !context.host_options.fenced {
        return Ok(None);
    }
    if known.is_none() {
        *known = LogIdentity::of(&*context.log).await.map_err(|error| PortError::Unavailable(error.to_string()))?;
    }
    let is_admitted = !context.fleet.drivers().is_empty() && !context.driven().is_empty();
    Ok(known.map(|identity| {
        let HostOwner { installation, generation, .. } = identity.owner;
        PlaneOwner { installation, generation, is_admitted }
    }))
}

/// Compares once. `Ok(true)`: there is nothing to do.
async fn compare(
    context: &ReconcileContext,
    plane: &dyn NetworkPlane,
    identity: &mut Option<LogIdentity>,
    removals: &mut PlaneRemovals,
) -> Result<bool, PortError> {
    if !may_write(context) {
        return Ok(true);
    }
    if let Some(owner) = owner(context, identity).await? {
        plane.claim(owner).await?;
    }
    if !context.fleet.doubt().is_none() {
        removals.only_own();
    }
    plane.conform(&context.views, removals).await
}

/// Follows the log and the database until the task is dropped.
struct NorthboundFollower {
    context: Arc<ReconcileContext>,
    plane: Arc<dyn NetworkPlane>,
    tally: Arc<ReconcilerTally>,
    subscription: Subscription,
    changes: watch::Receiver<u64>,
    /// The number of comparisons in a row that found a difference without an event. If it grows, another program writes
    /// the same rows. Then longer pauses keep the load on the database low.
    differing: u32,
}

impl NorthboundFollower {
    async fn follow(mut self) {
        let (mut identity, mut removals) = (None, PlaneRemovals::default());
        let mut trouble = None;
        loop {
            let begun = Instant::now();
            self.changes.mark_unchanged();
            let compared = compare(&self.context, &*self.plane, &mut identity, &mut removals).await;
            self.tally.record(begun, self.context.clock.now(), usize::from(compared.is_err()));
            self.differing = if compared == Ok(false) { self.differing + 1 } else { 0 };
            // The client of the database has already logged that there is no connection.
            let failure = compared.err().filter(|error| !matches!(error, PortError::Unavailable(_)));
            if let Some(error) = failure.as_ref().filter(|error| trouble.as_ref() != Some(*error)) {
                tracing::warn!(%error, "writing the networks into OVN's northbound database failed, retrying");
            }
            trouble = failure;
            let pause = PAUSE * self.differing.clamp(1, MOST_PAUSES);
            if !self.wait(pause.max(begun.elapsed() * 2)).await {
                return;
            }
        }
    }

    /// Waits for a reason to compare again, and then for `pause`. Before a host has admitted this log, the wait is
    /// short. Returns false if the log cannot be followed any more.
    async fn wait(&mut self, pause: Duration) -> bool {
        let patience = if may_write(&self.context) { self.context.host_options.resync } else { SOON };
        let due = tokio::time::Instant::now() + patience;
        loop {
            tokio::select! {
                batch = self.subscription.next() => match batch {
                    Ok(batch) if wakes(&batch) => {
                        self.differing = 0;
                        break;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, "the networks in OVN cannot follow the log any more");
                        return false;
                    }
                },
                changed = self.changes.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return false,
                },
                () = tokio::time::sleep_until(due) => break,
            }
        }
        tokio::time::sleep(pause).await;
        if self.subscription.poll().await.is_err() {
            return false;
        }
        self.context.views.wait_for(self.subscription.position(), self.context.host_options.resync).await;
        true
    }
}

fn wakes(batch: &[Arc<Recorded>]) -> bool {
    batch.iter().any(|recorded| recorded.event().is_ok_and(|event| NorthboundRows::is_woken_by(event)))
}
