#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;

use super::*;
use crate::firmware::FirmwareFacts;
use crate::guest::{DiskPassword, ImageRef, NetworkDisk, Nic, NicPlug, RescueDisk, RescuePlace, RootDisk, VolumeDisk};
use crate::options::{CacheMode, CacheModes, CpuFlag, CpuMode, GuestOptions, Screens, Serial, Spice};
use crate::pci::PassedDevice;
use crate::pinning::{GuestNode, Pinning};
use crate::volumes;
use chronova_events::ids::{ImageId, InstanceId, NetworkId, PortId};
use uuid::Uuid;

mod encrypted_volumes;
mod encryption;
mod foreign;
mod found;
mod hardware_wishes;
mod limits;
mod mdevs;
mod sriov;

fn host() -> HostFacts {
    HostFacts {
        arch: "x86_64".to_owned(),
        kvm: false,
        libvirt_version: 9_000_000,
        cpu_mode: CpuMode::None,
        cpu_models: Vec::new(),
        machine_type: None,
        pool_path: "/var/lib/libvirt/chronova".to_owned(),
        places: BTreeMap::new(),
        direct_io: true,
        screens: Screens::default(),
        video_models: vec!["vga".to_owned(), "virtio".to_owned()],
        firmware: FirmwareFacts::default(),
        host_uuid: Some("11111111-2222-3333-4444-555555555555".to_owned()),
        guests: GuestOptions::default(),
        sev: None,
        foreign: Vec::new(),
    }
}

fn guest() -> GuestSpec {
    let image = ImageRef {
        id: ImageId(Uuid::from_u128(3)),
        checksum: "ab".repeat(32),
        format: ImageFormat::Qcow2,
        size: 1,
        virtual_size: 1 << 20,
    };
    let nic = Nic {
        port: PortId(Uuid::from_u128(4)),
        network: NetworkId(Uuid::from_u128(5 << 96)),
        mac: "fa:16:3e:00:00:01".to_owned(),
        mtu: 1450,
        filter: Some("chronova-port-4".to_owned()),
        tap: "tap00000000-00".to_owned(),
        plug: NicPlug::Network,
    };
    GuestSpec {
        instance: InstanceId(Uuid::from_u128(1)),
        domain_name: "instance-00000001".to_owned(),
        display_name: "web".to_owned(),
        flavor_name: "m1.tiny".to_owned(),
        project: "project".into(),
        user: "user".into(),
        vcpus: 1,
        memory_mib: 512,
        root: Some(RootDisk { image, size_gib: 1 }),
        ephemerals_gib: vec![],
        swap_mib: 0,
        volumes: vec![],
        nics: vec![nic],
        config_drive: Some(bytes::Bytes::new()),
        hardware: Vec::new(),
        rescue: None,
        pinning: Pinning::default(),
        devices: vec![],
        mdevs: vec![],
        tpm_secret: None,
    }
}

fn cpu_model(name: &str, features: &[&str]) -> CpuModel {
    CpuModel { name: name.to_owned(), features: features.iter().map(|name| (*name).to_owned()).collect() }
}

fn with(properties: &[(&str, &str)]) -> GuestSpec {
    let hardware = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    GuestSpec { hardware, ..guest() }
}

fn golden(name: &str, guest: &GuestSpec, host: &HostFacts) -> String {
    let xml = render(guest, host).unwrap();
    expectorate::assert_contents(format!("golden/domain-{name}.xml"), &xml);
    xml
}

#[test]
fn an_ordinary_guest() {
    golden("ordinary", &guest(), &host());
}

#[test]
fn kvm_with_a_host_model_cpu() {
    golden("kvm", &guest(), &HostFacts { kvm: true, cpu_mode: CpuMode::HostModel, ..host() });
}

