//! Records about a server: facts that have happened, on a host or in a process.
//!
//! No other crate can name records, because only this crate may send them. Its processes and host agents send most of
//! them. A late or repeated record leads to no event. Two kinds of records lead to events again when they are repeated:
//! records of progress, and records that no host was found.

use chronova_events::ids::{BlockDeviceId, HostId, ImageId, PortId, ProcessId};
use chronova_events::instance::{
    BlockDevice, FaultInfo, ImageSnapshot, InstanceEvent, LiveProgress, LiveStage, MoveStage, NetworkAllocated,
    NicInfo, Offloaded, PasswordChangeFailed, PasswordChanged, Placed, Power, PowerAction, RebuildFailed, Rebuilt,
    RescueFailed, Rescued, Scheduled, ShelveFailed, Shelved, SnapshotFailed, SnapshotTaken, UnrescueFailed, Unrescued,
    UnshelveFailed, Unshelved, WorkStage,
};
use uuid::Uuid;

#[derive(Debug, Clone)]
pub enum InstanceRecord {
    Placed(Placed),
    /// The scheduler's decision and its reasons, with the host if one was selected. `network`: the interfaces, if the
    /// network service need not be asked for them. `machine_type`: the machine type of a new guest on this host.
    Scheduled {
        placed: Option<Placed>,
        scheduled: Box<Scheduled>,
        network: Option<NetworkAllocated>,
        machine_type: Option<String>,
    },
    /// The machine type of a server that has none recorded.
    MachineType {
        machine_type: String,
    },
    /// The key manager has the passphrase of the server's TPM.
    TpmSecret {
        secret: Uuid,
        reference: String,
    },
    Unplaced {
        process: ProcessId,
        host: HostId,
        reason: String,
    },
    Network(NetworkAllocated),
    Built {
        process: ProcessId,
    },
    BuildFailed {
        process: ProcessId,
        fault: FaultInfo,
    },
    Deleted {
        process: ProcessId,
    },
    SoftDeleted {
        process: ProcessId,
    },
    Restored {
        process: ProcessId,
    },
    RestoreFailed {
        process: ProcessId,
        fault: FaultInfo,
    },
    PowerDone {
        process: ProcessId,
        action: PowerAction,
    },
    PowerFailed {
        process: ProcessId,
        action: PowerAction,
        fault: FaultInfo,
    },
    NicAttached {
        process: ProcessId,
        nic: NicInfo,
    },
    NicDetached {
        process: ProcessId,
        port: PortId,
    },
    NicDetachFailed {
        process: ProcessId,
        port: PortId,
        fault: FaultInfo,
    },
    /// The present interfaces, from the network service.
    NicsRefreshed {
        nics: Vec<NicInfo>,
    },
    /// The host reported the guest's power state.
    PowerObserved {
        host: HostId,
        power: Power,
    },
    Volume(InstanceVolumeRecord),
    Work(WorkRecord),
    /// Boxed, because it is large.
    Move(Box<MoveRecord>),
}

/// Records about a server's volumes.
#[derive(Debug, Clone)]
pub enum InstanceVolumeRecord {
    Prepared { process: ProcessId, devices: Vec<BlockDevice> },
    Attached { process: ProcessId, device: Box<BlockDevice> },
    AttachFailed { process: ProcessId, device: BlockDeviceId, fault: FaultInfo },
    Detached { process: ProcessId, device: BlockDeviceId },
    DetachFailed { process: ProcessId, device: BlockDeviceId, fault: FaultInfo },
    Swapped { process: ProcessId, device: Box<BlockDevice> },
    SwapFailed { process: ProcessId, device: BlockDeviceId, fault: FaultInfo },
}

/// Records about snapshots, rebuild, rescue, shelving and the password of a server.
#[derive(Debug, Clone)]
pub enum WorkRecord {
    Advanced { process: ProcessId, stage: WorkStage },
    Ended { process: ProcessId, end: WorkOutcome },
}

