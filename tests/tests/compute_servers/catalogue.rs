//! Nova's whole catalogue of extra specs and image properties. Each entry has its effect, or is refused with 400 and a
//! reason.
//!
//! The extra specs are those of Nova's documentation, by namespace. The image properties are those of Nova's
//! `ImageMetaProps`, and further ones that Nova's libvirt driver reads. `every_extra_spec_of_the_contract_is_here`
//! compares the extra specs with the contract, so a new one cannot be forgotten, and
//! `every_image_property_of_nova_is_here` does the same with Nova's list of properties.

use std::collections::{BTreeMap, BTreeSet};

use chronova_actors::pci::alias::PciAliases;
use chronova_actors::pci::device_spec::DeviceSpec;
use chronova_actors::topology::host::{CpuSets, HostCpus};
use chronova_hypervisor::domain_xml::{CpuModel, HostFacts, render};
use chronova_hypervisor::firmware::FirmwareFacts;
use chronova_hypervisor::guest::GuestSpec;
use chronova_hypervisor::memory_encryption::SevFacts;
use chronova_hypervisor::options::{CpuMode, GuestOptions, Screens};
use chronova_hypervisor::sim::SimUri;
use chronova_hypervisor::tpm::TpmVersion;
use chronova_tests::compute_api::{ADMIN, Answer, Api, contract, read};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";

/// The effect of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heed {
    /// The entry changes the definition of the guest.
    Guest,
    /// No host of this cloud meets the value, so the scheduler finds none.
    Scheduler,
    /// The request is refused with 400, and the message names the entry.
    Refused,
    /// The test of this name shows the effect.
    Elsewhere(&'static str),
    /// The entry describes the image and has no effect on the guest.
    Describes,
}

struct Entry {
    name: &'static str,
    value: &'static str,
    /// Other settings that this entry needs to have an effect.
    beside: &'static [(&'static str, &'static str)],
    heed: Heed,
}

const fn entry(name: &'static str, value: &'static str, heed: Heed) -> Entry {
    Entry { name, value, beside: &[], heed }
}

const fn beside(
    name: &'static str,
    value: &'static str,
    beside: &'static [(&'static str, &'static str)],
    heed: Heed,
) -> Entry {
    Entry { name, value, beside, heed }
}

use Heed::{Describes, Elsewhere, Guest, Refused, Scheduler};

const DEDICATED: &[(&str, &str)] = &[("hw:cpu_policy", "dedicated")];
const REALTIME_MASK: &[(&str, &str)] = &[("hw:cpu_policy", "dedicated"), ("hw:cpu_realtime_mask", "^0")];
/// One NUMA node and the device `card`. The host reports no NUMA cell for the device.
const ON_A_NODE: &[(&str, &str)] = &[("hw:numa_nodes", "1"), ("pci_passthrough:alias", "card:1")];

