//! The volumes with their attachments and snapshots, the volume types, and every project's volume quota.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::{AttachmentId, ProjectId, SnapshotId, VolumeId, VolumeTypeId};
use chronova_events::registry::Event;
use chronova_events::volume::{Volume, VolumeEvent, VolumeRecord, VolumeSnapshot};
use chronova_events::volume_quota::VolumeQuota;
use chronova_events::volume_type::VolumeTypes;
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(from = "StoredVolumes")]
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
    /// The snapshots of each project. A snapshot may belong to another project than its volume.
    #[serde(skip)]
    snapshots_of: BTreeMap<ProjectId, BTreeSet<SnapshotId>>,
    #[serde(skip)]
    by_type: BTreeMap<VolumeTypeId, BTreeSet<VolumeId>>,
}

/// The view in a checkpoint. The other indexes follow from it.
#[derive(Deserialize)]
struct StoredVolumes {
    by_id: BTreeMap<VolumeId, Volume>,
    snapshots: BTreeMap<SnapshotId, VolumeId>,
    gone: BTreeSet<SnapshotId>,
    attachments: BTreeMap<AttachmentId, VolumeId>,
    by_project: BTreeMap<ProjectId, BTreeSet<VolumeId>>,
    types: VolumeTypes,
    quotas: BTreeMap<ProjectId, VolumeQuota>,
}

impl From<StoredVolumes> for VolumesView {
    fn from(stored: StoredVolumes) -> Self {
        let StoredVolumes { by_id, snapshots, gone, attachments, by_project, types, quotas } = stored;
        let mut snapshots_of: BTreeMap<ProjectId, BTreeSet<SnapshotId>> = BTreeMap::new();
        let mut by_type: BTreeMap<VolumeTypeId, BTreeSet<VolumeId>> = BTreeMap::new();
        for record in by_id.values().filter_map(Volume::here) {
            by_type.entry(record.created.volume_type).or_default().insert(record.created.volume);
            for (id, snapshot) in &record.snapshots {
                snapshots_of.entry(snapshot.requested.project.clone()).or_default().insert(*id);
            }
        }
        Self { by_id, snapshots, gone, attachments, by_project, types, quotas, snapshots_of, by_type }
    }
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

    /// All snapshots, or those of one project, with their volumes.
    pub fn snapshots_of(&self, project: Option<&ProjectId>) -> Vec<(Arc<VolumeRecord>, VolumeSnapshot)> {
        let with_volume = |id: &SnapshotId| {
            let volume = self.of_snapshot(*id)?;
            let snapshot = volume.snapshots.get(id)?.clone();
            Some((volume, snapshot))
        };
        match project {
            None => self.snapshots.keys().filter_map(with_volume).collect(),
            Some(project) => self.snapshots_of.get(project).into_iter().flatten().filter_map(with_volume).collect(),
        }
    }

    /// Whether any volume has the type.
    pub fn is_used(&self, kind: VolumeTypeId) -> bool {
        self.by_type.get(&kind).is_some_and(|volumes| !volumes.is_empty())
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
        match event {
            VolumeEvent::VolumeDeleted(_) => self.forget_volume(id),
            VolumeEvent::SnapshotDeleted(deleted) => self.forget_snapshot(deleted.snapshot),
            VolumeEvent::StatusReset(reset) if reset.detached => self.forget_attachments(id),
            _ => {}
        }
        self.by_id.entry(id).or_default().evolve(event, recorded.recorded_at);
        match event {
            VolumeEvent::VolumeCreated(created) => {
                self.by_project.entry(created.project.clone()).or_default().insert(id);
                self.by_type.entry(created.volume_type).or_default().insert(id);
            }
            VolumeEvent::VolumeDeleted(_) => {
                self.by_id.remove(&id);
            }
            VolumeEvent::VolumeSnapshotRequested(asked) => {
                self.snapshots.insert(asked.snapshot, id);
                self.snapshots_of.entry(asked.project.clone()).or_default().insert(asked.snapshot);
                // A snapshot that is created again with the same id is no leftover on any host.
                self.gone.remove(&asked.snapshot);
            }
            VolumeEvent::AttachmentReserved(reserved) => {
                self.attachments.insert(reserved.attachment, id);
            }
            VolumeEvent::AttachmentReleased(released) => {
                self.attachments.remove(&released.attachment);
            }
            _ => {}
        }
    }

