//! The unfinished processes. Start-up continues them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::{Meta, Recorded};
use chronova_events::fold::Fold;
use chronova_events::host::HostEvent;
use chronova_events::ids::{EventId, InstanceId, ProcessId, VolumeId};
use chronova_events::instance::InstanceEvent;
use chronova_events::process::{DiskTask, Process, ProcessEvent, Started, Task, VolumeWork};
use chronova_events::quota::QuotaEvent;
use chronova_events::registry::Event;
use chronova_events::volume::VolumeEvent;
use serde::{Deserialize, Serialize};

use crate::Projection;

/// A process that an event requested and that has not finished.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnfinishedProcess {
    pub process: ProcessId,
    pub task: Task,
    /// The requester.
    pub meta: Arc<Meta>,
    /// The event that requested the process.
    pub asked_by: EventId,
    pub state: Process,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(from = "StoredProcesses", into = "StoredProcesses")]
pub struct Processes {
    pending: BTreeMap<ProcessId, UnfinishedProcess>,
    /// Processes that change interfaces, by server. A host agent asks for them whenever it defines a guest again.
    interfaces: BTreeMap<InstanceId, BTreeSet<ProcessId>>,
    /// Servers that have quota but no stream yet, with the process that creates them.
    unrecorded: BTreeMap<InstanceId, ProcessId>,
    /// The number of servers that each process has yet to record. A process without such servers has no entry.
    missing: BTreeMap<ProcessId, usize>,
}

/// The part that a checkpoint holds. The rest is computed from it.
#[derive(Serialize, Deserialize)]
struct StoredProcesses {
    pending: BTreeMap<ProcessId, UnfinishedProcess>,
    unrecorded: BTreeMap<InstanceId, ProcessId>,
}

impl From<Processes> for StoredProcesses {
    fn from(processes: Processes) -> Self {
        Self { pending: processes.pending, unrecorded: processes.unrecorded }
    }
}

impl From<StoredProcesses> for Processes {
    fn from(kept: StoredProcesses) -> Self {
        let mut processes = Self::default();
        for pending in kept.pending.into_values() {
            processes.begin(pending);
        }
        for (instance, process) in kept.unrecorded {
            processes.expect(instance, process);
        }
        processes
    }
}

/// The server whose interfaces a task changes.
fn of_interface(task: &Task) -> Option<InstanceId> {
    match task {
        Task::AttachInterface { instance, .. } | Task::DetachInterface { instance, .. } => Some(*instance),
        _ => None,
    }
}

/// The process that an event requests, if any. The match names every event, so that a new kind cannot be forgotten.
pub fn asked_for(recorded: &Recorded, event: &Event) -> Option<UnfinishedProcess> {
    match event {
        Event::InstanceEvent(event) => asked_for_instance(recorded, event),
        Event::VolumeEvent(event) => asked_for_volume(recorded, event),
        Event::HostEvent(event) => asked_for_host(recorded, event),
        Event::QuotaEvent(event) => asked_for_quota(recorded, event),
        Event::ConsoleEvent(_)
        | Event::ErasureEvent(_)
        | Event::ExternalEvent(_)
        | Event::FlavorEvent(_)
        | Event::HostAggregateEvent(_)
        | Event::IdentityEvent(_)
        | Event::ImageEvent(_)
        | Event::KeypairEvent(_)
        | Event::LedgerEvent(_)
        | Event::NetworkEvent(_)
        | Event::NetworkQuotaEvent(_)
        | Event::ProcessEvent(_)
        | Event::QuotaClassEvent(_)
        | Event::RouterEvent(_)
        | Event::SecurityGroupEvent(_)
        | Event::ServerGroupEvent(_)
        | Event::VolumeQuotaEvent(_)
        | Event::VolumeTypeEvent(_) => None,
    }
}

