//! The state of a volume, folded from its events.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    AttachMode, SnapshotStatus, VolumeCreated, VolumeEvent, VolumeImage, VolumeMetadata, VolumeSnapshotRequested,
    VolumeStatus,
};
use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{AttachmentId, HostId, InstanceId, ProcessId, SnapshotId};
use crate::instance::FaultInfo;

/// The state of one volume id.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Volume {
    #[default]
    Unknown,
    Here(Arc<VolumeRecord>),
    Deleted,
}

/// A volume that exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// The creation as requested. Name, size and the like are below, with their present values.
    pub created: VolumeCreated,
    pub status: VolumeStatus,
    pub name: String,
    pub description: Option<String>,
    pub metadata: VolumeMetadata,
    pub size_gb: u32,
    pub bootable: bool,
    pub readonly: bool,
    pub image: Option<VolumeImage>,
    /// The host that stores the content, and the host's name; `None` before the content exists.
    pub place: Option<(HostId, String)>,
    /// `raw` or `qcow2`.
    pub format: String,
    pub attachments: BTreeMap<AttachmentId, Attachment>,
    pub snapshots: BTreeMap<SnapshotId, VolumeSnapshot>,
    /// The process that works on the volume itself.
    pub ongoing: Option<ProcessId>,
    /// The last process that writes, has written or has failed to write an image over the content. Its id shows that a
    /// request is repeated, and must not start the work again.
    pub reimaged_by: Option<ProcessId>,
    /// The state before the operation under way. The volume returns to this state when an upload ends, or when an
    /// extension or a reimage succeeds.
    pub before: VolumeStatus,
    pub fault: Option<FaultInfo>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// One use of a volume by a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    pub instance: Option<InstanceId>,
    pub host: Option<String>,
    pub device: Option<String>,
    pub mode: AttachMode,
    /// Whether the attachment to the server is complete.
    pub complete: bool,
    pub reserved_at: Timestamp,
    pub attached_at: Option<Timestamp>,
}

impl Attachment {
    /// Cinder's status of the attachment.
    pub const fn status(&self) -> &'static str {
        match (self.complete, self.host.is_some()) {
            (true, _) => "attached",
            (false, true) => "attaching",
            (false, false) => "reserved",
        }
    }
}

/// A snapshot of a volume's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSnapshot {
    pub requested: VolumeSnapshotRequested,
    pub status: SnapshotStatus,
    pub name: String,
    pub description: Option<String>,
    pub metadata: VolumeMetadata,
    pub size_gb: u32,
    /// Whether the copy was completed once. If so, the snapshot has data for a user, whatever its present status.
    pub made: bool,
    pub process: Option<ProcessId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Volume {
    pub fn here(&self) -> Option<&Arc<VolumeRecord>> {
        match self {
            Self::Here(record) => Some(record),
            Self::Unknown | Self::Deleted => None,
        }
    }
}

impl VolumeRecord {
    fn new(created: &VolumeCreated, at: Timestamp) -> Self {
        Self {
            status: VolumeStatus::Creating,
            name: created.name.clone(),
            description: created.description.clone(),
            metadata: created.metadata.clone(),
            size_gb: created.size_gb,
            bootable: created.bootable,
            readonly: false,
            image: created.image.clone(),
            place: None,
            format: String::new(),
            attachments: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            ongoing: Some(created.process),
            reimaged_by: None,
            before: VolumeStatus::Available,
            fault: None,
            created_at: at,
            updated_at: at,
            created: created.clone(),
        }
    }

    /// The status that follows from the attachments. As in Cinder, the most advanced attachment decides.
    pub fn status_of_attachments(&self) -> VolumeStatus {
        let any = |word: &str| self.attachments.values().any(|attachment| attachment.status() == word);
        match () {
            () if any("attached") => VolumeStatus::InUse,
            () if any("attaching") => VolumeStatus::Attaching,
            () if any("reserved") => VolumeStatus::Reserved,
            () => VolumeStatus::Available,
        }
    }

    /// Sets the status, unless the volume is in error. A volume in error stays so, even after its server releases it.
    fn advance(&mut self, status: VolumeStatus) {
        if self.status != VolumeStatus::Error {
            self.status = status;
        }
    }

    fn begin(&mut self, process: ProcessId, status: VolumeStatus) {
        self.before = self.status;
        self.status = status;
        self.ongoing = Some(process);
    }
}

impl Fold for Volume {
    type Event = VolumeEvent;
    const STATE_VERSION: u32 = 3;

    fn evolve(&mut self, event: &VolumeEvent, at: Timestamp) {
        match (event, &mut *self) {
            (VolumeEvent::VolumeCreated(created), _) => *self = Self::Here(Arc::new(VolumeRecord::new(created, at))),
            (VolumeEvent::VolumeDeleted(_), _) => *self = Self::Deleted,
            (_, Self::Here(record)) => {
                let record = Arc::make_mut(record);
                record.updated_at = at;
                record.evolve(event, at);
                record.evolve_snapshots(event, at);
            }
            (_, Self::Unknown | Self::Deleted) => {}
        }
    }
}

