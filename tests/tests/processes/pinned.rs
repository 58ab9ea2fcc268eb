//! Guests with dedicated CPUs: built, moved and reverted, with a crash after every append. At each end the world's
//! check requires that no processor has two guests, and that every guest has the processors in the ledger.

use std::collections::BTreeSet;

use chronova_events::ids::{ConsumerId, InstanceId};
use chronova_tests::pinned::processors;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::cases::{
    after, building, confirming, evacuating, id, migrating_live, moving, offloaded_after, rebuilding, reverting,
    unshelving,
};
use super::nothing;

fn build(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.build_pinned(id).boxed_local()
}

fn resize(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.resize_pinned(id).boxed_local()
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

/// Runs a case on hosts with dedicated processors.
async fn prove_pinned(case: Case) {
    prove(&Case { dedicated: true, ..case }).await;
}

#[actix_rt::test]
async fn build_of_a_pinned_guest_is_proven() {
    prove_pinned(building(build)).await;
}

#[actix_rt::test]
async fn live_migration_of_a_pinned_guest_is_proven() {
    prove_pinned(migrating_live(built)).await;
}

#[actix_rt::test]
async fn resize_of_a_pinned_guest_is_proven() {
    prove_pinned(moving(built, resize)).await;
}

#[actix_rt::test]
async fn revert_of_a_pinned_resize_is_proven() {
    prove_pinned(reverting(resized)).await;
    prove_pinned(Case { one_storage: true, ..reverting(resized) }).await;
}

#[actix_rt::test]
async fn confirmation_of_a_pinned_resize_is_proven() {
    prove_pinned(confirming(resized)).await;
}

#[actix_rt::test]
async fn evacuation_of_a_pinned_guest_is_proven() {
    prove_pinned(evacuating(built)).await;
}

#[actix_rt::test]
async fn unshelving_of_a_pinned_guest_is_proven() {
    prove_pinned(unshelving(offloaded)).await;
}

#[actix_rt::test]
async fn rebuild_of_a_pinned_guest_is_proven() {
    prove_pinned(rebuilding(built)).await;
}

/// The processors that a server's guest has on the only host that has it.
fn own(life: &Life, world: &World, server: InstanceId) -> (usize, Vec<u32>) {
    let here = processors(&world.fleet, server);
    assert_eq!(here.len(), 1, "{here:?}");
    assert_eq!(life.host_of(world, server), here.keys().next().copied());
    here.into_iter().map(|(host, cpus)| (host, cpus.into_iter().collect())).next().unwrap()
}

/// Each host has different dedicated processors, so after a move a guest must have those of its destination.
#[actix_rt::test]
async fn moves_choose_processors_of_the_destination() {
    let world = World::new(2).with_dedicated_processors();
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.build_pinned(id(1)).await.unwrap();
    life.settled().await;
    let first = own(&life, &world, id(1));
    let given: BTreeSet<u32> = (2 + 2 * u32::try_from(first.0).unwrap()..).take(4).collect();
    assert!(first.1.len() == 2 && first.1.iter().all(|cpu| given.contains(cpu)), "{first:?}");

    life.live_migrate(id(1)).await.unwrap();
    life.settled().await;
    let second = own(&life, &world, id(1));
    assert_ne!(first, second);
    assert_eq!(second.1[0], 2 + 2 * u32::try_from(second.0).unwrap());

    life.migrate(id(1)).await.unwrap();
    life.settled().await;
    let both = processors(&world.fleet, id(1));
    assert_eq!(both[&second.0], second.1.iter().copied().collect(), "the source lost the processors");
    assert_eq!(both[&first.0], first.1.iter().copied().collect());
    life.revert_resize(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(own(&life, &world, id(1)), second, "the revert gave other processors");

    life.resize_pinned(id(1)).await.unwrap();
    life.settled().await;
    life.confirm_resize(id(1)).await.unwrap();
    life.settled().await;
    let third = own(&life, &world, id(1));
    assert_eq!((third.0, third.1.len()), (first.0, 3));
    life.delete(id(1)).await.unwrap();
    life.settled().await;
    let free = life.context().views.placement.read(|view| view.ledger.fitted.is_empty());
    assert!(free, "a processor is still assigned");
    life.stop().await;
    world.check().await;
}

/// Five guests request two processors each at the same time, from hosts with four.
#[actix_rt::test]
async fn concurrent_builds_never_share_a_processor() {
    let world = World::new(2).with_dedicated_processors();
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    for n in 1..=5 {
        life.build_pinned(id(n)).await.unwrap();
    }
    life.settled().await;
    let status: Vec<&str> = (1..=5).map(|n| life.status(id(n))).collect();
    assert_eq!(status.iter().filter(|status| **status == "ACTIVE").count(), 4, "{status:?}");
    let refused = (1..=5).map(id).find(|id| life.status(*id) == "ERROR").unwrap();
    let fault = life.fault(refused);
    assert!(fault.starts_with("No valid host was found.") && fault.contains("dedicated CPU"), "{fault}");
    let consumer = ConsumerId::new(refused.to_string());
    assert!(life.context().views.placement.read(|view| view.ledger.fitting(&consumer).is_none()));
    // Deleting one server frees processors for another.
    let gone = (1..=5).map(id).find(|id| *id != refused).unwrap();
    life.delete(gone).await.unwrap();
    life.settled().await;
    life.build_pinned(id(6)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id(6)), "ACTIVE");
    life.stop().await;
    world.check().await;
}

/// A guest with floating CPUs has the shared processors of its host, and none of the dedicated ones.
#[actix_rt::test]
async fn floating_guests_use_shared_processors_on_every_host() {
    let world = World::new(2).with_dedicated_processors();
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.build(id(1)).await.unwrap();
    life.settled().await;
    let confined = |life: &Life| {
        let host = life.host_of(&world, id(1)).unwrap();
        world.fleet.guests(host)[&id(1)].pinning.clone()
    };
    assert_eq!((confined(&life).confined, confined(&life).nodes), (vec![0, 1], vec![]));
    life.live_migrate(id(1)).await.unwrap();
    life.settled().await;
    assert_eq!(confined(&life).confined, [0, 1]);
    life.stop().await;
    world.check().await;
}
