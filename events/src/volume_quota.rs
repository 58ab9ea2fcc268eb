//! Volume quota of a project: its usage and its limits, one stream per project.
//!
//! Before a volume or snapshot is created, quota for it is reserved under its id. So a reconciler finds the reservation
//! of a volume that was never created, and releases it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ProjectId, SnapshotId, VolumeId};

noun! {
    /// Events of a project's volume quota.
    VolumeQuotaEvent = "volume_quota" {
        /// A volume's quota was reserved, or raised to this amount.
        VolumeRoomTaken = "volume_taken" @ 1,
        /// A volume's quota was released.
        VolumeRoomReleased = "volume_released" @ 1,
        /// A snapshot's quota was reserved.
        SnapshotRoomTaken = "snapshot_taken" @ 1,
        /// A snapshot's quota was released.
        SnapshotRoomReleased = "snapshot_released" @ 1,
        /// An administrator set limits for the project.
        VolumeLimitsSet = "limits_set" @ 1,
        /// An administrator reset the project's limits to the defaults.
        VolumeLimitsReset = "limits_reset" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRoomTaken {
    pub project: ProjectId,
    pub volume: VolumeId,
    pub size_gb: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRoomReleased {
    pub project: ProjectId,
    pub volume: VolumeId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRoomTaken {
    pub project: ProjectId,
    pub snapshot: SnapshotId,
    pub size_gb: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRoomReleased {
    pub project: ProjectId,
    pub snapshot: SnapshotId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeLimitsSet {
    pub project: ProjectId,
    /// Limits by resource (-1: no limit), sorted by resource.
    pub limits: Vec<(String, i64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeLimitsReset {
    pub project: ProjectId,
}

/// The usage and limits of one project.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct VolumeQuota {
    /// The size of each volume, in GiB.
    pub volumes: BTreeMap<VolumeId, u32>,
    pub snapshots: BTreeMap<SnapshotId, u32>,
    /// The limits that an administrator set. Other resources have the default limits.
    pub limits: BTreeMap<String, i64>,
}

impl VolumeQuota {
    /// The GiB of volumes and snapshots together.
    pub fn gigabytes(&self) -> u64 {
        self.volumes.values().chain(self.snapshots.values()).map(|size| u64::from(*size)).sum()
    }
}

impl Fold for VolumeQuota {
    type Event = VolumeQuotaEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &VolumeQuotaEvent, _: Timestamp) {
        match event {
            VolumeQuotaEvent::VolumeRoomTaken(taken) => {
                self.volumes.insert(taken.volume, taken.size_gb);
            }
            VolumeQuotaEvent::VolumeRoomReleased(released) => {
                self.volumes.remove(&released.volume);
            }
            VolumeQuotaEvent::SnapshotRoomTaken(taken) => {
                self.snapshots.insert(taken.snapshot, taken.size_gb);
            }
            VolumeQuotaEvent::SnapshotRoomReleased(released) => {
                self.snapshots.remove(&released.snapshot);
            }
            VolumeQuotaEvent::VolumeLimitsSet(set) => self.limits.extend(set.limits.iter().cloned()),
            VolumeQuotaEvent::VolumeLimitsReset(_) => self.limits.clear(),
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<VolumeQuotaEvent> {
    let project = ProjectId::new("p");
    let volume = VolumeId(uuid::Uuid::from_u128(1));
    let snapshot = SnapshotId(uuid::Uuid::from_u128(2));
    vec![
        VolumeRoomTaken { project: project.clone(), volume, size_gb: 10 }.into(),
        VolumeRoomReleased { project: project.clone(), volume }.into(),
        SnapshotRoomTaken { project: project.clone(), snapshot, size_gb: 10 }.into(),
        SnapshotRoomReleased { project: project.clone(), snapshot }.into(),
        VolumeLimitsSet { project: project.clone(), limits: vec![("volumes".into(), -1)] }.into(),
        VolumeLimitsReset { project }.into(),
    ]
}
