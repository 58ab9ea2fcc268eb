//! Guests and their hosts: `[libvirt]`, `[compute]`, `[image_cache]`, `[workarounds]`.

use std::path::PathBuf;

use chronova_hypervisor::options::ImagesType;

use super::super::option::Default::Text;

/// The values of `disk_cachemodes`: the type of a disk's source, and libvirt's cache mode for it.
const CACHE_MODES: &[&str] = &[
    "file=default",
    "file=none",
    "file=writethrough",
    "file=writeback",
    "file=directsync",
    "file=unsafe",
    "block=default",
    "block=none",
    "block=writethrough",
    "block=writeback",
    "block=directsync",
    "block=unsafe",
    "network=default",
    "network=none",
    "network=writethrough",
    "network=writeback",
    "network=directsync",
    "network=unsafe",
    "mount=default",
    "mount=none",
    "mount=writethrough",
    "mount=writeback",
    "mount=directsync",
    "mount=unsafe",
];

section! {
    /// Nova's `[libvirt]`.
    Libvirt = "libvirt" from Nova {
        virt_type: String => drivers.libvirt.virt_type by VirtTypeWords {
            choices: &["auto", "kvm", "qemu"],
            help: "Virtualisation of guests. `auto`, Chronova's default, uses kvm on hosts that have it, and qemu \
                   (software emulation) on the others. Nova does not know `auto`; its default is kvm.",
        }
        cpu_mode: Option<String> => drivers.libvirt.cpu_mode by CpuModeWords {
            choices: &["host-model", "host-passthrough", "custom", "none"],
            help: "CPU that guests see; with `none`, the hypervisor chooses. Unset: with kvm, host-passthrough on \
                   AArch64 and host-model on other hosts; with qemu, `none`.",
        }
        cpu_models: Vec<String> => drivers.libvirt.cpu_models {
            deprecated: &[("libvirt", "cpu_model")],
            help: "With cpu_mode custom: named CPU models in order of preference; the first that a host \
                   and the flavor's traits allow is used.",
        }
        cpu_model_extra_flags: Vec<String> => drivers.libvirt.guests.cpu_flags by CpuFlags {
            help: "CPU features to add (`name` or `+name`) or to remove (`-name`), with every cpu_mode except \
                   `none`.",
        }
        hw_machine_type: Vec<String>
            => drivers.libvirt.machine_types by ByArchitecture => runtime.servers.machine_types by ByArchitecture {
            help: "Machine types of new servers by architecture, as in x86_64=q35,aarch64=virt. A server keeps the \
                   machine type of its first start. Unset: pc for x86_64, virt for aarch64 and armv7l, \
                   s390-ccw-virtio for s390x, pseries for ppc64le.",
        }
        images_type: String => here {
            default: Text("default"), choices: ImagesType::WORDS,
            help: "The storage of new guest disks. `default` is qcow2 with use_cow_images, and raw without it. \
                   `flat` is Nova's newer name of raw. `local` and `ceph` are MOSK's names of default and rbd. See \
                   docs/storage.md.",
        }
        images_volume_group: Option<String> => drivers.libvirt.images.volume_group {
            help: "LVM volume group of guests' disks, on each compute host, with images_type lvm.",
        }
        sparse_logical_volumes: bool => drivers.libvirt.images.sparse_logical_volumes {
            help: "With images_type lvm: a volume starts with 64 MiB and grows as the guest writes.",
        }
        volume_clear: String => drivers.libvirt.images.clear by VolumeClearWords {
            choices: &["zero", "shred", "none"],
            help: "How a logical volume is cleared before it is removed. `shred` writes four patterns over it and needs the \
                   program scrub on the host. Sparse volumes are left as they are.",
        }
        volume_clear_size: u32 => drivers.libvirt.images.clear_mib by Whole {
            min: Some(0.0), unit: "MiB",
            help: "How much of a logical volume is overwritten, from its start; 0 means all of it. A part is always \
                   overwritten with zeros, even if volume_clear is shred.",
        }
        images_rbd_pool: String => drivers.libvirt.images.rbd.pool {
            help: "Ceph pool of guests' disks, with images_type rbd.",
        }
        images_rbd_ceph_conf: String => drivers.libvirt.images.rbd.conf by NotEmpty {
            help: "Path of Ceph's configuration file on the compute hosts, for their emulators. Chronova reads no \
                   file of a host, so [chronova] rbd_monitors names Ceph's monitors.",
        }
        rbd_user: Option<String> => drivers.libvirt.images.rbd.user {
            help: "Ceph user of guests' disks.",
        }
        rbd_secret_uuid: Option<String> => drivers.libvirt.images.rbd.secret {
            help: "libvirt secret that holds the Ceph user's key on the compute hosts.",
        }
        rbd_connect_timeout: u32 => drivers.libvirt.images.rbd.connect_timeout by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "How long Ceph's programs beside Chronova may take to reach the cluster, with images_type rbd.",
        }
        rbd_destroy_volume_retries: u32 => drivers.libvirt.images.rbd.destroy_retries {
            min: Some(0.0),
            help: "How often Chronova tries again to remove a guest's disk in Ceph while a client has the disk open. \
                   Ceph waits half a minute for a client that has died.",
        }
        rbd_destroy_volume_retry_interval: u32 => drivers.libvirt.images.rbd.destroy_interval by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "The pause between these attempts.",
        }
        snapshot_image_format: Option<String> => runtime.servers.snapshot_format by SnapshotFormat {
            choices: &["raw", "qcow2", "vmdk", "vdi"],
            help: "Format of the images that are made of servers' disks: raw or qcow2. Unset: qcow2, where Nova takes the \
                   format of the disk. vmdk and vdi are not supported and stop the start.",
        }
        disk_cachemodes: Vec<String> => drivers.libvirt.guests.cache by CacheWords {
            choices: CACHE_MODES,
            help: "Cache modes by the kind of disk on the host, as in file=directsync,block=none,network=writeback. \
                   Unset: none, or writeback if the file system cannot bypass the page cache. A volume that several \
                   servers may share is never cached.",
        }
        hw_disk_discard: Option<String> => drivers.libvirt.guests.discard by DiscardWords {
            choices: &["ignore", "unmap"],
            help: "Whether space that guests free on their local disks is returned to the host (`unmap`) or not. \
                   Unset: the hypervisor's choice.",
        }
        rng_dev_path: PathBuf => drivers.libvirt.guests.rng_device by PathOnHost {
            help: "Device on the compute hosts that guests' random number generators read.",
        }
        sysinfo_serial: String => drivers.libvirt.guests.serial by SerialWords {
            choices: &["none", "os", "hardware", "auto", "unique"],
            help: "Serial number in guests' SMBIOS. `unique` is the server's id; `hardware` is the id of the host, \
                   as its libvirtd knows it. Chronova cannot read a host's /etc/machine-id over libvirt, so `os` and \
                   `auto` mean `hardware`.",
        }
        mem_stats_period_seconds: u32 => drivers.libvirt.guests.memory_statistics {
            min: Some(0.0), unit: "seconds",
            help: "Period of memory statistics; 0 gives guests no balloon statistics.",
        }
        num_pcie_ports: u32 => drivers.libvirt.guests.pcie_ports {
            min: Some(0.0), max: Some(28.0),
            help: "PCIe root ports for hotplug on q35 and virt machines; 0 is libvirt's own number.",
        }
        wait_soft_reboot_seconds: u32 => runtime.processes.soft_reboot_timeout {
            min: Some(0.0), unit: "seconds",
            help: "How long a guest may take to shut down for a soft reboot before it is rebooted hard.",
        }
        device_detach_attempts: u32 => drivers.libvirt.device_detach_attempts {
            min: Some(1.0),
            help: "How often Chronova asks a running guest to release a device.",
        }
        device_detach_timeout: u32 => drivers.libvirt.device_detach_timeout by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "How long each such request may take.",
        }
        rx_queue_size: Option<String> => drivers.libvirt.guests.rx_queue_size by ChosenNumber {
            choices: &["256", "512", "1024"],
            help: "Receive queue size of virtio network cards, in packets; with kvm only.",
        }
        max_queues: Option<u32> => drivers.libvirt.guests.max_queues {
            min: Some(1.0),
            help: "Largest number of queues of one network card, if the image or flavor asks for one queue per CPU. \
                   Unset: 256.",
        }
        pmem_namespaces: Vec<String> => here {
            help: "Virtual persistent memory of each host, as LABEL:NAME|NAME: 6GB:ns0|ns1|ns2, LARGE:ns3. A flavor asks for \
                   labels with hw:pmem. It needs [chronova] pmem_path and pmem_sizes. In Nova the names are devices; here \
                   only their number counts.",
        }
        file_backed_memory: u32 => drivers.libvirt.guests.file_backed_memory by SomeWhole {
            min: Some(0.0), unit: "MiB",
            help: "Keep guests' memory in files on their hosts. The number is the memory that each host offers in this \
                   way as MEMORY_MB; 0 keeps the memory in RAM. Other numbers need ram_allocation_ratio = 1.0, and hosts \
                   with libvirt 4.4.0 and QEMU 2.10.0. Guests with huge pages do not start on such hosts.",
        }
        realtime_scheduler_priority: u32 => drivers.libvirt.guests.realtime_priority {
            min: Some(1.0), max: Some(99.0),
            help: "Scheduling priority of guests' CPUs that run in real time (hw:cpu_realtime).",
        }
        swtpm_enabled: bool => drivers.libvirt.emulates_tpm {
            help: "Offer guests an emulated TPM on hosts that have swtpm. The passphrases of the TPMs need a key \
                   manager: see [chronova] key_manager.",
        }
        num_memory_encrypted_guests: Option<u32> => drivers.libvirt.encrypted_guests {
            min: Some(0.0),
            help: "Largest number of guests with encrypted memory (hw:mem_encryption) on one host: its inventory of \
                   MEM_ENCRYPTION_CONTEXT. Unset: as many as the host's processor supports.",
        }
        live_migration_scheme: Option<String> => runtime.live.scheme {
            help: "Transport that a source host uses to reach a destination's libvirtd (tcp, tls, ssh).",
        }
        live_migration_uri: Option<String> => runtime.live.uri {
            help: "URI of a destination's libvirtd; `%s` is replaced by the host's name. It has precedence over \
                   live_migration_scheme.",
        }
        live_migration_inbound_addr: Option<String> => runtime.live.inbound_addr {
            help: "Address at which hosts receive migrations; `%s` is replaced by the host's name. The source calls \
                   the destination's libvirtd there, and sends guests' memory and disks there. Unset: the host in the \
                   URI of the destination's libvirtd, or the destination's name.",
        }
        live_migration_with_native_tls: bool => runtime.live.native_tls {
            help: "Let QEMU encrypt the memory and disks that it sends. Both hosts need libvirt 4.4.0, QEMU 2.11.0 \
                   and certificates (docs/live-migration.md). Set live_migration_scheme = tls as well.",
        }
        live_migration_tunnelled: bool => runtime.live.tunnelled {
            help: "Send a guest's memory through the libvirtds of both hosts. Local disks are not sent through them; \
                   prefer live_migration_with_native_tls.",
        }
        live_migration_bandwidth: u32 => runtime.live.bandwidth by Whole {
            min: Some(0.0), unit: "MiB/s",
            help: "Largest bandwidth of one live migration; 0 is the hypervisor's choice.",
        }
        live_migration_downtime: u32 => runtime.live.downtime by Whole {
            min: Some(100.0), unit: "milliseconds",
            help: "Longest pause of a guest at the end of a live migration.",
        }
        live_migration_downtime_steps: u32 => runtime.live.downtime_steps by Whole {
            min: Some(3.0),
            help: "Steps in which the allowed pause rises to its greatest value.",
        }
        live_migration_downtime_delay: u32 => runtime.live.downtime_delay by Whole {
            min: Some(3.0), unit: "seconds",
            help: "Wait between these steps for each GiB of guest memory.",
        }
        live_migration_completion_timeout: u32 => runtime.live.completion_timeout by Whole {
            min: Some(0.0), unit: "seconds",
            help: "Longest time of a live migration for each GiB to move; 0 is no limit. A new value takes effect at \
                   SIGHUP, also for migrations under way.",
        }
        live_migration_timeout_action: String => runtime.live.force_at_timeout by TimeoutActionWords {
            choices: &["abort", "force_complete"],
            help: "The action when live_migration_completion_timeout is over.",
        }
        live_migration_permit_post_copy: bool => runtime.live.permit_post_copy {
            help: "Let a live migration that does not converge switch to post-copy, if both hosts support it. Its \
                   guest is then not slowed down.",
        }
        live_migration_permit_auto_converge: bool => runtime.live.permit_auto_converge {
            help: "Let a live migration slow its guest down until it converges.",
        }
    }
}

