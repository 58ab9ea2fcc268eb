//! Describes a guest, independent of any hypervisor: the input of the domain XML and of the simulated fleet.

use std::sync::Arc;

use chronova_events::ids::{HostId, ImageId, InstanceId, NetworkId, PortId, ProjectId, SecurityGroupId, UserId};
use serde::{Deserialize, Serialize};

use crate::pinning::{NumaCell, Pinning};

/// Everything a driver needs to create a guest. The same `GuestSpec` twice is the same guest (idempotence by `instance`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestSpec {
    pub instance: InstanceId,
    /// Nova's `instance-%08x` name; unique on a host.
    pub domain_name: String,
    pub display_name: String,
    pub flavor_name: String,
    pub project: ProjectId,
    pub user: UserId,
    pub vcpus: u32,
    pub memory_mib: u64,
    /// Root disk; `None` for a guest with no local root.
    pub root: Option<RootDisk>,
    /// Empty disks, in the order in which the guest sees them.
    pub ephemerals_gib: Vec<u32>,
    pub swap_mib: u32,
    /// Volumes of the volume service. One of them is the root disk where `root` is none.
    pub volumes: Vec<VolumeDisk>,
    pub nics: Vec<Nic>,
    /// The config drive as a finished ISO9660 image, when the guest is to have one.
    pub config_drive: Option<bytes::Bytes>,
    /// The choices of hardware, each under its own name: the image's properties (`hw_disk_bus`, `hw_vif_model`, ...), then
    /// the flavor's extra specs (`hw:watchdog_action`, `quota:cpu_shares`, ...).
    pub hardware: Vec<(String, String)>,
    /// The disk that the guest starts from while it is rescued.
    pub rescue: Option<RescueDisk>,
    /// Where on its host its CPUs and memory are.
    pub pinning: Pinning,
}

/// The disk of a rescue: a copy of an image, made for the time of the rescue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RescueDisk {
    pub image: ImageRef,
    /// `None`: the rescue disk is the first one, the guest's root the second, and there are no others. Else the guest
    /// keeps all its disks in their places and is started from one more.
    pub stable: Option<RescuePlace>,
}

/// Where the rescue disk is added to the others: image properties `hw_rescue_device` and `hw_rescue_bus`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RescuePlace {
    pub cdrom: bool,
    /// `None`: the bus of the guest's other disks.
    pub bus: Option<String>,
}

/// The disks of a guest that are made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renew {
    /// None: what is there stays, what is missing is made.
    Nothing,
    /// The root disk.
    Root,
    /// All of them.
    All,
}

/// Whether a guest's file systems are brought to rest, through the agent inside it, while a copy of its disk begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quiesce {
    No,
    IfPossible,
    /// No copy without it.
    Required,
}

/// A copy of a guest's root disk on its host: one qcow2 file that needs no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskCopy {
    /// Bytes of the file.
    pub size: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RootDisk {
    pub image: ImageRef,
    /// Flavor's `root_gb`; 0 means "as large as the image".
    pub size_gib: u32,
}

/// A disk that is a volume of the volume service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeDisk {
    /// The disk's serial number that the guest sees: the volume's id. It tells the guest's volumes apart.
    pub serial: String,
    /// The libvirt pool, and the volume's name in it.
    pub pool: String,
    pub volume: String,
    /// `raw` or `qcow2`.
    pub format: String,
    pub readonly: bool,
    /// Other guests may have it at the same time.
    pub shareable: bool,
    /// `vdb`
    pub device: String,
    /// `virtio`, `scsi`, `ide`, ...
    pub bus: String,
    /// `disk`, `cdrom`, `lun`.
    pub kind: String,
    /// From 1: the guest tries to boot from it, in this order.
    pub boot_order: Option<u32>,
}

