//! A process: one run of a multi-step operation.
//!
//! The stream of a process records its done, failed and undone steps, and a cancellation. These records suffice to
//! choose the next step. So after a crash a process continues at the end of its stream.

mod state;

use serde::{Deserialize, Serialize};

use crate::ids::{
    AttachmentId, BlockDeviceId, HostId, ImageId, InstanceId, PortId, ProcessId, ProjectId, ServerGroupId, SnapshotId,
    VolumeId,
};
use crate::instance::{BlockConnection, FaultInfo, ImageSnapshot, NicInfo, PowerAction, RequestedNic, Rotation};

pub use state::{Process, RunningProcess, StepFailure, StepRecord};

noun! {
    /// Events of a process.
    ProcessEvent = "process" {
        /// The process began.
        Started = "started" @ 1,
        /// A step was done.
        StepDone = "step_done" @ 1,
        /// A step failed.
        StepFailed = "step_failed" @ 1,
        /// A step that was done, or had failed halfway, was undone.
        StepUndone = "step_undone" @ 1,
        /// A step or an undo is stuck; it is retried, and operators are told.
        StepStuck = "step_stuck" @ 1,
        /// All done steps were undone, and the process starts again.
        Restarted = "restarted" @ 1,
        /// The process was cancelled: it undoes its steps and ends.
        CalledOff = "called_off" @ 1,
        /// The process ended.
        Finished = "finished" @ 1,
    }
}

/// The task of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Task {
    BuildInstance {
        instance: InstanceId,
    },
    DeleteInstance {
        instance: InstanceId,
        cancels: Option<ProcessId>,
    },
    Power {
        instance: InstanceId,
        action: PowerAction,
    },
    CrashDump {
        instance: InstanceId,
    },
    SoftDelete {
        instance: InstanceId,
    },
    Restore {
        instance: InstanceId,
    },
    Volume {
        volume: VolumeId,
        work: VolumeWork,
    },
    AttachVolume(DiskTask),
    DetachVolume(DiskTask),
    /// The volume `new` replaces the volume of `disk`.
    SwapVolume {
        disk: DiskTask,
        new: VolumeId,
        new_attachment: AttachmentId,
    },
    AttachInterface {
        instance: InstanceId,
        wanted: RequestedNic,
    },
    DetachInterface {
        instance: InstanceId,
        port: PortId,
    },
    Snapshot {
        instance: InstanceId,
        image: ImageId,
        backup: Option<Rotation>,
    },
    Rebuild {
        instance: InstanceId,
        preserve_ephemeral: bool,
        other_image: bool,
    },
    Rescue {
        instance: InstanceId,
    },
    Unrescue {
        instance: InstanceId,
    },
    Shelve {
        instance: InstanceId,
        image: ImageId,
    },
    Offload {
        instance: InstanceId,
    },
    Unshelve {
        instance: InstanceId,
    },
    ChangePassword {
        instance: InstanceId,
    },
    MoveInstance {
        instance: InstanceId,
    },
    ConfirmResize {
        instance: InstanceId,
        migration: ProcessId,
    },
    RevertResize {
        instance: InstanceId,
        migration: ProcessId,
    },
    LiveMigrate {
        instance: InstanceId,
    },
    Evacuate {
        instance: InstanceId,
    },
    DrainHost {
        host: HostId,
    },
    /// Creates the servers of one request. The project already holds the quota for them.
    CreateServers {
        project: ProjectId,
        instances: Vec<InstanceId>,
        /// The server group that the servers join, with the project that owns the group.
        group: Option<(ProjectId, ServerGroupId)>,
    },
    /// Claims the quota or creates the image that a request needs, and then sends the request to the server. The
    /// process `asks_for`, which the request begins, takes over the quota or the image.
    AskServer {
        instance: InstanceId,
        /// The process that the server is asked to start.
        asks_for: ProcessId,
        needs: RequestNeed,
    },
    /// Makes the disk of a running guest as large as its volume.
    ExtendDisk {
        instance: InstanceId,
        volume: VolumeId,
    },
}

/// The resource that a request needs before its server decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestNeed {
    /// Quota of the project.
    Quota(ProjectId),
    /// An image record that has no data yet.
    Image(ImageId),
}

