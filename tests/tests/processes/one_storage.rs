//! Moves between hosts with shared storage. The disk is not copied, neither host of a move removes the disk while the
//! other host uses it, and no two guests ever run on the disk at the same time.

use chronova_actors::process::context::StepContext;
use chronova_actors::process::delete_instance;
use chronova_events::ids::InstanceId;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger, SimGuest};
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::cases::{after, confirming, evacuating, moving, reverting};
use super::{Ask, built, case};

fn resize(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, Result<(), String>> {
    life.resize(id).boxed_local()
}

fn moved(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    after(life, id, built, resize)
}

#[actix_rt::test]
async fn resize_on_one_storage_is_proven() {
    prove(&Case { one_storage: true, ..moving(built, resize) }).await;
}

#[actix_rt::test]
async fn confirm_resize_on_one_storage_is_proven() {
    prove(&Case { one_storage: true, ..confirming(moved) }).await;
}

#[actix_rt::test]
async fn revert_resize_on_one_storage_is_proven() {
    prove(&Case { one_storage: true, ..reverting(moved) }).await;
}

#[actix_rt::test]
async fn delete_of_a_resized_server_on_one_storage_is_proven() {
    let ask: Ask = |life, id| life.delete(id).boxed_local();
    let definition = &delete_instance::DEFINITION;
    let case = case(moved, ask, "VERIFY_RESIZE", "DELETED");
    prove(&Case { definition, failed: "DELETED", one_storage: true, ..case }).await;
}

#[actix_rt::test]
async fn evacuation_on_one_storage_is_proven() {
    prove(&Case { one_storage: true, ..evacuating(built) }).await;
}

/// A server whose guest had started at the destination when that host failed. Also returns the indices of both hosts.
async fn lost_at_its_destination() -> (World, Life, InstanceId, usize, usize) {
    let world = World::new(2);
    world.fleet.share_storage(true);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let id = InstanceId::random();
    built(&life, id).await;
    let source = world.fleet.whereabouts()[&id][0];
    let target = 1 - source;
    world
        .fleet
        .set_faults(target, FaultPlan::default().with(DriverCall::Install, FaultTrigger::Always, Effect::DieAfter));
    life.resize(id).await.unwrap();
    let stuck = |context: &StepContext| context.views.processes.read(|view| view.stuck().next().is_some());
    assert!(life.until(stuck).await);
    assert!(!world.fleet.guests(source)[&id].is_on(), "the guest also runs at the source");
    (world, life, id, source, target)
}

#[actix_rt::test]
async fn a_guest_that_may_run_at_a_silent_host_is_not_started_at_another() {
    let (world, life, id, source, target) = lost_at_its_destination().await;
    world.fleet.set_faults(target, FaultPlan::default());
    world.fleet.revive_host(target, true).unwrap();
    life.settled().await;
    assert_eq!(life.status(id), "ACTIVE");
    assert!(world.fleet.guests(source)[&id].is_on());
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn an_operator_says_that_a_host_is_down_and_the_guest_is_started_where_it_was() {
    let (world, life, id, source, target) = lost_at_its_destination().await;
    life.force_down(world.fleet.uri().host_id(target)).await.unwrap();
    life.settled().await;
    assert_eq!(life.status(id), "ACTIVE");
    assert!(world.fleet.guests(source)[&id].is_on());
    world.fleet.set_faults(target, FaultPlan::default());
    world.fleet.revive_host(target, false).unwrap();
    life.hosts_up(2).await;
    life.settled().await;
    life.stop().await;
    world.check().await;
}

/// The old host lost only its network. The control plane is killed during an evacuation; when it restarts, the old host
/// answers again. Two guests must never write to one disk.
#[actix_rt::test]
async fn an_evacuation_after_a_crash_stops_the_old_guest_first() {
    let world = World::new(2);
    world.fleet.share_storage(true);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let id = InstanceId::random();
    built(&life, id).await;
    let source = world.fleet.whereabouts()[&id][0];
    world.fleet.kill_host(source);
    life.hosts_up_of(1, 2).await;
    world.brakes.hold("install");
    life.evacuate(id).await.unwrap();
    world.brakes.reached("install").await;
    life.stop().await;
    world.fleet.revive_host(source, true).unwrap();
    // The check that stops evacuated guests does not see this guest yet.
    world.brakes.hold("guests");
    world.brakes.release("install");
    let life = world.live(None, None).await;
    let started = |_: &StepContext| world.fleet.guests(1 - source).get(&id).is_some_and(SimGuest::is_on);
    assert!(life.until(started).await);
    world.brakes.release("guests");
    life.settled().await;
    assert_eq!(life.status(id), "ACTIVE");
    assert_eq!(world.fleet.whereabouts()[&id], [1 - source]);
    assert_eq!(world.fleet.shared_disk_breaches(), [], "the new guest was started before the old one was off");
    life.stop().await;
    world.check().await;
}
