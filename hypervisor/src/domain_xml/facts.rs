//! The facts about a host that a guest's definition depends on.

use std::collections::{BTreeMap, BTreeSet};

use super::firmware;
use super::source::DiskSource;
use crate::firmware::FirmwareFacts;
use crate::memory_encryption::SevFacts;
use crate::options::{CacheMode, CpuMode, GuestOptions, Screens};

/// The facts about a host that the XML depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// For example `x86_64` or `aarch64`.
    pub arch: String,
    pub kvm: bool,
    /// Nova's integer form, as in [`crate::guest::HostCapabilities`].
    pub libvirt_version: u32,
    pub cpu_mode: CpuMode,
    /// The models of `[libvirt] cpu_models` with `cpu_mode = custom`, in the order of preference.
    pub cpu_models: Vec<CpuModel>,
    /// The machine type of guests whose image names no machine type.
    pub machine_type: Option<String>,
    pub pool_path: String,
    /// The sources of the guest's local disks, by the disk's name.
    pub places: BTreeMap<String, DiskSource>,
    /// Whether the pool's file system can bypass the page cache (`cache=none`). Nova probes for the same.
    pub direct_io: bool,
    pub screens: Screens,
    /// The video models that the host supports, from its domain capabilities; empty if it does not report any.
    pub video_models: Vec<String>,
    pub firmware: FirmwareFacts,
    /// The host's id, as libvirtd reports it.
    pub host_uuid: Option<String>,
    pub guests: GuestOptions,
    /// How the host encrypts the memory of its guests, if it can.
    pub sev: Option<SevFacts>,
    /// The other architectures for which the host has an emulator.
    pub foreign: Vec<ForeignArch>,
}

impl HostFacts {
    pub(crate) fn is_x86(&self) -> bool {
        firmware::is_x86(&self.arch)
    }

    /// The cache mode of a disk in a file: the operator's choice, or `none`. Some modes, such as `none`, bypass the
    /// page cache. On a file system that does not allow this, QEMU cannot open the file with such a mode. There the
    /// mode is `writeback`, which still honours the guest's flushes. Nova does the same.
    pub(super) fn cache(&self) -> CacheMode {
        match self.guests.cache.file.unwrap_or(CacheMode::None) {
            mode if mode.is_direct() && !self.direct_io => CacheMode::WriteBack,
            mode => mode,
        }
    }
}

/// A CPU model of the operator's list, with its features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuModel {
    pub name: String,
    pub features: BTreeSet<String>,
}

/// The offers of a host for guests of another architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignArch {
    /// For example `aarch64`.
    pub arch: String,
    /// As in [`HostFacts::video_models`].
    pub video_models: Vec<String>,
    pub firmware: FirmwareFacts,
}

impl ForeignArch {
    /// The architectures that Nova names, and for which Debian's QEMU has a board.
    pub(crate) const KNOWN: [&'static str; 4] = ["aarch64", "ppc64le", "s390x", "x86_64"];
}
