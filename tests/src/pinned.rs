//! Guests with NUMA topologies and dedicated CPUs in the test world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_actors::topology::host::{CpuSets, HostCpus};
use chronova_events::ids::{ConsumerId, InstanceId, ProviderId};
use chronova_events::instance::{BuildRequested, FlavorSnapshot};
use chronova_events::ledger::{FittedNumaCell, Ledger};
use chronova_hypervisor::pinning::Pinning;
use chronova_hypervisor::sim::SimFleet;

use crate::moves::larger;
use crate::world::{Life, World, build_request};

impl World {
    /// Each host has another set of dedicated processors, so that a move changes the processors of a guest.
    pub fn with_dedicated_processors(mut self) -> Self {
        let sets = |host: usize| {
            let first = 2 + 2 * u32::try_from(host).unwrap();
            let dedicated = (first..first + 4).collect();
            let sets = CpuSets { shared: Some([0, 1].into()), dedicated: Some(dedicated) };
            (self.fleet.uri().hostname(host), sets)
        };
        let named = (0..self.fleet.len()).map(sets).collect();
        self.options.hosts.host_cpus = HostCpus { named, ..HostCpus::default() };
        self
    }
}

/// A small server with two dedicated CPUs.
pub fn pinned_request(instance: InstanceId) -> BuildRequested {
    let mut request = build_request(instance);
    request.flavor = Arc::new(pinned(FlavorSnapshot { vcpus: 2, ..(*request.flavor).clone() }));
    request
}

fn pinned(flavor: FlavorSnapshot) -> FlavorSnapshot {
    FlavorSnapshot { extra_specs: vec![("hw:cpu_policy".to_owned(), "dedicated".to_owned())], ..flavor }
}

/// A flavor with three dedicated CPUs, and more memory and disk.
pub fn larger_pinned() -> FlavorSnapshot {
    pinned(FlavorSnapshot { vcpus: 3, ..larger() })
}

impl Life {
    pub async fn build_pinned(&self, instance: InstanceId) -> Result<(), String> {
        self.build_of(pinned_request(instance)).await
    }

    pub async fn resize_pinned(&self, instance: InstanceId) -> Result<(), String> {
        self.resize_to(instance, larger_pinned()).await
    }
}

/// The processors to which the server's guest is pinned, as reported by each host that has the guest.
pub fn processors(fleet: &SimFleet, instance: InstanceId) -> BTreeMap<usize, BTreeSet<u32>> {
    let here = |host: usize| Some((host, taken(&fleet.guests(host).get(&instance)?.pinning)));
    (0..fleet.len()).filter_map(here).collect()
}

fn taken(pinning: &Pinning) -> BTreeSet<u32> {
    pinning.nodes.iter().flat_map(|node| &node.cpus).flat_map(|(_, processors)| processors.iter().copied()).collect()
}

/// Checks invariants when no work is under way. No processor has two guests. No consumer has processors without an
/// allocation. Every pinned guest has processors that the ledger assigns on its host.
pub fn check(fleet: &SimFleet, ledger: &Ledger) {
    for (host, guests) in &ledger.fitted {
        let mut seen = BTreeSet::new();
        for (consumer, cells) in guests {
            let holds = ledger.consumers.get(consumer).map(|consumer| &consumer.claim.allocations);
            let holds = holds.is_some_and(|held| held.iter().any(|held| held.provider == *host));
            assert!(holds, "{consumer} uses NUMA cells of {host} and has no allocation there");
            for processor in cells.iter().flat_map(FittedNumaCell::taken) {
                assert!(seen.insert(processor), "processor {processor} of {host} has two guests");
            }
        }
    }
    for host in 0..fleet.len() {
        let provider = ProviderId(fleet.uri().host_id(host).0);
        let promised: Vec<BTreeSet<u32>> = ledger
            .fitted
            .get(&provider)
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(|cells| cells.iter().flat_map(|cell| cell.pinned.iter().map(|(_, processor)| *processor)).collect())
            .collect();
        for (instance, guest) in fleet.guests(host).iter().filter(|(_, guest)| !guest.pinning.nodes.is_empty()) {
            let own = ledger.fitting(&ConsumerId::new(instance.to_string())).filter(|own| own.host == provider);
            let has = taken(&guest.pinning);
            assert!(
                promised.contains(&has),
                "{instance} has processors {has:?} of host {host}; promised: {promised:?}"
            );
            if let Some(own) = own {
                let cells: Vec<u32> = own.cells.iter().map(|cell| cell.cell).collect();
                assert_eq!(guest.pinning.nodes.iter().map(|node| node.cell).collect::<Vec<_>>(), cells);
            }
        }
    }
}
