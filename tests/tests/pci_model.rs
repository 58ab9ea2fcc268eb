#![allow(clippy::unwrap_used)]
//! Compares the ledger's PCI devices with an independent model under random traffic: reports that offer other devices
//! and begin to track them, claims of one or several servers, ports that come and go, moves, and releases.
//!
//! The model knows sets of device numbers only. After every command, both must agree on its acceptance and on the
//! devices of each server. No device has two holders. The allocations of tracked devices are those of their holders.

use std::collections::{BTreeMap, BTreeSet};

use chronova_actors::aggregate::AggregateRoot;
use chronova_actors::ledger::{GuestClaim, LedgerCommand, LedgerRoot, ReportedPci, ServerClaim};
use chronova_actors::pci::alias::{PciAliases, PciRequest};
use chronova_actors::pci::device_spec::DeviceSpec;
use chronova_actors::pci::host::offered;
use chronova_actors::pci::ports::{DevicePort, DeviceVnic};
use chronova_actors::topology::host::HostNumaCells;
use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::{ConsumerId, FlavorId, PortId, ProviderId};
use chronova_events::instance::FlavorSnapshot;
use chronova_events::ledger::{Allocation, Claimed, Inventory, Ledger, PciDeviceType};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::pci::{HostPci, PciDevice, PciNic};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use uuid::Uuid;

/// The devices of the host: GPUs 0 to 3, and virtual functions 4 to 7 of one card.
const DEVICES: std::ops::Range<u8> = 0..8;

fn host() -> ProviderId {
    ProviderId(Uuid::from_u128(1))
}

fn address(number: u8) -> PciAddress {
    match number {
        0..4 => PciAddress { domain: 0, bus: 0x10 + number, slot: 0, function: 0 },
        _ => PciAddress { domain: 0, bus: 0x81, slot: 1, function: number - 4 },
    }
}

fn number(address: PciAddress) -> u8 {
    DEVICES.clone().find(|number| self::address(*number) == address).unwrap()
}

fn is_gpu(number: u8) -> bool {
    number < 4
}

#[derive(Debug, Clone)]
enum PciStep {
    /// The host now offers these device numbers; `tracked` says whether Placement knows them.
    Report {
        offered: BTreeSet<u8>,
        tracked: bool,
    },
    /// One command for several servers: server, number of GPUs, number of virtual functions.
    Claim(Vec<(u8, u32, u32)>),
    Release(u8),
    SetAside(u8),
    TakeBack(u8),
    /// A server gets a port that needs any device, by the port's number.
    Attach(u8, u8),
    Detach(u8, u8),
}

fn step() -> impl Strategy<Value = PciStep> {
    let server = 0..5_u8;
    prop_oneof![
        2 => (btree_set(DEVICES, 0..=8), prop::bool::weighted(0.3))
            .prop_map(|(offered, tracked)| PciStep::Report { offered, tracked }),
        4 => vec((server.clone(), 0..=3_u32, 0..=2_u32), 1..=2).prop_map(|mut claims| {
            claims.dedup_by_key(|(server, ..)| *server);
            PciStep::Claim(claims)
        }),
        2 => server.clone().prop_map(PciStep::Release),
        1 => server.clone().prop_map(PciStep::SetAside),
        1 => server.clone().prop_map(PciStep::TakeBack),
        3 => (server.clone(), 0..3_u8).prop_map(|(server, port)| PciStep::Attach(server, port)),
        1 => (server, 0..3_u8).prop_map(|(server, port)| PciStep::Detach(server, port)),
    ]
}

fn server(number: u8) -> ConsumerId {
    ConsumerId::new(format!("server-{number}"))
}

fn migration(number: u8) -> ConsumerId {
    ConsumerId::new(format!("migration-{number}"))
}

fn report(named: &BTreeSet<u8>, tracked: bool) -> LedgerCommand {
    let device = |number: u8| PciDevice {
        address: address(number),
        vendor: "10de".into(),
        product: if is_gpu(number) { "1eb8" } else { "10ed" }.into(),
        kind: if is_gpu(number) { PciDeviceType::Pci } else { PciDeviceType::Vf },
        parent: (!is_gpu(number)).then_some(PciAddress { domain: 0, bus: 0x81, slot: 0, function: 0 }),
        cell: None,
        card_serial: None,
        nic: PciNic::default(),
    };
    // The devices serve ports of tunnelled networks, too.
    let spec = |number: &u8| format!("{{\"address\": \"{}\", \"physical_network\": null}}", address(*number));
    let specs: Vec<String> = named.iter().map(spec).collect();
    let found = HostPci { devices: DEVICES.map(device).collect(), sockets: vec![] };
    let devices = offered(&found, &DeviceSpec::read_all(&specs).unwrap(), host(), tracked).unwrap();
    let vcpu = Inventory {
        class: "VCPU".into(),
        total: 1000,
        reserved: 0,
        min_unit: 1,
        max_unit: 1000,
        step_size: 1,
        allocation_ratio: 1.0,
    };
    LedgerCommand::Report {
        provider: host(),
        name: "h1".into(),
        inventories: vec![vcpu],
        traits: vec![],
        cells: HostNumaCells::default(),
        pci: ReportedPci { devices: Some(devices), tracked, mdevs: None },
    }
}

