//! Mirrors hosts in Placement, as Nova does. A host's provider is in an aggregate with the UUID of each host aggregate
//! of the host. The provider of a disabled host has the trait `COMPUTE_STATUS_DISABLED`.
//!
//! Aggregates and traits of Placement's clients stay. The mirror removes an aggregate only if a host aggregate has or
//! had its UUID.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProviderId};
use chronova_projections::views::Views;
use uuid::Uuid;

use crate::gateway::CommandGateway;
use crate::ledger::{CELL, LedgerCommand, LedgerRoot};
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};

/// The trait of a host that takes no new servers.
pub const DISABLED: &str = "COMPUTE_STATUS_DISABLED";

/// A change of a host's provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderChange {
    Traits { provider: ProviderId, add: Vec<String>, remove: Vec<String> },
    Aggregates { provider: ProviderId, add: Vec<Uuid>, remove: Vec<Uuid> },
}

impl From<ProviderChange> for LedgerCommand {
    fn from(change: ProviderChange) -> Self {
        match change {
            ProviderChange::Traits { provider, add, remove } => Self::AdjustTraits { provider, add, remove },
            ProviderChange::Aggregates { provider, add, remove } => Self::AdjustAggregates { provider, add, remove },
        }
    }
}

/// The changes after which the ledger matches the hosts.
pub fn plan(views: &Views) -> BTreeSet<ProviderChange> {
    changes(views, views.hosts.read(|hosts| hosts.all().map(|host| (host.id, host.enabled)).collect()))
}

/// The changes after which the ledger matches one host.
pub(crate) fn plan_of(views: &Views, host: HostId) -> BTreeSet<ProviderChange> {
    changes(views, views.hosts.read(|hosts| hosts.get(host).map(|host| (host.id, host.enabled)).into_iter().collect()))
}

/// The changes after which the ledger matches these hosts. The boolean of a host says whether it is enabled.
fn changes(views: &Views, hosts: Vec<(HostId, bool)>) -> BTreeSet<ProviderChange> {
    let mut changes = BTreeSet::new();
    views.host_aggregates.read(|aggregates| {
        views.placement.read(|placement| {
            for (host, enabled) in hosts {
                let provider = ProviderId(host.0);
                let Some(known) = placement.ledger.providers.get(&provider) else { continue };
                if enabled == known.traits.contains(DISABLED) {
                    let (with, without) = (vec![DISABLED.to_owned()], vec![]);
                    let (add, remove) = if enabled { (without, with) } else { (with, without) };
                    changes.insert(ProviderChange::Traits { provider, add, remove });
                }
                let wanted: BTreeSet<Uuid> = aggregates.of_host(host).map(|aggregate| aggregate.id.0).collect();
                let add: Vec<Uuid> = wanted.difference(&known.aggregates).copied().collect();
                let surplus = known.aggregates.difference(&wanted);
                let remove: Vec<Uuid> = surplus.filter(|id| aggregates.ever_had(**id)).copied().collect();
                if !add.is_empty() || !remove.is_empty() {
                    changes.insert(ProviderChange::Aggregates { provider, add, remove });
                }
            }
        });
    });
    changes
}

/// Keeps the ledger up to date with the hosts and host aggregates.
#[derive(Debug)]
pub struct PlacementMirror {
    pub gateway: Arc<CommandGateway>,
    pub views: Arc<Views>,
    /// How long [`PlacementMirror::mirror`] waits for the read models.
    pub patience: Duration,
}

impl PlacementMirror {
    /// Brings the ledger up to date. A change that fails now is made in the next run.
    pub async fn mirror(&self) {
        self.apply(plan(&self.views)).await;
    }

    /// Applies the changes. Returns how many failed.
    async fn apply(&self, changes: BTreeSet<ProviderChange>) -> usize {
        let (mut last, mut failures) = (None, 0);
        for change in changes {
            let (command, meta) = (LedgerCommand::from(change), Meta::system("reconcile-placement"));
            match self.gateway.send::<LedgerRoot>(&CELL, command, meta).await {
                Ok(committed) => last = Some(committed.position),
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, "updating a host's traits in placement failed, retrying");
                }
            }
        }
        // The wait lets the next query and the next plan see the changes.
        if let Some(position) = last {
            self.views.wait_for(position, self.patience).await;
        }
        failures
    }
}

/// Providers that do not match their hosts.
#[derive(Debug)]
pub struct OutdatedProviders;

impl Reconciler for OutdatedProviders {
    type Finding = ProviderChange;

    const NAME: &'static str = "placement";
    const REPAIRS: &'static str = "aggregates and traits of hosts that Placement does not show";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views)
    }

    fn describe(change: &Self::Finding) -> String {
        let list = |names: Vec<String>| if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        let ids = |ids: &[Uuid]| list(ids.iter().map(Uuid::to_string).collect());
        match change {
            ProviderChange::Traits { provider, add, remove } => {
                format!("provider {provider}: add traits {}, remove {}", list(add.clone()), list(remove.clone()))
            }
            ProviderChange::Aggregates { provider, add, remove } => {
                format!("provider {provider}: add aggregates {}, remove {}", ids(add), ids(remove))
            }
        }
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        context.placement.apply(findings).await
    }
}