/// `[libvirt] cpu_mode`: each mode is rendered as in Nova's driver.
#[test]
fn each_mode_of_a_cpu_is_rendered() {
    let cpu = |cpu_mode, models: &[&str]| {
        let cpu_models = models.iter().map(|name| cpu_model(name, &[])).collect();
        let xml = render(&guest(), &HostFacts { kvm: true, cpu_mode, cpu_models, ..host() }).unwrap();
        let document = roxmltree::Document::parse(&xml).unwrap();
        let cpu = document.descendants().find(|node| node.has_tag_name("cpu")).unwrap();
        let model = cpu.children().find(|node| node.has_tag_name("model")).and_then(|model| model.text());
        let word = |name: &str| cpu.attribute(name).map(str::to_owned);
        (word("mode"), word("match"), model.map(str::to_owned))
    };
    let said = |mode: &str| Some(mode.to_owned());
    assert_eq!(cpu(CpuMode::None, &[]), (None, None, None));
    assert_eq!(cpu(CpuMode::HostModel, &[]), (said("host-model"), said("exact"), None));
    assert_eq!(cpu(CpuMode::HostPassthrough, &["Nehalem"]), (said("host-passthrough"), said("exact"), None));
    assert_eq!(cpu(CpuMode::Maximum, &[]), (said("maximum"), None, None));
    // Without a mode, the hypervisor chooses the model: as in Nova, the element has only the topology.
    let xml = render(&guest(), &HostFacts { kvm: true, cpu_mode: CpuMode::None, ..host() }).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let none = document.descendants().find(|node| node.has_tag_name("cpu")).unwrap();
    let parts: Vec<&str> =
        none.children().filter(roxmltree::Node::is_element).map(|node| node.tag_name().name()).collect();
    assert_eq!((none.attributes().count(), parts), (0, vec!["topology"]), "{xml}");
    let custom = cpu(CpuMode::Custom, &["IvyBridge", "Nehalem"]);
    assert_eq!(custom, (said("custom"), said("exact"), said("IvyBridge")));
}

/// `[libvirt] cpu_models`: the first model with the traits that flavor and image require.
#[test]
fn the_first_cpu_model_with_the_required_traits_is_taken() {
    let models = [("Nehalem", ["sse4.2"].as_slice()), ("Haswell", &["sse4.2", "avx", "avx2"]), ("Icelake", &["avx2"])];
    let cpu_models: Vec<_> = models.iter().map(|(name, features)| cpu_model(name, features)).collect();
    let of = |traits: &[&str], flags: &[&str]| {
        let guests = GuestOptions {
            cpu_flags: flags.iter().map(|flag| CpuFlag::parse(flag)).collect(),
            ..GuestOptions::default()
        };
        let host = HostFacts { kvm: true, cpu_mode: CpuMode::Custom, cpu_models: cpu_models.clone(), guests, ..host() };
        let keys: Vec<String> = traits.iter().map(|name| format!("trait:{name}")).collect();
        let wished: Vec<_> = keys.iter().map(|key| (key.as_str(), "required")).collect();
        let xml = render(&with(&wished), &host)?;
        let document = roxmltree::Document::parse(&xml).unwrap();
        let cpu = document.descendants().find(|node| node.has_tag_name("cpu")).unwrap();
        Ok(cpu.children().find(|node| node.has_tag_name("model")).and_then(|node| node.text()).unwrap().to_owned())
    };
    let said = |model: &str| Ok(model.to_owned());
    assert_eq!(of(&[], &[]), said("Nehalem"), "no traits: the first model");
    assert_eq!(of(&["HW_CPU_X86_SSE42"], &[]), said("Nehalem"));
    assert_eq!(of(&["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"], &[]), said("Haswell"));
    assert_eq!(of(&["HW_CPU_X86_AESNI"], &["aes"]), said("Nehalem"), "an added flag is a feature of every model");
    assert_eq!(of(&["CUSTOM_GOLD"], &[]), said("Nehalem"), "a trait of no CPU has no effect");
    let none: Result<String, _> = Err(HardwareError::NoCpuModel { traits: "HW_CPU_X86_AVX512F".to_owned() });
    assert_eq!(of(&["HW_CPU_X86_AVX512F"], &[]), none);
}

