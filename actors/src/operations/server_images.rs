//! Makes images of servers: snapshots, backups, and the image that a shelved server comes back from.
//!
//! The image is made first, without bytes, so that its id is known at the answer. The process `snapshot` or `shelve` then
//! fills it. An image whose server refuses is deleted at once. A crash between the two leaves an image without bytes, as
//! in Nova.
//!
//! Source: nova `compute/api.py` (`snapshot`, `backup`) and `compute/utils.py` (`create_image`,
//! `initialize_instance_snapshot_metadata`).

use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{ImageId, ProcessId, ProjectId, UserId};
use chronova_events::instance::{Alive, Rotation, SortedPairs};
use thiserror::Error;

use super::images_of_volumes::{cannot_rest, properties_of_volumes, volume_count};
use super::{Operations, ServerCall};
use crate::aggregate::CommandError;
use crate::instance::actions::ServerAction;
use crate::instance::work::WorkCommand;
use crate::instance::{InstanceCommand, InstanceReject};
use crate::ports::{ImageDraft, PortError};

/// Images of servers never inherit these from the image that the server was built from: the properties of its signature.
const NOT_INHERITED: [&str; 4] =
    ["img_signature_hash_method", "img_signature", "img_signature_key_type", "img_signature_certificate_uuid"];

/// An image that is to be made of a server.
#[derive(Debug, Clone)]
pub struct ServerImageRequest {
    pub image: ImageId,
    pub name: String,
    /// `None`: the server's.
    pub project: Option<ProjectId>,
    pub user: UserId,
    /// The caller's own properties; they win over inherited ones.
    pub metadata: SortedPairs,
}

/// Why no image is made of a server.
#[derive(Debug, Error)]
pub enum ServerImageReject {
    #[error(transparent)]
    Server(#[from] CommandError<InstanceReject>),
    #[error("a server on volumes has no backups")]
    BackupOfVolumes,
    #[error("quota has no room for the snapshots of the server's volumes")]
    NoRoomForSnapshots,
    #[error("the image demands that the guest is held still, and names no agent that could do it")]
    CannotRest,
    #[error("the volume service: {0}")]
    Volumes(PortError),
    #[error("the image service: {0}")]
    Images(PortError),
}

impl From<InstanceReject> for ServerImageReject {
    fn from(reject: InstanceReject) -> Self {
        Self::Server(CommandError::Rejected(reject))
    }
}

impl Operations {
    /// Makes an image of the server's disk, or of snapshots of its volumes.
    ///
    /// # Errors
    /// The server is not in a state for it; a service refuses; the log does not take the event.
    pub async fn create_image(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        request: ServerImageRequest,
    ) -> Result<Position, ServerImageReject> {
        call.admit(ServerAction::CreateImage)?;
        let process = ProcessId::random();
        let draft = match call.server.is_volume_backed() {
            true => self.draft_of_volumes(call.server, request, process).await?,
            false => self.draft_of_disk(&call, request, "snapshot"),
        };
        let (image, asker) = (draft.image, call.asker);
        self.make_image(meta, call, draft, WorkCommand::Snapshot { process, image, backup: None, asker }).await
    }

    /// Makes an image of the server's disk, and deletes those of its kind beyond the rotation.
    ///
    /// # Errors
    /// The server is on volumes or not in a state for it; the image service refuses; the log does not take the event.
    pub async fn create_backup(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        mut request: ServerImageRequest,
        rotation: Rotation,
    ) -> Result<Position, ServerImageReject> {
        call.admit(ServerAction::CreateBackup)?;
        if call.server.is_volume_backed() {
            return Err(ServerImageReject::BackupOfVolumes);
        }
        set(&mut request.metadata, "backup_type", &rotation.kind);
        let draft = self.draft_of_disk(&call, request, "backup");
        let (process, image, asker) = (ProcessId::random(), draft.image, call.asker);
        self.make_image(meta, call, draft, WorkCommand::Snapshot { process, image, backup: Some(rotation), asker })
            .await
    }

    /// Takes the server off its host, which it later comes back from an image to. A server on volumes needs no image: its
    /// disk stays where it is, and it leaves its host at once.
    ///
    /// # Errors
    /// The server is not in a state for it; the image service refuses; the log does not take the event.
    pub async fn shelve(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        project: Option<ProjectId>,
        user: UserId,
    ) -> Result<Position, ServerImageReject> {
        call.admit(ServerAction::Shelve)?;
        let (process, asker) = (ProcessId::random(), call.asker);
        if call.server.is_volume_backed() {
            return Ok(self.ask_work(meta, &call, WorkCommand::Shelve { process, image: None, asker }).await?);
        }
        let name = format!("{}-shelved", call.server.request.name);
        let request = ServerImageRequest { image: ImageId::random(), name, project, user, metadata: vec![] };
        let draft = self.draft_of_disk(&call, request, "snapshot");
        let image = Some(draft.image);
        self.make_image(meta, call, draft, WorkCommand::Shelve { process, image, asker }).await
    }

