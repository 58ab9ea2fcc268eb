//! Shelving: a server is switched off, its disk kept as an image, and later offloaded from its host.

use serde::{Deserialize, Serialize};

use super::payloads::{FaultInfo, ImageSnapshot};
use crate::ids::{ImageId, ProcessId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShelveRequested {
    pub process: ProcessId,
    /// The image that its disk becomes; it exists and has no bytes yet. `None` where the root disk is a volume: that stays
    /// what it is, and the server leaves its host at once.
    pub image: Option<ImageId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shelved {
    pub process: ProcessId,
    pub image: ImageId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShelveFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OffloadRequested {
    pub process: ProcessId,
}

/// The server is on no host any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offloaded {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnshelveRequested {
    pub process: ProcessId,
    /// The availability zone requested for the server from now on.
    pub availability_zone: Option<String>,
    /// The requested host, if it passes the filters.
    pub host: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unshelved {
    pub process: ProcessId,
    /// The image of its root disk; `None` where it never left its host.
    pub root: Option<ImageSnapshot>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnshelveFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

/// One example of each.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let uuid = uuid::Uuid::from_u128;
    let (process, image) = (ProcessId(uuid(2)), ImageId(uuid(9)));
    let fault = FaultInfo { code: 500, message: "No valid host was found.".into(), details: "0 of 3 hosts".into() };
    vec![
        ShelveRequested { process, image: Some(image) }.into(),
        ShelveRequested { process, image: None }.into(),
        Shelved { process, image }.into(),
        ShelveFailed { process, fault: fault.clone() }.into(),
        OffloadRequested { process }.into(),
        Offloaded { process }.into(),
        UnshelveRequested { process, availability_zone: Some("nova".into()), host: Some("h2".into()) }.into(),
        Unshelved { process, root: Some(super::payloads::sample_image()) }.into(),
        UnshelveFailed { process, fault }.into(),
    ]
}
