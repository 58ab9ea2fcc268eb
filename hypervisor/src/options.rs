//! Holds an operator's choices for hosts and guests: Nova's `[libvirt]` options, typed.

mod guests;

use std::time::Duration;

pub use guests::{CacheModes, CpuFlag, GuestOptions, Serial};

/// `[libvirt] virt_type`. Nova defaults to `kvm`; `Auto` takes KVM where the host has it and emulates otherwise.
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
    /// No CPU model is asked for; the hypervisor's default.
    None,
    HostModel,
    HostPassthrough,
    Maximum,
    /// The first of `cpu_models`.
    Custom,
}

/// How a host's page cache takes part in what a guest reads and writes; libvirt's words.
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

    /// Whether it needs a file system that can bypass the page cache (`O_DIRECT`).
    pub fn is_direct(self) -> bool {
        matches!(self, Self::None | Self::DirectSync)
    }
}

/// How a virtual network reaches the world outside its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardMode {
    /// `Nat` where the host can, else `Open`; found out when the first network starts.
    #[default]
    Auto,
    /// Guests go out under the host's address.
    Nat,
    /// Routed without any firewall rules of libvirt's own.
    Open,
    /// Guests reach each other and the host only.
    Isolated,
}

/// `[libvirt] images_type`, `default` resolved by `[DEFAULT] use_cow_images` as Nova's image back end does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImagesType {
    /// Copy-on-write files over the cached image.
    #[default]
    Qcow2,
    /// Files that need no other.
    Flat,
    /// Logical volumes.
    Lvm,
    /// Images in a Ceph pool.
    Rbd,
    /// Files in QEMU's format that need no other.
    Whole,
}

impl ImagesType {
    /// The words of `[libvirt] images_type`: Nova's, and MOSK's `local` and `ceph`.
    pub const WORDS: &'static [&'static str] = &["raw", "flat", "qcow2", "whole", "lvm", "rbd", "default", "local", "ceph"];

    /// The type that a word of the configuration file means; `default` and `local` follow `[DEFAULT] use_cow_images`.
    pub fn of_word(word: &str, use_cow_images: bool) -> Option<Self> {
        match word {
            "raw" | "flat" => Some(Self::Flat),
            "qcow2" => Some(Self::Qcow2),
            "whole" => Some(Self::Whole),
            "lvm" => Some(Self::Lvm),
            "rbd" | "ceph" => Some(Self::Rbd),
            "default" | "local" => Some(if use_cow_images { Self::Qcow2 } else { Self::Flat }),
            _ => None,
        }
    }
}

/// `[libvirt] volume_clear`: what is done to a logical volume before it is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VolumeClear {
    None,
    #[default]
    Zero,
    Shred,
}

/// Where guests' disks are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImagesOptions {
    pub kind: ImagesType,
    /// `[DEFAULT] force_raw_images` off: a file that needs no other keeps the format of its image.
    pub keep_format: bool,
    /// `[DEFAULT] preallocate_images = space`.
    pub preallocate: bool,
    pub volume_group: Option<String>,
    pub sparse_logical_volumes: bool,
    pub clear: VolumeClear,
    /// MiB to clear from the start of each volume; 0 is all of it.
    pub clear_mib: u64,
    pub rbd: RbdOptions,
}

/// `[libvirt] images_rbd_*`, `rbd_user`, `rbd_secret_uuid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RbdOptions {
    pub pool: String,
    /// `HOST[:PORT]` of Ceph's monitors.
    pub monitors: Vec<String>,
    /// Ceph's configuration file on the compute hosts.
    pub conf: Option<String>,
    pub user: Option<String>,
    /// The libvirt secret that holds the user's key.
    pub secret: Option<String>,
}

impl Default for RbdOptions {
    fn default() -> Self {
        Self { pool: "rbd".to_owned(), monitors: Vec::new(), conf: None, user: None, secret: None }
    }
}

/// The protocols in which a guest's screen is served, and on which of the host's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screens {
    /// `[vnc] server_listen`; `None` with `[vnc] enabled = false`.
    pub vnc: Option<String>,
    /// `None` without `[spice] enabled`.
    pub spice: Option<Spice>,
}

impl Screens {
    /// Whether guests have a screen at all; without one they have no graphics card and no pointer either.
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
    /// `agent_enabled`: a channel to the agent inside the guest.
    pub agent: bool,
    /// `require_secure`: no connection without TLS.
    pub secure: bool,
}

/// Options of the libvirt driver; one set for all hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct LibvirtOptions {
    pub virt_type: VirtType,
    /// `None`: `host-model` with KVM, no model under emulation, as Nova does.
    pub cpu_mode: Option<CpuMode>,
    /// `[libvirt] cpu_models`, best last resort last.
    pub cpu_models: Vec<String>,
    /// `[libvirt] hw_machine_type` for the host's architecture; `None` is `pc` on x86 and `virt` elsewhere.
    pub machine_type: Option<String>,
    pub guests: GuestOptions,
    /// The storage pool that holds images, disks, config drives and console logs; created where absent.
    pub pool_name: String,
    /// The pool's directory on the host.
    pub pool_path: String,
    pub images: ImagesOptions,
    /// The storage pool that holds the volumes of the volume service; created where absent.
    pub volume_pool_name: String,
    /// That pool's directory on the host.
    pub volume_pool_path: String,
    pub screens: Screens,
    /// The address under which consoles are reached; `None` takes the URI's host, or loopback for a local URI.
    pub host_ip: Option<String>,
    pub forward: ForwardMode,
    /// How long one hypervisor call may take before its outcome counts as unknown.
    pub call_deadline: Duration,
    /// `[libvirt] device_detach_attempts`: how often a running guest is asked to let go of a device.
    pub device_detach_attempts: u32,
    /// `[libvirt] device_detach_timeout`: how long it is given each time.
    pub device_detach_timeout: Duration,
    /// How long a transfer (image upload) may go without making progress.
    pub transfer_stall: Duration,
    /// Calls in flight per host; more wait in line.
    pub workers: usize,
    /// Keepalive: seconds between probes, and probes missed until the connection counts as dead.
    pub keepalive: (u16, u16),
    /// Longest pause between two attempts to connect.
    pub reconnect_max: Duration,
}

impl Default for LibvirtOptions {
    fn default() -> Self {
        Self {
            virt_type: VirtType::Auto,
            cpu_mode: None,
            cpu_models: Vec::new(),
            machine_type: None,
            guests: GuestOptions::default(),
            pool_name: "chronova".to_owned(),
            pool_path: "/var/lib/libvirt/chronova".to_owned(),
            images: ImagesOptions::default(),
            volume_pool_name: "chronova-volumes".to_owned(),
            volume_pool_path: "/var/lib/libvirt/chronova-volumes".to_owned(),
            screens: Screens::default(),
            host_ip: None,
            forward: ForwardMode::Auto,
            call_deadline: Duration::from_mins(2),
            device_detach_attempts: 8,
            device_detach_timeout: Duration::from_secs(20),
            transfer_stall: Duration::from_mins(1),
            workers: 8,
            keepalive: (5, 3),
            reconnect_max: Duration::from_secs(30),
        }
    }
}
