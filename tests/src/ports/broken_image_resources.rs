//! The users' side of [`BrokenImages`], which breaks one chosen promise. A case of the conformance suite must detect
//! it.

use async_trait::async_trait;
use chronova_actors::ports::{ImageInfo, ImageListRequest, ImageResources, PortError, PropertyChange, ServiceCaller};
use chronova_events::ids::ImageId;

use super::broken_images::{BrokenImages, ImageFault};

impl BrokenImages {
    fn whole(&self) -> &dyn ImageResources {
        self.images.resources().unwrap()
    }

    /// The caller. If this service has the fault `fault`, the caller becomes an administrator.
    fn raised(&self, caller: &ServiceCaller, fault: ImageFault) -> ServiceCaller {
        ServiceCaller { is_admin: caller.is_admin || self.fault == fault, ..caller.clone() }
    }
}

#[async_trait]
impl ImageResources for BrokenImages {
    async fn show(&self, image: ImageId, caller: &ServiceCaller) -> Result<ImageInfo, PortError> {
        self.whole().show(image, &self.raised(caller, ImageFault::ShowsAllUsers)).await
    }

    async fn list(&self, request: &ImageListRequest, caller: &ServiceCaller) -> Result<Vec<ImageInfo>, PortError> {
        let mut listed = self.whole().list(request, caller).await?;
        if self.fault == ImageFault::ListsOldestFirst {
            listed.reverse();
        }
        Ok(listed)
    }

    async fn change_properties(
        &self,
        image: ImageId,
        change: PropertyChange,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let remove = if self.fault == ImageFault::RemovesNoProperty { Vec::new() } else { change.remove };
        self.whole().change_properties(image, PropertyChange { remove, set: change.set }, caller).await
    }

    async fn delete(&self, image: ImageId, caller: &ServiceCaller) -> Result<(), PortError> {
        self.whole().delete(image, &self.raised(caller, ImageFault::DeletesForAll)).await
    }
}