    /// Makes the image, without bytes, and asks the server to fill it.
    async fn make_image(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        draft: ImageDraft,
        work: WorkCommand,
    ) -> Result<Position, ServerImageReject> {
        let image = draft.image;
        self.queries.images.create(draft, Arc::clone(&meta)).await.map_err(ServerImageReject::Images)?;
        let asked = self.ask_work(Arc::clone(&meta), &call, work).await;
        if asked.is_err()
            && let Err(error) = self.queries.images.delete(image, meta).await
        {
            tracing::warn!(%image, %error, "an image of a server that was not copied after all stays behind");
        }
        Ok(asked?)
    }

    async fn ask_work(
        &self,
        meta: Arc<Meta>,
        call: &ServerCall<'_>,
        work: WorkCommand,
    ) -> Result<Position, CommandError<InstanceReject>> {
        self.ask_server(meta, call.id, InstanceCommand::Work(Box::new(work))).await
    }

    /// Looks at the room beforehand, so that not some of the volumes are copied and others not.
    async fn draft_of_volumes(
        &self,
        server: &Alive,
        request: ServerImageRequest,
        process: ProcessId,
    ) -> Result<ImageDraft, ServerImageReject> {
        let left = self.queries.volumes.snapshots_left(&server.request.project).await;
        if left.map_err(ServerImageReject::Volumes)?.is_some_and(|left| volume_count(server) > left) {
            return Err(ServerImageReject::NoRoomForSnapshots);
        }
        if cannot_rest(server) {
            return Err(ServerImageReject::CannotRest);
        }
        let base = server.hardware_image();
        let mut properties = self.inherited(base.map(|image| &image.properties));
        properties_of_volumes(&mut properties, server, process);
        Ok(ImageDraft {
            // Without bytes it can be said to be nothing else.
            format: "raw".to_owned(),
            // Not the flavor's disk, which a server on a volume has nothing of.
            min_disk_gib: base.map_or(0, |image| image.min_disk_gib),
            min_memory_mib: base.map_or(0, |image| image.min_memory_mib),
            ..draft(server, request, properties)
        })
    }

    /// The image of a server's own disk.
    fn draft_of_disk(&self, call: &ServerCall<'_>, request: ServerImageRequest, kind: &str) -> ImageDraft {
        let (server, base) = (call.server, call.server.request.image.as_ref());
        let mut properties = self.inherited(base.map(|image| &image.properties));
        let id = call.id.to_string();
        let own = [
            ("instance_uuid", id.as_str()),
            ("user_id", request.user.as_str()),
            ("image_type", kind),
            ("image_location", "snapshot"),
            ("image_state", "available"),
            ("owner_id", server.request.project.as_str()),
        ];
        for (key, value) in own {
            set(&mut properties, key, value);
        }
        if let Some(base) = base {
            set(&mut properties, "base_image_ref", &base.id.to_string());
        }
        // A server that is built from the image needs room for the disk.
        let min_disk_gib = base.map_or(0, |image| image.min_disk_gib).max(server.request.flavor.root_gib);
        ImageDraft { min_disk_gib, ..draft(server, request, properties) }
    }

    fn inherited(&self, base: Option<&SortedPairs>) -> SortedPairs {
        let configured = &self.queries.server_options.non_inheritable_image_properties;
        let mut properties = base.cloned().unwrap_or_default();
        properties.retain(|(key, _)| !NOT_INHERITED.contains(&key.as_str()) && !configured.contains(key));
        properties
    }
}

/// All images of servers have this in common. The caller's own properties win over `properties`.
fn draft(server: &Alive, request: ServerImageRequest, mut properties: SortedPairs) -> ImageDraft {
    for (key, value) in &request.metadata {
        set(&mut properties, key, value);
    }
    properties.sort();
    ImageDraft {
        image: request.image,
        name: request.name,
        owner: request.project.unwrap_or_else(|| server.request.project.clone()),
        format: "qcow2".to_owned(),
        min_disk_gib: 0,
        min_memory_mib: server.request.image.as_ref().map_or(0, |image| image.min_memory_mib),
        properties,
    }
}

pub(super) fn set(pairs: &mut SortedPairs, key: &str, value: &str) {
    match pairs.iter_mut().find(|(known, _)| known == key) {
        Some((_, known)) => value.clone_into(known),
        None => pairs.push((key.to_owned(), value.to_owned())),
    }
}
