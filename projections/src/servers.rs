//! The servers, for `GET /servers` and `os-instance-actions`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use chronova_events::codec;
use chronova_events::envelope::{Cause, Recorded, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::ids::{HostId, InstanceId, ProcessId, ProjectId, RequestId, UserId};
use chronova_events::instance::{
    Adopted, AdoptedAction, AdoptedActionEvent, Alive, FaultInfo, Instance, InstanceEvent,
};
use chronova_events::operations::{nova_event, server_operation};
use chronova_events::process::{ProcessEvent, ProcessOutcome};
use chronova_events::registry::Event;
use serde::{Deserialize, Serialize};

use crate::Projection;
use crate::servers_ever::ServersEver;
use crate::sharing::{self, SharedValues};

/// The most actions that are kept of one server: as many as the largest page of Nova's list of actions has. Older
/// actions are in the log only, and `chronova inspect` shows them.
pub const MOST_ACTIONS: usize = 1_000;

/// A server and the actions on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerRow {
    pub id: InstanceId,
    pub instance: Instance,
    /// The newest [`MOST_ACTIONS`] actions, oldest first.
    pub actions: Vec<Arc<InstanceAction>>,
}

/// One line of `os-instance-actions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InstanceAction {
    /// Nova's action name, for example `create`, `delete`, `start`, `stop` or `reboot`.
    pub name: String,
    pub request_id: Option<RequestId>,
    pub user: Option<UserId>,
    pub project: Option<ProjectId>,
    pub process: Option<ProcessId>,
    pub started_at: Timestamp,
    pub updated_at: Timestamp,
    /// `Error` if the action failed.
    pub message: Option<String>,
    /// Whether the action succeeded. `None` while the action is under way, and always if this control plane performed
    /// the action without a process.
    pub succeeded: Option<bool>,
    pub steps: Vec<ActionStep>,
}

impl InstanceAction {
    /// The single event that Nova would record for the whole action. `None` if Nova would record no event, or if the
    /// action has no process. An action from another control plane keeps the events that were recorded there.
    pub fn as_nova_event(&self) -> Option<ActionStep> {
        self.process?;
        let step = nova_event(&self.name)?;
        Some(ActionStep {
            step: step.into(),
            started_at: self.started_at,
            finished_at: self.succeeded.map(|_| self.updated_at),
            succeeded: self.succeeded,
            details: self.steps.iter().rev().find_map(|step| step.details.clone()),
            host: self.steps.iter().rev().find_map(|step| step.host),
        })
    }
}

/// One event of an action: one step of its process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionStep {
    pub step: Arc<str>,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub succeeded: Option<bool>,
    /// The error, for administrators.
    pub details: Option<String>,
    pub host: Option<HostId>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Servers {
    #[serde(deserialize_with = "sharing::rows")]
    by_id: BTreeMap<InstanceId, Arc<ServerRow>>,
    #[serde(skip)]
    shared: SharedValues,
    /// Servers that are not deleted, by project.
    by_project: BTreeMap<ProjectId, BTreeSet<(Timestamp, InstanceId)>>,
    /// Servers that are not deleted, of all projects.
    by_age: BTreeSet<(Timestamp, InstanceId)>,
    /// Servers that are not deleted, by host.
    by_host: BTreeMap<HostId, BTreeSet<InstanceId>>,
    /// Each unfinished process, with the server that the process works on.
    by_process: BTreeMap<ProcessId, InstanceId>,
    requested: u64,
    ever: ServersEver,
}

/// The state of version 12.
#[derive(Deserialize)]
struct ServersV12 {
    #[serde(deserialize_with = "sharing::rows")]
    by_id: BTreeMap<InstanceId, Arc<ServerRow>>,
    by_project: BTreeMap<ProjectId, BTreeSet<(Timestamp, InstanceId)>>,
    by_age: BTreeSet<(Timestamp, InstanceId)>,
    by_host: BTreeMap<HostId, BTreeSet<InstanceId>>,
    by_process: BTreeMap<ProcessId, InstanceId>,
    requested: u64,
}

