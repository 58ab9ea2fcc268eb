//! What of hosts shows in Placement: the host aggregates that a host is in are aggregates of its provider (by the same
//! UUID), and the provider of a disabled host has the trait `COMPUTE_STATUS_DISABLED`, as Nova's syncing has it.
//!
//! Aggregates and traits that others put there are theirs: only UUIDs that a host aggregate has or had are ever removed.

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProviderId};
use chronova_projections::views::Views;
use uuid::Uuid;

use crate::house::House;
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

/// Brings the ledger up to date. What cannot be done now is done by the next run.
pub async fn mirror(house: &House) {
    let mut last = None;
    for command in plan(&house.views) {
        match house.gateway.send::<LedgerAggregate>(&CELL, command, Meta::system("reconcile-placement")).await {
            Ok(committed) => last = Some(committed.position),
            Err(error) => tracing::warn!(%error, "what a host is cannot be shown in placement yet"),
        }
    }
    // Who asks next sees it; the plan of the next run does, too.
    if let Some(position) = last {
        house.views.wait_for(position, house.options.resync).await;
    }
}
