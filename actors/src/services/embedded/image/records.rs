//! The images of users, for Nova's old API: see [`ImageResources`].

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::ids::ImageId;
use chronova_events::image::ImageRecord;
use chronova_projections::images::{ImagesView, is_visible};
use chronova_projections::views::Views;

use super::access::{ImageScope, attributes};
use super::embedded::{PATIENCE, port_error};
use super::files::ImageFiles;
use super::{ImageChange, ImageCommand, ImageReject, ImageRoot, PropertyLimit};
use crate::aggregate::CommandError;
use crate::gateway::CommandGateway;
use crate::ports::{
    EmbeddedPolicy, ImageInfo, ImageListRequest, ImageResources, PortError, PropertyChange, ServiceCaller,
};

/// The records of images, and the files with their data.
#[derive(Debug)]
pub struct ImageRecords {
    views: Arc<Views>,
    gateway: Arc<CommandGateway>,
    /// The files; `None` if another service has the data.
    files: Option<ImageFiles>,
    properties: PropertyLimit,
}

impl ImageRecords {
    pub fn new(
        views: Arc<Views>,
        gateway: Arc<CommandGateway>,
        files: Option<ImageFiles>,
        properties: PropertyLimit,
    ) -> Self {
        Self { views, gateway, files, properties }
    }

    /// Sends a command, and waits until the read models show its events.
    async fn send(
        &self,
        image: ImageId,
        command: ImageCommand,
        caller: &ServiceCaller,
    ) -> Result<(), CommandError<ImageReject>> {
        let committed = self.gateway.send::<ImageRoot>(&image, command, Arc::clone(&caller.meta)).await?;
        if !self.views.wait_for(committed.position, PATIENCE).await {
            tracing::warn!(%image, "the image read models lag behind");
        }
        Ok(())
    }

    fn seen(&self, image: ImageId, caller: &ServiceCaller) -> Result<Arc<ImageRecord>, PortError> {
        let found = self.views.images.read(|images| images.get(image));
        let seen = found.filter(|found| is_visible(found, caller.project.as_ref(), caller.is_admin));
        seen.ok_or_else(|| PortError::NotFound(format!("Image {image} could not be found.")))
    }

    /// The image, if the caller may see it and the policy rule `rule` allows the operation.
    fn permitted(
        &self,
        image: ImageId,
        rule: &'static str,
        caller: &ServiceCaller,
    ) -> Result<Arc<ImageRecord>, PortError> {
        let found = self.seen(image, caller)?;
        let attributes = attributes(&found, caller.project.as_ref());
        match caller.may((EmbeddedPolicy::Image, rule), found.attributes.owner.as_ref(), &attributes) {
            true => Ok(found),
            false => Err(PortError::Forbidden(format!("Not authorized for image {image}."))),
        }
    }
}

fn info(image: &ImageRecord) -> ImageInfo {
    let attributes = &image.attributes;
    ImageInfo {
        id: image.id,
        name: attributes.name.clone(),
        status: image.content.status().to_owned(),
        size: image.content.stored().map(|stored| stored.size),
        min_disk_gib: attributes.min_disk_gib,
        min_memory_mib: attributes.min_ram_mib,
        properties: attributes.properties.clone(),
        created_at: image.created_at,
        updated_at: image.updated_at,
    }
}

#[async_trait]
impl ImageResources for ImageRecords {
    async fn show(&self, image: ImageId, caller: &ServiceCaller) -> Result<ImageInfo, PortError> {
        self.seen(image, caller).map(|found| info(&found))
    }

    async fn list(&self, request: &ImageListRequest, caller: &ServiceCaller) -> Result<Vec<ImageInfo>, PortError> {
        let scope = ImageScope::parse(request.visibility.as_deref(), request.member_status.as_deref());
        let scope = scope.map_err(PortError::Invalid)?;
        let mut found = self.views.images.read(ImagesView::all);
        found.retain(|image| scope.has(image, caller.project.as_ref(), caller.is_admin));
        found.sort_by_key(|image| Reverse((image.created_at, image.id)));
        Ok(found.iter().map(|image| info(image)).collect())
    }

    async fn change_properties(
        &self,
        image: ImageId,
        change: PropertyChange,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        self.permitted(image, "modify_image", caller)?;
        let removed = change.remove.into_iter().map(|name| ImageChange::RemoveProperty { name });
        let set = change.set.into_iter().map(|(name, value)| ImageChange::SetProperty { name, value });
        let command = ImageCommand::Change(removed.chain(set).collect(), self.properties);
        self.send(image, command, caller).await.map_err(|error| match error {
            CommandError::Rejected(ImageReject::TooMany { what, limit }) => PortError::Invalid(format!(
                "The limit has been exceeded on the number of allowed image {what}: {limit}."
            )),
            error => port_error(error),
        })
    }

    async fn delete(&self, image: ImageId, caller: &ServiceCaller) -> Result<(), PortError> {
        self.permitted(image, "delete_image", caller)?;
        self.send(image, ImageCommand::Delete, caller).await.map_err(port_error)?;
        // The image is deleted even if its file stays. The next start removes such a file.
        if let Some(files) = &self.files
            && let Err(error) = files.remove(image).await
        {
            tracing::warn!(%image, %error, "removing the file of a deleted image failed");
        }
        Ok(())
    }
}
