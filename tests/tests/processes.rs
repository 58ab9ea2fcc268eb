//! The crash harness for every process; see `process_harness`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "processes/appends.rs"]
mod appends;
#[path = "processes/ask_server.rs"]
mod ask_server;
#[path = "processes/bandwidth.rs"]
mod bandwidth;
#[path = "processes/cases.rs"]
mod cases;
#[path = "processes/chosen_ids.rs"]
mod chosen_ids;
#[path = "processes/core_only.rs"]
mod core_only;
#[path = "processes/coverage.rs"]
mod coverage;
#[path = "processes/create_servers.rs"]
mod create_servers;
#[path = "processes/drain.rs"]
mod drain;
#[path = "processes/gpus.rs"]
mod gpus;
#[path = "processes/image_cache.rs"]
mod image_cache;
#[path = "processes/leftovers.rs"]
mod leftovers;
#[path = "processes/live.rs"]
mod live;
#[path = "processes/locked_volumes.rs"]
mod locked_volumes;
#[path = "processes/migrated_volumes.rs"]
mod migrated_volumes;
#[path = "processes/moves.rs"]
mod moves;
#[path = "processes/on_volumes.rs"]
mod on_volumes;
#[path = "processes/one_storage.rs"]
mod one_storage;
#[path = "processes/pci.rs"]
mod pci;
#[path = "processes/pinned.rs"]
mod pinned;
#[path = "processes/reconcilers.rs"]
mod reconcilers;
#[path = "processes/sriov.rs"]
mod sriov;
#[path = "processes/tpm.rs"]
mod tpm;

use chronova_actors::instance::{InstanceRequest, InstanceVolumeRequest};
use chronova_actors::process::{
    attach_interface, attach_volume, build_instance, change_password, crash_dump, delete_instance, detach_interface,
    detach_volume, extend_disk, offload, power, rebuild, rescue, restore, shelve, snapshot, soft_delete, swap_volume,
    unrescue, unshelve,
};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::{PowerAction, Rotation};
use chronova_tests::process_harness::{Case, lose_host_in_undo, prove};
use chronova_tests::world::{ADMIN, Life, World, build_request};
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

fn deleted_in_rescue(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        rescued(life, id).await;
        life.settled().await;
        life.soft_delete(id).await.unwrap();
    }
    .boxed_local()
}

fn deleted_on_the_way_to_rescue(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        rescued(life, id).await;
        life.soft_delete(id).await.unwrap();
    }
    .boxed_local()
}

fn built_with_agent(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        let mut request = build_request(id);
        let properties = request.image.as_mut().map(|image| &mut std::sync::Arc::make_mut(image).properties);
        properties.unwrap().push(("hw_qemu_guest_agent".to_owned(), "yes".to_owned()));
        life.build_of(request).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn rescued(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.rescue(id).await.unwrap();
    }
    .boxed_local()
}

fn shelved(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.shelve(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn offloaded(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        shelved(life, id).await;
        life.offload(id).await.unwrap();
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
    let ask: Ask = |life, id| life.build(id).boxed_local();
    prove(&Case { definition: &build_instance::DEFINITION, failed: "ERROR", ..case(nothing, ask, "ABSENT", "ACTIVE") })
        .await;
}

#[actix_rt::test]
async fn delete_instance_is_proven() {
    let ask: Ask = |life, id| life.delete(id).boxed_local();
    prove(&Case {
        definition: &delete_instance::DEFINITION,
        failed: "DELETED",
        ..case(built, ask, "ACTIVE", "DELETED")
    })
    .await;
}

#[actix_rt::test]
async fn delete_during_build_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.build(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    prove(&Case {
        definition: &delete_instance::DEFINITION,
        failed: "DELETED",
        half_asked: &["ACTIVE"],
        ..case(nothing, ask, "ABSENT", "DELETED")
    })
    .await;
}

#[actix_rt::test]
async fn stop_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Stop);
    prove(&Case { failed_after: &["SHUTOFF"], ..case(built, ask, "ACTIVE", "SHUTOFF") }).await;
}

