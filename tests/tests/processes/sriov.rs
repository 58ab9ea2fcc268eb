//! Servers with ports that are PCI devices of their hosts: built, attached, moved and suspended, with a crash after every
//! append. At each end the world's check requires that every guest and every port have the devices in the ledger.

use std::collections::BTreeMap;

use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot};
use chronova_actors::operations::heal_allocations::{HealReject, HealRequest};
use chronova_actors::process::{attach_interface, detach_interface, power};
use chronova_events::envelope::Meta;
use chronova_events::ids::{ConsumerId, InstanceId};
use chronova_events::instance::PowerAction;
use chronova_events::pci::PciAddress;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::bandwidth::{KILOBITS, card_port};
use chronova_tests::pci::{PciTracking, devices};
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::services::device_port;
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::cases::{
    after, building, confirming, deleting, evacuating, id, migrating_live, moving, offloaded_after, reverting,
    unshelving,
};
use super::{Ask, built, case, nothing};

fn build(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.build_with_port(id, "direct").boxed_local()
}

fn attach(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.attach_port(id, "direct").boxed_local()
}

fn resize(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.resize(id).boxed_local()
}

fn suspend(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.power(id, PowerAction::Suspend).boxed_local()
}

/// A server with a virtual function.
fn with_port(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, nothing, build)
}

/// A server that got a virtual function later.
fn with_attached_port(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, built, attach)
}

fn resized(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, with_port, resize)
}

fn offloaded(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    offloaded_after(life, id, with_port)
}

fn suspended(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, with_port, suspend)
}

/// Runs a case on hosts with devices for ports.
async fn prove_on_devices(case: Case) {
    prove(&Case { pci: Some(PciTracking::Untracked), ..case }).await;
}

#[actix_rt::test]
async fn build_with_a_port_that_is_a_device_is_proven() {
    prove_on_devices(building(build)).await;
}

#[actix_rt::test]
async fn delete_of_a_server_with_a_device_port_is_proven() {
    prove_on_devices(deleting(with_port)).await;
}