/// CPU flags against hardware flaws must be visible to the guest. Host models include them, and operators can name
/// them.
#[test]
fn cpu_flags_can_be_added_to_any_model() {
    for cpu_mode in [CpuMode::HostModel, CpuMode::HostPassthrough, CpuMode::Maximum, CpuMode::Custom] {
        let flags = ["md-clear", "ssbd", "-pcid"].map(CpuFlag::parse).to_vec();
        let guests = GuestOptions { cpu_flags: flags, ..GuestOptions::default() };
        let cpu_models = vec![cpu_model("Cascadelake-Server", &[])];
        let xml = render(&guest(), &HostFacts { kvm: true, cpu_mode, cpu_models, guests, ..host() }).unwrap();
        for feature in ["'require' name='md-clear'", "'require' name='ssbd'", "'disable' name='pcid'"] {
            assert!(xml.contains(&format!("<feature policy={feature}/>")), "{cpu_mode:?} {feature}: {xml}");
        }
    }
}

/// `[vnc] server_listen`: a guest that may move between hosts must not listen on the address of one host.
#[test]
fn the_screen_listens_on_the_configured_address() {
    let listens = |vnc: Option<&str>| {
        let screens = Screens { vnc: vnc.map(str::to_owned), spice: None };
        let xml = render(&guest(), &HostFacts { screens, ..host() }).unwrap();
        let document = roxmltree::Document::parse(&xml).unwrap();
        let graphics = document.descendants().find(|node| node.has_tag_name("graphics"))?;
        assert_eq!((graphics.attribute("type"), graphics.attribute("autoport")), (Some("vnc"), Some("yes")));
        let own = graphics.attribute("listen").map(str::to_owned);
        own.or_else(|| graphics.descendants().find_map(|node| node.attribute("address")).map(str::to_owned))
    };
    assert_eq!(listens(Some("0.0.0.0")).as_deref(), Some("0.0.0.0"));
    assert_eq!(listens(Some("127.0.0.1")).as_deref(), Some("127.0.0.1"));
    assert_eq!(listens(None), None, "a guest without a screen must not listen");
}

#[test]
fn with_spice_instead_of_vnc() {
    let spice = Spice { listen: "0.0.0.0".to_owned(), agent: true, secure: true };
    let screens = Screens { vnc: None, spice: Some(spice) };
    let video_models = vec!["virtio".to_owned(), "qxl".to_owned()];
    golden("spice", &guest(), &HostFacts { screens, video_models, ..host() });
}

#[test]
fn many_disks_on_q35_without_direct_io() {
    let mut guest = with(&[
        ("hw_machine_type", "q35"),
        ("hw_disk_bus", "sata"),
        ("hw_firmware_type", "uefi"),
        ("hw_vif_model", "e1000e"),
        ("hw_rng_model", "virtio"),
        ("hw_qemu_guest_agent", "yes"),
        ("os_type", "windows"),
        ("hw_cpu_cores", "4"),
        ("hw_cpu_threads", "2"),
        ("hw_pointer_model", "ps2mouse"),
        ("unknown_property", "ignored"),
    ]);
    (guest.ephemerals_gib, guest.swap_mib, guest.vcpus) = (vec![2], 64, 8);
    let xml = golden("q35", &guest, &HostFacts { direct_io: false, ..host() });
    let channel = "<target type='virtio' name='org.qemu.guest_agent.0'/>";
    assert!(xml.contains(channel), "{xml}");
    for without in [with(&[("hw_qemu_guest_agent", "no")]), with(&[])] {
        assert!(!render(&without, &host()).unwrap().contains(channel), "{:?}", without.hardware);
    }
}

#[test]
fn interfaces_of_a_network_service_with_agents() {
    let nic = |port: u128, plug| Nic {
        port: PortId(Uuid::from_u128(port << 96)),
        tap: format!("tap{port:08x}-00"),
        filter: None,
        plug,
        ..guest().nics.remove(0)
    };
    let bridge = |name: &str| name.to_owned();
    let nics = vec![
        nic(4, NicPlug::OpenVswitch { bridge: bridge("br-int") }),
        nic(5, NicPlug::Bridge { bridge: bridge("brq11111111-22") }),
        nic(6, NicPlug::Tap),
    ];
    golden("plugs", &GuestSpec { nics, ..guest() }, &host());
}

