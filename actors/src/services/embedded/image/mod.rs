//! An image: its attributes, its data, and the projects that may see it.
//!
//! The data is written and inspected outside the decision. [`ImageCommand::Store`] comes when the data is durable on
//! the disk.

pub mod access;
pub mod decide;
pub mod embedded;
pub mod files;
pub mod records;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{ImageId, ProjectId, UploadId};
use chronova_events::image::{ContentStored, Image, ImageCreated, ImageEvent, MemberStatus, Visibility};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum ImageRoot {}

/// One change of an image. The changes of a request are applied in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageChange {
    Name(Option<String>),
    Owner(Option<ProjectId>),
    Visibility(Visibility),
    DiskFormat(Option<String>),
    ContainerFormat(Option<String>),
    MinDisk(u32),
    MinRam(u32),
    Protected(bool),
    Hidden(bool),
    Tags(Vec<String>),
    AddTag(String),
    RemoveTag(String),
    /// Adds or replaces a property.
    SetProperty {
        name: String,
        value: String,
    },
    /// Replaces a property that must exist.
    ReplaceProperty {
        name: String,
        value: String,
    },
    RemoveProperty {
        name: String,
    },
}

#[derive(Debug, Clone)]
pub enum ImageCommand {
    Create(ImageCreated, PropertyLimit),
    /// Applies all changes, or none.
    Change(Vec<ImageChange>, PropertyLimit),
    StartUpload(UploadId),
    AbandonUpload {
        upload: UploadId,
        reason: String,
    },
    Store(ContentStored),
    Deactivate,
    Reactivate,
    Invite(ProjectId),
    Answer {
        member: ProjectId,
        status: MemberStatus,
    },
    RemoveMember(ProjectId),
    Delete,
}

/// `[glance] image_property_quota`: the most properties of an image; `None` means no limit but [`MAX_PROPERTY_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PropertyLimit(pub Option<usize>);

impl Default for PropertyLimit {
    /// Glance's default.
    fn default() -> Self {
        Self(Some(128))
    }
}

/// The limits of an image; Glance's defaults.
pub const MAX_TAGS: usize = 128;
pub const MAX_MEMBERS: usize = 128;
/// The most bytes in the names and the values of an image's properties together. Each change of an image writes all of
/// them into the log.
pub const MAX_PROPERTY_BYTES: usize = 64 << 10;
/// The default limit of images per project.
pub const MAX_IMAGES: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImageReject {
    #[error("there is no such image")]
    NotFound,
    #[error("an image with id {0} exists or existed")]
    IdTaken(ImageId),
    #[error("the image is protected")]
    Protected,
    #[error("the image cannot go from {from} to {to}")]
    NotInState { from: &'static str, to: &'static str },
    #[error("{0} can be changed only while the image has no bytes")]
    OnlyWhileQueued(&'static str),
    #[error("disk and container format must be known before bytes are sent")]
    FormatMissing,
    #[error("the image has no property {0}")]
    NoProperty(String),
    #[error("the image has no tag {0}")]
    NoTag(String),
    #[error("an image of container format {container} cannot have disk format {disk}")]
    FormatsDisagree { container: String, disk: String },
    #[error("an image may have at most {limit} {what}")]
    TooMany { what: &'static str, limit: usize },
    #[error("the properties of an image may have at most {limit} bytes together")]
    TooLarge { limit: usize },
    #[error("the project has reached its limit of {limit} images")]
    OverQuota { limit: usize },
    #[error("only shared images have members")]
    NotShared,
    #[error("project {0} is a member already")]
    MemberExists(ProjectId),
    #[error("project {0} is no member")]
    NoMember(ProjectId),
}

impl AggregateRoot for ImageRoot {
    type Id = ImageId;
    type State = Image;
    type Command = ImageCommand;
    type Reject = ImageReject;

    fn stream(id: &ImageId) -> StreamId {
        StreamId::new("image", id)
    }

    fn decide(state: &Image, command: ImageCommand) -> Result<Vec<ImageEvent>, ImageReject> {
        decide::decide(state, command)
    }

    fn has_ended(state: &Image) -> bool {
        matches!(state, Image::Deleted)
    }
}
