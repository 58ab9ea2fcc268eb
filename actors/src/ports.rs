//! The services beside Compute, as compute asks them: embedded ones, or real Keystone, Neutron, Glance and Cinder.
//!
//! There is one trait per service. `chronova-tests` has one conformance suite per trait, which every implementation passes.

pub mod identity;
pub mod images;
pub mod networks;
pub mod volumes;

use std::fmt;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::ProjectId;
use thiserror::Error;

pub use identity::{AccessRule, IdentityProvider, TokenError, TokenOwner, TokenQuestion, TokenScope};
pub use images::{ImageDraft, ImageService};
pub use networks::{
    FloatingAddress, HostNetworkSetup, InterfaceRequest, InterfacesRequest, NetworkService, PortInfo,
    SecurityGroupInfo, SecurityRuleInfo,
};
pub use volumes::{
    AttachmentInfo, Connection, NewContent, NewSnapshot, NewVolume, NoVolumeService, SnapshotInfo, VolumeInfo,
    VolumeService,
};

/// For whom a service is asked.
#[derive(Debug, Clone)]
pub struct ServiceCaller {
    /// The project that the user works in, or that the process works for; `None`: none at all.
    pub project: Option<ProjectId>,
    pub is_admin: bool,
    /// A client of another service passes it on, so that the service's own rules judge the user. `None`: nobody waits, and
    /// the client uses its own account.
    pub token: Option<UserToken>,
    pub meta: Arc<Meta>,
}

impl ServiceCaller {
    /// A part of this system, which asks by itself.
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
    /// The request makes no sense (400).
    #[error("{0}")]
    Invalid(String),
    /// The service refuses for now: no free address, in use, over quota (409).
    #[error("{0}")]
    Conflict(String),
    /// The caller has no right to it (403).
    #[error("{0}")]
    Forbidden(String),
    /// The service does not answer; the same call may succeed later.
    #[error("{0}")]
    Unavailable(String),
}
