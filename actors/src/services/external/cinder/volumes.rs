//! The port: volumes and snapshots in Cinder.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{AttachmentId, ImageId, InstanceId, ProcessId, ProjectId, RequestId, SnapshotId, VolumeId};
use chronova_hypervisor::guest::NetworkDisk;
use serde_json::{Value, json};

use super::CinderVolumes;
use super::calls::{CinderCall, CinderCaller, REIMAGE, read, read_at, refused};
use super::documents::{
    CinderSnapshot, CinderVolume, CinderVolumeType, PROPOSED, new_snapshot, new_volume, no_snapshot, no_volume,
};
use crate::ports::{
    Connection, MigrationPair, NewContent, NewSnapshot, NewVolume, PortError, ServiceCaller, SnapshotInfo,
    UserVolumeCall, VolumeExchange, VolumeInfo, VolumeService,
};

/// The filter of a list by a proposed id. Cinder reads it as a literal of Python.
fn proposed(id: &dyn std::fmt::Display) -> String {
    format!("{{\"{PROPOSED}\": \"{id}\"}}")
}

impl CinderVolumes {
    /// The volume with this id in Cinder, or else the volume that was created with this proposed id.
    pub(super) async fn show_volume(
        &self,
        volume: VolumeId,
        request: Option<&RequestId>,
    ) -> Result<CinderVolume, PortError> {
        let own = self.own(request).await?;
        let answer = self.ask(&own, &CinderCall::get(format!("volumes/{volume}"))).await?;
        match answer.status {
            200 => read_at(&answer, "volume"),
            404 => self.proposed_volume(&own, volume).await?.ok_or_else(|| no_volume(volume)),
            _ => Err(refused(&own, &answer)),
        }
    }

    /// The volume whose metadata has this proposed id. Any user can give another volume the same metadata. The oldest
    /// volume is the right one, because other users learn the id only after that volume exists.
    async fn proposed_volume(&self, own: &CinderCaller, id: VolumeId) -> Result<Option<CinderVolume>, PortError> {
        let metadata = proposed(&id);
        let filters = [("all_tenants", "1"), ("metadata", metadata.as_str())];
        let found: Vec<CinderVolume> = self.pages(own, ("volumes/detail", "volumes"), &filters).await?;
        Ok(found.into_iter().min_by(|a, b| a.created_at.cmp(&b.created_at)))
    }

    async fn show_snapshot(
        &self,
        snapshot: SnapshotId,
        request: Option<&RequestId>,
    ) -> Result<CinderSnapshot, PortError> {
        let own = self.own(request).await?;
        let answer = self.ask(&own, &CinderCall::get(format!("snapshots/{snapshot}"))).await?;
        match answer.status {
            200 => read_at(&answer, "snapshot"),
            404 => self.proposed_snapshot(&own, snapshot).await?.ok_or_else(|| no_snapshot(snapshot)),
            _ => Err(refused(&own, &answer)),
        }
    }

    async fn proposed_snapshot(&self, own: &CinderCaller, id: SnapshotId) -> Result<Option<CinderSnapshot>, PortError> {
        let metadata = proposed(&id);
        let filters = [("all_tenants", "1"), ("metadata", metadata.as_str())];
        let found: Vec<CinderSnapshot> = self.pages(own, ("snapshots/detail", "snapshots"), &filters).await?;
        Ok(found.into_iter().min_by(|a, b| a.created_at.cmp(&b.created_at)))
    }

    /// The caller that creates a resource. Cinder creates the resource in the project of the caller's token, so the
    /// token must be of `project`.
    async fn creator(&self, project: &ProjectId, meta: &Meta) -> Result<CinderCaller, PortError> {
        let caller = self.caller(meta).await?;
        if caller.project == project.as_str() {
            return Ok(caller);
        }
        Err(PortError::Forbidden(match caller.is_user() {
            true => format!("Cinder makes no volume in project {project} with a token of project {}.", caller.project),
            false => format!(
                "Cinder makes no volume in project {project} without a token of its user, and Chronova forgets the \
                 tokens when it restarts. Request the volume again."
            ),
        }))
    }

