//! A compute host.

pub mod decide;
mod drain;

#[cfg(test)]
mod tests;

use chronova_events::envelope::StreamId;
use chronova_events::host::{CapabilitiesChanged, Host, HostEvent, Registered};
use chronova_events::ids::HostId;
use thiserror::Error;

use crate::aggregate::AggregateRoot;

pub use drain::DrainCommand;
pub(crate) use drain::DrainRecord;

#[derive(Debug, Clone, Copy)]
pub enum HostRoot {}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // a command lives for one call
pub enum HostCommand {
    /// The report of a host that answers. It registers the host, updates its capabilities and marks it as up, as
    /// needed. A new host that is not `admitted` starts disabled.
    Report {
        report: Registered,
        admitted: bool,
    },
    /// The host stopped answering.
    ReportDown {
        reason: String,
    },
    Enable,
    Disable {
        reason: Option<String>,
    },
    ForceDown {
        forced: bool,
    },
    /// Removes the host. Succeeds if the host is unknown, too.
    Deregister,
    /// Requests for drains and maintenance.
    Drain(DrainCommand),
    DrainRecord(DrainRecord),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostReject {
    #[error("the host was never registered")]
    NotFound,
    #[error("the host is not being drained")]
    NotDraining,
    /// Moves that have begun still finish.
    #[error("a drain of the host is being cancelled")]
    DrainEnding,
    #[error("the host is not in maintenance")]
    NotInMaintenance,
}

impl AggregateRoot for HostRoot {
    type Id = HostId;
    type State = Host;
    type Command = HostCommand;
    type Reject = HostReject;

    fn stream(host: &HostId) -> StreamId {
        StreamId::new("host", host)
    }

    fn decide(state: &Host, command: HostCommand) -> Result<Vec<HostEvent>, HostReject> {
        decide::decide(state, command)
    }
}

/// The event that records that a known host reports another name, another URI or other capabilities than before.
pub(crate) fn changed(report: &Registered) -> CapabilitiesChanged {
    CapabilitiesChanged {
        hostname: report.hostname.clone(),
        uri: report.uri.clone(),
        capabilities: report.capabilities.clone(),
    }
}
