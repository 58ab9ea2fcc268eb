//! A project's limits for networks, subnets, ports and security groups.

pub mod decide;

use chronova_events::envelope::StreamId;
use chronova_events::ids::ProjectId;
use chronova_events::network_quota::{NetworkLimits, NetworkQuotaEvent};
use thiserror::Error;

use crate::aggregate::Aggregate;

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
}

/// Limits are never refused: what the resources may be called and how low a limit may be is the API's to check.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NetworkQuotaReject {}

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
        Ok(decide::decide(state, command))
    }
}
