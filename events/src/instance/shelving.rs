//! Shelving: a server is stopped, its disk becomes an image, and the server is later offloaded from its host.

use serde::{Deserialize, Serialize};

use super::payloads::{FaultInfo, ImageSnapshot};
use crate::ids::{ImageId, ProcessId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShelveRequested {
    pub process: ProcessId,
    /// The image that receives the disk; it exists and has no data yet. `None` if the root disk is a volume: the volume
    /// stays, and the server leaves its host at once.
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
    /// The availability zone that the user requested for the unshelved server.
    pub availability_zone: Option<String>,
    /// The requested host. The server is unshelved there only if the filters accept the host.
    pub host: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unshelved {
    pub process: ProcessId,
    /// The image of the root disk; `None` if the server never left its host, or if its root disk is a volume.
    pub root: Option<ImageSnapshot>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnshelveFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

/// One example of each event.
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
