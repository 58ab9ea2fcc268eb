//! The end of Cinder's own migration of an attached volume, or of its retype to another back end.
//!
//! Cinder makes a new volume. The `migration_status` of the new volume is `target:` and the id of the old volume. The
//! `migration_status` of the old volume is `migrating`. Cinder then asks the Compute API to exchange the volumes, and
//! waits for the call `os-migrate_volume_completion` on the old volume:
//!
//! | `migration_status` of the old volume | means |
//! |---|---|
//! | `migrating` | Cinder waits for the call |
//! | `completing` | Cinder gives the content of the new volume the id of the old one |
//! | `success` | the new volume is gone; the server's new attachment belongs to the old volume |
//! | `error` | the migration has failed, or Cinder could not begin to complete it |
//!
//! A second call would give the ids back, and Cinder would delete the content that the guest uses. So before each call,
//! the client looks at both volumes. If an earlier call had no answer in time, or may have been made before a restart
//! of the control plane, the client first waits until that call has ended. Cinder's own messages to its volume service
//! time out after a minute, too.

use std::time::Duration;

use chronova_events::envelope::Meta;
use chronova_events::ids::{RequestId, VolumeId};
use serde_json::json;

use super::CinderVolumes;
use super::calls::{CinderCall, read_at, refused};
use super::documents::CinderVolume;
use crate::ports::{MigrationPair, PortError, VolumeExchange};

/// The pause before a second look, because Cinder writes the statuses of the two volumes one after the other.
const BETWEEN_STATUSES: Duration = Duration::from_secs(1);

/// The state of Cinder's migration of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MigrationStanding {
    /// Cinder moves no content between the two volumes.
    Nowhere,
    /// Cinder waits for the end of the exchange.
    Awaited,
    Completing,
    /// Cinder shows no migration of the old volume, but the new volume is still its target. This lasts for a moment
    /// while Cinder gives the content the other id. After an administrator's reset of the old volume, it lasts until
    /// the new volume is reset, too.
    Unclear,
    Completed,
}

impl CinderVolumes {
    /// The volume with exactly this id.
    async fn exact_volume(
        &self,
        volume: VolumeId,
        request: Option<&RequestId>,
    ) -> Result<Option<CinderVolume>, PortError> {
        let own = self.own(request).await?;
        let answer = self.ask(&own, &CinderCall::get(format!("volumes/{volume}"))).await?;
        match answer.status {
            200 => read_at(&answer, "volume").map(Some),
            404 => Ok(None),
            _ => Err(refused(&own, &answer)),
        }
    }

    async fn migration_status(
        &self,
        volume: VolumeId,
        request: Option<&RequestId>,
    ) -> Result<Option<String>, PortError> {
        Ok(self.exact_volume(volume, request).await?.and_then(|volume| volume.migration_status))
    }

    pub(super) async fn pair_of(&self, old: VolumeId, new: VolumeId) -> Result<MigrationPair, PortError> {
        let old_status = self.migration_status(old, None).await?;
        let is_migrating = matches!(old_status.as_deref(), Some("starting" | "migrating" | "completing"));
        if !is_migrating {
            return Ok(MigrationPair::Neither);
        }
        let is_target = self.migration_status(new, None).await? == Some(format!("target:{old}"));
        Ok(if is_target { MigrationPair::This } else { MigrationPair::OldElsewhere })
    }

