//! Processes on encrypted volumes whose keys nobody may read any more.

use std::sync::Arc;

use chronova_actors::process::{detach_volume, refresh_volume};
use chronova_events::ids::InstanceId;
use chronova_events::process::ProcessOutcome;
use chronova_tests::migrating_volumes::EndedMigrations;
use chronova_tests::volume_kind::VolumeKind;
use chronova_tests::volumes::nth_volume;
use chronova_tests::world::World;

use super::on_volumes::stopped_with_a_volume;
use super::with_a_volume;

fn world() -> (World, Arc<EndedMigrations>) {
    let volumes = Arc::new(EndedMigrations::default());
    let mut world = World::new(1);
    world.volume_kind = VolumeKind::Migrating(Arc::clone(&volumes));
    (world, volumes)
}

/// The undo of the detachment attaches the disk again, and would need the key.
#[actix_rt::test]
async fn a_failed_detachment_ends_without_the_key_of_the_volume() {
    let (world, volumes) = world();
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let id = InstanceId::random();
    with_a_volume(&life, id).await;
    world.fleet.set_clings(0, id, true).unwrap();
    volumes.lock_keys();
    life.detach(id, 1).await.unwrap();
    life.settled().await;
    assert_eq!(world.outcome_of(&detach_volume::DEFINITION).await, Some(ProcessOutcome::Failed));
    assert_eq!(world.fleet.disks(), [(id, nth_volume(id, 1).to_string())]);
    life.stop().await;
    world.check().await;
}

/// After the end of the old attachment, only the new one would be left, which cannot be connected.
#[actix_rt::test]
async fn a_volume_whose_key_cannot_be_read_keeps_its_attachment() {
    let (world, volumes) = world();
    let life = world.live(None, None).await;
    life.hosts_up(1).await;
    let id = InstanceId::random();
    stopped_with_a_volume(&life, id).await;
    let attachment = || {
        let now = life.instance_now(id);
        let disk = now.alive().and_then(|server| server.disk_of(nth_volume(id, 1))).unwrap();
        disk.device.attachment
    };
    let before = attachment();
    volumes.lock_keys();
    life.refresh(id).await.unwrap();
    life.settled().await;
    assert_eq!(world.outcome_of(&refresh_volume::DEFINITION).await, Some(ProcessOutcome::Failed));
    assert_eq!(attachment(), before);
    life.stop().await;
    world.check().await;
}