const SPECS: &[Entry] = &[
    entry("accel:device_profile", "gzip", Scheduler),
    entry("aggregate_instance_extra_specs:ssd", "true", Elsewhere("aggregates_restrict_servers_by_their_metadata")),
    entry("capabilities:hypervisor_type", "<in> xen", Scheduler),
    entry("group_policy", "none", Elsewhere("several_groups_of_resources_need_a_policy")),
    entry("hide_hypervisor_id", "true", Guest),
    entry("hw:boot_menu", "true", Guest),
    entry("hw:cpu_cores", "2", Guest),
    entry("hw:cpu_dedicated_mask", "0-1", Elsewhere("the_request_becomes_nodes")),
    entry("hw:cpu_max_cores", "1", Elsewhere("limits_of_a_topology_are_kept")),
    entry("hw:cpu_max_sockets", "1", Guest),
    entry("hw:cpu_max_threads", "1", Elsewhere("limits_of_a_topology_are_kept")),
    entry("hw:cpu_policy", "dedicated", Guest),
    beside("hw:cpu_realtime", "yes", REALTIME_MASK, Guest),
    beside(
        "hw:cpu_realtime_mask",
        "^0",
        &[("hw:cpu_realtime", "yes"), ("hw:cpu_policy", "dedicated")],
        Elsewhere("some_cpus_run_in_real_time"),
    ),
    entry("hw:cpu_sockets", "1", Guest),
    beside("hw:cpu_thread_policy", "require", DEDICATED, Scheduler),
    entry("hw:cpu_threads", "2", Guest),
    beside("hw:emulator_threads_policy", "share", DEDICATED, Guest),
    entry("hw:ephemeral_encryption", "true", Refused),
    entry("hw:ephemeral_encryption_format", "luks", Refused),
    entry("hw:hide_hypervisor_id", "true", Guest),
    beside("hw:locked_memory", "true", &[("hw:mem_page_size", "small")], Guest),
    entry("hw:mem_encryption", "true", Elsewhere("encrypted_memory_needs_uefi_and_a_board_that_has_it")),
    entry("hw:mem_encryption_model", "amd-sev-es", Refused),
    entry("hw:mem_page_size", "large", Guest),
    beside(
        "hw:numa_cpus.0",
        "0-3",
        &[("hw:numa_nodes", "1"), ("hw:numa_mem.0", "64")],
        Elsewhere("the_request_becomes_nodes"),
    ),
    beside(
        "hw:numa_mem.0",
        "64",
        &[("hw:numa_nodes", "1"), ("hw:numa_cpus.0", "0-3")],
        Elsewhere("the_request_becomes_nodes"),
    ),
    entry("hw:numa_nodes", "1", Guest),
    beside("hw:pci_numa_affinity_policy", "required", ON_A_NODE, Scheduler),
    entry("hw:pmem", "6GB", Scheduler),
    entry("hw:pmu", "false", Guest),
    entry("hw:redirected_usb_ports", "2", Refused),
    entry("hw:serial_port_count", "2", Guest),
    entry("hw:sound_model", "ich9", Refused),
    beside("hw:tpm_model", "tpm-crb", &[("hw:tpm_version", "2.0")], Guest),
    beside("hw:tpm_secret_security", "host", &[("hw:tpm_version", "2.0")], Refused),
    entry("hw:tpm_version", "2.0", Guest),
    entry("hw:usb_model", "qemu-xhci", Refused),
    entry("hw:vif_multiqueue_enabled", "true", Guest),
    entry("hw:viommu_model", "virtio", Elsewhere("a_virtual_iommu_needs_a_board_that_has_it")),
    entry("hw:virtio_packed_ring", "true", Refused),
    entry("hw:watchdog_action", "reset", Guest),
    entry("hw_rng:allowed", "false", Guest),
    entry("hw_rng:rate_bytes", "1024", Guest),
    beside("hw_rng:rate_period", "500", &[("hw_rng:rate_bytes", "1024")], Guest),
    entry("hw_video:ram_max_mb", "16", Elsewhere("an_image_stays_within_the_flavors_bounds")),
    beside("os:secure_boot", "required", &[], Elsewhere("secure_boot_needs_uefi_and_a_board_that_protects_it")),
    entry("pci_passthrough:alias", "gpu:1", Guest),
    entry("quota:cpu_limit", "1", Refused),
    entry("quota:cpu_period", "50000", Guest),
    entry("quota:cpu_quota", "20000", Guest),
    entry("quota:cpu_reservation", "1", Refused),
    entry("quota:cpu_shares", "512", Guest),
    entry("quota:cpu_shares_level", "high", Refused),
    entry("quota:cpu_shares_share", "1", Refused),
    entry("quota:disk_io_limit", "1", Refused),
    entry("quota:disk_io_reservation", "1", Refused),
    entry("quota:disk_io_shares_level", "high", Refused),
    entry("quota:disk_io_shares_share", "1", Refused),
    entry("quota:disk_read_bytes_sec", "1000", Guest),
    entry("quota:disk_read_iops_sec", "10", Guest),
    entry("quota:disk_total_bytes_sec", "1000", Guest),
    entry("quota:disk_total_iops_sec", "10", Guest),
    entry("quota:disk_write_bytes_sec", "1000", Guest),
    entry("quota:disk_write_iops_sec", "10", Guest),
    entry("quota:memory_limit", "1", Refused),
    entry("quota:memory_reservation", "1", Refused),
    entry("quota:memory_shares_level", "high", Refused),
    entry("quota:memory_shares_share", "1", Refused),
    entry("quota:vif_inbound_average", "10", Guest),
    beside("quota:vif_inbound_burst", "10", &[("quota:vif_inbound_average", "10")], Guest),
    beside("quota:vif_inbound_peak", "10", &[("quota:vif_inbound_average", "10")], Guest),
    entry("quota:vif_limit", "1", Refused),
    entry("quota:vif_outbound_average", "10", Guest),
    beside("quota:vif_outbound_burst", "10", &[("quota:vif_outbound_average", "10")], Guest),
    beside("quota:vif_outbound_peak", "10", &[("quota:vif_outbound_average", "10")], Guest),
    entry("quota:vif_reservation", "1", Refused),
    entry("quota:vif_shares_level", "high", Refused),
    entry("quota:vif_shares_share", "1", Refused),
    entry("resources:CUSTOM_GOLD", "1", Scheduler),
    entry("trait:CUSTOM_GOLD", "required", Scheduler),
    entry("vmware:hw_version", "vmx-13", Refused),
    entry("vmware:storage_policy", "gold", Refused),
];

