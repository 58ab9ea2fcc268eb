//! The unfinished processes. Start-up continues them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::{Meta, Recorded};
use chronova_events::fold::Fold;
use chronova_events::ids::{EventId, InstanceId, ProcessId};
use chronova_events::instance::InstanceEvent;
use chronova_events::operations::requested_process;
use chronova_events::process::{Process, ProcessEvent, RequestNeed, Started, Task};
use chronova_events::registry::Event;
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
    /// Processes that change interfaces, by server. A step that defines a guest again waits until its server has no
    /// such process.
    interfaces: BTreeMap<InstanceId, BTreeSet<ProcessId>>,
    /// Processes that claim quota or create an image before they send their request to a server, by that server.
    asking: BTreeMap<InstanceId, BTreeSet<ProcessId>>,
    /// Servers whose quota is claimed but whose stream does not exist yet, each with the process that creates it.
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

/// The server to which a task `AskServer` sends its request.
fn of_request(task: &Task) -> Option<InstanceId> {
    match task {
        Task::AskServer { instance, .. } => Some(*instance),
        _ => None,
    }
}

/// Removes a process from the index `by_server`.
fn remove_from(by_server: &mut BTreeMap<InstanceId, BTreeSet<ProcessId>>, instance: InstanceId, process: ProcessId) {
    if let Some(all) = by_server.get_mut(&instance) {
        all.remove(&process);
        if all.is_empty() {
            by_server.remove(&instance);
        }
    }
}

/// The process that an event requests, if any.
pub fn asked_for(recorded: &Recorded, event: &Event) -> Option<UnfinishedProcess> {
    let (process, task) = requested_process(recorded.stream.key(), event)?;
    let (meta, asked_by) = (Arc::clone(&recorded.meta), recorded.id);
    Some(UnfinishedProcess { process, task, meta, asked_by, state: Process::Absent })
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

    /// Whether a process has taken quota or an image for a request that the server may still refuse.
    pub fn is_being_asked(&self, instance: InstanceId) -> bool {
        self.asking.contains_key(&instance)
    }

    /// Whether the quota of the server is claimed, and its process still has to record the server or give it up.
    pub fn is_being_created(&self, instance: InstanceId) -> bool {
        self.unrecorded.contains_key(&instance)
    }

    fn expect(&mut self, instance: InstanceId, process: ProcessId) {
        if self.unrecorded.insert(instance, process).is_none() {
            *self.missing.entry(process).or_default() += 1;
        }
    }

    /// Notes that a server is recorded. The process that creates servers is done when its last server is recorded,
    /// unless the process is being undone.
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

    /// Notes that a server has accepted the request for the process `pending`. If another process claimed quota for
    /// `pending`, that process is done now, unless it is being undone.
    fn asked(&mut self, pending: &UnfinishedProcess) {
        let Some(instance) = pending.task.instance() else { return };
        let is_done = |process: &&ProcessId| {
            self.pending.get(process).is_some_and(|asking| match &asking.task {
                Task::AskServer { asks_for, needs: RequestNeed::Quota(_), .. } => {
                    *asks_for == pending.process && matches!(asking.state, Process::Absent)
                }
                _ => false,
            })
        };
        if let Some(done) = self.asking.get(&instance).and_then(|asking| asking.iter().find(is_done).copied()) {
            self.end(done);
        }
    }

    /// Adds a process of a kind that records its start only when a step fails. This view may already have dropped the
    /// process as finished.
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
        if let Some(instance) = of_request(&pending.task) {
            self.asking.entry(instance).or_default().insert(pending.process);
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
        if let Some(instance) = of_interface(&pending.task) {
            remove_from(&mut self.interfaces, instance, process);
        }
        if let Some(instance) = of_request(&pending.task) {
            remove_from(&mut self.asking, instance, process);
        }
    }

    pub fn len(&self) -> usize {
        self.pending.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The processes that cannot continue, because an undo, or a step that must succeed, fails again and again.
    pub fn stuck(&self) -> impl Iterator<Item = &UnfinishedProcess> {
        self.pending().filter(|pending| matches!(&pending.state, Process::Running(run) if run.stuck > 0))
    }
}

impl Projection for Processes {
    const NAME: &'static str = "processes";
    const VERSION: u32 = 4;
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
            self.asked(&pending);
            self.begin(pending);
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
    fn servers_are_being_created_until_all_are_recorded_or_given_up() {
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
        assert!(!view.is_pending(first), "pending although all its servers are recorded");
        view.end(second);
        assert!(!view.is_being_created(other), "being created although its process ended");
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
    fn a_server_has_changing_interfaces_until_its_last_process_ends() {
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
