//! Volumes: one stream per volume, with its attachments and snapshots, because they determine the allowed operations.
//!
//! Invariants: a volume with attachments cannot be deleted. A volume with snapshots can be deleted only together with
//! its snapshots. A long operation names its process, and only that process records its end.

mod payloads;
mod state;

pub use payloads::*;
pub use state::{Attachment, Volume, VolumeRecord, VolumeSnapshot};

noun! {
    /// Events of a volume.
    VolumeEvent = "volume" {
        /// A volume was requested; it is being created.
        VolumeCreated = "created" @ 1,
        /// The volume is created: its content is complete.
        VolumeReady = "ready" @ 1,
        /// The operation under way failed.
        VolumeFailed = "failed" @ 1,
        /// The volume's name, description and metadata were changed to these values.
        VolumeDescribed = "described" @ 1,
        /// The flags `bootable` and `readonly` of the volume were set.
        VolumeFlagged = "flagged" @ 1,
        /// The image metadata of the volume is now this.
        ImageMetadataReplaced = "image_metadata_replaced" @ 1,
        /// An extension was requested.
        ExtendRequested = "extend_requested" @ 1,
        /// The volume is extended.
        VolumeExtended = "extended" @ 1,
        /// The upload of the volume's content as an image was requested.
        UploadRequested = "upload_requested" @ 1,
        /// The upload ended. The image shows whether it succeeded.
        UploadEnded = "upload_ended" @ 1,
        /// The volume is reserved for a server.
        AttachmentReserved = "attachment_reserved" @ 1,
        /// The volume was connected to a host for the server.
        AttachmentConnected = "attachment_connected" @ 1,
        /// The volume is attached to the server.
        AttachmentCompleted = "attachment_completed" @ 1,
        /// The attachment to the server ended.
        AttachmentReleased = "attachment_released" @ 1,
        /// The state of the volume changed between two steps of an attachment.
        StatusChanged = "status_changed" @ 1,
        /// An administrator reset the volume's state.
        StatusReset = "status_reset" @ 1,
        /// A deletion was requested.
        VolumeDeleteRequested = "delete_requested" @ 1,
        /// The volume is deleted; its id stays taken.
        VolumeDeleted = "deleted" @ 1,
        /// A snapshot was requested; it is being created.
        VolumeSnapshotRequested = "snapshot_requested" @ 1,
        /// The snapshot is complete.
        SnapshotReady = "snapshot_ready" @ 1,
        /// The snapshot failed.
        VolumeSnapshotFailed = "snapshot_failed" @ 1,
        /// A snapshot's name, description and metadata were changed to these values.
        SnapshotDescribed = "snapshot_described" @ 1,
        /// An administrator reset a snapshot's state.
        SnapshotReset = "snapshot_reset" @ 1,
        /// The deletion of a snapshot was requested.
        SnapshotDeleteRequested = "snapshot_delete_requested" @ 1,
        /// The snapshot is deleted.
        SnapshotDeleted = "snapshot_deleted" @ 1,
        /// A reimage was requested: an image will replace the volume's content.
        ReimageRequested = "reimage_requested" @ 1,
        /// The image was written to the volume.
        VolumeReimaged = "reimaged" @ 1,
    }
}