/// The process that an event of a server requests.
fn asked_for_instance(recorded: &Recorded, event: &InstanceEvent) -> Option<UnfinishedProcess> {
    let instance: InstanceId = recorded.stream.key().parse().ok()?;
    let (process, task) = match event {
        InstanceEvent::BuildRequested(asked) => (asked.process, Task::BuildInstance { instance }),
        InstanceEvent::DeleteRequested(asked) => {
            (asked.process, Task::DeleteInstance { instance, cancels: asked.cancels })
        }
        InstanceEvent::SoftDeleteRequested(asked) => (asked.process, Task::SoftDelete { instance }),
        InstanceEvent::RestoreRequested(asked) => (asked.process, Task::Restore { instance }),
        InstanceEvent::CrashDumpRequested(asked) => (asked.process, Task::CrashDump { instance }),
        InstanceEvent::MoveRequested(asked) => (asked.process, Task::MoveInstance { instance }),
        InstanceEvent::LiveMoveRequested(asked) => (asked.process, Task::LiveMigrate { instance }),
        InstanceEvent::EvacuationRequested(asked) => (asked.process, Task::Evacuate { instance }),
        InstanceEvent::ConfirmRequested(asked) => {
            (asked.process, Task::ConfirmResize { instance, migration: asked.migration })
        }
        InstanceEvent::RevertRequested(asked) => {
            (asked.process, Task::RevertResize { instance, migration: asked.migration })
        }
        InstanceEvent::PowerRequested(asked) => (asked.process, Task::Power { instance, action: asked.action }),
        InstanceEvent::NicAttachRequested(asked) => {
            (asked.process, Task::AttachInterface { instance, wanted: asked.wanted.clone() })
        }
        InstanceEvent::NicDetachRequested(asked) => {
            (asked.process, Task::DetachInterface { instance, port: asked.port })
        }
        InstanceEvent::VolumeAttachRequested(asked) => {
            let device = &asked.device;
            let (volume, attachment) = (device.volume?, device.attachment?);
            (asked.process, Task::AttachVolume(DiskTask { instance, device: device.id, volume, attachment }))
        }
        InstanceEvent::VolumeDetachRequested(asked) => {
            let (device, volume, attachment) = (asked.device, asked.volume, asked.attachment);
            (asked.process, Task::DetachVolume(DiskTask { instance, device, volume, attachment }))
        }
        InstanceEvent::VolumeSwapRequested(asked) => {
            let (device, volume, attachment) = (asked.device, asked.old, asked.old_attachment);
            let disk = DiskTask { instance, device, volume, attachment };
            (asked.process, Task::SwapVolume { disk, new: asked.new, new_attachment: asked.new_attachment })
        }
        InstanceEvent::SnapshotRequested(asked) => {
            (asked.process, Task::Snapshot { instance, image: asked.image, backup: asked.backup.clone() })
        }
        InstanceEvent::RebuildRequested(asked) => {
            let (preserve_ephemeral, other_image) = (asked.preserve_ephemeral, asked.other_image);
            (asked.process, Task::Rebuild { instance, preserve_ephemeral, other_image })
        }
        InstanceEvent::RescueRequested(asked) => (asked.process, Task::Rescue { instance }),
        InstanceEvent::UnrescueRequested(asked) => (asked.process, Task::Unrescue { instance }),
        InstanceEvent::ShelveRequested(asked) => match asked.image {
            Some(image) => (asked.process, Task::Shelve { instance, image }),
            // A volume-backed server needs no snapshot: its root disk outlives the guest.
            None => (asked.process, Task::Offload { instance }),
        },
        InstanceEvent::OffloadRequested(asked) => (asked.process, Task::Offload { instance }),
        InstanceEvent::UnshelveRequested(asked) => (asked.process, Task::Unshelve { instance }),
        InstanceEvent::PasswordChangeRequested(asked) => (asked.process, Task::ChangePassword { instance }),
        InstanceEvent::Placed(_)
        | InstanceEvent::Unplaced(_)
        | InstanceEvent::NetworkAllocated(_)
        | InstanceEvent::BuildSucceeded(_)
        | InstanceEvent::BuildFailed(_)
        | InstanceEvent::Deleted(_)
        | InstanceEvent::PowerCompleted(_)
        | InstanceEvent::PowerFailed(_)
        | InstanceEvent::PowerObserved(_)
        | InstanceEvent::Renamed(_)
        | InstanceEvent::DescriptionChanged(_)
        | InstanceEvent::HostnameChanged(_)
        | InstanceEvent::DiskConfigChanged(_)
        | InstanceEvent::AccessAddressesChanged(_)
        | InstanceEvent::MetadataReplaced(_)
        | InstanceEvent::TagsReplaced(_)
        | InstanceEvent::Locked(_)
        | InstanceEvent::Unlocked(_)
        | InstanceEvent::StateDeclared(_)
        | InstanceEvent::SoftDeleted(_)
        | InstanceEvent::Restored(_)
        | InstanceEvent::RestoreFailed(_)
        | InstanceEvent::Scheduled(_)
        | InstanceEvent::PersonalErased(_)
        | InstanceEvent::NicAttached(_)
        | InstanceEvent::NicDetached(_)
        | InstanceEvent::NicDetachFailed(_)
        | InstanceEvent::NicsRefreshed(_)
        | InstanceEvent::BlockDevicesMapped(_)
        | InstanceEvent::BlockDevicesPrepared(_)
        | InstanceEvent::VolumeAttached(_)
        | InstanceEvent::VolumeAttachFailed(_)
        | InstanceEvent::VolumeDetached(_)
        | InstanceEvent::VolumeDetachFailed(_)
        | InstanceEvent::VolumeSwapped(_)
        | InstanceEvent::VolumeSwapFailed(_)
        | InstanceEvent::VolumeDeletionChanged(_)
        | InstanceEvent::WorkAdvanced(_)
        | InstanceEvent::SnapshotTaken(_)
        | InstanceEvent::SnapshotFailed(_)
        | InstanceEvent::Rebuilt(_)
        | InstanceEvent::RebuildFailed(_)
        | InstanceEvent::Rescued(_)
        | InstanceEvent::RescueFailed(_)
        | InstanceEvent::Unrescued(_)
        | InstanceEvent::UnrescueFailed(_)
        | InstanceEvent::Shelved(_)
        | InstanceEvent::ShelveFailed(_)
        | InstanceEvent::Offloaded(_)
        | InstanceEvent::Unshelved(_)
        | InstanceEvent::UnshelveFailed(_)
        | InstanceEvent::PasswordChanged(_)
        | InstanceEvent::PasswordChangeFailed(_)
        | InstanceEvent::MoveTargeted(_)
        | InstanceEvent::MoveUntargeted(_)
        | InstanceEvent::MoveAdvanced(_)
        | InstanceEvent::Resized(_)
        | InstanceEvent::MoveFailed(_)
        | InstanceEvent::ResizeConfirmed(_)
        | InstanceEvent::ResizeReverted(_)
        | InstanceEvent::RevertFailed(_)
        | InstanceEvent::LiveMoveAdvanced(_)
        | InstanceEvent::LiveMoveProgressed(_)
        | InstanceEvent::LiveAbortRequested(_)
        | InstanceEvent::LiveCompletionForced(_)
        | InstanceEvent::LiveMoved(_)
        | InstanceEvent::LiveMoveAborted(_)
        | InstanceEvent::Evacuated(_)
        | InstanceEvent::FilesGiven(_)
        | InstanceEvent::GuestPasswordPosted(_)
        | InstanceEvent::GuestPasswordCleared(_)
        | InstanceEvent::Adopted(_)
        | InstanceEvent::MigrationAdopted(_) => return None,
    };
    let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
    Some(UnfinishedProcess { process, task, meta, asked_by, state: Process::Absent })
}

