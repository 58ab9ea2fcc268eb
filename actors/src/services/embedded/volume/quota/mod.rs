//! A project's volume quota. The service reserves quota here before it records a new volume, a larger size or a
//! snapshot.

use chronova_events::envelope::StreamId;
use chronova_events::ids::{ProjectId, SnapshotId, VolumeId};
use chronova_events::volume_quota::{
    SnapshotRoomReleased, SnapshotRoomTaken, VolumeLimitsReset, VolumeLimitsSet, VolumeQuota, VolumeQuotaEvent,
    VolumeRoomReleased, VolumeRoomTaken,
};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum VolumeQuotaRoot {}

/// The limits of projects that have none of their own. `Default` gives Cinder's. -1 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeLimits {
    pub volumes: i64,
    pub snapshots: i64,
    /// The most GiB of volumes and snapshots together.
    pub gigabytes: i64,
    /// The most GiB of one volume.
    pub per_volume_gigabytes: i64,
}

impl Default for VolumeLimits {
    fn default() -> Self {
        Self { volumes: 10, snapshots: 10, gigabytes: 1000, per_volume_gigabytes: -1 }
    }
}

impl VolumeLimits {
    /// The limit of a resource, by its name in the API.
    pub fn get(&self, resource: &str) -> i64 {
        match resource {
            "volumes" => self.volumes,
            "snapshots" => self.snapshots,
            "gigabytes" => self.gigabytes,
            "per_volume_gigabytes" => self.per_volume_gigabytes,
            _ => -1,
        }
    }
}

#[derive(Debug, Clone)]
pub enum VolumeQuotaCommand {
    /// Reserves quota for a new volume, or the additional quota for a larger size. A size that is already reserved
    /// needs no check and changes nothing.
    TakeVolume {
        project: ProjectId,
        volume: VolumeId,
        size_gb: u32,
        defaults: VolumeLimits,
    },
    /// Reduces a volume's quota to this size.
    ShrinkVolume {
        project: ProjectId,
        volume: VolumeId,
        size_gb: u32,
    },
    ReleaseVolume {
        project: ProjectId,
        volume: VolumeId,
    },
    TakeSnapshot {
        project: ProjectId,
        snapshot: SnapshotId,
        size_gb: u32,
        defaults: VolumeLimits,
    },
    ReleaseSnapshot {
        project: ProjectId,
        snapshot: SnapshotId,
    },
    SetLimits {
        project: ProjectId,
        limits: Vec<(String, i64)>,
    },
    ResetLimits {
        project: ProjectId,
    },
}

/// The refusals, with Cinder's messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VolumeQuotaReject {
    #[error("Maximum number of volumes allowed ({limit}) exceeded for quota 'volumes'.")]
    Volumes { limit: i64 },
    #[error("Maximum number of snapshots allowed ({limit}) exceeded")]
    Snapshots { limit: i64 },
    #[error(
        "Requested volume or snapshot exceeds allowed gigabytes quota. Requested {requested}G, quota is {limit}G and \
         {used}G has been consumed."
    )]
    Gigabytes { requested: u64, limit: i64, used: u64 },
    #[error("Requested volume size {size_gb}G is larger than maximum allowed limit {limit}G.")]
    Size { size_gb: u32, limit: i64 },
}

impl AggregateRoot for VolumeQuotaRoot {
    type Id = ProjectId;
    type State = VolumeQuota;
    type Command = VolumeQuotaCommand;
    type Reject = VolumeQuotaReject;

    fn stream(project: &ProjectId) -> StreamId {
        StreamId::new("volume_quota", project)
    }

    fn decide(state: &VolumeQuota, command: VolumeQuotaCommand) -> Result<Vec<VolumeQuotaEvent>, VolumeQuotaReject> {
        decide(state, command)
    }
}

/// The project's limit of a resource.
pub fn limit(state: &VolumeQuota, defaults: &VolumeLimits, resource: &str) -> i64 {
    state.limits.get(resource).copied().unwrap_or_else(|| defaults.get(resource))
}

fn over(limit: i64, wanted: u64) -> bool {
    u64::try_from(limit).is_ok_and(|limit| wanted > limit)
}

fn check_gigabytes(state: &VolumeQuota, defaults: &VolumeLimits, requested: u64) -> Result<(), VolumeQuotaReject> {
    let (limit, used) = (limit(state, defaults, "gigabytes"), state.gigabytes());
    match over(limit, used + requested) {
        true => Err(VolumeQuotaReject::Gigabytes { requested, limit, used }),
        false => Ok(()),
    }
}

