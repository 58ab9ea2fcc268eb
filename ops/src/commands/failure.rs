//! How an operator's command ends: its exit code, or why it failed.

use std::io;

use chronova_events::envelope::Recorded;
use chronova_events::registry::DecodeError;
use chronova_events::store::StoreError;
use chronova_projections::runner::ProjectionError;
use thiserror::Error;

/// Why a command failed, as text for people.
#[derive(Debug, Error)]
pub enum CommandFailure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the event at position {position} cannot be read")]
    Decode {
        position: u64,
        #[source]
        source: DecodeError,
    },
    #[error("the read models cannot be built")]
    ReadModels(#[from] ProjectionError),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    #[error("{0}")]
    Usage(String),
}

impl CommandFailure {
    pub(super) fn decode(recorded: &Recorded, source: DecodeError) -> Self {
        Self::Decode { position: recorded.position.0, source }
    }
}

/// The exit code that a script reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Yes = 0,
    No = 1,
    /// The command failed.
    Failed = 2,
}