const UEFI: &[(&str, &str)] = &[("hw_firmware_type", "uefi"), ("hw_machine_type", "q35")];

const PROPERTIES: &[Entry] = &[
    entry("hw_architecture", "s390x", Scheduler),
    entry("hw_auto_disk_config", "true", Describes),
    entry("hw_boot_menu", "true", Guest),
    entry("hw_cdrom_bus", "sata", Elsewhere("many_disks_on_q35_without_direct_io")),
    entry("hw_cpu_cores", "2", Guest),
    entry("hw_cpu_max_cores", "1", Elsewhere("limits_of_a_topology_are_kept")),
    entry("hw_cpu_max_sockets", "1", Guest),
    entry("hw_cpu_max_threads", "1", Elsewhere("limits_of_a_topology_are_kept")),
    entry("hw_cpu_policy", "dedicated", Guest),
    entry("hw_cpu_realtime_mask", "^0", Elsewhere("some_cpus_run_in_real_time")),
    entry("hw_cpu_sockets", "1", Guest),
    beside("hw_cpu_thread_policy", "require", &[("hw_cpu_policy", "dedicated")], Scheduler),
    entry("hw_cpu_threads", "2", Guest),
    entry("hw_device_id", "1", Refused),
    entry("hw_disk_bus", "sata", Guest),
    entry("hw_disk_type", "preallocated", Refused),
    entry("hw_emulation_architecture", "aarch64", Scheduler),
    entry("hw_ephemeral_encryption", "true", Refused),
    entry("hw_ephemeral_encryption_format", "luks", Refused),
    entry("hw_ephemeral_encryption_secret_uuid", "00000000-0000-0000-0000-000000000001", Refused),
    entry("hw_firmware_type", "uefi", Guest),
    beside("hw_firmware_stateless", "true", UEFI, Scheduler),
    entry("hw_floppy_bus", "fdc", Elsewhere("the_image_sets_the_bus")),
    entry("hw_input_bus", "virtio", Refused),
    entry("hw_ipxe_boot", "true", Refused),
    beside(
        "hw_locked_memory",
        "true",
        &[("hw_mem_page_size", "small")],
        Elsewhere("locked_memory_needs_a_page_size_and_no_contradiction"),
    ),
    entry("hw_machine_type", "q35", Guest),
    entry("hw_maxphysaddr_bits", "42", Refused),
    entry("hw_maxphysaddr_mode", "passthrough", Refused),
    beside("hw_mem_encryption", "true", UEFI, Guest),
    entry("hw_mem_encryption_model", "amd-sev-es", Refused),
    entry("hw_mem_page_size", "large", Elsewhere("an_impossible_topology_is_refused_with_the_reason")),
    beside(
        "hw_numa_cpus.0",
        "0-3",
        &[("hw_numa_nodes", "1"), ("hw_numa_mem.0", "64")],
        Elsewhere("the_request_becomes_nodes"),
    ),
    beside(
        "hw_numa_mem.0",
        "64",
        &[("hw_numa_nodes", "1"), ("hw_numa_cpus.0", "0-3")],
        Elsewhere("the_request_becomes_nodes"),
    ),
    entry("hw_numa_nodes", "1", Guest),
    entry("hw_pci_numa_affinity_policy", "socket", Elsewhere("a_flavor_requests_devices_by_aliases")),
    entry("hw_pmu", "false", Guest),
    entry("hw_pointer_model", "ps2mouse", Guest),
    entry("hw_qemu_guest_agent", "yes", Guest),
    entry("hw_redirected_usb_ports", "1", Refused),
    entry("hw_rescue_bus", "usb", Elsewhere("a_guest_rescued_with_stable_devices_keeps_all_of_them_in_place")),
    entry("hw_rescue_device", "disk", Elsewhere("a_guest_rescued_with_stable_devices_keeps_all_of_them_in_place")),
    entry("hw_rng_model", "egd", Refused),
    entry("hw_scsi_model", "buslogic", Refused),
    entry("hw_serial_port_count", "2", Guest),
    entry("hw_sound_model", "ich9", Refused),
    entry("hw_time_hpet", "true", Guest),
    beside("hw_tpm_model", "tpm-crb", &[("hw_tpm_version", "2.0")], Guest),
    beside("hw_tpm_secret_security", "host", &[("hw_tpm_version", "2.0")], Refused),
    entry("hw_tpm_version", "1.2", Guest),
    entry("hw_usb_model", "nec-xhci", Refused),
    entry("hw_video_model", "cirrus", Guest),
    entry("hw_video_ram", "16", Elsewhere("an_image_stays_within_the_flavors_bounds")),
    entry("hw_vif_model", "e1000", Guest),
    entry("hw_vif_multiqueue_enabled", "true", Guest),
    beside("hw_viommu_model", "intel", UEFI, Guest),
    entry("hw_virtio_packed_ring", "true", Refused),
    entry("hw_vm_mode", "xen", Scheduler),
    entry("hw_watchdog_action", "reset", Guest),
    entry("img_bdm_v2", "true", Describes),
    entry("img_bittorrent", "true", Describes),
    entry("img_block_device_mapping", "[]", Describes),
    entry("block_device_mapping", "[]", Elsewhere("the_older_syntax_boots_from_the_root_device_name")),
    entry("root_device_name", "/dev/vda", Elsewhere("the_older_syntax_boots_from_the_root_device_name")),
    entry("img_cache_in_nova", "true", Describes),
    entry("img_compression_level", "1", Describes),
    entry("img_config_drive", "mandatory", Elsewhere("an_image_may_demand_a_config_drive")),
    entry("img_hide_hypervisor_id", "true", Guest),
    // As in Nova, the version has an effect only together with the type.
    beside("img_hv_requested_version", ">=99", &[("img_hv_type", "qemu")], Scheduler),
    entry("img_hv_type", "xen", Scheduler),
    entry("img_linked_clone", "true", Refused),
    entry("img_mappings", "[]", Describes),
    entry("img_owner_id", "someone", Describes),
    entry("img_root_device_name", "/dev/vda", Describes),
    entry("img_signature", "abc", Describes),
    entry("img_signature_certificate_uuid", "abc", Describes),
    entry("img_signature_hash_method", "SHA-256", Describes),
    entry("img_signature_key_type", "RSA-PSS", Describes),
    entry("img_use_agent", "true", Refused),
    entry("img_version", "1", Describes),
    entry("os_admin_user", "root", Elsewhere("a_password_reaches_the_guest_and_nothing_else")),
    entry("os_command_line", "quiet", Refused),
    entry("os_distro", "debian", Describes),
    entry("os_require_quiesce", "yes", Elsewhere("a_guest_is_quiesced_while_its_volumes_are_copied")),
    beside("os_secure_boot", "required", UEFI, Guest),
    entry("os_shutdown_timeout", "1", Elsewhere("guests_get_time_to_shut_down")),
    entry("os_skip_agent_inject_files_at_boot", "true", Describes),
    entry("os_skip_agent_inject_ssh", "true", Describes),
    entry("os_type", "windows", Guest),
    entry("trait:CUSTOM_GOLD", "required", Scheduler),
    // The names until Liberty, which Nova still reads.
    entry("architecture", "s390x", Scheduler),
    entry("auto_disk_config", "true", Describes),
    entry("bdm_v2", "true", Describes),
    entry("bittorrent", "true", Describes),
    entry("cache_in_nova", "true", Describes),
    entry("hypervisor_type", "xen", Scheduler),
    beside("hypervisor_version_requires", ">=99", &[("hypervisor_type", "qemu")], Scheduler),
    entry("ipxe_boot", "true", Refused),
    entry("mappings", "[]", Describes),
    entry("owner_id", "someone", Describes),
    entry("vm_mode", "xen", Scheduler),
    entry("vmware_adaptertype", "lsiLogic", Refused),
    entry("vmware_disktype", "preallocated", Refused),
    entry("vmware_image_version", "1", Describes),
    entry("vmware_linked_clone", "true", Refused),
    entry("vmware_ostype", "debian", Describes),
    entry("xenapi_device_id", "1", Refused),
    entry("xenapi_image_compression_level", "1", Describes),
    entry("xenapi_skip_agent_inject_files_at_boot", "true", Describes),
    entry("xenapi_skip_agent_inject_ssh", "true", Describes),
    entry("xenapi_use_agent", "true", Refused),
];

