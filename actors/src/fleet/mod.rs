//! The hosts that administrators add and remove while the control plane runs.

pub mod decide;
pub mod keeper;

use std::convert::Infallible;

use chronova_events::envelope::StreamId;
use chronova_events::fleet::{FleetChanges, FleetEvent, HypervisorAdded, HypervisorRemoved};

use crate::aggregate::AggregateRoot;

/// The id of the only fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FleetId;

#[derive(Debug, Clone, Copy)]
pub enum FleetRoot {}

/// A repeated command changes nothing.
#[derive(Debug, Clone)]
pub enum FleetCommand {
    Add(HypervisorAdded),
    Remove(HypervisorRemoved),
}

impl AggregateRoot for FleetRoot {
    type Id = FleetId;
    type State = FleetChanges;
    type Command = FleetCommand;
    type Reject = Infallible;

    fn stream(_: &FleetId) -> StreamId {
        StreamId::new("fleet", "main")
    }

    fn decide(state: &FleetChanges, command: FleetCommand) -> Result<Vec<FleetEvent>, Infallible> {
        Ok(decide::decide(state, command))
    }
}
