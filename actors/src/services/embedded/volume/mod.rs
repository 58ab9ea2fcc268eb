//! A volume: its life, its attachments, its snapshots.
//!
//! | file | what |
//! |---|---|
//! | [`decide`] | what may happen to a volume |
//! | [`attach`] | the same, for its attachments |
//! | [`snapshots`] | the same, for its snapshots |
//! | [`service`] | the embedded volume service: quota first, then the volume |
//! | [`port`] | the same, for the compute side |
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
//! The rules and the words of refusals are Cinder's, so that its clients understand them.

pub mod attach;
pub mod decide;
pub mod port;
pub mod processes;
pub mod quota;
pub mod reconcile;
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
    /// Adds or replaces these.
    Merge(VolumeMetadata),
    /// These and no others.
    Replace(VolumeMetadata),
    Remove(String),
}

/// The changed fields; `None` leaves one as it is.
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
        /// Also while a server has it (3.42).
        attached: bool,
    },
    RecordExtended {
        process: ProcessId,
        size_gb: u32,
    },
    Upload {
        process: ProcessId,
        image: ImageId,
        /// Also while a server has it.
        force: bool,
    },
    RecordUploaded {
        process: ProcessId,
    },
    /// An image's content in the place of its own.
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
    /// Reserves and connects in one: both happen, or none.
    ReserveAndConnect(Box<NewAttachment>),
    Connect {
        attachment: AttachmentId,
        host: String,
        device: Option<String>,
        mode: AttachMode,
        /// Whether every host reaches it.
        shared: bool,
    },
    Complete {
        attachment: AttachmentId,
    },
    Release {
        attachment: AttachmentId,
    },
    /// Without an attachment, as clients before attachments did.
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
        /// Its snapshots as well.
        cascade: bool,
    },
    RecordDeleted {
        process: ProcessId,
    },
    Snapshot {
        asked: VolumeSnapshotRequested,
        force: bool,
        /// A caller who is no administrator copies snapshots of its own project only.
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

/// How many names and values there may be; Cinder's default for metadata.
pub const MAX_PAIRS: usize = 128;

/// In Cinder's words.
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
    /// The volume is in no state for it.
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
    /// The bytes are on another host.
    #[error("Invalid volume: Volume {volume} is on host {on} and cannot be reached from host {from}.")]
    OutOfReach { volume: VolumeId, on: String, from: String },
    /// Somebody else is at work on it now: what a process reports after it was called off.
    #[error("the process has been overtaken")]
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
}
