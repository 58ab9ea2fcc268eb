//! An operator's options for all guests of a host. An image or a flavor may override them where Nova allows it.

use super::CacheMode;
use crate::pmem::PmemOptions;

/// One feature of `[libvirt] cpu_model_extra_flags`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuFlag {
    pub name: String,
    /// Whether guests must have the feature. `false` (`-name`): they must not have it.
    pub wanted: bool,
}

impl CpuFlag {
    /// Parses `name`, `+name` or `-name`. libvirt's feature names are in lower case.
    pub fn parse(word: &str) -> Self {
        let name = word.trim_start_matches(['+', '-']).to_ascii_lowercase();
        Self { name, wanted: !word.starts_with('-') }
    }
}

/// `[libvirt] sysinfo_serial`: the serial number of the machine that guests read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Serial {
    None,
    /// The host's id as libvirtd reports it. Two servers can compare this id, and so find out that they share a host.
    Host,
    /// The server's own id, on every host.
    #[default]
    Server,
}

/// `[libvirt] disk_cachemodes`, by the kind of the disk's source on its host; `None`: the driver's choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheModes {
    pub file: Option<CacheMode>,
    pub block: Option<CacheMode>,
    pub network: Option<CacheMode>,
}

/// The options of all guests; the defaults are Nova's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestOptions {
    pub cpu_flags: Vec<CpuFlag>,
    /// `[DEFAULT] pointer_model`: whether a guest has a tablet or a PS/2 mouse. An image may name another pointer
    /// device.
    pub tablet: bool,
    pub cache: CacheModes,
    /// `[libvirt] hw_disk_discard`: whether space that a guest frees on its local disks is returned to the host.
    pub discard: Option<bool>,
    /// `[libvirt] rng_dev_path`: the path of the device on the host.
    pub rng_device: String,
    pub serial: Serial,
    /// `[libvirt] mem_stats_period_seconds`; 0 disables the statistics.
    pub memory_statistics: u32,
    /// `[libvirt] num_pcie_ports` of machines with PCI Express; 0: libvirt's default.
    pub pcie_ports: u32,
    /// `[libvirt] rx_queue_size` of virtio interfaces, in packets.
    pub rx_queue_size: Option<u32>,
    /// `[libvirt] max_queues` of an interface with several queues.
    pub max_queues: Option<u32>,
    /// `[workarounds] skip_cpu_compare_on_dest`: CPUs are not compared before a live migration.
    pub trusts_cpus: bool,
    /// `[libvirt] file_backed_memory`: guests' memory is in files of the host, at most this many MiB in total; `None`:
    /// in its RAM.
    pub file_backed_memory: Option<u64>,
    /// Virtual persistent memory.
    pub pmem: PmemOptions,
    /// `[libvirt] realtime_scheduler_priority` of CPUs that run in real time.
    pub realtime_priority: u32,
}

impl Default for GuestOptions {
    fn default() -> Self {
        Self {
            cpu_flags: Vec::new(),
            tablet: true,
            cache: CacheModes::default(),
            discard: None,
            rng_device: "/dev/urandom".to_owned(),
            serial: Serial::Server,
            memory_statistics: 10,
            pcie_ports: 0,
            rx_queue_size: None,
            max_queues: None,
            trusts_cpus: false,
            file_backed_memory: None,
            pmem: PmemOptions::default(),
            realtime_priority: 1,
        }
    }
}
