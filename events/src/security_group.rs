//! Security groups: one stream per project, because group names and the quota belong to the project.
//!
//! Every project has the group `default`. Its id derives from the project's id, so that concurrent creations give the
//! same group.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ProjectId, SecurityGroupId, SecurityGroupRuleId};
use crate::tags::{SettingsWithTags, TagsChange};

/// The namespace for the ids of default groups.
const NAMESPACE: Uuid = Uuid::from_u128(0x7d44_41c5_8d5c_4be0_9a10_6c1d_2f3e_5b77);

/// The reserved group name.
pub const DEFAULT: &str = "default";

/// The id of a project's `default` group.
pub fn default_group(project: &ProjectId) -> SecurityGroupId {
    SecurityGroupId::derive(NAMESPACE, project.as_str())
}

noun! {
    /// Events of a project's security groups.
    SecurityGroupEvent = "security_group" {
        /// A group was created.
        GroupCreated = "created" @ 1,
        /// The settings of a group were changed to these values.
        GroupSettingsReplaced = "settings_replaced" @ 2 from { 1 => GroupSettingsReplacedV1 },
        /// A group was deleted, with its rules.
        GroupDeleted = "deleted" @ 1,
        /// A rule that allows traffic was added.
        RuleAdded = "rule_added" @ 1,
        /// A rule was removed.
        RuleRemoved = "rule_removed" @ 1,
    }
}

/// The settings of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSettings {
    pub name: String,
    pub description: String,
    pub stateful: bool,
    /// Sorted.
    pub tags: Vec<String>,
}

impl SettingsWithTags for GroupSettings {
    fn tags_mut(&mut self) -> &mut Vec<String> {
        &mut self.tags
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCreated {
    pub group: SecurityGroupId,
    pub project: ProjectId,
    pub settings: GroupSettings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSettingsReplaced {
    pub group: SecurityGroupId,
    pub settings: GroupSettings,
    /// The change of the tags. `settings` itself has no tags.
    pub tags: TagsChange,
}

/// The older version, with all tags. Chronova still reads it and no longer writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSettingsReplacedV1 {
    pub group: SecurityGroupId,
    pub settings: GroupSettings,
}

impl From<GroupSettingsReplacedV1> for GroupSettingsReplaced {
    fn from(old: GroupSettingsReplacedV1) -> Self {
        let (settings, tags) = TagsChange::all(old.settings);
        Self { group: old.group, settings, tags }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDeleted {
    pub group: SecurityGroupId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Direction {
    Ingress,
    Egress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Ethertype {
    Ipv4,
    Ipv6,
}

/// The traffic that a rule allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleTraffic {
    pub direction: Direction,
    pub ethertype: Ethertype,
    /// The protocol in Neutron's form, for example `tcp`, `ipv6-icmp` or `89`; `None` for any.
    pub protocol: Option<String>,
    /// The first port, or the ICMP type.
    pub port_min: Option<u16>,
    /// The last port, or the ICMP code.
    pub port_max: Option<u16>,
    /// An address prefix of the other end.
    pub remote_prefix: Option<String>,
    /// A group; the other end must be one of its members.
    pub remote_group: Option<SecurityGroupId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleAdded {
    pub rule: SecurityGroupRuleId,
    pub group: SecurityGroupId,
    pub project: ProjectId,
    pub description: String,
    pub traffic: RuleTraffic,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRemoved {
    pub rule: SecurityGroupRuleId,
    pub group: SecurityGroupId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecurityGroupRule {
    pub added: RuleAdded,
    pub created_at: Timestamp,
}

/// A group with its present settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SecurityGroup {
    pub created: GroupCreated,
    pub rules: BTreeMap<SecurityGroupRuleId, Arc<SecurityGroupRule>>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: u64,
}

impl SecurityGroup {
    pub fn id(&self) -> SecurityGroupId {
        self.created.group
    }

    pub fn project(&self) -> &ProjectId {
        &self.created.project
    }

    pub fn settings(&self) -> &GroupSettings {
        &self.created.settings
    }
}

/// A project's groups.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SecurityGroups {
    pub by_id: BTreeMap<SecurityGroupId, Arc<SecurityGroup>>,
    /// The number of rules in all groups.
    pub rules: usize,
}

impl SecurityGroups {
    fn change(&mut self, id: SecurityGroupId, at: Timestamp, with: impl FnOnce(&mut SecurityGroup)) {
        if let Some(group) = self.by_id.get_mut(&id) {
            let group = Arc::make_mut(group);
            with(group);
            group.updated_at = at;
            group.revision += 1;
        }
    }
}

impl Fold for SecurityGroups {
    type Event = SecurityGroupEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &SecurityGroupEvent, at: Timestamp) {
        match event {
            SecurityGroupEvent::GroupCreated(created) => {
                let group = SecurityGroup {
                    created: created.clone(),
                    rules: BTreeMap::new(),
                    created_at: at,
                    updated_at: at,
                    revision: 1,
                };
                self.by_id.insert(created.group, Arc::new(group));
            }
            SecurityGroupEvent::GroupSettingsReplaced(replaced) => {
                self.change(replaced.group, at, |group| {
                    replaced.tags.replace(&mut group.created.settings, &replaced.settings);
                });
            }
            SecurityGroupEvent::GroupDeleted(deleted) => {
                if let Some(group) = self.by_id.remove(&deleted.group) {
                    self.rules -= group.rules.len();
                }
            }
            SecurityGroupEvent::RuleAdded(added) => {
                let mut is_new = false;
                self.change(added.group, at, |group| {
                    let rule = SecurityGroupRule { added: added.clone(), created_at: at };
                    is_new = group.rules.insert(added.rule, Arc::new(rule)).is_none();
                });
                self.rules += usize::from(is_new);
            }
            SecurityGroupEvent::RuleRemoved(removed) => {
                let mut was_there = false;
                self.change(removed.group, at, |group| was_there = group.rules.remove(&removed.rule).is_some());
                self.rules -= usize::from(was_there);
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<SecurityGroupEvent> {
    let project = ProjectId::new("p");
    let group = default_group(&project);
    let rule = SecurityGroupRuleId(Uuid::from_u128(1));
    let settings =
        GroupSettings { name: DEFAULT.into(), description: "Default".into(), stateful: true, tags: vec!["t".into()] };
    vec![
        GroupCreated { group, project: project.clone(), settings: settings.clone() }.into(),
        GroupSettingsReplaced {
            group,
            settings: GroupSettings { tags: vec![], ..settings },
            tags: TagsChange::Difference { added: vec![], removed: vec!["t".into()] },
        }
        .into(),
        GroupDeleted { group }.into(),
        RuleAdded {
            rule,
            group,
            project,
            description: "ssh".into(),
            traffic: RuleTraffic {
                direction: Direction::Ingress,
                ethertype: Ethertype::Ipv4,
                protocol: Some("tcp".into()),
                port_min: Some(22),
                port_max: Some(22),
                remote_prefix: Some("192.0.2.0/24".into()),
                remote_group: Some(group),
            },
        }
        .into(),
        RuleRemoved { rule, group }.into(),
    ]
}
