//! A project's quota of networks, subnets, ports, routers, floating addresses and security groups. [`room`] counts the
//! networks, subnets, ports and routers that use it.

pub mod decide;
pub mod room;

use std::collections::BTreeSet;

use chronova_events::envelope::StreamId;
use chronova_events::ids::ProjectId;
use chronova_events::network_quota::{CountedResource, NetworkLimits, NetworkQuotaEvent};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

/// The limited resources, with Neutron's default limits.
pub const RESOURCES: [(&str, i64); 7] = [
    ("network", 100),
    ("subnet", 100),
    ("port", 500),
    ("router", 10),
    ("floatingip", 50),
    ("security_group", 10),
    ("security_group_rule", 100),
];

/// A project's limit for a resource; -1 means no limit.
pub fn limit_of(own: Option<&NetworkLimits>, resource: &str) -> i64 {
    let default = || RESOURCES.iter().find(|(known, _)| *known == resource).map_or(-1, |(_, limit)| *limit);
    own.and_then(|own| own.limits.get(resource).copied()).unwrap_or_else(default)
}

#[derive(Debug, Clone, Copy)]
pub enum NetworkQuotaRoot {}

#[derive(Debug, Clone)]
pub enum NetworkQuotaCommand {
    /// Sets limits. Resources that are not named keep theirs.
    Set {
        project: ProjectId,
        limits: Vec<(String, i64)>,
    },
    Reset {
        project: ProjectId,
    },
    /// Reserves quota for the resources in `things`, except for resources that already have quota or already exist.
    Take {
        project: ProjectId,
        things: BTreeSet<CountedResource>,
        /// The resources that the project is known to have, whether they have reserved quota or not.
        held: BTreeSet<CountedResource>,
        /// The resources that are known to be gone, or were never created.
        gone: BTreeSet<CountedResource>,
    },
    /// Releases quota. Succeeds for resources that hold none, too.
    Release {
        project: ProjectId,
        things: BTreeSet<CountedResource>,
    },
}

/// The only refusal. New limits are never refused here, because the API checks the names of resources and the lowest
/// limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkQuotaReject {
    #[error("Quota exceeded for resources: ['{0}'].")]
    OverQuota(&'static str),
}

impl AggregateRoot for NetworkQuotaRoot {
    type Id = ProjectId;
    type State = NetworkLimits;
    type Command = NetworkQuotaCommand;
    type Reject = NetworkQuotaReject;

    fn stream(project: &ProjectId) -> StreamId {
        StreamId::new("network_quota", project)
    }

    fn decide(
        state: &NetworkLimits,
        command: NetworkQuotaCommand,
    ) -> Result<Vec<NetworkQuotaEvent>, NetworkQuotaReject> {
        decide::decide(state, command)
    }
}
