//! Gives back quota of volumes and snapshots that were never created, or are gone. Removes leftovers of volumes from
//! hosts that were down when the volumes were deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProjectId, SnapshotId, VolumeId};
use chronova_events::volume::Volume;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::volumes::{self, PoolVolumeOwner};
use chronova_projections::views::Views;

use crate::hosts::context::HostContext;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::services::embedded::volume::VolumeRoot;
use crate::services::embedded::volume::quota::{VolumeQuotaCommand, VolumeQuotaRoot};

/// Reserved quota of a project, and its volume or snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservedQuota {
    Volume(ProjectId, VolumeId),
    Snapshot(ProjectId, SnapshotId),
}

/// All quota that is reserved for nothing now. This includes quota of requests under way. So, while requests are
/// served, only entries that are found twice, a period apart, are given back.
pub fn plan(views: &Views) -> BTreeSet<ReservedQuota> {
    views.volumes.read(|view| {
        let mut idle = BTreeSet::new();
        for (project, quota) in &view.quotas {
            let volumes = quota.volumes.keys().filter(|id| view.get(**id).is_none());
            idle.extend(volumes.map(|id| ReservedQuota::Volume(project.clone(), *id)));
            let snapshots = quota.snapshots.keys().filter(|id| view.snapshot(**id).is_none());
            idle.extend(snapshots.map(|id| ReservedQuota::Snapshot(project.clone(), *id)));
        }
        idle
    })
}

pub async fn give_back(context: &ReconcileContext, idle: &BTreeSet<ReservedQuota>) -> usize {
    let mut failures = 0;
    for room in idle {
        tracing::info!(?room, "giving back volume quota that nothing holds");
        let (project, release) = match room.clone() {
            ReservedQuota::Volume(project, volume) => {
                (project.clone(), VolumeQuotaCommand::ReleaseVolume { project, volume })
            }
            ReservedQuota::Snapshot(project, snapshot) => {
                (project.clone(), VolumeQuotaCommand::ReleaseSnapshot { project, snapshot })
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

/// Removes from a host the leftovers of volumes and snapshots that are gone or were never completed, according to the
/// log. Items that the log does not know may be another control plane's and stay.
pub(crate) async fn sweep(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>) {
    let Some(store) = driver.volume_store() else { return };
    let kept = match store.volumes().await {
        Ok(kept) => kept,
        Err(error) => {
            tracing::debug!(%host, %error, "listing the volumes failed");
            return;
        }
    };
    for volume in kept {
        let left = match volumes::kept(&volume.name) {
            Some(PoolVolumeOwner::Volume(id)) => is_left(context, id, host).await,
            Some(PoolVolumeOwner::Snapshot(id)) => context.views.volumes.read(|view| view.is_left(id)),
            None => false,
        };
        if left {
            tracing::info!(%host, name = volume.name, "removing leftovers of a volume");
            if let Err(error) = store.delete_volume(&volume.name).await {
                tracing::debug!(%host, name = volume.name, %error, "it cannot be removed yet");
            }
        }
    }
}

/// Whether the bytes on `host` belong to a volume that is gone, that has moved to another host, or that failed before
/// it was created.
async fn is_left(context: &HostContext, id: VolumeId, host: HostId) -> bool {
    match context.gateway.look::<VolumeRoot>(&id).await {
        Ok(Volume::Deleted) => true,
        Ok(Volume::Here(record)) => {
            let shared = context.shares_volumes;
            record.ongoing.is_none() && record.place.as_ref().is_none_or(|(at, _)| *at != host && !shared)
        }
        Ok(Volume::Unknown) | Err(_) => false,
    }
}

/// Volume quota that nothing holds.
#[derive(Debug)]
pub struct IdleVolumeQuota;

impl Reconciler for IdleVolumeQuota {
    type Finding = ReservedQuota;

    const NAME: &'static str = "volume-quota";
    const MENDS: &'static str = "volume quota that no volume and no snapshot holds";
    const DEBOUNCES: bool = true;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views)
    }

    fn describe(room: &Self::Finding) -> String {
        match room {
            ReservedQuota::Volume(project, volume) => format!("project {project}: quota of volume {volume}"),
            ReservedQuota::Snapshot(project, snapshot) => format!("project {project}: quota of snapshot {snapshot}"),
        }
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        give_back(context, &findings).await
    }
}