#[actix_rt::test]
async fn start_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Start);
    prove(&Case { failed_after: &["ACTIVE"], ..case(stopped, ask, "SHUTOFF", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn soft_reboot_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::RebootSoft);
    prove(&Case { failed_after: &["ACTIVE"], ..case(built, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn hard_reboot_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::RebootHard);
    prove(&Case { failed_after: &["ACTIVE"], ..case(stopped, ask, "SHUTOFF", "ACTIVE") }).await;
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
    // If the suspension was not recorded, the host reports the guest as stopped. Its memory image exists, and the next
    // start reads it.
    prove(&Case { failed_after: &["SHUTOFF"], ..case(built, ask, "ACTIVE", "SUSPENDED") }).await;
}

#[actix_rt::test]
async fn resume_is_proven() {
    let ask: Ask = |life, id| power(life, id, PowerAction::Resume);
    prove(&case(suspended, ask, "SUSPENDED", "ACTIVE")).await;
}

#[actix_rt::test]
async fn crash_dump_is_proven() {
    let ask: Ask = |life, id| {
        let request = InstanceRequest::TriggerCrashDump { process: ProcessId::random(), asker: ADMIN };
        life.instance(id, request).boxed_local()
    };
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

/// The restored server runs from its own disk, whether it was in rescue or on the way there.
#[actix_rt::test]
async fn restore_of_a_server_in_rescue_is_proven() {
    let ask: Ask = |life, id| life.restore(id).boxed_local();
    let befores: [Before; 2] = [deleted_in_rescue, deleted_on_the_way_to_rescue];
    for before in befores {
        prove(&Case { definition: &restore::DEFINITION, ..case(before, ask, "SOFT_DELETED", "ACTIVE") }).await;
    }
}

#[actix_rt::test]
async fn snapshot_is_proven() {
    let ask: Ask = |life, id| async move { life.snapshot(id, None).await.map(drop) }.boxed_local();
    prove(&Case { definition: &snapshot::DEFINITION, ..case(built, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn backup_is_proven() {
    let backup = || Some(Rotation { kind: "daily".to_owned(), keep: 1 });
    let ask: Ask = |life, id| {
        let backup = Some(Rotation { kind: "daily".to_owned(), keep: 1 });
        async move { life.snapshot(id, backup).await.map(drop) }.boxed_local()
    };
    prove(&Case { definition: &snapshot::DEFINITION, ..case(stopped, ask, "SHUTOFF", "SHUTOFF") }).await;

    // A rotation of 1 keeps only the newest of three backups.
    let (world, id) = (World::new(2), InstanceId::random());
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    built(&life, id).await;
    let mut last = None;
    for _ in 0..3 {
        last = Some(life.snapshot(id, backup()).await.unwrap());
        life.settled().await;
    }
    assert_eq!(world.images.made().into_keys().collect::<Vec<_>>(), Vec::from_iter(last));
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn rebuild_is_proven() {
    let ask: Ask = |life, id| life.rebuild(id, false).boxed_local();
    let definition = &rebuild::DEFINITION;
    prove(&Case { definition, failed: "ERROR", ..case(built, ask, "ACTIVE", "ACTIVE") }).await;
    prove(&Case { definition, failed: "ERROR", ..case(stopped, ask, "SHUTOFF", "SHUTOFF") }).await;
}

#[actix_rt::test]
async fn rescue_is_proven() {
    let ask: Ask = |life, id| life.rescue(id).boxed_local();
    prove(&Case { definition: &rescue::DEFINITION, ..case(built, ask, "ACTIVE", "RESCUE") }).await;
    prove(&Case { definition: &rescue::DEFINITION, ..case(stopped, ask, "SHUTOFF", "RESCUE") }).await;
}

/// No reconciler removes rescue disks, so the process itself removes the disk when the host is back.
#[actix_rt::test]
async fn a_failed_rescue_leaves_no_rescue_disk_on_a_lost_host() {
    let ask: Ask = |life, id| life.rescue(id).boxed_local();
    let definition = &rescue::DEFINITION;
    lose_host_in_undo(&Case { definition, ..case(built, ask, "ACTIVE", "RESCUE") }, "rescue").await;
    lose_host_in_undo(&Case { definition, ..case(stopped, ask, "SHUTOFF", "RESCUE") }, "rescue").await;
}

#[actix_rt::test]
async fn unrescue_is_proven() {
    let ask: Ask = |life, id| life.unrescue(id).boxed_local();
    prove(&Case { definition: &unrescue::DEFINITION, ..case(rescued, ask, "RESCUE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn shelve_is_proven() {
    let ask: Ask = |life, id| async move { life.shelve(id).await.map(drop) }.boxed_local();
    prove(&Case { definition: &shelve::DEFINITION, ..case(built, ask, "ACTIVE", "SHELVED") }).await;
}

#[actix_rt::test]
async fn offload_is_proven() {
    let ask: Ask = |life, id| life.offload(id).boxed_local();
    prove(&Case { definition: &offload::DEFINITION, ..case(shelved, ask, "SHELVED", "SHELVED_OFFLOADED") }).await;
}

#[actix_rt::test]
async fn unshelve_is_proven() {
    let ask: Ask = |life, id| life.unshelve(id).boxed_local();
    let definition = &unshelve::DEFINITION;
    prove(&Case { definition, ..case(shelved, ask, "SHELVED", "ACTIVE") }).await;
    prove(&Case { definition, ..case(offloaded, ask, "SHELVED_OFFLOADED", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn delete_during_unshelve_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.unshelve(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    prove(&Case {
        definition: &delete_instance::DEFINITION,
        failed: "DELETED",
        half_asked: &["ACTIVE"],
        ..case(offloaded, ask, "SHELVED_OFFLOADED", "DELETED")
    })
    .await;
}

#[actix_rt::test]
async fn change_password_is_proven() {
    let ask: Ask = |life, id| life.change_password(id, "s3cret").boxed_local();
    let definition = &change_password::DEFINITION;
    // The log never has the password, so a crash loses it.
    prove(&Case { definition, forgets: true, ..case(built_with_agent, ask, "ACTIVE", "ACTIVE") }).await;
}

/// Shelved servers are offloaded after `shelved_offload_time`, even if the control plane was down meanwhile.
#[actix_rt::test]
async fn shelved_servers_are_offloaded_in_time() {
    let mut world = World::new(2);
    let id = InstanceId::random();
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    shelved(&life, id).await;
    assert_eq!(life.status(id), "SHELVED");
    life.stop().await;
    world.check().await;
    world.options.servers.shelved_offload = Some(std::time::Duration::from_millis(20));
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.shows(id, "SHELVED_OFFLOADED").await;
    life.settled().await;
    assert_eq!(world.images.made().len(), 1, "there is no image of the server's disk, or more than one");
    life.unshelve(id).await.unwrap();
    life.shows(id, "ACTIVE").await;
    life.settled().await;
    assert!(world.images.made().is_empty(), "the unshelve left the image");
    life.shelve(id).await.unwrap();
    life.shows(id, "SHELVED_OFFLOADED").await;
    life.delete(id).await.unwrap();
    life.settled().await;
    assert!(world.images.made().is_empty(), "the delete left the image of the server's disk");
    life.stop().await;
    world.check().await;
}

fn with_two_interfaces(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.attach_nic(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn built_on_volumes(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        life.build_on_volumes(id).await.unwrap();
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

/// Nothing is left behind, whether the attachment or the delete ends first.
#[actix_rt::test]
async fn delete_during_attach_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.attach_nic(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    prove(&Case {
        definition: &delete_instance::DEFINITION,
        failed: "DELETED",
        half_asked: &["ACTIVE"],
        ..case(built, ask, "ACTIVE", "DELETED")
    })
    .await;
}

fn beside_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built(life, id).await;
        life.volume_beside(id, 1).await;
    }
    .boxed_local()
}

fn with_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        beside_a_volume(life, id).await;
        life.attach(id, 1).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn with_two_volumes(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        with_a_volume(life, id).await;
        life.volume_beside(id, 2).await;
    }
    .boxed_local()
}

#[actix_rt::test]
async fn build_on_volumes_is_proven() {
    let ask: Ask = |life, id| life.build_on_volumes(id).boxed_local();
    prove(&Case { definition: &build_instance::DEFINITION, failed: "ERROR", ..case(nothing, ask, "ABSENT", "ACTIVE") })
        .await;
}

#[actix_rt::test]
async fn delete_with_volumes_is_proven() {
    let ask: Ask = |life, id| life.delete(id).boxed_local();
    let definition = &delete_instance::DEFINITION;
    prove(&Case { definition, ..case(built_on_volumes, ask, "ACTIVE", "DELETED") }).await;
}

#[actix_rt::test]
async fn attach_volume_is_proven() {
    let ask: Ask = |life, id| life.attach(id, 1).boxed_local();
    prove(&Case { definition: &attach_volume::DEFINITION, ..case(beside_a_volume, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn detach_volume_is_proven() {
    let ask: Ask = |life, id| life.detach(id, 1).boxed_local();
    prove(&Case { definition: &detach_volume::DEFINITION, ..case(with_a_volume, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn extend_disk_is_proven() {
    let ask: Ask = |life, id| {
        let volume = chronova_tests::volumes::nth_volume(id, 1);
        let request = InstanceVolumeRequest::Extend { process: ProcessId::random(), volume };
        life.instance(id, request).boxed_local()
    };
    prove(&Case { definition: &extend_disk::DEFINITION, ..case(with_a_volume, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn swap_volume_is_proven() {
    let ask: Ask = |life, id| life.swap(id, 1, 2).boxed_local();
    prove(&Case { definition: &swap_volume::DEFINITION, ..case(with_two_volumes, ask, "ACTIVE", "ACTIVE") }).await;
}

/// A delete while the host attaches a volume leaves nothing behind, and the volume is available.
#[actix_rt::test]
async fn a_delete_during_an_attachment_frees_the_volume() {
    for held in ["attach_disk", "attach_disk:answer"] {
        let world = World::new(2);
        let id = InstanceId::random();
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        beside_a_volume(&life, id).await;
        world.brakes.hold(held);
        life.attach(id, 1).await.unwrap();
        world.brakes.reached(held).await;
        life.delete(id).await.unwrap();
        life.shows(id, "DELETED").await;
        world.brakes.release(held);
        life.settled().await;
        life.stop().await;
        world.check().await;
        let word = chronova_tests::volumes::word(&world.views().await, chronova_tests::volumes::nth_volume(id, 1));
        assert_eq!(word, "available", "{held}");
    }
}

/// A soft-deleted server is deleted after `reclaim_instance_interval`, even if the control plane was down meanwhile.
#[actix_rt::test]
async fn soft_deleted_servers_are_reclaimed() {
    let mut world = World::new(2);
    let id = InstanceId::random();
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    soft_deleted(&life, id).await;
    life.settled().await;
    assert_eq!(life.status(id), "SOFT_DELETED");
    life.stop().await;
    world.check().await;
    world.options.servers.reclaim_interval = std::time::Duration::from_millis(20);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    life.shows(id, "DELETED").await;
    life.settled().await;
    life.stop().await;
    world.check().await;
    assert!(world.fleet.whereabouts().is_empty());
}

/// A delete during any step of another process leaves nothing of the server behind.
async fn prove_overtaken(ask: Ask, half_asked: &'static [&'static str]) {
    let definition = &delete_instance::DEFINITION;
    prove(&Case { definition, failed: "DELETED", half_asked, ..case(built, ask, "ACTIVE", "DELETED") }).await;
}

type Before = for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, ()>;

/// A process of one step. If the step fails, the server keeps its status.
fn case(before: Before, ask: Ask, from: &'static str, to: &'static str) -> Case {
    Case::new(&power::DEFINITION, before, ask, [from, to])
}

fn power(life: &Life, id: InstanceId, action: PowerAction) -> LocalBoxFuture<'_, Result<(), String>> {
    life.power(id, action).boxed_local()
}
