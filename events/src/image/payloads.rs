//! The payloads, frozen at their version.

use serde::{Deserialize, Serialize};

use crate::ids::{ImageId, ProjectId, UploadId};

/// The visibility of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Visibility {
    /// Everybody sees the image in every list.
    Public,
    /// Every project that knows the id sees the image.
    Community,
    /// Only the owner and the projects to which the image is offered see the image.
    Shared,
    /// Only the owner sees the image.
    Private,
}

impl Visibility {
    pub const ALL: [Self; 4] = [Self::Community, Self::Public, Self::Private, Self::Shared];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Community => "community",
            Self::Shared => "shared",
            Self::Private => "private",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|visibility| visibility.as_str() == text)
    }
}

/// A project's answer to the offer of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MemberStatus {
    Pending,
    Accepted,
    Rejected,
}

impl MemberStatus {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Accepted, Self::Rejected];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// The properties of an image that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageAttributes {
    pub name: Option<String>,
    pub owner: Option<ProjectId>,
    pub visibility: Visibility,
    /// For example `raw`, `qcow2` or `iso`. It must be set before data is uploaded.
    pub disk_format: Option<String>,
    pub container_format: Option<String>,
    pub min_disk_gib: u32,
    pub min_ram_mib: u32,
    pub protected: bool,
    pub hidden: bool,
    /// Sorted, without duplicates.
    pub tags: Vec<String>,
    /// Name and value, sorted by name.
    pub properties: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageCreated {
    pub image: ImageId,
    pub attributes: ImageAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageDescribed {
    pub image: ImageId,
    pub attributes: ImageAttributes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UploadStarted {
    pub image: ImageId,
    pub upload: UploadId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UploadAbandoned {
    pub image: ImageId,
    pub upload: UploadId,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContentStored {
    pub image: ImageId,
    pub upload: UploadId,
    pub size: u64,
    /// The size in bytes that a guest sees; `None` if the format does not record it.
    pub virtual_size: Option<u64>,
    /// The MD5 in lower-case hex, which old clients compare.
    pub checksum: String,
    /// The SHA-512 in lower-case hex.
    pub sha512: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageDeactivated {
    pub image: ImageId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageReactivated {
    pub image: ImageId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberInvited {
    pub image: ImageId,
    pub member: ProjectId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberAnswered {
    pub image: ImageId,
    pub member: ProjectId,
    pub status: MemberStatus,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberRemoved {
    pub image: ImageId,
    pub member: ProjectId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageDeleted {
    pub image: ImageId,
}
