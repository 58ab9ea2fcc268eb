//! A server, deciding.
//!
//! Every state that commands lead to, and by which event: `states.txt`, which a test compares with the code. "active, Stop" is
//! an active server with a stop under way.

pub mod actions;
pub mod creation;
pub mod decide;
pub mod disks;
pub mod evacuation;
mod interfaces;
mod labels;
pub mod live;
pub mod moving;
pub mod unsupported;
mod volumes;
pub mod work;

#[cfg(test)]
mod tests;

use chronova_events::envelope::{StreamId, Timestamp};
use chronova_events::ids::{AttachmentId, BlockDeviceId, ErasureId, HostId, InstanceId, PortId, ProcessId, VolumeId};
use chronova_events::instance::{
    BlockDevice, BlockDevicesMapped, BuildRequested, DeclaredState, DiskConfig, FaultInfo, FilesGiven, Instance,
    InstanceEvent, Locked, NetworkAllocated, NicInfo, Pairs, Placed, Power, PowerAction, RequestedNic, Scheduled,
};
use thiserror::Error;

use crate::aggregate::Aggregate;

#[derive(Debug, Clone, Copy)]
pub enum InstanceAggregate {}

/// What a server can be asked. The `Record...` commands come from its own processes and from the host watch.
#[derive(Debug, Clone)]
pub enum InstanceCommand {
    Build(Box<BuildRequested>),
    /// As `Build`, with disks beyond those of image and flavor, and files for the guest to find.
    BuildWith {
        request: Box<BuildRequested>,
        mapped: Option<Box<BlockDevicesMapped>>,
        files: Option<FilesGiven>,
    },
    Volume(VolumeCommand),
    Delete {
        process: ProcessId,
        /// Nova's `forceDelete`.
        force: bool,
        asker: Asker,
    },
    Power {
        process: ProcessId,
        action: PowerAction,
        asker: Asker,
    },
    /// Deletes so that it can be restored; for good, where there never was a guest.
    SoftDelete {
        process: ProcessId,
        asker: Asker,
    },
    Restore {
        process: ProcessId,
        asker: Asker,
    },
    /// Deletes for good what was deleted by then and not restored.
    Reclaim {
        process: ProcessId,
        deleted_by: Timestamp,
    },
    TriggerCrashDump {
        process: ProcessId,
        asker: Asker,
    },
    /// Nova's `reset_state`.
    DeclareState {
        state: DeclaredState,
    },
    AttachNic {
        process: ProcessId,
        wanted: RequestedNic,
        asker: Asker,
    },
    DetachNic {
        process: ProcessId,
        port: PortId,
        asker: Asker,
    },
    /// The network service deleted the port: the guest is to lose the interface, whatever it does.
    LoseNic {
        process: ProcessId,
        port: PortId,
    },
    /// The network service says how the interfaces are now.
    RefreshNics {
        nics: Vec<NicInfo>,
    },
    /// Changes nothing: what hosts are driven here has nothing of networks to put into a running guest.
    InjectNetworkInfo {
        asker: Asker,
    },
    Change {
        changes: Vec<Change>,
        asker: Asker,
    },
    Lock {
        lock: Locked,
    },
    Unlock {
        by_admin: bool,
    },
    /// What the guest made up for its owner; once, until it is cleared.
    PostGuestPassword {
        password: String,
    },
    ClearGuestPassword,
    /// What changes its disks or its place.
    Work(Box<work::WorkCommand>),
    /// Another flavor, another host; boxed, because it is large.
    Move(Box<moving::MoveCommand>),
    /// The personal data so far is being erased; the server may be long gone.
    Erase {
        erasure: ErasureId,
    },

    RecordPlaced(Placed),
    /// What the scheduler decided and why; with the host, where it found one.
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
    /// What the host tells by itself.
    Observe {
        host: HostId,
        power: Power,
    },
}

