//! The calls on attachments. Cinder's microversion 3.44 has them all.
//!
//! An attachment is `reserved`, then `attaching` once it has a connector, then `attached`. Cinder lets a server have
//! two attachments to a volume, so that the server can move to another host.

use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{AttachmentId, InstanceId, VolumeId};
use chronova_hypervisor::guest::NetworkDisk;
use serde_json::{Value, json};

use super::CinderVolumes;
use super::calls::{CinderCall, CinderCaller, member, read, refused};
use super::connections::{initiator, way};
use super::documents::CinderAttachment;
use crate::ports::{Connection, PortError};
use crate::services::external::http::ServiceAnswer;

impl CinderVolumes {
    async fn attachments_of(
        &self,
        volume: VolumeId,
        instance: InstanceId,
        meta: &Meta,
    ) -> Result<Vec<CinderAttachment>, PortError> {
        let own = self.own(meta.request_id.as_ref()).await?;
        let (volume, instance) = (volume.to_string(), instance.to_string());
        let filters = [("all_tenants", "1"), ("volume_id", volume.as_str()), ("instance_id", instance.as_str())];
        self.pages(&own, ("attachments", "attachments"), &filters).await
    }

    /// Returns the incomplete attachment that an interrupted step of the same server left, or creates one. Steps of one
    /// server on one volume never run at the same time.
    pub(super) async fn reserve_one(
        &self,
        volume: VolumeId,
        instance: InstanceId,
        meta: &Meta,
    ) -> Result<AttachmentId, PortError> {
        let known = self.attachments_of(volume, instance, meta).await?;
        if let Some(begun) = known.iter().find(|known| matches!(known.status.as_str(), "reserved" | "attaching")) {
            return Ok(begun.id);
        }
        let body = json!({"attachment": {"volume_uuid": volume, "instance_uuid": instance}});
        Ok(shown(&self.must(&self.caller(meta).await?, &CinderCall::post("attachments", body)).await?)?.id)
    }

    pub(super) async fn attachment(
        &self,
        caller: &CinderCaller,
        id: AttachmentId,
    ) -> Result<CinderAttachment, PortError> {
        shown(&self.must(caller, &CinderCall::get(format!("attachments/{id}"))).await?)
    }

    /// Sends the host's connector to Cinder. A complete attachment keeps the connector that it has.
    pub(super) async fn connect_one(
        &self,
        volume: VolumeId,
        id: AttachmentId,
        (host, device): (&str, Option<&str>),
        meta: &Meta,
    ) -> Result<Connection, PortError> {
        let caller = self.caller(meta).await?;
        let mut found = self.attachment(&caller, id).await?;
        if found.status != "attached" || found.connection_info.as_ref().is_none_or(serde_json::Map::is_empty) {
            let connector = json!({
                "host": host,
                "initiator": initiator(host),
                "mountpoint": device,
                "multipath": false,
                "platform": std::env::consts::ARCH,
                "os_type": "linux",
            });
            found = self.update(&caller, found, &connector, meta).await?;
        }
        let shareable = self.show_volume(volume, meta.request_id.as_ref()).await?.info().multiattach;
        let reached = way(&found, shareable, host, &self.rbd)?;
        if reached.encrypted {
            // A volume that no guest can read is refused before any guest gets it.
            self.passphrase_of(found.volume_id, meta).await?;
        }
        Ok(Connection { replaced_by: Some(found.id).filter(|made| *made != id), ..reached.connection })
    }