fn decide(state: &VolumeQuota, command: VolumeQuotaCommand) -> Result<Vec<VolumeQuotaEvent>, VolumeQuotaReject> {
    Ok(match command {
        VolumeQuotaCommand::TakeVolume { project, volume, size_gb, defaults } => {
            let has = state.volumes.get(&volume).copied();
            if has.is_some_and(|has| has >= size_gb) {
                return Ok(vec![]);
            }
            let largest = limit(state, &defaults, "per_volume_gigabytes");
            if over(largest, size_gb.into()) {
                return Err(VolumeQuotaReject::Size { size_gb, limit: largest });
            }
            check_gigabytes(state, &defaults, u64::from(size_gb - has.unwrap_or(0)))?;
            let many = limit(state, &defaults, "volumes");
            if has.is_none() && over(many, state.volumes.len() as u64 + 1) {
                return Err(VolumeQuotaReject::Volumes { limit: many });
            }
            vec![VolumeRoomTaken { project, volume, size_gb }.into()]
        }
        VolumeQuotaCommand::ShrinkVolume { project, volume, size_gb } => match state.volumes.get(&volume) {
            Some(has) if *has > size_gb => vec![VolumeRoomTaken { project, volume, size_gb }.into()],
            _ => vec![],
        },
        VolumeQuotaCommand::ReleaseVolume { project, volume } => match state.volumes.contains_key(&volume) {
            true => vec![VolumeRoomReleased { project, volume }.into()],
            false => vec![],
        },
        VolumeQuotaCommand::TakeSnapshot { project, snapshot, size_gb, defaults } => {
            if state.snapshots.contains_key(&snapshot) {
                return Ok(vec![]);
            }
            check_gigabytes(state, &defaults, size_gb.into())?;
            let many = limit(state, &defaults, "snapshots");
            if over(many, state.snapshots.len() as u64 + 1) {
                return Err(VolumeQuotaReject::Snapshots { limit: many });
            }
            vec![SnapshotRoomTaken { project, snapshot, size_gb }.into()]
        }
        VolumeQuotaCommand::ReleaseSnapshot { project, snapshot } => match state.snapshots.contains_key(&snapshot) {
            true => vec![SnapshotRoomReleased { project, snapshot }.into()],
            false => vec![],
        },
        VolumeQuotaCommand::SetLimits { project, limits } => vec![VolumeLimitsSet { project, limits }.into()],
        VolumeQuotaCommand::ResetLimits { project } => match state.limits.is_empty() {
            true => vec![],
            false => vec![VolumeLimitsReset { project }.into()],
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;

    use super::*;

    fn take(volume: VolumeId, size_gb: u32) -> VolumeQuotaCommand {
        let defaults = VolumeLimits { volumes: 2, snapshots: 1, gigabytes: 10, per_volume_gigabytes: 8 };
        VolumeQuotaCommand::TakeVolume { project: ProjectId::new("p"), volume, size_gb, defaults }
    }

    fn given(commands: Vec<VolumeQuotaCommand>) -> VolumeQuota {
        let mut state = VolumeQuota::default();
        for command in commands {
            for event in decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(1));
            }
        }
        state
    }

    #[test]
    fn limits_are_exact() {
        let [a, b, c] = [1, 2, 3].map(|n| VolumeId(uuid::Uuid::from_u128(n)));
        let state = given(vec![take(a, 4), take(b, 6)]);
        assert_eq!(state.gigabytes(), 10, "the last GiB may be reserved");
        assert_eq!(decide(&state, take(a, 4)).unwrap(), vec![], "a reserved size is not reserved again");
        assert_eq!(
            decide(&state, take(a, 5)).unwrap_err(),
            VolumeQuotaReject::Gigabytes { requested: 1, limit: 10, used: 10 },
            "a larger size must count only the difference"
        );
        let state = given(vec![take(a, 1), take(b, 1)]);
        assert_eq!(decide(&state, take(c, 1)).unwrap_err(), VolumeQuotaReject::Volumes { limit: 2 });
        assert_eq!(decide(&state, take(b, 9)).unwrap_err(), VolumeQuotaReject::Size { size_gb: 9, limit: 8 });
    }
}