/// The process that an event of a volume requests.
fn asked_for_volume(recorded: &Recorded, event: &VolumeEvent) -> Option<UnfinishedProcess> {
    let volume: VolumeId = recorded.stream.key().parse().ok()?;
    let (process, work) = match event {
        VolumeEvent::VolumeCreated(asked) => (asked.process, VolumeWork::Create),
        VolumeEvent::VolumeDeleteRequested(asked) => (asked.process, VolumeWork::Delete { cancels: asked.cancels }),
        VolumeEvent::ExtendRequested(asked) => (asked.process, VolumeWork::Extend { size_gb: asked.size_gb }),
        VolumeEvent::UploadRequested(asked) => (asked.process, VolumeWork::Upload { image: asked.image }),
        VolumeEvent::ReimageRequested(asked) => (asked.process, VolumeWork::Reimage { image: asked.image.snapshot.id }),
        VolumeEvent::VolumeSnapshotRequested(asked) => {
            (asked.process, VolumeWork::CreateSnapshot { snapshot: asked.snapshot })
        }
        VolumeEvent::SnapshotDeleteRequested(asked) => {
            (asked.process, VolumeWork::DeleteSnapshot { snapshot: asked.snapshot })
        }
        VolumeEvent::VolumeReady(_)
        | VolumeEvent::VolumeFailed(_)
        | VolumeEvent::VolumeDescribed(_)
        | VolumeEvent::VolumeFlagged(_)
        | VolumeEvent::ImageMetadataReplaced(_)
        | VolumeEvent::VolumeExtended(_)
        | VolumeEvent::UploadEnded(_)
        | VolumeEvent::AttachmentReserved(_)
        | VolumeEvent::AttachmentConnected(_)
        | VolumeEvent::AttachmentCompleted(_)
        | VolumeEvent::AttachmentReleased(_)
        | VolumeEvent::StatusChanged(_)
        | VolumeEvent::StatusReset(_)
        | VolumeEvent::VolumeDeleted(_)
        | VolumeEvent::SnapshotReady(_)
        | VolumeEvent::VolumeSnapshotFailed(_)
        | VolumeEvent::SnapshotDescribed(_)
        | VolumeEvent::SnapshotReset(_)
        | VolumeEvent::SnapshotDeleted(_)
        | VolumeEvent::VolumeReimaged(_) => return None,
    };
    let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
    Some(UnfinishedProcess { process, task: Task::Volume { volume, work }, meta, asked_by, state: Process::Absent })
}

