//! A volume service that breaks one chosen promise. A case of the conformance suite must detect it.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_actors::hosts::doubt::CopyDoubt;
use chronova_actors::ports::{
    Connection, NewSnapshot, NewVolume, PortError, ServiceCaller, SnapshotInfo, UserVolumeCall, VolumeInfo,
    VolumeService,
};
use chronova_events::envelope::Meta;
use chronova_events::ids::{AttachmentId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, VolumeId};
use chronova_hypervisor::driver::Driver;

/// The promise that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeFault {
    /// A repeated call makes another volume.
    MakesAgain,
    /// Every project sees every volume.
    ShowsAll,
    /// Deleting a deleted volume fails.
    DeletesOnce,
    /// Attachments are never completed.
    CompletesNothing,
    /// Each call returns connection information for another volume.
    ConnectsAgain,
    /// A reservation that the service refuses is reported as a success.
    ReservesForAll,
    /// Released attachments stay.
    ReleasesNothing,
    /// A request to end one server's attachments ends those of every server.
    ReleasesAll,
    /// A request to begin detaching that the service refuses is reported as a success.
    DetachesFree,
    /// A project can create snapshots of other projects' volumes.
    CopiesAnything,
    /// A project can create volumes from other projects' snapshots.
    MakesOfAnything,
    /// The removal of leftovers removes all volumes on the host.
    SweepsAll,
}

pub struct BrokenVolumes {
    pub volumes: Arc<dyn VolumeService>,
    pub fault: VolumeFault,
}

impl BrokenVolumes {
    fn has(&self, fault: VolumeFault) -> bool {
        self.fault == fault
    }
}

#[async_trait]
impl VolumeService for BrokenVolumes {
    async fn check_user(&self, call: UserVolumeCall, caller: &ServiceCaller) -> Result<(), PortError> {
        self.volumes.check_user(call, caller).await
    }

    async fn find(&self, volume: VolumeId, project: &ProjectId, is_admin: bool) -> Result<VolumeInfo, PortError> {
        self.volumes.find(volume, project, is_admin || self.has(VolumeFault::ShowsAll)).await
    }

    async fn list(&self, project: &ProjectId, all: bool) -> Result<Vec<VolumeInfo>, PortError> {
        self.volumes.list(project, all).await
    }

    async fn find_snapshot(
        &self,
        snapshot: SnapshotId,
        project: &ProjectId,
        is_admin: bool,
    ) -> Result<SnapshotInfo, PortError> {
        self.volumes.find_snapshot(snapshot, project, is_admin).await
    }

    async fn list_snapshots(&self, project: &ProjectId, all: bool) -> Result<Vec<SnapshotInfo>, PortError> {
        self.volumes.list_snapshots(project, all).await
    }

    async fn create(&self, wanted: NewVolume, is_admin: bool, meta: Arc<Meta>) -> Result<VolumeInfo, PortError> {
        if self.has(VolumeFault::MakesAgain) {
            let (volume, project) = (wanted.volume, wanted.project.clone());
            if self.volumes.find(volume, &project, true).await.is_ok() {
                let wanted = NewVolume { volume: VolumeId::random(), ..wanted };
                return self.volumes.create(wanted, is_admin, meta).await;
            }
        }
        self.volumes.create(wanted, is_admin || self.has(VolumeFault::MakesOfAnything), meta).await
    }

    async fn delete(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        if self.has(VolumeFault::DeletesOnce) {
            return match self.volumes.find(volume, &ProjectId::new("anybody"), true).await {
                Ok(_) => self.volumes.delete(volume, meta).await,
                Err(gone) => Err(gone),
            };
        }
        self.volumes.delete(volume, meta).await
    }

    async fn create_snapshot(
        &self,
        wanted: NewSnapshot,
        is_admin: bool,
        meta: Arc<Meta>,
    ) -> Result<SnapshotInfo, PortError> {
        self.volumes.create_snapshot(wanted, is_admin || self.has(VolumeFault::CopiesAnything), meta).await
    }

    async fn delete_snapshot(&self, snapshot: SnapshotId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.volumes.delete_snapshot(snapshot, meta).await
    }

    async fn reimage(
        &self,
        volume: VolumeId,
        image: ImageId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.volumes.reimage(volume, image, project, process, meta).await
    }

    async fn find_type(&self, id_or_name: &str, project: &ProjectId, is_admin: bool) -> Result<String, PortError> {
        self.volumes.find_type(id_or_name, project, is_admin).await
    }

    async fn snapshots_left(&self, project: &ProjectId) -> Result<Option<u64>, PortError> {
        self.volumes.snapshots_left(project).await
    }

    async fn reserve(
        &self,
        proposed: AttachmentId,
        volume: VolumeId,
        instance: InstanceId,
        meta: Arc<Meta>,
    ) -> Result<AttachmentId, PortError> {
        if self.has(VolumeFault::ReservesForAll) {
            let reserved = self.volumes.reserve(proposed, volume, instance, meta).await;
            return if matches!(reserved, Err(PortError::Invalid(_))) { Ok(proposed) } else { reserved };
        }
        self.volumes.reserve(proposed, volume, instance, meta).await
    }

    async fn connect(
        &self,
        volume: VolumeId,
        attachment: AttachmentId,
        host: &str,
        device: Option<&str>,
        meta: Arc<Meta>,
    ) -> Result<Connection, PortError> {
        if self.has(VolumeFault::ConnectsAgain) {
            let mut connection = self.volumes.connect(volume, attachment, host, device, meta).await?;
            connection.volume = VolumeId::random().to_string();
            return Ok(connection);
        }
        self.volumes.connect(volume, attachment, host, device, meta).await
    }

    async fn complete(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        if self.has(VolumeFault::CompletesNothing) {
            return Ok(());
        }
        self.volumes.complete(volume, attachment, meta).await
    }

    async fn begin_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        if self.has(VolumeFault::DetachesFree) {
            let begun = self.volumes.begin_detaching(volume, meta).await;
            return if matches!(begun, Err(PortError::Invalid(_))) { Ok(()) } else { begun };
        }
        self.volumes.begin_detaching(volume, meta).await
    }

    async fn roll_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.volumes.roll_detaching(volume, meta).await
    }

    async fn release(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        if self.has(VolumeFault::ReleasesNothing) {
            return Ok(());
        }
        self.volumes.release(volume, attachment, meta).await
    }

    async fn release_others(
        &self,
        volume: VolumeId,
        instance: InstanceId,
        keep: &[AttachmentId],
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        if self.has(VolumeFault::ReleasesAll) {
            let known = self.volumes.find(volume, &ProjectId::new("anybody"), true).await?.attachments;
            for one in known {
                self.volumes.release(volume, one.id, Arc::clone(&meta)).await?;
            }
        }
        self.volumes.release_others(volume, instance, keep, meta).await
    }

    async fn sweep_host(&self, host: HostId, driver: &Arc<dyn Driver>, doubt: CopyDoubt) {
        if let (true, Some(pool)) = (self.has(VolumeFault::SweepsAll), driver.volume_store()) {
            for volume in pool.volumes().await.unwrap() {
                pool.delete_volume(&volume.name).await.unwrap();
            }
        }
        self.volumes.sweep_host(host, driver, doubt).await;
    }
}
