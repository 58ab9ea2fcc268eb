//! The aggregate of all host aggregates. Names are unique, a host is in one availability zone only, and the zone of a
//! host with servers does not change. The rules are Nova's (`nova.compute.api.AggregateAPI`).
//!
//! Not to be mistaken for [`crate::aggregate`]: that is what decides, this is what Nova calls so.

pub mod decide;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chronova_events::envelope::StreamId;
use chronova_events::host_aggregate::{HostAggregateEvent, HostAggregates};
use chronova_events::ids::{HostAggregateId, HostId};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

/// They are decided about together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostAggregatesId;

#[derive(Debug, Clone, Copy)]
pub enum HostAggregatesRoot {}

/// How many servers are on which host, as the caller sees it; hosts without any may be left out.
pub type ServersPerHost = BTreeMap<HostId, usize>;

#[derive(Debug, Clone)]
pub enum HostAggregateCommand {
    Create {
        aggregate: HostAggregateId,
        name: String,
        zone: Option<String>,
    },
    /// Changes what is given; metadata without a value is removed.
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
    /// Takes a host that is no more out of all of them.
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
    #[error("the zone of host aggregate {name} cannot be without a name")]
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
