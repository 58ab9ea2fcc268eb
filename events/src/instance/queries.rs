//! Questions about a server's state. Nothing here changes it.

use std::sync::Arc;

use super::block::InstanceDisk;
use super::ongoing::OngoingTask;
use super::payloads::{ImageSnapshot, NicInfo, Power};
use super::state::{Alive, Phase, Stage};
use crate::ids::{HostId, ProcessId, VolumeId};

impl Alive {
    pub fn power(&self) -> Power {
        match self.phase {
            Phase::Building { .. } => Power::NoState,
            Phase::Active { power }
            | Phase::Stopped { power }
            | Phase::Error { power }
            | Phase::Paused { power }
            | Phase::Suspended { power }
            | Phase::SoftDeleted { power, .. }
            | Phase::Rescued { power }
            | Phase::Shelved { power, .. }
            | Phase::Offloaded { power }
            | Phase::Resized { power, .. } => power,
        }
    }

    /// The build that works on the server.
    pub fn building(&self) -> Option<ProcessId> {
        match self.phase {
            Phase::Building { process, .. } => Some(process),
            _ => self.build,
        }
    }

    /// Whether the server certainly has exactly these interfaces. While the server is being built, an empty list in the
    /// log proves nothing, because the interfaces may not be recorded yet.
    pub fn has_interfaces(&self, nics: &[NicInfo]) -> bool {
        let are_certain = !matches!(self.phase, Phase::Building { stage: Stage::Scheduling | Stage::Networking, .. });
        self.nics == nics && (are_certain || !nics.is_empty())
    }

    /// The disk that is backed by this volume.
    pub fn disk_of(&self, volume: VolumeId) -> Option<&InstanceDisk> {
        self.disks.iter().find(|disk| disk.device.volume == Some(volume))
    }

    /// Whether the root disk is a volume.
    pub fn is_volume_backed(&self) -> bool {
        self.disks.iter().any(|disk| disk.device.is_root() && disk.device.is_volume())
    }

    /// The image with the properties that determine the virtual hardware.
    pub fn hardware_image(&self) -> Option<&ImageSnapshot> {
        self.request.image.as_deref().or(self.boot_image.as_deref())
    }

    pub(super) fn hardware_image_mut(&mut self) -> Option<&mut ImageSnapshot> {
        self.request.image.as_mut().or(self.boot_image.as_mut()).map(Arc::make_mut)
    }

    /// [`hardware_image`](Self::hardware_image) as an `Arc`, for callers that store it.
    pub fn shared_hardware_image(&self) -> Option<Arc<ImageSnapshot>> {
        self.request.image.clone().or_else(|| self.boot_image.clone())
    }

    /// The recorded machine type of the guest. Without a record, the machine type of the image.
    pub fn machine_type(&self) -> Option<&str> {
        let of_image = || {
            let mut properties = self.hardware_image()?.properties.iter();
            properties.find(|(name, _)| name == "hw_machine_type").map(|(_, machine_type)| machine_type.as_str())
        };
        self.machine_type.as_deref().or_else(of_image)
    }

    /// Whether the server is soft-deleted: it no longer counts against limits, and it can be restored.
    pub fn is_soft_deleted(&self) -> bool {
        matches!(self.phase, Phase::SoftDeleted { .. })
    }

    /// The source image of the root disk.
    pub fn root_image(&self) -> Option<&ImageSnapshot> {
        self.root.as_deref().or(self.request.image.as_deref())
    }

    /// Whether the server is shelved and on no host.
    pub fn is_offloaded(&self) -> bool {
        matches!(self.phase, Phase::Offloaded { .. })
    }

    /// The process that may claim a host for the server now.
    pub fn placing(&self) -> Option<ProcessId> {
        self.building().or(match self.ongoing {
            Some(OngoingTask::Unshelve { process, .. }) => Some(process),
            // The cancelled process still has to release its claim.
            Some(OngoingTask::Delete { cancels, .. }) => cancels,
            _ => None,
        })
    }

    /// The process to cancel before the server can be deleted. Such a process may claim a host for the server, or moves
    /// the server.
    pub fn interruptible(&self) -> Option<ProcessId> {
        self.placing().or(self.ongoing.filter(OngoingTask::is_moving).map(|ongoing| ongoing.process()))
    }

    /// Whether the host may have a guest or disks of the server.
    pub fn concerns(&self, host: HostId) -> bool {
        self.placement.as_ref().is_some_and(|placed| placed.host == host)
            || self.moving.as_ref().is_some_and(|moving| moving.concerns(host))
    }
}
