#![allow(clippy::unwrap_used)]
use super::*;
use crate::ledger::LedgerCommand::{self, ClaimAll, Release, SetAside, SetInventories, TakeBack};
use crate::ledger::decide::decide;
use crate::ledger::decide::tests::{given, host};
use crate::ledger::{Reserve, ServerClaim};
use crate::pci::alias::PciAliases;
use crate::pci::device_spec::DeviceSpec;
use crate::pci::host::{offered, provider_of, warn_of_kept};
use crate::pci::ports::{DevicePort, DeviceVnic};
use chronova_events::ids::FlavorId;
use chronova_events::instance::FlavorSnapshot;
use chronova_events::ledger::PciDeviceType;
use chronova_hypervisor::pci::{HostPci, PciDevice, PciNic};
use uuid::Uuid;

pub(in crate::ledger) const FUNCTIONS: &str = r#"{"product_id": "10ed"}"#;
pub(in crate::ledger) const PARENT: &str = r#"{"product_id": "10fb"}"#;

fn id() -> ProviderId {
    ProviderId(Uuid::from_u128(1))
}

/// The provider of the network card.
pub(in crate::ledger) fn card() -> ProviderId {
    provider_of(id(), "0000:81:00.0".parse().unwrap())
}

fn device(address: &str, product: &str, kind: PciDeviceType) -> PciDevice {
    let address = address.parse().unwrap();
    let parent = (kind == PciDeviceType::Vf).then(|| "0000:81:00.0".parse().unwrap());
    PciDevice {
        address,
        vendor: "8086".into(),
        product: product.into(),
        kind,
        parent,
        cell: None,
        card_serial: None,
        nic: PciNic::default(),
    }
}

/// A report of a host with a network card that has three virtual functions. `specs` name those that guests may get.
pub(in crate::ledger) fn report(specs: &[&str], tracked: bool) -> LedgerCommand {
    let functions = ["0000:81:10.0", "0000:81:10.1", "0000:81:10.2"];
    let mut devices = vec![device("0000:81:00.0", "10fb", PciDeviceType::Pf)];
    devices.extend(functions.map(|address| device(address, "10ed", PciDeviceType::Vf)));
    let specs = DeviceSpec::read_all(&specs.iter().map(|spec| (*spec).to_owned()).collect::<Vec<_>>()).unwrap();
    let devices = offered(&HostPci { devices, sockets: vec![] }, &specs, id(), tracked).unwrap();
    let LedgerCommand::Report { provider, name, inventories, traits, cells, .. } = host(8) else { unreachable!() };
    let pci = ReportedPci { devices: Some(devices), tracked, mdevs: None };
    LedgerCommand::Report { provider, name, inventories, traits, cells, pci }
}

fn wants(server: &str, devices: &str) -> ServerClaim {
    let aliases = [
        r#"{"name": "vf", "vendor_id": "8086", "product_id": "10ed", "device_type": "type-VF"}"#,
        r#"{"name": "pf", "vendor_id": "8086", "product_id": "10fb", "device_type": "type-PF"}"#,
    ];
    let aliases = PciAliases::read(&aliases.map(str::to_owned), false).unwrap();
    server_claim(
        server,
        aliases.requests(&flavor(vec![("pci_passthrough:alias".into(), devices.into())]), None).unwrap(),
    )
}

fn flavor(extra_specs: Vec<(String, String)>) -> FlavorSnapshot {
    FlavorSnapshot {
        id: FlavorId::new("1"),
        name: "m1.nic".into(),
        vcpus: 1,
        memory_mib: 64,
        root_gib: 1,
        ephemeral_gib: 0,
        swap_mib: 0,
        extra_specs,
    }
}

/// The request of a port with `vnic_type` `direct` on a physical network.
fn of_port(port: u128, network: Option<&str>) -> PciRequest {
    let network = network.map(str::to_owned);
    let port = DevicePort { port: port_id(port), vnic: DeviceVnic::Direct, network, policy: None, trusted: false };
    PciAliases::default().of_server(&flavor(vec![]), None, &[port]).unwrap().remove(0)
}

fn port_id(port: u128) -> PortId {
    PortId(Uuid::from_u128(port))
}

