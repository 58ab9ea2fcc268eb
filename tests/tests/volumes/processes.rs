//! Every process of a volume.

use std::time::Duration;

use chronova_actors::ports::{NewContent, VolumeService as _};
use chronova_actors::process::definition::Definition;
use chronova_actors::services::embedded::volume::processes::{create, delete, extend, reimage, snapshot, upload};
use chronova_events::ids::{ImageId, InstanceId, VolumeId};
use chronova_events::volume::SnapshotStatus;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::volumes::{snapshot_of, word};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use uuid::Uuid;

type Ask = for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, Result<(), String>>;
type Before = for<'a> fn(&'a Life, InstanceId) -> LocalBoxFuture<'a, ()>;

fn nothing(_: &Life, _: InstanceId) -> LocalBoxFuture<'_, ()> {
    async {}.boxed_local()
}

fn made(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        life.volume(VolumeId(id.0), NewContent::Blank).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

fn with_snapshot(life: &Life, id: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        made(life, id).await;
        life.snapshot_volume(VolumeId(id.0), false).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

/// The volume from which the subject is copied.
const OTHER: VolumeId = VolumeId(Uuid::from_u128(0xBEEF));

fn with_other(life: &Life, _: InstanceId) -> LocalBoxFuture<'_, ()> {
    async move {
        life.volume(OTHER, NewContent::Blank).await.unwrap();
        life.settled().await;
        life.snapshot_volume(OTHER, false).await.unwrap();
        life.settled().await;
    }
    .boxed_local()
}

/// `words`: the volume's status before, after success, and after a failed step.
fn case(definition: &'static Definition, before: Before, ask: Ask, words: [&'static str; 3]) -> Case {
    let [from, to, failed] = words;
    Case { failed, ..Case::new(definition, before, ask, [from, to]) }
}

fn creation(before: Before, ask: Ask) -> Case {
    case(&create::DEFINITION, before, ask, ["ABSENT", "available", "error"])
}

#[actix_rt::test]
async fn create_volume_is_proven() {
    prove(&creation(nothing, |life, id| life.volume(VolumeId(id.0), NewContent::Blank).boxed_local())).await;
}

#[actix_rt::test]
async fn create_volume_from_an_image_is_proven() {
    let ask: Ask = |life, id| {
        let image = NewContent::Image(ImageId(Uuid::nil()));
        life.volume(VolumeId(id.0), image).boxed_local()
    };
    prove(&creation(nothing, ask)).await;
}

#[actix_rt::test]
async fn create_volume_from_a_snapshot_or_a_volume_is_proven() {
    prove(&creation(with_other, |life, id| {
        life.volume(VolumeId(id.0), NewContent::Snapshot(snapshot_of(OTHER))).boxed_local()
    }))
    .await;
    prove(&creation(with_other, |life, id| life.volume(VolumeId(id.0), NewContent::Volume(OTHER)).boxed_local())).await;
}

fn deletion(before: Before, ask: Ask, from: &'static str) -> Case {
    case(&delete::DEFINITION, before, ask, [from, "ABSENT", "ABSENT"])
}

#[actix_rt::test]
async fn delete_volume_is_proven() {
    let plain: Ask = |life, id| life.remove_volume(VolumeId(id.0), false, false).boxed_local();
    prove(&deletion(made, plain, "available")).await;
    let cascade: Ask = |life, id| life.remove_volume(VolumeId(id.0), false, true).boxed_local();
    prove(&deletion(with_snapshot, cascade, "snapshot")).await;
}

#[actix_rt::test]
async fn delete_during_creation_is_proven() {
    let ask: Ask = |life, id| {
        async move {
            life.volume(VolumeId(id.0), NewContent::Blank).await?;
            life.remove_volume(VolumeId(id.0), true, false).await
        }
        .boxed_local()
    };
    prove(&Case { half_asked: &["available"], ..deletion(nothing, ask, "ABSENT") }).await;
}

#[actix_rt::test]
async fn extend_volume_is_proven() {
    let ask: Ask = |life, id| life.extend_volume(VolumeId(id.0)).boxed_local();
    prove(&case(&extend::DEFINITION, made, ask, ["available", "larger", "error_extending"])).await;
}

#[actix_rt::test]
async fn create_snapshot_is_proven() {
    let ask: Ask = |life, id| life.snapshot_volume(VolumeId(id.0), false).boxed_local();
    prove(&case(&snapshot::CREATE, made, ask, ["available", "snapshot", "snapshot in error"])).await;
}

#[actix_rt::test]
async fn delete_snapshot_is_proven() {
    let ask: Ask = |life, id| life.remove_snapshot(VolumeId(id.0)).boxed_local();
    prove(&case(&snapshot::DELETE, with_snapshot, ask, ["snapshot", "available", "available"])).await;
}

