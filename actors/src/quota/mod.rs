//! A project's quota. An API or a process reserves quota here before it requests a server.

pub mod decide;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{InstanceId, ProcessId, ProjectId, ServerGroupId};
use chronova_events::quota::{Quota, QuotaEvent};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum QuotaRoot {}

/// The limits of projects that have none of their own, from `[quota]` or the default class. -1 means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultLimits {
    pub instances: i64,
    pub cores: i64,
    pub memory_mib: i64,
    /// Whether limits count. If not, nothing is limited (`NoopQuotaDriver`).
    pub enforced: bool,
}

impl Default for DefaultLimits {
    /// Nova's defaults.
    fn default() -> Self {
        Self { instances: 10, cores: 20, memory_mib: 50 * 1024, enforced: true }
    }
}

impl DefaultLimits {
    /// No default limits. Only limits that projects have of their own count.
    pub const NONE: Self = Self { instances: -1, cores: -1, memory_mib: -1, enforced: true };
}

#[derive(Debug, Clone)]
pub enum QuotaCommand {
    /// Reserves quota for the servers of one request: as many as fit between `min_count` and `max_count`. Also requests
    /// the process that creates them.
    Claim(Box<ServersWanted>),
    Release {
        project: ProjectId,
        instance: InstanceId,
    },
    /// Reserves quota for the new size of a server. For each resource, the server holds the larger of its old and its
    /// new amount. Also requests the process that sends the request to the server.
    ClaimForServer(Box<ServerQuotaClaim>),
    /// Ends a claim that its server refused. The server then holds the amounts of its own size, or larger amounts of
    /// its other open claims.
    Withdraw {
        project: ProjectId,
        process: ProcessId,
        instance: InstanceId,
    },
    /// Sets the amounts that the server holds from now on.
    Settle {
        project: ProjectId,
        instance: InstanceId,
        cores: u32,
        memory_mib: u64,
    },
    SetLimits {
        project: ProjectId,
        limits: Vec<(String, i64)>,
    },
    ResetLimits {
        project: ProjectId,
    },
}

/// The size of a server that is to be resized or restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerQuotaClaim {
    pub project: ProjectId,
    /// The process that sends the request to the server.
    pub process: ProcessId,
    pub instance: InstanceId,
    /// The process that the server is asked to start.
    pub asks_for: ProcessId,
    pub cores: u32,
    pub memory_mib: u64,
    pub defaults: DefaultLimits,
}

/// The number and the size of the servers in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServersWanted {
    pub project: ProjectId,
    /// The process that creates the servers. Their ids derive from its id.
    pub process: ProcessId,
    pub min_count: u32,
    pub max_count: u32,
    /// `[chronova] max_servers_per_request`: a request is refused if quota admits more servers than this.
    pub most: u32,
    /// The cores of each server.
    pub cores: u32,
    /// The memory of each server in MiB.
    pub memory_mib: u64,
    /// The server group that the servers join, and the project that owns the group.
    pub group: Option<(ProjectId, ServerGroupId)>,
    pub defaults: DefaultLimits,
}

/// A resource without enough quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsufficientQuota {
    /// `instances`, `cores`, `ram`.
    pub resource: &'static str,
    pub requested: u64,
    pub used: u64,
    pub limit: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QuotaReject {
    #[error("quota exceeded")]
    Exceeded(Vec<InsufficientQuota>),
    /// Quota has room, but the request wants more servers than one request may create.
    #[error("more than {most} servers in one request")]
    TooManyAtOnce { most: u32 },
}

impl AggregateRoot for QuotaRoot {
    type Id = ProjectId;
    type State = Quota;
    type Command = QuotaCommand;
    type Reject = QuotaReject;

    fn stream(project: &ProjectId) -> StreamId {
        StreamId::new("quota", project)
    }

    fn decide(state: &Quota, command: QuotaCommand) -> Result<Vec<QuotaEvent>, QuotaReject> {
        decide::decide(state, command)
    }
}
