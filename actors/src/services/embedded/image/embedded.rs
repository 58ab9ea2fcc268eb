//! The embedded image service: it implements the port for compute, and recovers at start-up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId, UploadId};
use chronova_events::image::{ImageAttributes, ImageContent, ImageCreated, ImageRecord, Visibility};
use chronova_events::instance::ImageSnapshot;
use chronova_hypervisor::driver::{ByteStream, DriverError, DriverResult, ImageSource};
use chronova_hypervisor::guest::ImageRef;
use chronova_projections::images::is_visible;
use chronova_projections::views::Views;

use super::files::{ImageFiles, IncomingUpload, ReceiveError};
use super::records::ImageRecords;
use super::{ImageCommand, ImageReject, ImageRoot, MAX_IMAGES, PropertyLimit};
use crate::aggregate::CommandError;
use crate::coordination::project_turns::{ProjectTurn, ProjectTurns};
use crate::gateway::CommandGateway;
use crate::ports::{ImageDraft, ImageResources, ImageService, PortError};

/// The operator's limits of images.
#[derive(Debug, Clone, Copy)]
pub struct ImageLimits {
    /// The most images of a project; `None` means no limit.
    pub images: Option<usize>,
    pub properties: PropertyLimit,
}

impl Default for ImageLimits {
    fn default() -> Self {
        Self { images: Some(MAX_IMAGES), properties: PropertyLimit::default() }
    }
}

/// The embedded image service.
#[derive(Debug)]
pub struct EmbeddedImages {
    pub files: ImageFiles,
    views: Arc<Views>,
    gateway: Arc<CommandGateway>,
    records: ImageRecords,
    limits: ImageLimits,
    creates: ProjectTurns,
}

impl EmbeddedImages {
    pub fn new(files: ImageFiles, views: Arc<Views>, gateway: Arc<CommandGateway>) -> Arc<Self> {
        Self::limited(files, views, gateway, ImageLimits::default())
    }

    /// Like [`new`](Self::new), with the operator's limits.
    pub fn limited(
        files: ImageFiles,
        views: Arc<Views>,
        gateway: Arc<CommandGateway>,
        limits: ImageLimits,
    ) -> Arc<Self> {
        let (read, sender) = (Arc::clone(&views), Arc::clone(&gateway));
        let records = ImageRecords::new(read, sender, Some(files.clone()), limits.properties);
        Arc::new(Self { files, views, gateway, records, limits, creates: ProjectTurns::default() })
    }

    /// The limit of an image's properties.
    pub fn property_limit(&self) -> PropertyLimit {
        self.limits.properties
    }

    /// Waits for the owner's turn to create an image; `None` if there is no owner or no limit. The caller drops the
    /// turn when the read models show the image. `OverQuota`: the owner already has as many images as the limit allows.
    pub async fn turn(&self, owner: Option<&ProjectId>) -> Result<Option<ProjectTurn>, ImageReject> {
        let (Some(owner), Some(limit)) = (owner, self.limits.images) else { return Ok(None) };
        let turn = self.creates.turn(owner).await;
        match self.views.images.read(|images| images.count_of(owner)) < limit {
            true => Ok(Some(turn)),
            false => Err(ImageReject::OverQuota { limit }),
        }
    }

    /// Abandons uploads that a crash has interrupted. Removes all files except those of images with stored data. Call
    /// it before requests are served, when the read models have caught up.
    pub async fn recover(&self, gateway: &CommandGateway) -> Result<(), PortError> {
        let images = self.views.images.read(chronova_projections::images::ImagesView::all);
        for image in &images {
            let ImageContent::Saving { upload } = image.content else { continue };
            let command =
                ImageCommand::AbandonUpload { upload, reason: "the service was stopped meanwhile".to_owned() };
            gateway
                .send::<ImageRoot>(&image.id, command, Meta::system("image-recovery"))
                .await
                .map_err(|error| PortError::Unavailable(error.to_string()))?;
        }
        let kept: BTreeSet<ImageId> =
            images.iter().filter(|image| image.content.stored().is_some()).map(|image| image.id).collect();
        let files = self.files.clone();
        let missing = tokio::task::spawn_blocking(move || files.sweep(&kept))
            .await
            .map_err(|error| PortError::Unavailable(error.to_string()))?
            .map_err(|error| {
                PortError::Unavailable(format!("removing the files that belong to no image failed: {error}"))
            })?;
        for image in missing {
            tracing::error!(%image, "the bytes of an image are missing: restore them from a backup, or delete the image");
        }
        Ok(())
    }
}

