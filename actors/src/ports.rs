//! The traits through which compute calls other services: embedded ones, or real Neutron, Glance and Cinder.
//!
//! There is one trait per service. `chronova-tests` has one conformance suite per trait, which every implementation passes.

pub mod images;
pub mod networks;
pub mod volumes;

use std::fmt;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::ProjectId;
use thiserror::Error;

pub use images::{ImageDraft, ImageService};
pub use networks::{
    FloatingAddress, HostNetworkSetup, InterfaceRequest, InterfacesRequest, NetworkService, PortInfo,
    SecurityGroupInfo, SecurityRuleInfo,
};
pub use volumes::{
    AttachmentInfo, Connection, NewContent, NewSnapshot, NewVolume, NoVolumeService, SnapshotInfo, VolumeInfo,
    VolumeService,
};

/// The user or the process for which compute calls a service.
#[derive(Debug, Clone)]
pub struct ServiceCaller {
    /// The project of the user's token, or the project for which the process works; `None` if there is none.
    pub project: Option<ProjectId>,
    pub is_admin: bool,
    /// The user's token. A client of a real service sends it, so that the service checks the user's rights. `None` for
    /// a process: the client then uses its own account.
    pub token: Option<UserToken>,
    pub meta: Arc<Meta>,
}

impl ServiceCaller {
    /// A part of Chronova that calls a service for no user.
    pub fn system(part: &str) -> Self {
        Self { project: None, is_admin: true, token: None, meta: Meta::system(part) }
    }
}

/// A user's token. It is never printed.
#[derive(Clone)]
pub struct UserToken(String);

impl UserToken {
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// The token itself, for the header of a request.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for UserToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserToken(...)")
    }
}

/// The error of a service.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PortError {
    /// The requested resource does not exist (404).
    #[error("{0}")]
    NotFound(String),
    /// The request is invalid (400).
    #[error("{0}")]
    Invalid(String),
    /// The service refuses for now: no free address, in use, over quota (409).
    #[error("{0}")]
    Conflict(String),
    /// The caller may not do this (403).
    #[error("{0}")]
    Forbidden(String),
    /// The service does not answer; the same call may succeed later.
    #[error("{0}")]
    Unavailable(String),
}
