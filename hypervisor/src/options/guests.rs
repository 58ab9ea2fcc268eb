//! Holds an operator's choices for all guests of a host. An image or a flavor may override them where Nova allows it.

use super::CacheMode;

/// One feature of `[libvirt] cpu_model_extra_flags`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuFlag {
    pub name: String,
    /// Whether guests must have it, or must not (`-name`).
    pub wanted: bool,
}

impl CpuFlag {
    /// `name`, `+name` or `-name`; libvirt knows features by small letters only.
    pub fn parse(word: &str) -> Self {
        let name = word.trim_start_matches(['+', '-']).to_ascii_lowercase();
        Self { name, wanted: !word.starts_with('-') }
    }
}

/// `[libvirt] sysinfo_serial`: what guests read as the serial number of their machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Serial {
    None,
    /// The id of the host, as its libvirtd knows it: two servers of a project can find out that they share a host.
    Host,
    /// The server's own id, wherever it is.
    #[default]
    Server,
}

/// `[libvirt] disk_cachemodes`, by what a disk is on its host; `None` is the driver's own choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheModes {
    pub file: Option<CacheMode>,
    pub block: Option<CacheMode>,
    pub network: Option<CacheMode>,
}

/// See the fields; the defaults are Nova's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestOptions {
    pub cpu_flags: Vec<CpuFlag>,
    /// `[DEFAULT] pointer_model`: a tablet, where the image does not name its own; otherwise a PS/2 mouse.
    pub tablet: bool,
    pub cache: CacheModes,
    /// `[libvirt] hw_disk_discard`: whether space that a guest gives up on its local disks is given back.
    pub discard: Option<bool>,
    /// `[libvirt] rng_dev_path`, on the host.
    pub rng_device: String,
    pub serial: Serial,
    /// `[libvirt] mem_stats_period_seconds`; 0: no statistics.
    pub memory_statistics: u32,
    /// `[libvirt] num_pcie_ports` of machines that have PCI Express; 0: as many as libvirt takes.
    pub pcie_ports: u32,
    /// `[libvirt] rx_queue_size` of virtio interfaces, in packets.
    pub rx_queue_size: Option<u32>,
    /// `[libvirt] max_queues` of an interface, where a server asks for several.
    pub max_queues: Option<u32>,
    /// `[workarounds] skip_cpu_compare_on_dest`: before a live migration nobody asks whether the CPUs fit.
    pub trusts_cpus: bool,
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
        }
    }
}
