//! Resizes and cold migrations, confirmed, reverted, and interrupted by a delete. Evacuations.

use chronova_actors::process::{confirm_resize, delete_instance, evacuate, move_instance, revert_resize};
use chronova_events::ids::InstanceId;
use chronova_hypervisor::guest::PowerState;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::{Ask, case, prove_overtaken, stopped, with_a_volume};

fn resized(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        with_a_volume(life, id).await;
        life.resize(id).await.unwrap();
        life.settled().await;
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