#[actix_rt::test]
async fn upload_volume_is_proven() {
    let ask: Ask = |life, id| life.upload_volume(VolumeId(id.0)).boxed_local();
    prove(&case(&upload::DEFINITION, made, ask, ["available", "available", "available"])).await;
}

#[actix_rt::test]
async fn reimage_volume_is_proven() {
    let ask: Ask = |life, id| life.reimage_volume(VolumeId(id.0)).boxed_local();
    prove(&case(&reimage::DEFINITION, made, ask, ["available", "available", "error"])).await;
}

/// A volume is deleted although its host is down; when the host is back, its data there is removed.
#[actix_rt::test]
async fn volumes_deleted_on_a_dead_host_are_removed_when_it_is_back() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let id = VolumeId::random();
    made(&life, InstanceId(id.0)).await;
    world.fleet.kill_host(0);
    life.hosts_up_of(0, 1).await;
    life.remove_volume(id, false, false).await.unwrap();
    assert!(life.settled().await);
    assert_eq!(word(&world.views().await, id), "ABSENT");
    assert_eq!(world.fleet.volumes(0).len(), 1, "the data on the dead host is gone");
    world.fleet.revive_host(0, true).unwrap();
    life.until(|_| world.fleet.volumes(0).is_empty()).await;
    life.stop().await;
    world.check().await;
}

/// A single snapshot, and snapshots that are deleted with their volume.
#[actix_rt::test]
async fn snapshots_deleted_on_a_dead_host_are_removed_when_it_is_back() {
    for cascade in [false, true] {
        let world = World::new(1);
        let life = world.live(None, None).await;
        life.hosts_up(1).await;
        let id = VolumeId::random();
        with_snapshot(&life, InstanceId(id.0)).await;
        world.fleet.kill_host(0);
        life.hosts_up_of(0, 1).await;
        match cascade {
            false => life.remove_snapshot(id).await.unwrap(),
            true => life.remove_volume(id, false, true).await.unwrap(),
        }
        assert!(life.settled().await);
        assert_eq!(world.fleet.volumes(0).len(), 2, "the data on the dead host is gone");
        world.fleet.revive_host(0, true).unwrap();
        life.until(|_| world.fleet.volumes(0).len() == usize::from(!cascade)).await;
        life.stop().await;
        world.check().await;
    }
}

/// A host fails right after it created a volume, so its answer is lost.
#[actix_rt::test]
async fn a_volume_with_a_lost_answer_is_removed_when_its_host_is_back() {
    for of_snapshot in [false, true] {
        let world = World::new(1);
        let life = world.live(None, None).await;
        life.hosts_up(1).await;
        let id = VolumeId::random();
        if of_snapshot {
            made(&life, InstanceId(id.0)).await;
        }
        let kept = world.fleet.volumes(0).len();
        let next = FaultTrigger::Nth(if of_snapshot { 2 } else { 1 });
        world.fleet.set_all_faults(&FaultPlan::default().with(DriverCall::CreateVolume, next, Effect::DieAfter));
        match of_snapshot {
            false => life.volume(id, NewContent::Blank).await.map(drop).unwrap(),
            true => life.snapshot_volume(id, false).await.unwrap(),
        }
        assert!(life.settled().await);
        let now = life.volumes.look(id).await.unwrap();
        let status = now.snapshots.values().next().map_or(now.status.as_str(), |snapshot| snapshot.status.as_str());
        assert_eq!(status, "error");
        assert_eq!(world.fleet.volumes(0).len(), kept + 1, "the data on the dead host is gone");
        world.fleet.set_all_faults(&FaultPlan::default());
        world.fleet.revive_host(0, true).unwrap();
        life.until(|_| world.fleet.volumes(0).len() == kept).await;
        life.stop().await;
        world.check().await;
    }
}

/// A snapshot keeps its data when an administrator sets its status to `error`.
#[actix_rt::test]
async fn snapshot_data_is_kept_after_a_reset_of_the_status() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let id = VolumeId::random();
    with_snapshot(&life, InstanceId(id.0)).await;
    life.reset_snapshot(id, SnapshotStatus::Error).await.unwrap();
    world.fleet.kill_host(0);
    life.hosts_up_of(0, 1).await;
    world.fleet.revive_host(0, true).unwrap();
    life.hosts_up_of(1, 1).await;
    life.settled().await;
    life.stop().await;
    assert_eq!(world.fleet.volumes(0).len(), 2);
}

