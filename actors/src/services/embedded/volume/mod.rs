//! A volume with its attachments and snapshots.
//!
//! | file | contents |
//! |---|---|
//! | [`decide`] | decides on commands to a volume |
//! | [`attach`] | decides on the volume's attachments |
//! | [`snapshots`] | decides on the volume's snapshots |
//! | [`types`] | the catalogue of volume types |
//! | [`quota`] | a project's volume quota |
//! | [`service`] | the embedded volume service: reserves quota, then sends commands |
//! | [`port`] | the service's port for compute |
//! | `rights` | the policy on requests that users send through compute |
//! | [`processes`] | the long operations on volumes |
//! | [`reconcile`] | gives back quota, removes leftovers from hosts |
//!
//! ```text
//! creating -> available -> reserved -> attaching -> in-use -> detaching -> available
//!     |          | |  ^                                ^          |
//!     v          | |  +-- extending, uploading         +----------+ (rolled back)
//!   error        | +----> error_extending
//!     |          v
//!     +-----> deleting -> gone
//! ```
//!
//! Most rules and messages of refusals are Cinder's, because clients may rely on them. Refusals that Cinder does not
//! have are in our own words.

pub mod attach;
pub mod decide;
pub mod port;
pub mod processes;
pub mod quota;
pub mod reconcile;
mod rights;
pub mod service;
pub mod snapshots;
#[cfg(test)]
mod tests;
pub mod types;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{AttachmentId, HostId, ImageId, InstanceId, ProcessId, SnapshotId, VolumeId};
use chronova_events::instance::FaultInfo;
use chronova_events::volume::{
    AttachMode, SnapshotStatus, Volume, VolumeCreated, VolumeEvent, VolumeImage, VolumeMetadata,
    VolumeSnapshotRequested, VolumeStatus,
};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum VolumeRoot {}

/// A change of metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeMetadataChange {
    /// Adds or replaces these pairs.
    Merge(VolumeMetadata),
    /// Replaces all pairs by these.
    Replace(VolumeMetadata),
    Remove(String),
}

/// The changed fields; `None` keeps a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeDescriptionChange {
    pub name: Option<String>,
    pub description: Option<Option<String>>,
    pub metadata: Option<VolumeMetadataChange>,
}

/// An attachment that a client reserves and connects in one request.
#[derive(Debug, Clone)]
pub struct NewAttachment {
    pub attachment: AttachmentId,
    pub instance: Option<InstanceId>,
    pub reserved_mode: AttachMode,
    pub host: String,
    pub device: Option<String>,
    pub mode: AttachMode,
    /// Whether every host reaches the volume.
    pub shared: bool,
}

