//! The swap of two volumes, if the volume service itself migrates attached volumes, as Cinder does.

use std::sync::Arc;

use chronova_actors::instance::InstanceVolumeRequest;
use chronova_actors::process::{extend_disk, swap_volume};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::instance::PowerAction;
use chronova_events::process::ProcessOutcome;
use chronova_tests::migrating_volumes::EndedMigrations;
use chronova_tests::process_harness::{Case, prove};
use chronova_tests::volume_kind::VolumeKind;
use chronova_tests::volumes::nth_volume;
use chronova_tests::world::World;
use futures::FutureExt;

use super::{Ask, case, with_two_volumes};

/// The first answer about the end of each migration is lost, in every trial.
#[actix_rt::test]
async fn the_end_of_a_migration_is_proven() {
    let ask: Ask = |life, id| life.swap(id, 1, 2).boxed_local();
    let definition = &swap_volume::DEFINITION;
    prove(&Case { definition, migrating_volumes: true, ..case(with_two_volumes, ask, "ACTIVE", "ACTIVE") }).await;
}

/// The server keeps the volume and its serial, but the disk has the name of the volume to which the content was moved.
#[actix_rt::test]
async fn a_migrated_volume_is_still_found_in_its_guest() {
    let ended = Arc::new(EndedMigrations::default());
    let mut world = World::new(2);
    world.volume_kind = VolumeKind::Migrating(Arc::clone(&ended));
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let id = InstanceId::random();
    with_two_volumes(&life, id).await;
    let (old, new) = (nth_volume(id, 1), nth_volume(id, 2));
    life.swap(id, 1, 2).await.unwrap();
    life.settled().await;
    assert_eq!(ended.moved(), [(old, new)]);
    let now = life.instance_now(id);
    let disk = now.alive().and_then(|server| server.disk_of(old)).unwrap();
    let connection = disk.device.connection.clone().unwrap();
    assert_eq!((connection.serial.clone(), connection.disk_key()), (old.to_string(), new.to_string().as_str()));
    let there = [(id, new.to_string())];
    assert_eq!(world.fleet.disks(), there);

    life.power(id, PowerAction::RebootHard).await.unwrap();
    life.settled().await;
    assert_eq!(world.fleet.disks(), there);
    let extend = InstanceVolumeRequest::Extend { process: ProcessId::random(), volume: old };
    life.instance(id, extend).await.unwrap();
    life.settled().await;
    assert_eq!(world.outcome_of(&extend_disk::DEFINITION).await, Some(ProcessOutcome::Succeeded));
    life.detach(id, 1).await.unwrap();
    life.settled().await;
    assert!(world.fleet.disks().is_empty(), "{:?}", world.fleet.disks());
    life.stop().await;
    world.check().await;
}