fn volume(n: u128, device: &str, bus: &str) -> VolumeDisk {
    let id = Uuid::from_u128(n);
    VolumeDisk {
        serial: id.to_string(),
        pool: "chronova-volumes".to_owned(),
        volume: format!("volume-{id}"),
        network: None,
        format: "raw".to_owned(),
        readonly: false,
        shareable: false,
        device: device.to_owned(),
        bus: bus.to_owned(),
        kind: "disk".to_owned(),
        boot_order: None,
    }
}

#[test]
fn a_root_disk_that_is_a_volume_beside_local_disks() {
    let mut guest = GuestSpec { root: None, ephemerals_gib: vec![1, 2], swap_mib: 64, ..guest() };
    guest.volumes = vec![
        VolumeDisk { boot_order: Some(1), ..volume(7, "vda", "virtio") },
        VolumeDisk { shareable: true, ..volume(8, "vde", "virtio") },
        VolumeDisk { readonly: true, format: "qcow2".to_owned(), ..volume(9, "sda", "scsi") },
        VolumeDisk { kind: "cdrom".to_owned(), boot_order: Some(2), ..volume(10, "hdb", "ide") },
    ];
    golden("volumes", &guest, &host());
    // The names of volumes are skipped, so that no two disks have the same name.
    let xml = render(&guest, &host()).unwrap();
    let document = roxmltree::Document::parse(&xml).unwrap();
    let targets = document.descendants().filter(|node| node.has_tag_name("target") && node.attribute("bus").is_some());
    let mut names: Vec<&str> = targets.filter_map(|node| node.attribute("dev")).collect();
    names.sort_unstable();
    assert_eq!(names, ["hda", "hdb", "sda", "vda", "vdb", "vdc", "vdd", "vde"]);
}

#[test]
fn volumes_that_qemu_reaches_over_the_network() {
    let rbd = NetworkDisk::Rbd {
        name: "volumes/volume-7".to_owned(),
        monitors: ["10.0.0.1:6789", "[fd00::3]:3300"].map(str::to_owned).to_vec(),
        user: Some("cinder".to_owned()),
        secret: Some("457eb676-33da-42ec-9a8c-9293d545c337".to_owned()),
    };
    let iscsi = |chap| NetworkDisk::Iscsi {
        portal: "10.0.0.2:3260".to_owned(),
        target: "iqn.2010-10.org.openstack:volume-8".to_owned(),
        lun: 1,
        initiator: "iqn.2008-11.org.linux-kvm:node-1".to_owned(),
        chap,
    };
    let nfs = NetworkDisk::Nfs { host: "10.0.0.3".to_owned(), path: "/exports/volume-10".to_owned() };
    let chap = Some(("u".to_owned(), DiskPassword::new("p4ssword")));
    let mut guest = GuestSpec { root: None, ..guest() };
    guest.volumes = vec![
        VolumeDisk { network: Some(rbd), boot_order: Some(1), ..volume(7, "vda", "virtio") },
        VolumeDisk { network: Some(iscsi(chap)), ..volume(8, "vdb", "virtio") },
        VolumeDisk { network: Some(iscsi(None)), readonly: true, ..volume(9, "vdc", "virtio") },
        VolumeDisk { network: Some(nfs), format: "qcow2".to_owned(), ..volume(10, "vdd", "virtio") },
    ];
    let xml = golden("network-volumes", &guest, &host());
    assert!(!xml.contains("p4ssword") && !format!("{guest:?}").contains("p4ssword"), "a password is shown");
}

