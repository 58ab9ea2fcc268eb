//! The conformance suite on a real libvirtd and QEMU.
//!
//! `CHRONOVA_TEST_LIBVIRT_URI` names the host. `CHRONOVA_TEST_IMAGE` is a bootable qcow2; its guest must write
//! `GUEST-READY` to its first serial port and react to the ACPI power button. The commands in
//! `CHRONOVA_TEST_LIBVIRT_RESTART`, `_FREEZE` and `_THAW` restart, stop and continue the host's libvirtd.
//! `CHRONOVA_TEST_IMAGES_TYPE` (`raw`, or `lvm` with `CHRONOVA_TEST_VOLUME_GROUP`) selects another back end than
//! copy-on-write files. A test without the variables that it needs prints a message and passes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chronova_events::ids::{ImageId, InstanceId, NetworkId, VolumeId};
use chronova_hypervisor::backend::{self, DriverOptions};
use chronova_hypervisor::capability::disk_transfer::DiskFile;
use chronova_hypervisor::capability::storage_cleanup::Leftover;
use chronova_hypervisor::capability::volume_store::VolumeContent;
use chronova_hypervisor::conformance::{self, Fixture};
use chronova_hypervisor::driver::{Driver, DriverError, HostSignal, SignalStream, StopMode};
use chronova_hypervisor::guest::{GuestSpec, ImageFormat, ImageRef, NetworkSpec, PowerState, SubnetSpec, VolumeDisk};
use chronova_hypervisor::iso9660;
use chronova_hypervisor::libvirt::LibvirtDriver;
use chronova_hypervisor::options::{ImagesOptions, ImagesType, LibvirtOptions};
use chronova_hypervisor::pinning::Pinning;
use chronova_hypervisor::volumes;
use futures::StreamExt as _;
use futures::future::join_all;
use sha2::{Digest, Sha512};

fn image(content: &Bytes) -> ImageRef {
    let checksum = Sha512::digest(content).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    // A qcow2 header holds the virtual size, big-endian, at byte 24.
    let virtual_size = u64::from_be_bytes(content[24..32].try_into().unwrap());
    ImageRef { id: ImageId::random(), checksum, format: ImageFormat::Qcow2, size: content.len() as u64, virtual_size }
}

fn config_drive() -> Bytes {
    let metadata = br#"{"uuid": "00000000-0000-0000-0000-000000000001", "hostname": "from-the-drive"}"#;
    let files = [("openstack/latest/meta_data.json".to_owned(), metadata.to_vec())];
    Bytes::from(iso9660::write("config-2", &files).unwrap())
}

/// The host's URI and the fixture; `None` if the variables are not set.
fn host() -> Option<(String, Fixture)> {
    let (Ok(uri), Ok(path)) = (std::env::var("CHRONOVA_TEST_LIBVIRT_URI"), std::env::var("CHRONOVA_TEST_IMAGE")) else {
        println!("skipped: CHRONOVA_TEST_LIBVIRT_URI and CHRONOVA_TEST_IMAGE are not set");
        return None;
    };
    let content = Bytes::from(std::fs::read(path).unwrap());
    let subnet = SubnetSpec {
        cidr: "10.199.77.0/24".to_owned(),
        gateway: Some("10.199.77.1".to_owned()),
        dhcp: true,
        dns: Vec::new(),
    };
    let fixture = Fixture {
        image: image(&content),
        content,
        network: NetworkSpec {
            network: NetworkId::random(),
            mtu: 1450,
            subnets: vec![subnet],
            reservations: Vec::new(),
        },
        address: "10.199.77.7".to_owned(),
        config_drive: config_drive(),
        // Only a guest that read its config drive knows the name. Only a guest that got its reservation through its
        // packet filter has the address.
        ready: "GUEST-READY hostname=from-the-drive uuid=00000000-0000-0000-0000-000000000001 source=configdrive \
                ip=10.199.77.7"
            .to_owned(),
        memory_mib: 128,
        patience: Duration::from_mins(3),
        filters: true,
        volumes: Some(["one", "two"].map(volume)),
    };
    Some((uri, fixture))
}

