//! Images of a server's disk: snapshots, and backups with a rotation.

use serde::{Deserialize, Serialize};

use super::payloads::FaultInfo;
use crate::ids::{ImageId, ProcessId};

/// The stage of an operation on a server; the API shows it as `task_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkStage {
    /// The operation was requested.
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

/// The operation reached its next stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkAdvanced {
    pub process: ProcessId,
    pub stage: WorkStage,
}

/// The rotation of backups of one kind, for example `daily`. The newest `keep` backups of the kind are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    pub kind: String,
    pub keep: u32,
}

/// A user requested an image of the server's disk. The image record exists and has no data yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRequested {
    pub process: ProcessId,
    pub image: ImageId,
    /// Set for a backup, `None` for a snapshot.
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

/// One example of each event.
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
