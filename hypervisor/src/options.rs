//! An operator's options for hosts and guests, typed. Many of them are Nova's `[libvirt]` options.

mod guests;
mod host_cpu_models;
mod machine_types;

use std::path::PathBuf;
use std::time::Duration;

use crate::capability::consoles::Screen;

pub use guests::{CacheModes, CpuFlag, GuestOptions, Serial};
pub use host_cpu_models::HostCpuModels;
pub use machine_types::{MachineTypes, default_machine_type};

/// `[libvirt] virt_type`. Nova's default is `kvm`. `Auto` uses KVM if the host has it, and emulates otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VirtType {
    #[default]
    Auto,
    Kvm,
    Qemu,
}

/// `[libvirt] cpu_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuMode {
    /// No CPU model is requested; the hypervisor uses its default.
    None,
    HostModel,
    HostPassthrough,
    Maximum,
    /// The first model of `cpu_models` with the CPU traits that the guest requires.
    Custom,
}

/// How a guest's disk uses the host's page cache. The names are libvirt's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMode {
    Default,
    None,
    WriteThrough,
    WriteBack,
    DirectSync,
    Unsafe,
}

impl CacheMode {
    const ALL: [Self; 6] =
        [Self::Default, Self::None, Self::WriteThrough, Self::WriteBack, Self::DirectSync, Self::Unsafe];

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == word)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::None => "none",
            Self::WriteThrough => "writethrough",
            Self::WriteBack => "writeback",
            Self::DirectSync => "directsync",
            Self::Unsafe => "unsafe",
        }
    }

    /// Whether the mode needs a file system that can bypass the page cache (`O_DIRECT`).
    pub fn is_direct(self) -> bool {
        matches!(self, Self::None | Self::DirectSync)
    }
}

/// How a virtual network reaches other networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardMode {
    /// `Nat` if the host supports NAT, and otherwise `Open`. The first network on a host shows which mode works. The
    /// host's later networks use that mode.
    #[default]
    Auto,
    /// Guests use the host's address outside of the network.
    Nat,
    /// Traffic is routed without firewall rules from libvirt.
    Open,
    /// Guests reach only each other and the host.
    Isolated,
}

/// `[libvirt] images_type`. `[DEFAULT] use_cow_images` resolves `default`, as in Nova's image back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImagesType {
    /// Copy-on-write files over the cached image.
    #[default]
    Qcow2,
    /// Files without a backing file.
    Flat,
    /// Logical volumes.
    Lvm,
    /// Images in a Ceph pool.
    Rbd,
}

impl ImagesType {
    /// The values of `[libvirt] images_type`: Nova's without `ploop`, and MOSK's `local` and `ceph`.
    pub const WORDS: &'static [&'static str] = &["raw", "flat", "qcow2", "lvm", "rbd", "default", "local", "ceph"];

    /// The type for a value of the configuration file. `default` and `local` follow `[DEFAULT] use_cow_images`.
    pub fn of_word(word: &str, use_cow_images: bool) -> Option<Self> {
        match word {
            "raw" | "flat" => Some(Self::Flat),
            "qcow2" => Some(Self::Qcow2),
            "lvm" => Some(Self::Lvm),
            "rbd" | "ceph" => Some(Self::Rbd),
            "default" | "local" => Some(if use_cow_images { Self::Qcow2 } else { Self::Flat }),
            _ => None,
        }
    }
}

/// `[libvirt] volume_clear`: how a logical volume is erased before its deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VolumeClear {
    None,
    #[default]
    Zero,
    Shred,
}

/// The storage of guests' disks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImagesOptions {
    pub kind: ImagesType,
    /// `[DEFAULT] force_raw_images = false`: a file without a backing file keeps the format of its image.
    pub keep_format: bool,
    /// `[DEFAULT] preallocate_images = space`.
    pub preallocate: bool,
    pub volume_group: Option<String>,
    pub sparse_logical_volumes: bool,
    pub clear: VolumeClear,
    /// How many MiB at the start of each volume are erased; 0 means all of it.
    pub clear_mib: u64,
    pub rbd: RbdOptions,
}

/// `[libvirt] images_rbd_*`, `rbd_user`, `rbd_secret_uuid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbdOptions {
    pub pool: String,
    /// The addresses of Ceph's monitors, as `HOST[:PORT]`.
    pub monitors: Vec<String>,
    /// The path of Ceph's configuration file on the compute hosts.
    pub conf: Option<String>,
    pub user: Option<String>,
    /// The libvirt secret with the user's key.
    pub secret: Option<String>,
    /// The key of `[chronova] rbd_keyring`. Chronova uses this key to define the secret on hosts. `None`: hosts already
    /// have the secret.
    pub key: Option<RbdKey>,
    /// The path of that keyring, for Ceph's programs beside Chronova.
    pub keyring: Option<PathBuf>,
    /// `[libvirt] rbd_connect_timeout`: how long these programs may take to reach the cluster.
    pub connect_timeout: Duration,
    /// `[libvirt] rbd_destroy_volume_retries`: how often a removal is tried again while a client has the image open.
    pub destroy_retries: u32,
    /// `[libvirt] rbd_destroy_volume_retry_interval`: the pause between these attempts.
    pub destroy_interval: Duration,
}

