//! Measures how full the hosts are, and how many more servers fit.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::instance::FlavorSnapshot;
use chronova_events::ledger::InventoryLine;
use chronova_projections::views::Views;
use serde::Serialize;

/// The use of one fleet at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Packing {
    pub hosts: usize,
    /// Hosts with allocations.
    pub hosts_in_use: usize,
    /// Allocated amounts and capacities, by resource class, over all hosts. Nested providers are left out.
    pub claimed: BTreeMap<String, (u64, u64)>,
    /// How many more servers of the flavor fit on hosts that are up and enabled. Only vCPUs, memory and disk limit this
    /// number.
    pub headroom: u64,
}

impl Packing {
    pub(super) fn of(views: &Views, flavor: Option<&FlavorSnapshot>) -> Self {
        let (all, open): (BTreeSet<ProviderId>, BTreeSet<ProviderId>) = views.hosts.read(|hosts| {
            let all = hosts.all().map(|host| ProviderId(host.id.0)).collect();
            (all, hosts.all().filter(|host| host.answers() && host.enabled).map(|host| ProviderId(host.id.0)).collect())
        });
        views.placement.read(|placement| {
            let ledger = &placement.ledger;
            let held = ledger.consumers.values().flat_map(|consumer| &consumer.claim.allocations);
            let in_use: BTreeSet<ProviderId> = held.map(|held| ledger.root_of(held.provider)).collect();
            let mut claimed: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            let mut headroom = 0;
            for id in &all {
                let Some(provider) = ledger.providers.get(id) else { continue };
                for (class, line) in &provider.inventories {
                    let (used, capacity) = claimed.entry(class.clone()).or_default();
                    *used += line.used;
                    *capacity += line.inventory.capacity();
                }
                if let Some(flavor) = flavor.filter(|_| open.contains(id)) {
                    headroom += room(&provider.inventories, flavor);
                }
            }
            Self { hosts: all.len(), hosts_in_use: in_use.intersection(&all).count(), claimed, headroom }
        })
    }
}

fn room(inventories: &BTreeMap<String, InventoryLine>, flavor: &FlavorSnapshot) -> u64 {
    let disk = u64::from(flavor.root_gib) + u64::from(flavor.ephemeral_gib) + u64::from(flavor.swap_mib.div_ceil(1024));
    let wanted = [("VCPU", u64::from(flavor.vcpus)), ("MEMORY_MB", flavor.memory_mib), ("DISK_GB", disk)];
    let of = |(class, amount): &(&str, u64)| {
        let line = inventories.get(*class);
        line.filter(|line| line.admits(*amount)).map_or(0, |line| line.free() / amount)
    };
    wanted.iter().filter(|(_, amount)| *amount > 0).map(of).min().unwrap_or(0)
}