fn flavor(extra_specs: Vec<(String, String)>) -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("1"),
        name: "m1.devices".into(),
        vcpus: 1,
        memory_mib: 64,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs,
    }
}

fn port(number: u8) -> PortId {
    PortId(Uuid::from_u128(u128::from(number)))
}

fn request_of(number: u8) -> PciRequest {
    let port = port(number);
    let port = DevicePort { port, vnic: DeviceVnic::Direct, network: None, policy: None, trusted: false };
    PciAliases::default().of_server(&flavor(vec![]), None, &[port]).unwrap().remove(0)
}

fn claim((number, gpus, functions): (u8, u32, u32)) -> ServerClaim {
    let aliases = [
        r#"{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}"#,
        r#"{"name": "vf", "vendor_id": "10de", "product_id": "10ed", "device_type": "type-VF"}"#,
    ];
    let aliases = PciAliases::read(&aliases.map(str::to_owned), false).unwrap();
    let wanted = vec![("pci_passthrough:alias".into(), format!("gpu:{gpus},vf:{functions}"))];
    let devices = aliases.requests(&flavor(wanted), None).unwrap();
    ServerClaim {
        claim: Claimed {
            consumer: server(number),
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            // A claim of other numbers of devices also claims other resources, so the ledger does not take it for a
            // repetition.
            allocations: vec![Allocation {
                provider: host(),
                resources: vec![("VCPU".into(), u64::from(1 + gpus * 4 + functions))],
            }],
        },
        group: None,
        guest: Some(GuestClaim { host: host(), topology: None, devices, packs: true }),
    }
}

/// The devices that each consumer has, and what the host offers.
#[derive(Debug, Clone, Default)]
struct PciModel {
    offered: BTreeSet<u8>,
    /// The devices that Placement knows.
    tracked: BTreeSet<u8>,
    held: BTreeMap<ConsumerId, (u32, u32, BTreeSet<u8>)>,
    /// The devices of ports, by the ports' numbers.
    ports: BTreeMap<ConsumerId, BTreeMap<u8, u8>>,
}

impl PciModel {
    fn taken(&self) -> BTreeSet<u8> {
        let of_ports = self.ports.values().flat_map(|ports| ports.values().copied());
        self.held.values().flat_map(|(_, _, devices)| devices.iter().copied()).chain(of_ports).collect()
    }

    fn take(&mut self, (number, gpus, functions): (u8, u32, u32)) -> bool {
        if let Some((had_gpus, had_functions, _)) = self.held.get(&server(number)) {
            return (*had_gpus, *had_functions) == (gpus, functions);
        }
        let taken = self.taken();
        let free = |gpu: bool, count: u32| -> Option<Vec<u8>> {
            let all = self.offered.iter().copied().filter(|number| is_gpu(*number) == gpu && !taken.contains(number));
            let chosen: Vec<u8> = all.take(count as usize).collect();
            (chosen.len() == count as usize).then_some(chosen)
        };
        let (Some(one), Some(two)) = (free(true, gpus), free(false, functions)) else { return false };
        self.held.insert(server(number), (gpus, functions, one.into_iter().chain(two).collect()));
        true
    }

    /// A consumer hands its claim over to another one, which loses its own.
    fn hand_over(&mut self, from: &ConsumerId, to: ConsumerId) {
        let Some(held) = self.held.remove(from) else { return };
        self.held.insert(to.clone(), held);
        let ports = self.ports.remove(from).unwrap_or_default();
        self.ports.insert(to, ports);
    }

    fn attach(&mut self, consumer: &ConsumerId, port: u8) -> bool {
        if self.ports.get(consumer).is_some_and(|ports| ports.contains_key(&port)) {
            return true;
        }
        let taken = self.taken();
        let free = self.offered.iter().copied().find(|number| !taken.contains(number));
        let (Some(free), true) = (free, self.held.contains_key(consumer)) else { return false };
        self.ports.entry(consumer.clone()).or_default().insert(port, free);
        true
    }