    /// Removes a volume from the indexes, before it is deleted.
    fn forget_volume(&mut self, id: VolumeId) {
        let Some(record) = self.get(id) else { return };
        for snapshot in record.snapshots.keys() {
            self.forget_snapshot(*snapshot);
        }
        self.forget_attachments(id);
        if let Some(volumes) = self.by_project.get_mut(&record.created.project) {
            volumes.remove(&id);
        }
        if let Some(volumes) = self.by_type.get_mut(&record.created.volume_type) {
            volumes.remove(&id);
        }
    }

    /// Removes a snapshot from the indexes, before it is deleted.
    fn forget_snapshot(&mut self, id: SnapshotId) {
        let project = self.snapshot(id).map(|snapshot| snapshot.requested.project);
        if let Some(snapshots) = project.and_then(|project| self.snapshots_of.get_mut(&project)) {
            snapshots.remove(&id);
        }
        self.snapshots.remove(&id);
        self.gone.insert(id);
    }

    fn forget_attachments(&mut self, id: VolumeId) {
        let Some(record) = self.get(id) else { return };
        for attachment in record.attachments.keys() {
            self.attachments.remove(attachment);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use chronova_events::codec;
    use chronova_events::envelope::StreamId;
    use chronova_events::ids::ProcessId;
    use chronova_events::volume::{SnapshotDeleted, VolumeCreated, VolumeDeleted, VolumeSnapshotRequested, samples};
    use uuid::Uuid;

    use super::*;
    use crate::test_events::recorded;

    fn apply(view: &mut VolumesView, volume: VolumeId, event: impl Into<VolumeEvent>) {
        let event = Event::from(event.into());
        let recorded = recorded(StreamId::new("volume", volume), 1, &event);
        view.apply(&recorded, &event);
    }

    /// The indexes after each event, and after the view was read from a checkpoint.
    #[test]
    fn snapshots_and_types_are_found_without_the_volumes() {
        let created = samples().into_iter().find_map(|event| match event {
            VolumeEvent::VolumeCreated(created) => Some(created),
            _ => None,
        });
        let asked = samples().into_iter().find_map(|event| match event {
            VolumeEvent::VolumeSnapshotRequested(asked) => Some(asked),
            _ => None,
        });
        let [one, two] = [1, 2].map(|n| VolumeId(Uuid::from_u128(n)));
        let [first, second, third] = [11, 12, 13].map(|n| SnapshotId(Uuid::from_u128(n)));
        let (kind, process) = (VolumeTypeId(Uuid::from_u128(21)), ProcessId(Uuid::from_u128(31)));
        let mut view = VolumesView::default();
        for volume in [one, two] {
            let created = created.clone().unwrap();
            apply(&mut view, volume, VolumeCreated { volume, project: "p".into(), volume_type: kind, ..created });
        }
        // An administrator's snapshot of the volume belongs to another project.
        for (volume, snapshot, project) in [(one, first, "p"), (one, second, "other"), (two, third, "p")] {
            let asked = asked.clone().unwrap();
            let asked = VolumeSnapshotRequested { volume, snapshot, project: project.into(), ..asked };
            apply(&mut view, volume, asked);
        }
        let check = |view: &VolumesView, expected: [&[SnapshotId]; 3], used: bool| {
            let bytes = codec::encode_snapshot(view).unwrap();
            for view in [view, &codec::decode_snapshot::<VolumesView>(&bytes).unwrap()] {
                let [p, other] = ["p", "other"].map(ProjectId::new);
                for (project, expected) in [Some(&p), Some(&other), None].into_iter().zip(expected) {
                    let found = view.snapshots_of(project);
                    let found: Vec<SnapshotId> = found.iter().map(|(_, known)| known.requested.snapshot).collect();
                    assert_eq!(found, expected, "{project:?}");
                }
                assert_eq!(view.is_used(kind), used);
            }
        };
        check(&view, [&[first, third], &[second], &[first, second, third]], true);
        apply(&mut view, two, SnapshotDeleted { volume: two, snapshot: third, process });
        check(&view, [&[first], &[second], &[first, second]], true);
        apply(&mut view, one, VolumeDeleted { volume: one, process });
        check(&view, [&[], &[], &[]], true);
        assert!(view.is_left(second), "a snapshot of a deleted volume is a leftover");
        apply(&mut view, two, VolumeDeleted { volume: two, process });
        check(&view, [&[], &[], &[]], false);
    }
}
