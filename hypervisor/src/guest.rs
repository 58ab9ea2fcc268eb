//! A guest, independent of any hypervisor. The libvirt driver builds domain XML from it, and the simulated fleet runs
//! it.

use chronova_events::ids::{
    HostId, ImageId, InstanceId, NetworkId, PortId, ProjectId, SecurityGroupId, UserId, VolumeId,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::mdev::{GuestMdev, MdevParent};
use crate::pci::{HostPci, PassedDevice};
use crate::pinning::{NumaCell, Pinning};

/// Everything that a driver needs to create a guest. Two specs with the same `instance` are the same guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestSpec {
    pub instance: InstanceId,
    /// Nova's `instance-%08x` name. It is unique on a host.
    pub domain_name: String,
    pub display_name: String,
    pub flavor_name: String,
    pub project: ProjectId,
    pub user: UserId,
    pub vcpus: u32,
    pub memory_mib: u64,
    /// The root disk; `None` for a guest without a local root disk.
    pub root: Option<RootDisk>,
    /// The sizes of empty disks, in the order in which the guest sees them.
    pub ephemerals_gib: Vec<u32>,
    pub swap_mib: u32,
    /// The volumes of the volume service. One of them is the root disk if `root` is `None`.
    pub volumes: Vec<VolumeDisk>,
    pub nics: Vec<Nic>,
    /// The config drive as a complete image, if the guest has one: ISO 9660, or FAT of [`crate::vfat`].
    pub config_drive: Option<bytes::Bytes>,
    /// The choices of hardware by name: first the image's properties (`hw_disk_bus`, `hw_vif_model`, ...), then the
    /// flavor's extra specs (`hw:watchdog_action`, `quota:cpu_shares`, ...).
    pub hardware: Vec<(String, String)>,
    /// The disk from which the guest starts while it is rescued.
    pub rescue: Option<RescueDisk>,
    /// The placement of the guest's CPUs and memory on its host.
    pub pinning: Pinning,
    /// The PCI devices of the host that the guest gets, in the order of its requests.
    pub devices: Vec<PassedDevice>,
    /// The mediated devices that the guest gets.
    pub mdevs: Vec<GuestMdev>,
    /// libvirt's secret with the passphrase of the guest's emulated TPM, if it has one.
    pub tpm_secret: Option<Uuid>,
}

/// The disk of a rescue: a copy of an image that exists only during the rescue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RescueDisk {
    pub image: ImageRef,
    /// `None`: the guest has two local disks, the rescue disk and then its root disk. Otherwise the guest keeps all its
    /// disks in place and boots from the additional rescue disk.
    pub stable: Option<RescuePlace>,
}

/// The position of a rescue disk that is added to the others: image properties `hw_rescue_device` and `hw_rescue_bus`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RescuePlace {
    pub cdrom: bool,
    /// `None`: the bus of the guest's other disks or CD-ROM drives.
    pub bus: Option<String>,
}

/// The parts of a guest that a new definition renews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renew {
    /// Nothing: disks and files stay as they are, and the content of the config drive is not read. A missing guest is
    /// not created. A guest that Nova defined keeps its definition. If a guest does not start with its new definition,
    /// and another attempt would not help, it gets its old definition back.
    Definition,
    /// Like [`Self::Definition`], but a guest that is on stays as it is, and a guest whose memory is saved continues as
    /// it was defined.
    AtStart,
    /// No disk: existing ones stay, and missing ones are created.
    Nothing,
    /// The root disk.
    Root,
    /// All local disks.
    All,
}

/// Whether the agent freezes the guest's file systems while a copy of its disk begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quiesce {
    No,
    IfPossible,
    /// The copy fails if the agent cannot freeze the file systems.
    Required,
}

/// A copy of a guest's root disk on its host: one file without a backing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskCopy {
    /// The size of the file in bytes.
    pub size: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RootDisk {
    pub image: ImageRef,
    /// The flavor's `root_gb`; 0 means "as large as the image".
    pub size_gib: u32,
}

/// A disk that is a volume of the volume service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeDisk {
    /// The serial number that the guest sees: the volume's id.
    pub serial: String,
    /// The libvirt storage pool, and the name of the volume in it.
    pub pool: String,
    pub volume: String,
    /// How QEMU reaches the volume over the network; `None`: through the storage pool.
    pub network: Option<NetworkDisk>,
    /// `raw` or `qcow2`.
    pub format: String,
    pub readonly: bool,
    /// Whether other guests may use the volume at the same time.
    pub shareable: bool,
    /// For example `vdb`.
    pub device: String,
    /// For example `virtio`, `scsi` or `ide`.
    pub bus: String,
    /// `disk`, `cdrom` or `lun`.
    pub kind: String,
    /// The position in the boot order, from 1; `None`: the guest does not boot from it.
    pub boot_order: Option<u32>,
}

