//! Images made of a server's disk: snapshots that a user asks for, and backups, of which only so many are kept.

use serde::{Deserialize, Serialize};

use super::payloads::FaultInfo;
use crate::ids::{ImageId, ProcessId};

/// How far a piece of work on a server has come; the API shows it as `task_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkStage {
    /// Asked for.
    Begun,
    AtWork,
    /// The disk is being copied on the host.
    PendingUpload,
    /// The copy is being uploaded to the image service.
    Uploading,
    /// Disks are being recreated.
    Disks,
    /// The guest is being defined and started.
    Spawning,
}

/// Work under way has come to its next stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkAdvanced {
    pub process: ProcessId,
    pub stage: WorkStage,
}

/// A backup counts among those of its kind (`daily`, say), of which the newest `rotation` are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    pub kind: String,
    pub keep: u32,
}

/// The image exists and has no data yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRequested {
    pub process: ProcessId,
    pub image: ImageId,
    /// `None` for an image that is no backup.
    pub backup: Option<Rotation>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotTaken {
    pub process: ProcessId,
    pub image: ImageId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotFailed {
    pub process: ProcessId,
    pub image: ImageId,
    pub fault: FaultInfo,
}

/// One example of each.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let uuid = uuid::Uuid::from_u128;
    let (process, image) = (ProcessId(uuid(2)), ImageId(uuid(9)));
    let fault = FaultInfo { code: 500, message: "The hypervisor refused.".into(), details: "no room".into() };
    let backup = Some(Rotation { kind: "daily".into(), keep: 7 });
    vec![
        SnapshotRequested { process, image, backup: None }.into(),
        SnapshotRequested { process, image, backup }.into(),
        WorkAdvanced { process, stage: WorkStage::PendingUpload }.into(),
        SnapshotTaken { process, image }.into(),
        SnapshotFailed { process, image, fault }.into(),
    ]
}
