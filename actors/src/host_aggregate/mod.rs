//! Decides about all host aggregates. Names are unique, a host is in one availability zone only, and the zone of a
//! host with servers does not change. The rules are Nova's (`nova.compute.api.AggregateAPI`).
//!
//! [`crate::aggregate`] is about something else: the aggregates of event sourcing, which decide about commands.

pub mod decide;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chronova_events::envelope::StreamId;
use chronova_events::host_aggregate::{HostAggregateEvent, HostAggregates};
use chronova_events::ids::{HostAggregateId, HostId};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

/// The id of the only stream, because one aggregate decides about all host aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostAggregatesId;

#[derive(Debug, Clone, Copy)]
pub enum HostAggregatesRoot {}

/// The number of servers on each host, as the caller read it. A host without servers may be missing.
pub type ServersPerHost = BTreeMap<HostId, usize>;

#[derive(Debug, Clone)]
pub enum HostAggregateCommand {
    Create {
        aggregate: HostAggregateId,
        name: String,
        zone: Option<String>,
    },
    /// Changes the given attributes. A metadata key without a value is removed.
    Change {
        number: u64,
        name: Option<String>,
        metadata: Vec<(String, Option<String>)>,
        occupants: ServersPerHost,
    },
    AddHost {
        number: u64,
        host: HostId,
        hostname: String,
        occupants: ServersPerHost,
    },
    RemoveHost {
        number: u64,
        host: HostId,
        hostname: String,
        occupants: ServersPerHost,
    },
    Delete {
        number: u64,
    },
    /// Removes a host that no longer exists from all host aggregates.
    ForgetHost {
        host: HostId,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostAggregateReject {
    #[error("host aggregate {0} could not be found")]
    NotFound(u64),
    #[error("a host aggregate named {0} exists already")]
    NameTaken(String),
    #[error("host aggregate {number} has host {hostname} already")]
    HasHost { number: u64, hostname: String },
    #[error("host aggregate {number} has no host {hostname}")]
    NoSuchHost { number: u64, hostname: String },
    #[error("host aggregate {number} has hosts")]
    NotEmpty { number: u64 },
    #[error("the availability zone of host aggregate {name} needs a name")]
    NamelessZone { number: u64, name: String },
    #[error("hosts are in other zones already: {}", .zones.join(", "))]
    InOtherZones { number: u64, zones: Vec<String> },
    #[error("hosts of aggregate {number} have servers, whose zone would change")]
    HasServers { number: u64 },
    #[error("the {servers} servers of the host would change from one zone to another")]
    ServersWouldMove { number: u64, from: Option<String>, to: Option<String>, servers: usize },
}

impl AggregateRoot for HostAggregatesRoot {
    type Id = HostAggregatesId;
    type State = HostAggregates;
    type Command = HostAggregateCommand;
    type Reject = HostAggregateReject;

    fn stream(_: &HostAggregatesId) -> StreamId {
        StreamId::new("host_aggregate", "all")
    }

    fn decide(
        state: &HostAggregates,
        command: HostAggregateCommand,
    ) -> Result<Vec<HostAggregateEvent>, HostAggregateReject> {
        decide::decide(state, command)
    }
}