impl EmbeddedImages {
    /// Sends a command, and waits until the read models show its events.
    async fn send(&self, image: ImageId, command: ImageCommand, meta: &Arc<Meta>) -> Result<(), PortError> {
        let committed = self.gateway.send::<ImageRoot>(&image, command, Arc::clone(meta)).await.map_err(port_error)?;
        match self.views.wait_for(committed.position, PATIENCE).await {
            true => Ok(()),
            false => Err(PortError::Unavailable("the image read models lag behind".to_owned())),
        }
    }
}

/// The longest wait of a call for the read models, which lag by microseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn port_error(error: CommandError<ImageReject>) -> PortError {
    let reject = match error {
        CommandError::Rejected(reject) => reject,
        CommandError::Unavailable(error) => return PortError::Unavailable(error.to_string()),
    };
    let message = reject.to_string();
    match reject {
        ImageReject::NotFound => PortError::NotFound(message),
        ImageReject::Protected => PortError::Forbidden(message),
        ImageReject::IdTaken(_) | ImageReject::NotInState { .. } => PortError::Conflict(message),
        ImageReject::TooMany { .. } | ImageReject::TooLarge { .. } | ImageReject::OverQuota { .. } => {
            PortError::Forbidden(message)
        }
        _ => PortError::Invalid(message),
    }
}

/// Whether hypervisors can boot from images of this format.
fn is_bootable(format: &str) -> bool {
    matches!(format, "raw" | "qcow2" | "iso")
}

pub fn snapshot(image: &ImageRecord) -> Result<ImageSnapshot, PortError> {
    let ImageContent::Active(stored) = &image.content else {
        return Err(PortError::Invalid(format!("Image {} is not active.", image.id)));
    };
    let attributes = &image.attributes;
    let format = attributes.disk_format.clone().unwrap_or_default();
    if !is_bootable(&format) {
        let reason = format!("disk format {format} is not supported");
        return Err(PortError::Invalid(format!("Image {} is unacceptable: {reason}", image.id)));
    }
    Ok(ImageSnapshot {
        id: image.id,
        name: attributes.name.clone().unwrap_or_default(),
        checksum: stored.sha512.clone(),
        format,
        size: stored.size,
        virtual_size: stored.virtual_size.unwrap_or(stored.size),
        min_memory_mib: u64::from(attributes.min_ram_mib),
        min_disk_gib: attributes.min_disk_gib,
        properties: attributes.properties.clone(),
    })
}

#[async_trait]
impl ImageService for EmbeddedImages {
    async fn find(&self, image: ImageId, project: &ProjectId, is_admin: bool) -> Result<ImageSnapshot, PortError> {
        let found = self.views.images.read(|images| images.get(image));
        match found.filter(|found| is_visible(found, Some(project), is_admin)) {
            Some(found) => snapshot(&found),
            None => Err(PortError::NotFound(format!("Image {image} could not be found."))),
        }
    }

    async fn create(&self, draft: ImageDraft, meta: Arc<Meta>) -> Result<(), PortError> {
        let attributes = ImageAttributes {
            name: Some(draft.name),
            owner: Some(draft.owner),
            visibility: Visibility::Private,
            disk_format: Some(draft.format),
            container_format: Some("bare".to_owned()),
            min_disk_gib: draft.min_disk_gib,
            min_ram_mib: u32::try_from(draft.min_memory_mib).unwrap_or(u32::MAX),
            protected: false,
            hidden: false,
            tags: Vec::new(),
            properties: draft.properties,
        };
        let image = draft.image;
        // A repeated request finds its image, even if there is no room for one more by now.
        if let Ok(state) = self.gateway.look::<ImageRoot>(&image).await
            && state.here().is_some_and(|known| known.attributes.owner == attributes.owner)
        {
            return Ok(());
        }
        let turn = self.turn(attributes.owner.as_ref()).await;
        let _turn = turn.map_err(|reject| port_error(CommandError::Rejected(reject)))?;
        self.send(image, ImageCommand::Create(ImageCreated { image, attributes }, self.limits.properties), &meta).await
    }

    async fn format_of(&self, image: ImageId, _: &Arc<Meta>) -> Result<String, PortError> {
        let gone = || PortError::NotFound(format!("Image {image} could not be found."));
        let state = self.gateway.look::<ImageRoot>(&image).await;
        let state = state.map_err(|error| PortError::Unavailable(error.to_string()))?;
        let known = state.here().ok_or_else(gone)?;
        Ok(known.attributes.disk_format.clone().unwrap_or_default())
    }

