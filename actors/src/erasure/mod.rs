//! Erases personal data: the aggregate records erasures, and [`work`] executes them.
//!
//! [`work`] finds compute's own streams. If another service on the same log has personal data, it implements
//! [`PersonalDataHolder`](holder::PersonalDataHolder) in its own folder. `table` lists these services.

pub mod decide;
pub mod error;
pub mod holder;
mod table;
pub mod work;

use chronova_events::envelope::StreamId;
use chronova_events::erasure::{ErasureCompleted, ErasureEvent, ErasureRequested, Erasures};
use chronova_events::ids::ErasureId;
use thiserror::Error;

use crate::aggregate::AggregateRoot;

/// The id of the only stream of erasures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErasureArchiveId;

#[derive(Debug, Clone, Copy)]
pub enum ErasureRoot {}

#[derive(Debug, Clone)]
pub enum ErasureCommand {
    Request(ErasureRequested),
    RecordCompleted(ErasureCompleted),
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ErasureReject {
    #[error("there is no erasure {0}")]
    NotFound(ErasureId),
}

impl AggregateRoot for ErasureRoot {
    type Id = ErasureArchiveId;
    type State = Erasures;
    type Command = ErasureCommand;
    type Reject = ErasureReject;

    fn stream(_: &ErasureArchiveId) -> StreamId {
        StreamId::new("erasure", "main")
    }

    fn decide(state: &Erasures, command: ErasureCommand) -> Result<Vec<ErasureEvent>, ErasureReject> {
        decide::decide(state, command)
    }
}