    /// Whether the command is accepted; a refused one changes nothing.
    fn apply(&mut self, step: &PciStep) -> bool {
        match step {
            PciStep::Report { offered, tracked } => {
                if !self.tracked.is_empty() && !tracked {
                    return false;
                }
                // A tracked device that is no longer offered stays tracked while a server has it.
                let kept: BTreeSet<u8> = self.tracked.intersection(&self.taken()).copied().collect();
                let named = if *tracked { offered.clone() } else { BTreeSet::new() };
                (self.offered, self.tracked) = (offered.clone(), named.union(&kept).copied().collect());
                true
            }
            PciStep::Claim(claims) => {
                let mut next = self.clone();
                let accepted = claims.iter().all(|claim| next.take(*claim));
                if accepted {
                    *self = next;
                }
                accepted
            }
            PciStep::Release(number) => {
                self.held.remove(&server(*number));
                self.ports.remove(&server(*number));
                true
            }
            PciStep::SetAside(number) => {
                if !self.held.contains_key(&migration(*number)) {
                    self.hand_over(&server(*number), migration(*number));
                }
                true
            }
            PciStep::TakeBack(number) => {
                self.hand_over(&migration(*number), server(*number));
                true
            }
            PciStep::Attach(number, port) => self.attach(&server(*number), *port),
            PciStep::Detach(number, port) => {
                self.ports.entry(server(*number)).or_default().remove(port);
                true
            }
        }
    }
}

fn command(step: &PciStep) -> LedgerCommand {
    match step {
        PciStep::Report { offered, tracked } => report(offered, *tracked),
        PciStep::Claim(claims) => LedgerCommand::ClaimAll { claims: claims.iter().map(|one| claim(*one)).collect() },
        PciStep::Release(number) => LedgerCommand::Release { consumer: server(*number) },
        PciStep::SetAside(number) => LedgerCommand::SetAside { server: server(*number), migration: migration(*number) },
        PciStep::TakeBack(number) => {
            LedgerCommand::TakeBack { server: server(*number), migration: migration(*number), host: host() }
        }
        PciStep::Attach(number, port) => {
            LedgerCommand::ClaimForPort { server: server(*number), host: host(), request: Box::new(request_of(*port)) }
        }
        PciStep::Detach(number, port) => {
            LedgerCommand::ReleaseOfPort { server: server(*number), port: self::port(*port) }
        }
    }
}

fn holders(ledger: &Ledger) -> BTreeMap<ConsumerId, BTreeSet<u8>> {
    let here = ledger.pci_claims.on(host());
    here.map(|(consumer, devices)| (consumer.clone(), devices.iter().map(|one| number(one.address)).collect()))
        .collect()
}

fn check(ledger: &Ledger, model: &PciModel, step: &PciStep) {
    let mut expected: BTreeMap<ConsumerId, BTreeSet<u8>> =
        model.held.iter().map(|(id, held)| (id.clone(), held.2.clone())).collect();
    for (id, ports) in &model.ports {
        expected.entry(id.clone()).or_default().extend(ports.values());
    }
    expected.retain(|_, devices| !devices.is_empty());
    assert_eq!(holders(ledger), expected, "{step:?}");
    let mut seen = BTreeSet::new();
    let mut allocated: BTreeMap<(ProviderId, String), u64> = BTreeMap::new();
    for (_, devices) in ledger.pci_claims.on(host()) {
        for device in devices {
            assert!(seen.insert(device.address), "{step:?}: {} has two holders", device.address);
            let known = model.tracked.contains(&number(device.address));
            assert_eq!(device.tracked.is_some(), known, "{step:?}: {}", device.address);
            if let Some(place) = &device.tracked {
                *allocated.entry(place.clone()).or_default() += 1;
            }
        }
    }
    for provider in ledger.providers.values().filter(|provider| provider.parent == Some(host())) {
        for (class, line) in &provider.inventories {
            let held = allocated.remove(&(provider.id, class.clone())).unwrap_or(0);
            assert_eq!(line.used, held, "{step:?}: {class} of {}", provider.name);
            assert!(line.used <= line.inventory.total, "{step:?}: {class} of {}", provider.name);
        }
    }
    assert_eq!(allocated, BTreeMap::new(), "{step:?}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if std::env::var_os("CHRONOVA_SOAK").is_some() { 20_000 } else { 300 },
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_ledger_and_the_model_agree_on_devices(steps in vec(step(), 1..40)) {
        let (mut ledger, mut model) = (Ledger::default(), PciModel::default());
        let first = PciStep::Report { offered: DEVICES.collect(), tracked: false };
        for step in std::iter::once(first).chain(steps) {
            let expected = model.apply(&step);
            let decided = LedgerRoot::decide(&ledger, command(&step));
            prop_assert_eq!(decided.is_ok(), expected, "{:?}: {:?}", step, decided.err());
            for event in LedgerRoot::decide(&ledger, command(&step)).unwrap_or_default() {
                ledger.evolve(&event, Timestamp(0));
            }
            check(&ledger, &model, &step);
        }
    }
}
