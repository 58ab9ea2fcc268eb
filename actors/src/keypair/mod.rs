//! A user's key pairs.

pub mod decide;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{ErasureId, UserId};
use chronova_events::keypair::{KeypairCreated, KeypairEvent, Keypairs};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

#[derive(Debug, Clone, Copy)]
pub enum KeypairRoot {}

#[derive(Debug, Clone)]
pub enum KeypairCommand {
    /// `limit`: how many key pairs the user may have; -1 means no limit.
    Create {
        keypair: KeypairCreated,
        limit: i64,
    },
    Delete {
        user: UserId,
        name: String,
    },
    /// Removes all key pairs, because the user's personal data is erased.
    Erase {
        user: UserId,
        erasure: ErasureId,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeypairReject {
    #[error("key pair {0} already exists")]
    Exists(String),
    #[error("the user has {0} key pairs already")]
    QuotaExceeded(i64),
    #[error("key pair {name} of user {user} could not be found")]
    NotFound { user: UserId, name: String },
}

impl AggregateRoot for KeypairRoot {
    type Id = UserId;
    type State = Keypairs;
    type Command = KeypairCommand;
    type Reject = KeypairReject;

    fn stream(user: &UserId) -> StreamId {
        StreamId::new("keypair", user)
    }

    fn decide(state: &Keypairs, command: KeypairCommand) -> Result<Vec<KeypairEvent>, KeypairReject> {
        decide::decide(state, command)
    }
}