section! {
    /// Nova's `[compute]`.
    Compute = "compute" from Nova {
        consecutive_build_service_disable_threshold: u32 => runtime.scheduler.counts_build_failures by AboveZero {
            default: Text("10"), min: Some(0.0),
            help: "Number of consecutive failed builds after which the scheduler lowers the weight of a host; 0 \
                   never.",
        }
        shutdown_retry_interval: u32 => drivers.libvirt.shutdown_retry by Seconds {
            min: Some(1.0), unit: "seconds",
            help: "Interval at which Chronova repeats the request to a guest to shut down.",
        }
        cpu_shared_set: Option<String> => here {
            help: "Host CPUs for virtual CPUs that are not pinned, as in 4-12,^8,15. They become the inventory of \
                   VCPU, and such guests run only on them. Unset: all host CPUs, or none if cpu_dedicated_set is \
                   set. Applies to every host that [chronova] host_cpus does not name.",
        }
        cpu_dedicated_set: Option<String> => here {
            help: "Host CPUs for dedicated virtual CPUs (hw:cpu_policy). They become the inventory of PCPU. Applies \
                   to every host that [chronova] host_cpus does not name. A host that does not have them is not \
                   registered.",
        }
        provider_config_location: PathBuf => here {
            default: Text("/etc/nova/provider_config/"),
            help: "Directory of *.yaml files with custom inventories and traits of hosts, which Chronova reads once at \
                   start-up. A file that cannot be used stops the start. docs/hosts.md describes the entries.",
        }
        packing_host_numa_cells_allocation_strategy: bool => runtime.scheduler.packs_cells {
            help: "Give guests with a NUMA topology the most used NUMA cells of a host. Off: the least used cells.",
        }
        max_disk_devices_to_attach: i32
            => runtime.servers.max_disk_devices by Unlimited => compute.max_disk_devices by Unlimited {
            min: Some(-1.0),
            help: "Largest number of disks of one server; -1: only the limit of the machine type.",
        }
        image_type_exclude_list: Vec<String> => runtime.hosts.excluded_image_types {
            help: "Image formats (raw, qcow2, iso) that hosts do not offer, although they could. The hosts do not \
                   get the trait COMPUTE_IMAGE_TYPE_... for them. With [scheduler] \
                   query_placement_for_image_type_support, no server is built from such an image.",
        }
    }
}

