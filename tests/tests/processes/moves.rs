//! Resizes and cold migrations, confirmed, reverted, and interrupted by a delete. Evacuations.

use std::sync::Arc;

use chronova_actors::process::{confirm_resize, delete_instance, evacuate, move_instance, revert_resize};
use chronova_events::ids::InstanceId;
use chronova_events::instance::FlavorSnapshot;
use chronova_events::store::EventStore as _;
use chronova_hypervisor::guest::PowerState;
use chronova_tests::moves::{larger, smaller};
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World, build_request};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::ask_server::held;
use super::{Ask, case, prove_overtaken, stopped, with_a_volume};

/// The cores and MiB that all projects use by the last event of the log.
async fn held_now(life: &Life) -> (u64, u64) {
    life.until(|context| context.views.position() >= life.store.head()).await;
    held(life)
}

/// The cores and MiB of a flavor.
fn amounts(flavor: &FlavorSnapshot) -> (u64, u64) {
    (u64::from(flavor.vcpus), flavor.memory_mib)
}

fn resized(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        with_a_volume(life, id).await;
        life.resize(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn large(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        let mut request = build_request(id);
        request.flavor = Arc::new(larger());
        life.build_of(request).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

/// A server that was resized to a smaller flavor, and holds quota for that one alone.
pub(super) fn resized_down(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        large(life, id).await;
        life.resize_to(id, smaller()).await.unwrap();
        life.settled().await;
        assert_eq!(held(life), amounts(&smaller()));
    }
    .boxed_local()
}

#[actix_rt::test]
async fn resize_is_proven() {
    let ask: Ask = |life, id| life.resize(id).boxed_local();
    let case = case(with_a_volume, ask, "ACTIVE", "VERIFY_RESIZE");
    prove(&Case { definition: &move_instance::DEFINITION, shared: true, ..case }).await;
}

#[actix_rt::test]
async fn migration_of_a_stopped_server_is_proven() {
    let ask: Ask = |life, id| life.migrate(id).boxed_local();
    prove(&Case { definition: &move_instance::DEFINITION, ..case(stopped, ask, "SHUTOFF", "VERIFY_RESIZE") }).await;
}

/// An interface is being detached when the server is moved. The guest on the new host does not have that interface
/// either.
#[actix_rt::test]
async fn a_move_waits_for_changes_of_interfaces() {
    let world = World::new(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let id = InstanceId::random();
    life.build(id).await.unwrap();
    life.settled().await;
    world.brakes.hold("detach_nic");
    life.detach_nic(id).await.unwrap();
    world.brakes.reached("detach_nic").await;
    life.migrate(id).await.unwrap();
    life.until(|_| matches!(life.status(id), "ACTIVE" | "VERIFY_RESIZE")).await;
    world.brakes.release("detach_nic");
    life.settled().await;
    if life.status(id) == "VERIFY_RESIZE" {
        life.confirm_resize(id).await.unwrap();
        life.settled().await;
    }
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn confirm_resize_is_proven() {
    let ask: Ask = |life, id| life.confirm_resize(id).boxed_local();
    let case = case(resized, ask, "VERIFY_RESIZE", "ACTIVE");
    prove(&Case { definition: &confirm_resize::DEFINITION, shared: true, ..case }).await;
}

#[actix_rt::test]
async fn revert_resize_is_proven() {
    let ask: Ask = |life, id| life.revert_resize(id).boxed_local();
    let case = case(resized, ask, "VERIFY_RESIZE", "ACTIVE");
    prove(&Case { definition: &revert_resize::DEFINITION, shared: true, ..case }).await;
}

/// Wherever a move to a smaller flavor fails or crashes, the server holds quota for the flavor that it has in the end
/// (`World::check`).
#[actix_rt::test]
async fn resize_to_a_smaller_flavor_is_proven() {
    let ask: Ask = |life, id| life.resize_to(id, smaller()).boxed_local();
    prove(&Case { definition: &move_instance::DEFINITION, ..case(large, ask, "ACTIVE", "VERIFY_RESIZE") }).await;
}

#[actix_rt::test]
async fn confirm_of_a_smaller_flavor_is_proven() {
    let ask: Ask = |life, id| life.confirm_resize(id).boxed_local();
    let case = case(resized_down, ask, "VERIFY_RESIZE", "ACTIVE");
    prove(&Case { definition: &confirm_resize::DEFINITION, ..case }).await;
}

/// The request claims quota for the old flavor. A revert that fails gives it back, and so does a delete.
#[actix_rt::test]
async fn revert_to_a_larger_flavor_is_proven() {
    let ask: Ask = |life, id| life.revert_resize(id).boxed_local();
    let case = case(resized_down, ask, "VERIFY_RESIZE", "ACTIVE");
    prove(&Case { definition: &revert_resize::DEFINITION, ..case }).await;
}

/// Before the confirmation, a larger flavor counts from the request on, and a smaller one once the server has it.
#[actix_rt::test]
async fn quota_follows_the_flavor_of_a_moved_server() {
    let world = World::new(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let id = InstanceId::random();
    life.build(id).await.unwrap();
    life.settled().await;
    let small = held_now(&life).await;
    world.brakes.hold("stop");
    life.resize_to(id, larger()).await.unwrap();
    world.brakes.reached("stop").await;
    assert_eq!(held_now(&life).await, amounts(&larger()), "on the way to the larger flavor");
    world.brakes.release("stop");
    life.settled().await;
    assert_eq!(held_now(&life).await, amounts(&larger()), "the larger flavor, not confirmed");
    life.revert_resize(id).await.unwrap();
    life.settled().await;
    assert_eq!(held_now(&life).await, small, "reverted");
    life.resize_to(id, larger()).await.unwrap();
    life.settled().await;
    life.confirm_resize(id).await.unwrap();
    life.settled().await;
    world.brakes.hold("stop");
    life.resize_to(id, smaller()).await.unwrap();
    world.brakes.reached("stop").await;
    assert_eq!(held_now(&life).await, amounts(&larger()), "on the way to the smaller flavor");
    world.brakes.release("stop");
    life.settled().await;
    assert_eq!(held_now(&life).await, amounts(&smaller()), "the smaller flavor, not confirmed");
    world.brakes.hold("stop");
    life.revert_resize(id).await.unwrap();
    world.brakes.reached("stop").await;
    assert_eq!(held_now(&life).await, amounts(&larger()), "on the way back to the larger flavor");
    world.brakes.release("stop");
    life.settled().await;
    assert_eq!((life.status(id), held_now(&life).await), ("ACTIVE", amounts(&larger())), "reverted again");
    life.stop().await;
    assert_eq!(world.given_back_by_reconcilers().await, 0);
    world.check().await;
}

/// Somebody undefines the new guest. The revert starts the old one as it does otherwise.
#[actix_rt::test]
async fn a_resize_whose_guest_vanished_is_reverted() {
    for shared in [false, true] {
        let world = World::new(2);
        world.fleet.share_storage(shared);
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        let id = InstanceId::random();
        life.build(id).await.unwrap();
        life.settled().await;
        let home = life.host_of(&world, id).unwrap();
        life.resize(id).await.unwrap();
        life.settled().await;
        let away = life.host_of(&world, id).unwrap();
        assert_ne!(away, home, "the server was not moved");
        world.fleet.lose_guest(away, id).unwrap();
        life.revert_resize(id).await.unwrap();
        life.settled().await;
        assert_eq!((life.status(id), life.fault(id).as_str()), ("ACTIVE", ""), "on shared storage: {shared}");
        assert_eq!(life.host_of(&world, id), Some(home));
        assert_eq!(world.fleet.guests(home)[&id].power, PowerState::Running);
        life.stop().await;
        world.check().await;
    }
}

#[actix_rt::test]
async fn delete_of_a_resized_server_is_proven() {
    let ask: Ask = |life, id| life.delete(id).boxed_local();
    let definition = &delete_instance::DEFINITION;
    let case = case(resized, ask, "VERIFY_RESIZE", "DELETED");
    prove(&Case { definition, failed: "DELETED", shared: true, ..case }).await;
}

#[actix_rt::test]
async fn delete_during_a_resize_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.resize(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    prove_overtaken(ask, &["VERIFY_RESIZE"]).await;
}

/// The old host answers although it is forced down. The guest on that host is stopped before the new guest starts, and
/// is then removed.
#[actix_rt::test]
async fn evacuation_is_proven() {
    let ask: Ask = |life, id| life.evacuate(id).boxed_local();
    let case = Case { failed: "ERROR", ..case(with_a_volume, ask, "ACTIVE", "ACTIVE") };
    prove(&Case { definition: &evacuate::DEFINITION, shared: true, ..case }).await;
}

#[actix_rt::test]
async fn delete_during_an_evacuation_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.evacuate(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    prove_overtaken(ask, &["ACTIVE"]).await;
}
