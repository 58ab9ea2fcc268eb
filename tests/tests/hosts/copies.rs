//! A copy of a log does not drive hosts beside its original.

use std::sync::Arc;
use std::time::Duration;

use chronova_actors::hosts::doubt::CopyDoubt;
use chronova_actors::hosts::fence::{self, LogIdentity};
use chronova_actors::instance::InstanceRequest;
use chronova_actors::ports::VolumeService as _;
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::{Meta, NewEvent, Position, Timestamp};
use chronova_events::ids::{InstanceId, ProcessId};
use chronova_events::installation::{CopyOrigin, GenerationBegun, InstallationEvent, LogGeneration};
use chronova_events::instance::PowerAction;
use chronova_events::store::memory::MemoryStore;
use chronova_events::store::{EventStore, Expected};
use chronova_hypervisor::capability::disk_transfer::DiskFile;
use chronova_hypervisor::capability::volume_store::VolumeContent;
use chronova_hypervisor::guest::VolumeDisk;
use chronova_hypervisor::sim::DriverCall;
use chronova_hypervisor::volumes;
use chronova_tests::world::{ADMIN, Life, World};
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
        while driver.owner_mark().unwrap().owner_of(installation).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn begin_generation(copy: &World, at: Timestamp) {
    let begun = GenerationBegun { generation: Uuid::from_u128(7), origin: CopyOrigin::Copied };
    let begun = NewEvent::new(InstallationEvent::from(begun), at, &Meta::system("test"));
    copy.log.append(&LogGeneration::stream(), Expected::Any, vec![begun]).await.unwrap();
}

/// `chronova host claim --all`
async fn claim(world: &World) {
    let owner = LogIdentity::of(&*world.log).await.unwrap().unwrap().owner;
    for driver in world.fleet.drivers() {
        fence::claim(driver.owner_mark().unwrap(), owner, SystemClock.now()).await.unwrap();
    }
}

/// A log that is restored now. The hosts of its original refuse this log until [`claim`] claims them for it.
async fn heir_of(original: &World) -> World {
    let copy = copy_of(original).await;
    begin_generation(&copy, SystemClock.now()).await;
    copy
}

/// Waits until every host was compared with the log a few times.
async fn compared(world: &World, life: &Life) {
    for call in [DriverCall::Guests, DriverCall::Leftovers] {
        let wanted = world.fleet.calls(call) + 4 * world.fleet.len() as u64;
        life.until(|_| world.fleet.calls(call) >= wanted).await;
    }
}

/// The number of runs of a reconciler.
fn runs(life: &Life, name: &str) -> u64 {
    life.leader.reconcilers().iter().find(|tally| tally.name == name).unwrap().read().runs
}

/// A stopped world with these servers. Its hosts remember its log.
async fn furnished(servers: &[u128]) -> World {
    let world = fenced(World::new(2));
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    for server in servers {
        built(&life, id(*server)).await;
    }
    marked(&world).await;
    life.stop().await;
    world
}

/// The original does not know what the copy did. A server that the copy moved must not lose its only guest.
#[actix_rt::test]
async fn an_original_that_takes_its_hosts_back_leaves_what_the_copy_moved() {
    let original = furnished(&[1]).await;
    let copy = heir_of(&original).await;
    claim(&copy).await;
    let second = copy.live(None, None).await;
    drives(&second, 2).await;
    let before = original.fleet.whereabouts()[&id(1)].clone();
    second.migrate(id(1)).await.unwrap();
    second.settled().await;
    second.confirm_resize(id(1)).await.unwrap();
    second.settled().await;
    second.stop().await;
    let moved = original.fleet.whereabouts()[&id(1)].clone();
    assert_ne!(before, moved);

    claim(&original).await;
    for _ in 0..2 {
        let first = original.live(None, None).await;
        drives(&first, 2).await;
        compared(&original, &first).await;
        assert_eq!(original.fleet.whereabouts().get(&id(1)), Some(&moved), "the server's only guest is gone");
        first.stop().await;
    }
    // Here the mark on the hosts does not say when the log claimed them. So the control plane treats the guest as a
    // leftover.
    let owner = LogIdentity::of(&*original.log).await.unwrap().unwrap().owner;
    for driver in original.fleet.drivers() {
        driver.owner_mark().unwrap().remember(owner).await.unwrap();
    }
    let first = original.live(None, None).await;
    drives(&first, 2).await;
    first.until(|_| !original.fleet.whereabouts().contains_key(&id(1))).await;
    first.stop().await;
}

