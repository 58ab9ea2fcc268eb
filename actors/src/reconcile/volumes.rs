//! Room that was taken for volumes and snapshots which never came to be, or are gone; and what is left of volumes on hosts
//! that were down when they were deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, ProjectId, SnapshotId, VolumeId};
use chronova_events::volume::Volume;
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::volumes::{self, Kept};
use chronova_projections::views::Views;

use crate::hosts::context::HostContext;
use crate::reconcile::context::ReconcileContext;
use crate::reconcile::reconciler::{Reconciler, Situation};
use crate::services::embedded::volume::VolumeAggregate;
use crate::services::embedded::volume::quota::{VolumeQuotaAggregate, VolumeQuotaCommand};

/// Room of a project, and what it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    Volume(ProjectId, VolumeId),
    Snapshot(ProjectId, SnapshotId),
}

/// All room that is held for nothing, at this moment. What is held by a request on its way is among it: only what is there
/// twice, a period apart, is given back while requests are served.
pub fn plan(views: &Views) -> BTreeSet<Room> {
    views.volumes.read(|view| {
        let mut idle = BTreeSet::new();
        for (project, quota) in &view.quotas {
            let volumes = quota.volumes.keys().filter(|id| view.get(**id).is_none());
            idle.extend(volumes.map(|id| Room::Volume(project.clone(), *id)));
            let snapshots = quota.snapshots.keys().filter(|id| view.snapshot(**id).is_none());
            idle.extend(snapshots.map(|id| Room::Snapshot(project.clone(), *id)));
        }
        idle
    })
}

pub async fn give_back(context: &ReconcileContext, idle: &BTreeSet<Room>) -> usize {
    let mut failures = 0;
    for room in idle {
        tracing::info!(?room, "giving back volume quota that nothing holds");
        let (project, release) = match room.clone() {
            Room::Volume(project, volume) => (project.clone(), VolumeQuotaCommand::ReleaseVolume { project, volume }),
            Room::Snapshot(project, snapshot) => {
                (project.clone(), VolumeQuotaCommand::ReleaseSnapshot { project, snapshot })
            }
        };
        let meta = Meta::system("reconcile-volume-quota");
        if let Err(error) = context.gateway.send::<VolumeQuotaAggregate>(&project, release, meta).await {
            failures += 1;
            tracing::warn!(?room, %error, "the volume quota cannot be given back yet");
        }
    }
    failures
}

/// Removes from a host what is left of volumes and snapshots that the log knows as gone, or as never completed. What the log has never heard of
/// may be another control plane's and stays.
pub(crate) async fn sweep(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>) {
    let Some(store) = driver.volume_store() else { return };
    let kept = match store.volumes().await {
        Ok(kept) => kept,
        Err(error) => {
            tracing::debug!(%host, %error, "the volumes cannot be listed");
            return;
        }
    };
    for volume in kept {
        let left = match volumes::kept(&volume.name) {
            Some(Kept::Volume(id)) => is_left(context, id, host).await,
            Some(Kept::Snapshot(id)) => context.views.volumes.read(|view| view.is_left(id)),
            None => false,
        };
        if left {
            tracing::info!(%host, name = volume.name, "removing what is left of a volume");
            if let Err(error) = store.delete_volume(&volume.name).await {
                tracing::debug!(%host, name = volume.name, %error, "it cannot be removed yet");
            }
        }
    }
}

/// Whether the bytes on `host` are those of a volume that is gone, that is on another host by now, or that was given up before
/// it was made.
async fn is_left(context: &HostContext, id: VolumeId, host: HostId) -> bool {
    match context.gateway.look::<VolumeAggregate>(&id).await {
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
    type Finding = Room;

    const NAME: &'static str = "volume-quota";
    const MENDS: &'static str = "volume quota that no volume and no snapshot holds";
    const DEBOUNCES: bool = true;
    const AT_START: bool = true;

    fn plan(situation: Situation<'_>) -> BTreeSet<Self::Finding> {
        plan(situation.views)
    }

    fn describe(room: &Self::Finding) -> String {
        match room {
            Room::Volume(project, volume) => format!("project {project}: quota of volume {volume}"),
            Room::Snapshot(project, snapshot) => format!("project {project}: quota of snapshot {snapshot}"),
        }
    }

    async fn act(context: &ReconcileContext, findings: BTreeSet<Self::Finding>) -> usize {
        give_back(context, &findings).await
    }
}
