//! The processes that are not finished: what start-up has to go on with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::{Meta, Recorded};
use chronova_events::fold::Fold;
use chronova_events::host::HostEvent;
use chronova_events::ids::{EventId, InstanceId, ProcessId, VolumeId};
use chronova_events::instance::InstanceEvent;
use chronova_events::process::{DiskTask, Process, ProcessEvent, Task, VolumeWork};
use chronova_events::registry::Event;
use chronova_events::volume::VolumeEvent;
use serde::{Deserialize, Serialize};

use crate::Projection;

/// A process that was asked for and has not finished.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pending {
    pub process: ProcessId,
    pub task: Task,
    /// Who asked.
    pub meta: Arc<Meta>,
    /// The event that asked.
    pub asked_by: EventId,
    pub state: Process,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(from = "Kept", into = "Kept")]
pub struct Processes {
    pending: BTreeMap<ProcessId, Pending>,
    /// Those that change interfaces, by their servers: asked for whenever a guest is made anew.
    interfaces: BTreeMap<InstanceId, BTreeSet<ProcessId>>,
}

/// What a checkpoint holds; the rest follows from it.
#[derive(Serialize, Deserialize)]
struct Kept {
    pending: BTreeMap<ProcessId, Pending>,
}

impl From<Processes> for Kept {
    fn from(processes: Processes) -> Self {
        Self { pending: processes.pending }
    }
}

impl From<Kept> for Processes {
    fn from(kept: Kept) -> Self {
        let mut processes = Self::default();
        for pending in kept.pending.into_values() {
            processes.begin(pending);
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

/// The process that an event asks for, if it asks for one.
pub fn asked_for(recorded: &Recorded, event: &Event) -> Option<Pending> {
    if let Event::VolumeEvent(event) = event {
        return asked_for_volume(recorded, event);
    }
    if let Event::HostEvent(event) = event {
        return asked_for_host(recorded, event);
    }
    let Event::InstanceEvent(event) = event else { return None };
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
            // A disk that is a volume outlives the guest: there is nothing to copy before the server leaves.
            None => (asked.process, Task::Offload { instance }),
        },
        InstanceEvent::OffloadRequested(asked) => (asked.process, Task::Offload { instance }),
        InstanceEvent::UnshelveRequested(asked) => (asked.process, Task::Unshelve { instance }),
        InstanceEvent::PasswordChangeRequested(asked) => (asked.process, Task::ChangePassword { instance }),
        _ => return None,
    };
    let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
    Some(Pending { process, task, meta, asked_by, state: Process::Absent })
}

/// The process that an event of a volume asks for.
fn asked_for_volume(recorded: &Recorded, event: &VolumeEvent) -> Option<Pending> {
    let volume: VolumeId = recorded.stream.key().parse().ok()?;
    let (process, work) = match event {
        VolumeEvent::VolumeCreated(asked) => (asked.process, VolumeWork::Create),
        VolumeEvent::DeleteRequested(asked) => (asked.process, VolumeWork::Delete { cancels: asked.cancels }),
        VolumeEvent::ExtendRequested(asked) => (asked.process, VolumeWork::Extend { size_gb: asked.size_gb }),
        VolumeEvent::UploadRequested(asked) => (asked.process, VolumeWork::Upload { image: asked.image }),
        VolumeEvent::ReimageRequested(asked) => (asked.process, VolumeWork::Reimage { image: asked.image.snapshot.id }),
        VolumeEvent::SnapshotRequested(asked) => {
            (asked.process, VolumeWork::CreateSnapshot { snapshot: asked.snapshot })
        }
        VolumeEvent::SnapshotDeleteRequested(asked) => {
            (asked.process, VolumeWork::DeleteSnapshot { snapshot: asked.snapshot })
        }
        _ => return None,
    };
    let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
    Some(Pending { process, task: Task::Volume { volume, work }, meta, asked_by, state: Process::Absent })
}

/// The process that an event of a host asks for.
fn asked_for_host(recorded: &Recorded, event: &HostEvent) -> Option<Pending> {
    let HostEvent::DrainRequested(asked) = event else { return None };
    let task = Task::DrainHost { host: recorded.stream.key().parse().ok()? };
    let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
    Some(Pending { process: asked.process, task, meta, asked_by, state: Process::Absent })
}

impl Processes {
    pub fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values()
    }

    /// Whether the process was asked for and has not finished.
    pub fn is_pending(&self, process: ProcessId) -> bool {
        self.pending.contains_key(&process)
    }

    /// Whether an interface of the server is being attached or detached.
    pub fn change_interfaces_of(&self, instance: InstanceId) -> bool {
        self.interfaces.contains_key(&instance)
    }

    fn begin(&mut self, pending: Pending) {
        if let Some(instance) = of_interface(&pending.task) {
            self.interfaces.entry(instance).or_default().insert(pending.process);
        }
        self.pending.insert(pending.process, pending);
    }

    fn end(&mut self, process: ProcessId) {
        let Some(instance) = self.pending.remove(&process).and_then(|pending| of_interface(&pending.task)) else {
            return;
        };
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

    /// The processes with a step that must not fail and does.
    pub fn stuck(&self) -> impl Iterator<Item = &Pending> {
        self.pending().filter(|pending| matches!(&pending.state, Process::Running(run) if run.stuck > 0))
    }
}

impl Projection for Processes {
    const NAME: &'static str = "processes";
    const VERSION: u32 = 2;
    const NOUNS: &'static [&'static str] = &["host", "instance", "process", "volume"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        if let Some(pending) = asked_for(recorded, event) {
            self.begin(pending);
            return;
        }
        let Event::ProcessEvent(event) = event else { return };
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
    use chronova_events::ids::PortId;
    use uuid::Uuid;

    use super::*;

    fn detaching(process: u128, instance: InstanceId) -> Pending {
        Pending {
            process: ProcessId(Uuid::from_u128(process)),
            task: Task::DetachInterface { instance, port: PortId(Uuid::from_u128(process)) },
            meta: Meta::system("test"),
            asked_by: EventId::random(),
            state: Process::Absent,
        }
    }

    /// Also by a view that comes from a checkpoint.
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
