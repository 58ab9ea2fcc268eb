//! The traits through which compute calls other services. The embedded services implement them, and so do the clients
//! of real services (see [`crate::services`]).
//!
//! Most services have one trait. The image service and the network service have an optional second trait, for the
//! resources that users manage through Nova's old API. Key managers have two traits, one for secrets and one for
//! certificates. `chronova-tests` has one conformance suite per trait, except for the traits of [`caller`], [`keys`],
//! [`network_plane`] and [`scheduler_hook`]. Every implementation passes its suite.

pub mod caller;
pub mod error;
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

pub use caller::{EmbeddedPolicy, ServiceCaller, UserRights, UserToken};
pub use error::PortError;
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
    AttachmentInfo, Connection, MigrationPair, NewContent, NewSnapshot, NewVolume, NoVolumeService, SnapshotInfo,
    UserVolumeCall, VolumeExchange, VolumeInfo, VolumeService,
};
