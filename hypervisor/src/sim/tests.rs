#![allow(clippy::unwrap_used)]
use super::*;
use crate::capability::volume_store::VolumeContent;
use crate::conformance::{self, Fixture};
use crate::guest::{NetworkSpec, Nic, NicDevice, NicDeviceForm, NicPlug, PowerState, SubnetSpec, VolumeDisk};
use crate::mdev::{GuestMdev, MdevParent};
use crate::pci::PassedDevice;
use crate::pinning::Pinning;
use chronova_events::ids::{ImageId, NetworkId, PortId};
use std::io::Write as _;

fn fleet(text: &str) -> Arc<SimFleet> {
    SimFleet::new(text.parse().unwrap())
}

fn guest(n: u128) -> GuestSpec {
    GuestSpec {
        instance: InstanceId(uuid::Uuid::from_u128(n)),
        domain_name: format!("instance-{n:08x}"),
        display_name: "vm".to_owned(),
        flavor_name: "tiny".to_owned(),
        project: "p".into(),
        user: "u".into(),
        vcpus: 1,
        memory_mib: 128,
        root: None,
        ephemerals_gib: vec![],
        swap_mib: 0,
        volumes: vec![],
        nics: Vec::new(),
        config_drive: None,
        hardware: Vec::new(),
        rescue: None,
        pinning: Pinning::default(),
        devices: vec![],
        mdevs: vec![],
        tpm_secret: None,
    }
}

fn fixture() -> Fixture {
    let (image, content) = conformance::pretended_image();
    let subnet = SubnetSpec { cidr: "10.0.0.0/24".to_owned(), gateway: None, dhcp: true, dns: Vec::new() };
    Fixture {
        image,
        content,
        network: NetworkSpec { network: NetworkId::random(), mtu: 0, subnets: vec![subnet], reservations: Vec::new() },
        address: "10.0.0.5".to_owned(),
        config_drive: Bytes::new(),
        ready: "GUEST-READY".to_owned(),
        memory_mib: 128,
        patience: Duration::from_secs(30),
        filters: true,
        volumes: Some([volume("one"), volume("two")]),
    }
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

#[tokio::test]
async fn a_guest_may_refuse_to_release_a_disk_and_its_disks_survive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let instance = InstanceId(uuid::Uuid::from_u128(1));
    let open = || SimFleet::open(SimUri::new(1), folder.path()).unwrap();
    {
        let fleet = open();
        let driver = fleet.drivers().remove(0);
        driver.spawn(&GuestSpec { volumes: vec![volume("root")], ..guest(1) }).await.unwrap();
        driver.volume_attachment().unwrap().attach_disk(instance, &volume("more")).await.unwrap();
        fleet.set_clings(0, instance, true).unwrap();
        let kept = driver.volume_attachment().unwrap().detach_disk(instance, "more").await;
        assert!(matches!(kept, Err(DriverError::Failed { .. })), "{kept:?}");
    }
    let fleet = open();
    assert_eq!(fleet.disks(), [(instance, "more".to_owned()), (instance, "root".to_owned())]);
    let driver = fleet.drivers().remove(0);
    driver.stop(instance, StopMode::Hard).await.unwrap();
    driver.volume_attachment().unwrap().detach_disk(instance, "more").await.unwrap();
    assert_eq!(driver.volume_attachment().unwrap().disks(instance).await.unwrap(), ["root"]);
}

#[tokio::test]
async fn a_repeated_creation_needs_no_room_of_its_own() {
    let driver = fleet("sim://1?disk_gib=1").drivers().remove(0);
    let store = driver.volume_store().unwrap();
    for _ in 0..2 {
        store.create_volume("volume-1", 1 << 30, &VolumeContent::Blank).await.unwrap();
    }
    assert_eq!(store.volume_pool().await.unwrap().free, 0);
    let second = store.create_volume("volume-2", 1 << 30, &VolumeContent::Blank).await;
    assert!(matches!(second, Err(DriverError::NoRoom(_))), "{second:?}");
}

