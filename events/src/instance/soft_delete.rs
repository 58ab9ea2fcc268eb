//! Soft delete: the server is off and hidden until it is restored or reclaimed.

use serde::{Deserialize, Serialize};

use super::payloads::FaultInfo;
use crate::ids::ProcessId;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoftDeleteRequested {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoftDeleted {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestoreRequested {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestoreFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let process = ProcessId(uuid::Uuid::from_u128(2));
    let fault = FaultInfo { code: 500, message: "The hypervisor refused.".into(), details: "no memory".into() };
    vec![
        SoftDeleteRequested { process }.into(),
        SoftDeleted { process }.into(),
        RestoreRequested { process }.into(),
        Restored { process }.into(),
        RestoreFailed { process, fault }.into(),
    ]
}
