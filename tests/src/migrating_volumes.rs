//! A volume service that migrates attached volumes itself, as Cinder does. Every exchange of a server's volume is the end
//! of such a migration. Afterwards the new volume is gone, and the old volume has the content of the new one. The first
//! answer about each migration is lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chronova_actors::hosts::doubt::CopyDoubt;
use chronova_actors::ports::{
    Connection, MigrationPair, NewSnapshot, NewVolume, PortError, ServiceCaller, SnapshotInfo, UserVolumeCall,
    VolumeExchange, VolumeInfo, VolumeService,
};
use chronova_events::envelope::Meta;
use chronova_events::ids::{AttachmentId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, VolumeId};
use chronova_hypervisor::driver::Driver;
use chronova_hypervisor::guest::NetworkDisk;

/// The migrations that have ended. They survive a crash of the control plane.
#[derive(Debug, Default)]
pub struct EndedMigrations {
    pairs: Mutex<BTreeMap<(VolumeId, VolumeId), bool>>,
    /// Whether the volumes are encrypted, and nobody may read their keys.
    locked: AtomicBool,
}

impl EndedMigrations {
    /// From now on, nobody may read the keys of the volumes.
    pub fn lock_keys(&self) {
        self.locked.store(true, Ordering::Relaxed);
    }

    /// The end of a migration: whether it has failed, and whether this call is the first. Only the first call decides.
    fn end(&self, exchange: &VolumeExchange, failed: bool) -> (bool, bool) {
        let mut ended = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = (exchange.old, exchange.new);
        let is_first = !ended.contains_key(&pair);
        (*ended.entry(pair).or_insert(failed), is_first)
    }

    fn has_ended(&self, old: VolumeId, new: VolumeId) -> bool {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&(old, new))
    }

    /// The successful migrations: the old volume and the new one.
    pub fn moved(&self) -> Vec<(VolumeId, VolumeId)> {
        let ended = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().filter(|(_, failed)| !**failed).map(|(pair, _)| *pair).collect()
    }

    /// The volume of the embedded service that has the content of this volume.
    pub fn content_of(&self, volume: VolumeId) -> VolumeId {
        self.moved().into_iter().find(|(old, _)| *old == volume).map_or(volume, |(_, new)| new)
    }
}

pub struct MigratingVolumes {
    pub volumes: Arc<dyn VolumeService>,
    pub ended: Arc<EndedMigrations>,
}

#[async_trait]
impl VolumeService for MigratingVolumes {
    async fn check_user(&self, call: UserVolumeCall, caller: &ServiceCaller) -> Result<(), PortError> {
        self.volumes.check_user(call, caller).await
    }

    async fn find(&self, volume: VolumeId, project: &ProjectId, is_admin: bool) -> Result<VolumeInfo, PortError> {
        if self.ended.moved().iter().any(|(_, new)| *new == volume) {
            return Err(PortError::NotFound(format!("Volume {volume} could not be found.")));
        }
        let found = self.volumes.find(self.ended.content_of(volume), project, is_admin).await?;
        Ok(VolumeInfo { id: volume, ..found })
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
        self.volumes.create(wanted, is_admin, meta).await
    }

    async fn delete(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.volumes.delete(self.ended.content_of(volume), meta).await
    }

    async fn create_snapshot(
        &self,
        wanted: NewSnapshot,
        is_admin: bool,
        meta: Arc<Meta>,
    ) -> Result<SnapshotInfo, PortError> {
        self.volumes.create_snapshot(wanted, is_admin, meta).await
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
        self.volumes.reimage(self.ended.content_of(volume), image, project, process, meta).await
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
        self.volumes.reserve(proposed, self.ended.content_of(volume), instance, meta).await
    }

    async fn connect(
        &self,
        volume: VolumeId,
        attachment: AttachmentId,
        host: &str,
        device: Option<&str>,
        meta: Arc<Meta>,
    ) -> Result<Connection, PortError> {
        self.volumes.connect(self.ended.content_of(volume), attachment, host, device, meta).await
    }

    async fn complete(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.volumes.complete(self.ended.content_of(volume), attachment, meta).await
    }

    async fn begin_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.volumes.begin_detaching(self.ended.content_of(volume), meta).await
    }

    async fn roll_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.volumes.roll_detaching(self.ended.content_of(volume), meta).await
    }

    async fn release(&self, volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.volumes.release(self.ended.content_of(volume), attachment, meta).await
    }

    async fn standing_of(&self, old: VolumeId, new: VolumeId) -> Result<MigrationPair, PortError> {
        Ok(if self.ended.has_ended(old, new) { MigrationPair::Neither } else { MigrationPair::This })
    }

    /// Deletes the volume that the guest does not have. The embedded service refuses that while a server has the volume.
    async fn end_migration(
        &self,
        exchange: VolumeExchange,
        failed: bool,
        meta: Arc<Meta>,
    ) -> Result<VolumeId, PortError> {
        let (failed, is_first) = self.ended.end(&exchange, failed);
        let unused = if failed { exchange.new } else { exchange.old };
        match self.volumes.delete(unused, meta).await {
            Err(error @ PortError::Unavailable(_)) => return Err(error),
            // An earlier call has begun the deletion.
            Err(_) if !is_first => {}
            Err(error) => panic!("{unused} is not free after the exchange: {error}"),
            Ok(()) => {}
        }
        match is_first {
            true => Err(PortError::Unavailable("The answer is lost.".to_owned())),
            false => Ok(exchange.old),
        }
    }

    async fn network_disk(
        &self,
        _: VolumeId,
        _: AttachmentId,
        _: &str,
        _: Arc<Meta>,
    ) -> Result<Option<NetworkDisk>, PortError> {
        match self.ended.locked.load(Ordering::Relaxed) {
            true => Err(PortError::Invalid("The key of the encrypted volume cannot be read.".to_owned())),
            false => Ok(None),
        }
    }

    async fn sweep_host(&self, host: HostId, driver: &Arc<dyn Driver>, doubt: CopyDoubt) {
        self.volumes.sweep_host(host, driver, doubt).await;
    }
}