/// The process that an event of a host requests.
fn asked_for_host(recorded: &Recorded, event: &HostEvent) -> Option<UnfinishedProcess> {
    let asked = match event {
        HostEvent::DrainRequested(asked) => asked,
        HostEvent::Registered(_)
        | HostEvent::CapabilitiesChanged(_)
        | HostEvent::CameUp(_)
        | HostEvent::WentDown(_)
        | HostEvent::Enabled(_)
        | HostEvent::Disabled(_)
        | HostEvent::ForcedDown(_)
        | HostEvent::Deregistered(_)
        | HostEvent::DepartureBegun(_)
        | HostEvent::ServerLeft(_)
        | HostEvent::ServerStayed(_)
        | HostEvent::DrainCancelled(_)
        | HostEvent::DrainEnded(_)
        | HostEvent::MaintenanceBegun(_)
        | HostEvent::MaintenanceEnded(_) => return None,
    };
    let task = Task::DrainHost { host: recorded.stream.key().parse().ok()? };
    let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
    Some(UnfinishedProcess { process: asked.process, task, meta, asked_by, state: Process::Absent })
}

/// The process that an event of a quota requests.
fn asked_for_quota(recorded: &Recorded, event: &QuotaEvent) -> Option<UnfinishedProcess> {
    let claimed = match event {
        QuotaEvent::ServersClaimed(claimed) => claimed,
        QuotaEvent::QuotaReserved(_)
        | QuotaEvent::QuotaReleased(_)
        | QuotaEvent::LimitsSet(_)
        | QuotaEvent::LimitsReset(_)
        | QuotaEvent::QuotaAdjusted(_) => return None,
    };
    let (project, instances, group) = (claimed.project.clone(), claimed.instances.clone(), claimed.group.clone());
    let task = Task::CreateServers { project, instances, group };
    let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
    Some(UnfinishedProcess { process: claimed.process, task, meta, asked_by, state: Process::Absent })
}