/// Work on one disk of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskTask {
    pub instance: InstanceId,
    pub device: BlockDeviceId,
    pub volume: VolumeId,
    pub attachment: AttachmentId,
}

/// The task of a process for a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeWork {
    Create,
    Delete {
        cancels: Option<ProcessId>,
    },
    Extend {
        size_gb: u32,
    },
    CreateSnapshot {
        snapshot: SnapshotId,
    },
    DeleteSnapshot {
        snapshot: SnapshotId,
    },
    /// The content of the volume becomes the data of an image.
    Upload {
        image: ImageId,
    },
    /// The data of an image replaces the content of the volume.
    Reimage {
        image: ImageId,
    },
}

impl VolumeWork {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create_volume",
            Self::Delete { .. } => "delete_volume",
            Self::Extend { .. } => "extend_volume",
            Self::CreateSnapshot { .. } => "create_snapshot",
            Self::DeleteSnapshot { .. } => "delete_snapshot",
            Self::Upload { .. } => "upload_volume",
            Self::Reimage { .. } => "reimage_volume",
        }
    }
}

/// The object that a process works on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProcessSubject {
    Server(InstanceId),
    Volume(VolumeId),
    Host(HostId),
    Project(ProjectId),
}

impl std::fmt::Display for ProcessSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(id) => id.fmt(f),
            Self::Volume(id) => id.fmt(f),
            Self::Host(id) => id.fmt(f),
            Self::Project(id) => id.fmt(f),
        }
    }
}

