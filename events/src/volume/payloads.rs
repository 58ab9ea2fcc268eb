//! Payloads of the events of a volume.

use serde::{Deserialize, Serialize};

use crate::ids::{
    AttachmentId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, UserId, VolumeId, VolumeTypeId,
};
use crate::instance::{FaultInfo, ImageSnapshot};

/// Names and values, sorted by name.
pub type VolumeMetadata = Vec<(String, String)>;

/// The source of a volume's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeSource {
    Blank,
    Image(ImageId),
    Snapshot { snapshot: SnapshotId, of: VolumeId },
    Volume(VolumeId),
}

/// Cinder's states of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VolumeStatus {
    Creating,
    Available,
    Reserved,
    Attaching,
    Detaching,
    InUse,
    Maintenance,
    Extending,
    Uploading,
    Deleting,
    Error,
    ErrorDeleting,
    ErrorExtending,
    /// The data of an image replaces the content of the volume.
    Downloading,
}

impl VolumeStatus {
    pub const ALL: [Self; 14] = [
        Self::Creating,
        Self::Available,
        Self::Reserved,
        Self::Attaching,
        Self::Detaching,
        Self::InUse,
        Self::Maintenance,
        Self::Extending,
        Self::Uploading,
        Self::Deleting,
        Self::Error,
        Self::ErrorDeleting,
        Self::ErrorExtending,
        Self::Downloading,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Available => "available",
            Self::Reserved => "reserved",
            Self::Attaching => "attaching",
            Self::Detaching => "detaching",
            Self::InUse => "in-use",
            Self::Maintenance => "maintenance",
            Self::Extending => "extending",
            Self::Uploading => "uploading",
            Self::Deleting => "deleting",
            Self::Downloading => "downloading",
            Self::Error => "error",
            Self::ErrorDeleting => "error_deleting",
            Self::ErrorExtending => "error_extending",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Cinder's states of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SnapshotStatus {
    Creating,
    Available,
    Deleting,
    Error,
    ErrorDeleting,
}

impl SnapshotStatus {
    pub const ALL: [Self; 5] = [Self::Creating, Self::Available, Self::Deleting, Self::Error, Self::ErrorDeleting];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Available => "available",
            Self::Deleting => "deleting",
            Self::Error => "error",
            Self::ErrorDeleting => "error_deleting",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// How an attachment may use its volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttachMode {
    ReadWrite,
    ReadOnly,
}

/// The source image of a volume's content, as the volume records it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeImage {
    pub snapshot: ImageSnapshot,
    /// Further image metadata from Glance (for example `container_format` and `checksum`), with later changes.
    pub extra: VolumeMetadata,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeCreated {
    pub volume: VolumeId,
    pub process: ProcessId,
    pub project: ProjectId,
    pub user: UserId,
    pub name: String,
    pub description: Option<String>,
    pub size_gb: u32,
    pub source: VolumeSource,
    pub volume_type: VolumeTypeId,
    pub multiattach: bool,
    pub availability_zone: String,
    pub metadata: VolumeMetadata,
    pub bootable: bool,
    pub image: Option<VolumeImage>,
    /// The host that must have access to the volume; `None`: any host.
    pub host: Option<HostId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeReady {
    pub volume: VolumeId,
    pub process: ProcessId,
    /// The host that stores the content.
    pub host: HostId,
    pub hostname: String,
    /// The format of the content: `raw` or `qcow2`.
    pub format: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeFailed {
    pub volume: VolumeId,
    pub process: ProcessId,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeDescribed {
    pub volume: VolumeId,
    pub name: String,
    pub description: Option<String>,
    pub metadata: VolumeMetadata,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeFlagged {
    pub volume: VolumeId,
    pub bootable: bool,
    pub readonly: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageMetadataReplaced {
    pub volume: VolumeId,
    pub image: Option<VolumeImage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtendRequested {
    pub volume: VolumeId,
    pub process: ProcessId,
    pub size_gb: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeExtended {
    pub volume: VolumeId,
    pub process: ProcessId,
    pub size_gb: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UploadRequested {
    pub volume: VolumeId,
    pub process: ProcessId,
    pub image: ImageId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UploadEnded {
    pub volume: VolumeId,
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReimageRequested {
    pub volume: VolumeId,
    pub process: ProcessId,
    pub image: VolumeImage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeReimaged {
    pub volume: VolumeId,
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttachmentReserved {
    pub volume: VolumeId,
    pub attachment: AttachmentId,
    pub instance: Option<InstanceId>,
    pub mode: AttachMode,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttachmentConnected {
    pub volume: VolumeId,
    pub attachment: AttachmentId,
    pub host: String,
    pub device: Option<String>,
    pub mode: AttachMode,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttachmentCompleted {
    pub volume: VolumeId,
    pub attachment: AttachmentId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttachmentReleased {
    pub volume: VolumeId,
    pub attachment: AttachmentId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusChanged {
    pub volume: VolumeId,
    pub status: VolumeStatus,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusReset {
    pub volume: VolumeId,
    pub status: Option<VolumeStatus>,
    /// Whether all attachments were dropped.
    pub detached: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeDeleteRequested {
    pub volume: VolumeId,
    pub process: ProcessId,
    /// The unfinished operation that the deletion cancels.
    pub cancels: Option<ProcessId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeDeleted {
    pub volume: VolumeId,
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSnapshotRequested {
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub process: ProcessId,
    pub project: ProjectId,
    pub user: UserId,
    pub name: String,
    pub description: Option<String>,
    pub metadata: VolumeMetadata,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotReady {
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSnapshotFailed {
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub process: ProcessId,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotDescribed {
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub name: String,
    pub description: Option<String>,
    pub metadata: VolumeMetadata,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotReset {
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub status: SnapshotStatus,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotDeleteRequested {
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotDeleted {
    pub volume: VolumeId,
    pub snapshot: SnapshotId,
    pub process: ProcessId,
}
