//! Every process, proven: see `process_harness`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use chronova_actors::process::{
    attach_interface, build_instance, confirm_resize, crash_dump, delete_instance, detach_interface, move_instance,
    power, restore, revert_resize, soft_delete,
};
use chronova_events::ids::InstanceId;
use chronova_events::instance::PowerAction;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

type Ask = for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, Result<(), String>>;

fn nothing(_: &Life, _: InstanceId) -> LocalBoxFuture<'_, ()> {
    async {}.boxed_local()
}

fn built(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        life.build(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn stopped(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.power(id, PowerAction::Stop).await.unwrap();
    }
    .boxed_local()
}

fn paused(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.power(id, PowerAction::Pause).await.unwrap();
    }
    .boxed_local()
}

fn soft_deleted(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.soft_delete(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn suspended(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.power(id, PowerAction::Suspend).await.unwrap();
    }
    .boxed_local()
}

#[actix_rt::test]
async fn build_instance_is_proven() {
    let case = Case {
        definition: &build_instance::DEFINITION,
        before: nothing,
        ask: |life, id| life.build(id).boxed_local(),
        from: "ABSENT",
        to: "ACTIVE",
        failed: "ERROR",
        failed_after: &[],
        half_asked: &[],
    };
    prove(&case).await;
}

#[actix_rt::test]
async fn delete_instance_is_proven() {
    let case = Case {
        definition: &delete_instance::DEFINITION,
        before: built,
        ask: |life, id| life.delete(id).boxed_local(),
        from: "ACTIVE",
        to: "DELETED",
        failed: "DELETED",
        failed_after: &[],
        half_asked: &[],
    };
    prove(&case).await;
}

#[actix_rt::test]
async fn delete_during_build_is_proven() {
    let case = Case {
        definition: &delete_instance::DEFINITION,
        before: nothing,
        ask: |life, id| {
            async move {
                life.build(id).await?;
                life.delete(id).await
            }
            .boxed_local()
        },
        from: "ABSENT",
        to: "DELETED",
        failed: "DELETED",
        failed_after: &[],
        half_asked: &["ACTIVE"],
    };
    prove(&case).await;
}

#[actix_rt::test]
async fn stop_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Stop);
    let case = Case {
        definition: &power::DEFINITION,
        before: built,
        ask,
        from: "ACTIVE",
        to: "SHUTOFF",
        failed: "ACTIVE",
        failed_after: &["SHUTOFF"],
        half_asked: &[],
    };
    prove(&case).await;
}

#[actix_rt::test]
async fn start_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Start);
    let case = Case {
        definition: &power::DEFINITION,
        before: stopped,
        ask,
        from: "SHUTOFF",
        to: "ACTIVE",
        failed: "SHUTOFF",
        failed_after: &["ACTIVE"],
        half_asked: &[],
    };
    prove(&case).await;
}

#[actix_rt::test]
async fn soft_reboot_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::RebootSoft);
    let case = Case {
        definition: &power::DEFINITION,
        before: built,
        ask,
        from: "ACTIVE",
        to: "ACTIVE",
        failed: "ACTIVE",
        failed_after: &["ACTIVE"],
        half_asked: &[],
    };
    prove(&case).await;
}

#[actix_rt::test]
async fn hard_reboot_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::RebootHard);
    let case = Case {
        definition: &power::DEFINITION,
        before: stopped,
        ask,
        from: "SHUTOFF",
        to: "ACTIVE",
        failed: "SHUTOFF",
        failed_after: &["ACTIVE"],
        half_asked: &[],
    };
    prove(&case).await;
}

#[actix_rt::test]
async fn pause_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Pause);
    prove(&case(built, ask, "ACTIVE", "PAUSED")).await;
}

#[actix_rt::test]
async fn unpause_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Unpause);
    prove(&case(paused, ask, "PAUSED", "ACTIVE")).await;
}

#[actix_rt::test]
async fn suspend_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Suspend);
    // Off without the record of a suspension is stopped; the memory is there and the next start reads it.
    prove(&Case { failed_after: &["SHUTOFF"], ..case(built, ask, "ACTIVE", "SUSPENDED") }).await;
}

#[actix_rt::test]
async fn resume_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Resume);
    prove(&case(suspended, ask, "SUSPENDED", "ACTIVE")).await;
}