impl VolumeDisk {
    /// The key of the disk in its guest; see [`chronova_events::instance::disk_key`].
    pub fn key(&self) -> &str {
        chronova_events::instance::disk_key(&self.volume, &self.serial)
    }

    /// The passphrase of an encrypted disk.
    pub fn passphrase(&self) -> Option<&DiskPassword> {
        self.network.as_ref()?.opened().1
    }
}

/// The UUID of the libvirt secret with the passphrase of the disk with this key; `None` if the key is no id of a
/// volume.
pub fn passphrase_secret(key: &str) -> Option<String> {
    let volume: VolumeId = key.parse().ok()?;
    Some(VolumeId::derive(volume.0, "passphrase").to_string())
}

/// A disk that QEMU reaches by itself over the network. The host itself needs no login, mount or device for the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkDisk {
    /// An image in a Ceph pool.
    Rbd {
        /// `POOL/IMAGE`.
        name: String,
        /// The monitors, as `HOST[:PORT]`.
        monitors: Vec<String>,
        user: Option<String>,
        /// The UUID of the libvirt secret with the user's key.
        secret: Option<String>,
    },
    Iscsi {
        /// `HOST:PORT`.
        portal: String,
        /// The target's name.
        target: String,
        lun: u32,
        /// The name under which the host logs in.
        initiator: String,
        /// The user of CHAP, with the password.
        chap: Option<(String, DiskPassword)>,
    },
    Nfs {
        host: String,
        /// The path on the server.
        path: String,
    },
    /// A disk that QEMU decrypts (LUKS).
    Encrypted { disk: Box<Self>, passphrase: DiskPassword },
}

impl NetworkDisk {
    /// The disk without its encryption, and the passphrase.
    pub fn opened(&self) -> (&Self, Option<&DiskPassword>) {
        match self {
            Self::Encrypted { disk, passphrase } => (disk.as_ref(), Some(passphrase)),
            plain => (plain, None),
        }
    }

    /// The protocol by QEMU's name of its block driver.
    pub fn protocol(&self) -> &'static str {
        match self {
            Self::Encrypted { disk, .. } => disk.protocol(),
            Self::Rbd { .. } => "rbd",
            Self::Iscsi { .. } => "iscsi",
            Self::Nfs { .. } => "nfs",
        }
    }
}

/// A password of a disk. It is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskPassword(String);

impl DiskPassword {
    pub fn new(password: impl Into<String>) -> Self {
        Self(password.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for DiskPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DiskPassword(...)")
    }
}

/// An image in a host's cache. It is identified by the checksum of its content, not by its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageRef {
    pub id: ImageId,
    /// The SHA-512, SHA-256 or MD5 of the content in lower-case hex. It is the key in the cache.
    pub checksum: String,
    pub format: ImageFormat,
    /// The size of the file in bytes.
    pub size: u64,
    /// The number of bytes that the guest sees.
    pub virtual_size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageFormat {
    Raw,
    Qcow2,
    Iso,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    pub port: PortId,
    pub network: NetworkId,
    /// For example `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
    pub mtu: u32,
    /// The name of the nwfilter for an interface with port security (see [`FilterSpec`]).
    pub filter: Option<String>,
    /// The name of the host's tap device, as in Neutron: `tap` and the first 11 characters of the port id.
    pub tap: String,
    pub plug: NicPlug,
}

/// The network, bridge or device on the host to which an interface is connected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NicPlug {
    /// The libvirt network of [`Nic::network`], which the driver defines on the host.
    #[default]
    Network,
    /// A bridge of Open vSwitch. The agents of the network service find the interface by the id of its port.
    OpenVswitch { bridge: String },
    /// A Linux bridge, which an agent of the network service creates on the host.
    Bridge { bridge: String },
    /// Only a tap device. An agent of the network service connects this device to a network.
    Tap,
    /// A PCI device of the host, which only this guest has (SR-IOV, vDPA).
    Device(NicDevice),
}

/// A PCI device of the host as a guest's interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicDevice {
    pub form: NicDeviceForm,
    /// The VLAN that the host sets on the device.
    pub vlan: Option<u16>,
    /// The device. The network service describes an interface without its device; the placement ledger knows the
    /// device. A driver refuses an interface without its device.
    pub device: Option<PassedDevice>,
    /// The host's name of the device: the network interface of [`NicDeviceForm::Macvtap`], the character device of
    /// [`NicDeviceForm::Vdpa`].
    pub name: Option<String>,
}

/// How a guest gets the device of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NicDeviceForm {
    /// The guest gets a virtual function. The host sets its MAC address and its VLAN.
    HostDevice,
    /// The guest gets a whole card, with the card's own MAC address.
    WholeCard,
    /// A macvtap device has the virtual function for itself.
    Macvtap,
    /// The guest drives the device by virtio.
    Vdpa,
}

