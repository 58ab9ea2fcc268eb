//! The results of a driver's calls: values, errors and streams of bytes.

use std::pin::Pin;

use bytes::Bytes;
use chronova_events::ids::InstanceId;
use futures::Stream;
use thiserror::Error;

/// Why a driver's call failed.
#[derive(Debug, Error)]
pub enum DriverError {
    /// The host cannot be reached. Nobody knows whether the host performed the call.
    #[error("the host is unreachable: {0}")]
    Unreachable(String),
    /// No answer within the deadline. The outcome of the call is unknown.
    #[error("{call} did not answer within {seconds} s")]
    Timeout { call: &'static str, seconds: u64 },
    #[error("guest {0} is not on this host")]
    NoSuchGuest(InstanceId),
    /// The host cannot do this at all (see [`offered_by`](crate::capability::offered_by)).
    #[error("not supported by this host: {0}")]
    Unsupported(String),
    /// The host has no space (disk full, out of memory). Another host may have some.
    #[error("the host has no room: {0}")]
    NoRoom(String),
    /// The image cannot be used: for example, its content does not have the announced size or checksum.
    #[error("image {image} is unusable: {reason}")]
    BadImage { image: String, reason: String },
    /// The image service does not send the image's content now, or the transfer broke off.
    #[error("image {image} cannot be read now: {reason}")]
    ImageUnread { image: String, reason: String },
    /// The guest was created without a channel for an agent.
    #[error("QEMU guest agent is not enabled")]
    NoAgent,
    /// The hypervisor refused the call or failed.
    #[error("{call} failed: {message}")]
    Failed { call: &'static str, message: String },
}

impl DriverError {
    /// Whether the same call may succeed later without any other change.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Timeout { .. } | Self::ImageUnread { .. })
    }
}

/// The result of a driver's call.
pub type DriverResult<T> = Result<T, DriverError>;

/// The content of a disk or an image, in chunks.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;
