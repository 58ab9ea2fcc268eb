//! How an operator's command ends: its exit code, or why it failed.

use std::io;
use std::path::PathBuf;

use chronova_events::archive::ArchiveFault;
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
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{0}")]
    Usage(String),
}

impl From<ArchiveFault> for CommandFailure {
    fn from(fault: ArchiveFault) -> Self {
        match fault {
            ArchiveFault::File { path, error } => Self::File { path, error },
            ArchiveFault::Unusable(reason) => Self::Usage(reason),
            ArchiveFault::Log(error) => Self::Store(error),
        }
    }
}

impl CommandFailure {
    pub(super) fn decode(recorded: &Recorded, source: DecodeError) -> Self {
        Self::Decode { position: recorded.position.0, source }
    }

    /// Whether a disk is full.
    pub(super) fn is_full(&self) -> bool {
        let full =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match self {
            Self::File { error, .. } | Self::Output(error) => full(error),
            Self::Store(error) => *error == StoreError::Full,
            _ => false,
        }
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