#[test]
fn a_volume_beside_an_image() {
    golden("image-and-volume", &GuestSpec { volumes: vec![volume(7, "vdb", "virtio")], ..guest() }, &host());
    expectorate::assert_contents("golden/disk.xml", &render_disk(&volume(7, "vdb", "virtio"), &host(), false));
}

#[test]
fn arm_with_scsi_and_a_named_cpu() {
    let guest = with(&[("hw_disk_bus", "scsi"), ("hw_firmware_type", "uefi")]);
    let host = HostFacts {
        arch: "aarch64".to_owned(),
        cpu_mode: CpuMode::Custom,
        cpu_models: vec![cpu_model("cortex-a57", &[])],
        ..host()
    };
    golden("aarch64", &guest, &host);
}

#[test]
fn from_an_iso_with_no_network_and_a_hostile_name() {
    let mut guest = GuestSpec { nics: Vec::new(), config_drive: None, ..guest() };
    guest.root.as_mut().unwrap().image.format = ImageFormat::Iso;
    guest.display_name = "</chronova:name><evil a='1'>&\u{7}\"".to_owned();
    let xml = golden("iso", &guest, &host());
    let document = roxmltree::Document::parse(&xml).unwrap();
    assert!(!document.descendants().any(|node| node.has_tag_name("evil")));
}

#[test]
fn unusable_hardware_is_refused() {
    for properties in [
        [("hw_disk_bus", "floppy"), ("", "")],
        [("hw_vif_model", "token-ring"), ("", "")],
        [("hw_video_model", "hercules"), ("", "")],
        [("hw_machine_type", "q35"), ("hw_disk_bus", "ide")],
    ] {
        assert!(render(&with(&properties), &host()).is_err(), "{properties:?}");
    }
}

#[test]
fn topology_always_multiplies_to_the_number_of_cpus() {
    for vcpus in 1..=16_u32 {
        for cores in ["0", "1", "2", "3", "4"] {
            for threads in ["1", "2", "3"] {
                let hardware = with(&[("hw_cpu_cores", cores), ("hw_cpu_threads", threads)]).hardware;
                let (s, c, t) = Hardware::parse(&hardware, &host()).unwrap().topology(vcpus);
                assert_eq!(s * c * t, vcpus);
            }
        }
    }
}

#[test]
fn a_flavor_limits_the_resources_of_a_guest() {
    let mut limited = with(&[
        ("quota:cpu_shares", "2048"),
        ("quota:cpu_period", "100000"),
        ("quota:cpu_quota", "-1"),
        ("quota:disk_read_iops_sec", "500"),
        ("quota:disk_write_bytes_sec", "1048576"),
        ("quota:vif_inbound_average", "1024"),
        ("quota:vif_inbound_burst", "4096"),
        ("quota:vif_outbound_peak", "65536"),
        ("quota:cpu_shares_level", "high"),
        ("hw_rng_model", "virtio"),
        ("hw_rng:rate_bytes", "1024"),
        ("hw_rng:rate_period", "2000"),
    ]);
    limited.ephemerals_gib = vec![1];
    let xml = golden("limited", &limited, &host());
    assert_eq!(xml.matches("<iotune>").count(), 2, "the number of disks with limits is not that of the local disks");
    assert!(!xml.contains("<outbound"), "there is a peak without an average, which libvirt refuses");
    let nic = render_interface(&limited.nics[0], &limited.hardware, 1, &host()).unwrap();
    assert!(nic.contains("<inbound average='1024' burst='4096'/>"), "a later interface needs the limit, too: {nic}");
    for (period, quota) in [("1000", "1000"), ("100000", "200000"), ("1000000", "17592186044415"), ("0", "0")] {
        let xml = render(&with(&[("quota:cpu_period", period), ("quota:cpu_quota", quota)]), &host()).unwrap();
        let tuned: String = xml.split_whitespace().collect();
        let wanted = format!("<cputune><period>{period}</period><quota>{quota}</quota></cputune>");
        assert!(tuned.contains(&wanted), "{wanted}: {xml}");
    }
    for (name, value) in
        [("quota:cpu_shares", "many"), ("quota:disk_read_iops_sec", "1.5"), ("hw_rng:rate_bytes", "-1")]
    {
        let error = render(&with(&[(name, value)]), &host()).unwrap_err().to_string();
        assert_eq!(error, format!("{name} has the unknown value {value:?}"));
    }
}