/// The result of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkOutcome {
    SnapshotTaken { image: ImageId },
    SnapshotFailed { image: ImageId, fault: FaultInfo },
    Rebuilt,
    RebuildFailed(FaultInfo),
    Rescued,
    RescueFailed(FaultInfo),
    Unrescued,
    UnrescueFailed(FaultInfo),
    Shelved { image: ImageId },
    ShelveFailed(FaultInfo),
    Offloaded,
    Unshelved { root: Option<ImageSnapshot> },
    UnshelveFailed(FaultInfo),
    PasswordChanged,
    PasswordChangeFailed(FaultInfo),
}

impl WorkOutcome {
    pub(super) fn event(self, process: ProcessId) -> InstanceEvent {
        match self {
            Self::SnapshotTaken { image } => SnapshotTaken { process, image }.into(),
            Self::SnapshotFailed { image, fault } => SnapshotFailed { process, image, fault }.into(),
            Self::Rebuilt => Rebuilt { process }.into(),
            Self::RebuildFailed(fault) => RebuildFailed { process, fault }.into(),
            Self::Rescued => Rescued { process }.into(),
            Self::RescueFailed(fault) => RescueFailed { process, fault }.into(),
            Self::Unrescued => Unrescued { process }.into(),
            Self::UnrescueFailed(fault) => UnrescueFailed { process, fault }.into(),
            Self::Shelved { image } => Shelved { process, image }.into(),
            Self::ShelveFailed(fault) => ShelveFailed { process, fault }.into(),
            Self::Offloaded => Offloaded { process }.into(),
            Self::Unshelved { root } => Unshelved { process, root }.into(),
            Self::UnshelveFailed(fault) => UnshelveFailed { process, fault }.into(),
            Self::PasswordChanged => PasswordChanged { process }.into(),
            Self::PasswordChangeFailed(fault) => PasswordChangeFailed { process, fault }.into(),
        }
    }
}

/// Records about a move to another flavor or host.
#[derive(Debug, Clone)]
pub enum MoveRecord {
    /// The scheduler's decision and its reasons, with the destination if one was selected.
    Targeted {
        process: ProcessId,
        target: Option<Placed>,
        scheduled: Box<Scheduled>,
    },
    /// The move gives up its destination.
    Untargeted {
        process: ProcessId,
        host: HostId,
        reason: String,
    },
    Advanced {
        process: ProcessId,
        stage: MoveStage,
    },
    Arrived {
        process: ProcessId,
    },
    Failed {
        process: ProcessId,
        fault: FaultInfo,
    },
    Confirmed {
        process: ProcessId,
    },
    Reverted {
        process: ProcessId,
    },
    RevertFailed {
        process: ProcessId,
        fault: FaultInfo,
    },
    /// Records about live migrations only.
    Live(LiveRecord),
    /// An evacuated server is at its destination. `renewed`: with newly created disks.
    Evacuated {
        process: ProcessId,
        renewed: bool,
    },
}

/// Records about a move of a running server's guest.
#[derive(Debug, Clone)]
pub enum LiveRecord {
    Advanced {
        process: ProcessId,
        stage: LiveStage,
    },
    Progressed {
        process: ProcessId,
        progress: LiveProgress,
    },
    /// The completion timeout has expired.
    TimedOut {
        process: ProcessId,
    },
    /// The guest is at its destination. The record counts even if another process owns the server now.
    Arrived {
        process: ProcessId,
    },
    /// The server is still at its source, after an abort.
    Stayed {
        process: ProcessId,
        reason: String,
    },
}

impl From<InstanceVolumeRecord> for InstanceRecord {
    fn from(record: InstanceVolumeRecord) -> Self {
        Self::Volume(record)
    }
}

impl From<WorkRecord> for InstanceRecord {
    fn from(record: WorkRecord) -> Self {
        Self::Work(record)
    }
}

impl From<MoveRecord> for InstanceRecord {
    fn from(record: MoveRecord) -> Self {
        Self::Move(Box::new(record))
    }
}

impl From<LiveRecord> for InstanceRecord {
    fn from(record: LiveRecord) -> Self {
        MoveRecord::Live(record).into()
    }
}
