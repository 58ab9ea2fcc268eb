//! Operations on servers with volumes as disks: images, rebuilds, rescues, and leaving their hosts.

use std::time::Duration;

use chronova_actors::process::{
    attach_volume, delete_instance, detach_volume, offload, rebuild, refresh_volume, rescue, snapshot, unshelve,
};
use chronova_events::ids::InstanceId;
use chronova_events::instance::PowerAction;
use chronova_projections::processes::Processes;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::volumes::nth_volume;
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use super::{Ask, beside_a_volume, built_on_volumes, case, with_a_volume};

fn stopped_on_volumes(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built_on_volumes(life, id).await;
        life.power(id, PowerAction::Stop).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn shelved_on_volumes(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        built_on_volumes(life, id).await;
        life.shelve(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn shelved_with_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        with_a_volume(life, id).await;
        life.shelve(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn offloaded_with_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        shelved_with_a_volume(life, id).await;
        life.offload(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn offloaded_beside_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        beside_a_volume(life, id).await;
        life.shelve(id).await.unwrap();
        life.settled().await;
        life.offload(id).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

pub(super) fn stopped_with_a_volume(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        with_a_volume(life, id).await;
        life.power(id, PowerAction::Stop).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

#[actix_rt::test]
async fn refresh_volume_is_proven() {
    let ask: Ask = |life, id| life.refresh(id).boxed_local();
    let definition = &refresh_volume::DEFINITION;
    prove(&Case { definition, ..case(stopped_with_a_volume, ask, "SHUTOFF", "SHUTOFF") }).await;
}

/// The root disk is a volume.
#[actix_rt::test]
async fn refresh_of_a_root_volume_is_proven() {
    let ask: Ask = |life, id| life.refresh(id).boxed_local();
    let definition = &refresh_volume::DEFINITION;
    prove(&Case { definition, ..case(stopped_on_volumes, ask, "SHUTOFF", "SHUTOFF") }).await;
}

/// A renewed attachment replaces the old one. Meanwhile the guest does not start, and a delete leaves nothing behind.
#[actix_rt::test]
async fn a_volume_gets_another_attachment() {
    for (deletes, ends) in [(false, "ACTIVE"), (true, "DELETED")] {
        let world = World::new(2);
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        let id = InstanceId::random();
        stopped_with_a_volume(&life, id).await;
        let attachment = || {
            let now = life.instance_now(id);
            now.alive().and_then(|server| server.disks.iter().find_map(|disk| disk.device.attachment))
        };
        let old = attachment();
        world.brakes.hold("detach_disk");
        life.refresh(id).await.unwrap();
        world.brakes.reached("detach_disk").await;
        assert!(life.refresh(id).await.unwrap_err().contains("another request is changing volume"));
        let refused = life.power(id, PowerAction::Start).await.unwrap_err();
        assert_eq!(refused, "cannot start while the server is in task_state refreshing_volume_attachment");
        if deletes {
            life.delete(id).await.unwrap();
        }
        world.brakes.release("detach_disk");
        life.settled().await;
        if !deletes {
            assert!(old.is_some() && attachment().is_some());
            assert_ne!(attachment(), old);
            life.power(id, PowerAction::Start).await.unwrap();
            life.settled().await;
            let refused = life.refresh(id).await.unwrap_err();
            assert_eq!(refused, "cannot refresh connection_info while the server is in vm_state active");
        }
        assert_eq!(life.status(id), ends);
        life.stop().await;
        world.check().await;
    }
}

/// An operator resets the volume while its attachment is renewed. The volume is reserved for its server again.
#[actix_rt::test]
async fn a_renewed_attachment_survives_a_reset_of_its_volume() {
    for step in ["detach_disk", "attach_disk"] {
        let world = World::new(2);
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        let id = InstanceId::random();
        stopped_with_a_volume(&life, id).await;
        world.brakes.hold(step);
        life.refresh(id).await.unwrap();
        world.brakes.reached(step).await;
        life.reset_attachments(nth_volume(id, 1)).await.unwrap();
        world.brakes.release(step);
        life.settled().await;
        life.power(id, PowerAction::Start).await.unwrap();
        life.settled().await;
        assert_eq!(life.status(id), "ACTIVE");
        life.stop().await;
        // The volume has exactly the attachment that the server has.
        world.check().await;
    }
}

/// The volume service has an attachment whose id the process never received. The control plane crashes at each append
/// from the new attachment of the disk to the end of the process.
#[actix_rt::test]
async fn a_lost_reservation_does_not_outlive_the_renewal() {
    let mut fuse = 1;
    loop {
        let world = World::new(2);
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        let id = InstanceId::random();
        stopped_with_a_volume(&life, id).await;
        world.brakes.hold("attach_disk");
        life.refresh(id).await.unwrap();
        world.brakes.reached("attach_disk").await;
        life.reserve_again(nth_volume(id, 1), id).await.unwrap();
        life.store.arm(Some(fuse));
        world.brakes.release("attach_disk");
        life.settled().await;
        let crashed = life.store.is_blown();
        life.stop().await;
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        life.settled().await;
        life.stop().await;
        world.check().await;
        if !crashed {
            break;
        }
        fuse += 1;
    }
    assert!(fuse > 3, "the end took only {fuse} appends");
}

#[actix_rt::test]
async fn snapshot_of_volumes_is_proven() {
    let ask: Ask = |life, id| async move { life.snapshot(id, None).await.map(drop) }.boxed_local();
    let definition = &snapshot::DEFINITION;
    prove(&Case { definition, ..case(built_on_volumes, ask, "ACTIVE", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn rebuild_on_volumes_is_proven() {
    let ask: Ask = |life, id| life.rebuild(id, true).boxed_local();
    let definition = &rebuild::DEFINITION;
    prove(&Case { definition, failed: "ERROR", ..case(built_on_volumes, ask, "ACTIVE", "ACTIVE") }).await;
    prove(&Case { definition, failed: "ERROR", ..case(stopped_on_volumes, ask, "SHUTOFF", "SHUTOFF") }).await;
}

#[actix_rt::test]
async fn rescue_on_volumes_is_proven() {
    let ask: Ask = |life, id| life.rescue(id).boxed_local();
    prove(&Case { definition: &rescue::DEFINITION, ..case(built_on_volumes, ask, "ACTIVE", "RESCUE") }).await;
}

#[actix_rt::test]
async fn shelve_on_volumes_is_proven() {
    let ask: Ask = |life, id| life.shelve(id).boxed_local();
    let definition = &offload::DEFINITION;
    prove(&Case { definition, ..case(built_on_volumes, ask, "ACTIVE", "SHELVED_OFFLOADED") }).await;
}

#[actix_rt::test]
async fn offload_with_volumes_is_proven() {
    let ask: Ask = |life, id| life.offload(id).boxed_local();
    let definition = &offload::DEFINITION;
    prove(&Case { definition, ..case(shelved_with_a_volume, ask, "SHELVED", "SHELVED_OFFLOADED") }).await;
}

#[actix_rt::test]
async fn unshelve_with_volumes_is_proven() {
    let ask: Ask = |life, id| life.unshelve(id).boxed_local();
    let definition = &unshelve::DEFINITION;
    prove(&Case { definition, ..case(shelved_on_volumes, ask, "SHELVED_OFFLOADED", "ACTIVE") }).await;
    prove(&Case { definition, ..case(offloaded_with_a_volume, ask, "SHELVED_OFFLOADED", "ACTIVE") }).await;
}

#[actix_rt::test]
async fn delete_during_unshelve_with_volumes_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.unshelve(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    let (definition, half_asked): (_, &[&str]) = (&delete_instance::DEFINITION, &["ACTIVE"]);
    prove(&Case { definition, half_asked, ..case(shelved_on_volumes, ask, "SHELVED_OFFLOADED", "DELETED") }).await;
}

#[actix_rt::test]
async fn delete_during_shelving_on_volumes_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.shelve(id).await?;
            life.delete(id).await
        }
        .boxed_local()
    };
    let (definition, half_asked): (_, &[&str]) = (&delete_instance::DEFINITION, &["SHELVED_OFFLOADED"]);
    prove(&Case { definition, half_asked, ..case(built_on_volumes, ask, "ACTIVE", "DELETED") }).await;
}

/// For a server without a host, no host is called, and the volume is still attached to the server.
#[actix_rt::test]
async fn attach_and_detach_without_a_host_are_proven() {
    let away = "SHELVED_OFFLOADED";
    let ask: Ask = |life, id| life.attach(id, 1).boxed_local();
    prove(&Case { definition: &attach_volume::DEFINITION, ..case(offloaded_beside_a_volume, ask, away, away) }).await;
    let ask: Ask = |life, id| life.detach(id, 1).boxed_local();
    prove(&Case { definition: &detach_volume::DEFINITION, ..case(offloaded_with_a_volume, ask, away, away) }).await;
}

/// The volume service has begun to write the image and does not end.
#[actix_rt::test]
async fn a_rebuild_gives_up_a_write_that_does_not_end() {
    let mut world = World::new(1);
    world.options.processes.reimage_patience = Duration::from_millis(20);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let id = InstanceId::random();
    built_on_volumes(&life, id).await;
    world.brakes.hold("create_volume");
    life.rebuild(id, true).await.unwrap();
    world.brakes.reached("create_volume").await;
    life.shows(id, "ERROR").await;
    assert_eq!(life.fault(id), "Failed to rebuild volume backed instance.");
    world.brakes.release("create_volume");
    life.settled().await;
    life.stop().await;
    world.check().await;
}

/// The volume service has begun a snapshot and does not end. The process gives up, and the snapshot stays.
#[actix_rt::test]
async fn an_image_gives_up_a_snapshot_that_does_not_end() {
    let mut world = World::new(1);
    world.options.processes.snapshot_patience = Duration::ZERO;
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let id = InstanceId::random();
    built_on_volumes(&life, id).await;
    world.brakes.hold("create_volume");
    life.snapshot(id, None).await.unwrap();
    world.brakes.reached("create_volume").await;
    let is_pending = |view: &Processes, name: &str| view.pending().any(|process| process.task.name() == name);
    let gave_up = |view: &Processes| is_pending(view, "create_snapshot") && !is_pending(view, "snapshot");
    life.until(|context| context.views.processes.read(gave_up)).await;
    assert_eq!(life.status(id), "ACTIVE");
    world.brakes.release("create_volume");
    life.settled().await;
    life.stop().await;
    world.check().await;
}