/// Sets the server's disk aside on its host, as a move does.
async fn set_aside(world: &World, server: InstanceId) {
    let driver = world.fleet.drivers().remove(world.fleet.whereabouts()[&server][0]);
    let disk = DiskFile { suffix: "_disk".to_owned(), size: 14, capacity: 0, raw: false };
    let transfer = driver.disk_transfer().unwrap();
    let content = transfer.read_disk(server, &disk).await.unwrap();
    transfer.receive_disk(server, &disk.kept(), content).await.unwrap();
}

/// After the backup, the original reverted a move, restored one server, and moved another one. The restored log neither
/// confirms the reverted move nor reclaims the restored server, and keeps the disks that the original set aside.
#[actix_rt::test]
async fn a_restored_log_repairs_nothing_because_of_what_it_knows_from_before() {
    let original = furnished(&[1, 2, 3, 4]).await;
    let life = original.live(None, None).await;
    life.hosts_up(2).await;
    life.migrate(id(1)).await.unwrap();
    life.soft_delete(id(2)).await.unwrap();
    life.settled().await;
    assert_eq!((life.status(id(1)), life.status(id(2))), ("VERIFY_RESIZE", "SOFT_DELETED"));
    let mut copy = heir_of(&original).await;
    life.revert_resize(id(1)).await.unwrap();
    let restore = InstanceRequest::Restore { process: ProcessId::random(), asker: ADMIN };
    life.instance(id(2), restore).await.unwrap();
    life.migrate(id(3)).await.unwrap();
    life.settled().await;
    life.confirm_resize(id(3)).await.unwrap();
    life.settled().await;
    life.stop().await;
    set_aside(&original, id(4)).await;
    let (guests, kept) = (original.fleet.whereabouts(), original.fleet.kept());
    assert_eq!((guests.len(), kept.len()), (4, 1), "{guests:?} {kept:?}");

    copy.options.reconcile.resize_confirm_window = Duration::from_millis(1);
    copy.options.servers.reclaim_interval = Duration::from_millis(1);
    claim(&copy).await;
    let heir = copy.live(None, None).await;
    drives(&heir, 2).await;
    compared(&copy, &heir).await;
    for name in ["unconfirmed-moves", "deleted-servers"] {
        let before = runs(&heir, name);
        heir.until(|_| runs(&heir, name) >= before + 3).await;
    }
    assert_eq!(heir.status(id(1)), "VERIFY_RESIZE", "the restored log confirmed the move");
    assert_eq!(heir.status(id(2)), "SOFT_DELETED", "the restored log reclaimed the server");
    assert_eq!(original.fleet.whereabouts(), guests);
    assert_eq!(original.fleet.kept(), kept, "a disk that a revert may need is gone");
    // The restored log reclaims a server that it soft-deleted itself.
    built(&heir, id(5)).await;
    heir.soft_delete(id(5)).await.unwrap();
    heir.shows(id(5), "DELETED").await;
    heir.stop().await;
}

fn volume(serial: &str) -> VolumeDisk {
    VolumeDisk {
        serial: serial.to_owned(),
        pool: "volumes".to_owned(),
        volume: serial.to_owned(),
        network: None,
        format: "raw".to_owned(),
        readonly: false,
        shareable: false,
        device: "vdx".to_owned(),
        bus: "virtio".to_owned(),
        kind: "disk".to_owned(),
        boot_order: None,
    }
}

