//! The servers, hosts and processes of a log, by id and by name.

use std::collections::BTreeMap;

use chronova_events::envelope::{Position, Recorded};
use chronova_events::host::HostEvent;
use chronova_events::ids::{HostId, InstanceId, ProcessId};
use chronova_events::instance::InstanceEvent;
use chronova_events::process::{ProcessEvent, Task};
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;

use super::super::CommandFailure;
use super::super::log_pages::{payload, search};

/// The kinds of the events that name a subject.
const NAMING: [&str; 6] = [
    "instance.build_requested",
    "instance.renamed",
    "instance.deleted",
    "host.registered",
    "host.capabilities_changed",
    "process.started",
];

/// The subject of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StorySubject {
    Server(InstanceId),
    Process(ProcessId),
    Host(HostId),
    Request(String),
}

#[derive(Debug, Default)]
pub(super) struct InspectIndex {
    /// All servers with their newest names, including deleted ones.
    pub servers: BTreeMap<InstanceId, Named>,
    /// All hosts with their newest names, including deregistered ones.
    pub hosts: BTreeMap<HostId, String>,
    pub processes: BTreeMap<ProcessId, Task>,
}

#[derive(Debug)]
pub(super) struct Named {
    pub name: String,
    pub deleted: bool,
}

impl InspectIndex {
    /// Reads the subjects of the log up to `until`.
    pub(super) async fn read(store: &dyn EventStore, until: Position) -> Result<Self, CommandFailure> {
        let mut index = Self::default();
        let criteria = Criteria { kinds: NAMING.map(str::to_owned).to_vec(), ..Criteria::default() };
        search(store, until, &criteria, |recorded| {
            index.take(recorded, payload(recorded)?);
            Ok(())
        })
        .await?;
        Ok(index)
    }

    fn take(&mut self, recorded: &Recorded, event: &Event) {
        match event {
            Event::InstanceEvent(InstanceEvent::BuildRequested(asked)) => {
                self.servers.insert(asked.instance, Named { name: asked.name.clone(), deleted: false });
            }
            Event::InstanceEvent(InstanceEvent::Renamed(renamed)) => {
                if let Some(server) = recorded.stream.key().parse().ok().and_then(|id| self.servers.get_mut(&id)) {
                    server.name.clone_from(&renamed.name);
                }
            }
            Event::InstanceEvent(InstanceEvent::Deleted(_)) => {
                if let Some(server) = recorded.stream.key().parse().ok().and_then(|id| self.servers.get_mut(&id)) {
                    server.deleted = true;
                }
            }
            Event::HostEvent(HostEvent::Registered(host)) => {
                self.hosts.insert(host.host, host.hostname.clone());
            }
            Event::HostEvent(HostEvent::CapabilitiesChanged(host)) => {
                if let Some(name) = recorded.stream.key().parse().ok().and_then(|id| self.hosts.get_mut(&id)) {
                    name.clone_from(&host.hostname);
                }
            }
            Event::ProcessEvent(ProcessEvent::Started(started)) => {
                self.processes.insert(started.process, started.task.clone());
            }
            _ => {}
        }
    }

    /// The subjects that `name` can mean. A server's full id has precedence over servers' names, and a host's name has
    /// precedence over hosts' ids. A living server has precedence over deleted servers of the same name.
    pub(super) fn find(&self, kind: &str, name: &str) -> Result<Vec<StorySubject>, CommandFailure> {
        Ok(match kind {
            "server" => self.find_server(name),
            "process" => by_prefix(self.processes.keys().map(|id| (*id, id.to_string())), name)
                .map(StorySubject::Process)
                .collect(),
            "host" => {
                let named = self.hosts.iter().filter(|(_, hostname)| *hostname == name).map(|(id, _)| *id);
                let named: Vec<HostId> = named.collect();
                let found = if named.is_empty() {
                    by_prefix(self.hosts.keys().map(|id| (*id, id.to_string())), name).collect()
                } else {
                    named
                };
                found.into_iter().map(StorySubject::Host).collect()
            }
            "request" => vec![StorySubject::Request(match name.strip_prefix("req-") {
                Some(_) => name.to_owned(),
                None => format!("req-{name}"),
            })],
            other => {
                let kinds = "server, process, host, request and scheduling";
                return Err(CommandFailure::Usage(format!("`{other}` is none of {kinds}")));
            }
        })
    }

    fn find_server(&self, name: &str) -> Vec<StorySubject> {
        if let Some(id) = name.parse().ok().filter(|id| self.servers.contains_key(id)) {
            return vec![StorySubject::Server(id)];
        }
        let named = || self.servers.iter().filter(|(_, server)| server.name == name);
        let living: Vec<InstanceId> = named().filter(|(_, server)| !server.deleted).map(|(id, _)| *id).collect();
        let mut found = if living.is_empty() { named().map(|(id, _)| *id).collect() } else { living };
        if found.is_empty() {
            found = by_prefix(self.servers.keys().map(|id| (*id, id.to_string())), name).collect();
        }
        found.into_iter().map(StorySubject::Server).collect()
    }

    /// The kind, the name and the id: `server web-1 (1b2c...)`.
    pub(super) fn title(&self, subject: &StorySubject) -> String {
        match subject {
            StorySubject::Server(id) => {
                let name = self.servers.get(id).map_or("", |server| server.name.as_str());
                let gone = if self.servers.get(id).is_some_and(|server| server.deleted) { ", deleted" } else { "" };
                format!("server {name} ({id}{gone})")
            }
            StorySubject::Process(id) => format!("process {} ({id})", self.process_name(*id)),
            StorySubject::Host(id) => format!("host {} ({id})", self.hosts.get(id).map_or("", String::as_str)),
            StorySubject::Request(id) => format!("request {id}"),
        }
    }

    pub(super) fn process_name(&self, id: ProcessId) -> &'static str {
        self.processes.get(&id).map_or("process", Task::name)
    }
}

/// The ids that begin with `prefix`, which must be long enough not to match by accident.
fn by_prefix<I>(ids: impl Iterator<Item = (I, String)>, prefix: &str) -> impl Iterator<Item = I> {
    const SHORTEST: usize = 4;
    ids.filter(move |(_, text)| prefix.len() >= SHORTEST && text.starts_with(prefix)).map(|(id, _)| id)
}
