//! What of hosts shows in Placement: the host aggregates that a host is in are aggregates of its provider (by the same
//! UUID), and the provider of a disabled host has the trait `COMPUTE_STATUS_DISABLED`, as Nova's syncing has it.
//!
//! Aggregates and traits that others put there are theirs: only UUIDs that a host aggregate has or had are ever removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProviderId};
use chronova_projections::views::Views;
use uuid::Uuid;

use crate::gateway::Gateway;
use crate::ledger::{CELL, LedgerAggregate, LedgerCommand};

/// The trait of a host that takes no new servers.
pub const DISABLED: &str = "COMPUTE_STATUS_DISABLED";

/// What is to be changed at the ledger so that it shows what the hosts are.
pub fn plan(views: &Views) -> Vec<LedgerCommand> {
    let hosts: Vec<(HostId, bool)> =
        views.hosts.read(|hosts| hosts.all().map(|host| (host.id, host.enabled)).collect());
    let mut commands = Vec::new();
    views.host_aggregates.read(|aggregates| {
        views.placement.read(|placement| {
            for (host, enabled) in hosts {
                let provider = ProviderId(host.0);
                let Some(known) = placement.ledger.providers.get(&provider) else { continue };
                if enabled == known.traits.contains(DISABLED) {
                    let (with, without) = (vec![DISABLED.to_owned()], vec![]);
                    let (add, remove) = if enabled { (without, with) } else { (with, without) };
                    commands.push(LedgerCommand::AdjustTraits { provider, add, remove });
                }
                let wanted: BTreeSet<Uuid> = aggregates.of_host(host).map(|aggregate| aggregate.id.0).collect();
                let add: Vec<Uuid> = wanted.difference(&known.aggregates).copied().collect();
                let surplus = known.aggregates.difference(&wanted);
                let remove: Vec<Uuid> = surplus.filter(|id| aggregates.ever_had(**id)).copied().collect();
                if !add.is_empty() || !remove.is_empty() {
                    commands.push(LedgerCommand::AdjustAggregates { provider, add, remove });
                }
            }
        });
    });
    commands
}

/// Keeps the ledger as the hosts and host aggregates are.
#[derive(Debug)]
pub struct PlacementMirror {
    pub gateway: Arc<Gateway>,
    pub views: Arc<Views>,
    /// How long [`PlacementMirror::mirror`] waits for the read models.
    pub patience: Duration,
}

impl PlacementMirror {
    /// Brings the ledger up to date. The next run does what cannot be done now.
    pub async fn mirror(&self) {
        let mut last = None;
        for command in plan(&self.views) {
            match self.gateway.send::<LedgerAggregate>(&CELL, command, Meta::system("reconcile-placement")).await {
                Ok(committed) => last = Some(committed.position),
                Err(error) => tracing::warn!(%error, "the traits of a host cannot be shown in placement yet"),
            }
        }
        // The next query sees it, and so does the plan of the next run.
        if let Some(position) = last {
            self.views.wait_for(position, self.patience).await;
        }
    }
}