/// What a server's volumes are asked to do, and what its processes record of them.
#[derive(Debug, Clone)]
pub enum VolumeCommand {
    /// The device's name is chosen by the decision.
    Attach {
        process: ProcessId,
        device: Box<BlockDevice>,
        /// `[compute] max_disk_devices_to_attach`.
        limit: Option<usize>,
        asker: Asker,
    },
    Detach {
        process: ProcessId,
        volume: VolumeId,
        asker: Asker,
    },
    Swap {
        process: ProcessId,
        old: VolumeId,
        new: VolumeId,
        new_attachment: AttachmentId,
        asker: Asker,
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

/// What of the caller matters to the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// The policy `os-lock-server:unlock:unlock_override` lets the caller work on locked servers.
    pub overrides_lock: bool,
}

/// One change of what can be changed at any time.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Name(String),
    Description(Option<String>),
    Hostname(String),
    DiskConfig(DiskConfig),
    AccessAddresses { v4: Option<String>, v6: Option<String> },
    Metadata(MetadataChange),
    Tags(TagChange),
}

/// Merged with what is there when the decision falls, so that two writers of different keys both have their way.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataChange {
    Replace { pairs: Pairs, limit: Option<usize> },
    Set { pairs: Pairs, limit: Option<usize> },
    Remove { key: String },
}

#[derive(Debug, Clone, PartialEq)]
pub enum TagChange {
    Replace(Vec<String>),
    Add { tag: String, limit: usize },
    Remove(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InstanceReject {
    #[error("the server could not be found")]
    NotFound,
    #[error("the server exists already")]
    Exists,
    #[error("the server is locked")]
    Locked,
    /// Nova's words: Cannot 'action' instance while it is in `attribute` `value`.
    #[error("cannot {action} while the server is in {attribute} {value}")]
    NotInState { action: &'static str, attribute: &'static str, value: &'static str },
    /// Nova's `OperationNotSupportedForVTPM` and its like.
    #[error("{operation} is not supported for servers with {hardware:?}")]
    NotSupported { operation: &'static str, hardware: unsupported::Hardware },
    /// Nova's `check_instance_host`.
    #[error("the server is on no host")]
    NotReady,
    /// Nova's `must_have_launched`: there never was a guest to work on.
    #[error("cannot {action}: the server never ran")]
    NeverLaunched { action: &'static str },
    #[error("port {0} is not one of the server's")]
    NoSuchPort(PortId),
    /// Nova's `MigrationNotFoundByStatus`.
    #[error("the server was not moved")]
    NotMoved,
    /// Nova's `MigrationNotFoundForInstance`.
    #[error("the server has no such migration")]
    NoSuchMigration,
    /// Nova's `InvalidMigrationState`.
    #[error("cannot {action}: the migration is {state}")]
    MigrationInState { state: &'static str, action: &'static str },
    #[error("more than {limit} metadata items")]
    TooMuchMetadata { limit: usize },
    #[error("the guest has posted a password already")]
    GuestPasswordKept,
    #[error("no metadata item of this name")]
    NoSuchMetadata,
    #[error("more than {limit} tags")]
    TooManyTags { limit: usize },
    #[error("no tag {tag:?}")]
    NoSuchTag { tag: String },
    #[error("volume {volume} is attached already")]
    VolumeAttached { volume: VolumeId },
    #[error("volume {volume} is not attached")]
    VolumeNotAttached { volume: VolumeId },
    /// It is being attached, detached or exchanged.
    #[error("volume {volume} is being worked on")]
    VolumeBusy { volume: VolumeId },
    #[error("volume {volume} is the root disk")]
    RootVolume { volume: VolumeId },
    #[error("more than {limit} disks")]
    TooManyDisks { limit: usize },
    /// A record came from a process whose turn it is not (any more).
    #[error("the process is not the one at work on the server")]
    Superseded,
}

impl Aggregate for InstanceAggregate {
    type Id = InstanceId;
    type State = Instance;
    type Command = InstanceCommand;
    type Reject = InstanceReject;

    fn stream(instance: &InstanceId) -> StreamId {
        StreamId::new("instance", instance)
    }

    fn decide(state: &Instance, command: InstanceCommand) -> Result<Vec<InstanceEvent>, InstanceReject> {
        decide::decide(state, command)
    }

    fn begins(command: &InstanceCommand) -> bool {
        matches!(command, InstanceCommand::Build(_) | InstanceCommand::BuildWith { .. })
    }
}
