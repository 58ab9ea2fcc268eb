//! Images: one stream per image. The data is in files; the events name the valid file.
//!
//! Invariants: one event ([`ContentStored`]) records an image's content, after every byte is on disk and inspected. The
//! content never changes afterwards. A failed upload leaves the image unchanged.

mod payloads;
mod state;

pub use payloads::*;
pub use state::{Image, ImageContent, ImageMember, ImageRecord};

noun! {
    /// Events of an image.
    ImageEvent = "image" {
        /// An image was created; it has no data yet.
        ImageCreated = "created" @ 1,
        /// The attributes of the image were changed to these values.
        ImageDescribed = "described" @ 1,
        /// An upload began.
        UploadStarted = "upload_started" @ 1,
        /// The upload stopped, or its data does not match the image's properties.
        UploadAbandoned = "upload_abandoned" @ 1,
        /// The data is complete, inspected and on disk.
        ContentStored = "content_stored" @ 1,
        /// An administrator deactivated the image.
        ImageDeactivated = "deactivated" @ 1,
        /// The image can be downloaded again.
        ImageReactivated = "reactivated" @ 1,
        /// The image is offered to a project.
        MemberInvited = "member_invited" @ 1,
        /// The project accepted or rejected the image, or set its answer back to pending.
        MemberAnswered = "member_answered" @ 1,
        /// The image is no longer offered to a project.
        MemberRemoved = "member_removed" @ 1,
        /// The image is deleted; its id stays taken.
        ImageDeleted = "deleted" @ 1,
    }
}

/// One example of each event.
pub fn samples() -> Vec<ImageEvent> {
    use uuid::Uuid;

    use crate::ids::{ImageId, ProjectId, UploadId};

    let image = ImageId(Uuid::from_u128(1));
    let upload = UploadId(Uuid::from_u128(2));
    let member = ProjectId::new("p2");
    let attributes = ImageAttributes {
        name: Some("cirros".into()),
        owner: Some(ProjectId::new("p1")),
        visibility: Visibility::Shared,
        disk_format: Some("qcow2".into()),
        container_format: Some("bare".into()),
        min_disk_gib: 1,
        min_ram_mib: 64,
        protected: false,
        hidden: false,
        tags: vec!["small".into()],
        properties: vec![("hw_disk_bus".into(), "virtio".into())],
    };
    vec![
        ImageCreated { image, attributes: attributes.clone() }.into(),
        ImageDescribed { image, attributes: ImageAttributes { visibility: Visibility::Public, ..attributes } }.into(),
        UploadStarted { image, upload }.into(),
        UploadAbandoned { image, upload, reason: "the sender went away".into() }.into(),
        ContentStored {
            image,
            upload,
            size: 13_287_936,
            virtual_size: Some(117_440_512),
            checksum: "0123456789abcdef0123456789abcdef".into(),
            sha512: "ab".repeat(64),
        }
        .into(),
        ImageDeactivated { image }.into(),
        ImageReactivated { image }.into(),
        MemberInvited { image, member: member.clone() }.into(),
        MemberAnswered { image, member: member.clone(), status: MemberStatus::Accepted }.into(),
        MemberRemoved { image, member }.into(),
        ImageDeleted { image }.into(),
    ]
}
