//! The commands of a server.

use chronova_events::envelope::Timestamp;
use chronova_events::ids::{AttachmentId, BlockDeviceId, ErasureId, HostId, PortId, ProcessId, VolumeId};
use chronova_events::instance::{
    BlockDevice, BlockDevicesMapped, BuildRequested, DeclaredState, DiskConfig, FaultInfo, FilesGiven, Locked,
    NetworkAllocated, NicInfo, Placed, Power, PowerAction, RequestedNic, Scheduled, SortedPairs,
};

use super::decision::CallerRights;
use super::moving::MoveCommand;
use super::work::WorkCommand;

/// The commands of a server. The `Record...` commands come from its own processes and from the host watch.
#[derive(Debug, Clone)]
pub enum InstanceCommand {
    Build(Box<BuildRequested>),
    /// As `Build`, with disks beyond those of image and flavor, and files for the guest to find.
    BuildWith {
        request: Box<BuildRequested>,
        mapped: Option<Box<BlockDevicesMapped>>,
        files: Option<FilesGiven>,
    },
    Volume(InstanceVolumeCommand),
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
    /// Soft-deletes the server; deletes it for good if there never was a guest.
    SoftDelete {
        process: ProcessId,
        asker: CallerRights,
    },
    Restore {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Deletes the server for good if it was soft-deleted by then and not restored.
    Reclaim {
        process: ProcessId,
        deleted_by: Timestamp,
    },
    TriggerCrashDump {
        process: ProcessId,
        asker: CallerRights,
    },
    Nudge {
        process: ProcessId,
        asker: CallerRights,
    },
    /// Nova's `reset_state`.
    DeclareState {
        state: DeclaredState,
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
    /// The network service deleted the port: the guest must lose the interface in any state.
    LoseNic {
        process: ProcessId,
        port: PortId,
    },
    /// The present interfaces, from the network service.
    RefreshNics {
        nics: Vec<NicInfo>,
    },
    /// Changes nothing: no driver here injects network data into a running guest.
    InjectNetworkInfo {
        asker: CallerRights,
    },
    Change {
        changes: Vec<InstanceChange>,
        asker: CallerRights,
    },
    Lock {
        lock: Locked,
    },
    Unlock {
        by_admin: bool,
    },
    /// The password that the guest posted for its owner; once, until it is cleared.
    PostGuestPassword {
        password: String,
    },
    ClearGuestPassword,
    /// Work that changes its disks or its host.
    Work(Box<WorkCommand>),
    /// Another flavor, another host; boxed, because it is large.
    Move(Box<MoveCommand>),
    /// The server's personal data up to now is being erased; the server may be gone.
    Erase {
        erasure: ErasureId,
    },

    RecordPlaced(Placed),
    /// The scheduler's decision and its reasons; with the host, if it found one.
    RecordScheduled {
        placed: Option<Placed>,
        scheduled: Box<Scheduled>,
    },
    RecordUnplaced {
        process: ProcessId,
        host: HostId,
        reason: String,
    },
    RecordNetwork(NetworkAllocated),
    RecordBuilt {
        process: ProcessId,
    },
    RecordBuildFailed {
        process: ProcessId,
        fault: FaultInfo,
    },
    RecordDeleted {
        process: ProcessId,
    },
    RecordSoftDeleted {
        process: ProcessId,
    },
    RecordRestored {
        process: ProcessId,
    },
    RecordRestoreFailed {
        process: ProcessId,
        fault: FaultInfo,
    },
    RecordPowerDone {
        process: ProcessId,
        action: PowerAction,
    },
    RecordPowerFailed {
        process: ProcessId,
        action: PowerAction,
        fault: FaultInfo,
    },
    RecordNicAttached {
        process: ProcessId,
        nic: NicInfo,
    },
    RecordNicDetached {
        process: ProcessId,
        port: PortId,
    },
    RecordNicDetachFailed {
        process: ProcessId,
        port: PortId,
        fault: FaultInfo,
    },
    /// A report of the host.
    Observe {
        host: HostId,
        power: Power,
    },
}

/// The requests on a server's volumes, and the records of its processes about them.
#[derive(Debug, Clone)]
pub enum InstanceVolumeCommand {
    /// The device's name is chosen by the decision.
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
    RecordPrepared {
        process: ProcessId,
        devices: Vec<BlockDevice>,
    },
    RecordAttached {
        process: ProcessId,
        device: Box<BlockDevice>,
    },
    RecordAttachFailed {
        process: ProcessId,
        device: BlockDeviceId,
        fault: FaultInfo,
    },
    RecordDetached {
        process: ProcessId,
        device: BlockDeviceId,
    },
    RecordDetachFailed {
        process: ProcessId,
        device: BlockDeviceId,
        fault: FaultInfo,
    },
    RecordSwapped {
        process: ProcessId,
        device: Box<BlockDevice>,
    },
    RecordSwapFailed {
        process: ProcessId,
        device: BlockDeviceId,
        fault: FaultInfo,
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

/// Merged with the state at the decision, so that two writers of different keys both succeed.
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
