//! The state of an image, folded from its events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ContentStored, ImageAttributes, ImageEvent, MemberStatus};
use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ImageId, ProjectId, UploadId};

/// The state of an image's data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ImageContent {
    Queued,
    Saving { upload: UploadId },
    Active(ContentStored),
    Deactivated(ContentStored),
}

impl ImageContent {
    /// Glance's status.
    pub const fn status(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Saving { .. } => "saving",
            Self::Active(_) => "active",
            Self::Deactivated(_) => "deactivated",
        }
    }

    pub const fn stored(&self) -> Option<&ContentStored> {
        match self {
            Self::Active(stored) | Self::Deactivated(stored) => Some(stored),
            Self::Queued | Self::Saving { .. } => None,
        }
    }
}

/// A project to which an image is offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageMember {
    pub status: MemberStatus,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An image that exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageRecord {
    pub id: ImageId,
    pub attributes: ImageAttributes,
    pub content: ImageContent,
    pub members: BTreeMap<ProjectId, ImageMember>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The state of one image id.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Image {
    #[default]
    Unknown,
    Here(Box<ImageRecord>),
    Deleted,
}

impl Image {
    pub fn here(&self) -> Option<&ImageRecord> {
        match self {
            Self::Here(record) => Some(record),
            Self::Unknown | Self::Deleted => None,
        }
    }
}

impl Fold for Image {
    type Event = ImageEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &ImageEvent, at: Timestamp) {
        match (event, &mut *self) {
            (ImageEvent::ImageCreated(e), _) => {
                *self = Self::Here(Box::new(ImageRecord {
                    id: e.image,
                    attributes: e.attributes.clone(),
                    content: ImageContent::Queued,
                    members: BTreeMap::new(),
                    created_at: at,
                    updated_at: at,
                }));
            }
            (ImageEvent::ImageDeleted(_), _) => *self = Self::Deleted,
            (_, Self::Here(record)) => record.evolve(event, at),
            (_, Self::Unknown | Self::Deleted) => {}
        }
    }
}

impl ImageRecord {
    fn evolve(&mut self, event: &ImageEvent, at: Timestamp) {
        self.updated_at = at;
        match event {
            ImageEvent::ImageCreated(_) | ImageEvent::ImageDeleted(_) => {}
            ImageEvent::ImageDescribed(e) => self.attributes = e.attributes.clone(),
            ImageEvent::UploadStarted(e) => self.content = ImageContent::Saving { upload: e.upload },
            ImageEvent::UploadAbandoned(_) => self.content = ImageContent::Queued,
            ImageEvent::ContentStored(e) => self.content = ImageContent::Active(e.clone()),
            ImageEvent::ImageDeactivated(_) => {
                if let ImageContent::Active(stored) = &self.content {
                    self.content = ImageContent::Deactivated(stored.clone());
                }
            }
            ImageEvent::ImageReactivated(_) => {
                if let ImageContent::Deactivated(stored) = &self.content {
                    self.content = ImageContent::Active(stored.clone());
                }
            }
            ImageEvent::MemberInvited(e) => {
                let member = ImageMember { status: MemberStatus::Pending, created_at: at, updated_at: at };
                self.members.insert(e.member.clone(), member);
            }
            ImageEvent::MemberAnswered(e) => {
                if let Some(member) = self.members.get_mut(&e.member) {
                    member.status = e.status;
                    member.updated_at = at;
                }
            }
            ImageEvent::MemberRemoved(e) => {
                self.members.remove(&e.member);
            }
        }
    }
}