#[derive(Debug, Clone)]
pub enum VolumeCommand {
    Create(Box<VolumeCreated>),
    RecordReady {
        process: ProcessId,
        host: HostId,
        hostname: String,
        format: String,
    },
    RecordFailed {
        process: ProcessId,
        fault: FaultInfo,
    },
    Describe(VolumeDescriptionChange),
    Flag {
        bootable: Option<bool>,
        readonly: Option<bool>,
    },
    ChangeImageMetadata(VolumeMetadataChange),
    Extend {
        process: ProcessId,
        size_gb: u32,
        /// Whether to accept the request even while a server has the volume (3.42).
        attached: bool,
    },
    RecordExtended {
        process: ProcessId,
        size_gb: u32,
    },
    Upload {
        process: ProcessId,
        image: ImageId,
        /// Whether to accept the request even while a server has the volume.
        force: bool,
    },
    RecordUploaded {
        process: ProcessId,
    },
    /// Replaces the content by that of an image.
    Reimage {
        process: ProcessId,
        image: Box<VolumeImage>,
    },
    RecordReimaged {
        process: ProcessId,
    },
    Reserve {
        attachment: AttachmentId,
        instance: Option<InstanceId>,
        mode: AttachMode,
    },
    /// Reserves and connects in one append: both happen, or neither.
    ReserveAndConnect(Box<NewAttachment>),
    /// Reserves, connects and completes in one append, for a client that has attached the volume already. Also ends a
    /// reservation without an attachment.
    RecordAttached(Box<NewAttachment>),
    Connect {
        attachment: AttachmentId,
        host: String,
        device: Option<String>,
        mode: AttachMode,
        /// Whether every host reaches the volume.
        shared: bool,
    },
    Complete {
        attachment: AttachmentId,
    },
    Release {
        attachment: AttachmentId,
    },
    /// Reserves the volume without an attachment, for clients of Cinder's API before 3.27.
    Keep,
    /// Undoes `Keep`.
    LetGo,
    BeginDetaching,
    RollDetaching,
    Reset {
        status: Option<VolumeStatus>,
        detached: bool,
    },
    Delete {
        process: ProcessId,
        force: bool,
        /// Whether to delete the volume's snapshots, too.
        cascade: bool,
    },
    RecordDeleted {
        process: ProcessId,
    },
    Snapshot {
        asked: VolumeSnapshotRequested,
        force: bool,
        /// Whether the caller is an administrator. If not, the volume must be in the snapshot's project.
        is_admin: bool,
    },
    RecordSnapshotReady {
        snapshot: SnapshotId,
        process: ProcessId,
    },
    RecordSnapshotFailed {
        snapshot: SnapshotId,
        process: ProcessId,
        fault: FaultInfo,
    },
    DescribeSnapshot {
        snapshot: SnapshotId,
        description: VolumeDescriptionChange,
    },
    ResetSnapshot {
        snapshot: SnapshotId,
        status: SnapshotStatus,
    },
    DeleteSnapshot {
        snapshot: SnapshotId,
        process: ProcessId,
        force: bool,
    },
    RecordSnapshotDeleted {
        snapshot: SnapshotId,
        process: ProcessId,
    },
}

/// The most metadata pairs; Cinder's default.
pub const MAX_PAIRS: usize = 128;

/// The refusals. If Cinder has the same refusal, the message is Cinder's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VolumeReject {
    #[error("The volume could not be found.")]
    NotFound,
    #[error("a volume with id {0} exists or existed")]
    IdTaken(VolumeId),
    #[error("Snapshot {0} could not be found.")]
    NoSnapshot(SnapshotId),
    #[error("Attachment {0} could not be found.")]
    NoAttachment(AttachmentId),
    /// The volume's status, its attachments or a process that works on it do not allow the command.
    #[error("Invalid volume: {0}")]
    InvalidVolume(String),
    #[error("Invalid snapshot: {0}")]
    InvalidSnapshot(String),
    #[error("Invalid input received: {0}")]
    InvalidInput(String),
    #[error("Volume {0} has no metadata with key {1}.")]
    NoMetadata(VolumeId, String),
    #[error("Snapshot {0} has no metadata with key {1}.")]
    NoSnapshotMetadata(SnapshotId, String),
    #[error("Metadata property count {0} exceeds the maximum {MAX_PAIRS}.")]
    TooManyPairs(usize),
    /// The volume's data is on another host.
    #[error("Invalid volume: Volume {volume} is on host {on} and cannot be reached from host {from}.")]
    OutOfReach { volume: VolumeId, on: String, from: String },
    /// The record comes from a process that does not work on the volume any more.
    #[error("another process has taken the place of this one")]
    Superseded,
}

impl AggregateRoot for VolumeRoot {
    type Id = VolumeId;
    type State = Volume;
    type Command = VolumeCommand;
    type Reject = VolumeReject;

    fn stream(id: &VolumeId) -> StreamId {
        StreamId::new("volume", id)
    }

    fn decide(state: &Volume, command: VolumeCommand) -> Result<Vec<VolumeEvent>, VolumeReject> {
        decide::decide(state, command)
    }

    fn has_ended(state: &Volume) -> bool {
        matches!(state, Volume::Deleted)
    }
}