/// An image as a host's cache sees it: content is identified by checksum, not by id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageRef {
    pub id: ImageId,
    /// Lower-case hex SHA-512 or SHA-256 of the content; the cache key.
    pub checksum: String,
    pub format: ImageFormat,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes that the guest will see.
    pub virtual_size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageFormat {
    Raw,
    Qcow2,
    Iso,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nic {
    pub port: PortId,
    pub network: NetworkId,
    /// `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
    pub mtu: u32,
    /// Name of the nwfilter to bind, where port security is on (see [`crate::driver::FilterSpec`]).
    pub filter: Option<String>,
    /// Neutron's VNIC tag names and device names: `tap` + first 11 characters of the port id.
    pub tap: String,
}

/// A virtual network, as a driver realises it on its host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkSpec {
    pub network: NetworkId,
    pub mtu: u32,
    pub subnets: Vec<SubnetSpec>,
    /// Fixed addresses handed out by DHCP on this host.
    pub reservations: Vec<Reservation>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubnetSpec {
    /// `10.0.0.0/24`.
    pub cidr: String,
    pub gateway: Option<String>,
    pub dhcp: bool,
    pub dns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    pub mac: String,
    pub ip: String,
    pub hostname: String,
}

/// One direction-and-match of a security group, as nwfilter can express it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterRule {
    pub ingress: bool,
    pub ipv6: bool,
    /// `tcp`, `udp`, `icmp`, or `None` for every protocol.
    pub protocol: Option<String>,
    pub port_min: Option<u16>,
    pub port_max: Option<u16>,
    /// Remote CIDR; `None` for anywhere.
    pub remote: Option<String>,
}

/// The packet filter of one port: anti-spoofing for `mac`/`ips` plus the union of its security groups' rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterSpec {
    pub name: String,
    pub port: PortId,
    pub mac: String,
    pub ips: Vec<String>,
    pub groups: Vec<SecurityGroupId>,
    pub rules: Vec<FilterRule>,
}

/// How a guest is seen to be. Nova's numbers: 0 NOSTATE, 1 RUNNING, 3 PAUSED, 4 SHUTDOWN, 6 CRASHED, 7 SUSPENDED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PowerState {
    NoState,
    Running,
    Paused,
    Shutdown,
    Crashed,
    Suspended,
}

/// A guest found on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestStatus {
    pub instance: InstanceId,
    pub domain_name: String,
    pub power: PowerState,
}

/// The resources that a running guest has used. Counters begin with the guest's start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    /// `kvm` or `qemu`.
    pub hypervisor: String,
    /// In order of the processors, nanoseconds of each.
    pub cpu_nanoseconds: Vec<u64>,
    pub memory_max_kib: u64,
    pub memory_kib: u64,
    /// The host's memory statistics by libvirt's names (`actual`, `rss`, ...), in KiB or counts.
    pub memory: Vec<(String, u64)>,
    pub disks: Vec<DiskCounters>,
    pub nics: Vec<NicCounters>,
}

/// -1 where the host does not count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskCounters {
    /// `vda`
    pub device: String,
    pub read_requests: i64,
    pub read_bytes: i64,
    pub write_requests: i64,
    pub write_bytes: i64,
    pub errors: i64,
}

/// -1 where the host does not count. Received and sent are meant from the guest's side, as the host's end of the cable
/// counts them: what the host calls received.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NicCounters {
    /// The host's end of the cable.
    pub device: String,
    pub mac: String,
    pub rx_bytes: i64,
    pub rx_packets: i64,
    pub rx_errors: i64,
    pub rx_drop: i64,
    pub tx_bytes: i64,
    pub tx_packets: i64,
    pub tx_errors: i64,
    pub tx_drop: i64,
}

/// The properties and resources of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostCapabilities {
    /// Stable for the host: libvirt's host UUID.
    pub host: HostId,
    pub hostname: String,
    /// `QEMU`, as Nova's `hypervisor_type` says it.
    pub hypervisor_type: String,
    /// Nova's integer form: major * 1_000_000 + minor * 1_000 + release.
    pub hypervisor_version: u32,
    pub libvirt_version: u32,
    /// Dotted-quad or IPv6 address under which guests' consoles are reached.
    pub host_ip: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
    pub cpu: CpuInfo,
    /// Whether hardware virtualisation is available (else software emulation).
    pub kvm: bool,
    /// Standard trait names (`HW_CPU_X86_AVX2`, `COMPUTE_NODE`, ...), sorted.
    pub traits: Vec<String>,
    /// Its NUMA cells, by id; none where it does not tell.
    pub cells: Vec<NumaCell>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct CpuInfo {
    pub arch: String,
    pub model: String,
    pub vendor: String,
    pub sockets: u32,
    pub cores: u32,
    pub threads: u32,
    pub features: Vec<String>,
}

/// The resources that are in use on a host at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostUsage {
    pub memory_used_mib: u64,
    pub disk_used_gib: u64,
    pub disk_free_gib: u64,
    pub running_guests: u32,
    /// Seconds since boot, where the host tells.
    pub uptime_seconds: Option<u64>,
}

/// Shared so that a spec may be handed to many threads without copying its config drive.
pub type SharedGuestSpec = Arc<GuestSpec>;