#[test]
fn a_flavor_shapes_a_guest() {
    let shaped = [
        ("hw_cpu_cores", "1"),
        ("hw_watchdog_action", "reset"),
        ("hw:watchdog_action", "pause"),
        ("hw:boot_menu", "true"),
        ("hw:hide_hypervisor_id", "true"),
        ("hw:cpu_cores", "2"),
        ("hw_rng_model", "virtio"),
        ("hw_rng:allowed", "False"),
    ];
    let kvm = HostFacts { kvm: true, ..host() };
    let xml = golden("shaped", &GuestSpec { vcpus: 4, ..with(&shaped) }, &kvm);
    assert!(xml.contains("sockets='2' cores='2'"), "the flavor's topology must precede the image's");
    assert!(xml.contains("action='reset'"), "the image's watchdog must precede the flavor's");
    assert!(!xml.contains("<rng"), "the guest has a random number generator that its flavor forbids");
    assert!(!render(&with(&shaped), &host()).unwrap().contains("hidden"), "a guest without KVM hides KVM");
    let off = with(&[("hw_watchdog_action", "disabled"), ("hw:watchdog_action", "pause")]);
    assert!(!render(&off, &host()).unwrap().contains("watchdog"));
    assert!(render(&with(&[("hw:watchdog_action", "bark")]), &host()).is_err());
}

/// The operator of this host set every option for guests.
fn chosen() -> HostFacts {
    let guests = GuestOptions {
        cpu_flags: ["pcid", "+ssbd", "-MTRR"].map(CpuFlag::parse).to_vec(),
        tablet: false,
        cache: CacheModes { file: Some(CacheMode::DirectSync), ..CacheModes::default() },
        discard: Some(true),
        rng_device: "/dev/hwrng".to_owned(),
        serial: Serial::Host,
        memory_statistics: 0,
        pcie_ports: 2,
        rx_queue_size: Some(512),
        max_queues: Some(4),
        trusts_cpus: false,
        ..GuestOptions::default()
    };
    let machine_type = Some("q35".to_owned());
    HostFacts { kvm: true, cpu_mode: CpuMode::HostModel, machine_type, guests, ..host() }
}

#[test]
fn an_operator_shapes_all_guests() {
    let guest = GuestSpec {
        vcpus: 8,
        volumes: vec![volume(7, "vdb", "virtio"), VolumeDisk { shareable: true, ..volume(8, "vdc", "virtio") }],
        ..with(&[("hw:vif_multiqueue_enabled", "true"), ("hw_pmu", "false")])
    };
    let xml = golden("chosen", &guest, &chosen());
    assert_eq!(xml.matches("cache='none'").count(), 1, "only the shared disk must bypass the cache");
    assert!(!xml.contains("type='tablet'"));
    assert!(!xml.contains("<stats"));
    let plain = render(&guest, &HostFacts { direct_io: false, ..chosen() }).unwrap();
    assert!(!plain.contains("directsync"), "a disk has direct I/O, which the pool's file system cannot do");
    let none = HostFacts { cpu_mode: CpuMode::None, ..chosen() };
    assert!(!render(&guest, &none).unwrap().contains("<feature policy"), "there are CPU flags without a CPU model");
    let tablet = with(&[("hw_pointer_model", "usbtablet")]);
    assert!(
        render(&tablet, &chosen()).unwrap().contains("type='tablet'"),
        "the image's pointer device must precede the operator's"
    );
}

#[test]
fn a_guest_without_a_display_has_no_video_and_no_tablet() {
    let screens = Screens { vnc: None, spice: None };
    let xml = render(&guest(), &HostFacts { screens, ..host() }).unwrap();
    for element in ["<graphics", "<video", "<input"] {
        assert!(!xml.contains(element), "{element}");
    }
}