section! {
    /// Nova's `[image_cache]`.
    ImageCache = "image_cache" from Nova {
        manager_interval: i32 => runtime.image_cache.interval by TaskPeriod {
            min: Some(-1.0), unit: "seconds",
            deprecated: &[("DEFAULT", "image_cache_manager_interval")],
            help: "Interval of the search for unused images in hosts' image caches; 0 means every minute, -1 never.",
        }
        remove_unused_base_images: bool => runtime.image_cache.remove_unused {
            deprecated: &[("DEFAULT", "remove_unused_base_images")],
            help: "Remove cached images that no guest uses. Off: caches are not checked.",
        }
        remove_unused_original_minimum_age_seconds: u32 => runtime.image_cache.minimum_age by Seconds {
            min: Some(0.0), unit: "seconds",
            deprecated: &[("DEFAULT", "remove_unused_original_minimum_age_seconds")],
            help: "How long a cached image must have been unused before it is removed.",
        }
        precache_concurrency: u32 => runtime.image_cache.precache_concurrency by Whole {
            min: Some(1.0),
            help: "Hosts that fetch images of an aggregate's pre-caching request at the same time.",
        }
    }
}

section! {
    /// Nova's `[workarounds]`.
    Workarounds = "workarounds" from Nova {
        handle_virt_lifecycle_events: bool => runtime.hosts.follows_guests {
            help: "React to libvirt's lifecycle events (a guest stopped, crashed, resumed). Off: only the comparison \
                   at [DEFAULT] sync_power_state_interval finds such changes.",
        }
        disable_fallback_pcpu_query: bool => runtime.scheduler.disable_fallback_pcpu_query {
            help: "Never place a server that asks for dedicated CPUs on a host that has only shared ones.",
        }
        reserve_disk_resource_for_image_cache: bool => runtime.image_cache.reserve_disk {
            help: "Subtract the size of a host's image cache from the disk space that the host offers. Chronova \
                   measures the size at [image_cache] manager_interval. Use it for hosts that have the cache on the \
                   same file system as the disks.",
        }
        skip_cpu_compare_on_dest: bool => drivers.libvirt.guests.trusts_cpus {
            help: "Leave the comparison of CPUs before a live migration to libvirt, which refuses the guest during the \
                   migration.",
        }
    }
}
