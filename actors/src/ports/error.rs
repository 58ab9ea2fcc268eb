//! The error that every service gives.

use thiserror::Error;

/// The error of a service.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PortError {
    /// The requested resource does not exist (404).
    #[error("{0}")]
    NotFound(String),
    /// The request is invalid (400).
    #[error("{0}")]
    Invalid(String),
    /// The service refuses for now, for example because no address is free, or because the resource is in use (409).
    #[error("{0}")]
    Conflict(String),
    /// The caller may not do this, or a quota is exceeded (403).
    #[error("{0}")]
    Forbidden(String),
    /// The service cannot do it on this host; another host may be able to.
    #[error("{0}")]
    NotHere(String),
    /// The service does not answer; the same call may succeed later.
    #[error("{0}")]
    Unavailable(String),
}