impl VolumeRecord {
    fn evolve(&mut self, event: &VolumeEvent, at: Timestamp) {
        match event {
            VolumeEvent::VolumeReady(ready) => {
                self.place = Some((ready.host, ready.hostname.clone()));
                self.format.clone_from(&ready.format);
                self.status = VolumeStatus::Available;
                self.ongoing = None;
            }
            VolumeEvent::VolumeFailed(failed) => {
                self.status = match self.status {
                    VolumeStatus::Deleting => VolumeStatus::ErrorDeleting,
                    VolumeStatus::Extending => VolumeStatus::ErrorExtending,
                    _ => VolumeStatus::Error,
                };
                self.fault = Some(failed.fault.clone());
                self.ongoing = None;
            }
            VolumeEvent::VolumeDescribed(described) => {
                self.name.clone_from(&described.name);
                self.description.clone_from(&described.description);
                self.metadata.clone_from(&described.metadata);
            }
            VolumeEvent::VolumeFlagged(flags) => (self.bootable, self.readonly) = (flags.bootable, flags.readonly),
            VolumeEvent::ImageMetadataReplaced(replaced) => self.image.clone_from(&replaced.image),
            VolumeEvent::ExtendRequested(asked) => self.begin(asked.process, VolumeStatus::Extending),
            VolumeEvent::VolumeExtended(extended) => {
                self.size_gb = extended.size_gb;
                (self.status, self.ongoing) = (self.before, None);
            }
            VolumeEvent::UploadRequested(asked) => self.begin(asked.process, VolumeStatus::Uploading),
            VolumeEvent::UploadEnded(_) => (self.status, self.ongoing) = (self.before, None),
            VolumeEvent::ReimageRequested(asked) => {
                self.begin(asked.process, VolumeStatus::Downloading);
                self.image = Some(asked.image.clone());
                self.reimaged_by = Some(asked.process);
            }
            VolumeEvent::VolumeReimaged(_) => (self.status, self.ongoing) = (self.before, None),
            VolumeEvent::StatusChanged(changed) => self.status = changed.status,
            VolumeEvent::StatusReset(reset) => {
                self.status = reset.status.unwrap_or(self.status);
                if reset.detached {
                    self.attachments.clear();
                }
            }
            VolumeEvent::VolumeDeleteRequested(asked) => self.begin(asked.process, VolumeStatus::Deleting),
            _ => self.evolve_attachments(event, at),
        }
    }

    fn evolve_attachments(&mut self, event: &VolumeEvent, at: Timestamp) {
        match event {
            VolumeEvent::AttachmentReserved(reserved) => {
                let attachment = Attachment {
                    instance: reserved.instance,
                    host: None,
                    device: None,
                    mode: reserved.mode,
                    complete: false,
                    reserved_at: at,
                    attached_at: None,
                };
                self.attachments.insert(reserved.attachment, attachment);
                self.advance(VolumeStatus::Reserved);
            }
            VolumeEvent::AttachmentConnected(connected) => {
                if let Some(attachment) = self.attachments.get_mut(&connected.attachment) {
                    attachment.host = Some(connected.host.clone());
                    attachment.device.clone_from(&connected.device);
                    attachment.mode = connected.mode;
                    self.advance(VolumeStatus::Attaching);
                }
            }
            VolumeEvent::AttachmentCompleted(completed) => {
                if let Some(attachment) = self.attachments.get_mut(&completed.attachment) {
                    attachment.complete = true;
                    attachment.attached_at = Some(at);
                    self.advance(VolumeStatus::InUse);
                }
            }
            VolumeEvent::AttachmentReleased(released) => {
                self.attachments.remove(&released.attachment);
                self.advance(self.status_of_attachments());
            }
            _ => {}
        }
    }

    fn evolve_snapshots(&mut self, event: &VolumeEvent, at: Timestamp) {
        let mut change = |id: &SnapshotId, with: &dyn Fn(&mut VolumeSnapshot)| {
            if let Some(snapshot) = self.snapshots.get_mut(id) {
                snapshot.updated_at = at;
                with(snapshot);
            }
        };
        match event {
            VolumeEvent::VolumeSnapshotRequested(asked) => {
                let snapshot = VolumeSnapshot {
                    requested: asked.clone(),
                    status: SnapshotStatus::Creating,
                    name: asked.name.clone(),
                    description: asked.description.clone(),
                    metadata: asked.metadata.clone(),
                    size_gb: self.size_gb,
                    made: false,
                    process: Some(asked.process),
                    created_at: at,
                    updated_at: at,
                };
                self.snapshots.insert(asked.snapshot, snapshot);
            }
            VolumeEvent::SnapshotReady(ready) => change(&ready.snapshot, &|snapshot| {
                (snapshot.status, snapshot.made, snapshot.process) = (SnapshotStatus::Available, true, None);
            }),
            VolumeEvent::VolumeSnapshotFailed(failed) => change(&failed.snapshot, &|snapshot| {
                snapshot.status = match snapshot.status {
                    SnapshotStatus::Deleting => SnapshotStatus::ErrorDeleting,
                    _ => SnapshotStatus::Error,
                };
                snapshot.process = None;
            }),
            VolumeEvent::SnapshotDescribed(described) => change(&described.snapshot, &|snapshot| {
                snapshot.name.clone_from(&described.name);
                snapshot.description.clone_from(&described.description);
                snapshot.metadata.clone_from(&described.metadata);
            }),
            VolumeEvent::SnapshotReset(reset) => change(&reset.snapshot, &|snapshot| snapshot.status = reset.status),
            VolumeEvent::SnapshotDeleteRequested(asked) => change(&asked.snapshot, &|snapshot| {
                (snapshot.status, snapshot.process) = (SnapshotStatus::Deleting, Some(asked.process));
            }),
            VolumeEvent::SnapshotDeleted(deleted) => {
                self.snapshots.remove(&deleted.snapshot);
            }
            _ => {}
        }
    }
}