    /// The content of a new volume, with the id of its source in Cinder.
    async fn content(&self, content: &NewContent, request: Option<&RequestId>) -> Result<NewContent, PortError> {
        Ok(match content {
            NewContent::Snapshot(id) => NewContent::Snapshot(self.show_snapshot(*id, request).await?.id),
            NewContent::Volume(id) => NewContent::Volume(self.show_volume(*id, request).await?.id),
            other => other.clone(),
        })
    }

    async fn act(&self, volume: VolumeId, action: &str, meta: &Meta) -> Result<(), PortError> {
        let call = CinderCall::post(format!("volumes/{volume}/action"), json!({action: {}}));
        self.must(&self.caller(meta).await?, &call).await.map(drop)
    }

    /// Deletes with the user's token. If Cinder does not accept that token any more, Chronova's own account deletes, so
    /// that failed work leaves nothing behind.
    async fn remove(&self, path: &str, meta: &Meta) -> Result<u16, PortError> {
        let call = CinderCall::delete(path);
        let mut caller = self.caller(meta).await?;
        let mut answer = self.ask(&caller, &call).await?;
        if answer.status == 401 && caller.is_user() {
            caller = self.own(meta.request_id.as_ref()).await?;
            answer = self.ask(&caller, &call).await?;
        }
        match answer.status {
            200..300 | 404 => Ok(answer.status),
            _ => Err(refused(&caller, &answer)),
        }
    }

    /// Deletes the volume that was created for this proposed id. Returns whether there is one.
    async fn remove_proposed_volume(&self, id: VolumeId, meta: &Meta) -> Result<bool, PortError> {
        let own = self.own(meta.request_id.as_ref()).await?;
        let Some(made) = self.proposed_volume(&own, id).await? else { return Ok(false) };
        if made.status != "deleting" {
            self.remove(&format!("volumes/{}", made.id), meta).await?;
        }
        Ok(true)
    }

    /// Deletes the snapshot that was created for this proposed id. Returns whether there is one.
    async fn remove_proposed_snapshot(&self, id: SnapshotId, meta: &Meta) -> Result<bool, PortError> {
        let own = self.own(meta.request_id.as_ref()).await?;
        let Some(made) = self.proposed_snapshot(&own, id).await? else { return Ok(false) };
        self.remove(&format!("snapshots/{}", made.id), meta).await?;
        Ok(true)
    }

    /// Deletes what was created for a proposed id. If there is nothing, Cinder may still create it for a call of the same
    /// request that had no answer in time; see
    /// [`CalledService::again_if_late`](crate::services::external::keystone::CalledService::again_if_late). `remove`
    /// returns whether there was something.
    async fn remove_even_if_late<F>(&self, meta: &Meta, remove: impl Fn() -> F + Send + Sync) -> Result<(), PortError>
    where
        F: Future<Output = Result<bool, PortError>> + Send,
    {
        let is_last = |removed: &Result<bool, PortError>| !matches!(removed, Ok(false));
        self.service.again_if_late(meta.request_id.as_ref(), |_| remove(), is_last).await.map(drop)
    }

    /// Whether a project may use a type that is not public.
    async fn may_use(
        &self,
        own: &CinderCaller,
        kind: &CinderVolumeType,
        project: &ProjectId,
    ) -> Result<bool, PortError> {
        let answer = self.must(own, &CinderCall::get(format!("types/{}/os-volume-type-access", kind.id))).await?;
        let list: Value = read(&answer)?;
        let all = list["volume_type_access"].as_array().cloned().unwrap_or_default();
        Ok(all.iter().any(|access| access["project_id"] == project.as_str()))
    }
}

#[async_trait]
impl VolumeService for CinderVolumes {
    /// Chronova's own account reads volumes and snapshots. So this call checks that the user's token can read them,
    /// too. It checks no change, because a change carries the user's token itself.
    async fn check_user(&self, call: UserVolumeCall, caller: &ServiceCaller) -> Result<(), PortError> {
        let path = match call {
            UserVolumeCall::List => "volumes?limit=1".to_owned(),
            UserVolumeCall::Show(id) => format!("volumes/{id}"),
            UserVolumeCall::ListSnapshots => "snapshots?limit=1".to_owned(),
            UserVolumeCall::ShowSnapshot(id) => format!("snapshots/{id}"),
            UserVolumeCall::Create
            | UserVolumeCall::Delete(_)
            | UserVolumeCall::CreateSnapshot(_)
            | UserVolumeCall::DeleteSnapshot(_) => return Ok(()),
        };
        self.must(&CinderCaller::of(caller)?, &CinderCall::get(path)).await.map(drop)
    }

