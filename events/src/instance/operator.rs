//! Operations of administrators on a server, and crash dumps.

use serde::{Deserialize, Serialize};

use crate::ids::ProcessId;

/// The state to which an administrator resets a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeclaredState {
    Active,
    Error,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateDeclared {
    pub state: DeclaredState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrashDumpRequested {
    pub process: ProcessId,
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    vec![
        StateDeclared { state: DeclaredState::Active }.into(),
        StateDeclared { state: DeclaredState::Error }.into(),
        CrashDumpRequested { process: ProcessId(uuid::Uuid::from_u128(2)) }.into(),
    ]
}