#[actix_rt::test]
async fn crash_dump_is_proven() {
    let ask: Ask = |life, id| life.crash_dump(id).boxed_local();
    prove(&Case { definition: &crash_dump::DEFINITION, ..case(built, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn soft_delete_is_proven() {
    let ask: Ask = |life, id| life.soft_delete(id).boxed_local();
    prove(&Case { definition: &soft_delete::DEFINITION, ..case(built, ask, "ACTIVE", "SOFT_DELETED") }).await;
}

#[actix_rt::test]
async fn restore_is_proven() {
    let ask: Ask = |life, id| life.restore(id).boxed_local();
    prove(&Case { definition: &restore::DEFINITION, ..case(soft_deleted, ask, "SOFT_DELETED", "ACTIVE") }).await;
}

fn with_two_interfaces(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.attach_nic(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

#[actix_rt::test]
async fn attach_interface_is_proven() {
    let ask: Ask = |life, id| life.attach_nic(id).boxed_local();
    prove(&Case { definition: &attach_interface::DEFINITION, ..case(built, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn detach_interface_is_proven() {
    let ask: Ask = |life, id| life.detach_nic(id).boxed_local();
    prove(&Case { definition: &detach_interface::DEFINITION, ..case(with_two_interfaces, ask, "ACTIVE", "ACTIVE") })
        .await;
}

/// Whoever comes first, nothing is left of either.
#[actix_rt::test]
async fn delete_during_attach_is_proven() {
    let case = Case {
        definition: &delete_instance::DEFINITION,
        before: built,
        ask: |life, id| {
            async move {
                life.attach_nic(id).await?;
                life.delete(id).await
            }
            .boxed_local()
        },
        from: "ACTIVE",
        to: "DELETED",
        failed: "DELETED",
        failed_after: &[],
        half_asked: &["ACTIVE"],
    };
    prove(&case).await;
}

fn resized(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.resize(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

#[actix_rt::test]
async fn resize_is_proven() {
    let ask: Ask = |life, id| life.resize(id).boxed_local();
    prove(&Case { definition: &move_instance::DEFINITION, ..case(built, ask, "ACTIVE", "VERIFY_RESIZE") }).await;
}

#[actix_rt::test]
async fn migration_of_a_stopped_server_is_proven() {
    let ask: Ask = |life, id| life.migrate(id).boxed_local();
    prove(&Case { definition: &move_instance::DEFINITION, ..case(stopped, ask, "SHUTOFF", "VERIFY_RESIZE") }).await;
}

#[actix_rt::test]
async fn confirm_resize_is_proven() {
    let ask: Ask = |life, id| life.confirm_resize(id).boxed_local();
    prove(&Case { definition: &confirm_resize::DEFINITION, ..case(resized, ask, "VERIFY_RESIZE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn revert_resize_is_proven() {
    let ask: Ask = |life, id| life.revert_resize(id).boxed_local();
    prove(&Case { definition: &revert_resize::DEFINITION, ..case(resized, ask, "VERIFY_RESIZE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn delete_of_a_resized_server_is_proven() {
    let ask: Ask = |life, id| life.delete(id).boxed_local();
    let definition = &delete_instance::DEFINITION;
    prove(&Case { definition, failed: "DELETED", ..case(resized, ask, "VERIFY_RESIZE", "DELETED") }).await;
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
    let half_asked: &[&str] = &["VERIFY_RESIZE"];
    let definition = &delete_instance::DEFINITION;
    prove(&Case { definition, failed: "DELETED", half_asked, ..case(built, ask, "ACTIVE", "DELETED") }).await;
}

/// A deleted server is gone for good when its time is over, even if the control plane was down meanwhile.
#[actix_rt::test]
async fn what_nobody_restores_is_reclaimed() {
    let mut world = World::new(2);
    let id = InstanceId::random();
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    soft_deleted(&life, id).await;
    life.settled().await;
    assert_eq!(life.status(id), "SOFT_DELETED");
    life.stop().await;
    world.check().await;
    world.options.reclaim_interval = std::time::Duration::from_millis(20);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.shows(id, "DELETED").await;
    life.settled().await;
    life.stop().await;
    world.check().await;
    assert!(world.fleet.whereabouts().is_empty());
}

type Before = for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, ()>;

/// A process of one step that leaves the server what it was when it fails.
fn case(before: Before, ask: Ask, from: &'static str, to: &'static str) -> Case {
    let definition = &power::DEFINITION;
    Case { definition, before, ask, from, to, failed: from, failed_after: &[], half_asked: &[] }
}

fn power(life: &Life, id: InstanceId, action: PowerAction) -> LocalBoxFuture<'_, Result<(), String>> {
    life.power(id, action).boxed_local()
}