impl Task {
    /// The process's name, as `chronova inspect` and the metrics show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::BuildInstance { .. } => "build_instance",
            Self::DeleteInstance { .. } => "delete_instance",
            Self::Power { .. } => "power",
            Self::CrashDump { .. } => "crash_dump",
            Self::SoftDelete { .. } => "soft_delete",
            Self::Restore { .. } => "restore",
            Self::Volume { work, .. } => work.name(),
            Self::AttachInterface { .. } => "attach_interface",
            Self::DetachInterface { .. } => "detach_interface",
            Self::AttachVolume(_) => "attach_volume",
            Self::DetachVolume(_) => "detach_volume",
            Self::SwapVolume { .. } => "swap_volume",
            Self::Snapshot { .. } => "snapshot",
            Self::Rebuild { .. } => "rebuild",
            Self::Rescue { .. } => "rescue",
            Self::Unrescue { .. } => "unrescue",
            Self::Shelve { .. } => "shelve",
            Self::Offload { .. } => "offload",
            Self::Unshelve { .. } => "unshelve",
            Self::ChangePassword { .. } => "change_password",
            Self::MoveInstance { .. } => "move_instance",
            Self::ConfirmResize { .. } => "confirm_resize",
            Self::RevertResize { .. } => "revert_resize",
            Self::LiveMigrate { .. } => "live_migrate",
            Self::Evacuate { .. } => "evacuate",
            Self::DrainHost { .. } => "drain_host",
            Self::CreateServers { .. } => "create_servers",
            Self::AskServer { .. } => "ask_server",
            Self::ExtendDisk { .. } => "extend_disk",
        }
    }

    /// The subject of the process.
    pub fn subject(&self) -> ProcessSubject {
        match self {
            Self::BuildInstance { instance }
            | Self::DeleteInstance { instance, .. }
            | Self::Power { instance, .. }
            | Self::CrashDump { instance }
            | Self::SoftDelete { instance }
            | Self::Restore { instance }
            | Self::AttachInterface { instance, .. }
            | Self::DetachInterface { instance, .. }
            | Self::Snapshot { instance, .. }
            | Self::Rebuild { instance, .. }
            | Self::Rescue { instance }
            | Self::Unrescue { instance }
            | Self::Shelve { instance, .. }
            | Self::Offload { instance }
            | Self::Unshelve { instance }
            | Self::ChangePassword { instance }
            | Self::MoveInstance { instance }
            | Self::ConfirmResize { instance, .. }
            | Self::RevertResize { instance, .. }
            | Self::LiveMigrate { instance }
            | Self::Evacuate { instance }
            | Self::ExtendDisk { instance, .. }
            | Self::AskServer { instance, .. } => ProcessSubject::Server(*instance),
            Self::AttachVolume(disk) | Self::DetachVolume(disk) | Self::SwapVolume { disk, .. } => {
                ProcessSubject::Server(disk.instance)
            }
            Self::Volume { volume, .. } => ProcessSubject::Volume(*volume),
            Self::DrainHost { host } => ProcessSubject::Host(*host),
            Self::CreateServers { project, .. } => ProcessSubject::Project(project.clone()),
        }
    }

    /// The server that the process works on, if its subject is a server.
    pub fn instance(&self) -> Option<InstanceId> {
        match self.subject() {
            ProcessSubject::Server(instance) => Some(instance),
            ProcessSubject::Volume(_) | ProcessSubject::Host(_) | ProcessSubject::Project(_) => None,
        }
    }

    /// The host that the process drains, if it is a drain.
    pub fn host(&self) -> Option<HostId> {
        match self.subject() {
            ProcessSubject::Host(host) => Some(host),
            ProcessSubject::Server(_) | ProcessSubject::Volume(_) | ProcessSubject::Project(_) => None,
        }
    }

    /// Whether the process begins even if the limit of running processes is reached. A drain may, because it only
    /// requests other processes and waits for them. `CreateServers` and `AskServer` may, because a client waits for
    /// them.
    pub fn begins_at_once(&self) -> bool {
        matches!(self, Self::DrainHost { .. } | Self::CreateServers { .. } | Self::AskServer { .. })
    }

    /// Whether the `Started` event of the process is also the request for it. No other event requests such a process,
    /// and its end is always recorded.
    pub fn asks_for_itself(&self) -> bool {
        matches!(self, Self::AskServer { needs: RequestNeed::Image(_), .. })
    }

    /// Whether the process records steps only when a step fails. Events of other streams show its success. Repeating a
    /// step costs little, so records of steps would only enlarge the log. A process whose `Started` event is its
    /// request also records its beginning and its end.
    pub fn records_only_failure(&self) -> bool {
        matches!(self, Self::CreateServers { .. } | Self::AskServer { .. })
    }

    /// Whether the process records its steps together with its end, in one append. A crash before this append makes the
    /// next run repeat all steps, even if the last step was done and the subject shows the result. So each step first
    /// checks whether the subject still belongs to the process. A process that `AskServer` requests must not be in this
    /// list, because `AskServer` looks for the first record of that process.
    pub fn records_at_end(&self) -> bool {
        matches!(
            self,
            Self::BuildInstance { .. } | Self::DeleteInstance { .. } | Self::SoftDelete { .. } | Self::Power { .. }
        )
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub process: ProcessId,
    pub task: Task,
}

