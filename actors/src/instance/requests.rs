//! The requests on a server. The decision may refuse each of them.
//!
//! They come from APIs, and from processes and reconcilers that act for a user or for the operator. Processes and host
//! agents report facts with [`super::records`].

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{AttachmentId, ErasureId, ImageId, PortId, ProcessId, VolumeId};
use chronova_events::instance::{
    BlockDevice, BlockDevicesMapped, BuildRequested, DeclaredState, DiskConfig, FilesGiven, FlavorSnapshot,
    ImageSnapshot, Locked, PowerAction, RebuildRequested, RequestedNic, Rotation, SortedPairs, UnshelveRequested,
};

use super::decision::CallerRights;

#[derive(Debug, Clone)]
pub enum InstanceRequest {
    Build {
        request: Box<BuildRequested>,
        /// Disks beyond those of image and flavor.
        mapped: Option<Box<BlockDevicesMapped>>,
        /// Files for the guest to find.
        files: Option<FilesGiven>,
    },
    Volume(InstanceVolumeRequest),
    Delete {
        process: ProcessId,
        /// Nova's `forceDelete`.
        force: bool,
        asker: CallerRights,
    },
    Power {
        process: ProcessId,
        action: PowerAction,
        asker: CallerRights,
    },
    /// Reboots the server hard if the soft reboot of the process `overtakes` is still under way.
    RebootDue {
        process: ProcessId,
        overtakes: ProcessId,
    },
    /// Soft-deletes the server. Deletes it for good if it never had a guest or is offloaded.
    SoftDelete {
        process: ProcessId,
        asker: CallerRights,
    },
    Restore {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Deletes the server for good if it was soft-deleted at or before `deleted_by` and not restored.
    Reclaim {
        process: ProcessId,
        deleted_by: Timestamp,
    },
    TriggerCrashDump {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Nova's `reset_state`.
    DeclareState {
        state: DeclaredState,
    },
    /// Changes the machine type of a server whose guest is off; the next start uses it. With `force`, the guest may
    /// run, and another board or an older version is accepted, too.
    ChangeMachineType {
        machine_type: String,
        force: bool,
    },
    AttachNic {
        process: ProcessId,
        wanted: RequestedNic,
        asker: CallerRights,
    },
    DetachNic {
        process: ProcessId,
        port: PortId,
        asker: CallerRights,
    },
    /// The network service deleted the port, so the guest loses the interface. While the server is being built or
    /// deleted, nothing happens.
    LoseNic {
        process: ProcessId,
        port: PortId,
    },
    /// Changes nothing, because no driver here injects network data into a running guest.
    InjectNetworkInfo {
        asker: CallerRights,
    },
    Change {
        changes: Vec<InstanceChange>,
        asker: CallerRights,
    },
    /// Sets image properties of a server that is off. Only an operator's tool asks for this.
    SetImageProperties {
        properties: SortedPairs,
    },
    Lock {
        lock: Locked,
    },
    Unlock {
        by_admin: bool,
    },
    /// Records the password that the guest posted for its owner. The guest can post another password only after a
    /// request has cleared the first password.
    PostGuestPassword {
        password: String,
    },
    ClearGuestPassword,
    /// See [`WorkRequest`].
    Work(Box<WorkRequest>),
    /// A move to another flavor or host; boxed, because it is large.
    Move(Box<MoveRequest>),
    /// Records that the server's personal data up to now is erased. The server may already be deleted.
    Erase {
        erasure: ErasureId,
    },
}

/// Requests on a server's volumes.
#[derive(Debug, Clone)]
pub enum InstanceVolumeRequest {
    /// The volume service reported that a volume has grown.
    Extend {
        process: ProcessId,
        volume: VolumeId,
    },
    /// Attaches a volume. The decision chooses the device's name.
    Attach {
        process: ProcessId,
        device: Box<BlockDevice>,
        /// `[compute] max_disk_devices_to_attach`.
        limit: Option<usize>,
        asker: CallerRights,
    },
    Detach {
        process: ProcessId,
        volume: VolumeId,
        asker: CallerRights,
    },
    Swap {
        process: ProcessId,
        old: VolumeId,
        new: VolumeId,
        new_attachment: AttachmentId,
        asker: CallerRights,
    },
    SetDeletion {
        volume: VolumeId,
        delete_on_termination: bool,
    },
    /// Replaces the attachment of a volume by a new one, while the guest is off. Only an operator's tool asks for this,
    /// so a lock refuses it to everybody.
    Refresh {
        process: ProcessId,
        volume: VolumeId,
        new_attachment: AttachmentId,
    },
}

/// Requests to snapshot, rebuild, rescue, unrescue, shelve, offload or unshelve a server, or to change its password.
#[derive(Debug, Clone)]
pub enum WorkRequest {
    /// Creates an image or a backup of the disk. The image already exists, without data.
    Snapshot {
        process: ProcessId,
        image: ImageId,
        backup: Option<Rotation>,
        asker: CallerRights,
    },
    Rebuild {
        request: Box<RebuildRequested>,
        /// The files to inject into the new guest.
        files: Option<FilesGiven>,
        asker: CallerRights,
    },
    Rescue {
        process: ProcessId,
        image: ImageSnapshot,
        asker: CallerRights,
    },
    Unrescue {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Ends the rescue of a server that has not changed since `unchanged_since` and has no task.
    UnrescueDue {
        process: ProcessId,
        unchanged_since: Timestamp,
    },
    /// Shelves the server. The image for its disk already exists, without data; `None` if the disk is a volume.
    Shelve {
        process: ProcessId,
        image: Option<ImageId>,
        asker: CallerRights,
    },
    Offload {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Offloads a shelved server from its host if it has no task. With `shelved_by`, the server must have been shelved
    /// at or before that time.
    OffloadDue {
        process: ProcessId,
        shelved_by: Option<Timestamp>,
    },
    Unshelve {
        request: UnshelveRequested,
        asker: CallerRights,
    },
    ChangePassword {
        process: ProcessId,
        asker: CallerRights,
    },
}

/// Requests for moves to another flavor or host.
#[derive(Debug, Clone)]
pub enum MoveRequest {
    Resize {
        process: ProcessId,
        flavor: Box<FlavorSnapshot>,
        disk_config: Option<DiskConfig>,
        asker: CallerRights,
    },
    Migrate {
        process: ProcessId,
        host: Option<String>,
        asker: CallerRights,
    },
    Confirm {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Confirms a move that ended at or before `moved_by`, or a move that a reset of the state left unconfirmed. Does
    /// nothing while a task is under way.
    ConfirmDue {
        process: ProcessId,
        moved_by: Timestamp,
    },
    Revert {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Requests for live migrations only.
    Live(LiveRequest),
    /// Requests for evacuations only.
    Evacuate(EvacuationRequest),
}

/// Requests for moves of a running server's guest.
#[derive(Debug, Clone)]
pub enum LiveRequest {
    Begin {
        process: ProcessId,
        host: Option<String>,
        forced: bool,
        block: Option<bool>,
        asker: CallerRights,
    },
    Abort {
        migration: ProcessId,
        /// Whether a migration that has not started can be aborted, too (2.65).
        waiting_too: bool,
        asker: CallerRights,
    },
    Force {
        migration: ProcessId,
        asker: CallerRights,
    },
}

/// Requests for moves from a host that is down.
#[derive(Debug, Clone)]
pub enum EvacuationRequest {
    /// Begins an evacuation. The caller has checked that the host is down.
    Begin {
        process: ProcessId,
        host: Option<String>,
        forced: bool,
        on_shared_storage: Option<bool>,
        stop: bool,
        asker: CallerRights,
    },
}

/// One change of an attribute that may change at any time.
#[derive(Debug, Clone, PartialEq)]
pub enum InstanceChange {
    Name(String),
    Description(Option<String>),
    Hostname(String),
    DiskConfig(DiskConfig),
    AccessAddresses { v4: Option<String>, v6: Option<String> },
    Metadata(MetadataChange),
    Tags(TagChange),
}

/// A change of metadata. The decision merges `Set` with the present state, so that two writers of different keys both
/// succeed.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataChange {
    Replace { pairs: SortedPairs, limit: Option<usize> },
    Set { pairs: SortedPairs, limit: Option<usize> },
    Remove { key: String },
}

#[derive(Debug, Clone, PartialEq)]
pub enum TagChange {
    Replace(Vec<String>),
    Add { tag: String, limit: usize },
    Remove(String),
}

impl From<InstanceVolumeRequest> for InstanceRequest {
    fn from(request: InstanceVolumeRequest) -> Self {
        Self::Volume(request)
    }
}

impl From<WorkRequest> for InstanceRequest {
    fn from(request: WorkRequest) -> Self {
        Self::Work(Box::new(request))
    }
}

impl From<MoveRequest> for InstanceRequest {
    fn from(request: MoveRequest) -> Self {
        Self::Move(Box::new(request))
    }
}

impl From<LiveRequest> for InstanceRequest {
    fn from(request: LiveRequest) -> Self {
        MoveRequest::Live(request).into()
    }
}

impl From<EvacuationRequest> for InstanceRequest {
    fn from(request: EvacuationRequest) -> Self {
        MoveRequest::Evacuate(request).into()
    }
}
