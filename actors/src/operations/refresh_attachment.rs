//! Renews the attachment of a server's volume, for operators: `nova-manage volume_attachment refresh`.

use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{AttachmentId, ProcessId, VolumeId};
use chronova_events::instance::FaultInfo;
use chronova_events::store::StoreError;
use thiserror::Error;

use super::waiting::ProcessEnd;
use super::{Operations, ServerCall};
use crate::aggregate::CommandError;
use crate::instance::actions::ServerAction;
use crate::instance::{InstanceReject, InstanceRequest, InstanceRoot, InstanceVolumeRequest};
use crate::ports::PortError;

/// The longest wait for the new attachment, less than the minute for which `chronova manage` waits for an answer. The
/// process continues after it.
const PATIENCE: Duration = Duration::from_secs(45);

/// Why the attachment of a volume was not renewed.
#[derive(Debug, Error)]
pub enum RefreshAttachmentReject {
    #[error(transparent)]
    Server(#[from] CommandError<InstanceReject>),
    #[error("the volume service: {0}")]
    Volume(PortError),
    #[error("the volume is {0}")]
    NotInUse(String),
    /// Nova's `HostConflict`.
    #[error("the server is on host {own}")]
    OtherHost { own: String },
    #[error("the log is not available")]
    Unavailable(#[source] StoreError),
    #[error("{}", .0.message)]
    Failed(FaultInfo),
    #[error("the attachment is not renewed yet")]
    NotYet,
}

impl From<InstanceReject> for RefreshAttachmentReject {
    fn from(reject: InstanceReject) -> Self {
        Self::Server(CommandError::Rejected(reject))
    }
}

impl Operations {
    /// Gives the volume a new attachment on the server's host, and ends the old attachment. `host` is the host in the
    /// connector that the operator gives, and must be the server's host. The rest of the operator's connector is not
    /// used, because Chronova makes the connector of the host itself. Returns when the server has the new attachment.
    ///
    /// # Errors
    /// The server does not have the volume, is not stopped, is locked or is on another host. The volume is not in use,
    /// or the volume service refuses. The renewal failed or has not ended yet. Or the log is not available.
    pub async fn refresh_attachment(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        volume: VolumeId,
        host: &str,
    ) -> Result<Position, RefreshAttachmentReject> {
        if call.server.disk_of(volume).is_none() {
            return Err(InstanceReject::VolumeNotAttached { volume }.into());
        }
        call.admit(ServerAction::RefreshVolume)?;
        let own = call.server.placement.as_ref().map_or("", |placed| placed.hostname.as_str());
        if own != host {
            return Err(RefreshAttachmentReject::OtherHost { own: own.to_owned() });
        }
        let found = self.queries.volumes.find(volume, &call.server.request.project, true).await;
        let found = found.map_err(RefreshAttachmentReject::Volume)?;
        if found.status != "in-use" {
            return Err(RefreshAttachmentReject::NotInUse(found.status));
        }
        let process = ProcessId::random();
        let new_attachment = AttachmentId::derive(process.0, "attachment");
        let request: InstanceRequest = InstanceVolumeRequest::Refresh { process, volume, new_attachment }.into();
        self.send_shown::<InstanceRoot>(&call.id, request, meta).await?;
        match self.process_end(process, PATIENCE).await.map_err(RefreshAttachmentReject::Unavailable)? {
            // The read models at this position show the new attachment.
            ProcessEnd::Succeeded(_) => Ok(self.queries.log.head()),
            ProcessEnd::Failed(fault) => Err(RefreshAttachmentReject::Failed(fault)),
            ProcessEnd::NotYet => Err(RefreshAttachmentReject::NotYet),
        }
    }
}