    async fn find(&self, volume: VolumeId, project: &ProjectId, is_admin: bool) -> Result<VolumeInfo, PortError> {
        let found = self.show_volume(volume, None).await?.info();
        if is_admin || found.project == *project { Ok(found) } else { Err(no_volume(volume)) }
    }

    async fn list(&self, project: &ProjectId, all: bool) -> Result<Vec<VolumeInfo>, PortError> {
        let own = self.own(None).await?;
        let mut filters = vec![("all_tenants", "1")];
        filters.extend((!all).then_some(("project_id", project.as_str())));
        let found: Vec<CinderVolume> = self.pages(&own, ("volumes/detail", "volumes"), &filters).await?;
        let own_alone = found.into_iter().map(CinderVolume::info).filter(|volume| all || volume.project == *project);
        Ok(own_alone.collect())
    }

    async fn find_snapshot(
        &self,
        snapshot: SnapshotId,
        project: &ProjectId,
        is_admin: bool,
    ) -> Result<SnapshotInfo, PortError> {
        let found = self.show_snapshot(snapshot, None).await?.info();
        if is_admin || found.project == *project { Ok(found) } else { Err(no_snapshot(snapshot)) }
    }

    async fn list_snapshots(&self, project: &ProjectId, all: bool) -> Result<Vec<SnapshotInfo>, PortError> {
        let own = self.own(None).await?;
        let mut filters = vec![("all_tenants", "1")];
        filters.extend((!all).then_some(("project_id", project.as_str())));
        let found: Vec<CinderSnapshot> = self.pages(&own, ("snapshots/detail", "snapshots"), &filters).await?;
        let each = found.into_iter().map(CinderSnapshot::info);
        Ok(each.filter(|snapshot| all || snapshot.project == *project).collect())
    }

    async fn create(&self, wanted: NewVolume, _is_admin: bool, meta: Arc<Meta>) -> Result<VolumeInfo, PortError> {
        let request = meta.request_id.as_ref();
        let made = self.proposed_volume(&self.own(request).await?, wanted.volume).await?.map(CinderVolume::info);
        if let Some(made) = made.filter(|made| made.project == wanted.project) {
            return Ok(made);
        }
        let caller = self.creator(&wanted.project, &meta).await?;
        let body = new_volume(&wanted, &self.content(&wanted.content, request).await?);
        let made = self.must(&caller, &CinderCall::post("volumes", body)).await?;
        let made: Value = read_at(&made, "volume")?;
        let id = made["id"].as_str().and_then(|id| id.parse().ok());
        // Only an administrator of Cinder sees all fields of a volume, so Chronova's own account reads it again.
        match id {
            Some(id) => Ok(self.show_volume(id, request).await?.info()),
            None => Err(PortError::Unavailable("Cinder's answer names no volume".to_owned())),
        }
    }

    async fn delete(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        match self.remove(&format!("volumes/{volume}"), &meta).await? {
            404 => self.remove_even_if_late(&meta, || self.remove_proposed_volume(volume, &meta)).await,
            _ => Ok(()),
        }
    }

    async fn create_snapshot(
        &self,
        wanted: NewSnapshot,
        is_admin: bool,
        meta: Arc<Meta>,
    ) -> Result<SnapshotInfo, PortError> {
        let request = meta.request_id.as_ref();
        let made = self.proposed_snapshot(&self.own(request).await?, wanted.snapshot).await?.map(CinderSnapshot::info);
        if let Some(made) = made.filter(|made| made.project == wanted.project) {
            return Ok(made);
        }
        self.find(wanted.volume, &wanted.project, is_admin).await?;
        let caller = self.creator(&wanted.project, &meta).await?;
        let made = self.must(&caller, &CinderCall::post("snapshots", new_snapshot(&wanted))).await?;
        let made: Value = read_at(&made, "snapshot")?;
        match made["id"].as_str().and_then(|id| id.parse().ok()) {
            Some(id) => Ok(self.show_snapshot(id, request).await?.info()),
            None => Err(PortError::Unavailable("Cinder's answer names no snapshot".to_owned())),
        }
    }