impl From<ServersV12> for Servers {
    fn from(old: ServersV12) -> Self {
        let ServersV12 { mut by_id, by_project, by_age, by_host, by_process, requested } = old;
        let mut ever = ServersEver::default();
        for row in by_id.values_mut() {
            if row.actions.len() > MOST_ACTIONS {
                Arc::make_mut(row).trim();
            }
            if let Some(server) = row.server() {
                ever.change(&server.request.project, row.id, None, server.updated_at);
            }
        }
        Self { by_id, shared: SharedValues::default(), by_project, by_age, by_host, by_process, requested, ever }
    }
}

impl Servers {
    pub fn get(&self, id: InstanceId) -> Option<&Arc<ServerRow>> {
        self.by_id.get(&id)
    }

    /// Every server ever requested, deleted ones too.
    pub fn all(&self) -> impl Iterator<Item = &Arc<ServerRow>> {
        self.by_id.values()
    }

    /// Every server that one project, or any project, has ever requested, in the order of the ids. The list begins
    /// after `after`.
    pub fn ever(
        &self,
        project: Option<&ProjectId>,
        after: Option<InstanceId>,
    ) -> Box<dyn Iterator<Item = &Arc<ServerRow>> + '_> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        match project {
            Some(project) => Box::new(self.ever.of(project, after).filter_map(|id| self.by_id.get(&id))),
            None => Box::new(self.by_id.range((from, Bound::Unbounded)).map(|(_, row)| row)),
        }
    }

    /// The servers of a project, or of all projects, that last changed at or after `since` and before `until`, deleted
    /// ones too.
    pub fn changed(
        &self,
        project: Option<&ProjectId>,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> impl Iterator<Item = &Arc<ServerRow>> {
        self.ever.changed(project, since, until).filter_map(|id| self.by_id.get(&id))
    }

    /// A project's servers that are not deleted, newest first, which is Nova's default order.
    pub fn of_project(&self, project: &ProjectId) -> impl Iterator<Item = &Arc<ServerRow>> {
        self.by_project.get(project).into_iter().flatten().rev().filter_map(|(_, id)| self.by_id.get(id))
    }

    /// The servers of a project, or of all projects, that are not deleted. They are sorted newest first, and begin with
    /// the server that follows `after`. As in Nova, `after` itself may be deleted, because the client may have read its
    /// page before the deletion. `None` if the project never had `after`. The cost does not depend on the position of
    /// `after`.
    pub fn newest(
        &self,
        project: Option<&ProjectId>,
        after: Option<InstanceId>,
    ) -> Option<impl Iterator<Item = &Arc<ServerRow>>> {
        static NONE: BTreeSet<(Timestamp, InstanceId)> = BTreeSet::new();
        let set = match project {
            Some(project) => self.by_project.get(project).unwrap_or(&NONE),
            None => &self.by_age,
        };
        let end = match after {
            Some(id) => {
                let marker = self.by_id.get(&id)?.server()?;
                if project.is_some_and(|project| marker.request.project != *project) {
                    return None;
                }
                Bound::Excluded((marker.created_at, id))
            }
            None => Bound::Unbounded,
        };
        Some(set.range((Bound::Unbounded, end)).rev().filter_map(|(_, id)| self.by_id.get(id)))
    }

    pub fn on_host(&self, host: HostId) -> impl Iterator<Item = &Arc<ServerRow>> {
        self.by_host.get(&host).into_iter().flatten().filter_map(|id| self.by_id.get(id))
    }

    /// The number of servers ever requested.
    pub fn requested(&self) -> u64 {
        self.requested
    }
}

impl ServerRow {
    /// The server's state, deleted or not.
    pub fn server(&self) -> Option<&Alive> {
        self.instance.known()
    }

    /// Drops the oldest actions beyond [`MOST_ACTIONS`].
    fn trim(&mut self) {
        self.actions.drain(..self.actions.len().saturating_sub(MOST_ACTIONS));
    }
}