    async fn upload(&self, image: ImageId, bytes: ByteStream, meta: Arc<Meta>) -> Result<(), PortError> {
        let gone = || PortError::NotFound(format!("Image {image} could not be found."));
        let found = match self.gateway.look::<ImageRoot>(&image).await {
            Ok(state) => state.here().cloned().ok_or_else(gone)?,
            Err(error) => return Err(PortError::Unavailable(error.to_string())),
        };
        if matches!(found.content, ImageContent::Active(_) | ImageContent::Deactivated(_)) {
            return Ok(());
        }
        // The log may have the start of an upload whose reply was lost. A repeated step has the same id, so it
        // continues that upload. A user's upload has another id, and is refused meanwhile.
        let upload = UploadId::derive(image.0, "upload");
        self.send(image, ImageCommand::StartUpload(upload), &meta).await?;
        let format = found.attributes.disk_format.unwrap_or_default();
        let stored = self.files.receive(IncomingUpload { image, upload, format, announced: None }, bytes).await;
        let error = match stored {
            Ok(stored) => match self.send(image, ImageCommand::Store(stored), &meta).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    // Only a final refusal shows that the image is gone. After any other error, the image may still
                    // need the file.
                    if !matches!(error, PortError::Unavailable(_)) {
                        let _ = self.files.remove(image).await;
                    }
                    return Err(error);
                }
            },
            Err(ReceiveError::Sender(reason)) => PortError::Unavailable(reason),
            Err(error @ (ReceiveError::Full | ReceiveError::TooLarge(_))) => PortError::Forbidden(error.to_string()),
            Err(error) => PortError::Invalid(error.to_string()),
        };
        self.send(image, ImageCommand::AbandonUpload { upload, reason: error.to_string() }, &meta).await?;
        Err(error)
    }

    async fn delete(&self, image: ImageId, meta: Arc<Meta>) -> Result<(), PortError> {
        self.send(image, ImageCommand::Delete, &meta).await?;
        if let Err(error) = self.files.remove(image).await {
            tracing::warn!(%image, %error, "removing the file of a deleted image failed");
        }
        Ok(())
    }

    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError> {
        let Some(like) = self.views.images.read(|images| images.get(like)) else { return Ok(Vec::new()) };
        let own =
            |image: &ImageRecord| image.attributes.owner.is_some() && image.attributes.owner == like.attributes.owner;
        let instance = instance.to_string();
        let wanted = [("instance_uuid", instance.as_str()), ("image_type", "backup"), ("backup_type", kind)];
        let says = |image: &ImageRecord, name: &str, value: &str| {
            image.attributes.properties.iter().any(|(key, has)| key == name && has == value)
        };
        let mut found = self.views.images.read(chronova_projections::images::ImagesView::all);
        found.retain(|image| {
            matches!(image.content, ImageContent::Active(_))
                && own(image)
                && wanted.iter().all(|(name, value)| says(image, name, value))
        });
        found.sort_by_key(|image| std::cmp::Reverse((image.created_at, image.id)));
        Ok(found.iter().map(|image| image.id).collect())
    }

    fn resources(&self) -> Option<&dyn ImageResources> {
        Some(&self.records)
    }
}

#[async_trait]
impl ImageSource for EmbeddedImages {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        let unusable = |reason: String| DriverError::BadImage { image: image.id.to_string(), reason };
        let found = self.views.images.read(|images| images.get(image.id));
        let same = found.as_ref().and_then(|found| found.content.stored()).is_some_and(|s| s.sha512 == image.checksum);
        if !same {
            return Err(unusable("it is no longer there".to_owned()));
        }
        self.files.read(image.id, 0, None).await.map_err(|error| unusable(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::collections::BTreeMap;

    use chronova_events::envelope::Timestamp;
    use chronova_events::ids::UploadId;
    use chronova_events::image::{ContentStored, ImageAttributes, Visibility};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_active_images_of_bootable_formats_are_given_out() {
        let id = ImageId(Uuid::from_u128(1));
        let attributes = ImageAttributes {
            name: None,
            owner: None,
            visibility: Visibility::Public,
            disk_format: Some("raw".into()),
            container_format: Some("bare".into()),
            min_disk_gib: 3,
            min_ram_mib: 64,
            protected: false,
            hidden: false,
            tags: vec![],
            properties: vec![],
        };
        let stored = ContentStored {
            image: id,
            upload: UploadId(Uuid::nil()),
            size: 5,
            virtual_size: Some(5),
            checksum: "m".into(),
            sha512: "s".into(),
        };
        let mut image = ImageRecord {
            id,
            attributes,
            content: ImageContent::Queued,
            members: BTreeMap::new(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        };
        assert!(matches!(snapshot(&image), Err(PortError::Invalid(text)) if text.contains("not active")));
        image.content = ImageContent::Active(stored);
        let given = snapshot(&image).unwrap();
        assert_eq!((given.checksum.as_str(), given.virtual_size, given.min_disk_gib), ("s", 5, 3));
        image.attributes.disk_format = Some("vmdk".into());
        assert!(matches!(snapshot(&image), Err(PortError::Invalid(text)) if text.contains("vmdk")));
    }
}
