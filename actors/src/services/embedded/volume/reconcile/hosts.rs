//! Removes from a host the data of volumes and snapshots that no longer belongs there. Such data is left if, for
//! example, the host was down when a volume was deleted.

use std::sync::Arc;

use chronova_events::ids::{HostId, VolumeId};
use chronova_events::volume::{Volume, VolumeRecord};
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::volumes::{self, PoolVolumeOwner};

use crate::hosts::doubt::CopyDoubt;
use crate::services::embedded::volume::VolumeRoot;
use crate::services::embedded::volume::service::EmbeddedVolumes;

/// Removes from a host the data of volumes and snapshots that, according to the log, are gone, are on another host or
/// were never completed. A volume from before `doubt` that is not deleted stays, because another generation of the log
/// may have put it here. Items that the log does not know may be another control plane's, so they stay.
pub(crate) async fn sweep(service: &EmbeddedVolumes, host: HostId, driver: &Arc<dyn Driver>, doubt: CopyDoubt) {
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
            Some(PoolVolumeOwner::Volume(id)) => is_left(service, id, host, doubt).await,
            Some(PoolVolumeOwner::Snapshot(id)) => service.views.volumes.read(|view| view.is_left(id)),
            None => false,
        };
        if left {
            tracing::info!(%host, name = volume.name, "removing leftovers of a volume");
            if let Err(error) = store.delete_volume(&volume.name).await {
                tracing::debug!(%host, name = volume.name, %error, "removing leftovers of a volume failed, retrying");
            }
        }
    }
}

/// Whether the volume does not need its data on `host`: it is deleted, is on another host, or could not be created. A
/// volume that a process works on keeps its data. Storage that hosts share belongs to no single host.
///
/// Each sweep asks about all volumes of the host, and nearly all of them stay. So the volume's actor is asked only if the
/// read model does not show that the data is needed. If the read model lags, the next sweep removes the data.
async fn is_left(service: &EmbeddedVolumes, id: VolumeId, host: HostId, doubt: CopyDoubt) -> bool {
    let is_spare = |record: &VolumeRecord| {
        let is_at_rest = record.ongoing.is_none() && doubt.trusts(record.created_at);
        is_at_rest && record.place.as_ref().is_none_or(|(at, _)| *at != host && !service.options.shared)
    };
    if service.views.volumes.read(|view| view.get(id)).is_some_and(|record| !is_spare(&record)) {
        return false;
    }
    match service.gateway.look::<VolumeRoot>(&id).await {
        Ok(Volume::Deleted) => true,
        Ok(Volume::Here(record)) => is_spare(&record),
        Ok(Volume::Unknown) | Err(_) => false,
    }
}