impl Projection for Servers {
    const NAME: &'static str = "servers";
    const VERSION: u32 = 14;
    const NOUNS: &'static [&'static str] = &["instance", "process"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        match event {
            Event::InstanceEvent(event) => {
                if let Ok(id) = recorded.stream.key().parse() {
                    self.apply_instance(id, recorded, event);
                }
            }
            Event::ProcessEvent(event) => self.apply_process(recorded, event),
            _ => {}
        }
    }

    /// Version 12 kept all actions of a server, and had no index of deleted servers and changes.
    fn older(version: u32, bytes: &[u8]) -> Option<Self> {
        if version != 12 {
            return None;
        }
        codec::decode_snapshot::<ServersV12>(bytes).ok().map(Self::from)
    }

    fn weight(&self) -> u64 {
        self.by_id.len() as u64 * 4_096
    }
}

impl Servers {
    fn apply_instance(&mut self, id: InstanceId, recorded: &Recorded, event: &InstanceEvent) {
        let at = recorded.recorded_at;
        let row = self
            .by_id
            .entry(id)
            .or_insert_with(|| Arc::new(ServerRow { id, instance: Instance::Absent, actions: Vec::new() }));
        let row = Arc::make_mut(row);
        let changed_before = row.server().map(|server| server.updated_at);
        let host_before = row.instance.alive().and_then(|alive| alive.placement.as_ref()).map(|placed| placed.host);
        row.instance.evolve(event, at);
        if let Some(server) = row.instance.known().filter(|server| Some(server.updated_at) != changed_before) {
            self.ever.change(&server.request.project, id, changed_before, server.updated_at);
        }
        if matches!(event, InstanceEvent::BuildRequested(_) | InstanceEvent::Resized(_)) {
            self.shared.share(&mut row.instance);
        }
        let host_after = row.instance.alive().and_then(|alive| alive.placement.as_ref()).map(|placed| placed.host);
        // When a migration takes too long, the control plane requests the abort under the request id of the migration's
        // own request. Such an abort is no new action.
        let request = &recorded.meta.request_id;
        let own = matches!(event, InstanceEvent::LiveAbortRequested(_))
            && row.actions.iter().any(|action| action.request_id == *request);
        if let Some(operation) = server_operation(id, event).filter(|_| !own) {
            row.actions.push(Arc::new(InstanceAction::new(operation.action, operation.process, recorded)));
            row.trim();
            if let Some(process) = operation.process {
                self.by_process.insert(process, id);
            }
        }
        if let InstanceEvent::Adopted(adopted) = event {
            self.by_process.remove(&adopted.build);
            row.actions = adopted_actions(adopted, &mut self.shared);
            row.trim();
        }
        if host_before != host_after {
            if let Some(ids) = host_before.and_then(|host| self.by_host.get_mut(&host)) {
                ids.remove(&id);
            }
            if let Some(host) = host_after {
                self.by_host.entry(host).or_default().insert(id);
            }
        }
        match (event, &row.instance) {
            (InstanceEvent::BuildRequested(request), _) => {
                self.requested = self.requested.max(request.number);
                self.by_project.entry(request.project.clone()).or_default().insert((at, id));
                self.by_age.insert((at, id));
            }
            (InstanceEvent::Deleted(_), Instance::Deleted(gone)) => {
                self.by_age.remove(&(gone.created_at, id));
                if let Some(ids) = self.by_project.get_mut(&gone.request.project) {
                    ids.remove(&(gone.created_at, id));
                }
            }
            _ => {}
        }
    }

    fn apply_process(&mut self, recorded: &Recorded, event: &ProcessEvent) {
        let Ok(process) = recorded.stream.key().parse::<ProcessId>() else { return };
        let Some(id) = self.by_process.get(&process).copied() else { return };
        if matches!(event, ProcessEvent::Finished(_)) {
            self.by_process.remove(&process);
        }
        let Some(row) = self.by_id.get_mut(&id) else { return };
        let row = Arc::make_mut(row);
        // A delete records its steps after the server is deleted, so a deleted server has a host here, too.
        let host = row.instance.known().and_then(|server| server.placement.as_ref()).map(|placed| placed.host);
        if let Some(action) = row.actions.iter_mut().rev().find(|action| action.process == Some(process)) {
            Arc::make_mut(action).take(event, recorded.recorded_at, host, &mut self.shared);
        }
    }
}

