//! The volumes with their attachments and snapshots, the volume types, and every project's volume quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::{AttachmentId, ProjectId, SnapshotId, VolumeId};
use chronova_events::registry::Event;
use chronova_events::volume::{Volume, VolumeEvent, VolumeRecord, VolumeSnapshot};
use chronova_events::volume_quota::VolumeQuota;
use chronova_events::volume_type::VolumeTypes;
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct VolumesView {
    by_id: BTreeMap<VolumeId, Volume>,
    /// The volume of each snapshot.
    snapshots: BTreeMap<SnapshotId, VolumeId>,
    /// Deleted snapshots. A host that was down may still store them.
    gone: BTreeSet<SnapshotId>,
    /// The volume of each attachment.
    attachments: BTreeMap<AttachmentId, VolumeId>,
    by_project: BTreeMap<ProjectId, BTreeSet<VolumeId>>,
    pub types: VolumeTypes,
    pub quotas: BTreeMap<ProjectId, VolumeQuota>,
}

impl VolumesView {
    pub fn get(&self, id: VolumeId) -> Option<Arc<VolumeRecord>> {
        self.by_id.get(&id)?.here().cloned()
    }

    /// All volumes, or those of one project.
    pub fn of(&self, project: Option<&ProjectId>) -> Vec<Arc<VolumeRecord>> {
        match project {
            None => self.by_id.values().filter_map(|volume| volume.here().cloned()).collect(),
            Some(project) => {
                self.by_project.get(project).into_iter().flatten().filter_map(|id| self.get(*id)).collect()
            }
        }
    }

    /// The volume of a snapshot.
    pub fn of_snapshot(&self, id: SnapshotId) -> Option<Arc<VolumeRecord>> {
        self.get(*self.snapshots.get(&id)?)
    }

    pub fn snapshot(&self, id: SnapshotId) -> Option<VolumeSnapshot> {
        self.of_snapshot(id)?.snapshots.get(&id).cloned()
    }

    /// Whether a host's copy of the snapshot is a leftover, because the snapshot was deleted or its creation was given
    /// up.
    pub fn is_left(&self, id: SnapshotId) -> bool {
        let given_up = |snapshot: VolumeSnapshot| !snapshot.made && snapshot.process.is_none();
        self.gone.contains(&id) || self.snapshot(id).is_some_and(given_up)
    }

    /// The volume of an attachment.
    pub fn of_attachment(&self, id: AttachmentId) -> Option<Arc<VolumeRecord>> {
        self.get(*self.attachments.get(&id)?)
    }

    fn apply_volume(&mut self, id: VolumeId, event: &VolumeEvent, recorded: &Recorded) {
        self.by_id.entry(id).or_default().evolve(event, recorded.recorded_at);
        match event {
            VolumeEvent::VolumeCreated(created) => {
                self.by_project.entry(created.project.clone()).or_default().insert(id);
            }
            VolumeEvent::VolumeDeleted(_) => {
                self.by_id.remove(&id);
                for volumes in self.by_project.values_mut() {
                    volumes.remove(&id);
                }
                self.gone.extend(self.snapshots.extract_if(.., |_, of| *of == id).map(|(snapshot, _)| snapshot));
                self.attachments.retain(|_, of| *of != id);
            }
            VolumeEvent::VolumeSnapshotRequested(asked) => {
                self.snapshots.insert(asked.snapshot, id);
                // A snapshot that is created again with the same id is no leftover on any host.
                self.gone.remove(&asked.snapshot);
            }
            VolumeEvent::SnapshotDeleted(deleted) => {
                self.snapshots.remove(&deleted.snapshot);
                self.gone.insert(deleted.snapshot);
            }
            VolumeEvent::AttachmentReserved(reserved) => {
                self.attachments.insert(reserved.attachment, id);
            }
            VolumeEvent::AttachmentReleased(released) => {
                self.attachments.remove(&released.attachment);
            }
            VolumeEvent::StatusReset(reset) if reset.detached => self.attachments.retain(|_, of| *of != id),
            _ => {}
        }
    }
}

impl Projection for VolumesView {
    const NAME: &'static str = "volumes";
    const VERSION: u32 = 4;
    const NOUNS: &'static [&'static str] = &["volume", "volume_type", "volume_quota"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        match event {
            Event::VolumeEvent(event) => {
                if let Ok(id) = recorded.stream.key().parse() {
                    self.apply_volume(id, event, recorded);
                }
            }
            Event::VolumeTypeEvent(event) => self.types.evolve(event, recorded.recorded_at),
            Event::VolumeQuotaEvent(event) => {
                let project = ProjectId::new(recorded.stream.key());
                self.quotas.entry(project).or_default().evolve(event, recorded.recorded_at);
            }
            _ => {}
        }
    }

    fn weight(&self) -> u64 {
        (self.by_id.len() + self.snapshots.len() + self.attachments.len()) as u64 * 1_536
    }
}
