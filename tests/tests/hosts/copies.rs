//! A copy of a log does not drive hosts beside its original.

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::hosts::fence::LogIdentity;
use chronova_events::envelope::{Meta, NewEvent, Position, Timestamp};
use chronova_events::installation::{CopyOrigin, GenerationBegun, InstallationEvent, LogGeneration};
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use chronova_hypervisor::sim::DriverCall;
use chronova_tests::world::{Life, World};
use uuid::Uuid;

use super::{built, id};

/// A world whose hosts remember the log that drives them.
fn fenced(world: World) -> World {
    let mut options = world.options.clone();
    options.hosts.fenced = true;
    options.hosts.heartbeat = Duration::from_millis(20);
    World { options, ..world }
}

/// The same events in another log, which drives the same hosts.
async fn copy_of(original: &World) -> World {
    let log = MemoryStore::new();
    for event in original.log.read_all(Position::START, usize::MAX).await.unwrap() {
        let copy = NewEvent {
            id: event.id,
            event: Arc::clone(event.event().unwrap()),
            recorded_at: event.recorded_at,
            meta: Arc::clone(&event.meta),
        };
        log.append(&event.stream, Expected::Any, vec![copy]).await.unwrap();
    }
    let (fleet, network) = (Arc::clone(&original.fleet), Arc::clone(&original.network));
    fenced(World { log, fleet, network, ..World::new(1) })
}

async fn drives(life: &Life, hosts: usize) {
    life.until(|context| (context.fleet.len(), up(life)) == (hosts, hosts)).await;
}

fn up(life: &Life) -> usize {
    life.context().views.hosts.read(|hosts| hosts.all().filter(|host| host.up).count())
}

/// Waits until the hosts remember the log. The hosts of a new log do so at their first heartbeat.
async fn marked(world: &World) {
    let installation = LogIdentity::of(&*world.log).await.unwrap().unwrap().owner.installation;
    for driver in world.fleet.drivers() {
        while driver.owner_mark().unwrap().generation_of(installation).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[actix_rt::test]
async fn hosts_refuse_a_copy_of_their_log_until_they_are_claimed() {
    let original = fenced(World::new(2));
    let first = original.live(None, None).await;
    first.hosts_up(2).await;
    built(&first, id(1)).await;
    marked(&original).await;

    let copy = copy_of(&original).await;
    let begun = GenerationBegun { generation: Uuid::from_u128(7), origin: CopyOrigin::Copied };
    let begun = NewEvent::new(InstallationEvent::from(begun), Timestamp(7), &Meta::system("test"));
    copy.log.append(&LogGeneration::stream(), Expected::Any, vec![begun]).await.unwrap();
    let second = copy.live(None, None).await;
    drives(&second, 0).await;
    let before = original.fleet.calls(DriverCall::Destroy);
    second.delete(id(1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(original.fleet.calls(DriverCall::Destroy), before, "the copy destroyed a guest");
    assert_eq!(original.fleet.whereabouts()[&id(1)].len(), 1, "the guest is gone");
    drives(&first, 2).await;
    built(&first, id(2)).await;
    assert_eq!(first.status(id(2)), "ACTIVE", "the original no longer builds servers");

    // `chronova host claim`
    let owner = LogIdentity::of(&*copy.log).await.unwrap().unwrap().owner;
    for driver in original.fleet.drivers() {
        driver.owner_mark().unwrap().remember(owner).await.unwrap();
    }
    drives(&second, 2).await;
    drives(&first, 0).await;
    second.until(|_| !original.fleet.whereabouts().contains_key(&id(1))).await;
    second.stop().await;
    first.stop().await;
}

#[actix_rt::test]
async fn a_restarted_log_drives_its_hosts_and_another_cloud_shares_them() {
    let world = fenced(World::new(1));
    for _ in 0..2 {
        let life = world.live(None, None).await;
        drives(&life, 1).await;
        life.stop().await;
    }
    let other = fenced(World { fleet: Arc::clone(&world.fleet), ..World::new(1) });
    let (one, two) = (world.live(None, None).await, other.live(None, None).await);
    drives(&one, 1).await;
    drives(&two, 1).await;
    one.stop().await;
    two.stop().await;
}
