//! A project's security groups.

pub mod decide;

#[cfg(test)]
mod tests;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::security_group::{GroupCreated, RuleAdded, SecurityGroupEvent, SecurityGroups};
use thiserror::Error;

use super::RevisionMismatch;
use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum SecurityGroupRoot {}

/// A limit of resources; -1 means no limit.
pub type Limit = i64;

#[derive(Debug, Clone)]
pub enum SecurityGroupCommand {
    /// Creates the group `default` unless it exists.
    EnsureDefault {
        project: ProjectId,
    },
    /// Creates a group with the two rules that allow all egress.
    Create {
        created: GroupCreated,
        limit: Limit,
    },
    Change {
        group: SecurityGroupId,
        patch: GroupPatch,
    },
    /// Deletes the group with its rules. Also deletes the rules of the project's other groups that name it as their
    /// remote group.
    Delete {
        group: SecurityGroupId,
        /// Whether the command may delete the default group. Administrators may do so. The default group is created
        /// again when it is needed.
        default_too: bool,
    },
    /// Adds all rules, or none.
    AddRules {
        rules: Vec<RuleAdded>,
        limit: Limit,
    },
    RemoveRule {
        rule: SecurityGroupRuleId,
    },
    /// Executes the command only if the group still has this revision.
    IfRevision {
        group: SecurityGroupId,
        revision: u64,
        command: Box<SecurityGroupCommand>,
    },
}

/// The changes of a group.
#[derive(Debug, Clone, Default)]
pub struct GroupPatch {
    pub name: Option<String>,
    pub description: Option<String>,
    pub stateful: Option<bool>,
    pub tags: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecurityGroupReject {
    #[error("Security group {0} does not exist")]
    NotFound(SecurityGroupId),
    #[error("Security group rule {0} does not exist")]
    RuleNotFound(SecurityGroupRuleId),
    #[error("The id {0} is taken.")]
    IdTaken(String),
    #[error(transparent)]
    Revision(#[from] RevisionMismatch),
    #[error("Default security group already exists.")]
    DefaultExists,
    #[error("Updating default security group not allowed.")]
    CannotChangeDefault,
    #[error("Insufficient rights for removing default security group.")]
    CannotRemoveDefault,
    #[error("Security group rule already exists. Rule id is {0}.")]
    RuleExists(SecurityGroupRuleId),
    #[error("Quota exceeded for resources: ['{0}'].")]
    OverQuota(&'static str),
    #[error("Invalid input for operation: {0}.")]
    InvalidInput(String),
}

impl AggregateRoot for SecurityGroupRoot {
    type Id = ProjectId;
    type State = SecurityGroups;
    type Command = SecurityGroupCommand;
    type Reject = SecurityGroupReject;

    fn stream(project: &ProjectId) -> StreamId {
        StreamId::new("security_group", project)
    }

    fn decide(
        state: &SecurityGroups,
        command: SecurityGroupCommand,
    ) -> Result<Vec<SecurityGroupEvent>, SecurityGroupReject> {
        decide::decide(state, command)
    }
}
