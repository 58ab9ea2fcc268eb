//! Removes virtual networks from hosts when their network is deleted.
//!
//! A host has a bridge and a DHCP server for each network of its present and past guests. Both stay as long as the
//! network exists, so that the next guest finds them. Both must be removed with the network. Otherwise they would block
//! its addresses for later networks on that host.
//!
//! While the control plane runs, the reconciler reads deletions in the log. A deletion may have come just before the
//! last stop. So after a start, the reconciler asks each host once for its networks.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::envelope::{Recorded, Revision, StreamId};
use chronova_events::ids::NetworkId;
use chronova_events::network::NetworkEvent;
use chronova_events::registry::{Event, NounEvent as _};
use chronova_events::store::StoreError;
use chronova_events::store::tail::Subscription;
use chronova_hypervisor::driver::Driver;
use futures::future::{BoxFuture, join_all};

use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::reconcile::run_counts::ReconcilerTally;

/// Events of a network's stream that are read at a time.
const PAGE: usize = 512;
/// The pause before another question to hosts that have not answered since start-up.
const SOON: Duration = Duration::from_millis(500);

/// The pending work: each deleted network, with the URIs of the hosts that have not confirmed its removal yet.
type PendingNetworkRemovals = BTreeMap<NetworkId, BTreeSet<String>>;

/// Deleted networks that may still be on hosts. No read model knows which networks a host has, so the plan is always
/// empty. The reconciler's own loop reads the log and asks the hosts.
#[derive(Debug)]
pub struct DeletedNetworks;

impl Reconciler for DeletedNetworks {
    type Finding = NetworkId;

    const NAME: &'static str = "host-networks";
    const REPAIRS: &'static str = "bridges and DHCP servers that hosts keep for deleted networks";
    const ON_A_COPY: CopyConduct<Self::Finding> =
        CopyConduct::IsHarmless("no generation uses a network again that is deleted");
    const BY_CLOCK: bool = false;
    const FOLLOWS_LOG: bool = true;
    const FROM_LOG_ALONE: bool = false;

    fn plan(_: Situation<'_>) -> BTreeSet<NetworkId> {
        BTreeSet::new()
    }

    fn describe(network: &NetworkId) -> String {
        format!("network {network}")
    }

    async fn act(context: &ReconcileContext, networks: BTreeSet<NetworkId>) -> usize {
        let mut pending = networks.into_iter().map(|network| (network, hosts(&context.fleet.drivers()))).collect();
        remove(context, &mut pending).await;
        pending.len()
    }

    fn run(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>) -> BoxFuture<'static, ()> {
        let subscription = context.log.subscribe(context.views.position());
        Box::pin(follow(context, tally, subscription))
    }
}

/// Follows the log until the task is dropped. At each `resync`, it repeats its question to hosts that have not
/// answered.
async fn follow(context: Arc<ReconcileContext>, tally: Arc<ReconcilerTally>, mut subscription: Subscription) {
    let mut pending = PendingNetworkRemovals::new();
    let mut unasked = hosts(&context.fleet.drivers());
    loop {
        if !unasked.is_empty() {
            ask(&context, &mut unasked, &mut pending).await;
        }
        if !pending.is_empty() {
            let begun = Instant::now();
            remove(&context, &mut pending).await;
            tally.record(begun, context.clock.now(), pending.len());
        }
        let batch = if pending.is_empty() && unasked.is_empty() {
            subscription.next().await
        } else {
            let pause = if context.awaits_hosts() { SOON } else { context.host_options.resync };
            tokio::time::sleep(pause).await;
            subscription.poll().await
        };
        let Ok(batch) = batch else { return };
        for recorded in &batch {
            if let Some(network) = deleted_by(recorded) {
                pending.insert(network, hosts(&context.fleet.drivers()));
            }
        }
    }
}

fn deleted_by(recorded: &Recorded) -> Option<NetworkId> {
    match recorded.event().ok()?.as_ref() {
        Event::NetworkEvent(NetworkEvent::NetworkDeleted(deleted)) => Some(deleted.network),
        _ => None,
    }
}

/// Asks hosts for their networks, and notes the networks that are deleted in this log. A host that does not answer
/// stays in `unasked`.
async fn ask(context: &ReconcileContext, unasked: &mut BTreeSet<String>, pending: &mut PendingNetworkRemovals) {
    let driven = context.driven();
    let drivers = driven.iter().filter(|driver| unasked.contains(driver.uri()));
    let answers = join_all(drivers.map(async |driver| match driver.networks() {
        Some(networks) => (driver.uri(), networks.list_networks().await),
        None => (driver.uri(), Ok(BTreeSet::new())),
    }))
    .await;
    let fleet = hosts(&context.fleet.drivers());
    unasked.retain(|uri| fleet.contains(uri));
    let mut verdicts = BTreeMap::new();
    for (uri, answer) in answers {
        let Ok(networks) = answer else { continue };
        let mut is_judged = true;
        for network in networks {
            if let Entry::Vacant(unknown) = verdicts.entry(network) {
                unknown.insert(is_deleted(context, network).await);
            }
            match verdicts.get(&network) {
                Some(Ok(true)) => _ = pending.entry(network).or_default().insert(uri.to_owned()),
                Some(Ok(false)) => {}
                _ => is_judged = false,
            }
        }
        if is_judged {
            unasked.remove(uri);
        }
    }
}

/// Whether the network is deleted in this log. A network that the log never had belongs to another control plane.
async fn is_deleted(context: &ReconcileContext, network: NetworkId) -> Result<bool, StoreError> {
    // A deletion that the read model lacks is still to come in the subscription of this reconciler. The stream of a
    // network has the events of all its ports, and is read only if the read model does not have the network.
    if context.views.networks.read(|view| view.network(network).is_some()) {
        return Ok(false);
    }
    let stream = StreamId::new(NetworkEvent::NOUN, network);
    let mut after = Revision::NONE;
    loop {
        let page = context.log.read_stream(&stream, after, PAGE).await?;
        if page.iter().any(|recorded| deleted_by(recorded).is_some()) {
            return Ok(true);
        }
        match page.last() {
            Some(last) => after = last.revision,
            None => return Ok(false),
        }
    }
}

fn hosts(drivers: &[Arc<dyn Driver>]) -> BTreeSet<String> {
    drivers.iter().map(|driver| driver.uri().to_owned()).collect()
}

async fn remove(context: &ReconcileContext, pending: &mut PendingNetworkRemovals) {
    let (driven, fleet) = (context.driven(), hosts(&context.fleet.drivers()));
    for (network, hosts) in pending.iter_mut() {
        // A host may have been removed from the fleet meanwhile.
        hosts.retain(|uri| fleet.contains(uri));
        let asked = driven.iter().filter(|driver| hosts.contains(driver.uri()));
        let answers = join_all(asked.map(async |driver| {
            let answer = match driver.networks() {
                Some(networks) => networks.remove_network(*network).await,
                None => Ok(()),
            };
            (driver.uri(), answer)
        }))
        .await;
        for (uri, answer) in answers {
            match answer {
                Ok(()) => _ = hosts.remove(uri),
                Err(error) => tracing::warn!(%network, host = uri, %error, "removing a network failed, retrying"),
            }
        }
    }
    pending.retain(|_, hosts| !hosts.is_empty());
}
