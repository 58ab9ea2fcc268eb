//! Every project's security groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::Recorded;
use chronova_events::fold::Fold;
use chronova_events::ids::{ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::registry::{Event, NounEvent};
use chronova_events::security_group::{SecurityGroup, SecurityGroupEvent, SecurityGroupRule, SecurityGroups};
use serde::{Deserialize, Serialize};

use crate::Projection;

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct SecurityGroupsView {
    by_project: BTreeMap<ProjectId, SecurityGroups>,
    /// The project of each group.
    owners: BTreeMap<SecurityGroupId, ProjectId>,
    /// The group of each rule.
    rules: BTreeMap<SecurityGroupRuleId, SecurityGroupId>,
}

impl SecurityGroupsView {
    pub fn of_project(&self, project: &ProjectId) -> Option<&SecurityGroups> {
        self.by_project.get(project)
    }

    pub fn get(&self, id: SecurityGroupId) -> Option<&Arc<SecurityGroup>> {
        self.by_project.get(self.owners.get(&id)?)?.by_id.get(&id)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<SecurityGroup>> {
        self.by_project.values().flat_map(|groups| groups.by_id.values())
    }

    pub fn rule(&self, id: SecurityGroupRuleId) -> Option<&Arc<SecurityGroupRule>> {
        self.get(*self.rules.get(&id)?)?.rules.get(&id)
    }
}

impl Projection for SecurityGroupsView {
    const NAME: &'static str = "security_groups";
    const VERSION: u32 = 1;
    const NOUNS: &'static [&'static str] = &["security_group"];

    fn apply(&mut self, recorded: &Recorded, event: &Event) {
        let Some(event) = SecurityGroupEvent::of(event) else { return };
        let project = ProjectId::new(recorded.stream.key());
        match event {
            SecurityGroupEvent::GroupCreated(created) => {
                self.owners.insert(created.group, project.clone());
            }
            SecurityGroupEvent::GroupDeleted(deleted) => {
                if let Some(group) = self.get(deleted.group).cloned() {
                    for rule in group.rules.keys() {
                        self.rules.remove(rule);
                    }
                }
                self.owners.remove(&deleted.group);
            }
            SecurityGroupEvent::RuleAdded(added) => {
                self.rules.insert(added.rule, added.group);
            }
            SecurityGroupEvent::RuleRemoved(removed) => {
                self.rules.remove(&removed.rule);
            }
            SecurityGroupEvent::GroupSettingsReplaced(_) => {}
        }
        self.by_project.entry(project).or_default().evolve(event, recorded.recorded_at);
    }

    fn weight(&self) -> u64 {
        (self.owners.len() + self.rules.len()) as u64 * 768
    }
}
