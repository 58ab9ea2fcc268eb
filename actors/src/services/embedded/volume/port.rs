//! The embedded volume service's implementation of its port for compute ([`VolumeService`]).

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{AttachmentId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, VolumeId};
use chronova_events::volume::{AttachMode, Attachment, VolumeRecord, VolumeSnapshot, VolumeSource};
use chronova_hypervisor::driver::Driver;

use super::VolumeCommand;
use super::reconcile::hosts;
use super::service::{EmbeddedVolumes, VolumeError};
use crate::hosts::doubt::CopyDoubt;
use crate::ports::{
    AttachmentInfo, Connection, NewSnapshot, NewVolume, PortError, ServiceCaller, SnapshotInfo, UserVolumeCall,
    VolumeInfo, VolumeService,
};
use crate::services::embedded::volume::quota::limit;

/// The longest wait of a call for the read models, which lag by microseconds.
const PATIENCE: Duration = Duration::from_secs(10);

impl EmbeddedVolumes {
    fn info(&self, volume: &VolumeRecord) -> VolumeInfo {
        let created = &volume.created;
        let kind = self.views.volumes.read(|view| view.types.by_id.get(&created.volume_type).cloned());
        let attachment = |(id, known): (&AttachmentId, &Attachment)| AttachmentInfo {
            id: *id,
            instance: known.instance,
            host: known.host.clone(),
            device: known.device.clone(),
            attached: known.complete,
        };
        VolumeInfo {
            id: created.volume,
            project: created.project.clone(),
            user: created.user.clone(),
            name: volume.name.clone(),
            description: volume.description.clone(),
            size_gb: volume.size_gb,
            status: volume.status.as_str().to_owned(),
            bootable: volume.bootable,
            multiattach: created.multiattach,
            encrypted: false,
            readonly: volume.readonly,
            availability_zone: created.availability_zone.clone(),
            volume_type: kind.map(|kind| kind.name.clone()).unwrap_or_default(),
            metadata: volume.metadata.clone(),
            snapshot: match created.source {
                VolumeSource::Snapshot { snapshot, .. } => Some(snapshot),
                _ => None,
            },
            source: match created.source {
                VolumeSource::Volume(source) => Some(source),
                _ => None,
            },
            image: volume.image.as_ref().map(|image| image.snapshot.clone()),
            attachments: volume.attachments.iter().map(attachment).collect(),
            host: volume.place.as_ref().map(|(host, _)| *host).filter(|_| !self.options.shared),
            created_at: volume.created_at,
        }
    }
}

fn snapshot_info(of: &VolumeRecord, snapshot: &VolumeSnapshot) -> SnapshotInfo {
    SnapshotInfo {
        id: snapshot.requested.snapshot,
        volume: of.created.volume,
        project: snapshot.requested.project.clone(),
        name: snapshot.name.clone(),
        description: snapshot.description.clone(),
        size_gb: snapshot.size_gb,
        status: snapshot.status.as_str().to_owned(),
        metadata: snapshot.metadata.clone(),
        created_at: snapshot.created_at,
    }
}

#[async_trait]
impl VolumeService for EmbeddedVolumes {
    async fn check_user(&self, call: UserVolumeCall, caller: &ServiceCaller) -> Result<(), PortError> {
        self.check_right(call, caller).await
    }

    async fn find(&self, volume: VolumeId, project: &ProjectId, is_admin: bool) -> Result<VolumeInfo, PortError> {
        let known = self.look(volume).await.map_err(VolumeError::port)?;
        match is_admin || known.created.project == *project {
            true => Ok(self.info(&known)),
            false => Err(VolumeError::no_volume(volume).port()),
        }
    }

    async fn list(&self, project: &ProjectId, all: bool) -> Result<Vec<VolumeInfo>, PortError> {
        let known = self.views.volumes.read(|view| view.of((!all).then_some(project)));
        let mut found: Vec<VolumeInfo> = known.iter().map(|volume| self.info(volume)).collect();
        found.sort_by_key(|volume| Reverse((volume.created_at, volume.id)));
        Ok(found)
    }

    async fn find_snapshot(
        &self,
        snapshot: SnapshotId,
        project: &ProjectId,
        is_admin: bool,
    ) -> Result<SnapshotInfo, PortError> {
        let missing = || VolumeError::no_snapshot(snapshot).port();
        let of = self.views.volumes.read(|view| view.of_snapshot(snapshot)).ok_or_else(missing)?;
        let of = self.look(of.created.volume).await.map_err(VolumeError::port)?;
        let known = of.snapshots.get(&snapshot).filter(|known| is_admin || known.requested.project == *project);
        known.map(|known| snapshot_info(&of, known)).ok_or_else(missing)
    }