/// The fields of Nova's `ImageMetaProps`, and the older names that it reads.
const NOVAS_PROPERTIES: &str = "hw_architecture hw_auto_disk_config hw_boot_menu hw_cdrom_bus hw_cpu_cores \
    hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_policy hw_cpu_realtime_mask hw_cpu_sockets \
    hw_cpu_thread_policy hw_cpu_threads hw_device_id hw_disk_bus hw_disk_type hw_emulation_architecture \
    hw_ephemeral_encryption hw_ephemeral_encryption_format hw_ephemeral_encryption_secret_uuid hw_firmware_stateless \
    hw_firmware_type hw_floppy_bus hw_input_bus hw_ipxe_boot hw_locked_memory hw_machine_type hw_maxphysaddr_bits \
    hw_maxphysaddr_mode hw_mem_encryption hw_mem_encryption_model hw_mem_page_size hw_numa_cpus hw_numa_mem \
    hw_numa_nodes hw_pci_numa_affinity_policy hw_pmu hw_pointer_model hw_qemu_guest_agent hw_redirected_usb_ports \
    hw_rescue_bus hw_rescue_device hw_rng_model hw_scsi_model hw_serial_port_count hw_sound_model hw_time_hpet \
    hw_tpm_model hw_tpm_version hw_usb_model hw_video_model hw_video_ram hw_vif_model hw_vif_multiqueue_enabled \
    hw_viommu_model hw_virtio_packed_ring hw_vm_mode hw_watchdog_action img_bdm_v2 img_bittorrent \
    img_block_device_mapping img_cache_in_nova img_compression_level img_config_drive img_hide_hypervisor_id \
    img_hv_requested_version img_hv_type img_linked_clone img_mappings img_owner_id img_root_device_name \
    img_signature img_signature_certificate_uuid img_signature_hash_method img_signature_key_type img_use_agent \
    img_version os_admin_user os_command_line os_distro os_require_quiesce os_secure_boot \
    os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh os_type architecture auto_disk_config bdm_v2 bittorrent \
    block_device_mapping cache_in_nova hypervisor_version_requires ipxe_boot mappings owner_id root_device_name vm_mode \
    vmware_adaptertype vmware_disktype vmware_image_version vmware_linked_clone vmware_ostype xenapi_device_id \
    xenapi_image_compression_level xenapi_skip_agent_inject_files_at_boot xenapi_skip_agent_inject_ssh xenapi_use_agent";

