//! Guests with virtual GPUs in the test world.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_actors::mdev::{self, EnabledMdevType, MdevOptions, VGPU};
use chronova_events::ids::{ConsumerId, InstanceId, ProviderId};
use chronova_events::instance::{BuildRequested, FlavorSnapshot};
use chronova_events::ledger::Ledger;
use chronova_hypervisor::mdev::GuestMdev;
use chronova_hypervisor::sim::{SimFleet, SimUri};

use crate::moves::larger;
use crate::world::{Life, World, build_request, small};

/// The type of virtual GPUs that the hosts of such a world offer.
pub const TYPE: &str = "nvidia-35";

impl World {
    /// A world whose hosts each have these physical GPUs, written as in the simulated fleet's URI.
    pub fn with_gpus(hosts: usize, gpus: &str) -> Self {
        Self::of(SimUri { mdevs: gpus.parse().unwrap(), ..small(hosts) }).offering_gpus(TYPE)
    }

    /// Offers virtual GPUs of one type to guests.
    pub fn offering_gpus(mut self, mdev_type: &str) -> Self {
        let name = mdev_type.to_owned();
        let enabled = EnabledMdevType { name, addresses: vec![], class: VGPU.to_owned(), most: None };
        let options = MdevOptions::of(vec![enabled]).unwrap();
        self.options.servers.mdevs = options.clone();
        self.options.hosts.mdevs = options;
        self
    }
}

/// The flavor with these extra specs instead of its own.
fn with_specs(flavor: FlavorSnapshot, specs: &[(&str, &str)]) -> FlavorSnapshot {
    let extra_specs = specs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    FlavorSnapshot { extra_specs, ..flavor }
}

/// A small server whose flavor has these extra specs.
pub fn request_with_specs(instance: InstanceId, specs: &[(&str, &str)]) -> BuildRequested {
    let mut request = build_request(instance);
    request.flavor = Arc::new(with_specs((*request.flavor).clone(), specs));
    request
}

impl Life {
    pub async fn build_with_gpus(&self, instance: InstanceId, number: u32) -> Result<(), String> {
        self.build_of(request_with_specs(instance, &[("resources:VGPU", &number.to_string())])).await
    }

    /// Resizes the server to a larger flavor with two virtual GPUs.
    pub async fn resize_with_gpus(&self, instance: InstanceId) -> Result<(), String> {
        self.resize_to(instance, with_specs(larger(), &[("resources:VGPU", "2")])).await
    }
}

/// The virtual GPUs of the server's guest, as reported by each host that has the guest.
pub fn gpus(fleet: &SimFleet, instance: InstanceId) -> BTreeMap<usize, Vec<GuestMdev>> {
    let has = |host: usize| Some((host, fleet.guests(host).get(&instance)?.mdevs.clone()));
    (0..fleet.len()).filter_map(has).collect()
}

/// Checks that every guest has the devices that its server, or a move of its server, has allocated on the host. Call it
/// when no work is under way.
pub fn check(fleet: &SimFleet, ledger: &Ledger, options: &MdevOptions) {
    for host in 0..fleet.len() {
        let provider = ProviderId(fleet.uri().host_id(host).0);
        for (instance, guest) in &fleet.guests(host) {
            let of = |consumer: &ConsumerId| {
                let allocations = &ledger.consumers[consumer].claim.allocations;
                mdev::devices(*instance, allocations, provider, ledger, options).unwrap()
            };
            let own = ConsumerId::new(instance.to_string());
            let has_own = ledger.consumers.contains_key(&own) && of(&own) == guest.mdevs;
            let promised = has_own || ledger.consumers.keys().any(|consumer| of(consumer) == guest.mdevs);
            assert!(promised, "{instance} has {:?} of host {host}", guest.mdevs);
        }
    }
}
