//! Leftovers of a host that failed during an operation, and disks that must never count as leftovers.

use std::sync::Arc;

use chronova_actors::process::interference::{Interference, InterferenceVerdict, StepDirection};
use chronova_events::ids::InstanceId;
use chronova_events::instance::{PowerAction, Rotation};
use chronova_hypervisor::capability::disk_transfer::DiskFile;
use chronova_hypervisor::capability::storage_cleanup::Leftover;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::sim::{DriverCall, Effect, FaultPlan, FaultTrigger};
use chronova_tests::world::{Life, World};
use futures::FutureExt;
use uuid::Uuid;

use super::{Ask, built};

fn subject() -> InstanceId {
    InstanceId(Uuid::from_u128(0xCAFE))
}

/// A world with a server, and its host.
async fn with_a_server() -> (World, Life, usize) {
    let world = World::new(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    built(&life, subject()).await;
    let host = life.host_of(&world, subject()).unwrap();
    (world, life, host)
}

/// Waits until every host was compared with the log `times` more times.
async fn compared(world: &World, life: &Life, times: u64) {
    let wanted = world.fleet.calls(DriverCall::Leftovers) + (times + 1) * world.fleet.len() as u64;
    life.until(|_| world.fleet.calls(DriverCall::Leftovers) >= wanted).await;
}

const COPYING: [Ask; 3] = [
    |life, id| async move { life.snapshot(id, None).await.map(drop) }.boxed_local(),
    |life, id| {
        let backup = Some(Rotation { kind: "daily".to_owned(), keep: 1 });
        async move { life.snapshot(id, backup).await.map(drop) }.boxed_local()
    },
    |life, id| async move { life.shelve(id).await.map(drop) }.boxed_local(),
];

/// The host fails while it has a copy of the disk, so the process cannot remove the copy when it unwinds.
#[actix_rt::test]
async fn a_copy_on_a_failed_host_is_removed_when_the_host_is_back() {
    for ask in COPYING {
        for (call, survived) in
            [(DriverCall::CopyRoot, true), (DriverCall::CopyRoot, false), (DriverCall::ReadCopy, true)]
        {
            let (world, life, host) = with_a_server().await;
            world.fleet.set_faults(host, FaultPlan::default().with(call, FaultTrigger::Always, Effect::DieAfter));
            ask(&life, subject()).await.unwrap();
            life.settled().await;
            assert!(!world.fleet.is_alive(host));
            assert_eq!(world.fleet.copies().len(), 1, "the copy on the failed host is gone");
            world.fleet.set_faults(host, FaultPlan::default());
            world.fleet.revive_host(host, survived).unwrap();
            life.until(|_| world.fleet.copies().is_empty()).await;
            life.hosts_up(2).await;
            life.settled().await;
            life.stop().await;
            world.check().await;
        }
    }
}

/// The control plane crashes at every point while the copy is made or abandoned.
#[actix_rt::test]
async fn a_copy_on_a_failed_host_is_removed_after_any_crash() {
    for fuse in 1..=14 {
        let (world, life, host) = with_a_server().await;
        life.stop().await;
        world
            .fleet
            .set_faults(host, FaultPlan::default().with(DriverCall::CopyRoot, FaultTrigger::Always, Effect::DieAfter));
        let life = world.live(Some(fuse), None).await;
        life.hosts_up(2).await;
        let _ = life.snapshot(subject(), None).await;
        life.settled().await;
        life.stop().await;
        world.fleet.set_faults(host, FaultPlan::default());
        world.fleet.revive_host(host, fuse % 2 == 0).unwrap();
        let life = world.live(None, None).await;
        life.hosts_up(2).await;
        life.settled().await;
        life.stop().await;
        assert_eq!(world.fleet.copies(), [], "crashed at append {fuse}");
    }
}

/// The copy stays, however often the reconciler checks the host while the copy waits to be sent.
#[actix_rt::test]
async fn a_copy_that_is_about_to_be_sent_stays() {
    for ask in COPYING {
        for held in ["copy_root:answer", "read_copy"] {
            let (world, life, host) = with_a_server().await;
            world.brakes.hold(held);
            ask(&life, subject()).await.unwrap();
            world.brakes.reached(held).await;
            compared(&world, &life, 2).await;
            // The host disconnects and reconnects meanwhile.
            world.fleet.kill_host(host);
            world.fleet.revive_host(host, true).unwrap();
            compared(&world, &life, 2).await;
            assert_eq!(world.fleet.copies().len(), 1, "{held}");
            world.brakes.release(held);
            life.settled().await;
            assert_eq!(world.images.made().len(), 1, "{held}: the copy did not become an image");
            life.stop().await;
            world.check().await;
        }
    }
}

/// A control plane that has just started, and knows the copy from the log only, does not remove it either.
#[actix_rt::test]
async fn a_copy_that_the_next_control_plane_is_to_send_stays() {
    let (world, life, _) = with_a_server().await;
    world.brakes.hold("copy_root:answer");
    life.snapshot(subject(), None).await.unwrap();
    world.brakes.reached("copy_root:answer").await;
    life.stop().await;
    world.brakes.release("copy_root:answer");
    world.brakes.hold("read_copy");
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    world.brakes.reached("read_copy").await;
    compared(&world, &life, 2).await;
    assert_eq!(world.fleet.copies().len(), 1);
    world.brakes.release("read_copy");
    life.settled().await;
    assert_eq!(world.images.made().len(), 1);
    life.stop().await;
    world.check().await;
}

fn set_aside() -> DiskFile {
    DiskFile { suffix: "_disk".to_owned(), size: 14, capacity: 0, raw: false }.kept()
}

async fn put(driver: &dyn Driver, instance: InstanceId) {
    let disk = DiskFile { suffix: "_disk".to_owned(), ..set_aside() };
    let content = driver.disk_transfer().unwrap().read_disk(subject(), &disk).await.unwrap();
    driver.disk_transfer().unwrap().receive_disk(instance, &set_aside(), content).await.unwrap();
}

#[actix_rt::test]
async fn a_disk_set_aside_that_no_move_needs_is_removed() {
    let (world, life, host) = with_a_server().await;
    let driver = world.fleet.drivers().remove(host);
    put(driver.as_ref(), subject()).await;
    life.until(|_| world.fleet.kept().is_empty()).await;
    // A disk of a server of another control plane, which is not in this log.
    let stranger = InstanceId(Uuid::from_u128(0xBEEF));
    put(driver.as_ref(), stranger).await;
    compared(&world, &life, 2).await;
    let left = Leftover::Kept { instance: stranger, suffix: set_aside().suffix };
    assert_eq!(driver.storage_cleanup().unwrap().leftovers().await.unwrap(), [left]);
    driver.disk_transfer().unwrap().remove_disk(stranger, &set_aside()).await.unwrap();
    life.stop().await;
    world.check().await;
}

#[actix_rt::test]
async fn a_disk_set_aside_for_a_revert_stays() {
    for shared in [false, true] {
        let mut world = World::new(if shared { 2 } else { 1 });
        world.options.processes.allow_resize_to_same_host = true;
        world.fleet.share_storage(shared);
        let life = world.live(None, None).await;
        life.hosts_up(world.fleet.len()).await;
        built(&life, subject()).await;
        // The disk also stays while it is being set aside.
        world.brakes.hold("receive_disk:answer");
        life.resize(subject()).await.unwrap();
        world.brakes.reached("receive_disk:answer").await;
        compared(&world, &life, 2).await;
        assert_eq!(world.fleet.kept(), [subject()]);
        world.brakes.release("receive_disk:answer");
        life.shows(subject(), "VERIFY_RESIZE").await;
        life.settled().await;
        compared(&world, &life, 2).await;
        assert_eq!(world.fleet.kept(), [subject()]);
        life.stop().await;
        world.check().await;
    }
}

/// The host attaches or detaches the interface, and fails before it answers. The server's record does not change.
#[actix_rt::test]
async fn a_guest_has_the_interfaces_of_its_server_when_its_host_is_back() {
    for (detaches, survived) in [(false, true), (false, false), (true, true), (true, false)] {
        let (world, life, host) = with_a_server().await;
        let id = subject();
        if detaches {
            life.attach_nic(id).await.unwrap();
            life.settled().await;
        }
        let nics = || world.fleet.guests(host)[&id].nics.len();
        let before = nics();
        let call = if detaches { DriverCall::DetachNic } else { DriverCall::AttachNic };
        world.fleet.set_faults(host, FaultPlan::default().with(call, FaultTrigger::Always, Effect::DieAfter));
        match detaches {
            true => life.detach_nic(id).await.unwrap(),
            false => life.attach_nic(id).await.unwrap(),
        }
        life.settled().await;
        assert_eq!(nics(), if detaches { before - 1 } else { before + 1 }, "the call had no effect on the guest");
        assert_eq!(life.instance_now(id).alive().unwrap().nics.len(), before);
        world.fleet.set_faults(host, FaultPlan::default());
        world.fleet.revive_host(host, survived).unwrap();
        life.until(|_| nics() == before).await;
        life.hosts_up(2).await;
        life.stop().await;
        world.check().await;
    }
}

/// The host attaches or detaches the volume, and fails before it answers. The server's record does not change.
#[actix_rt::test]
async fn a_guest_has_the_volumes_of_its_server_when_its_host_is_back() {
    for (detaches, survived) in [(false, true), (false, false), (true, true), (true, false)] {
        let (world, life, host) = with_a_server().await;
        let id = subject();
        life.volume_beside(id, 1).await;
        let call = match detaches {
            true => {
                life.attach(id, 1).await.unwrap();
                life.settled().await;
                DriverCall::DetachDisk
            }
            false => DriverCall::AttachDisk,
        };
        let volumes = || world.fleet.guests(host)[&id].volumes.len();
        world.fleet.set_faults(host, FaultPlan::default().with(call, FaultTrigger::Always, Effect::DieAfter));
        match detaches {
            true => life.detach(id, 1).await.unwrap(),
            false => life.attach(id, 1).await.unwrap(),
        }
        life.settled().await;
        assert_eq!(volumes(), usize::from(!detaches), "the call had no effect on the guest");
        assert_eq!(life.instance_now(id).alive().unwrap().disks.len(), usize::from(detaches));
        world.fleet.set_faults(host, FaultPlan::default());
        world.fleet.revive_host(host, survived).unwrap();
        life.until(|_| volumes() == usize::from(detaches)).await;
        life.hosts_up(2).await;
        life.stop().await;
        world.check().await;
    }
}

/// A process detaches a device while the agent of a new control plane compares the host with the log.
#[actix_rt::test]
async fn a_comparison_does_not_attach_a_device_that_a_process_detaches_meanwhile() {
    for (paused, attaches) in [("nics", DriverCall::AttachNic), ("disks", DriverCall::AttachDisk)] {
        let world = World::new(1);
        let life = world.live(None, None).await;
        life.hosts_up(1).await;
        let id = subject();
        built(&life, id).await;
        life.attach_nic(id).await.unwrap();
        life.settled().await;
        life.volume_beside(id, 1).await;
        life.attach(id, 1).await.unwrap();
        life.settled().await;
        life.stop().await;
        world.brakes.hold(paused);
        let life = world.live(None, None).await;
        world.brakes.reached(paused).await;
        let before = world.fleet.calls(attaches);
        match attaches {
            DriverCall::AttachNic => life.detach_nic(id).await.unwrap(),
            _ => life.detach(id, 1).await.unwrap(),
        }
        life.settled().await;
        world.brakes.release(paused);
        compared(&world, &life, 2).await;
        assert_eq!(world.fleet.calls(attaches), before, "{paused}: the guest got the detached device again");
        life.stop().await;
        world.check().await;
    }
}

/// A guest lacks a device, and a process detaches the device from the server after the agent has read the read model.
/// Another server may then have the volume.
#[actix_rt::test]
async fn a_missing_device_is_not_attached_after_its_server_has_lost_it() {
    for attaches in [DriverCall::AttachNic, DriverCall::AttachDisk] {
        let world = World::new(1);
        let life = world.live(None, None).await;
        life.hosts_up(1).await;
        let id = subject();
        built(&life, id).await;
        life.attach_nic(id).await.unwrap();
        life.settled().await;
        life.volume_beside(id, 1).await;
        life.attach(id, 1).await.unwrap();
        life.settled().await;
        let mac = life.instance_now(id).alive().unwrap().nics.last().unwrap().mac.clone();
        life.stop().await;
        let driver = world.fleet.drivers().remove(0);
        match attaches {
            DriverCall::AttachNic => driver.interfaces().unwrap().detach_nic(id, &mac).await.unwrap(),
            _ => {
                let volume = world.fleet.guests(0)[&id].volumes.first().unwrap().clone();
                driver.volume_attachment().unwrap().detach_disk(id, &volume).await.unwrap();
            }
        }
        world.brakes.hold("abandon_swap");
        let life = world.live(None, None).await;
        world.brakes.reached("abandon_swap").await;
        let before = world.fleet.calls(attaches);
        match attaches {
            DriverCall::AttachNic => life.detach_nic(id).await.unwrap(),
            _ => life.detach(id, 1).await.unwrap(),
        }
        life.settled().await;
        world.brakes.release("abandon_swap");
        compared(&world, &life, 2).await;
        assert_eq!(
            world.fleet.calls(attaches),
            before,
            "{attaches:?}: the guest got a device that its server has lost"
        );
        life.stop().await;
        world.check().await;
    }
}

/// No interface's port is released.
struct KeptPorts;

impl Interference for KeptPorts {
    fn judge(&self, process: &'static str, step: &'static str, way: StepDirection) -> InterferenceVerdict {
        match (process, step, way) {
            ("detach_interface", "release_port", StepDirection::Run) => InterferenceVerdict::FailBefore,
            _ => InterferenceVerdict::Pass,
        }
    }
}

/// The server keeps the port of an interface that its guest has lost, and the host refuses the interface. Then the
/// process ends nevertheless, and the host's agent attaches the interface as soon as the host accepts it.
#[actix_rt::test]
async fn a_failed_detachment_ends_although_the_host_refuses_the_interface() {
    let world = World::new(1);
    let life = world.live(None, Some(Arc::new(KeptPorts) as Arc<dyn Interference>)).await;
    life.hosts_up(1).await;
    let id = subject();
    built(&life, id).await;
    life.attach_nic(id).await.unwrap();
    life.settled().await;
    let nics = || world.fleet.guests(0)[&id].nics.len();
    let before = nics();
    let refusal = FaultPlan::default().with(DriverCall::AttachNic, FaultTrigger::Always, Effect::Refuse);
    world.fleet.set_faults(0, refusal);
    life.detach_nic(id).await.unwrap();
    life.settled().await;
    assert_eq!((nics(), life.instance_now(id).alive().unwrap().nics.len()), (before - 1, before));
    world.fleet.set_faults(0, FaultPlan::default());
    life.until(|_| nics() == before).await;
    life.stop().await;
    world.check().await;
}

/// A server whose guest has a foreign interface, because the host failed while it attached the interface. The host is
/// back, but cannot detach the interface.
async fn with_a_foreign_interface() -> (World, Life, usize) {
    let (world, life, host) = with_a_server().await;
    let faults = |call, effect| FaultPlan::default().with(call, FaultTrigger::Always, effect);
    world.fleet.set_faults(host, faults(DriverCall::AttachNic, Effect::DieAfter));
    life.attach_nic(subject()).await.unwrap();
    life.settled().await;
    life.hosts_up_of(1, 2).await;
    world.fleet.set_faults(host, faults(DriverCall::DetachNic, Effect::Refuse));
    world.fleet.revive_host(host, true).unwrap();
    life.hosts_up(2).await;
    (world, life, host)
}

/// A live migration takes the foreign interface to a host that was never away.
#[actix_rt::test]
async fn a_migrated_guest_loses_an_interface_that_its_source_could_not_detach() {
    let (world, life, host) = with_a_foreign_interface().await;
    let (id, other) = (subject(), 1 - host);
    life.live_migrate(id).await.unwrap();
    life.settled().await;
    assert_eq!(life.host_of(&world, id), Some(other));
    life.until(|_| world.fleet.guests(other)[&id].nics.len() == 1).await;
    life.stop().await;
    world.check().await;
}

/// A suspended guest keeps its devices until it is resumed.
#[actix_rt::test]
async fn a_resumed_guest_loses_an_interface_that_is_not_its_servers() {
    let (world, life, host) = with_a_foreign_interface().await;
    let id = subject();
    life.power(id, PowerAction::Suspend).await.unwrap();
    life.shows(id, "SUSPENDED").await;
    life.settled().await;
    world.fleet.set_faults(host, FaultPlan::default());
    compared(&world, &life, 2).await;
    assert_eq!(world.fleet.guests(host)[&id].nics.len(), 2, "a device in a saved memory was changed");
    life.power(id, PowerAction::Resume).await.unwrap();
    life.until(|_| world.fleet.guests(host)[&id].nics.len() == 1).await;
    life.settled().await;
    life.stop().await;
    world.check().await;
}

/// The host detaches a foreign interface only after the server was shelved or soft-deleted. The guest would start with
/// the interface.
#[actix_rt::test]
async fn a_guest_that_is_off_loses_an_interface_that_is_not_its_servers() {
    let turned_off: [(Ask, &str); 2] = [
        (|life, id| life.shelve(id).boxed_local(), "SHELVED"),
        (|life, id| life.soft_delete(id).boxed_local(), "SOFT_DELETED"),
    ];
    for (ask, status) in turned_off {
        let (world, life, host) = with_a_foreign_interface().await;
        let id = subject();
        let nics = || world.fleet.guests(host)[&id].nics.len();
        ask(&life, id).await.unwrap();
        life.shows(id, status).await;
        life.settled().await;
        assert_eq!(nics(), 2, "{status}: the foreign interface is gone too early");
        world.fleet.set_faults(host, FaultPlan::default());
        life.until(|_| nics() == 1).await;
        life.stop().await;
        world.check().await;
    }
}