/// The result of a step, for later steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum StepOutput {
    Nothing,
    Host {
        host: HostId,
        hostname: String,
    },
    Nics(Vec<NicInfo>),
    /// How a host connects to a volume.
    Connected(BlockConnection),
    Image(Box<ImageSnapshot>),
    /// The id that the volume service gave to an attachment, if it differs from the proposed id.
    Reserved(AttachmentId),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepDone {
    pub step: String,
    pub output: StepOutput,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepFailed {
    pub step: String,
    /// Whether an attempt on another host may succeed.
    pub elsewhere: bool,
    /// The host on which the step failed. It is excluded from further attempts.
    pub host: Option<HostId>,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepUndone {
    pub step: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepStuck {
    pub step: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Restarted {
    /// The host to exclude from further attempts.
    pub excluded: Option<HostId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CalledOff {
    pub by: ProcessId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessOutcome {
    Succeeded,
    /// A step failed, and all earlier steps were undone.
    Failed,
    /// The process was cancelled, and all its steps were undone.
    CalledOff,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    pub outcome: ProcessOutcome,
}

/// One example of each event.
pub fn samples() -> Vec<ProcessEvent> {
    let mut all = of_all();
    let uuid = uuid::Uuid::from_u128;
    let process = ProcessId(uuid(1));
    all.extend(of_images(process));
    all.push(StepDone { step: "reserve".into(), output: StepOutput::Reserved(AttachmentId(uuid(15))) }.into());
    let task = Task::ExtendDisk { instance: InstanceId(uuid(2)), volume: VolumeId(uuid(11)) };
    all.push(Started { process, task }.into());
    all
}

fn of_all() -> Vec<ProcessEvent> {
    let uuid = uuid::Uuid::from_u128;
    let process = ProcessId(uuid(1));
    let fault = FaultInfo { code: 500, message: "no room".into(), details: "disk full".into() };
    let step = || "spawn_guest".to_owned();
    let host = HostId(uuid(3));
    let (device, volume) = (BlockDeviceId(uuid(10)), VolumeId(uuid(11)));
    let disk = DiskTask { instance: InstanceId(uuid(2)), device, volume, attachment: AttachmentId(uuid(12)) };
    let new_attachment = AttachmentId(uuid(14));
    let connection = BlockConnection {
        pool: "volumes".into(),
        volume: "volume-1".into(),
        format: "raw".into(),
        serial: volume.to_string(),
        readonly: false,
        shareable: false,
    };
    vec![
        Started { process, task: Task::BuildInstance { instance: InstanceId(uuid(2)) } }.into(),
        StepDone { step: step(), output: StepOutput::Host { host, hostname: "h1".into() } }.into(),
        StepFailed { step: step(), elsewhere: true, host: Some(host), fault }.into(),
        StepUndone { step: step() }.into(),
        StepStuck { step: step(), reason: "host is down".into() }.into(),
        Restarted { excluded: Some(host) }.into(),
        CalledOff { by: ProcessId(uuid(4)) }.into(),
        Finished { outcome: ProcessOutcome::Succeeded }.into(),
        Started { process, task: Task::CrashDump { instance: InstanceId(uuid(2)) } }.into(),
        Started { process, task: Task::SoftDelete { instance: InstanceId(uuid(2)) } }.into(),
        Started { process, task: Task::Restore { instance: InstanceId(uuid(2)) } }.into(),
        Started { process, task: Task::Volume { volume: VolumeId(uuid(5)), work: VolumeWork::Create } }.into(),
        Started {
            process,
            task: Task::AttachInterface {
                instance: InstanceId(uuid(2)),
                wanted: RequestedNic { network: None, port: Some(PortId(uuid(6))), fixed_ip: None, tag: None },
            },
        }
        .into(),
        Started { process, task: Task::DetachInterface { instance: InstanceId(uuid(2)), port: PortId(uuid(6)) } }
            .into(),
        Started { process, task: Task::AttachVolume(disk) }.into(),
        Started { process, task: Task::DetachVolume(disk) }.into(),
        Started { process, task: Task::SwapVolume { disk, new: VolumeId(uuid(13)), new_attachment } }.into(),
        StepDone { step: step(), output: StepOutput::Connected(connection) }.into(),
    ]
}

fn of_images(process: ProcessId) -> impl Iterator<Item = ProcessEvent> {
    let uuid = uuid::Uuid::from_u128;
    let (instance, image) = (InstanceId(uuid(2)), ImageId(uuid(9)));
    let backup = Some(Rotation { kind: "daily".into(), keep: 7 });
    [
        Task::Snapshot { instance, image, backup },
        Task::Rebuild { instance, preserve_ephemeral: true, other_image: false },
        Task::Rescue { instance },
        Task::Unrescue { instance },
        Task::Shelve { instance, image },
        Task::Offload { instance },
        Task::Unshelve { instance },
        Task::ChangePassword { instance },
        Task::MoveInstance { instance },
        Task::ConfirmResize { instance, migration: process },
        Task::RevertResize { instance, migration: process },
        Task::LiveMigrate { instance },
        Task::Evacuate { instance },
        Task::DrainHost { host: HostId(uuid(3)) },
        Task::CreateServers {
            project: ProjectId::new("p"),
            instances: vec![instance],
            group: Some((ProjectId::new("p"), ServerGroupId(uuid(15)))),
        },
        Task::AskServer { instance, asks_for: process, needs: RequestNeed::Quota(ProjectId::new("p")) },
        Task::AskServer { instance, asks_for: process, needs: RequestNeed::Image(image) },
    ]
    .into_iter()
    .map(move |task| Started { process, task }.into())
}
