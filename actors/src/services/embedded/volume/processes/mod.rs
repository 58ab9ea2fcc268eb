//! The processes on volumes.
//!
//! | file | contents |
//! |---|---|
//! | [`create`] | creates a volume: blank, from an image, or as a copy |
//! | [`delete`] | deletes a volume, with its snapshots if requested |
//! | [`extend`] | enlarges a volume |
//! | [`snapshot`] | creates and deletes snapshots |
//! | [`upload`] | uploads the content to an image |
//! | [`reimage`] | replaces the content by an image |
//!
//! A volume's data is on one host, or on storage that all hosts share. On shared storage, any host that answers does
//! the work if the volume's own host does not answer.

pub mod create;
pub mod delete;
pub mod extend;
pub mod reimage;
pub mod snapshot;
pub mod upload;

use std::sync::Arc;

use chronova_events::ids::{HostId, InstanceId, ProjectId, SnapshotId, VolumeId};
use chronova_events::process::ProcessSubject;
use chronova_events::volume::{Volume, VolumeRecord, VolumeSnapshot};
use chronova_hypervisor::driver::{Driver, DriverError};

use crate::aggregate::CommandError;
use crate::process::definition::{StepError, StepRun};
use crate::services::embedded::volume::quota::{VolumeQuotaCommand, VolumeQuotaRoot};
use crate::services::embedded::volume::{VolumeCommand, VolumeReject, VolumeRoot};

pub(super) const GIB: u64 = 1 << 30;

impl StepRun {
    /// The volume that the process works on.
    pub(super) fn volume_id(&self) -> VolumeId {
        match self.running.task.subject() {
            ProcessSubject::Volume(volume) => volume,
            // Only tasks of volumes run these steps, so the nil id is never used.
            ProcessSubject::Server(_) | ProcessSubject::Host(_) | ProcessSubject::Project(_) => {
                VolumeId(uuid::Uuid::nil())
            }
        }
    }

    /// The present state of the volume; `None` if it does not exist or is deleted.
    pub(super) async fn volume(&self) -> Result<Option<Arc<VolumeRecord>>, StepError> {
        match self.context.gateway.look::<VolumeRoot>(&self.volume_id()).await? {
            Volume::Here(record) => Ok(Some(record)),
            Volume::Unknown | Volume::Deleted => Ok(None),
        }
    }

    pub(super) async fn present_volume(&self) -> Result<Arc<VolumeRecord>, StepError> {
        self.volume().await?.ok_or_else(|| StepError::fatal(404, "The volume is gone.", ""))
    }

    /// The volume with one of its snapshots. If the volume or the snapshot is gone, the error is fatal (404).
    pub(super) async fn present_snapshot(
        &self,
        id: SnapshotId,
    ) -> Result<(Arc<VolumeRecord>, VolumeSnapshot), StepError> {
        let record = self.present_volume().await?;
        let known = record.snapshots.get(&id).cloned();
        known.map(|known| (record, known)).ok_or_else(|| StepError::fatal(404, "The snapshot is gone.", ""))
    }

    /// Sends a result of the process to the volume. It is no error if the volume or the snapshot is gone, or if another
    /// process has taken the place of this one.
    pub(super) async fn tell_volume(&self, command: VolumeCommand) -> Result<(), StepError> {
        let sent = self.context.gateway.send::<VolumeRoot>(&self.volume_id(), command, self.meta.clone()).await;
        match sent {
            Ok(_)
            | Err(CommandError::Rejected(
                VolumeReject::NotFound | VolumeReject::NoSnapshot(_) | VolumeReject::Superseded,
            )) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn volume_quota(&self, project: &ProjectId, command: VolumeQuotaCommand) -> Result<(), StepError> {
        self.context.gateway.send::<VolumeQuotaRoot>(project, command, self.meta.clone()).await?;
        Ok(())
    }

    /// The driver of a host that reaches the storage of `host`; `None` while no such host answers.
    pub(super) fn reach(&self, host: HostId) -> Result<Option<Arc<dyn Driver>>, StepError> {
        if self.host_answers(host)? {
            return self.driver(host).map(Some);
        }
        if !self.context.shares_volumes {
            return Ok(None);
        }
        let others: Vec<HostId> = self
            .context
            .views
            .hosts
            .read(|hosts| hosts.all().filter(|host| host.answers()).map(|host| host.id).collect());
        Ok(others.into_iter().find_map(|other| self.context.fleet.driver(other)))
    }

    /// Like [`reach`](Self::reach), but it fails if no such host answers.
    pub(super) fn must_reach(&self, host: HostId) -> Result<Arc<dyn Driver>, StepError> {
        let nobody = || StepError::fatal(500, "The host of the volume does not answer.", host.to_string());
        self.reach(host)?.ok_or_else(nobody)
    }
}

/// The server whose guest has the volume; `None` if no guest has it.
pub(super) fn user(volume: &VolumeRecord) -> Option<InstanceId> {
    volume.attachments.values().find(|attachment| attachment.complete).and_then(|attachment| attachment.instance)
}

/// Maps an error of the driver. The process tries the step again after a transient error. Any other error is final,
/// because the step can succeed on no other host.
pub(super) fn here(error: DriverError) -> StepError {
    match error.is_transient() {
        true => StepError::again(error),
        false => StepError::only_here(error),
    }
}
