//! A new password for a guest's administrator. The password itself is in no event: only the guest's agent gets
//! it.

use serde::{Deserialize, Serialize};

use super::payloads::FaultInfo;
use crate::ids::ProcessId;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordChangeRequested {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordChanged {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PasswordChangeFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

/// One example of each.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let process = ProcessId(uuid::Uuid::from_u128(2));
    let fault = FaultInfo { code: 409, message: "QEMU guest agent is not enabled".into(), details: String::new() };
    vec![
        PasswordChangeRequested { process }.into(),
        PasswordChanged { process }.into(),
        PasswordChangeFailed { process, fault }.into(),
    ]
}