/// The key of a user of Ceph. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct RbdKey {
    /// The user without `client.`.
    pub user: String,
    pub value: Vec<u8>,
}

impl std::fmt::Debug for RbdKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RbdKey").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Default for RbdOptions {
    fn default() -> Self {
        Self {
            pool: "rbd".to_owned(),
            monitors: Vec::new(),
            conf: None,
            user: None,
            secret: None,
            key: None,
            keyring: None,
            connect_timeout: Duration::from_secs(5),
            destroy_retries: 12,
            destroy_interval: Duration::from_secs(5),
        }
    }
}

/// The protocols of guests' screens. For each protocol, QEMU listens on the given address of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screens {
    /// `[vnc] server_listen`; `None` if `[vnc] enabled = false`.
    pub vnc: Option<String>,
    /// `None` unless `[spice] enabled`.
    pub spice: Option<Spice>,
}

impl Screens {
    /// Whether guests have a screen. Without a screen, guests have no graphics card and no pointer device.
    pub fn any(&self) -> bool {
        self.vnc.is_some() || self.spice.is_some()
    }
}

impl Default for Screens {
    fn default() -> Self {
        Self { vnc: Some("127.0.0.1".to_owned()), spice: None }
    }
}

/// Nova's `[spice]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spice {
    /// `server_listen`.
    pub listen: String,
    /// `agent_enabled`: guests have a channel for the SPICE agent.
    pub agent: bool,
    /// `require_secure`: connections without TLS are refused.
    pub secure: bool,
}

/// The options of the libvirt driver. All hosts have the same options.
#[derive(Debug, Clone, PartialEq)]
pub struct LibvirtOptions {
    pub virt_type: VirtType,
    /// `None`: the driver decides. With KVM, it uses `host-passthrough` on AArch64 and `host-model` on other hosts, as
    /// Nova does. Under emulation, the driver names no model, but Nova chooses the mode as with KVM.
    pub cpu_mode: Option<CpuMode>,
    /// `[libvirt] cpu_models`, in the order of preference.
    pub cpu_models: Vec<String>,
    /// `[chronova] host_cpu_models`.
    pub host_cpu_models: HostCpuModels,
    /// `[libvirt] hw_machine_type`.
    pub machine_types: MachineTypes,
    pub guests: GuestOptions,
    /// `[libvirt] swtpm_enabled`: hosts with `swtpm` offer emulated TPMs.
    pub emulates_tpm: bool,
    /// `[libvirt] num_memory_encrypted_guests`: how many guests with encrypted memory a host may have; `None`: as many as
    /// its processor allows.
    pub encrypted_guests: Option<u32>,
    /// Whether guests may get PCI devices of the host. Otherwise the driver does not list the host's devices.
    pub reads_pci: bool,
    /// Whether guests may get mediated devices of the host. Otherwise the driver does not list the physical devices.
    pub reads_mdevs: bool,
    /// The storage pool for images, disks, config drives and console logs. It is created if it does not exist.
    pub pool_name: String,
    /// The directory of the pool on the host.
    pub pool_path: String,
    pub images: ImagesOptions,
    /// The storage pool for the volumes of the volume service. It is created if it does not exist.
    pub volume_pool_name: String,
    /// The directory of that pool on the host.
    pub volume_pool_path: String,
    pub screens: Screens,
    /// `[vnc] server_proxyclient_address`: the address at which the console gateway reaches the VNC servers of a host.
    /// The host's name replaces `%s`. `None`: the address on which the servers listen. If the servers listen on
    /// loopback or on all addresses, the address is `host_ip`.
    pub vnc_address: Option<String>,
    /// `[spice] server_proxyclient_address`: the same for the SPICE servers.
    pub spice_address: Option<String>,
    /// The address of the host. `None`: the URI's host, or loopback for a local URI.
    pub host_ip: Option<String>,
    pub forward: ForwardMode,
    /// How long one hypervisor call may take before its outcome counts as unknown. Slow calls, for example a suspend,
    /// may take a multiple of this time.
    pub call_deadline: Duration,
    /// `[compute] shutdown_retry_interval`: the time after which a guest is asked again to shut down, because a booting
    /// guest misses the request.
    pub shutdown_retry: Duration,
    /// `[libvirt] device_detach_attempts`: how often a running guest is asked to release a device.
    pub device_detach_attempts: u32,
    /// `[libvirt] device_detach_timeout`: how long the guest may take to release the device after each request.
    pub device_detach_timeout: Duration,
    /// How long the transfer of an image or a disk may make no progress.
    pub transfer_stall: Duration,
    /// The number of concurrent calls per host, in addition to queries; further calls wait. The upload of
    /// an image counts as one call until it ends.
    pub workers: usize,
    /// The keepalive: seconds between probes, and the number of missed probes after which the connection counts as
    /// dead.
    pub keepalive: (u16, u16),
    /// The longest pause between two attempts to connect.
    pub reconnect_max: Duration,
}