    /// Whether Cinder has moved the server's new attachment to the old volume, as the last act of a completion.
    async fn has_moved(&self, exchange: &VolumeExchange, request: Option<&RequestId>) -> Result<bool, PortError> {
        match self.attachment(&self.own(request).await?, exchange.attachment).await {
            Ok(attachment) => Ok(attachment.volume_id == exchange.old),
            // The server is being deleted.
            Err(PortError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn standing(
        &self,
        exchange: &VolumeExchange,
        failed: bool,
        meta: &Meta,
    ) -> Result<MigrationStanding, PortError> {
        let request = meta.request_id.as_ref();
        if self.has_moved(exchange, request).await? {
            return Ok(MigrationStanding::Completed);
        }
        let old = self.migration_status(exchange.old, request).await?;
        let new = self.exact_volume(exchange.new, request).await?;
        let new_status = new.as_ref().and_then(|new| new.migration_status.as_deref());
        let is_target = new_status == Some(format!("target:{}", exchange.old).as_str());
        // Cinder deletes the new volume after the old one has its content.
        let has_ended = new.is_none() || new_status == Some("deleting");
        Ok(match old.as_deref() {
            Some("migrating") if is_target => MigrationStanding::Awaited,
            // Cinder failed before it began to complete the migration, so the call may be repeated. A failed exchange
            // also ends in this status.
            Some("error") if is_target && !failed => MigrationStanding::Awaited,
            Some("completing") => MigrationStanding::Completing,
            // Cinder shows no status of the old volume in the moment before `success`.
            Some("success") if has_ended => MigrationStanding::Completed,
            None if new_status == Some("deleting") => MigrationStanding::Completed,
            None if is_target => MigrationStanding::Unclear,
            _ => MigrationStanding::Nowhere,
        })
    }

    /// See [`end_migration`](crate::ports::VolumeService::end_migration).
    pub(super) async fn end_migration_of(
        &self,
        exchange: VolumeExchange,
        failed: bool,
        meta: &Meta,
    ) -> Result<VolumeId, PortError> {
        let mut standing = self.standing(&exchange, failed, meta).await?;
        let looks_again = match standing {
            MigrationStanding::Awaited => self.settle_migration(meta).await,
            MigrationStanding::Unclear => {
                tokio::time::sleep(BETWEEN_STATUSES).await;
                true
            }
            _ => false,
        };
        if looks_again {
            standing = self.standing(&exchange, failed, meta).await?;
        }
        match standing {
            MigrationStanding::Awaited => self.complete_migration(&exchange, failed, meta).await,
            MigrationStanding::Completing => {
                let old = exchange.old;
                Err(PortError::Unavailable(format!("Cinder still completes its migration of volume {old}")))
            }
            MigrationStanding::Completed => Ok(exchange.old),
            MigrationStanding::Nowhere | MigrationStanding::Unclear => {
                Ok(if failed { exchange.old } else { exchange.new })
            }
        }
    }

    /// Waits for an earlier call that Cinder may not have begun to execute. Returns whether it waited. A restart of the
    /// control plane loses the users' tokens and the notes of late calls, so without the user's token it always waits.
    async fn settle_migration(&self, meta: &Meta) -> bool {
        if self.caller(meta).await.is_ok_and(|caller| caller.is_user()) {
            return self.service.settle(meta.request_id.as_ref()).await;
        }
        self.service.settle_anyway().await;
        true
    }

    /// Only administrators of Cinder may make this call by default. The exchange was requested by Cinder's own account,
    /// or by an administrator of Compute, who may have no right in Cinder. So Chronova's own account makes the call if
    /// Cinder refuses the user's token.
    async fn complete_migration(
        &self,
        exchange: &VolumeExchange,
        failed: bool,
        meta: &Meta,
    ) -> Result<VolumeId, PortError> {
        let body = json!({"os-migrate_volume_completion": {"new_volume": exchange.new, "error": failed}});
        let call = CinderCall::post(format!("volumes/{}/action", exchange.old), body);
        let mut caller = self.caller(meta).await?;
        let mut answer = self.ask(&caller, &call).await?;
        if matches!(answer.status, 401 | 403) && caller.is_user() {
            caller = self.own(meta.request_id.as_ref()).await?;
            answer = self.ask(&caller, &call).await?;
        }
        match answer.status {
            200..300 => read_at(&answer, "save_volume_id"),
            _ => Err(refused(&caller, &answer)),
        }
    }
}