    async fn delete_snapshot(&self, snapshot: SnapshotId, meta: Arc<Meta>) -> Result<(), PortError> {
        match self.remove(&format!("snapshots/{snapshot}"), &meta).await? {
            404 => self.remove_even_if_late(&meta, || self.remove_proposed_snapshot(snapshot, &meta)).await,
            _ => Ok(()),
        }
    }

    /// Cinder has no id for a request to write an image. If an image is being written already, the call counts as a
    /// repetition.
    async fn reimage(
        &self,
        volume: VolumeId,
        image: ImageId,
        _project: &ProjectId,
        _process: ProcessId,
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        if self.show_volume(volume, meta.request_id.as_ref()).await?.status == "downloading" {
            return Ok(());
        }
        let body = json!({"os-reimage": {"image_id": image, "reimage_reserved": true}});
        let call = CinderCall::post(format!("volumes/{volume}/action"), body).at(REIMAGE);
        self.must(&self.caller(&meta).await?, &call).await.map(drop)
    }

    async fn find_type(&self, id_or_name: &str, project: &ProjectId, is_admin: bool) -> Result<String, PortError> {
        let own = self.own(None).await?;
        let all: Vec<CinderVolumeType> = self.pages(&own, ("types", "volume_types"), &[("is_public", "None")]).await?;
        let named = |kind: &&CinderVolumeType| kind.id == id_or_name || kind.name == id_or_name;
        let missing = || PortError::NotFound(format!("Volume type {id_or_name} could not be found."));
        let found = all.iter().find(named).ok_or_else(missing)?;
        match is_admin || found.is_public || self.may_use(&own, found, project).await? {
            true => Ok(found.name.clone()),
            false => Err(missing()),
        }
    }

    async fn snapshots_left(&self, project: &ProjectId) -> Result<Option<u64>, PortError> {
        let own = self.own(None).await?;
        let answer = self.must(&own, &CinderCall::get(format!("os-quota-sets/{project}?usage=True"))).await?;
        let quotas: Value = read_at(&answer, "quota_set")?;
        let number = |key: &str| quotas["snapshots"][key].as_i64();
        let limit = number("limit").ok_or_else(|| PortError::Unavailable("Cinder tells no quota".to_owned()))?;
        let used = number("in_use").unwrap_or(0) + number("reserved").unwrap_or(0);
        Ok((limit >= 0).then(|| u64::try_from(limit - used).unwrap_or(0)))
    }

    async fn reserve(
        &self,
        _proposed: AttachmentId,
        volume: VolumeId,
        instance: InstanceId,
        meta: Arc<Meta>,
    ) -> Result<AttachmentId, PortError> {
        self.reserve_one(volume, instance, &meta).await
    }

    async fn connect(
        &self,
        volume: VolumeId,
        attachment: AttachmentId,
        host: &str,
        device: Option<&str>,
        meta: Arc<Meta>,
    ) -> Result<Connection, PortError> {
        self.connect_one(volume, attachment, (host, device), &meta).await
    }

    async fn complete(&self, _volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.complete_one(attachment, &meta).await
    }

    async fn begin_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.act(volume, "os-begin_detaching", &meta).await
    }

    async fn roll_detaching(&self, volume: VolumeId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.act(volume, "os-roll_detaching", &meta).await
    }

    async fn release(&self, _volume: VolumeId, attachment: AttachmentId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.release_one(attachment, &meta).await
    }

    async fn release_others(
        &self,
        volume: VolumeId,
        instance: InstanceId,
        keep: &[AttachmentId],
        meta: Arc<Meta>,
    ) -> Result<(), PortError> {
        self.release_all_but(volume, instance, keep, &meta).await
    }

    async fn standing_of(&self, old: VolumeId, new: VolumeId) -> Result<MigrationPair, PortError> {
        self.pair_of(old, new).await
    }

    async fn end_migration(
        &self,
        exchange: VolumeExchange,
        failed: bool,
        meta: Arc<Meta>,
    ) -> Result<VolumeId, PortError> {
        self.end_migration_of(exchange, failed, &meta).await
    }

    async fn network_disk(
        &self,
        _volume: VolumeId,
        attachment: AttachmentId,
        host: &str,
        meta: Arc<Meta>,
    ) -> Result<Option<NetworkDisk>, PortError> {
        self.disk_of(attachment, host, &meta).await.map(Some)
    }
}