/// The actions that another control plane recorded.
fn adopted_actions(adopted: &Adopted, shared: &mut SharedValues) -> Vec<Arc<InstanceAction>> {
    let mut step = |event: &AdoptedActionEvent| ActionStep {
        step: shared.name(&event.name),
        started_at: event.started_at,
        finished_at: event.finished_at,
        succeeded: event.succeeded,
        details: event.details.clone(),
        host: event.host,
    };
    let mut action = |action: &AdoptedAction| InstanceAction {
        name: action.name.clone(),
        request_id: action.request_id.clone(),
        user: action.user.clone(),
        project: action.project.clone(),
        process: None,
        started_at: action.started_at,
        updated_at: action.updated_at,
        message: action.message.clone(),
        succeeded: action.events.last().and_then(|event| event.succeeded),
        steps: action.events.iter().map(&mut step).collect(),
    };
    adopted.actions.iter().map(|one| Arc::new(action(one))).collect()
}

impl InstanceAction {
    fn new(name: &str, process: Option<ProcessId>, recorded: &Recorded) -> Self {
        let (user, project) = match &recorded.meta.cause {
            Cause::User { user, project, .. } => (Some(user.clone()), project.clone()),
            Cause::Process { .. } | Cause::System { .. } => (None, None),
        };
        Self {
            name: name.to_owned(),
            request_id: recorded.meta.request_id.clone(),
            user,
            project,
            process,
            started_at: recorded.recorded_at,
            updated_at: recorded.recorded_at,
            message: None,
            succeeded: None,
            steps: Vec::new(),
        }
    }