#[test]
fn queues_follow_the_cpus_of_a_virtio_interface() {
    let queues = |vcpus: u32, properties: &[(&str, &str)], host: &HostFacts| {
        let spec = with(properties);
        render_interface(&spec.nics[0], &spec.hardware, vcpus, host)
            .unwrap()
            .split_once("queues='")
            .map(|(_, rest)| rest.split('\'').next().unwrap_or_default().to_owned())
    };
    let wish = ("hw:vif_multiqueue_enabled", "true");
    assert_eq!(queues(3, &[wish], &chosen()).as_deref(), Some("3"));
    assert_eq!(queues(8, &[wish], &chosen()).as_deref(), Some("4"), "the operator's limit applies");
    assert_eq!(queues(300, &[("hw_vif_multiqueue_enabled", "true")], &host()).as_deref(), Some("256"));
    assert_eq!(queues(1, &[wish], &chosen()), None, "one CPU needs one queue");
    assert_eq!(queues(8, &[wish, ("hw_vif_model", "e1000")], &chosen()), None);
    assert_eq!(queues(8, &[], &chosen()), None);
    for (spec, property) in [("hw:vif_multiqueue_enabled", "hw_vif_multiqueue_enabled"), ("hw:pmu", "hw_pmu")] {
        let error = render(&with(&[(spec, "true"), (property, "false")]), &host()).unwrap_err().to_string();
        assert_eq!(error, format!("the flavor's {spec} and the image's {property} contradict each other"));
    }
}

fn rescued(stable: Option<RescuePlace>) -> GuestSpec {
    let mut guest = guest();
    guest.ephemerals_gib = vec![1];
    let image = guest.root.as_ref().map(|root| root.image.clone());
    guest.rescue = image.map(|image| RescueDisk { image, stable });
    guest
}

#[test]
fn a_rescued_guest_has_its_root_as_the_second_disk() {
    let xml = golden("rescue", &rescued(None), &host());
    let at = |name: &str| xml.find(name).unwrap_or(usize::MAX);
    assert!(at("_disk.rescue") < at("dev='vda'") && at("dev='vda'") < at("_disk'") && at("_disk'") < at("dev='vdb'"));
    assert!(!xml.contains("_disk.eph0"), "the guest must have no other disks");
}

#[test]
fn a_guest_rescued_with_stable_devices_keeps_all_of_them_in_place() {
    let place = RescuePlace { cdrom: true, bus: Some("sata".to_owned()) };
    let xml = golden("rescue-stable", &rescued(Some(place)), &host());
    assert!(!xml.contains("<boot dev"), "there are a boot list and a boot order of devices, which libvirt refuses");
    let place = RescuePlace { cdrom: false, bus: Some("ide".to_owned()) };
    let q35 = HostFacts { machine_type: Some("q35".to_owned()), ..host() };
    assert!(render(&rescued(Some(place)), &q35).is_err(), "the rescue disk is on IDE, which the board does not have");
    let place = RescuePlace { cdrom: false, bus: Some("scsi".to_owned()) };
    assert!(render(&rescued(Some(place)), &host()).unwrap().contains("virtio-scsi"));
}

fn with_places(place: impl Fn(&str) -> DiskSource) -> HostFacts {
    let instance = guest().instance;
    let names = [volumes::root(instance), volumes::ephemeral(instance, 0), volumes::swap(instance)];
    HostFacts { places: names.into_iter().map(|name| (name.clone(), place(&name))).collect(), ..host() }
}

#[test]
fn disks_that_need_no_other_file() {
    let guest = GuestSpec { ephemerals_gib: vec![1], swap_mib: 64, ..guest() };
    let flat =
        with_places(|name| DiskSource::File { path: format!("/var/lib/libvirt/chronova/{name}.raw"), format: "raw" });
    let xml = golden("flat", &guest, &flat);
    assert_eq!(xml.matches("type='qcow2'").count(), 0);
    // The rescue disk has no source of its own here, so it is a file of the pool.
    let rescued = render(&GuestSpec { rescue: rescued(None).rescue, ..guest }, &flat).unwrap();
    assert!(rescued.contains("_disk.rescue'") && rescued.contains("_disk.raw'"), "{rescued}");
}

