//! Rebuild: a server gets new disks on its host. Its id, ports and resource claim do not change.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::imaging::WorkStage;
use super::ongoing::OngoingTask;
use super::payloads::{DiskConfig, FaultInfo, ImageSnapshot, KeySnapshot, SortedPairs};
use super::state::Alive;
use crate::ids::ProcessId;

/// The properties of the server after the rebuild. A property that the request does not change has its former value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RebuildRequested {
    pub process: ProcessId,
    pub image: ImageSnapshot,
    /// Whether the server had another image before.
    pub other_image: bool,
    /// Whether the ephemeral disk and the swap disk are preserved.
    pub preserve_ephemeral: bool,
    /// Whether the image is written to a root volume (2.93 and later).
    pub reimage: bool,
    pub name: String,
    pub hostname: String,
    pub description: Option<String>,
    pub key: Option<KeySnapshot>,
    pub user_data: Option<String>,
    pub metadata: SortedPairs,
    pub trusted_certs: Vec<String>,
    pub disk_config: DiskConfig,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rebuilt {
    pub process: ProcessId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RebuildFailed {
    pub process: ProcessId,
    pub fault: FaultInfo,
}

/// The image before a rebuild, see [`Alive::former`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormerImage {
    pub image: Option<Arc<ImageSnapshot>>,
    pub root: Option<Box<ImageSnapshot>>,
    pub machine_type: Option<String>,
}

impl Alive {
    /// Restores the former image if a rebuild failed before it changed a disk. Nova likewise rolls back only
    /// `image_ref`.
    pub(super) fn forget_rebuild(&mut self) {
        let untouched = matches!(self.ongoing, Some(OngoingTask::Rebuild { stage: WorkStage::Begun, .. }));
        if let Some(former) = self.former.take().filter(|_| untouched) {
            self.restore_image(*former);
        }
    }

    /// Restores the former image if an evacuation overtakes a rebuild. Such a rebuild has changed no disk yet.
    pub(super) fn abandon_rebuild(&mut self) {
        if matches!(self.ongoing, Some(OngoingTask::Rebuild { .. }))
            && let Some(former) = self.former.take()
        {
            self.restore_image(*former);
        }
    }

    fn restore_image(&mut self, former: FormerImage) {
        match self.is_volume_backed() {
            true => self.boot_image = former.image,
            false => self.request.image = former.image,
        }
        self.root = former.root;
        self.machine_type = former.machine_type;
    }
}

/// One example of each event.
pub(super) fn samples() -> Vec<super::InstanceEvent> {
    let process = ProcessId(uuid::Uuid::from_u128(2));
    let fault = FaultInfo { code: 500, message: "The hypervisor refused.".into(), details: "no room".into() };
    let requested = RebuildRequested {
        process,
        image: super::payloads::sample_image(),
        other_image: true,
        preserve_ephemeral: true,
        reimage: false,
        name: "web-2".into(),
        hostname: "web-2".into(),
        description: Some("back end".into()),
        key: Some(KeySnapshot { name: "k".into(), kind: "ssh".into(), public_key: "ssh-ed25519 AAAA".into() }),
        user_data: Some("IyEvYmluL3No".into()),
        metadata: vec![("role".into(), "db".into())],
        trusted_certs: vec!["674736e3-f25c-405c-8362-bbf991e0ce0a".into()],
        disk_config: DiskConfig::Auto,
        access_ip_v4: Some("192.0.2.1".into()),
        access_ip_v6: None,
    };
    let of_volume = RebuildRequested { reimage: true, ..requested.clone() };
    vec![requested.into(), of_volume.into(), Rebuilt { process }.into(), RebuildFailed { process, fault }.into()]
}
