//! The errors of an erasure.

use chronova_events::sealed::SealError;
use chronova_events::store::StoreError;
use thiserror::Error;
use uuid::Uuid;

use crate::aggregate::CommandError;

#[derive(Debug, Error)]
pub enum ErasureError {
    /// The number of servers that are not deleted, and whether the user exists.
    #[error("a server or the user that the erasure names is not deleted")]
    Alive { servers: usize, user: bool },
    #[error("a legal hold keeps this data: {of} ({reason}); remove hold {hold} first")]
    Held { hold: Uuid, of: String, reason: String },
    #[error("this event store does not seal personal fields, so they cannot be erased")]
    NoKeys,
    #[error("the event log is not available")]
    Log(#[from] StoreError),
    #[error(transparent)]
    Keys(#[from] SealError),
    #[error("{0}")]
    Refused(String),
    #[error("the read models do not follow the log: the erasure is completed at the next start")]
    Behind,
    #[error("the checkpoints of the read models cannot be removed")]
    Checkpoints(#[source] std::io::Error),
}

impl<R: std::error::Error> From<CommandError<R>> for ErasureError {
    fn from(error: CommandError<R>) -> Self {
        match error {
            CommandError::Unavailable(error) => error.into(),
            CommandError::Rejected(reject) => Self::Refused(reject.to_string()),
        }
    }
}