    async fn list_snapshots(&self, project: &ProjectId, all: bool) -> Result<Vec<SnapshotInfo>, PortError> {
        // A snapshot that an administrator created may belong to another project than its volume.
        let known = self.views.volumes.read(|view| view.snapshots_of((!all).then_some(project)));
        let mut found: Vec<SnapshotInfo> = known.iter().map(|(of, known)| snapshot_info(of, known)).collect();
        found.sort_by_key(|snapshot| Reverse((snapshot.created_at, snapshot.id)));
        Ok(found)
    }

    async fn create(&self, wanted: NewVolume, is_admin: bool, meta: Arc<Meta>) -> Result<VolumeInfo, PortError> {
        let volume = wanted.volume;
        // A repeated request finds its volume, even if the source is gone by now.
        if let Ok(known) = self.look(volume).await {
            return Ok(self.info(&known));
        }
        self.accept(wanted, is_admin, meta).await.map_err(VolumeError::port)?;
        Ok(self.info(&*self.look(volume).await.map_err(VolumeError::port)?))
    }

    async fn delete(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        match self.remove(volume, false, false, meta).await {
            Ok(_) | Err(VolumeError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.port()),
        }
    }

    async fn create_snapshot(
        &self,
        wanted: NewSnapshot,
        is_admin: bool,
        meta: Arc<Meta>,
    ) -> Result<SnapshotInfo, PortError> {
        let (volume, snapshot) = (wanted.volume, wanted.snapshot);
        let before = self.look(volume).await.map_err(VolumeError::port)?;
        if let Some(known) = before.snapshots.get(&snapshot) {
            return Ok(snapshot_info(&before, known));
        }
        let position = self.accept_snapshot(wanted, is_admin, meta).await.map_err(VolumeError::port)?;
        // Callers find snapshots in the read model, so it must show the new one first.
        if !self.views.wait_for(position, PATIENCE).await {
            return Err(PortError::Unavailable("the read models of volumes lag behind".to_owned()));
        }
        let now = self.look(volume).await.map_err(VolumeError::port)?;
        let made = now.snapshots.get(&snapshot).map(|known| snapshot_info(&now, known));
        made.ok_or_else(|| VolumeError::no_snapshot(snapshot).port())
    }

    async fn delete_snapshot(&self, snapshot: SnapshotId, meta: Arc<Meta>) -> Result<(), PortError> {
        match self.remove_snapshot(snapshot, false, meta).await {
            Ok(_) | Err(VolumeError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.port()),
        }
    }

    async fn reimage(
        &self,
        volume: VolumeId,
        image: ImageId,
        project: &ProjectId,
        process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.accept_reimage(volume, image, project, process, meta).await.map_err(VolumeError::port)
    }

    async fn find_type(&self, id_or_name: &str, project: &ProjectId, is_admin: bool) -> Result<String, PortError> {
        let known = self.named_type(id_or_name, project, is_admin).map_err(VolumeError::port)?;
        Ok(known.name.clone())
    }

    async fn snapshots_left(&self, project: &ProjectId) -> Result<Option<u64>, PortError> {
        let (used, limit) = self.views.volumes.read(|view| {
            let quota = view.quotas.get(project).cloned().unwrap_or_default();
            (quota.snapshots.len() as u64, limit(&quota, &self.options.limits, "snapshots"))
        });
        Ok(u64::try_from(limit).ok().map(|limit| limit.saturating_sub(used)))
    }

    async fn reserve(
        &self,
        proposed: AttachmentId,
        volume: VolumeId,
        instance: InstanceId,
        meta: Arc<Meta>,
    ) -> Result<AttachmentId, PortError> {
        let mode = AttachMode::ReadWrite;
        let reserve = VolumeCommand::Reserve { attachment: proposed, instance: Some(instance), mode };
        self.command(volume, reserve, meta).await.map_err(VolumeError::port)?;
        Ok(proposed)
    }

    async fn connect(
        &self,
        volume: VolumeId,
        attachment: AttachmentId,
        host: &str,
        device: Option<&str>,
        meta: Arc<Meta>,
    ) -> Result<Connection, PortError> {
        let (way, _) = self
            .connection(volume, attachment, (host, device), AttachMode::ReadWrite, meta)
            .await
            .map_err(VolumeError::port)?;
        Ok(way)
    }

    async fn complete(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.command(volume, VolumeCommand::Complete { attachment }, meta).await.map_err(VolumeError::port)?;
        Ok(())
    }

    async fn begin_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.command(volume, VolumeCommand::BeginDetaching, meta).await.map_err(VolumeError::port)?;
        Ok(())
    }

    async fn roll_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.command(volume, VolumeCommand::RollDetaching, meta).await.map_err(VolumeError::port)?;
        Ok(())
    }

    async fn release(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        match self.command(volume, VolumeCommand::Release { attachment }, meta).await {
            Ok(_) | Err(VolumeError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.port()),
        }
    }

    async fn sweep_host(&self, host: HostId, driver: &Arc<dyn Driver>, doubt: CopyDoubt) {
        hosts::sweep(self, host, driver, doubt).await;
    }
}
