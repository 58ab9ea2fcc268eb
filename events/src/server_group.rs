//! Server groups: one stream per project, because the number of a project's groups has a limit.
//!
//! A server becomes a member before it is requested, and leaves when it is deleted. The stream names the members of
//! each group, so that the limit of members holds under concurrent requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{InstanceId, ProjectId, ServerGroupId, UserId};

noun! {
    /// Events of a project's server groups.
    ServerGroupEvent = "server_group" {
        /// A group was created.
        ServerGroupCreated = "created" @ 1,
        /// A group was deleted; its servers do not move.
        ServerGroupDeleted = "deleted" @ 1,
        /// Servers about to be built joined the group.
        MembersJoined = "members_joined" @ 1,
        /// A server is no longer a member: it was deleted, or was never created.
        MemberLeft = "member_left" @ 1,
    }
}

/// How the scheduler places the members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServerGroupPolicy {
    /// All members on one host.
    Affinity,
    /// At most one member on a host, or at most `max_server_per_host` members.
    AntiAffinity,
    /// All members on one host if possible.
    SoftAffinity,
    /// At most one member on a host, if possible.
    SoftAntiAffinity,
}

impl ServerGroupPolicy {
    pub const ALL: [Self; 4] = [Self::AntiAffinity, Self::Affinity, Self::SoftAffinity, Self::SoftAntiAffinity];

    /// The name of the policy in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::AntiAffinity => "anti-affinity",
            Self::SoftAffinity => "soft-affinity",
            Self::SoftAntiAffinity => "soft-anti-affinity",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerGroupCreated {
    pub group: ServerGroupId,
    pub project: ProjectId,
    pub user: UserId,
    pub name: String,
    pub policy: ServerGroupPolicy,
    /// The largest number of members on one host, for anti-affinity (2.64).
    pub max_server_per_host: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerGroupDeleted {
    pub group: ServerGroupId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MembersJoined {
    pub group: ServerGroupId,
    /// The owner of the servers, because the limit counts members per user.
    pub user: UserId,
    pub instances: Vec<InstanceId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberLeft {
    pub group: ServerGroupId,
    pub instance: InstanceId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerGroup {
    pub definition: ServerGroupCreated,
    /// The members in the order in which they joined.
    pub members: Vec<ServerGroupMember>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
    /// The group's number in the order of creation within the project, deleted groups included.
    pub number: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerGroupMember {
    pub instance: InstanceId,
    pub user: UserId,
}

impl ServerGroup {
    pub fn has(&self, instance: InstanceId) -> bool {
        self.members.iter().any(|member| member.instance == instance)
    }

    /// The largest number of members that the policy allows on one host; `None` if it sets no limit.
    pub fn most_per_host(&self) -> Option<u32> {
        (self.definition.policy == ServerGroupPolicy::AntiAffinity)
            .then(|| self.definition.max_server_per_host.unwrap_or(1))
    }
}

/// A project's server groups.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerGroups {
    pub by_id: BTreeMap<ServerGroupId, Arc<ServerGroup>>,
    pub made: u64,
}

impl Fold for ServerGroups {
    type Event = ServerGroupEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &ServerGroupEvent, at: Timestamp) {
        match event {
            ServerGroupEvent::ServerGroupCreated(created) => {
                self.made += 1;
                let group = ServerGroup {
                    definition: created.clone(),
                    members: Vec::new(),
                    created_at: at,
                    updated_at: None,
                    number: self.made,
                };
                self.by_id.insert(created.group, Arc::new(group));
            }
            ServerGroupEvent::ServerGroupDeleted(deleted) => {
                self.by_id.remove(&deleted.group);
            }
            ServerGroupEvent::MembersJoined(joined) => {
                if let Some(group) = self.by_id.get_mut(&joined.group).map(Arc::make_mut) {
                    group.updated_at = Some(at);
                    let new = joined
                        .instances
                        .iter()
                        .map(|id| ServerGroupMember { instance: *id, user: joined.user.clone() });
                    group.members.extend(new);
                }
            }
            ServerGroupEvent::MemberLeft(left) => {
                if let Some(group) = self.by_id.get_mut(&left.group).map(Arc::make_mut) {
                    group.updated_at = Some(at);
                    group.members.retain(|member| member.instance != left.instance);
                }
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<ServerGroupEvent> {
    let group = ServerGroupId(uuid::Uuid::from_u128(1));
    let (user, instance) = (UserId::new("u"), InstanceId(uuid::Uuid::from_u128(2)));
    vec![
        ServerGroupCreated {
            group,
            project: ProjectId::new("p"),
            user: user.clone(),
            name: "apart".into(),
            policy: ServerGroupPolicy::AntiAffinity,
            max_server_per_host: Some(3),
        }
        .into(),
        ServerGroupDeleted { group }.into(),
        MembersJoined { group, user, instances: vec![instance] }.into(),
        MemberLeft { group, instance }.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_anti_affinity_limits_the_members_of_a_host() {
        let most = |policy, rule| {
            let mut groups = ServerGroups::default();
            let definition = ServerGroupCreated {
                group: ServerGroupId(uuid::Uuid::nil()),
                project: ProjectId::new("p"),
                user: UserId::new("u"),
                name: "g".into(),
                policy,
                max_server_per_host: rule,
            };
            groups.evolve(&definition.into(), Timestamp(0));
            groups.by_id.values().next().and_then(|group| group.most_per_host())
        };
        assert_eq!(most(ServerGroupPolicy::AntiAffinity, None), Some(1));
        assert_eq!(most(ServerGroupPolicy::AntiAffinity, Some(3)), Some(3));
        assert_eq!(most(ServerGroupPolicy::SoftAntiAffinity, None), None);
        assert_eq!(most(ServerGroupPolicy::Affinity, None), None);
        assert!(
            ServerGroupPolicy::ALL.into_iter().all(|policy| ServerGroupPolicy::parse(policy.name()) == Some(policy))
        );
    }
}