#[test]
fn disks_on_logical_volumes() {
    let guest = GuestSpec { ephemerals_gib: vec![1], swap_mib: 64, ..guest() };
    let logical = with_places(|name| DiskSource::Block { path: format!("/dev/nova-vol/{name}") });
    let xml = golden("lvm", &guest, &HostFacts { direct_io: false, ..logical });
    assert_eq!(xml.matches("cache='none'").count(), 3, "block devices must not depend on the pool's file system");
}

#[test]
fn disks_in_a_ceph_pool() {
    let guest = GuestSpec { ephemerals_gib: vec![1], swap_mib: 64, ..guest() };
    let image = |name: &str| RbdImage {
        name: format!("vms/{name}"),
        monitors: ["10.0.0.1:6789", "ceph-two", "[fd00::3]:3300"].map(str::to_owned).to_vec(),
        conf: Some("/etc/ceph/ceph.conf".to_owned()),
        user: Some("nova".to_owned()),
        secret: Some("457eb676-33da-42ec-9a8c-9293d545c337".to_owned()),
    };
    golden("rbd", &guest, &with_places(|name| DiskSource::Rbd(image(name))));
}

fn on(cell: u32, cpus: &[(u32, &[u32])], huge_page_kib: Option<u64>) -> GuestNode {
    let cpus = cpus.iter().map(|(cpu, processors)| (*cpu, processors.to_vec())).collect();
    GuestNode { cell, cpus, memory_mib: 256, huge_page_kib }
}

#[test]
fn a_pinned_guest() {
    let nodes = vec![on(1, &[(0, &[6]), (1, &[14])], None), on(0, &[(2, &[2]), (3, &[10])], None)];
    let pinning = Pinning { nodes, emulator: vec![2, 6, 10, 14], ..Pinning::default() };
    let limited = GuestSpec { vcpus: 4, pinning: pinning.clone(), ..with(&[("quota:cpu_shares", "512")]) };
    let xml = golden("pinned", &limited, &HostFacts { kvm: true, cpu_mode: CpuMode::HostModel, ..host() });
    assert_eq!(xml.matches("<cputune>").count(), 1, "limits and pins must be in one element");
    assert!(!xml.contains("memoryBacking"), "the memory has a page size that nobody requested");
}

#[test]
fn a_guest_with_pci_devices_of_its_host() {
    let passed = |address: &str, managed| PassedDevice { address: address.parse().unwrap(), managed };
    let devices = vec![passed("0000:81:00.1", true), passed("0001:0a:1f.7", false)];
    let xml = golden("devices", &GuestSpec { devices, ..guest() }, &host());
    assert_eq!(xml.matches("<hostdev mode='subsystem' type='pci' managed='yes'>").count(), 1);
}

#[test]
fn a_guest_of_huge_pages_that_floats_over_a_cell() {
    let nodes = vec![on(0, &[(0, &[0, 1, 4, 5]), (1, &[0, 1, 4, 5])], Some(2048))];
    let pinning = Pinning { nodes, emulator: vec![0, 1, 4, 5], confined: vec![0, 1, 4, 5], ..Pinning::default() };
    golden("huge-pages", &GuestSpec { vcpus: 2, pinning, ..guest() }, &host());
}

#[test]
fn a_guest_without_nodes_is_kept_to_the_shared_processors() {
    let confined = Pinning { confined: vec![0, 1, 2, 8], ..Pinning::default() };
    let xml = render(&GuestSpec { pinning: confined, ..guest() }, &host()).unwrap();
    assert!(xml.contains("<vcpu placement='static' cpuset='0-2,8'>1</vcpu>"), "{xml}");
    assert!(!xml.contains("cputune") && !xml.contains("numa"), "{xml}");
}
