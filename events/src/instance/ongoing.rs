//! The operation under way on a server, and the process that performs it.

use serde::{Deserialize, Serialize};

use super::imaging::WorkStage;
use super::payloads::PowerAction;
use crate::ids::{ImageId, ProcessId};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OngoingTask {
    Power {
        process: ProcessId,
        action: PowerAction,
    },
    Delete {
        process: ProcessId,
        cancels: Option<ProcessId>,
    },
    SoftDelete {
        process: ProcessId,
    },
    Restore {
        process: ProcessId,
    },
    Snapshot {
        process: ProcessId,
        image: ImageId,
        backup: bool,
        stage: WorkStage,
    },
    /// `reimage`: the root disk is a volume, and the process writes an image to it.
    Rebuild {
        process: ProcessId,
        stage: WorkStage,
        reimage: bool,
    },
    Rescue {
        process: ProcessId,
    },
    Unrescue {
        process: ProcessId,
    },
    Shelve {
        process: ProcessId,
        stage: WorkStage,
    },
    Offload {
        process: ProcessId,
    },
    Unshelve {
        process: ProcessId,
        stage: WorkStage,
    },
    ChangePassword {
        process: ProcessId,
    },
    Move {
        process: ProcessId,
    },
    Confirm {
        process: ProcessId,
    },
    Revert {
        process: ProcessId,
    },
}

impl OngoingTask {
    pub fn process(&self) -> ProcessId {
        match self {
            Self::Power { process, .. }
            | Self::Delete { process, .. }
            | Self::SoftDelete { process }
            | Self::Restore { process }
            | Self::Snapshot { process, .. }
            | Self::Rebuild { process, .. }
            | Self::Rescue { process }
            | Self::Unrescue { process }
            | Self::Shelve { process, .. }
            | Self::Offload { process }
            | Self::Unshelve { process, .. }
            | Self::ChangePassword { process }
            | Self::Move { process }
            | Self::Confirm { process }
            | Self::Revert { process } => *process,
        }
    }

    /// The stage of the operation, if it has stages.
    pub fn stage(&self) -> Option<WorkStage> {
        match self {
            Self::Snapshot { stage, .. }
            | Self::Rebuild { stage, .. }
            | Self::Shelve { stage, .. }
            | Self::Unshelve { stage, .. } => Some(*stage),
            _ => None,
        }
    }

    /// Whether the operation is part of a move, so that two hosts may have disks or guests of the server.
    pub fn is_moving(&self) -> bool {
        matches!(self, Self::Move { .. } | Self::Confirm { .. } | Self::Revert { .. })
    }

    pub(super) fn advance(&mut self, to: WorkStage) {
        match self {
            Self::Snapshot { stage, .. }
            | Self::Rebuild { stage, .. }
            | Self::Shelve { stage, .. }
            | Self::Unshelve { stage, .. } => *stage = to,
            _ => {}
        }
    }
}
