//! A project's limits for networks, subnets, ports, routers, floating addresses and security groups, and the room that the
//! first four take below them ([`room`]).

pub mod decide;
pub mod room;

use std::collections::BTreeSet;

use chronova_events::envelope::StreamId;
use chronova_events::ids::ProjectId;
use chronova_events::network_quota::{Counted, NetworkLimits, NetworkQuotaEvent};
use thiserror::Error;

use crate::aggregate::Aggregate;

/// What is limited, and how far where nobody said otherwise: Neutron's defaults.
pub const RESOURCES: [(&str, i64); 7] = [
    ("network", 100),
    ("subnet", 100),
    ("port", 500),
    ("router", 10),
    ("floatingip", 50),
    ("security_group", 10),
    ("security_group_rule", 100),
];

/// A project's limit for a resource; -1 is none.
pub fn limit_of(own: Option<&NetworkLimits>, resource: &str) -> i64 {
    let default = || RESOURCES.iter().find(|(known, _)| *known == resource).map_or(-1, |(_, limit)| *limit);
    own.and_then(|own| own.limits.get(resource).copied()).unwrap_or_else(default)
}

#[derive(Debug, Clone, Copy)]
pub enum NetworkQuotaAggregate {}

#[derive(Debug, Clone)]
pub enum NetworkQuotaCommand {
    /// Resources that are not named keep their limits.
    Set {
        project: ProjectId,
        limits: Vec<(String, i64)>,
    },
    Reset {
        project: ProjectId,
    },
    /// Takes room for `things`; what has some, or is there, takes no more.
    Take {
        project: ProjectId,
        things: BTreeSet<Counted>,
        /// The project is known to have these, with room of their own or without.
        held: BTreeSet<Counted>,
        /// These are known to be gone, or never to have come to be.
        gone: BTreeSet<Counted>,
    },
    /// Gives room back; none is success.
    Release {
        project: ProjectId,
        things: BTreeSet<Counted>,
    },
}

/// Limits are never refused: what the resources may be called and how low a limit may be is the API's to check.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkQuotaReject {
    #[error("Quota exceeded for resources: ['{0}'].")]
    OverQuota(&'static str),
}

impl Aggregate for NetworkQuotaAggregate {
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
