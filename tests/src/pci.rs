//! Guests with PCI devices of their hosts in the test world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_actors::instance::InstanceRequest;
use chronova_actors::pci::HostPciOptions;
use chronova_actors::pci::alias::PciAliases;
use chronova_actors::pci::device_spec::DeviceSpec;
use chronova_events::ids::{InstanceId, PortId, ProcessId, ProviderId};
use chronova_events::instance::{Alive, BuildRequested, FlavorSnapshot, Phase, RequestedNetworks, RequestedNic};
use chronova_events::ledger::{HeldPciDevice, Ledger};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::sim::{SimFleet, SimUri};

use crate::moves::larger;
use crate::services::{device_port, is_device_port};
use crate::world::{ADMIN, Life, World, build_request, small};

/// Whether Placement knows the PCI devices of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PciTracking {
    Untracked,
    /// The hosts have `report_in_placement`, and the aliases `pci_in_placement`.
    Tracked,
}

impl World {
    /// A world whose hosts each have these PCI devices, written as in the simulated fleet's URI. The aliases are `gpu`
    /// (10de:1eb8) and `vf` (virtual functions 8086:10ed). Ports get virtual functions 154c, vDPA devices 101e and cards
    /// 1019. Functions 101c are remote-managed.
    pub fn with_pci(hosts: usize, devices: &str, tracking: PciTracking) -> Self {
        Self::of(SimUri { pci: devices.parse().unwrap(), ..small(hosts) }).offering_pci(tracking)
    }

    /// Offers the GPUs and the virtual functions of the fleet to guests.
    pub fn offering_pci(mut self, tracking: PciTracking) -> Self {
        let tracked = tracking == PciTracking::Tracked;
        let specs = [
            r#"{"vendor_id": "10de"}"#,
            r#"{"product_id": "10ed"}"#,
            r#"{"product_id": "154c", "physical_network": "physnet1"}"#,
            r#"{"product_id": "101e", "physical_network": "physnet1"}"#,
            r#"{"product_id": "1019", "physical_network": "physnet1"}"#,
            r#"{"product_id": "101c", "physical_network": "physnet1", "remote_managed": "true"}"#,
        ];
        let specs = specs.map(str::to_owned);
        let others = DeviceSpec::read_all(&specs).unwrap();
        self.options.hosts.host_pci = HostPciOptions { others, named: BTreeMap::new(), reports: tracked };
        let aliases = [
            r#"{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}"#,
            r#"{"name": "vf", "vendor_id": "8086", "product_id": "10ed", "device_type": "type-VF"}"#,
        ];
        let aliases = PciAliases::read(&aliases.map(str::to_owned), tracked).unwrap();
        self.options.servers.pci_aliases = aliases.clone();
        self.options.scheduler.pci_aliases = aliases;
        self
    }
}

fn with_devices(flavor: FlavorSnapshot, wanted: &str) -> FlavorSnapshot {
    FlavorSnapshot { extra_specs: vec![("pci_passthrough:alias".to_owned(), wanted.to_owned())], ..flavor }
}

/// A small server with these devices.
pub fn request_with_devices(instance: InstanceId, wanted: &str) -> BuildRequested {
    let mut request = build_request(instance);
    request.flavor = Arc::new(with_devices((*request.flavor).clone(), wanted));
    request
}

impl Life {
    pub async fn build_with_devices(&self, instance: InstanceId, wanted: &str) -> Result<(), String> {
        self.build_of(request_with_devices(instance, wanted)).await
    }

    /// A small server with a port of this `vnic_type`.
    pub async fn build_with_port(&self, instance: InstanceId, vnic: &str) -> Result<(), String> {
        let port = Some(device_port(instance, vnic));
        let nic = RequestedNic { network: None, port, fixed_ip: None, tag: None };
        let networks = RequestedNetworks::These(vec![nic]);
        self.build_of(BuildRequested { networks, ..build_request(instance) }).await
    }

    /// Attaches a port of this `vnic_type`.
    pub async fn attach_port(&self, instance: InstanceId, vnic: &str) -> Result<(), String> {
        let port = Some(device_port(instance, vnic));
        let wanted = RequestedNic { network: None, port, fixed_ip: None, tag: None };
        let process = ProcessId::random();
        self.instance(instance, InstanceRequest::AttachNic { process, wanted, asker: ADMIN }).await
    }

