//! Rescue: a server is started from another disk, so that a user can repair the server's own disks.

use serde::{Deserialize, Serialize};

use super::payloads::{FaultInfo, ImageSnapshot};
use crate::ids::ProcessId;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RescueRequested {
    pub process: ProcessId,
    /// The image of the rescue disk.
    pub image: ImageSnapshot,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rescued {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RescueFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnrescueRequested {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unrescued {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnrescueFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let process = ProcessId(uuid::Uuid::from_u128(2));
    let fault = FaultInfo { code: 500, message: "The hypervisor refused.".into(), details: "no memory".into() };
    vec![
        RescueRequested { process, image: super::payloads::sample_image() }.into(),
        Rescued { process }.into(),
        RescueFailed { process, fault: fault.clone() }.into(),
        UnrescueRequested { process }.into(),
        Unrescued { process }.into(),
        UnrescueFailed { process, fault }.into(),
    ]
}
