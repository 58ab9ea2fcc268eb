//! A volume service that chooses ids itself, as Cinder does. It replaces the caller's ids before it calls the embedded
//! service.

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

/// The metadata key with the id that the caller proposed.
const PROPOSED: &str = "proposed";

pub struct ChoosingVolumes(pub Arc<dyn VolumeService>);

fn proposed(id: &impl ToString) -> (String, String) {
    (PROPOSED.to_owned(), id.to_string())
}

fn anybody() -> ProjectId {
    ProjectId::new("anybody")
}

impl ChoosingVolumes {
    async fn proposed_volume(&self, id: VolumeId) -> Result<Option<VolumeInfo>, PortError> {
        let all = self.0.list(&anybody(), true).await?;
        Ok(all.into_iter().find(|volume| volume.metadata.contains(&proposed(&id))))
    }

    async fn proposed_snapshot(&self, id: SnapshotId) -> Result<Option<SnapshotInfo>, PortError> {
        let all = self.0.list_snapshots(&anybody(), true).await?;
        Ok(all.into_iter().find(|snapshot| snapshot.metadata.contains(&proposed(&id))))
    }
}

#[async_trait]
impl VolumeService for ChoosingVolumes {
    async fn check_user(&self, call: UserVolumeCall, caller: &ServiceCaller) -> Result<(), PortError> {
        self.0.check_user(call, caller).await
    }

    async fn find(&self, volume: VolumeId, project: &ProjectId, is_admin: bool) -> Result<VolumeInfo, PortError> {
        match self.0.find(volume, project, is_admin).await {
            Err(error @ PortError::NotFound(_)) => match self.proposed_volume(volume).await? {
                Some(made) => self.0.find(made.id, project, is_admin).await,
                None => Err(error),
            },
            found => found,
        }
    }

    async fn list(&self, project: &ProjectId, all: bool) -> Result<Vec<VolumeInfo>, PortError> {
        self.0.list(project, all).await
    }

    async fn find_snapshot(
        &self,
        snapshot: SnapshotId,
        project: &ProjectId,
        is_admin: bool,
    ) -> Result<SnapshotInfo, PortError> {
        match self.0.find_snapshot(snapshot, project, is_admin).await {
            Err(error @ PortError::NotFound(_)) => match self.proposed_snapshot(snapshot).await? {
                Some(made) => self.0.find_snapshot(made.id, project, is_admin).await,
                None => Err(error),
            },
            found => found,
        }
    }

    async fn list_snapshots(&self, project: &ProjectId, all: bool) -> Result<Vec<SnapshotInfo>, PortError> {
        self.0.list_snapshots(project, all).await
    }

    async fn create(&self, mut wanted: NewVolume, is_admin: bool, meta: Arc<Meta>) -> Result<VolumeInfo, PortError> {
        if let Some(made) = self.proposed_volume(wanted.volume).await? {
            return Ok(made);
        }
        wanted.metadata.push(proposed(&wanted.volume));
        wanted.volume = VolumeId::random();
        self.0.create(wanted, is_admin, meta).await
    }

    async fn delete(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        let own = self.proposed_volume(volume).await?.map_or(volume, |made| made.id);
        self.0.delete(own, meta).await
    }

    async fn create_snapshot(
        &self,
        mut wanted: NewSnapshot,
        is_admin: bool,
        meta: Arc<Meta>,
    ) -> Result<SnapshotInfo, PortError> {
        if let Some(made) = self.proposed_snapshot(wanted.snapshot).await? {
            return Ok(made);
        }
        wanted.metadata.push(proposed(&wanted.snapshot));
        wanted.snapshot = SnapshotId::random();
        self.0.create_snapshot(wanted, is_admin, meta).await
    }

    async fn delete_snapshot(&self, snapshot: SnapshotId, meta: Arc<Meta>) -> Result<(), PortError> {
        let own = self.proposed_snapshot(snapshot).await?.map_or(snapshot, |made| made.id);
        self.0.delete_snapshot(own, meta).await
    }

    async fn reimage(
        &self,
        volume: VolumeId,
        image: ImageId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.0.reimage(volume, image, project, process, meta).await
    }

    async fn find_type(&self, id_or_name: &str, project: &ProjectId, is_admin: bool) -> Result<String, PortError> {
        self.0.find_type(id_or_name, project, is_admin).await
    }

    async fn snapshots_left(&self, project: &ProjectId) -> Result<Option<u64>, PortError> {
        self.0.snapshots_left(project).await
    }

    /// Reuses an attachment that an interrupted step left, as the client of Cinder does.
    async fn reserve(
        &self,
        _: AttachmentId,
        volume: VolumeId,
        instance: InstanceId,
        meta: Arc<Meta>,
    ) -> Result<AttachmentId, PortError> {
        let known = self.0.find(volume, &anybody(), true).await?.attachments;
        let begun = known.iter().find(|known| known.instance == Some(instance) && !known.attached);
        match begun {
            Some(begun) => Ok(begun.id),
            None => self.0.reserve(AttachmentId::random(), volume, instance, meta).await,
        }
    }

    async fn connect(
        &self,
        volume: VolumeId,
        attachment: AttachmentId,
        host: &str,
        device: Option<&str>,
        meta: Arc<Meta>,
    ) -> Result<Connection, PortError> {
        self.0.connect(volume, attachment, host, device, meta).await
    }

    async fn complete(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.0.complete(volume, attachment, meta).await
    }

    async fn begin_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.0.begin_detaching(volume, meta).await
    }

    async fn roll_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.0.roll_detaching(volume, meta).await
    }

    async fn release(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.0.release(volume, attachment, meta).await
    }

    async fn sweep_host(&self, host: HostId, driver: &Arc<dyn Driver>, doubt: CopyDoubt) {
        self.0.sweep_host(host, driver, doubt).await;
    }
}