/// A host with all features of the simulated hosts.
fn facts() -> HostFacts {
    HostFacts {
        arch: "x86_64".to_owned(),
        kvm: true,
        libvirt_version: 9_000_000,
        cpu_mode: CpuMode::HostModel,
        cpu_models: Vec::<CpuModel>::new(),
        machine_type: None,
        pool_path: "/pool".to_owned(),
        places: BTreeMap::new(),
        direct_io: true,
        screens: Screens::default(),
        video_models: vec!["virtio".to_owned()],
        firmware: FirmwareFacts {
            uefi: true,
            secure_boot: true,
            by_feature: true,
            tpm_versions: vec![TpmVersion::V1_2, TpmVersion::V2_0],
            tpm_models: vec!["tpm-tis".to_owned(), "tpm-crb".to_owned()],
        },
        host_uuid: None,
        guests: GuestOptions::default(),
        sev: Some(SevFacts { cbitpos: 47, reduced_phys_bits: 1, max_guests: None }),
        foreign: Vec::new(),
    }
}

/// The definition of the guest, without the parts that differ between any two servers.
fn definition(guest: GuestSpec) -> String {
    let id = guest.instance.to_string();
    let mut same = GuestSpec { display_name: String::new(), flavor_name: String::new(), ..guest };
    same.domain_name = String::new();
    for nic in &mut same.nics {
        (nic.mac, nic.tap) = (String::new(), String::new());
        nic.filter = None;
    }
    let whole = render(&same, &facts()).unwrap().replace(&id, "ID");
    // The metadata has the ids of the image and of the ports.
    whole.lines().filter(|line| !line.trim_start().starts_with("<chronova:")).collect::<Vec<_>>().join("\n")
}