    /// Requests more memory and disk, and two GPUs.
    pub async fn resize_with_devices(&self, instance: InstanceId) -> Result<(), String> {
        self.resize_to(instance, with_devices(larger(), "gpu:2")).await
    }
}

/// The devices of the server's guest, as reported by each host that has the guest.
pub fn devices(fleet: &SimFleet, instance: InstanceId) -> BTreeMap<usize, Vec<PciAddress>> {
    let addresses = |host: usize| {
        let guest = fleet.guests(host).get(&instance)?.clone();
        Some((host, guest.all_devices().map(|device| device.address).collect()))
    };
    (0..fleet.len()).filter_map(addresses).collect()
}

/// The interfaces that the guest has or gets when its server is resumed. The guest of a suspended server is saved
/// without the devices of its host.
pub fn with_saved(server: &Alive, mut found: BTreeSet<String>) -> BTreeSet<String> {
    if let Phase::Suspended { .. } = server.phase {
        let devices = server.nics.iter().filter(|nic| is_device_port(nic.port));
        found.extend(devices.map(|nic| nic.mac.clone()));
    }
    found
}

/// Checks that the profiles of ports name the devices that the ledger gave them.
pub fn check_ports(equipped: &BTreeMap<PortId, PciAddress>, ledger: &Ledger) {
    let held: Vec<(Option<PortId>, PciAddress)> = (ledger.pci.keys())
        .flat_map(|host| ledger.pci_claims.on(*host))
        .flat_map(|(_, devices)| devices)
        .map(|device| (device.port(), device.address))
        .collect();
    for (port, address) in equipped {
        assert!(
            held.contains(&(Some(*port), *address)),
            "port {port} has {address} in its profile; the ledger: {held:?}"
        );
    }
    for (port, _) in held.iter().filter_map(|(port, address)| Some(((*port)?, address))) {
        assert!(equipped.contains_key(&port), "port {port} holds a device that its profile does not have");
    }
}

/// Checks invariants when no work is under way. No device has two guests. No consumer has devices without an
/// allocation. Each tracked device is allocated. Every guest has the devices that the ledger assigns on its host.
pub fn check(fleet: &SimFleet, ledger: &Ledger) {
    let mut allocated: BTreeMap<(ProviderId, String), u64> = BTreeMap::new();
    let addresses = |devices: &mut dyn Iterator<Item = PciAddress>| devices.collect::<BTreeSet<PciAddress>>();
    for host in 0..fleet.len() {
        let provider = ProviderId(fleet.uri().host_id(host).0);
        let mut seen = BTreeSet::new();
        let mut promised: Vec<BTreeSet<PciAddress>> = Vec::new();
        for (consumer, held) in ledger.pci_claims.on(provider) {
            let holds = ledger.consumers.get(consumer).map(|consumer| &consumer.claim.allocations);
            let holds = holds.is_some_and(|own| own.iter().any(|own| own.provider == provider));
            assert!(holds, "{consumer} has devices of host {host} and no allocation there");
            for HeldPciDevice { address, tracked, .. } in held {
                assert!(seen.insert(*address), "device {address} of host {host} has two guests");
                if let Some(place) = tracked {
                    *allocated.entry(place.clone()).or_default() += 1;
                }
            }
            promised.push(addresses(&mut held.iter().map(|device| device.address)));
        }
        for (instance, guest) in fleet.guests(host).iter().filter(|(_, guest)| guest.all_devices().next().is_some()) {
            let has = addresses(&mut guest.all_devices().map(|device| device.address));
            assert!(promised.contains(&has), "{instance} has {has:?} of host {host}; promised: {promised:?}");
        }
    }
    let devices = ledger.pci.values().flat_map(|host| &host.devices);
    let cards: BTreeSet<(ProviderId, String)> =
        devices.filter_map(|device| Some((device.provider?, device.class.clone()))).collect();
    for (provider, class) in cards {
        let used = ledger.providers[&provider].inventories[&class].used;
        let held = allocated.remove(&(provider, class.clone())).unwrap_or(0);
        assert_eq!(
            used, held,
            "the allocated amount of {class} on {provider} differs from the devices that consumers hold"
        );
    }
    assert_eq!(allocated, BTreeMap::new(), "consumers hold tracked devices of unknown providers");
}
