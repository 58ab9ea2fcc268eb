//! The aggregate of a server.
//!
//! `states.txt` lists every reachable state and the event that leads to it; a test compares it with the code. The state
//! "active, Stop" is an active server that is being stopped.

pub mod actions;
pub mod asking;
mod commands;
pub mod creation;
pub mod decide;
mod decision;
pub mod disks;
pub mod evacuation;
mod interfaces;
mod labels;
pub mod live;
pub mod moving;
pub mod unsupported;
mod volumes;
pub mod work;

#[cfg(test)]
mod tests;

use chronova_events::envelope::StreamId;
use chronova_events::ids::InstanceId;
use chronova_events::instance::{Instance, InstanceEvent};

pub use commands::{InstanceChange, InstanceCommand, InstanceVolumeCommand, MetadataChange, TagChange};
pub use decision::{CallerRights, InstanceReject};

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum InstanceRoot {}

impl AggregateRoot for InstanceRoot {
    type Id = InstanceId;
    type State = Instance;
    type Command = InstanceCommand;
    type Reject = InstanceReject;

    fn stream(instance: &InstanceId) -> StreamId {
        StreamId::new("instance", instance)
    }

    fn decide(state: &Instance, command: InstanceCommand) -> Result<Vec<InstanceEvent>, InstanceReject> {
        decide::decide(state, command)
    }

    fn begins(command: &InstanceCommand) -> bool {
        matches!(command, InstanceCommand::Build(_) | InstanceCommand::BuildWith { .. })
    }
}
