//! A project's quota: room for servers is taken here before a server is asked for.

pub mod decide;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{InstanceId, ProcessId, ProjectId, ServerGroupId};
use chronova_events::quota::{Quota, QuotaEvent};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum QuotaRoot {}

/// The limits of a project that has none of its own: `[quota]`. -1 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultLimits {
    pub instances: i64,
    pub cores: i64,
    pub memory_mib: i64,
}

impl Default for DefaultLimits {
    /// Nova's defaults.
    fn default() -> Self {
        Self { instances: 10, cores: 20, memory_mib: 50 * 1024 }
    }
}

#[derive(Debug, Clone)]
pub enum QuotaCommand {
    /// Takes room for the servers of one request, as many as fit between `min_count` and `max_count`, and asks for the
    /// process that creates them.
    Claim(Box<ServersWanted>),
    Release {
        project: ProjectId,
        instance: InstanceId,
    },
    /// Takes room for what a server is to become: the larger of that and of what it holds.
    ClaimForServer(Box<ServerClaim>),
    /// The server does not become it. What it held before it holds again, and what other claims still need.
    Withdraw {
        project: ProjectId,
        process: ProcessId,
        instance: InstanceId,
    },
    /// The server holds exactly this from now on.
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

/// The size of a server that is asked to become larger, or to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerClaim {
    pub project: ProjectId,
    /// The process that the server is asked for.
    pub process: ProcessId,
    pub instance: InstanceId,
    pub cores: u32,
    pub memory_mib: u64,
    pub defaults: DefaultLimits,
}

/// How many servers a request wants, and how large each is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServersWanted {
    pub project: ProjectId,
    /// Its id is the seed of the servers' ids.
    pub process: ProcessId,
    pub min_count: u32,
    pub max_count: u32,
    /// `[chronova] max_servers_per_request`: a request that quota leaves room for more is refused.
    pub most: u32,
    /// Each server takes as many.
    pub cores: u32,
    /// Each server takes as much.
    pub memory_mib: u64,
    /// The server group that they join, after the project that owns it.
    pub group: Option<(ProjectId, ServerGroupId)>,
    pub defaults: DefaultLimits,
}

/// One resource of which there is not enough.
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