/// A repeated step may request a snapshot under the id of a snapshot that was deleted.
#[actix_rt::test]
async fn a_snapshot_that_was_deleted_can_be_made_again() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let id = VolumeId::random();
    with_snapshot(&life, InstanceId(id.0)).await;
    life.remove_snapshot(id).await.unwrap();
    assert!(life.settled().await);
    life.snapshot_volume(id, false).await.unwrap();
    assert!(life.settled().await);
    assert_eq!(word(&world.views().await, id), "snapshot");
    life.stop().await;
    world.check().await;
}

/// If a host has no space, the process tries another host.
#[actix_rt::test]
async fn another_host_is_tried_where_one_fails() {
    // Either host is full once, so the full host is the scheduler's first choice in one of the two runs.
    for full in 0..2 {
        let world = World::new(2);
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        let no_room = FaultPlan::default().with(DriverCall::CreateVolume, FaultTrigger::Always, Effect::NoRoom);
        world.fleet.set_faults(full, no_room);
        let id = VolumeId::random();
        life.volume(id, NewContent::Blank).await.unwrap();
        assert!(life.settled().await);
        assert_eq!(life.volumes.look(id).await.unwrap().status.as_str(), "available");
        life.stop().await;
        world.check().await;
    }
}

/// If every attempt fails, the volume ends in error, and later volumes are created.
#[actix_rt::test]
async fn a_volume_ends_in_error_where_every_host_fails() {
    let world = World::new(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let id = VolumeId::random();
    // The first call to each host fails, which uses up both attempts.
    let full = FaultPlan::default().with(DriverCall::CreateVolume, FaultTrigger::Nth(1), Effect::NoRoom);
    world.fleet.set_all_faults(&full);
    life.volume(id, NewContent::Blank).await.unwrap();
    assert!(life.settled().await);
    assert_eq!(life.volumes.look(id).await.unwrap().status.as_str(), "error");
    let next = VolumeId::random();
    life.volume(next, NewContent::Blank).await.unwrap();
    assert!(life.settled().await);
    assert_eq!(life.volumes.look(next).await.unwrap().status.as_str(), "available");
    life.stop().await;
    world.check().await;
}

/// After a start the state of the hosts is unknown, and on a busy machine they answer late. A volume requested
/// meanwhile waits for them, and does not end in error.
#[actix_rt::test]
async fn a_volume_waits_until_the_hosts_have_answered() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    life.stop().await;
    world.brakes.hold("capabilities");
    let life = world.live(None, None).await;
    world.brakes.reached("capabilities").await;
    let id = VolumeId::random();
    life.volume(id, NewContent::Blank).await.unwrap();
    // Long enough for all retries of a step and all attempts of a process, with this world's pauses.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(life.volumes.look(id).await.unwrap().status.as_str(), "creating");
    world.brakes.release("capabilities");
    assert!(life.settled().await);
    assert_eq!(life.volumes.look(id).await.unwrap().status.as_str(), "available");
    life.stop().await;
    world.check().await;
}

/// The calls that Compute makes, repeated after a lost answer.
#[actix_rt::test]
async fn an_attachment_and_its_release_may_be_repeated() {
    let world = World::new(1);
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let (id, server) = (VolumeId::random(), InstanceId::random());
    made(&life, InstanceId(id.0)).await;
    let attachment = life.attach_volume(id, server).await.unwrap();
    assert_eq!(life.attach_volume(id, server).await.unwrap(), attachment);
    assert_eq!(life.volumes.look(id).await.unwrap().status.as_str(), "in-use");
    let refused = life.remove_volume(id, true, false).await.unwrap_err();
    assert!(refused.starts_with("Invalid volume: Volume must not be migrating, attached"), "{refused}");
    let meta = chronova_events::envelope::Meta::system("test");
    for _ in 0..2 {
        life.volumes.release(id, attachment, meta.clone()).await.unwrap();
    }
    assert_eq!(life.volumes.look(id).await.unwrap().status.as_str(), "available");
    life.stop().await;
    world.check().await;
}

/// The log has the request, but its reply is lost. The service must not release the quota of a volume or snapshot that
/// exists.
#[actix_rt::test]
async fn a_lost_reply_releases_no_quota() {
    let world = World::new(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let id = VolumeId::random();
    let held = || {
        life.context().views.volumes.read(|view| {
            view.quotas.values().map(|quota| (quota.volumes.len(), quota.snapshots.len())).next().unwrap_or_default()
        })
    };
    life.store.lose_reply("volume");
    assert!(life.volume(id, NewContent::Blank).await.is_err());
    life.store.answer_again();
    life.settled().await;
    assert_eq!((held(), word(&world.views().await, id)), ((1, 0), "available"));
    life.store.lose_reply("volume");
    assert!(life.snapshot_volume(id, false).await.is_err());
    life.store.answer_again();
    life.settled().await;
    assert_eq!((held(), word(&world.views().await, id)), ((1, 1), "snapshot"));
    life.stop().await;
    world.check().await;
}
