//! Every project's server groups, with the hosts of their members.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::{HostId, InstanceId, ProjectId, ServerGroupId};
use chronova_events::instance::InstanceEvent;
use chronova_events::registry::Event;
use chronova_events::server_group::{ServerGroup, ServerGroupEvent, ServerGroups};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct ServerGroupsView {
    by_project: BTreeMap<ProjectId, ServerGroups>,
    /// The project of each group.
    owners: BTreeMap<ServerGroupId, ProjectId>,
    members: BTreeMap<InstanceId, Membership>,
}

/// The known state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Membership {
    group: ServerGroupId,
    /// The host of the server, or the host that builds it.
    host: Option<HostId>,
    /// Whether the server was requested and is not deleted. A server becomes a member before it is requested.
    alive: bool,
}

impl ServerGroupsView {
    pub fn get(&self, id: ServerGroupId) -> Option<&Arc<ServerGroup>> {
        self.by_project.get(self.owners.get(&id)?)?.by_id.get(&id)
    }

    /// A project's groups in the order of their creation.
    pub fn of_project(&self, project: &ProjectId) -> Vec<&Arc<ServerGroup>> {
        let mut groups: Vec<_> = self.by_project.get(project).into_iter().flat_map(|own| own.by_id.values()).collect();
        groups.sort_by_key(|group| group.number);
        groups
    }

    /// The groups of all projects, in the order of their creation.
    pub fn all(&self) -> Vec<&Arc<ServerGroup>> {
        let mut groups: Vec<_> = self.by_project.values().flat_map(|own| own.by_id.values()).collect();
        groups.sort_by_key(|group| (group.created_at, group.number));
        groups
    }

    /// The group that has the server as a member.
    pub fn of_server(&self, instance: InstanceId) -> Option<&Arc<ServerGroup>> {
        self.get(self.members.get(&instance)?.group)
    }

    /// The members of a group and their hosts; `None` for a member without a host.
    pub fn members(&self, id: ServerGroupId) -> impl Iterator<Item = (InstanceId, Option<HostId>)> {
        let members = self.get(id).into_iter().flat_map(|group| &group.members);
        members.map(|member| (member.instance, self.members.get(&member.instance).and_then(|known| known.host)))
    }

    /// The members of a group that have a server. The list leaves out members that an unfinished request has just
    /// added, and members that a crash left behind.
    pub fn servers(&self, id: ServerGroupId) -> impl Iterator<Item = InstanceId> {
        let members = self.get(id).into_iter().flat_map(|group| &group.members);
        members
            .map(|member| member.instance)
            .filter(|instance| self.members.get(instance).is_some_and(|known| known.alive))
    }

    /// How many members of a group each host has.
    pub fn hosts(&self, id: ServerGroupId) -> BTreeMap<HostId, u32> {
        let mut hosts = BTreeMap::new();
        for host in self.members(id).filter_map(|(_, host)| host) {
            *hosts.entry(host).or_default() += 1;
        }
        hosts
    }
}

impl Projection for ServerGroupsView {
    const NAME: &'static str = "server_groups";
    const VERSION: u32 = 3;
    const NOUNS: &'static [&'static str] = &["server_group", "instance"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        match event {
            Event::ServerGroupEvent(event) => self.apply_group(recorded, event),
            Event::InstanceEvent(event) => {
                if !self.members.is_empty()
                    && let Ok(id) = recorded.stream.key().parse()
                    && let Some(known) = self.members.get_mut(&id)
                {
                    known.take(event);
                }
            }
            _ => {}
        }
    }
}

impl Membership {
    fn take(&mut self, event: &InstanceEvent) {
        match event {
            InstanceEvent::BuildRequested(_) => self.alive = true,
            InstanceEvent::Placed(placed) => self.host = Some(placed.host),
            InstanceEvent::Unplaced(_) | InstanceEvent::Offloaded(_) => self.host = None,
            InstanceEvent::Resized(resized) => self.host = Some(resized.placed.host),
            InstanceEvent::LiveMoved(moved) => self.host = Some(moved.placed.host),
            InstanceEvent::Evacuated(moved) => self.host = Some(moved.placed.host),
            InstanceEvent::ResizeReverted(reverted) => self.host = Some(reverted.placed.host),
            InstanceEvent::Deleted(_) => (self.host, self.alive) = (None, false),
            _ => {}
        }
    }
}

impl ServerGroupsView {
    fn apply_group(&mut self, recorded: &Recorded, event: &ServerGroupEvent) {
        let project = ProjectId::new(recorded.stream.key());
        match event {
            ServerGroupEvent::ServerGroupCreated(created) => {
                self.owners.insert(created.group, project.clone());
            }
            ServerGroupEvent::ServerGroupDeleted(deleted) => {
                if let Some(group) = self.get(deleted.group).cloned() {
                    for member in &group.members {
                        self.members.remove(&member.instance);
                    }
                }
                self.owners.remove(&deleted.group);
            }
            ServerGroupEvent::MembersJoined(joined) => {
                for instance in &joined.instances {
                    let member = Membership { group: joined.group, host: None, alive: false };
                    self.members.insert(*instance, member);
                }
            }
            ServerGroupEvent::MemberLeft(left) => {
                self.members.remove(&left.instance);
            }
        }
        self.by_project.entry(project).or_default().evolve(event, recorded.recorded_at);
    }
}
