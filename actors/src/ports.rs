//! The traits through which compute calls other services. The embedded services implement them, and so do the clients
//! of real services (see [`crate::services`]).
//!
//! There is one trait per service. The image service and the network service have an optional second trait, for the
//! resources that users manage through Nova's old API. `chronova-tests` has one conformance suite per trait, except for
//! those of [`keys`], [`network_plane`] and [`scheduler_hook`]. Every implementation passes its suite.

pub mod identity;
pub mod image_resources;
pub mod images;
pub mod keys;
pub mod network_plane;
pub mod network_resources;
pub mod networks;
pub mod port_grants;
pub mod port_resources;
pub mod scheduler_hook;
pub mod volumes;

use std::fmt;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::ProjectId;
use thiserror::Error;

pub use image_resources::{ImageInfo, ImageListRequest, ImageResources, PropertyChange};
pub use images::{ImageDraft, ImageService};
pub use network_plane::{NetworkPlane, PlaneOwner, PlaneRemovals, is_carried_by_plane};
pub use network_resources::{
    FloatingIpAllocationReject, FloatingIpInfo, FloatingIpTarget, NetworkInfo, NetworkResources, NewSecurityGroup,
};
pub use networks::{
    FloatingAddress, HostNetworkSetup, InterfaceRequest, InterfacesRequest, NetworkService, PlugState, PortInfo,
    SecurityGroupInfo, SecurityRuleInfo,
};
pub use port_grants::{PortGrant, PortGrants};
pub use port_resources::{PortAllocations, PortProviders, PortRequestGroup, PortResourceRequest};
pub use volumes::{
    AttachmentInfo, Connection, NewContent, NewSnapshot, NewVolume, NoVolumeService, SnapshotInfo, UserVolumeCall,
    VolumeInfo, VolumeService,
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
    /// The user's rights by the policies of the embedded services; `None`: no user asks.
    pub rights: Option<Arc<dyn UserRights>>,
    pub meta: Arc<Meta>,
}

/// Judges one user by the policies of the embedded services. A client of a real service does not ask them: the real
/// service judges the token.
pub trait UserRights: fmt::Debug + Send + Sync {
    /// Whether the rule holds for a resource with these attributes.
    fn may(&self, policy: EmbeddedPolicy, rule: &'static str, attributes: &[(&'static str, String)]) -> bool;
}

/// An embedded service with a policy of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddedPolicy {
    Image,
    Network,
    Volume,
}

impl ServiceCaller {
    /// A part of Chronova that calls a service on its own, not for a user.
    pub fn system(part: &str) -> Self {
        Self { project: None, is_admin: true, token: None, rights: None, meta: Meta::system(part) }
    }

    /// Whether the rule of an embedded service lets the caller act on a resource of `owner`. Without a user, the caller
    /// may act on the resources of its project, and on all resources if it is an administrator.
    pub fn may(
        &self,
        (policy, rule): (EmbeddedPolicy, &'static str),
        owner: Option<&ProjectId>,
        attributes: &[(&'static str, String)],
    ) -> bool {
        match &self.rights {
            Some(rights) => rights.may(policy, rule, attributes),
            None => self.is_admin || (owner.is_some() && owner == self.project.as_ref()),
        }
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
    /// The service refuses for now: no free address, or in use (409).
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
