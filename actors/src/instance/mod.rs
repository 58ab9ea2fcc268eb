//! The aggregate of a server.
//!
//! `states.txt` lists every reachable state and the event that leads to it. A test compares the list with the code. The
//! state "active, Stop" is an active server that is being stopped.

pub mod actions;
pub mod asking;
pub mod creation;
pub mod decide;
mod decision;
pub mod disks;
mod evacuation;
mod image_properties;
mod interfaces;
mod labels;
mod live;
mod machine;
mod moving;
mod records;
mod requests;
pub mod unsupported;
mod volumes;
mod work;

#[cfg(test)]
pub(crate) mod sample_image;
#[cfg(test)]
mod tests;

use chronova_events::envelope::StreamId;
use chronova_events::ids::InstanceId;
use chronova_events::instance::{Instance, InstanceEvent};

pub use decision::{CallerRights, InstanceReject};
pub(crate) use records::{InstanceRecord, InstanceVolumeRecord, LiveRecord, MoveRecord, WorkOutcome, WorkRecord};
pub use requests::{
    EvacuationRequest, InstanceChange, InstanceRequest, InstanceVolumeRequest, LiveRequest, MetadataChange,
    MoveRequest, TagChange, WorkRequest,
};

use crate::aggregate::AggregateRoot;

/// The commands of a server. Only this crate can send records, so no API can claim that something happened.
///
/// ```compile_fail,E0603
/// use chronova_actors::instance::InstanceRecord;
/// ```
#[derive(Debug, Clone)]
pub enum InstanceCommand {
    Request(InstanceRequest),
    Record(InstanceRecord),
}

impl From<InstanceRequest> for InstanceCommand {
    fn from(request: InstanceRequest) -> Self {
        Self::Request(request)
    }
}

impl From<InstanceRecord> for InstanceCommand {
    fn from(record: InstanceRecord) -> Self {
        Self::Record(record)
    }
}

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
        matches!(command, InstanceCommand::Request(InstanceRequest::Build { .. }))
    }

    fn has_ended(state: &Instance) -> bool {
        matches!(state, Instance::Deleted(_))
    }
}
