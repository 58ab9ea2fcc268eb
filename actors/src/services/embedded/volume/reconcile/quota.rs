//! Gives back quota of volumes and snapshots that were never created, or are gone. Also gives back quota for extensions
//! that never began, because a crash or the client ended the request before the volume recorded it.

use std::collections::BTreeSet;

use chronova_events::envelope::Meta;
use chronova_events::ids::{ProjectId, SnapshotId, VolumeId};
use chronova_projections::views::Views;

use crate::reconcile::context::ReconcileContext;
use crate::reconcile::copies::CopyConduct;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::services::embedded::volume::quota::{VolumeQuotaCommand, VolumeQuotaRoot};

/// Reserved quota of a project, and its volume or snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservedQuota {
    Volume(ProjectId, VolumeId),
    Snapshot(ProjectId, SnapshotId),
    /// More quota than the size of the volume, and that size in GiB.
    Extension {
        project: ProjectId,
        volume: VolumeId,
        reserved_gb: u32,
        size_gb: u32,
    },
}

/// All quota without a volume or snapshot now, and all quota beyond the size of a volume that no process works on. This
/// includes quota of requests under way. So while requests are served, the reconciler releases only quota that it finds
/// in two runs in a row.
pub fn plan(views: &Views) -> BTreeSet<ReservedQuota> {
    views.volumes.read(|view| {
        let mut idle = BTreeSet::new();
        for (project, quota) in &view.quotas {
            let volumes = quota.volumes.keys().filter(|id| view.get(**id).is_none());
            idle.extend(volumes.map(|id| ReservedQuota::Volume(project.clone(), *id)));
            let snapshots = quota.snapshots.keys().filter(|id| view.snapshot(**id).is_none());
            idle.extend(snapshots.map(|id| ReservedQuota::Snapshot(project.clone(), *id)));
            for (id, reserved_gb) in &quota.volumes {
                // While a process extends the volume, that process is responsible for the quota.
                let known = view.get(*id).filter(|volume| volume.ongoing.is_none() && volume.size_gb < *reserved_gb);
                idle.extend(known.map(|volume| ReservedQuota::Extension {
                    project: project.clone(),
                    volume: *id,
                    reserved_gb: *reserved_gb,
                    size_gb: volume.size_gb,
                }));
            }
        }
        idle
    })
}

pub async fn give_back(context: &ReconcileContext, idle: &BTreeSet<ReservedQuota>) -> usize {
    let mut failures = 0;
    for room in idle {
        tracing::info!(?room, "releasing volume quota that no volume or snapshot uses");
        let (project, release) = match room.clone() {
            ReservedQuota::Volume(project, volume) => {
                (project.clone(), VolumeQuotaCommand::ReleaseVolume { project, volume })
            }
            ReservedQuota::Snapshot(project, snapshot) => {
                (project.clone(), VolumeQuotaCommand::ReleaseSnapshot { project, snapshot })
            }
            ReservedQuota::Extension { project, volume, size_gb, .. } => {
                (project.clone(), VolumeQuotaCommand::ShrinkVolume { project, volume, size_gb })
            }
        };
        let meta = Meta::system("reconcile-volume-quota");
        if let Err(error) = context.gateway.send::<VolumeQuotaRoot>(&project, release, meta).await {
            failures += 1;
            tracing::warn!(?room, %error, "releasing volume quota failed, retrying");
        }
    }
    failures
}

/// Volume quota without a volume or snapshot.
#[derive(Debug)]
pub struct IdleVolumeQuota;

impl Reconciler for IdleVolumeQuota {
    type Finding = ReservedQuota;

    const NAME: &'static str = "volume-quota";
    const REPAIRS: &'static str = "volume quota without a volume or snapshot";
    const ON_A_COPY: CopyConduct<Self::Finding> = CopyConduct::ChangesLogAlone;
    const DEBOUNCES: bool = true;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views)
    }

    fn describe(room: &Self::Finding) -> String {
        match room {
            ReservedQuota::Volume(project, volume) => format!("project {project}: quota of volume {volume}"),
            ReservedQuota::Snapshot(project, snapshot) => format!("project {project}: quota of snapshot {snapshot}"),
            ReservedQuota::Extension { project, volume, reserved_gb, size_gb } => {
                format!("project {project}: {reserved_gb} GiB of quota for volume {volume} of {size_gb} GiB")
            }
        }
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        give_back(context, &findings).await
    }
}