/// A virtual network on a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkSpec {
    pub network: NetworkId,
    pub mtu: u32,
    pub subnets: Vec<SubnetSpec>,
    /// The fixed addresses that this host assigns by DHCP.
    pub reservations: Vec<Reservation>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubnetSpec {
    /// For example `10.0.0.0/24`.
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

/// One rule of a security group in one direction, in the form of an nwfilter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FilterRule {
    pub ingress: bool,
    pub ipv6: bool,
    /// The protocol by Neutron's name or by its number, such as `tcp` or `6`; `None` for every protocol.
    pub protocol: Option<String>,
    /// The first and the last port; for ICMP, the type and the code.
    pub port_min: Option<u16>,
    pub port_max: Option<u16>,
    /// The remote CIDR; `None` for any address.
    pub remote: Option<String>,
}

/// The packet filter of one port: anti-spoofing for `mac` and `ips`, and the rules of all its security groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterSpec {
    pub name: String,
    pub port: PortId,
    pub mac: String,
    pub ips: Vec<String>,
    pub groups: Vec<SecurityGroupId>,
    pub rules: Vec<FilterRule>,
}

/// A guest's power state. Nova's numbers: 0 NOSTATE, 1 RUNNING, 3 PAUSED, 4 SHUTDOWN, 6 CRASHED, 7 SUSPENDED.
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

/// The resources that a running guest has used since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    /// `kvm` or `qemu`.
    pub hypervisor: String,
    /// The CPU time of each of the guest's CPUs in nanoseconds, in the order of the CPUs.
    pub cpu_nanoseconds: Vec<u64>,
    pub memory_max_kib: u64,
    pub memory_kib: u64,
    /// The memory statistics by libvirt's names (`actual`, `rss`, ...), in KiB or as counts.
    pub memory: Vec<(String, u64)>,
    pub disks: Vec<DiskCounters>,
    pub nics: Vec<NicCounters>,
}

/// The counters of a disk; -1 if the host does not have the counter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskCounters {
    /// For example `vda`.
    pub device: String,
    pub read_requests: i64,
    pub read_bytes: i64,
    pub write_requests: i64,
    pub write_bytes: i64,
    pub errors: i64,
}

/// The counters of an interface from the guest's side. libvirt reports them for the host's tap device. -1 if the host
/// does not have the counter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NicCounters {
    /// The host's tap device.
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
    /// The host's stable id. A libvirt host uses the UUID of its storage pool. At its creation, the pool got libvirt's
    /// host UUID.
    pub host: HostId,
    pub hostname: String,
    /// For example `QEMU`, as in Nova's `hypervisor_type`.
    pub hypervisor_type: String,
    /// Nova's integer form: major * 1_000_000 + minor * 1_000 + release.
    pub hypervisor_version: u32,
    pub libvirt_version: u32,
    /// The IPv4 or IPv6 address at which clients reach the guests' consoles.
    pub host_ip: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub disk_gib: u64,
    pub cpu: CpuInfo,
    /// Whether the host has hardware virtualisation; otherwise it emulates.
    pub kvm: bool,
    /// Why the host emulates, for operators; `None` with hardware virtualisation.
    pub emulates_because: Option<String>,
    /// Standard trait names (`HW_CPU_X86_AVX2`, `COMPUTE_NODE`, ...), sorted.
    pub traits: Vec<String>,
    /// The CPU flags that the hypervisor can present to guests in addition to those that the name of the CPU model
    /// implies, sorted. An operator reads here whether guests get flags against flaws of processors, and whether they
    /// can run guests of their own.
    pub guest_flags: Vec<String>,
    /// How many guests with encrypted memory the host can have at a time; 0: none.
    pub encrypted_guests: u32,
    /// The resource classes of virtual persistent memory that the host offers, with the number of namespaces.
    pub pmem: Vec<(String, u32)>,
    /// The host's NUMA cells, sorted by id; empty if it does not report any.
    pub cells: Vec<NumaCell>,
    pub pci: HostPci,
    /// The physical devices that can have mediated devices, sorted by address.
    pub mdevs: Vec<MdevParent>,
    /// Whether the host has an IOMMU that is on, without which no guest can have a PCI device.
    pub iommu: bool,
    /// The account of the guests' emulators, as `+UID:+GID`; `None`: the host does not tell it.
    pub emulator_account: Option<String>,
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

/// The resources that are in use on a host now.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostUsage {
    pub memory_used_mib: u64,
    pub disk_used_gib: u64,
    pub disk_free_gib: u64,
    pub running_guests: u32,
    /// The seconds since boot, if the host reports them.
    pub uptime_seconds: Option<u64>,
    /// The times of the host's processors, if the host reports them.
    pub cpu: Option<CpuTimes>,
}

/// The times that all processors of a host together have spent since its boot, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    pub kernel: u64,
    pub user: u64,
    pub idle: u64,
    pub iowait: u64,
    /// The frequency in MHz.
    pub mhz: u32,
}