fn server_claim(server: &str, devices: Vec<PciRequest>) -> ServerClaim {
    ServerClaim {
        claim: Claimed {
            consumer: ConsumerId::new(server),
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            allocations: vec![Allocation { provider: id(), resources: vec![("VCPU".into(), 1)] }],
        },
        group: None,
        guest: Some(GuestClaim { host: id(), topology: None, devices, packs: true }),
    }
}

fn claim(claims: impl IntoIterator<Item = ServerClaim>) -> LedgerCommand {
    ClaimAll { claims: claims.into_iter().collect() }
}

/// The last parts of the addresses that a consumer has.
fn has(state: &Ledger, consumer: &str) -> Vec<String> {
    let devices = state.pci_claims.of(&ConsumerId::new(consumer)).map(|(_, devices)| devices.to_vec());
    devices.unwrap_or_default().iter().map(|device| device.address.to_string()[8..].to_owned()).collect()
}

/// The amount of a class that the card has in use, and its total; `None` without such an inventory.
fn line(state: &Ledger, class: &str) -> Option<(u64, u64)> {
    let line = state.providers.get(&card())?.inventories.get(class)?;
    Some((line.used, line.inventory.total))
}

fn then(mut state: Ledger, commands: impl IntoIterator<Item = LedgerCommand>) -> Ledger {
    for command in commands {
        for event in decide(&state, command).unwrap() {
            state.evolve(&event, Timestamp(1));
        }
    }
    state
}

#[test]
fn no_two_guests_get_one_device() {
    let both = given([report(&[FUNCTIONS], false), claim([wants("a", "vf:1"), wants("b", "vf:2")])]);
    assert_eq!((has(&both, "a"), has(&both, "b")), (vec!["10.0".into()], vec!["10.1".to_owned(), "10.2".into()]));
    assert_eq!(decide(&both, claim([wants("b", "vf:2")])).unwrap(), vec![], "repeated");
    let refused = decide(&both, claim([wants("c", "vf:1")])).unwrap_err();
    assert!(refused.to_string().contains("wants 1 of alias vf, free 0"), "{refused}");
    let freed = then(both, [Release { consumer: ConsumerId::new("a") }, claim([wants("c", "vf:1")])]);
    assert_eq!((has(&freed, "a"), has(&freed, "c")), (vec![], vec!["10.0".to_owned()]));
    let none = decide(&given([host(8)]), claim([wants("a", "vf:1")])).unwrap_err();
    assert!(none.to_string().contains("the host offers no PCI devices"), "{none}");
}