impl Processes {
    pub fn pending(&self) -> impl Iterator<Item = &UnfinishedProcess> {
        self.pending.values()
    }

    /// Whether the process was requested and has not finished.
    pub fn is_pending(&self, process: ProcessId) -> bool {
        self.pending.contains_key(&process)
    }

    /// Whether an interface of the server is being attached or detached.
    pub fn change_interfaces_of(&self, instance: InstanceId) -> bool {
        self.interfaces.contains_key(&instance)
    }

    /// Whether the server has quota, but its process has neither recorded it nor given it up.
    pub fn is_being_created(&self, instance: InstanceId) -> bool {
        self.unrecorded.contains_key(&instance)
    }

    fn expect(&mut self, instance: InstanceId, process: ProcessId) {
        if self.unrecorded.insert(instance, process).is_none() {
            *self.missing.entry(process).or_default() += 1;
        }
    }

    /// Notes that a server is recorded. With the last server of a request its process ends, unless the process is
    /// undoing.
    fn recorded(&mut self, instance: InstanceId) {
        let Some(process) = self.unrecorded.remove(&instance) else { return };
        let Some(missing) = self.missing.get_mut(&process) else { return };
        *missing -= 1;
        if *missing > 0 {
            return;
        }
        self.missing.remove(&process);
        if self.pending.get(&process).is_some_and(|pending| matches!(pending.state, Process::Absent)) {
            self.end(process);
        }
    }

    /// Adds a process that records only its failure. The process may have counted as finished before.
    fn started(&mut self, recorded: &Recorded, started: &Started) {
        if started.task.records_only_failure() && !self.pending.contains_key(&started.process) {
            let (process, task) = (started.process, started.task.clone());
            let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
            self.begin(UnfinishedProcess { process, task, meta, asked_by, state: Process::Absent });
        }
    }

    fn begin(&mut self, pending: UnfinishedProcess) {
        if let Some(instance) = of_interface(&pending.task) {
            self.interfaces.entry(instance).or_default().insert(pending.process);
        }
        self.pending.insert(pending.process, pending);
    }