    /// Sends the connector of an attachment. Cinder refuses the connector of an existing attachment while another host
    /// is connected to the volume. In this case, Cinder accepts a new attachment with this connector, and the new
    /// attachment replaces the old one. Nova does the same when it moves a server.
    async fn update(
        &self,
        caller: &CinderCaller,
        found: CinderAttachment,
        connector: &Value,
        meta: &Meta,
    ) -> Result<CinderAttachment, PortError> {
        let body = json!({"attachment": {"connector": connector}});
        let answer = self.ask(caller, &CinderCall::put(format!("attachments/{}", found.id), body)).await?;
        let doubled = answer.status >= 400 && String::from_utf8_lossy(&answer.body).contains("duplicate connectors");
        match (answer.status, found.instance) {
            (200..300, _) => shown(&answer),
            (_, Some(instance)) if doubled => {
                let whole = json!({"volume_uuid": found.volume_id, "instance_uuid": instance, "connector": connector});
                let call = CinderCall::post("attachments", json!({"attachment": whole}));
                let made = shown(&self.must(caller, &call).await?)?;
                self.release_one(found.id, meta).await?;
                Ok(made)
            }
            _ => Err(refused(caller, &answer)),
        }
    }

    pub(super) async fn disk_of(&self, id: AttachmentId, host: &str, meta: &Meta) -> Result<NetworkDisk, PortError> {
        let own = self.own(meta.request_id.as_ref()).await?;
        let found = self.attachment(&own, id).await?;
        let reached = way(&found, false, host, &self.rbd)?;
        let passphrase = if reached.encrypted { self.passphrase_of(found.volume_id, meta).await? } else { None };
        Ok(match passphrase {
            Some(passphrase) => NetworkDisk::Encrypted { disk: Box::new(reached.disk), passphrase },
            None => reached.disk,
        })
    }

    /// Completes an attachment. As in Nova, the attachment of a server without a host stays `reserved`. A second
    /// completion would make Cinder mark the volume as `in-use` once more, even a volume that Cinder deletes after a
    /// migration. So a complete attachment is left alone.
    pub(super) async fn complete_one(&self, id: AttachmentId, meta: &Meta) -> Result<(), PortError> {
        let caller = self.caller(meta).await?;
        if matches!(self.attachment(&caller, id).await?.status.as_str(), "reserved" | "attached") {
            return Ok(());
        }
        let call = CinderCall::post(format!("attachments/{id}/action"), json!({"os-complete": {}}));
        self.must(&caller, &call).await.map(drop)
    }

    /// Ends an attachment. If Cinder refuses the user's token (401 or 403), Chronova's own account ends the attachment.
    /// So long work can end after the token has expired.
    pub(super) async fn release_one(&self, id: AttachmentId, meta: &Meta) -> Result<(), PortError> {
        let call = CinderCall::delete(format!("attachments/{id}"));
        let mut caller = self.caller(meta).await?;
        let mut answer = self.ask(&caller, &call).await?;
        if matches!(answer.status, 401 | 403) && caller.is_user() {
            caller = self.own(meta.request_id.as_ref()).await?;
            answer = self.ask(&caller, &call).await?;
        }
        match (answer.status, refused(&caller, &answer)) {
            (200..300 | 404, _) => Ok(()),
            // Since CVE-2023-2088, Cinder lets only a service end an attachment that a server has.
            (409, PortError::Conflict(told)) => Err(PortError::Conflict(format!(
                "{told} Cinder lets only a service end an attachment: set [service_user] send_service_user_token"
            ))),
            (_, error) => Err(error),
        }
    }

    pub(super) async fn release_all_but(
        &self,
        volume: VolumeId,
        instance: InstanceId,
        keep: &[AttachmentId],
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let release = |_| self.release_known_but(volume, instance, keep, meta);
        self.service.again_if_late(meta.request_id.as_ref(), release, Result::is_err).await
    }

    async fn release_known_but(
        &self,
        volume: VolumeId,
        instance: InstanceId,
        keep: &[AttachmentId],
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        for known in self.attachments_of(volume, instance, meta).await? {
            if !keep.contains(&known.id) {
                self.release_one(known.id, meta).await?;
            }
        }
        Ok(())
    }
}

/// Reads an attachment from the key `attachment`, or from the whole answer if the answer does not have that key.
fn shown(answer: &ServiceAnswer) -> Result<CinderAttachment, PortError> {
    let mut body: Value = read(answer)?;
    let inner = member(&mut body, "attachment");
    let whole = if inner.is_object() { inner } else { body };
    serde_json::from_value(whole).map_err(|_| PortError::Unavailable("Cinder's answer makes no sense".to_owned()))
}