#[test]
fn tracked_devices_are_allocated_in_the_append_that_assigns_them() {
    let class = "CUSTOM_PCI_8086_10ED";
    let state = given([report(&[FUNCTIONS], true), claim([wants("a", "vf:2")])]);
    let provider = &state.providers[&card()];
    assert_eq!((provider.name.as_str(), provider.parent), ("h1_0000:81:00.0", Some(id())));
    assert_eq!(line(&state, class), Some((2, 3)));
    assert!(state.classes.contains(class));
    let own = &state.consumers[&ConsumerId::new("a")].claim.allocations;
    assert_eq!(own.len(), 2, "{own:?}");
    assert_eq!(decide(&state, claim([wants("a", "vf:2")])).unwrap(), vec![], "repeated");
    assert_eq!(decide(&state, report(&[FUNCTIONS], true)).unwrap(), vec![], "an unchanged report records nothing");
    let freed = then(state, [Release { consumer: ConsumerId::new("a") }]);
    assert_eq!(line(&freed, class), Some((0, 3)));
    assert!(freed.pci_claims.is_empty());
    let tagged = given([report(&[r#"{"product_id": "10ed", "traits": "fast,CUSTOM_NEAR"}"#], true)]);
    let traits = &tagged.providers[&card()].traits;
    assert!(traits.contains("CUSTOM_FAST") && traits.contains("CUSTOM_NEAR"), "{traits:?}");
}

#[test]
fn a_reserved_device_is_given_to_nobody() {
    let state = given([report(&[FUNCTIONS], true)]);
    let known = &state.providers[&card()];
    let mut inventory = known.inventories["CUSTOM_PCI_8086_10ED"].inventory.clone();
    inventory.reserved = 2;
    let reserve = SetInventories {
        provider: card(),
        generation: Some(known.generation),
        inventories: vec![inventory],
        reserve: Reserve::All,
    };
    let state = then(state, [reserve, report(&[FUNCTIONS], true)]);
    assert!(decide(&state, claim([wants("a", "vf:2")])).is_err());
    assert_eq!(has(&then(state, [claim([wants("a", "vf:1")])]), "a"), ["10.0"]);
}

#[test]
fn devices_of_running_guests_move_into_placement_and_stay_there() {
    let (server, migration) = (ConsumerId::new("a"), ConsumerId::new("m"));
    let before = given([
        report(&[FUNCTIONS], false),
        claim([wants("a", "vf:1")]),
        SetAside { server, migration },
        claim([wants("a", "vf:2")]),
    ]);
    assert_eq!(line(&before, "CUSTOM_PCI_8086_10ED"), None);
    let tracked = then(before, [report(&[FUNCTIONS], true)]);
    assert_eq!(
        line(&tracked, "CUSTOM_PCI_8086_10ED"),
        Some((3, 3)),
        "the devices of server and migration are allocated"
    );
    assert_eq!((has(&tracked, "m"), has(&tracked, "a").len()), (vec!["10.0".to_owned()], 2));
    let off = decide(&tracked, report(&[FUNCTIONS], false)).unwrap_err();
    assert!(matches!(off, LedgerReject::DevicesStayReported(_)), "{off}");
    // If the spec names another resource class, the allocations move to that class.
    let renamed = then(tracked, [report(&[r#"{"product_id": "10ed", "resource_class": "nic"}"#], true)]);
    assert_eq!((line(&renamed, "CUSTOM_NIC"), line(&renamed, "CUSTOM_PCI_8086_10ED")), (Some((3, 3)), None));
}

#[test]
fn a_device_that_is_not_named_any_more_stays_as_long_as_a_guest_has_it() {
    let one = r#"{"address": "81:10.1"}"#;
    let state = given([report(&[FUNCTIONS], true), claim([wants("a", "vf:1")]), report(&[one], true)]);
    assert_eq!(has(&state, "a"), ["10.0"]);
    assert_eq!(line(&state, "CUSTOM_PCI_8086_10ED"), Some((1, 2)));
    let state = then(state, [Release { consumer: ConsumerId::new("a") }, claim([wants("b", "vf:1")])]);
    assert_eq!(has(&state, "b"), ["10.1"], "a new guest gets an offered device");
    let state = then(state, [report(&[one], true)]);
    assert_eq!(line(&state, "CUSTOM_PCI_8086_10ED"), Some((1, 1)));
    let none = then(state, [Release { consumer: ConsumerId::new("b") }, report(&[], true)]);
    assert!(!none.providers.contains_key(&card()), "a card without devices has no provider");
}

#[test]
fn the_log_warns_of_a_device_that_a_guest_keeps() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = std::sync::Arc::new(file.reopen().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
    let state = given([report(&[FUNCTIONS], true), claim([wants("a", "vf:2")])]);
    let LedgerCommand::Report { pci, .. } = report(&[r#"{"address": "81:10.1"}"#], true) else { unreachable!() };
    tracing::subscriber::with_default(subscriber, || warn_of_kept(&state, id(), "node7", &pci.devices.unwrap()));
    let log = std::fs::read_to_string(file.path()).unwrap();
    assert!(log.contains(" WARN ") && log.contains("host=\"node7\" address=0000:81:10.0"), "{log}");
    assert_eq!(log.lines().count(), 1, "a device that is still offered is in the log: {log}");
}

#[test]
fn a_card_in_use_is_not_given_in_another_form() {
    let state = given([report(&[FUNCTIONS], true), claim([wants("a", "vf:1")])]);
    let flipped = decide(&state, report(&[PARENT], true)).unwrap_err();
    assert!(matches!(flipped, LedgerReject::DependentDevice { .. }), "{flipped}");
    let free = then(state, [Release { consumer: ConsumerId::new("a") }, report(&[PARENT], true)]);
    assert_eq!((line(&free, "CUSTOM_PCI_8086_10FB"), line(&free, "CUSTOM_PCI_8086_10ED")), (Some((0, 1)), None));
    let whole = then(free, [claim([wants("b", "pf:1")])]);
    assert_eq!(has(&whole, "b"), ["00.0"]);
    let back = decide(&whole, report(&[FUNCTIONS], true)).unwrap_err();
    assert!(matches!(back, LedgerReject::DependentDevice { .. }), "{back}");
}

#[test]
fn a_move_holds_the_devices_on_both_sides() {
    let (server, migration) = (ConsumerId::new("s"), ConsumerId::new("m"));
    let aside = SetAside { server: server.clone(), migration: migration.clone() };
    let moved = [report(&[FUNCTIONS], true), claim([wants("s", "vf:1")]), aside, claim([wants("s", "vf:2")])];
    let moved = || given(moved.clone());
    assert_eq!((has(&moved(), "m"), has(&moved(), "s")), (vec!["10.0".to_owned()], vec!["10.1".into(), "10.2".into()]));
    let back = then(moved(), [TakeBack { server, migration: migration.clone(), host: id() }]);
    assert_eq!(
        (has(&back, "m"), has(&back, "s")),
        (vec![], vec!["10.0".to_owned()]),
        "the server has its old devices again"
    );
    assert_eq!(line(&back, "CUSTOM_PCI_8086_10ED"), Some((1, 3)));
    let done = then(moved(), [Release { consumer: migration }]);
    assert_eq!((has(&done, "m"), has(&done, "s").len()), (vec![], 2));
}

/// A card for the ports of `physnet1`.
const OF_PORTS: &str = r#"{"product_id": "10ed", "physical_network": "physnet1"}"#;

#[test]
fn a_port_gets_a_device_with_its_server_or_later() {
    let server = || ConsumerId::new("a");
    let more = |port, network| LedgerCommand::ClaimForPort {
        server: server(),
        host: id(),
        request: Box::new(of_port(port, Some(network))),
    };
    let less = |port| LedgerCommand::ReleaseOfPort { server: server(), port: port_id(port) };
    let with_port = server_claim("a", vec![of_port(1, Some("physnet1"))]);
    let state = given([report(&[OF_PORTS], false), claim([with_port])]);
    assert_eq!(has(&state, "a"), ["10.0"]);
    let both = then(state, [more(2, "physnet1")]);
    assert_eq!(has(&both, "a"), ["10.0", "10.1"]);
    let ports: Vec<_> = both.pci_claims.of(&server()).unwrap().1.iter().map(|device| device.port().unwrap()).collect();
    assert_eq!(ports, [port_id(1), port_id(2)]);
    assert_eq!(decide(&both, more(2, "physnet1")).unwrap(), vec![], "repeated");
    let refused = decide(&both, more(3, "physnet2")).unwrap_err();
    assert!(refused.to_string().contains("wants 1 for port"), "{refused}");
    let one = then(both, [less(1)]);
    assert_eq!(has(&one, "a"), ["10.1"]);
    assert_eq!(decide(&one, less(1)).unwrap(), vec![], "repeated");
    let all = then(one, [claim([server_claim("b", vec![of_port(4, Some("physnet1")), of_port(5, Some("physnet1"))])])]);
    assert_eq!(has(&all, "b"), ["10.0", "10.2"]);
    assert!(decide(&all, more(3, "physnet1")).is_err(), "no device is left");
    let none = then(all, [less(2)]);
    assert!(none.pci_claims.of(&server()).is_none());
    let stranger = LedgerCommand::ClaimForPort {
        server: ConsumerId::new("c"),
        host: id(),
        request: Box::new(of_port(6, Some("physnet1"))),
    };
    assert!(decide(&none, stranger).is_err(), "a server without an allocation on the host");
}

/// Placement tracks the devices of networks without a physical network.
#[test]
fn the_tracked_device_of_a_port_is_allocated_and_released_with_it() {
    let class = "CUSTOM_PCI_8086_10ED";
    let spec = r#"{"product_id": "10ed", "physical_network": null}"#;
    let plain = server_claim("a", vec![]);
    let plain = ServerClaim { guest: None, ..plain };
    let state = given([report(&[spec], true), claim([plain])]);
    let before = state.consumers[&ConsumerId::new("a")].claim.allocations.clone();
    let more =
        LedgerCommand::ClaimForPort { server: ConsumerId::new("a"), host: id(), request: Box::new(of_port(1, None)) };
    let more = then(state, [more]);
    assert_eq!(line(&more, class), Some((1, 3)));
    let less = then(more, [LedgerCommand::ReleaseOfPort { server: ConsumerId::new("a"), port: port_id(1) }]);
    assert_eq!(line(&less, class), Some((0, 3)));
    assert_eq!(less.consumers[&ConsumerId::new("a")].claim.allocations, before);
}