struct Walk {
    api: Api,
    made: u32,
    /// The messages of all failed checks.
    wrong: Vec<String>,
}

impl Walk {
    async fn begin() -> Self {
        let pci = "10de:1eb8,1af4:1000@-".parse().unwrap();
        let plain = SimUri { vcpus: 64, memory_mib: 16_384, disk_gib: 100, ..SimUri::new(1) };
        let uri = SimUri { tpm: true, sev: 1, huge_pages: 512, pci, ..plain };
        let mut world = World::of(uri);
        world.options.hosts.host_pci.others = DeviceSpec::read_all(&["{}".to_owned()]).unwrap();
        let aliases = [r#"{"name": "gpu", "vendor_id": "10de"}"#, r#"{"name": "card", "vendor_id": "1af4"}"#];
        let aliases = PciAliases::read(&aliases.map(str::to_owned), false).unwrap();
        world.options.servers.pci_aliases = aliases.clone();
        world.options.scheduler.pci_aliases = aliases;
        let sets = CpuSets { shared: Some((0..16).collect()), dedicated: Some((16..32).collect()) };
        let named = [(world.fleet.hostname(0), sets)].into();
        world.options.hosts.host_cpus = HostCpus { named, ..HostCpus::default() };
        let api = Api::start_of(world, "", None).await;
        Self { api, made: 0, wrong: Vec::new() }
    }

    fn expect(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(otherwise());
        }
    }

    async fn create(&mut self, specs: &[(&str, &str)], properties: &[(&str, &str)]) -> Answer {
        self.made += 1;
        let name = format!("walk{}", self.made);
        let flavor = json!({"flavor": {"id": name, "name": name, "ram": 64, "vcpus": 4, "disk": 1}});
        assert_eq!(self.api.call("POST", "/flavors", "2.1", ADMIN, Some(flavor)).await.status, 200);
        let specs: Value = specs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        if !specs.as_object().unwrap().is_empty() {
            let path = format!("/flavors/{name}/os-extra_specs");
            let body = json!({"extra_specs": specs});
            let made = self.api.call("POST", &path, "2.100", ADMIN, Some(body)).await;
            assert_eq!(made.status, 200, "{specs}: {}", made.body);
        }
        let mut wish = Api::wish(&name);
        wish["flavorRef"] = json!(name);
        wish["imageRef"] = json!(self.api.image(properties).await);
        let answer = self.api.call("POST", "/servers", "2.1", OWNER, Some(json!({"server": wish}))).await;
        self.api.life.settled().await;
        answer
    }

    /// The status of the created server, its fault and its guest's definition. Deletes the server.
    async fn outcome(&self, created: &Answer) -> (String, String, Option<String>) {
        let Some(id) = created.body["server"]["id"].as_str().map(str::to_owned) else {
            return (created.status.to_string(), created.body.to_string(), None);
        };
        let status =
            self.api.get(&format!("/servers/{id}"), "2.1").await["server"]["status"].as_str().unwrap().to_owned();
        let instance = id.parse().unwrap();
        let fault = self.api.life.fault(instance);
        let guest = self.api.world.brakes.guest(instance).map(definition);
        assert_eq!(self.api.call("DELETE", &format!("/servers/{id}"), "2.1", OWNER, None).await.status, 204);
        self.api.life.settled().await;
        (status, fault, guest)
    }

