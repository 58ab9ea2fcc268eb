//! A project's server groups.

pub mod decide;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{InstanceId, ProjectId, ServerGroupId, UserId};
use chronova_events::server_group::{ServerGroupCreated, ServerGroupEvent, ServerGroups};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum ServerGroupRoot {}

#[derive(Debug, Clone)]
pub enum ServerGroupCommand {
    /// `limit`: how many groups the project may have; -1 means no limit.
    Create {
        group: ServerGroupCreated,
        limit: i64,
    },
    Delete {
        group: ServerGroupId,
    },
    /// Makes the servers that will be requested next members of the group. `limit`: how many servers of one user the
    /// group may have.
    Join {
        group: ServerGroupId,
        user: UserId,
        instances: Vec<InstanceId>,
        limit: i64,
    },
    /// Removes a server that was deleted or never created. Succeeds if the server is no member.
    Leave {
        group: ServerGroupId,
        instance: InstanceId,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ServerGroupReject {
    #[error("server group {0} could not be found")]
    NotFound(ServerGroupId),
    #[error("the project may have {0} server groups at most")]
    TooManyGroups(i64),
    #[error("a user may have {0} servers in a group at most")]
    TooManyMembers(i64),
}

impl AggregateRoot for ServerGroupRoot {
    type Id = ProjectId;
    type State = ServerGroups;
    type Command = ServerGroupCommand;
    type Reject = ServerGroupReject;

    fn stream(project: &ProjectId) -> StreamId {
        StreamId::new("server_group", project)
    }

    fn decide(state: &ServerGroups, command: ServerGroupCommand) -> Result<Vec<ServerGroupEvent>, ServerGroupReject> {
        decide::decide(state, command)
    }
}
