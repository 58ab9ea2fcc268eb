//! Defines the answers of a driver's calls: results, errors, streams of bytes.

use std::pin::Pin;

use bytes::Bytes;
use chronova_events::ids::InstanceId;
use futures::Stream;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum DriverError {
    /// The host cannot be reached; nothing is known of what was asked.
    #[error("the host is unreachable: {0}")]
    Unreachable(String),
    /// No answer within the deadline; the outcome is unknown.
    #[error("{call} did not answer within {seconds} s")]
    Timeout { call: &'static str, seconds: u64 },
    #[error("guest {0} is not on this host")]
    NoSuchGuest(InstanceId),
    /// The host cannot do this at all (see [`offered_by`](crate::capability::offered_by)).
    #[error("not supported by this host: {0}")]
    Unsupported(String),
    /// No room (disk full, out of memory): another host may do.
    #[error("the host has no room: {0}")]
    NoRoom(String),
    /// The image's bytes did not match what was announced, or could not be read.
    #[error("image {image} is unusable: {reason}")]
    BadImage { image: String, reason: String },
    /// The guest was made without an agent inside it.
    #[error("QEMU guest agent is not enabled")]
    NoAgent,
    /// The hypervisor said no.
    #[error("{call} failed: {message}")]
    Failed { call: &'static str, message: String },
}

impl DriverError {
    /// Whether the same call may succeed later without anything being changed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Timeout { .. })
    }
}

pub type DriverResult<T> = Result<T, DriverError>;

pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;