/// One example of each event.
pub fn samples() -> Vec<VolumeEvent> {
    use uuid::Uuid;

    use crate::ids::{
        AttachmentId, HostId, ImageId, InstanceId, ProcessId, ProjectId, SnapshotId, UserId, VolumeId, VolumeTypeId,
    };
    use crate::instance::{FaultInfo, ImageSnapshot};

    let volume = VolumeId(Uuid::from_u128(1));
    let process = ProcessId(Uuid::from_u128(2));
    let snapshot = SnapshotId(Uuid::from_u128(3));
    let attachment = AttachmentId(Uuid::from_u128(4));
    let host = HostId(Uuid::from_u128(5));
    let image = ImageId(Uuid::from_u128(6));
    let fault = FaultInfo { code: 500, message: "no room".into(), details: "disk full".into() };
    let pairs = || vec![("purpose".to_owned(), "test".to_owned())];
    let made_of = VolumeImage {
        snapshot: ImageSnapshot {
            id: image,
            name: "cirros".into(),
            checksum: "ab".repeat(64),
            format: "qcow2".into(),
            size: 13_287_936,
            virtual_size: 117_440_512,
            min_memory_mib: 64,
            min_disk_gib: 1,
            properties: vec![("hw_disk_bus".into(), "virtio".into())],
        },
        extra: vec![("container_format".into(), "bare".into())],
    };
    let created = VolumeCreated {
        volume,
        process,
        project: ProjectId::new("p"),
        user: UserId::new("u"),
        name: "data".into(),
        description: Some("of the shop".into()),
        size_gb: 10,
        source: VolumeSource::Image(image),
        volume_type: VolumeTypeId(Uuid::from_u128(7)),
        multiattach: false,
        availability_zone: "nova".into(),
        metadata: pairs(),
        bootable: true,
        image: Some(made_of.clone()),
        host: Some(host),
    };
    let of = VolumeSource::Snapshot { snapshot, of: volume };
    vec![
        created.clone().into(),
        VolumeCreated { source: of, image: None, host: None, ..created.clone() }.into(),
        VolumeCreated { source: VolumeSource::Volume(volume), image: None, ..created.clone() }.into(),
        VolumeCreated { source: VolumeSource::Blank, image: None, ..created }.into(),
        VolumeReady { volume, process, host, hostname: "h1".into(), format: "qcow2".into() }.into(),
        VolumeFailed { volume, process, fault: fault.clone() }.into(),
        VolumeDescribed { volume, name: "data".into(), description: None, metadata: pairs() }.into(),
        VolumeFlagged { volume, bootable: true, readonly: false }.into(),
        ImageMetadataReplaced { volume, image: Some(made_of.clone()) }.into(),
        ExtendRequested { volume, process, size_gb: 20 }.into(),
        VolumeExtended { volume, process, size_gb: 20 }.into(),
        UploadRequested { volume, process, image }.into(),
        UploadEnded { volume, process }.into(),
        AttachmentReserved {
            volume,
            attachment,
            instance: Some(InstanceId(Uuid::from_u128(8))),
            mode: AttachMode::ReadWrite,
        }
        .into(),
        AttachmentConnected {
            volume,
            attachment,
            host: "h1".into(),
            device: Some("/dev/vdb".into()),
            mode: AttachMode::ReadOnly,
        }
        .into(),
        AttachmentCompleted { volume, attachment }.into(),
        AttachmentReleased { volume, attachment }.into(),
        StatusChanged { volume, status: VolumeStatus::Detaching }.into(),
        StatusReset { volume, status: Some(VolumeStatus::Available), detached: true }.into(),
        VolumeDeleteRequested { volume, process, cancels: Some(process) }.into(),
        VolumeDeleted { volume, process }.into(),
        VolumeSnapshotRequested {
            volume,
            snapshot,
            process,
            project: ProjectId::new("p"),
            user: UserId::new("u"),
            name: "before".into(),
            description: None,
            metadata: pairs(),
        }
        .into(),
        SnapshotReady { volume, snapshot, process }.into(),
        VolumeSnapshotFailed { volume, snapshot, process, fault }.into(),
        SnapshotDescribed { volume, snapshot, name: "before".into(), description: None, metadata: vec![] }.into(),
        SnapshotReset { volume, snapshot, status: SnapshotStatus::Error }.into(),
        SnapshotDeleteRequested { volume, snapshot, process }.into(),
        SnapshotDeleted { volume, snapshot, process }.into(),
        ReimageRequested { volume, process, image: made_of }.into(),
        VolumeReimaged { volume, process }.into(),
    ]
}