#[tokio::test]
async fn every_host_reaches_the_volumes_of_a_shared_pool_and_a_deleted_one_stays_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let open = || SimFleet::open_with_shared_volumes(SimUri::new(2), folder.path()).unwrap();
    {
        let drivers = open().drivers();
        let [first, second] = [0, 1].map(|host: usize| drivers[host].volume_store().unwrap());
        for name in ["snapshot", "unwanted"] {
            first.create_volume(name, 1 << 30, &VolumeContent::Blank).await.unwrap();
        }
        let copy = VolumeContent::Copy { of: "snapshot".to_owned(), user: None };
        second.create_volume("copy", 1 << 30, &copy).await.unwrap();
        second.delete_volume("unwanted").await.unwrap();
    }
    for _ in 0..2 {
        let fleet = open();
        for host in 0..2 {
            assert_eq!(fleet.volumes(host).into_keys().collect::<Vec<_>>(), ["copy", "snapshot"]);
        }
    }
}

#[tokio::test]
async fn a_simulated_host_conforms() {
    conformance::run(fleet("sim://1").drivers().remove(0), fixture()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_simulated_host_conforms() {
    let slow = fleet("sim://1?seed=3&latency_ms=20&boot_ms=2000");
    conformance::run(slow.drivers().remove(0), fixture()).await.unwrap();
}

#[test]
fn uris_parse() {
    let uri: SimUri = "sim://12?name=lab&seed=5&latency_ms=7&vcpus=4&fail=spawn:p0.5+destroy:lost-n3".parse().unwrap();
    assert_eq!((uri.hosts, uri.seed, uri.vcpus, uri.latency), (12, 5, 4, Duration::from_millis(7)));
    assert_eq!(uri.hostname(0), "lab-0001");
    let faults = FaultPlan::default().with(DriverCall::Spawn, FaultTrigger::Chance(0.5), Effect::Refuse).with(
        DriverCall::Destroy,
        FaultTrigger::Nth(3),
        Effect::LoseReply,
    );
    assert_eq!(uri.faults, faults);
    let again: SimUri = "sim://12?name=lab".parse().unwrap();
    assert_eq!(uri.host_id(3), again.host_id(3));
    assert_ne!(uri.host_id(3), uri.host_id(4));
    for bad in [
        "sim://",
        "sim://0",
        "sim://x",
        "sim://1?nope=1",
        "sim://1?seed=x",
        "sim://1?fail=spawn",
        "sim://1?fail=fly:n1",
    ] {
        assert!(bad.parse::<SimUri>().is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_call_with_a_lost_reply_was_performed() {
    let fleet = fleet("sim://1");
    fleet.set_faults(0, FaultPlan::default().with(DriverCall::Spawn, FaultTrigger::Nth(1), Effect::LoseReply));
    let driver = &fleet.drivers()[0];
    let lost = driver.spawn(&guest(1)).await;
    assert!(matches!(lost, Err(DriverError::Timeout { .. })));
    assert_eq!(driver.guests().await.unwrap().len(), 1);
    driver.spawn(&guest(1)).await.unwrap();
    assert_eq!((fleet.guests(0).len(), fleet.calls(DriverCall::Spawn)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_takes_long_and_is_counted() {
    let fleet = fleet("sim://1?fail=spawn:slow-n1");
    let driver = &fleet.drivers()[0];
    // The paused clock advances only when all tasks sleep.
    let (first, second) = (guest(1), guest(2));
    let mut slow = driver.spawn(&first);
    assert!(tokio::time::timeout(faults::SLOW / 2, &mut slow).await.is_err(), "the slow call ended early");
    slow.await.unwrap();
    tokio::time::timeout(faults::SLOW / 2, driver.spawn(&second)).await.expect("the second call is slow").unwrap();
    assert_eq!(fleet.struck().into_iter().collect::<Vec<_>>(), [(Effect::Slow, 1)]);
}

#[tokio::test(start_paused = true)]
async fn no_call_of_a_dead_control_plane_reaches_a_host() {
    let fleet = fleet("sim://1?latency_ms=10");
    let dead = Arc::new(AtomicBool::new(false));
    let driver = fleet.drivers_until(&dead).remove(0);
    driver.spawn(&guest(1)).await.unwrap();
    let (before, under_way) = (guest(2), guest(3));
    let (lost, ()) = tokio::join!(driver.spawn(&under_way), async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        dead.store(true, Ordering::SeqCst);
    });
    assert!(matches!(lost, Err(DriverError::Unreachable(_))));
    assert!(matches!(driver.spawn(&before).await, Err(DriverError::Unreachable(_))));
    assert_eq!(fleet.guests(0).into_keys().collect::<Vec<_>>(), [guest(1).instance]);
    assert_eq!(fleet.drivers()[0].guests().await.unwrap().len(), 1, "the guest must still be there");
}

#[tokio::test]
async fn a_torn_spawn_leaves_an_orphan_that_destroy_removes() {
    let fleet = fleet("sim://1?fail=spawn:tear-n1");
    let driver = &fleet.drivers()[0];
    assert!(driver.spawn(&guest(1)).await.is_err());
    assert_eq!(driver.storage_cleanup().unwrap().orphans().await.unwrap(), vec![guest(1).instance]);
    driver.destroy(guest(1).instance).await.unwrap();
    assert!(fleet.leaks().is_empty());
}

#[tokio::test]
async fn hosts_die_and_return() {
    let fleet = fleet("sim://2");
    let driver = &fleet.drivers()[1];
    driver.spawn(&guest(1)).await.unwrap();
    let mut signals = driver.watch();
    assert_eq!(signals.next().await, Some(HostSignal::Connected));
    fleet.kill_host(1);
    assert!(matches!(signals.next().await, Some(HostSignal::Disconnected { .. })));
    assert!(matches!(driver.guests().await, Err(DriverError::Unreachable(_))));
    fleet.revive_host(1, false).unwrap();
    assert_eq!(signals.next().await, Some(HostSignal::Connected));
    assert_eq!(driver.guest(guest(1).instance).await.unwrap().power, PowerState::Shutdown);
    assert_eq!(fleet.whereabouts().get(&guest(1).instance), Some(&vec![1]));
    fleet.drivers()[0].spawn(&guest(1)).await.unwrap();
    assert_eq!(fleet.doubles(), vec![guest(1).instance]);
}

#[tokio::test(start_paused = true)]
async fn a_deaf_guest_refuses_a_soft_reboot_but_is_stopped() {
    let fleet = fleet("sim://1");
    let driver = &fleet.drivers()[0];
    let instance = guest(1).instance;
    driver.spawn(&guest(1)).await.unwrap();
    fleet.set_deaf(0, instance, true).unwrap();
    assert!(matches!(driver.reboot_soft(instance, 120).await, Err(DriverError::Failed { .. })));
    assert_eq!(fleet.guests(0)[&instance].boots, 1);
    driver.stop(instance, StopMode::Graceful { timeout_seconds: 60 }).await.unwrap();
    assert_eq!(driver.guest(instance).await.unwrap().power, PowerState::Shutdown);
}

#[tokio::test]
async fn changes_of_a_guest_are_signalled() {
    let fleet = fleet("sim://1");
    let driver = &fleet.drivers()[0];
    let instance = guest(1).instance;
    driver.spawn(&guest(1)).await.unwrap();
    let mut signals = driver.watch();
    fleet.crash_guest(0, instance).unwrap();
    fleet.lose_guest(0, instance).unwrap();
    let heard: Vec<_> = signals.by_ref().take(3).collect().await;
    let expected = [
        HostSignal::Connected,
        HostSignal::Guest { instance, power: PowerState::Shutdown },
        HostSignal::GuestGone { instance },
    ];
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    async fn outcomes(seed: u64) -> Vec<bool> {
        let fleet = fleet(&format!("sim://1?seed={seed}&fail=spawn:p0.3"));
        let driver = fleet.drivers().remove(0);
        let mut outcomes = Vec::new();
        for n in 0..64 {
            outcomes.push(driver.spawn(&guest(n)).await.is_ok());
        }
        outcomes
    }
    assert_eq!(outcomes(1).await, outcomes(1).await);
    assert_ne!(outcomes(1).await, outcomes(2).await);
}

struct Source(Bytes);
#[async_trait]
impl ImageSource for Source {
    async fn open(&self, _: &ImageRef) -> DriverResult<crate::driver::ByteStream> {
        Ok(Box::pin(futures::stream::iter([Ok(self.0.clone())])))
    }
}

#[tokio::test]
async fn state_survives_the_process_and_a_torn_last_line() {
    let directory = tempfile::tempdir().unwrap();
    let open = || SimFleet::open(SimUri::new(2), directory.path()).unwrap();
    let (image, content) = conformance::pretended_image();
    {
        let fleet = open();
        let driver = &fleet.drivers()[1];
        driver.ensure_image(&image, Arc::new(Source(content))).await.unwrap();
        for n in 1..=3 {
            driver.spawn(&guest(n)).await.unwrap();
        }
        driver.stop(guest(2).instance, StopMode::Hard).await.unwrap();
        driver.destroy(guest(3).instance).await.unwrap();
    }
    let path = directory.path().join("sim.fleet");
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"1 define 0000").unwrap();
    for _ in 0..2 {
        let fleet = open();
        let driver = &fleet.drivers()[1];
        let found: Vec<_> = driver.guests().await.unwrap().into_iter().map(|g| (g.domain_name, g.power)).collect();
        let expected = [("instance-00000001", PowerState::Running), ("instance-00000002", PowerState::Shutdown)];
        assert_eq!(found, expected.map(|(name, power)| (name.to_owned(), power)));
        assert!(fleet.machine(1).has_image(&image));
        assert!(!fleet.machine(1).has_image(&ImageRef {
            id: ImageId::random(),
            checksum: "x".to_owned(),
            ..image.clone()
        }));
    }
    std::fs::write(&path, "nonsense\n1 on 0\n").unwrap();
    assert!(matches!(SimFleet::open(SimUri::new(2), directory.path()), Err(JournalError::Damaged { line: 1, .. })));
}

#[test]
fn the_uri_describes_the_devices_of_each_machine() {
    let uri: SimUri = "sim://2?cells=2&pci=10de:1eb8*2,8086:10FB/10ed*9@1,1af4:1000@-".parse().unwrap();
    let found = pci::devices(&uri.pci, uri.cells.min(uri.vcpus));
    let line = |device: &crate::pci::PciDevice| {
        let cell = device.cell.map_or("-".to_owned(), |cell| cell.to_string());
        format!("{} {}:{} {} {cell}", device.address, device.vendor, device.product, device.kind.word())
    };
    let lines: Vec<String> = found.devices.iter().map(line).collect();
    assert_eq!(lines[0], "0000:10:00.0 10de:1eb8 type-PCI 0");
    assert_eq!(lines[1], "0000:11:00.0 10de:1eb8 type-PCI 1");
    assert_eq!(lines[2], "0000:12:00.0 8086:10fb type-PF 1");
    assert_eq!(lines[3], "0000:12:01.0 8086:10ed type-VF 1");
    assert_eq!(lines[11], "0000:12:02.0 8086:10ed type-VF 1");
    assert_eq!(lines[12], "0000:13:00.0 1af4:1000 type-PCI -");
    assert_eq!(found.devices[11].parent, Some(found.devices[2].address));
    assert_eq!(found.sockets, [(0, 0), (1, 0)]);
    let (card, last) = (&found.devices[2], &found.devices[11].nic);
    assert_eq!((card.card_serial.as_deref(), card.nic.mac.as_deref()), (Some("SIM0012"), Some("02:51:00:12:00:00")));
    assert_eq!((last.function, last.interface.as_deref(), &last.vdpa), (Some(8), Some("enp18s0v8"), &None));
    let vdpa = pci::devices(&"15b3:101d/101ev*2".parse().unwrap(), 0).devices.remove(2);
    assert_eq!((vdpa.kind.word(), vdpa.product.as_str(), vdpa.cell), ("vdpa", "101e", None));
    assert_eq!((vdpa.nic.vdpa.as_deref(), vdpa.nic.function), (Some("/dev/vhost-vdpa-16-1"), Some(1)));
    for wrong in ["", "10de", "10de:1eb8*0", "10de:1eb8*249", "10de:1ebg", "10de:1eb8@x", "8086:10fb/1*2", "10de:1eb8v"]
    {
        assert!(format!("sim://1?pci={wrong}").parse::<SimUri>().is_err(), "{wrong}");
    }
}

/// As in libvirt, a guest cannot take the device of an interface from another guest, and no interface lacks its device.
#[tokio::test]
async fn an_interface_has_its_device_for_itself() {
    let fleet = fleet("sim://1?pci=8086:10fb/10ed*2");
    let found = pci::devices(&fleet.uri().pci, 0).devices;
    let nic = |mac: &str, device: Option<usize>| Nic {
        port: PortId::random(),
        network: NetworkId(uuid::Uuid::nil()),
        mac: mac.to_owned(),
        mtu: 1500,
        filter: None,
        tap: "tap".to_owned(),
        plug: NicPlug::Device(NicDevice {
            form: NicDeviceForm::HostDevice,
            vlan: None,
            device: device.map(|at| PassedDevice { address: found[at].address, managed: true }),
            name: None,
        }),
    };
    let driver = fleet.drivers().remove(0);
    let interfaces = driver.interfaces().unwrap();
    let (one, two) = (guest(1), guest(2));
    for spec in [&one, &two] {
        driver.spawn(spec).await.unwrap();
    }
    for _ in 0..2 {
        interfaces.attach_nic(one.instance, &nic("a", Some(1)), &[]).await.unwrap();
    }
    let refused = interfaces.attach_nic(two.instance, &nic("b", Some(1)), &[]).await.unwrap_err().to_string();
    assert!(refused.contains("is in use by domain"), "{refused}");
    let refused = interfaces.attach_nic(two.instance, &nic("b", None), &[]).await.unwrap_err().to_string();
    assert!(refused.contains("names no device"), "{refused}");
    interfaces.attach_nic(two.instance, &nic("b", Some(2)), &[]).await.unwrap();
    interfaces.detach_nic(one.instance, "a").await.unwrap();
    let count = |instance| fleet.guests(0)[&instance].all_devices().count();
    assert_eq!((count(one.instance), count(two.instance)), (0, 1), "a detached interface keeps its device");
    interfaces.attach_nic(two.instance, &nic("c", Some(1)), &[]).await.unwrap();
    assert_eq!(count(two.instance), 2);
}

#[test]
fn gpus_offer_types_of_mediated_devices() {
    let uri: SimUri = "sim://1?mdev=nvidia-35*4/nvidia-36*2,nvidia-35*1".parse().unwrap();
    let mut machine = SimMachine::new(&Arc::new(uri), 0);
    let line = |machine: &SimMachine| {
        let gpu = |gpu: &MdevParent| {
            let types = gpu.types.iter().map(|one| format!(" {}:{}+{}", one.name, one.available, one.existing));
            gpu.address.to_string() + &types.collect::<String>()
        };
        machine.mdevs().iter().map(gpu).collect::<Vec<_>>()
    };
    assert_eq!(line(&machine), ["0000:80:00.0 nvidia-35:4+0 nvidia-36:2+0", "0000:81:00.0 nvidia-35:1+0"]);
    let one = |n: u128, mdev_type: &str| GuestMdev {
        uuid: uuid::Uuid::from_u128(n),
        parent: "0000:80:00.0".parse().unwrap(),
        mdev_type: mdev_type.to_owned(),
    };
    let (first, second) = (InstanceId(uuid::Uuid::from_u128(1)), InstanceId(uuid::Uuid::from_u128(2)));
    machine.keep_guest(first, SimGuest::defined("first", 0));
    machine.give_mdevs(first, &[one(1, "nvidia-36")]);
    assert_eq!(line(&machine)[0], "0000:80:00.0 nvidia-35:0+0 nvidia-36:1+1");
    assert!(machine.require_mdevs(second, &[one(2, "nvidia-36")]).is_ok());
    assert!(machine.require_mdevs(second, &[one(2, "nvidia-35")]).is_err(), "the GPU has another type");
    assert!(machine.require_mdevs(second, &[one(2, "nvidia-36"), one(3, "nvidia-36")]).is_err());
    assert!(machine.require_mdevs(first, &[one(1, "nvidia-36"), one(3, "nvidia-36")]).is_ok(), "its own are replaced");
    for wrong in ["", "nvidia-35", "*4", "nvidia-35*x", "nvidia-35*1,"] {
        assert!(format!("sim://1?mdev={wrong}").parse::<SimUri>().is_err(), "{wrong}");
    }
}
