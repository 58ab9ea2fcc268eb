//! Tests image caches. Unused images are removed, used ones are kept, and no disk loses its backing image.

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::process::{build_instance, move_instance, rebuild, rescue, unshelve};
use chronova_actors::reconcile::options::ImageCacheOptions;
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::{Meta, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::instance::PowerAction;
use chronova_hypervisor::capability::disk_transfer::DiskFile;
use chronova_hypervisor::conformance::pretended_image;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::guest::{GuestSpec, ImageRef, RootDisk};
use chronova_hypervisor::pinning::Pinning;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::process_harness::{Case, prove, swept};
use chronova_tests::services::{OneImage, Plain};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use uuid::Uuid;

use super::{Ask, built, case, nothing, offloaded};

const SUBJECT: InstanceId = InstanceId(Uuid::from_u128(0xCAFE));
const STRANGER: InstanceId = InstanceId(Uuid::from_u128(0xBEEF));
const HOUR: i64 = 3_600_000_000;

fn world(hosts: usize, minimum_age: Duration) -> World {
    let mut world = World::new(hosts);
    world.options.image_cache = swept(minimum_age);
    world
}

async fn living(world: &World) -> Life {
    let life = world.live(None, None).await;
    life.hosts_up(world.fleet.len()).await;
    life
}

/// Waits until every cache was checked `times` more times.
async fn rounds(world: &World, life: &Life, times: u64) {
    let wanted = world.fleet.calls(DriverCall::CachedImages) + (times + 1) * world.fleet.len() as u64;
    life.until(|_| world.fleet.calls(DriverCall::CachedImages) >= wanted).await;
}

/// Puts an image that no server uses into a host's cache.
async fn put_image(driver: &dyn Driver) -> ImageRef {
    let (image, content) = pretended_image();
    driver.ensure_image(&image, Arc::new(Plain(content))).await.unwrap();
    image
}

fn has(world: &World, host: usize, checksum: &str) -> bool {
    world.fleet.images(host).contains(checksum)
}

/// A guest of another control plane.
fn stranger(image: &ImageRef) -> GuestSpec {
    GuestSpec {
        instance: STRANGER,
        domain_name: "stranger".to_owned(),
        display_name: "stranger".to_owned(),
        flavor_name: "tiny".to_owned(),
        project: "p".into(),
        user: "u".into(),
        vcpus: 1,
        memory_mib: 64,
        root: Some(RootDisk { image: image.clone(), size_gib: 1 }),
        ephemerals_gib: vec![],
        swap_mib: 0,
        volumes: vec![],
        nics: vec![],
        config_drive: None,
        hardware: vec![],
        rescue: None,
        pinning: Pinning::default(),
        devices: vec![],
        mdevs: vec![],
        tpm_secret: None,
    }
}

fn ago(hours: i64) -> Timestamp {
    Timestamp(SystemClock.now().0 - hours * HOUR)
}

#[actix_rt::test]
async fn an_image_goes_when_it_is_unused_and_old() {
    let world = world(2, Duration::from_hours(24));
    let life = living(&world).await;
    let driver = world.fleet.drivers().remove(0);
    let image = put_image(driver.as_ref()).await;
    let sum = image.checksum.as_str();
    // A young image: the first check notes that it is unused, and removes nothing.
    life.until(|_| world.fleet.idle_images(0).iter().any(|(idle, _)| idle == sum)).await;
    let noted = world.fleet.idle_images(0);
    rounds(&world, &life, 3).await;
    assert!(has(&world, 0, sum));
    assert_eq!(world.fleet.idle_images(0), noted, "a later check changed the idle time");
    driver.image_cache().unwrap().note_idle(sum, Some(ago(23))).await.unwrap();
    rounds(&world, &life, 3).await;
    assert!(has(&world, 0, sum));
    // An image that is unused for more than a day is removed.
    driver.image_cache().unwrap().note_idle(sum, Some(ago(25))).await.unwrap();
    life.until(|_| !has(&world, 0, sum)).await;
    assert!(world.fleet.idle_images(0).is_empty());
    life.stop().await;
    world.check().await;
}

/// An image's idle time goes on while no control plane runs, and the next control plane knows it.
#[actix_rt::test]
async fn the_next_control_plane_knows_the_idle_time_of_an_image() {
    let world = world(1, Duration::from_hours(24));
    let driver = world.fleet.drivers().remove(0);
    let image = put_image(driver.as_ref()).await;
    driver.image_cache().unwrap().note_idle(&image.checksum, Some(ago(25))).await.unwrap();
    let life = living(&world).await;
    life.until(|_| !has(&world, 0, &image.checksum)).await;
    life.stop().await;
}

#[actix_rt::test]
async fn without_removal_of_images_no_host_is_searched_for_them() {
    let never = [
        ImageCacheOptions { remove_unused: false, ..swept(Duration::ZERO) },
        ImageCacheOptions { interval: None, ..swept(Duration::ZERO) },
    ];
    for options in never {
        let mut world = World::new(1);
        world.options.image_cache = options;
        let life = living(&world).await;
        let driver = world.fleet.drivers().remove(0);
        let image = put_image(driver.as_ref()).await;
        driver.image_cache().unwrap().note_idle(&image.checksum, Some(ago(1000))).await.unwrap();
        let compared = world.fleet.calls(DriverCall::Leftovers) + 2;
        life.until(|_| world.fleet.calls(DriverCall::Leftovers) >= compared).await;
        assert!(has(&world, 0, &image.checksum));
        assert_eq!(world.fleet.calls(DriverCall::CachedImages), 0);
        life.stop().await;
    }
}

/// The image of a server stays in a host's cache through a stop and a resize, as long as the server is on that host.
#[actix_rt::test]
async fn the_image_of_a_server_stays() {
    let world = world(2, Duration::ZERO);
    let life = living(&world).await;
    built(&life, SUBJECT).await;
    let sum = OneImage::snapshot().checksum;
    let here = life.host_of(&world, SUBJECT).unwrap();
    let stays = async |host: usize, what: &str| {
        rounds(&world, &life, 3).await;
        assert!(has(&world, host, &sum), "{what}");
        assert!(world.fleet.baseless().is_empty(), "{what}");
    };
    stays(here, "running").await;
    life.power(SUBJECT, PowerAction::Stop).await.unwrap();
    life.settled().await;
    stays(here, "stopped").await;
    life.resize(SUBJECT).await.unwrap();
    life.settled().await;
    let there = life.host_of(&world, SUBJECT).unwrap();
    assert_ne!(here, there);
    stays(here, "resized away, to be reverted").await;
    stays(there, "resized to").await;
    life.confirm_resize(SUBJECT).await.unwrap();
    life.settled().await;
    // No server is left on the first host.
    life.until(|_| !has(&world, here, &sum)).await;
    stays(there, "confirmed").await;
    life.delete(SUBJECT).await.unwrap();
    life.settled().await;
    life.until(|_| !has(&world, there, &sum)).await;
    life.stop().await;
    world.check().await;
}

/// The image also stays for a disk that only the host reports: a disk of another control plane, or an unknown disk.
#[actix_rt::test]
async fn the_backing_image_of_an_unknown_disk_stays() {
    let world = world(1, Duration::ZERO);
    let driver = world.fleet.drivers().remove(0);
    let image = put_image(driver.as_ref()).await;
    let guest = stranger(&image);
    let disk = DiskFile { suffix: "_disk".to_owned(), size: 14, capacity: 0, raw: false };
    driver.spawn(&guest).await.unwrap();
    let life = living(&world).await;
    let stays = async |what: &str| {
        rounds(&world, &life, 3).await;
        assert!(has(&world, 0, &image.checksum), "{what}");
    };
    stays("a guest").await;
    let content = driver.disk_transfer().unwrap().read_disk(STRANGER, &disk).await.unwrap();
    driver.disk_transfer().unwrap().receive_disk(STRANGER, &disk.kept(), content).await.unwrap();
    driver.stop(STRANGER, chronova_hypervisor::driver::StopMode::Hard).await.unwrap();
    stays("a guest that is off").await;
    driver.shared_storage().unwrap().undefine(STRANGER).await.unwrap();
    stays("a disk set aside, without a guest").await;
    driver.disk_transfer().unwrap().remove_disk(STRANGER, &disk.kept()).await.unwrap();
    life.until(|_| !has(&world, 0, &image.checksum)).await;
    life.stop().await;
}

#[actix_rt::test]
async fn on_one_storage_the_image_of_any_hosts_disk_stays() {
    let world = world(2, Duration::ZERO);
    world.fleet.share_storage(true);
    let drivers = world.fleet.drivers();
    let image = put_image(drivers[1].as_ref()).await;
    drivers[1].spawn(&stranger(&image)).await.unwrap();
    let life = living(&world).await;
    rounds(&world, &life, 3).await;
    assert!(has(&world, 0, &image.checksum));
    // A host that is down still has its disks.
    world.fleet.kill_host(1);
    life.hosts_up_of(1, 2).await;
    let looked = world.fleet.calls(DriverCall::CachedImages) + 4;
    life.until(|_| world.fleet.calls(DriverCall::CachedImages) >= looked).await;
    assert!(has(&world, 0, &image.checksum) && has(&world, 1, &image.checksum));
    world.fleet.revive_host(1, true).unwrap();
    life.hosts_up(2).await;
    drivers[1].destroy(STRANGER).await.unwrap();
    life.until(|_| !has(&world, 0, &image.checksum) && !has(&world, 1, &image.checksum)).await;
    life.stop().await;
}

/// The image exists, no disk is based on it yet, and it is old enough for removal.
#[actix_rt::test]
async fn the_image_of_a_guest_under_construction_stays() {
    for shared in [false, true] {
        let world = world(2, Duration::ZERO);
        world.fleet.share_storage(shared);
        let life = living(&world).await;
        world.brakes.hold("spawn");
        life.build(SUBJECT).await.unwrap();
        world.brakes.reached("spawn").await;
        let host = life.host_of(&world, SUBJECT).unwrap();
        rounds(&world, &life, 3).await;
        assert!(has(&world, host, &OneImage::snapshot().checksum));
        // The next control plane, which knows the guest from the log only, does not remove the image either.
        life.stop().await;
        let life = living(&world).await;
        rounds(&world, &life, 3).await;
        assert!(has(&world, host, &OneImage::snapshot().checksum));
        world.brakes.release("spawn");
        life.settled().await;
        assert_eq!(life.status(SUBJECT), "ACTIVE");
        life.stop().await;
        world.check().await;
    }
}

/// No server on the host uses the shelve image until the guest exists.
#[actix_rt::test]
async fn the_image_of_an_unshelve_stays() {
    let world = world(2, Duration::ZERO);
    let life = living(&world).await;
    offloaded(&life, SUBJECT).await;
    world.brakes.hold("spawn");
    life.unshelve(SUBJECT).await.unwrap();
    world.brakes.reached("spawn").await;
    let host = life.host_of(&world, SUBJECT).unwrap();
    let shelved = || world.fleet.images(host).into_iter().any(|sum| sum != OneImage::snapshot().checksum);
    rounds(&world, &life, 3).await;
    assert!(shelved());
    life.stop().await;
    let life = living(&world).await;
    rounds(&world, &life, 3).await;
    assert!(shelved());
    world.brakes.release("spawn");
    life.settled().await;
    assert_eq!(life.status(SUBJECT), "ACTIVE");
    life.stop().await;
    world.check().await;
}

/// A build starts after the sweep has decided to remove the image, but before the removal.
#[actix_rt::test]
async fn a_build_during_a_removal_fetches_the_image_again() {
    for shared in [false, true] {
        let world = world(1 + usize::from(shared), Duration::ZERO);
        world.fleet.share_storage(shared);
        let life = living(&world).await;
        world.brakes.hold("remove_image");
        built(&life, SUBJECT).await;
        life.delete(SUBJECT).await.unwrap();
        life.settled().await;
        world.brakes.reached("remove_image").await;
        life.build(STRANGER).await.unwrap();
        // The build waits and does not request the image from the host meanwhile.
        let asked = world.fleet.calls(DriverCall::EnsureImage);
        life.until(|context| {
            context
                .views
                .servers
                .read(|all| all.get(STRANGER).is_some_and(|row| row.server().is_some_and(|s| s.placement.is_some())))
        })
        .await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(world.fleet.calls(DriverCall::EnsureImage), asked);
        world.brakes.release("remove_image");
        life.settled().await;
        assert_eq!(life.status(STRANGER), "ACTIVE");
        life.stop().await;
        world.check().await;
    }
}

/// If the host fails or the answer is lost at any point, the next round completes the removal.
#[actix_rt::test]
async fn an_interrupted_removal_is_completed() {
    for call in [DriverCall::CachedImages, DriverCall::NoteIdle, DriverCall::RemoveImage] {
        for effect in [Effect::Refuse, Effect::LoseReply, Effect::DieBefore, Effect::DieAfter] {
            let world = world(1, Duration::ZERO);
            // The first check comes after the preparation.
            world.brakes.hold("cached_images");
            let life = living(&world).await;
            let image = put_image(world.fleet.drivers()[0].as_ref()).await;
            world.fleet.set_faults(0, FaultPlan::default().with(call, FaultTrigger::Always, effect));
            world.brakes.release("cached_images");
            life.until(|_| world.fleet.struck().contains_key(&effect)).await;
            world.fleet.set_faults(0, FaultPlan::default());
            // The control plane must know that the host is down before the host returns. Otherwise it would use the old
            // session for a build.
            if !world.fleet.is_alive(0) {
                life.until(|context| context.views.hosts.read(|hosts| hosts.all().all(|host| !host.up))).await;
            }
            world.fleet.revive_host(0, true).unwrap();
            life.until(|_| !has(&world, 0, &image.checksum)).await;
            life.hosts_up(1).await;
            // The host works again.
            life.build(SUBJECT).await.unwrap();
            life.settled().await;
            assert_eq!(life.status(SUBJECT), "ACTIVE");
            life.stop().await;
            world.check().await;
        }
    }
}

#[actix_rt::test]
async fn concurrent_hosts_that_fetch_images_in_advance_are_limited() {
    for (at_once, hosts) in [(1, 3), (2, 3), (9, 3)] {
        let mut world = World::new(hosts);
        world.options.image_cache.precache_concurrency = at_once;
        let life = living(&world).await;
        world.brakes.hold("ensure_image");
        let all = (0..hosts).map(|host| world.fleet.uri().host_id(host)).collect();
        let fetch = life.operations().cache_images(all, vec![OneImage::snapshot()], Meta::system("test"));
        let fetching = actix_rt::spawn(fetch);
        life.until(|_| world.brakes.count("ensure_image") == at_once.min(hosts)).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(world.brakes.count("ensure_image"), at_once.min(hosts));
        world.brakes.release("ensure_image");
        fetching.await.unwrap();
        assert!((0..hosts).all(|host| has(&world, host, &OneImage::snapshot().checksum)));
        life.stop().await;
    }
}

/// The DISK_GB inventory of the only host: total and reserved.
fn reserved(life: &Life) -> (u64, u64) {
    life.context().views.placement.read(|view| {
        let line = &view.ledger.providers.values().next().unwrap().inventories["DISK_GB"].inventory;
        (line.total, line.reserved)
    })
}

/// Without the option the whole disk is offered, regardless of the cache.
#[actix_rt::test]
async fn room_for_cached_images_is_reserved_by_option() {
    for (wanted, removes) in [(false, true), (true, true), (true, false)] {
        let mut world = world(1, Duration::from_hours(24));
        world.options.hosts.reserved_host_disk_mb = 1024;
        world.options.image_cache.reserve_disk = wanted;
        world.options.image_cache.remove_unused = removes;
        let life = living(&world).await;
        assert_eq!(reserved(&life), (100, 1));
        let driver = world.fleet.drivers().remove(0);
        let image = put_image(driver.as_ref()).await;
        if !wanted {
            rounds(&world, &life, 3).await;
            assert_eq!(reserved(&life), (100, 1));
            life.stop().await;
            continue;
        }
        // The reserved size is rounded up to a whole MiB, and then to a whole GiB.
        life.until(|_| reserved(&life) == (100, 2)).await;
        // The next control plane, and the host after its return, offer the same amounts.
        life.stop().await;
        let life = living(&world).await;
        world.fleet.kill_host(0);
        life.hosts_up_of(0, 1).await;
        world.fleet.revive_host(0, true).unwrap();
        life.hosts_up(1).await;
        assert_eq!(reserved(&life), (100, 2));
        driver.image_cache().unwrap().note_idle(&image.checksum, Some(ago(25))).await.unwrap();
        match removes {
            true => assert!(life.until(|_| reserved(&life) == (100, 1)).await),
            false => {
                rounds(&world, &life, 3).await;
                assert_eq!(reserved(&life), (100, 2));
            }
        }
        life.stop().await;
    }
}

/// The crash harness with caches that are constantly cleared: any image that no process or server holds is removed.
#[actix_rt::test]
async fn no_sweep_removes_an_image_of_a_crashed_process() {
    let build: Ask = |life, id| life.build(id).boxed_local();
    let rescue_it: Ask = |life, id| life.rescue(id).boxed_local();
    let rebuild_it: Ask = |life, id| life.rebuild(id, false).boxed_local();
    let unshelve_it: Ask = |life, id| life.unshelve(id).boxed_local();
    let resize: Ask = |life, id| life.resize(id).boxed_local();
    let proofs = [
        Case { definition: &build_instance::DEFINITION, failed: "ERROR", ..case(nothing, build, "ABSENT", "ACTIVE") },
        Case { definition: &rescue::DEFINITION, ..case(built, rescue_it, "ACTIVE", "RESCUE") },
        Case { definition: &rebuild::DEFINITION, failed: "ERROR", ..case(built, rebuild_it, "ACTIVE", "ACTIVE") },
        Case { definition: &unshelve::DEFINITION, ..case(offloaded, unshelve_it, "SHELVED_OFFLOADED", "ACTIVE") },
        Case { definition: &move_instance::DEFINITION, ..case(built, resize, "ACTIVE", "VERIFY_RESIZE") },
    ];
    for proof in proofs {
        prove(&Case { swept: true, ..proof }).await;
    }
}