#[actix_rt::test]
async fn attaching_a_port_that_is_a_device_is_proven() {
    let definition = &attach_interface::DEFINITION;
    prove_on_devices(Case { definition, ..case(built, attach, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn detaching_a_port_that_is_a_device_is_proven() {
    let ask: Ask = |life, id| life.detach_nic(id).boxed_local();
    let definition = &detach_interface::DEFINITION;
    prove_on_devices(Case { definition, ..case(with_attached_port, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn resize_of_a_server_with_a_device_port_is_proven() {
    prove_on_devices(moving(with_port, resize)).await;
}

#[actix_rt::test]
async fn revert_of_a_resize_with_a_device_port_is_proven() {
    prove_on_devices(reverting(resized)).await;
}

#[actix_rt::test]
async fn confirmation_of_a_resize_with_a_device_port_is_proven() {
    prove_on_devices(confirming(resized)).await;
}

#[actix_rt::test]
async fn evacuation_of_a_server_with_a_device_port_is_proven() {
    prove_on_devices(evacuating(with_port)).await;
}

#[actix_rt::test]
async fn unshelving_of_a_server_with_a_device_port_is_proven() {
    prove_on_devices(unshelving(offloaded)).await;
}

#[actix_rt::test]
async fn live_migration_of_a_server_with_a_device_port_is_proven() {
    prove_on_devices(migrating_live(with_port)).await;
}

#[actix_rt::test]
async fn suspension_of_a_server_with_a_device_port_is_proven() {
    let case = Case { failed_after: &["SHUTOFF"], ..case(with_port, suspend, "ACTIVE", "SUSPENDED") };
    prove_on_devices(Case { definition: &power::DEFINITION, ..case }).await;
}

#[actix_rt::test]
async fn resumption_of_a_server_with_a_device_port_is_proven() {
    let ask: Ask = |life, id| life.power(id, PowerAction::Resume).boxed_local();
    let case = case(suspended, ask, "SUSPENDED", "ACTIVE");
    prove_on_devices(Case { definition: &power::DEFINITION, ..case }).await;
}

/// The only device of a server's guest, and its host.
fn only(world: &World, server: InstanceId) -> (usize, PciAddress) {
    let all: BTreeMap<usize, Vec<PciAddress>> = devices(&world.fleet, server);
    let found: Vec<(usize, PciAddress)> =
        all.iter().flat_map(|(host, addresses)| addresses.iter().map(|address| (*host, *address))).collect();
    assert_eq!((all.len(), found.len()), (1, 1), "{all:?}");
    found[0]
}

/// A card with two virtual functions, one with two vDPA devices, a card for a whole port, and a SmartNIC.
const CARDS: &str = "8086:1572/154c*2,15b3:101d/101ev*2,15b3:1019/101a*1,15b3:a2d6/101c*1";

#[actix_rt::test]
async fn a_port_gets_a_device_of_its_kind() {
    let world = World::with_pci(1, CARDS, PciTracking::Untracked);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    for (n, vnic, address) in [
        (1, "direct", "0000:10:01.0"),
        (2, "macvtap", "0000:10:01.1"),
        (3, "vdpa", "0000:11:01.0"),
        (4, "direct-physical", "0000:12:00.0"),
        (8, "remote-managed", "0000:13:01.0"),
    ] {
        life.build_with_port(id(n), vnic).await.unwrap();
        life.settled().await;
        assert_eq!(life.status(id(n)), "ACTIVE", "{vnic}: {}", life.fault(id(n)));
        assert_eq!(only(&world, id(n)).1.to_string(), address, "{vnic}");
        assert_eq!(world.network.equipped()[&device_port(id(n), vnic)].to_string(), address, "{vnic}");
    }
    // No device of these kinds is left.
    for (n, vnic) in [(5, "direct"), (6, "remote-managed")] {
        life.build_with_port(id(n), vnic).await.unwrap();
        life.settled().await;
        assert_eq!(life.status(id(n)), "ERROR", "{vnic}");
        assert!(life.fault(id(n)).starts_with("No valid host was found."), "{}", life.fault(id(n)));
    }
    // A deletion frees the function for another port.
    life.delete(id(2)).await.unwrap();
    life.settled().await;
    life.build_with_port(id(7), "direct").await.unwrap();
    life.settled().await;
    assert_eq!(only(&world, id(7)).1.to_string(), "0000:10:01.1");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_server_that_moves_gets_devices_of_its_new_host_for_its_ports() {
    let world = World::with_pci(2, CARDS, PciTracking::Untracked);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.build_with_port(id(1), "direct").await.unwrap();
    life.settled().await;
    let (first, _) = only(&world, id(1));
    life.live_migrate(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ACTIVE", "{}", life.fault(id(1)));
    assert_eq!(only(&world, id(1)).0, 1 - first, "the guest has no device at its destination");
    life.migrate(id(1)).await.unwrap();
    life.settled().await;
    life.confirm_resize(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(only(&world, id(1)).0, first);
    life.evacuate(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(life.host_of(&world, id(1)).unwrap(), 1 - first);
    life.stop().await;
}

/// Both cards have free functions, and only the second card has bandwidth.
#[actix_rt::test]
async fn a_port_gets_a_function_of_the_card_that_gives_its_bandwidth() {
    let world = World::with_pci(1, "8086:1572/154c*2,8086:1572/154c*2", PciTracking::Untracked);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.add_bandwidth_of_card("enp17s0", 2 * KILOBITS).await;
    life.build_with_bandwidth(id(1), card_port(1)).await.unwrap();
    life.build(id(2)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ACTIVE", "{}", life.fault(id(1)));
    assert_eq!(only(&world, id(1)).1.to_string(), "0000:11:01.0");
    life.attach_bandwidth(id(2), card_port(2)).await.unwrap();
    life.settled().await;
    assert_eq!(only(&world, id(2)).1.to_string(), "0000:11:01.1", "the port is attached later");
    life.stop().await;
}

/// A host whose hypervisor cannot plug the device refuses the guest. The server then gets a device of another host.
#[actix_rt::test]
async fn a_host_that_cannot_plug_the_device_of_a_port_is_left_for_another() {
    for refusing in [0, 1] {
        let world = World::with_pci(2, CARDS, PciTracking::Untracked);
        let refuses = FaultPlan::default().with(DriverCall::Spawn, FaultTrigger::Always, Effect::Refuse);
        world.fleet.set_faults(refusing, refuses);
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        for (n, vnic) in [(1, "direct"), (2, "macvtap")] {
            life.build_with_port(id(n), vnic).await.unwrap();
            life.settled().await;
            assert_eq!(life.status(id(n)), "ACTIVE", "{vnic}: {}", life.fault(id(n)));
            let (host, address) = only(&world, id(n));
            assert_eq!(host, 1 - refusing, "{vnic}");
            assert_eq!(world.network.equipped()[&device_port(id(n), vnic)], address, "{vnic}");
        }
        assert!(world.fleet.guests(refusing).is_empty());
        life.stop().await;
        world.check().await;
    }
}

/// A guest can get a whole card only with its definition. So such a port is neither attached nor detached later, nor
/// migrated live.
#[actix_rt::test]
async fn a_whole_card_is_not_plugged_in_later_and_not_migrated_live() {
    let world = World::with_pci(2, CARDS, PciTracking::Untracked);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.build_with_port(id(1), "direct-physical").await.unwrap();
    life.build(id(2)).await.unwrap();
    life.settled().await;
    let before = only(&world, id(1));
    life.attach_port(id(2), "direct-physical").await.unwrap();
    life.live_migrate(id(1)).await.unwrap();
    life.settled().await;
    life.detach_nic(id(1)).await.unwrap();
    life.settled().await;
    life.power(id(1), PowerAction::Suspend).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), only(&world, id(1))), ("ACTIVE", before));
    assert!(devices(&world.fleet, id(2)).values().all(Vec::is_empty), "the attached card is in the guest");
    life.stop().await;
    world.check().await;
}

/// An operation takes the device from the guest and fails, and the host refuses to attach the device again. Then the
/// process ends nevertheless, and the host's agent attaches the device as soon as the host accepts it.
#[actix_rt::test]
async fn a_failed_operation_ends_although_the_host_refuses_the_device_of_a_port() {
    let migrate: Ask = |life, id| life.live_migrate(id).boxed_local();
    for (failing, ask) in [(DriverCall::Suspend, suspend as Ask), (DriverCall::StartMigration, migrate)] {
        let world = World::with_pci(2, CARDS, PciTracking::Untracked);
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        life.build_with_port(id(1), "direct").await.unwrap();
        life.settled().await;
        let (host, device) = only(&world, id(1));
        let refusing = |plan: FaultPlan, call| plan.with(call, FaultTrigger::Always, Effect::Refuse);
        let faults = refusing(refusing(FaultPlan::default(), failing), DriverCall::AttachNic);
        world.fleet.set_faults(host, faults);
        ask(&life, id(1)).await.unwrap();
        life.settled().await;
        assert_eq!((life.status(id(1)), life.host_of(&world, id(1))), ("ACTIVE", Some(host)), "{failing:?}");
        assert_eq!(devices(&world.fleet, id(1)), BTreeMap::from([(host, vec![])]), "{failing:?}");
        world.fleet.set_faults(host, FaultPlan::default());
        life.until(|_| devices(&world.fleet, id(1)) == BTreeMap::from([(host, vec![device])])).await;
        life.stop().await;
        world.check().await;
    }
}

/// A user has changed the port since the guest got its device. The device is the guest's until the server is suspended.
#[actix_rt::test]
async fn a_suspension_takes_the_device_of_a_changed_port() {
    let world = World::with_pci(1, CARDS, PciTracking::Untracked);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.build_with_port(id(1), "direct").await.unwrap();
    life.settled().await;
    let (host, _) = only(&world, id(1));
    world.network.make_normal(device_port(id(1), "direct"));
    suspend(&life, id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "SUSPENDED");
    assert_eq!(devices(&world.fleet, id(1)), BTreeMap::from([(host, vec![])]));
    life.stop().await;
    world.check().await;
}

/// Nothing says which device a guest has. So a heal could not keep other guests from this device.
#[actix_rt::test]
async fn a_server_with_a_device_port_is_not_healed() {
    let world = World::with_pci(1, CARDS, PciTracking::Untracked);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.build_with_port(id(1), "direct").await.unwrap();
    life.settled().await;
    let is_refused = async |force: bool| {
        let request = HealRequest { force, ..HealRequest::default() };
        let healed = life.operations().heal_allocations(id(1), request, Meta::system("test")).await;
        matches!(healed, Err(HealReject::NestedResources("PCI device")))
    };
    assert!(is_refused(true).await, "a forced heal loses the device");
    let release = LedgerCommand::Release { consumer: ConsumerId::new(id(1).to_string()) };
    let sent = life.context().gateway.send::<LedgerRoot>(&CELL, release, Meta::system("test")).await;
    let position = sent.unwrap().position;
    life.until(|context| context.views.position() >= position).await;
    assert!(is_refused(false).await, "a heal leaves out the device");
    life.stop().await;
}

/// The claim of the last device is refused before the port is bound.
#[actix_rt::test]
async fn a_port_without_a_free_device_is_not_attached() {
    let world = World::with_pci(1, "8086:1572/154c*1", PciTracking::Untracked);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.build_with_port(id(1), "direct").await.unwrap();
    life.build(id(2)).await.unwrap();
    life.settled().await;
    life.attach_port(id(2), "direct").await.unwrap();
    life.settled().await;
    assert!(devices(&world.fleet, id(2)).values().all(Vec::is_empty));
    assert!(!world.network.equipped().contains_key(&device_port(id(2), "direct")));
    assert!(!world.network.ports_of(id(2)).contains(&device_port(id(2), "direct")), "the port is bound");
    life.delete(id(1)).await.unwrap();
    life.settled().await;
    life.attach_port(id(2), "direct").await.unwrap();
    life.settled().await;
    assert_eq!(only(&world, id(2)).1.to_string(), "0000:10:01.0");
    life.stop().await;
    world.check().await;
}