    fn take(&mut self, event: &ProcessEvent, at: Timestamp, host: Option<HostId>, shared: &mut SharedValues) {
        // A step begins when the previous step ends.
        let begun = self.steps.last().and_then(|step| step.finished_at).unwrap_or(self.started_at);
        self.updated_at = at;
        let mut push = |step: &str, succeeded, details| {
            self.steps.push(ActionStep {
                step: shared.name(step),
                started_at: begun,
                finished_at: Some(at),
                succeeded: Some(succeeded),
                details,
                host,
            });
        };
        match event {
            ProcessEvent::StepDone(done) => push(&done.step, true, None),
            ProcessEvent::StepFailed(failed) => {
                // A server without an error shows no fault, so the action holds the fault for administrators.
                let FaultInfo { message, details, .. } = &failed.fault;
                let whole = if details.is_empty() { message.clone() } else { format!("{message} {details}") };
                push(&failed.step, false, Some(whole));
            }
            ProcessEvent::Finished(finished) => {
                self.succeeded = Some(finished.outcome == ProcessOutcome::Succeeded);
                self.steps.shrink_to_fit();
                if finished.outcome == ProcessOutcome::Failed {
                    self.message = Some("Error".to_owned());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

    use chronova_events::envelope::StreamId;
    use chronova_events::instance::{BuildRequested, Deleted, PowerAction, PowerRequested, samples};
    use uuid::Uuid;

    use super::*;
    use crate::test_events::recorded;

    fn apply(servers: &mut Servers, id: u128, time: i64, event: impl Into<Event>) {
        let event = event.into();
        let recorded = recorded(StreamId::new("instance", Uuid::from_u128(id)), time, &event);
        servers.apply(&recorded, &event);
    }

    fn build() -> InstanceEvent {
        samples().into_iter().find(|event| matches!(event, InstanceEvent::BuildRequested(_))).unwrap()
    }

    fn started(process: u128) -> PowerRequested {
        PowerRequested { process: ProcessId(Uuid::from_u128(process)), action: PowerAction::Start }
    }

    fn ids<'a>(rows: impl Iterator<Item = &'a Arc<ServerRow>>) -> BTreeSet<InstanceId> {
        rows.map(|row| row.id).collect()
    }

    #[test]
    fn the_newest_actions_of_a_server_are_kept() {
        let mut servers = Servers::default();
        apply(&mut servers, 1, 1, build());
        let last = MOST_ACTIONS as u128 + 200;
        for n in 1..=last {
            apply(&mut servers, 1, 2, InstanceEvent::from(started(n)));
        }
        let row = servers.get(InstanceId(Uuid::from_u128(1))).unwrap();
        assert_eq!(row.actions.len(), MOST_ACTIONS);
        let process = |at: usize| row.actions[at].process.map(|process| process.0.as_u128());
        assert_eq!((process(0), process(MOST_ACTIONS - 1)), (Some(201), Some(last)));
    }

    /// Each query of the index has the result of a search through all servers.
    #[test]
    fn the_index_of_changes_agrees_with_the_servers() {
        let mut servers = Servers::default();
        for n in 1..=40_u128 {
            let InstanceEvent::BuildRequested(request) = build() else { panic!("not a build") };
            let project = ["a", "b", "c"][n as usize % 3].into();
            apply(&mut servers, n, n as i64, InstanceEvent::from(BuildRequested { project, ..request }));
        }
        for n in (1..=40_u128).step_by(3) {
            apply(&mut servers, n, 100 + n as i64, InstanceEvent::from(started(n)));
        }
        for n in (1..=40_u128).step_by(5) {
            apply(&mut servers, n, 200, InstanceEvent::from(Deleted { process: ProcessId(Uuid::from_u128(n)) }));
        }
        let projects = [None, Some("a"), Some("b"), Some("nobody")].map(|name| name.map(ProjectId::new));
        for project in projects {
            let is_of = |row: &&Arc<ServerRow>| {
                project.as_ref().is_none_or(|project| row.server().unwrap().request.project == *project)
            };
            for after in [None, Some(InstanceId(Uuid::from_u128(7)))] {
                let all = servers.all().filter(is_of).filter(|row| Some(row.id) > after).map(|row| row.id);
                let found = servers.ever(project.as_ref(), after).map(|row| row.id);
                assert!(all.eq(found), "{project:?} after {after:?}");
            }
            for (since, until) in
                [(None, None), (Some(20), None), (None, Some(103)), (Some(103), Some(201)), (Some(9), Some(3))]
            {
                let (since, until) = (since.map(Timestamp), until.map(Timestamp));
                let within = |row: &&Arc<ServerRow>| {
                    let at = row.server().unwrap().updated_at;
                    since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until)
                };
                let all = ids(servers.all().filter(is_of).filter(within));
                assert_eq!(
                    ids(servers.changed(project.as_ref(), since, until)),
                    all,
                    "{project:?} {since:?} {until:?}"
                );
            }
        }
    }

    #[test]
    fn version_12_is_converted() {
        #[derive(Serialize)]
        struct V12 {
            by_id: BTreeMap<InstanceId, Arc<ServerRow>>,
            by_project: BTreeMap<ProjectId, BTreeSet<(Timestamp, InstanceId)>>,
            by_age: BTreeSet<(Timestamp, InstanceId)>,
            by_host: BTreeMap<HostId, BTreeSet<InstanceId>>,
            by_process: BTreeMap<ProcessId, InstanceId>,
            requested: u64,
        }
        let mut servers = Servers::default();
        apply(&mut servers, 1, 1, build());
        apply(&mut servers, 1, 5, InstanceEvent::from(started(2)));
        let new = servers.clone();
        let Servers { by_id, by_project, by_age, by_host, by_process, requested, .. } = servers;
        let old = V12 { by_id, by_project, by_age, by_host, by_process, requested };
        let read = Servers::older(12, &codec::encode_snapshot(&old).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::to_value(&new).unwrap());
        assert!(Servers::older(11, &[]).is_none());
    }
}