/// The original attached a volume after the backup.
#[actix_rt::test]
async fn a_restored_log_detaches_no_volume_that_its_original_attached() {
    let original = furnished(&[1]).await;
    let copy = heir_of(&original).await;
    let host = original.fleet.whereabouts()[&id(1)][0];
    let driver = original.fleet.drivers().remove(host);
    driver.volume_attachment().unwrap().attach_disk(id(1), &volume("newer")).await.unwrap();
    claim(&copy).await;
    let heir = copy.live(None, None).await;
    drives(&heir, 2).await;
    compared(&copy, &heir).await;
    assert_eq!(driver.volume_attachment().unwrap().disks(id(1)).await.unwrap(), ["newer"]);
    heir.stop().await;
    // If no copy has driven the hosts, the log corrects the guest.
    let owner = LogIdentity::of(&*original.log).await.unwrap().unwrap().owner;
    for driver in original.fleet.drivers() {
        driver.owner_mark().unwrap().remember(owner).await.unwrap();
    }
    let life = original.live(None, None).await;
    drives(&life, 2).await;
    compared(&original, &life).await;
    assert!(driver.volume_attachment().unwrap().disks(id(1)).await.unwrap().is_empty());
    life.stop().await;
}

/// The original may have given a volume of the server to another guest. A start keeps the guest's devices, and only a
/// hard reboot gives the guest those in the log.
#[actix_rt::test]
async fn a_start_from_a_restored_log_keeps_the_guests_definition() {
    let original = furnished(&[1]).await;
    let copy = heir_of(&original).await;
    claim(&copy).await;
    let heir = copy.live(None, None).await;
    drives(&heir, 2).await;
    compared(&copy, &heir).await;
    built(&heir, id(2)).await;
    let calls = || (original.fleet.calls(DriverCall::Redefine), original.fleet.calls(DriverCall::Start));
    for (server, action, shown, expected) in [
        (1, PowerAction::Stop, "SHUTOFF", (0, 0)),
        (1, PowerAction::Start, "ACTIVE", (0, 1)),
        (1, PowerAction::RebootHard, "ACTIVE", (1, 1)),
        // The restored log has built this server itself.
        (2, PowerAction::Stop, "SHUTOFF", (1, 1)),
        (2, PowerAction::Start, "ACTIVE", (2, 1)),
    ] {
        heir.power(id(server), action).await.unwrap();
        heir.settled().await;
        assert_eq!((heir.status(id(server)), calls()), (shown, expected), "{server} {action:?}");
    }
    heir.stop().await;
}

/// The original moved a volume to another host after the backup.
#[actix_rt::test]
async fn a_sweep_of_volumes_leaves_those_from_before_the_copy() {
    let world = World::new(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let volume = life.data_volume(("p", "u"), None, 1).await;
    let name = volumes::volume(volume);
    let here = (0..2).find(|host| world.fleet.volumes(*host).contains_key(&name)).unwrap();
    let other = 1 - here;
    let driver = world.fleet.drivers().remove(other);
    driver.volume_store().unwrap().create_volume(&name, 1 << 30, &VolumeContent::Blank).await.unwrap();
    let host = world.fleet.uri().host_id(other);
    life.volumes.sweep_host(host, &driver, CopyDoubt(Some(SystemClock.now()))).await;
    assert!(world.fleet.volumes(other).contains_key(&name), "the volume is gone, although it may be the only one");
    life.volumes.sweep_host(host, &driver, CopyDoubt::default()).await;
    assert!(!world.fleet.volumes(other).contains_key(&name));
    life.stop().await;
}

#[actix_rt::test]
async fn hosts_refuse_a_copy_of_their_log_until_they_are_claimed() {
    let original = fenced(World::new(2));
    let first = original.live(None, None).await;
    first.hosts_up(2).await;
    built(&first, id(1)).await;
    marked(&original).await;

    let copy = copy_of(&original).await;
    begin_generation(&copy, Timestamp(7)).await;
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

    claim(&copy).await;
    drives(&second, 2).await;
    drives(&first, 0).await;
    // The copy's own delete is certain, whatever the original did.
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
