//! Images as their users manage them through Nova's old API (`/images` until 2.35).
//!
//! The service checks the user's rights. A client of Glance sends the user's token, and the embedded service calls
//! [`ServiceCaller::may`].
//!
//! | call | Glance's part in it |
//! |---|---|
//! | `show` | `GET images/{id}` |
//! | `list` | `GET images`, page by page |
//! | `change_properties` | `PATCH images/{id}` |
//! | `delete` | `DELETE images/{id}` |

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::ImageId;
use chronova_events::instance::SortedPairs;

use super::{PortError, ServiceCaller};

/// An image of any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    pub id: ImageId,
    pub name: Option<String>,
    /// Glance's status: `queued`, `saving`, `active`, ...
    pub status: String,
    /// The size in bytes; `None` for an image without data.
    pub size: Option<u64>,
    pub min_disk_gib: u32,
    pub min_memory_mib: u32,
    pub properties: SortedPairs,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The parameters `visibility` and `member_status` of Glance's list, as the user gave them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageListRequest {
    pub visibility: Option<String>,
    pub member_status: Option<String>,
}

/// A change of an image's properties. It applies completely or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PropertyChange {
    /// The properties to remove, which must all exist.
    pub remove: Vec<String>,
    /// The properties to add or to replace.
    pub set: Vec<(String, String)>,
}

/// The images of users.
#[async_trait]
pub trait ImageResources: Send + Sync {
    /// The image, if the caller may see it.
    async fn show(&self, image: ImageId, caller: &ServiceCaller) -> Result<ImageInfo, PortError>;

    /// The images in the caller's list, newest first. `Invalid`: a parameter has an unknown value.
    async fn list(&self, request: &ImageListRequest, caller: &ServiceCaller) -> Result<Vec<ImageInfo>, PortError>;

    /// Changes the properties of an image. `Forbidden`: the caller may see the image, but not change it. `Invalid`: the
    /// image would have too many properties.
    async fn change_properties(
        &self,
        image: ImageId,
        change: PropertyChange,
        caller: &ServiceCaller,
    ) -> Result<(), PortError>;

    /// Deletes an image with its data. `Forbidden`: the image is protected, or the caller may see it but not delete it.
    async fn delete(&self, image: ImageId, caller: &ServiceCaller) -> Result<(), PortError>;
}