fn options() -> LibvirtOptions {
    let kind = match std::env::var("CHRONOVA_TEST_IMAGES_TYPE") {
        Ok(word) => ImagesType::of_word(&word, true).unwrap(),
        Err(_) => ImagesType::default(),
    };
    let volume_group = std::env::var("CHRONOVA_TEST_VOLUME_GROUP").ok();
    LibvirtOptions {
        images: ImagesOptions { kind, volume_group, ..ImagesOptions::default() },
        pool_name: "chronova-test".to_owned(),
        pool_path: "/var/lib/libvirt/chronova-test".to_owned(),
        ..LibvirtOptions::default()
    }
}

fn driver(uri: &str) -> Arc<dyn Driver> {
    backend::open(uri, &DriverOptions { libvirt: options(), ..DriverOptions::default() }).unwrap().remove(0)
}

/// A volume of the pool that the driver creates.
fn volume(name: &str) -> VolumeDisk {
    VolumeDisk {
        serial: format!("conformance-{name}"),
        pool: options().pool_name,
        // The name has the form of the volume service, because the source of a disk identifies its volume.
        volume: format!("volume-conformance-{name}"),
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

fn virsh(uri: &str, arguments: &[&str]) {
    let _ = Command::new("virsh").args(["-q", "-c", uri]).args(arguments).output();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_host_conforms() {
    let Some((uri, fixture)) = host() else { return };
    let pool = options().pool_name;
    // The first query creates the pool.
    let _ = driver(&uri).storage_cleanup().unwrap().orphans().await;
    for name in ["volume-conformance-one", "volume-conformance-two"] {
        virsh(&uri, &["vol-delete", name, &pool]);
        virsh(&uri, &["vol-create-as", &pool, name, "16M", "--format", "raw"]);
    }
    let _volumes = Volumes(uri.clone(), pool);
    if let Err(violation) = conformance::run(driver(&uri), fixture).await {
        panic!("{violation}");
    }
}

/// Deletes the volumes when dropped.
struct Volumes(String, String);

impl Drop for Volumes {
    fn drop(&mut self) {
        for name in ["volume-conformance-one", "volume-conformance-two"] {
            virsh(&self.0, &["vol-delete", name, &self.1]);
        }
    }
}

/// A guest without disks. libvirt also defines a domain for such a guest.
fn empty_guest() -> GuestSpec {
    GuestSpec {
        instance: InstanceId::random(),
        domain_name: "instance-c0f00002".to_owned(),
        display_name: "empty".to_owned(),
        flavor_name: "tiny".to_owned(),
        project: "conformance".into(),
        user: "conformance".into(),
        vcpus: 1,
        memory_mib: 64,
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

async fn hear(signals: &mut SignalStream, wanted: impl Fn(&HostSignal) -> bool) {
    let heard = async {
        while let Some(signal) = signals.next().await {
            if wanted(&signal) {
                return;
            }
        }
        panic!("the signals ended");
    };
    tokio::time::timeout(Duration::from_mins(2), heard).await.expect("the signal never came");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_by_other_programs_are_signalled() {
    let Some((uri, _)) = host() else { return };
    let (ours, other) = (driver(&uri), driver(&uri));
    let guest = empty_guest();
    let instance = guest.instance;
    ours.spawn(&guest).await.unwrap();
    let mut signals = ours.watch();
    hear(&mut signals, |signal| *signal == HostSignal::Connected).await;
    other.stop(instance, StopMode::Hard).await.unwrap();
    hear(&mut signals, |signal| *signal == HostSignal::Guest { instance, power: PowerState::Shutdown }).await;
    other.start(instance).await.unwrap();
    hear(&mut signals, |signal| *signal == HostSignal::Guest { instance, power: PowerState::Running }).await;
    other.destroy(instance).await.unwrap();
    hear(&mut signals, |signal| *signal == HostSignal::GuestGone { instance }).await;
    assert!(matches!(ours.guest(instance).await, Err(DriverError::NoSuchGuest(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_reconnects_to_a_restarted_libvirtd() {
    let Some((uri, _)) = host() else { return };
    let Ok(restart) = std::env::var("CHRONOVA_TEST_LIBVIRT_RESTART") else {
        println!("skipped: CHRONOVA_TEST_LIBVIRT_RESTART is not set to a command that restarts the host's libvirtd");
        return;
    };
    let driver = driver(&uri);
    let guest = empty_guest();
    let host = driver.capabilities().await.unwrap().host;
    driver.spawn(&guest).await.unwrap();
    let mut signals = driver.watch();
    hear(&mut signals, |signal| *signal == HostSignal::Connected).await;
    let run = tokio::task::spawn_blocking(move || Command::new("sh").args(["-c", &restart]).status()).await.unwrap();
    assert!(run.unwrap().success());
    hear(&mut signals, |signal| matches!(signal, HostSignal::Disconnected { .. })).await;
    hear(&mut signals, |signal| *signal == HostSignal::Connected).await;
    assert_eq!(driver.guest(guest.instance).await.unwrap().power, PowerState::Running);
    assert_eq!(driver.capabilities().await.unwrap().host, host);
    driver.destroy(guest.instance).await.unwrap();
}

fn shell(command: &str) {
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_reconnects_to_a_frozen_libvirtd() {
    let Some((uri, _)) = host() else { return };
    let (Ok(freeze), Ok(thaw)) =
        (std::env::var("CHRONOVA_TEST_LIBVIRT_FREEZE"), std::env::var("CHRONOVA_TEST_LIBVIRT_THAW"))
    else {
        println!("skipped: CHRONOVA_TEST_LIBVIRT_FREEZE and CHRONOVA_TEST_LIBVIRT_THAW are not set to commands");
        return;
    };
    let driver =
        Arc::new(LibvirtDriver::new(&uri, &LibvirtOptions { call_deadline: Duration::from_secs(2), ..options() }));
    let mut signals = driver.watch();
    hear(&mut signals, |signal| *signal == HostSignal::Connected).await;
    shell(&freeze);
    let hung = driver.guests().await;
    assert!(matches!(hung, Err(DriverError::Timeout { .. })), "{hung:?}");
    hear(&mut signals, |signal| matches!(signal, HostSignal::Disconnected { .. })).await;
    assert!(matches!(driver.guests().await, Err(DriverError::Unreachable(_))));
    shell(&thaw);
    hear(&mut signals, |signal| *signal == HostSignal::Connected).await;
    driver.guests().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_guests_are_created_and_destroyed_at_once() {
    let Some((uri, _)) = host() else { return };
    let driver = driver(&uri);
    let guests: Vec<_> = (0..6_u32)
        .map(|n| GuestSpec { domain_name: format!("instance-c0f0010{n}"), swap_mib: 8, ..empty_guest() })
        .collect();
    let spawned = join_all(guests.iter().map(|guest| driver.spawn(guest))).await;
    assert!(spawned.iter().all(Result::is_ok), "{spawned:?}");
    assert_eq!(driver.guests().await.unwrap().len(), guests.len());
    let destroyed = join_all(guests.iter().map(|guest| driver.destroy(guest.instance))).await;
    assert!(destroyed.iter().all(Result::is_ok), "{destroyed:?}");
    assert_eq!(driver.storage_cleanup().unwrap().orphans().await.unwrap(), Vec::new());
}

/// A reader that takes no more bytes blocks a thread of the host. A change of another volume has another thread.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_of_a_volume_does_not_stop_changes() {
    let Some((uri, _)) = host() else { return };
    let one_thread = LibvirtOptions { workers: 1, ..options() };
    let driver = backend::open(&uri, &DriverOptions { libvirt: one_thread, ..DriverOptions::default() }).unwrap();
    let store = driver[0].volume_store().unwrap();
    let [read, changed] = [(); 2].map(|()| volumes::volume(VolumeId::random()));
    for name in [&read, &changed] {
        store.create_volume(name, 64 << 20, &VolumeContent::Blank).await.unwrap();
    }
    let mut reader = store.read_volume(&read, None).await.unwrap();
    reader.next().await.unwrap().unwrap();
    store.resize_volume(&changed, 128 << 20, None).await.unwrap();
    drop(reader);
    for name in [&read, &changed] {
        store.delete_volume(name).await.unwrap();
    }
}

/// A power failure can destroy the completion mark of an image's content. If a disk is based on such content, the
/// content stays.
#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_an_interrupted_upload_are_found_and_removed() {
    let Some((uri, _)) = host() else { return };
    let (driver, pool) = (driver(&uri), options().pool_name);
    // The first query creates the pool.
    driver.storage_cleanup().unwrap().orphans().await.unwrap();
    let [torn, based_on] = ["ab", "cd"].map(|byte| byte.repeat(64));
    let (instance, disk) =
        (InstanceId::random(), DiskFile { suffix: "_disk".to_owned(), size: 0, capacity: 0, raw: false });
    for checksum in [&torn, &based_on] {
        virsh(&uri, &["vol-create-as", &pool, &format!("base-{checksum}"), "1M", "--format", "raw"]);
    }
    let backing = format!("base-{based_on}");
    let backed = ["--format", "qcow2", "--backing-vol", &backing, "--backing-vol-format", "raw"];
    virsh(&uri, &[&["vol-create-as", &pool, &format!("{instance}_disk"), "1M"][..], &backed].concat());
    let [torn_one, used_one] = [&torn, &based_on].map(|checksum| Leftover::TornImage { checksum: checksum.clone() });
    let listed = driver.storage_cleanup().unwrap().leftovers().await.unwrap();
    assert!(listed.contains(&torn_one) && listed.contains(&used_one), "{listed:?}");
    for _ in 0..2 {
        driver.storage_cleanup().unwrap().remove_torn_image(&torn).await.unwrap();
        driver.storage_cleanup().unwrap().remove_torn_image(&based_on).await.unwrap();
        let listed = driver.storage_cleanup().unwrap().leftovers().await.unwrap();
        assert!(!listed.contains(&torn_one) && listed.contains(&used_one), "{listed:?}");
    }
    driver.disk_transfer().unwrap().remove_disk(instance, &disk).await.unwrap();
    driver.storage_cleanup().unwrap().remove_torn_image(&based_on).await.unwrap();
    assert!(!driver.storage_cleanup().unwrap().leftovers().await.unwrap().contains(&used_one));
}

/// The other tests cannot use these kinds of storage. Here libvirt's mock host checks the golden definitions against
/// its schema.
#[test]
fn libvirt_takes_the_definitions_of_storage() {
    if Command::new("virsh").arg("--version").output().is_err() {
        println!("skipped: virsh is not installed");
        return;
    }
    let golden = |name: &str| format!("{}/golden/{name}.xml", env!("CARGO_MANIFEST_DIR"));
    for (define, name) in [
        ("define", "domain-flat"),
        ("define", "domain-lvm"),
        ("define", "domain-rbd"),
        ("pool-define", "pool-lvm"),
        ("pool-define", "pool-rbd"),
        ("pool-define", "pool-rbd-open"),
    ] {
        let arguments = ["-q", "-c", "test:///default", define, &golden(name), "--validate"];
        let output = Command::new("virsh").args(arguments).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// libvirt's mock host has no guests of ours, but it supports the same calls on a local connection.
#[tokio::test(flavor = "multi_thread")]
async fn the_mock_host_answers() {
    let driver = driver("test:///default");
    let mut signals = driver.watch();
    hear(&mut signals, |signal| *signal == HostSignal::Connected).await;
    let host = driver.capabilities().await.unwrap();
    assert_eq!((host.hypervisor_type.to_ascii_uppercase(), host.vcpus), ("TEST".to_owned(), 16));
    assert_eq!(driver.guests().await.unwrap(), Vec::new());
    assert_eq!(driver.usage().await.unwrap().running_guests, 0);
    let absent = InstanceId::random();
    assert!(matches!(driver.guest(absent).await, Err(DriverError::NoSuchGuest(_))));
    driver.networks().unwrap().remove_network(NetworkId::random()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_absent_host_is_unreachable_at_once() {
    let driver = driver("qemu+unix:///system?socket=/nonexistent/libvirt-sock");
    let mut signals = driver.watch();
    hear(&mut signals, |signal| matches!(signal, HostSignal::Disconnected { .. })).await;
    assert!(matches!(driver.capabilities().await, Err(DriverError::Unreachable(_))));
}