impl LibvirtOptions {
    /// The CPU mode of a host, if the operator chose one, and the CPU models for its guests.
    pub fn cpus_of(&self, hostname: &str) -> (Option<CpuMode>, &[String]) {
        match self.host_cpu_models.of(hostname) {
            Some(models) => (Some(CpuMode::Custom), models),
            None => (self.cpu_mode, &self.cpu_models),
        }
    }

    /// The address at which the console gateway reaches the screens of the host `name`, if one is chosen.
    pub fn console_address(&self, screen: Screen, name: &str) -> Option<String> {
        let chosen = match screen {
            Screen::Vnc => &self.vnc_address,
            Screen::Spice => &self.spice_address,
        };
        chosen.as_ref().map(|address| address.replace("%s", name))
    }
}

impl Default for LibvirtOptions {
    fn default() -> Self {
        Self {
            virt_type: VirtType::Auto,
            cpu_mode: None,
            cpu_models: Vec::new(),
            host_cpu_models: HostCpuModels::default(),
            machine_types: MachineTypes::default(),
            guests: GuestOptions::default(),
            emulates_tpm: false,
            encrypted_guests: None,
            reads_pci: false,
            reads_mdevs: false,
            pool_name: "chronova".to_owned(),
            pool_path: "/var/lib/libvirt/chronova".to_owned(),
            images: ImagesOptions::default(),
            volume_pool_name: "chronova-volumes".to_owned(),
            volume_pool_path: "/var/lib/libvirt/chronova-volumes".to_owned(),
            screens: Screens::default(),
            vnc_address: None,
            spice_address: None,
            host_ip: None,
            forward: ForwardMode::Auto,
            call_deadline: Duration::from_mins(2),
            shutdown_retry: Duration::from_secs(10),
            device_detach_attempts: 8,
            device_detach_timeout: Duration::from_secs(20),
            transfer_stall: Duration::from_mins(1),
            workers: 8,
            keepalive: (5, 3),
            reconnect_max: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_models_of_its_own_or_those_of_all_hosts() {
        let models = vec!["Nehalem".to_owned()];
        let all = LibvirtOptions { cpu_mode: Some(CpuMode::Custom), cpu_models: models.clone(), ..Default::default() };
        assert_eq!(all.cpus_of("node1"), (Some(CpuMode::Custom), &models[..]));
        let host_cpu_models = HostCpuModels::read("node1=EPYC,IvyBridge").unwrap_or_default();
        let own = ["EPYC".to_owned(), "IvyBridge".to_owned()];
        let named = LibvirtOptions { host_cpu_models: host_cpu_models.clone(), ..all };
        assert_eq!(named.cpus_of("node1"), (Some(CpuMode::Custom), &own[..]));
        assert_eq!(named.cpus_of("node2"), (Some(CpuMode::Custom), &models[..]));
        // The other hosts keep their mode.
        let others = LibvirtOptions { host_cpu_models, ..LibvirtOptions::default() };
        assert_eq!(others.cpus_of("node1"), (Some(CpuMode::Custom), &own[..]));
        assert_eq!(others.cpus_of("node2"), (None, &[][..]));
    }

    #[test]
    fn consoles_are_reached_at_the_configured_address() {
        let at = |address: Option<&str>| {
            let options = LibvirtOptions { vnc_address: address.map(str::to_owned), ..LibvirtOptions::default() };
            assert_eq!(options.console_address(Screen::Spice, "node1"), None);
            options.console_address(Screen::Vnc, "node1")
        };
        assert_eq!(at(None), None);
        assert_eq!(at(Some("192.0.2.9")).as_deref(), Some("192.0.2.9"));
        assert_eq!(at(Some("%s.console.example")).as_deref(), Some("node1.console.example"));
        let options = LibvirtOptions { spice_address: Some("%s.spice".to_owned()), ..LibvirtOptions::default() };
        assert_eq!(options.console_address(Screen::Spice, "node1").as_deref(), Some("node1.spice"));
    }
}