    async fn step(&mut self, entry: &Entry, of_image: bool) {
        let name = entry.name;
        let with: Vec<_> = entry.beside.iter().copied().chain([(name, entry.value)]).collect();
        let asked = |pairs: &[(&'static str, &'static str)]| match of_image {
            true => (vec![], pairs.to_vec()),
            false => (pairs.to_vec(), vec![]),
        };
        let (specs, properties) = asked(&with);
        match entry.heed {
            Elsewhere(_) => {}
            Refused => {
                let refused = self.create(&specs, &properties).await;
                let said = refused.status == 400 && refused.message().contains(name);
                self.expect(said, || format!("{name} is not refused: {}", refused.body));
            }
            Scheduler => {
                let created = self.create(&specs, &properties).await;
                let (status, fault, _) = self.outcome(&created).await;
                let refused = status == "ERROR" && fault.contains("No valid host was found");
                self.expect(refused, || format!("the scheduler ignores {name}: {status} {fault}"));
            }
            Guest | Describes => {
                let (plain_specs, plain_properties) = asked(entry.beside);
                let plain = self.create(&plain_specs, &plain_properties).await;
                let (status, fault, before) = self.outcome(&plain).await;
                self.expect(status == "ACTIVE", || format!("without {name}: {status} {fault}"));
                let created = self.create(&specs, &properties).await;
                let (status, fault, after) = self.outcome(&created).await;
                self.expect(status == "ACTIVE", || format!("{name}: {status} {fault}"));
                let differs = before != after;
                self.expect(differs == (entry.heed == Guest), || format!("{name} changes the guest: {differs}"));
            }
        }
    }
}

#[actix_rt::test]
async fn every_extra_spec_is_heeded_or_refused() {
    let mut walk = Walk::begin().await;
    for entry in SPECS {
        walk.step(entry, false).await;
    }
    assert!(walk.wrong.is_empty(), "{:#?}", walk.wrong);
    walk.api.world.check().await;
    walk.api.stop().await;
}

#[actix_rt::test]
async fn every_image_property_is_heeded_or_refused() {
    let mut walk = Walk::begin().await;
    for entry in PROPERTIES {
        walk.step(entry, true).await;
    }
    assert!(walk.wrong.is_empty(), "{:#?}", walk.wrong);
    walk.api.world.check().await;
    walk.api.stop().await;
}

#[test]
fn every_extra_spec_of_the_contract_is_here() {
    let Some(folder) = contract() else { return };
    let known: BTreeSet<String> = SPECS.iter().map(|entry| family(entry.name)).collect();
    let listed = read(&folder.join("extra-specs.json"))["specs"].take();
    let names = listed.as_array().unwrap().iter().map(|spec| family(spec["name"].as_str().unwrap()));
    let missing: BTreeSet<String> = names.filter(|name| !known.contains(name)).collect();
    assert_eq!(missing, BTreeSet::new(), "these extra specs are not in the catalogue");
}

#[test]
fn every_image_property_of_nova_is_here() {
    let known: BTreeSet<&str> =
        PROPERTIES.iter().map(|entry| entry.name.split('.').next().unwrap_or(entry.name)).collect();
    let missing: BTreeSet<&str> = NOVAS_PROPERTIES.split_whitespace().filter(|name| !known.contains(name)).collect();
    assert_eq!(missing, BTreeSet::new(), "these image properties are not in the catalogue");
}

/// Names with a free part count once: `hw:numa_cpus.0`, `resources2:VGPU`, `capabilities:...`.
fn family(name: &str) -> String {
    let name = name.split('{').next().unwrap_or(name);
    for stem in
        ["hw:numa_cpus.", "hw:numa_mem.", "capabilities:", "aggregate_instance_extra_specs:", "resources", "trait"]
    {
        if name.starts_with(stem) {
            return stem.to_owned();
        }
    }
    name.to_owned()
}

/// Each entry with [`Elsewhere`] names a test that exists.
#[test]
fn entries_that_other_tests_show_name_them() {
    let sources = [env!("CARGO_MANIFEST_DIR"), "../hypervisor/src", "../actors/src", "../web/src", "../web/tests"]
        .map(|folder| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let text: String = sources.iter().map(|folder| text_of(folder)).collect();
    for entry in SPECS.iter().chain(PROPERTIES) {
        if let Elsewhere(test) = entry.heed {
            assert!(text.contains(&format!("fn {test}(")), "{}: no test {test}", entry.name);
        }
    }
}

fn text_of(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for found in std::fs::read_dir(folder).unwrap() {
        let path = found.unwrap().path();
        if path.is_dir() {
            text += &text_of(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &std::fs::read_to_string(&path).unwrap();
        }
    }
    text
}