    fn end(&mut self, process: ProcessId) {
        let Some(pending) = self.pending.remove(&process) else { return };
        if let Task::CreateServers { instances, .. } = &pending.task {
            self.missing.remove(&process);
            for instance in instances {
                self.unrecorded.remove(instance);
            }
        }
        let Some(instance) = of_interface(&pending.task) else { return };
        if let Some(changing) = self.interfaces.get_mut(&instance) {
            changing.remove(&process);
            if changing.is_empty() {
                self.interfaces.remove(&instance);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.pending.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The processes with a step that may not fail but fails again and again.
    pub fn stuck(&self) -> impl Iterator<Item = &UnfinishedProcess> {
        self.pending().filter(|pending| matches!(&pending.state, Process::Running(run) if run.stuck > 0))
    }
}

impl Projection for Processes {
    const NAME: &'static str = "processes";
    const VERSION: u32 = 3;
    const NOUNS: &'static [&'static str] = &["host", "instance", "process", "quota", "volume"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(pending) = asked_for(recorded, event) {
            match &pending.task {
                Task::BuildInstance { instance } => self.recorded(*instance),
                Task::CreateServers { instances, .. } => {
                    for instance in instances {
                        self.expect(*instance, pending.process);
                    }
                }
                _ => {}
            }
            self.begin(pending);
            return;
        }
        // Another control plane built the server.
        if let Event::InstanceEvent(InstanceEvent::Adopted(adopted)) = event {
            self.end(adopted.build);
        }
        let Event::ProcessEvent(event) = event else { return };
        if let ProcessEvent::Started(started) = event {
            self.started(recorded, started);
        }
        let Ok(id) = recorded.stream.key().parse::<ProcessId>() else { return };
        if matches!(event, ProcessEvent::Finished(_)) {
            self.end(id);
        } else if let Some(pending) = self.pending.get_mut(&id) {
            pending.state.evolve(event, recorded.recorded_at);
        }
    }

    fn weight(&self) -> u64 {
        self.pending.len() as u64 * 2_048
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::codec;
    use chronova_events::ids::{PortId, ProjectId};
    use uuid::Uuid;

    use super::*;

    /// Also checks a view that comes from a checkpoint.
    #[test]
    fn servers_are_being_created_until_the_last_of_them_is_recorded_or_they_are_given_up() {
        let [one, two, other] = [1, 2, 3].map(|n| InstanceId(Uuid::from_u128(n)));
        let [first, second] = [11, 12].map(|n| ProcessId(Uuid::from_u128(n)));
        let creating = |process, instances: &[InstanceId]| UnfinishedProcess {
            process,
            task: Task::CreateServers { project: ProjectId::new("p"), instances: instances.to_vec(), group: None },
            meta: Meta::system("test"),
            asked_by: EventId::random(),
            state: Process::Absent,
        };
        let mut view = Processes::default();
        for (process, instances) in [(first, &[one, two][..]), (second, &[other][..])] {
            for instance in instances {
                view.expect(*instance, process);
            }
            view.begin(creating(process, instances));
        }
        view.recorded(one);
        let bytes = codec::encode_snapshot(&view).unwrap();
        let mut view: Processes = codec::decode_snapshot(&bytes).unwrap();
        assert_eq!([one, two, other].map(|id| view.is_being_created(id)), [false, true, true]);
        assert!(view.is_pending(first) && view.is_pending(second));
        view.recorded(two);
        assert!(!view.is_pending(first), "all its servers are there");
        view.end(second);
        assert!(!view.is_being_created(other), "its process gave it up");
        assert!(view.is_empty() && view.unrecorded.is_empty() && view.missing.is_empty());
    }

    fn detaching(process: u128, instance: InstanceId) -> UnfinishedProcess {
        UnfinishedProcess {
            process: ProcessId(Uuid::from_u128(process)),
            task: Task::DetachInterface { instance, port: PortId(Uuid::from_u128(process)) },
            meta: Meta::system("test"),
            asked_by: EventId::random(),
            state: Process::Absent,
        }
    }

    /// Also checks a view that comes from a checkpoint.
    #[test]
    fn whose_interfaces_change_is_known_until_the_last_of_them_has_changed() {
        let [one, other] = [1, 2].map(|n| InstanceId(Uuid::from_u128(n)));
        let mut view = Processes::default();
        for (process, instance) in [(1, one), (2, one), (3, other)] {
            view.begin(detaching(process, instance));
        }
        let bytes = codec::encode_snapshot(&view).unwrap();
        let mut view: Processes = codec::decode_snapshot(&bytes).unwrap();
        let changing = |view: &Processes| [one, other].map(|id| view.change_interfaces_of(id));
        let mut seen = vec![changing(&view)];
        for process in [1, 2, 2, 3] {
            view.end(ProcessId(Uuid::from_u128(process)));
            seen.push(changing(&view));
        }
        assert_eq!(seen, [[true, true], [true, true], [false, true], [false, true], [false, false]]);
        assert!(view.is_empty() && view.interfaces.is_empty());
    }
}
