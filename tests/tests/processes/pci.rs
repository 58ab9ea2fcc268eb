//! Guests with PCI devices: built, moved and reverted, with a crash after every append. At each end the world's check
//! requires that no device has two guests, and that every guest has the devices in the ledger.

use std::time::Duration;

use chronova_actors::pci::HostPciOptions;
use chronova_actors::pci::device_spec::DeviceSpec;
use chronova_events::ids::InstanceId;
use chronova_events::ledger::Ledger;
use chronova_tests::pci::{PciTracking, devices};
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::cases::{
    after, building, confirming, deleting, devices_follow_moves, evacuating, id, ledger, moving, offloaded_after,
    rebuilding, reverting, unshelving,
};
use super::nothing;

fn build(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.build_with_devices(id, "gpu:1").boxed_local()
}

fn resize(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.resize_with_devices(id).boxed_local()
}

fn built(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, nothing, build)
}

fn resized(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, built, resize)
}

fn offloaded(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    offloaded_after(life, id, built)
}

/// Runs a case on hosts with devices that Placement knows.
async fn prove_tracked(case: Case) {
    prove(&Case { pci: Some(PciTracking::Tracked), ..case }).await;
}

#[actix_rt::test]
async fn build_with_a_device_is_proven() {
    prove(&Case { pci: Some(PciTracking::Untracked), ..building(build) }).await;
}

#[actix_rt::test]
async fn build_with_a_tracked_device_is_proven() {
    prove_tracked(building(build)).await;
}

#[actix_rt::test]
async fn delete_of_a_guest_with_a_device_is_proven() {
    prove_tracked(deleting(built)).await;
}

#[actix_rt::test]
async fn resize_of_a_guest_with_a_device_is_proven() {
    prove_tracked(moving(built, resize)).await;
    prove(&Case { pci: Some(PciTracking::Untracked), ..moving(built, resize) }).await;
}

#[actix_rt::test]
async fn revert_of_a_resize_with_devices_is_proven() {
    prove_tracked(reverting(resized)).await;
}

#[actix_rt::test]
async fn confirmation_of_a_resize_with_devices_is_proven() {
    prove_tracked(confirming(resized)).await;
}

#[actix_rt::test]
async fn evacuation_of_a_guest_with_a_device_is_proven() {
    prove_tracked(evacuating(built)).await;
}

#[actix_rt::test]
async fn unshelving_of_a_guest_with_a_device_is_proven() {
    prove_tracked(unshelving(offloaded)).await;
}

#[actix_rt::test]
async fn rebuild_of_a_guest_with_a_device_is_proven() {
    prove_tracked(rebuilding(built)).await;
}

/// Waits until the ledger meets the condition.
async fn until(life: &Life, holds: impl Fn(&Ledger) -> bool) {
    for _ in 0..1000 {
        if ledger(life, &holds) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the ledger does not meet the condition within 10 seconds");
}

/// Two hosts have one device each; three guests request one at the same time.
async fn racing(tracking: PciTracking) {
    let world = World::with_pci(2, "10de:1eb8", tracking);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    for n in 1..=3 {
        life.build_with_devices(id(n), "gpu:1").await.unwrap();
    }
    life.settled().await;
    let status: Vec<&str> = (1..=3).map(|n| life.status(id(n))).collect();
    assert_eq!(status.iter().filter(|status| **status == "ACTIVE").count(), 2, "{status:?}");
    let refused = (1..=3).map(id).find(|id| life.status(*id) == "ERROR").unwrap();
    let fault = life.fault(refused);
    assert!(fault.starts_with("No valid host was found."), "{fault}");
    // Deleting one server frees its device for another.
    let gone = (1..=3).map(id).find(|id| *id != refused).unwrap();
    life.delete(gone).await.unwrap();
    life.settled().await;
    life.build_with_devices(id(4), "gpu:1").await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(4)), "ACTIVE");
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn one_of_two_guests_gets_the_last_device() {
    racing(PciTracking::Untracked).await;
    racing(PciTracking::Tracked).await;
}

#[actix_rt::test]
async fn moves_choose_devices_of_the_destination() {
    let world = World::with_pci(2, "10de:1eb8*3", PciTracking::Tracked);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.build_with_devices(id(1), "gpu:1").await.unwrap();
    life.settled().await;
    devices_follow_moves(&life, id(1), resize, || devices(&world.fleet, id(1))).await;
    assert!(ledger(&life, |ledger| ledger.pci_claims.is_empty()), "a server still holds a device");
    life.stop().await;
    world.check().await;
}

