//! Creates images of servers: snapshots, backups, and the image of a shelved server's disk.
//!
//! The process `ask_server` first creates the image, without bytes, so that the answer can have the image's id. The
//! process then sends the request to the server. If the server refuses, or after a crash in between, the process
//! deletes the image. Otherwise the process `snapshot` or `shelve` fills the image.
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
use crate::instance::asking::{AskServerReject, ServerRequest, TakenFirst};
use crate::instance::{InstanceReject, WorkRequest};
use crate::ports::{ImageDraft, PortError};

/// Properties that an image of a server does not inherit from the server's own image. They are Nova's
/// `non_inheritable_image_properties`, and the properties of a signature.
const NOT_INHERITED: [&str; 6] = [
    "cache_in_nova",
    "bittorrent",
    "img_signature_hash_method",
    "img_signature",
    "img_signature_key_type",
    "img_signature_certificate_uuid",
];

/// The request for an image of a server.
#[derive(Debug, Clone)]
pub struct ServerImageRequest {
    pub image: ImageId,
    pub name: String,
    /// The project of the image; `None` means the server's project.
    pub project: Option<ProjectId>,
    pub user: UserId,
    /// The caller's properties, which override inherited ones.
    pub metadata: SortedPairs,
}

/// Why no image of a server was created.
#[derive(Debug, Error)]
pub enum ServerImageReject {
    #[error(transparent)]
    Server(#[from] CommandError<InstanceReject>),
    #[error("a volume-backed server cannot have backups")]
    BackupOfVolumes,
    #[error("the volume quota has no room for snapshots of the server's volumes")]
    NoRoomForSnapshots,
    #[error("the image sets os_require_quiesce, but the server has no guest agent that could quiesce it")]
    CannotRest,
    #[error("the volume service: {0}")]
    Volumes(PortError),
    #[error(transparent)]
    Asked(#[from] AskServerReject),
}

impl From<InstanceReject> for ServerImageReject {
    fn from(reject: InstanceReject) -> Self {
        Self::Server(CommandError::Rejected(reject))
    }
}

impl Operations {
    /// Creates an image of the server's disk, or of snapshots of its volumes.
    ///
    /// # Errors
    /// The server's state does not allow it, a service refuses, or the log is not available.
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
        let snapshot = WorkRequest::Snapshot { process, image, backup: None, asker };
        self.make_image(meta, call, draft, process, snapshot).await
    }

    /// Creates a backup of the server's disk, and deletes older backups beyond the rotation.
    ///
    /// # Errors
    /// The server is volume-backed, its state does not allow a backup, the image service refuses, or the log is not
    /// available.
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
        let snapshot = WorkRequest::Snapshot { process, image, backup: Some(rotation), asker };
        self.make_image(meta, call, draft, process, snapshot).await
    }

    /// Shelves the server. An image keeps the server's disk until the server is unshelved. A volume-backed server needs
    /// no image, because its volume stays. Such a server leaves its host at once.
    ///
    /// # Errors
    /// The server's state does not allow it, the image service refuses, or the log is not available.
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
            return Ok(self.ask_work(meta, &call, WorkRequest::Shelve { process, image: None, asker }).await?);
        }
        let name = format!("{}-shelved", call.server.request.name);
        let request = ServerImageRequest { image: ImageId::random(), name, project, user, metadata: vec![] };
        let draft = self.draft_of_disk(&call, request, "snapshot");
        let image = Some(draft.image);
        self.make_image(meta, call, draft, process, WorkRequest::Shelve { process, image, asker }).await
    }

    /// The image of a server's own disk, in the format of `[libvirt] snapshot_image_format`.
    fn draft_of_disk(&self, call: &ServerCall<'_>, request: ServerImageRequest, kind: &str) -> ImageDraft {
        let format = self.reconcile.server_options.snapshot_format.clone();
        ImageDraft { format, ..draft_of_root(call, request, kind) }
    }

    /// Creates the image, without bytes, and asks the server to start the process that fills the image.
    async fn make_image(
        &self,
        meta: Arc<Meta>,
        call: ServerCall<'_>,
        draft: ImageDraft,
        process: ProcessId,
        work: WorkRequest,
    ) -> Result<Position, ServerImageReject> {
        let first = TakenFirst::Image { instance: call.id, asks_for: process, draft: Box::new(draft) };
        Ok(self.take_and_ask(ServerRequest { first, request: work.into(), meta }).await?)
    }

    async fn ask_work(
        &self,
        meta: Arc<Meta>,
        call: &ServerCall<'_>,
        work: WorkRequest,
    ) -> Result<Position, CommandError<InstanceReject>> {
        self.ask_server(meta, call.id, work).await
    }

    /// The draft of an image of a volume-backed server. The quota of snapshots is checked first, so that either all
    /// volumes are copied or none is.
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
        let mut properties = inherited(base.map(|image| &image.properties));
        properties_of_volumes(&mut properties, server, process);
        Ok(ImageDraft {
            // An image without data is `raw`, as in Nova.
            format: "raw".to_owned(),
            // The flavor's disk is no minimum here, because a volume-backed server does not use it.
            min_disk_gib: base.map_or(0, |image| image.min_disk_gib),
            min_memory_mib: base.map_or(0, |image| image.min_memory_mib),
            ..draft(server, request, properties)
        })
    }
}

/// The image of a server's own root disk.
fn draft_of_root(call: &ServerCall<'_>, request: ServerImageRequest, kind: &str) -> ImageDraft {
    let (server, base) = (call.server, call.server.request.image.as_ref());
    let mut properties = inherited(base.map(|image| &image.properties));
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

/// The part of a draft that all images of servers have in common. The caller's properties override `properties`.
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

fn inherited(base: Option<&SortedPairs>) -> SortedPairs {
    let mut properties = base.cloned().unwrap_or_default();
    properties.retain(|(key, _)| !NOT_INHERITED.contains(&key.as_str()));
    properties
}

pub(super) fn set(pairs: &mut SortedPairs, key: &str, value: &str) {
    match pairs.iter_mut().find(|(known, _)| known == key) {
        Some((_, known)) => value.clone_into(known),
        None => pairs.push((key.to_owned(), value.to_owned())),
    }
}
