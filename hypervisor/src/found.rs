//! A guest as its host has it defined. A new log learns from it which guests a lost log had.
//!
//! A definition does not tell everything about a server. A missing part is `None` here (0 for an MTU), unless libvirt
//! itself has a default for it.

use std::collections::BTreeSet;

use chronova_events::ids::{ImageId, InstanceId, PortId, ProjectId, UserId};

use crate::guest::{GuestSpec, ImageFormat, Nic, NicPlug, PowerState, VolumeDisk};
use crate::volumes;

/// Devices that a guest has, and that only a lost log could give to it again.
pub const HOST_DEVICES: &str = "devices of its host";
/// CPUs or memory that a lost log has placed.
pub const PINNED: &str = "CPUs or memory of its own (NUMA, pinning, huge pages)";
/// A disk that exists only during a rescue.
pub const RESCUE: &str = "a rescue disk";
/// A root disk that is the image itself.
pub const ISO_ROOT: &str = "an ISO image as its root disk";
/// A TPM. Only a lost secret decrypts its state.
pub const TPM: &str = "an emulated TPM";

/// A guest in the definition of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundGuest {
    pub instance: InstanceId,
    pub domain_name: String,
    pub power: PowerState,
    /// Whether its memory is saved on the host's disk (a suspended server).
    pub saved: bool,
    /// The metadata element of Chronova; `None`: another program defined the guest.
    pub metadata: Option<DefinitionMetadata>,
    /// For example `pc-i440fx-7.2`.
    pub machine_type: Option<String>,
    /// The number of its empty disks, without a swap disk.
    pub ephemerals: usize,
    pub has_config_drive: bool,
    pub volumes: Vec<FoundVolume>,
    pub nics: Vec<FoundNic>,
    /// The parts of the guest that its definition does not tell completely. Each is one of the constants of this file.
    pub beyond: BTreeSet<&'static str>,
}

/// The content of the metadata element of a definition: facts about the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionMetadata {
    pub display_name: String,
    pub flavor_name: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    /// The size of a local root disk; 0 if the root disk is a volume, or if it is as large as its image.
    pub root_gib: u32,
    /// The sum of the sizes of the empty disks.
    pub ephemeral_gib: u32,
    pub swap_mib: u32,
    pub user: UserId,
    pub project: ProjectId,
    /// The image of a local root disk; `None`: the root disk is a volume.
    pub image: Option<ImageId>,
}

/// A volume in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundVolume {
    /// The serial number that the guest sees: the volume's id.
    pub serial: String,
    /// The libvirt storage pool and the name of the volume in it; `None`: QEMU reaches the volume over the network.
    pub place: Option<(String, String)>,
    /// `raw` or `qcow2`.
    pub format: String,
    pub readonly: bool,
    pub shareable: bool,
    /// For example `vdb`.
    pub device: String,
    pub bus: String,
    /// `disk`, `cdrom` or `lun`.
    pub kind: String,
    /// From 1; `None`: the guest does not boot from it.
    pub boot_order: Option<u32>,
}

/// An interface in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundNic {
    /// In lower case.
    pub mac: String,
    /// The port; `None`: the definition does not tell it, as for an interface that was attached later.
    pub port: Option<PortId>,
    /// The name of the host's virtual network; `None`: the interface is plugged in another way.
    pub network: Option<String>,
    /// 0: the definition does not tell it.
    pub mtu: u32,
    /// Whether the host filters its packets.
    pub is_filtered: bool,
}

impl FoundGuest {
    /// The guest that a host has after a definition from `spec`.
    pub fn of(spec: &GuestSpec, power: PowerState, saved: bool) -> Self {
        let devices = !spec.devices.is_empty() || !spec.mdevs.is_empty();
        let devices = devices || spec.nics.iter().any(|nic| matches!(nic.plug, NicPlug::Device(_)));
        let is_iso = spec.root.as_ref().is_some_and(|root| root.image.format == ImageFormat::Iso);
        let beyond = [
            (HOST_DEVICES, devices),
            (PINNED, !spec.pinning.nodes.is_empty()),
            (RESCUE, spec.rescue.is_some()),
            (ISO_ROOT, is_iso),
            (TPM, spec.tpm_secret.is_some()),
        ];
        Self {
            instance: spec.instance,
            domain_name: spec.domain_name.clone(),
            power,
            saved,
            metadata: Some(DefinitionMetadata::of(spec)),
            machine_type: None,
            ephemerals: spec.ephemerals_gib.len(),
            has_config_drive: spec.config_drive.is_some(),
            volumes: spec.volumes.iter().map(FoundVolume::of).collect(),
            nics: spec.nics.iter().filter(|nic| !matches!(nic.plug, NicPlug::Device(_))).map(FoundNic::of).collect(),
            beyond: beyond.into_iter().filter(|(_, has)| *has).map(|(words, _)| words).collect(),
        }
    }
}

impl DefinitionMetadata {
    fn of(spec: &GuestSpec) -> Self {
        Self {
            display_name: spec.display_name.clone(),
            flavor_name: spec.flavor_name.clone(),
            vcpus: spec.vcpus,
            memory_mib: spec.memory_mib,
            root_gib: spec.root.as_ref().map_or(0, |root| root.size_gib),
            ephemeral_gib: spec.ephemerals_gib.iter().sum(),
            swap_mib: spec.swap_mib,
            user: spec.user.clone(),
            project: spec.project.clone(),
            image: spec.root.as_ref().map(|root| root.image.id),
        }
    }
}

impl FoundVolume {
    /// The key that identifies the disk in its guest; see [`chronova_events::instance::disk_key`].
    pub fn key(&self) -> &str {
        let name = self.place.as_ref().map_or("", |(_, volume)| volume.as_str());
        chronova_events::instance::disk_key(name, &self.serial)
    }

    fn of(disk: &VolumeDisk) -> Self {
        Self {
            serial: disk.serial.clone(),
            place: disk.network.is_none().then(|| (disk.pool.clone(), disk.volume.clone())),
            format: disk.format.clone(),
            // A CD-ROM is always read-only.
            readonly: disk.readonly || disk.kind == "cdrom",
            shareable: disk.shareable,
            device: disk.device.clone(),
            bus: disk.bus.clone(),
            kind: disk.kind.clone(),
            boot_order: disk.boot_order,
        }
    }
}

impl FoundNic {
    /// An interface of which only the MAC address is known.
    pub fn unnamed(mac: &str) -> Self {
        Self { mac: mac.to_ascii_lowercase(), port: None, network: None, mtu: 0, is_filtered: false }
    }

    fn of(nic: &Nic) -> Self {
        Self {
            mac: nic.mac.to_ascii_lowercase(),
            port: Some(nic.port),
            network: matches!(nic.plug, NicPlug::Network).then(|| volumes::network_name(nic.network)),
            mtu: nic.mtu,
            is_filtered: nic.filter.is_some(),
        }
    }
}