/// All 200 hosts have two virtual functions, but only every tenth offers them to guests.
#[actix_rt::test]
async fn only_hosts_with_devices_get_guests_that_request_some() {
    let mut world = World::with_pci(200, "8086:10fb/10ed*2", PciTracking::Untracked);
    let options = &mut world.options.hosts.host_pci;
    let specs = std::mem::take(&mut options.others);
    options.named = (0..200).step_by(10).map(|host| (world.fleet.hostname(host), specs.clone())).collect();
    let life = world.live(None, None).await;
    life.hosts_up(200).await;
    for n in 1..=40 {
        life.build_with_devices(id(n), "vf:1").await.unwrap();
    }
    life.settled().await;
    assert!((1..=40).all(|n| life.status(id(n)) == "ACTIVE"));
    assert!((1..=40).all(|n| life.host_of(&world, id(n)).unwrap().is_multiple_of(10)));
    life.build_with_devices(id(41), "vf:1").await.unwrap();
    life.build(id(42)).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(41)), life.status(id(42))), ("ERROR", "ACTIVE"));
    life.stop().await;
    world.check().await;
}

/// The first life offers no devices, the second one offers them, and the third one tells Placement about them.
#[actix_rt::test]
async fn a_restart_takes_over_the_options_of_devices() {
    let mut world = World::with_pci(1, "10de:1eb8*2", PciTracking::Untracked);
    let options = world.options.clone();
    world.options.hosts.host_pci.others.clear();
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.build_with_devices(id(1), "gpu:1").await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ERROR");
    life.stop().await;
    world.options = options;
    let life = world.live(None, None).await;
    until(&life, |ledger| ledger.pci.values().any(|host| !host.devices.is_empty())).await;
    life.build_with_devices(id(2), "gpu:1").await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(2)), "ACTIVE");
    life.stop().await;
    world.check().await;
    world = world.offering_pci(PciTracking::Tracked);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let provider = format!("{}_0000:10:00.0", world.fleet.hostname(0));
    until(&life, |ledger| ledger.named(&provider).is_some()).await;
    let used = ledger(&life, |ledger| {
        let known = &ledger.providers[&ledger.named(&provider).unwrap()];
        known.inventories["CUSTOM_PCI_10DE_1EB8"].used
    });
    assert_eq!(used, 1, "the guest that was built before has no allocation");
    life.build_with_devices(id(3), "gpu:1").await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(3)), "ACTIVE");
    life.stop().await;
    world.check().await;
}

/// With such options Nova's compute service does not start. Here the host is down, and gets no servers, until the options
/// are right again.
#[actix_rt::test]
async fn a_host_with_wrong_options_of_devices_is_down_until_they_are_right() {
    let mut world = World::with_pci(1, "8086:10fb/10ed*2", PciTracking::Tracked);
    let host = world.fleet.uri().host_id(0);
    let right = world.options.hosts.host_pci.clone();
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.build_with_devices(id(1), "vf:1").await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(1)), "ACTIVE");
    life.stop().await;
    let offering = |specs: &[&str]| {
        let specs: Vec<String> = specs.iter().map(|spec| (*spec).to_owned()).collect();
        HostPciOptions { others: DeviceSpec::read_all(&specs).unwrap(), ..right.clone() }
    };
    let wrong = [
        // Placement tracks the devices already.
        HostPciOptions { reports: false, ..right.clone() },
        // A guest has a virtual function of the card.
        offering(&[r#"{"product_id": "10fb"}"#]),
        // The card and its virtual functions.
        offering(&[r#"{"vendor_id": "8086"}"#]),
        offering(&[
            r#"{"address": "*:*:01.0", "resource_class": "A"}"#,
            r#"{"address": "*:*:01.1", "resource_class": "B"}"#,
        ]),
        offering(&[r#"{"address": "*:*:01.0", "traits": "A"}"#, r#"{"address": "*:*:01.1", "traits": "B"}"#]),
    ];
    for (n, options) in (2..).zip(wrong) {
        world.options.hosts.host_pci = options;
        let life = world.live(None, None).await;
        life.until(|context| context.views.hosts.read(|hosts| hosts.get(host).is_some_and(|known| !known.up))).await;
        life.build(id(n)).await.unwrap();
        life.settled().await;
        assert_eq!(life.status(id(n)), "ERROR", "options {n}");
        life.stop().await;
        world.options.hosts.host_pci = right.clone();
        let life = world.live(None, None).await;
        life.hosts_up(1).await;
        assert_eq!(life.status(id(1)), "ACTIVE");
        life.stop().await;
    }
    world.check().await;
}
