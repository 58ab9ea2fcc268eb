//! What the processes need of networks, images and volumes, whoever provides them: the embedded services, or real Neutron,
//! Glance and Cinder.

pub mod volumes;

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, NetworkId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{ImageSnapshot, NicInfo, Pairs, RequestedNetworks, RequestedNic};
use chronova_hypervisor::driver::{ByteStream, ImageSource};
use chronova_hypervisor::guest::{FilterSpec, NetworkSpec, Nic};
use thiserror::Error;

pub use volumes::{
    AttachmentInfo, Connection, NewContent, NewSnapshot, NewVolume, NoVolumes, SnapshotInfo, VolumeInfo, Volumes,
};

/// Why a service did not do what was asked.
#[derive(Debug, Clone, Error)]
pub enum PortError {
    /// The thing asked for is not there (404).
    #[error("{0}")]
    NotFound(String),
    /// What was asked for makes no sense (400).
    #[error("{0}")]
    Invalid(String),
    /// The service refuses for now: no free address, in use, over quota (409).
    #[error("{0}")]
    Conflict(String),
    /// The caller may not (403).
    #[error("{0}")]
    Forbidden(String),
    /// The service does not answer; the same call may succeed later.
    #[error("{0}")]
    Unavailable(String),
}

/// Which interfaces a server is to have.
#[derive(Debug, Clone)]
pub struct NicsWanted {
    pub instance: InstanceId,
    pub project: ProjectId,
    pub hostname: String,
    /// The compute host that the ports are bound to.
    pub host: String,
    pub availability_zone: String,
    pub networks: RequestedNetworks,
    /// Names or ids; for the ports made for the server.
    pub security_groups: Vec<String>,
}

/// One more interface for a server that runs already.
#[derive(Debug, Clone)]
pub struct NicWanted {
    pub process: ProcessId,
    pub instance: InstanceId,
    pub project: ProjectId,
    pub hostname: String,
    /// The compute host that the port is bound to.
    pub host: String,
    pub availability_zone: String,
    pub nic: RequestedNic,
}

/// What a host has to provide before a guest with these interfaces can start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Realisation {
    pub networks: Vec<NetworkSpec>,
    pub filters: Vec<FilterSpec>,
    pub nics: Vec<Nic>,
}

#[async_trait]
pub trait Networks: Send + Sync + 'static {
    /// Whether a server of `project` could be given these interfaces; asked before the server is accepted. Nova's words.
    async fn check(
        &self,
        project: &ProjectId,
        networks: &RequestedNetworks,
        security_groups: &[String],
    ) -> Result<(), PortError>;

    /// Whether `auto`, said in so many words, could be honoured: where nothing at all is said a server may go without
    /// interfaces, but `auto` wants one. Nova's words.
    async fn check_auto(&self, _project: &ProjectId) -> Result<(), PortError> {
        Ok(())
    }

    /// Makes or binds the ports of a server, in the order asked for. Idempotent under `wanted.instance`: a second call
    /// gives the same ports.
    async fn allocate(&self, wanted: NicsWanted, meta: Arc<Meta>) -> Result<Vec<NicInfo>, PortError>;

    /// Whether a server of `project` that runs already could be given this interface. Nova's words.
    async fn check_attach(&self, project: &ProjectId, nic: &RequestedNic) -> Result<(), PortError>;

    /// Makes or binds one more port of a server. Idempotent under `process`.
    async fn attach(&self, wanted: NicWanted, meta: Arc<Meta>) -> Result<NicInfo, PortError>;

    /// Deletes one port of a server if it was made for it, and unbinds it otherwise. Not the server's (any more) is success.
    async fn detach(&self, instance: InstanceId, port: PortId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// The port that [`attach`](Self::attach) made, or would make, for `process`.
    fn attached_port(&self, process: ProcessId) -> PortId {
        PortId::derive(process.0, "port")
    }

    /// Gives the server one more address on a network that it has a port on.
    async fn add_address(&self, instance: InstanceId, network: NetworkId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Takes an address from the port of the server that has it.
    async fn remove_address(&self, instance: InstanceId, address: IpAddr, meta: Arc<Meta>) -> Result<(), PortError>;

    /// The interfaces as the service has them now: those whose port is no longer the server's are missing.
    async fn refresh(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError>;

    /// Deletes the ports made for the server and unbinds the others. None left is success.
    async fn release(&self, instance: InstanceId, project: &ProjectId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Takes the server's ports to a host, or off every host; they stay the server's. None is success.
    async fn rebind(
        &self,
        instance: InstanceId,
        host: Option<&str>,
        availability_zone: &str,
        meta: Arc<Meta>,
    ) -> Result<(), PortError>;

    /// How the interfaces look from a host.
    async fn realise(&self, nics: &[NicInfo]) -> Result<Realisation, PortError>;
}

/// An image that is to be made of a server's disk.
#[derive(Debug, Clone)]
pub struct ImageDraft {
    pub image: ImageId,
    pub name: String,
    pub owner: ProjectId,
    /// `qcow2`; the container is always `bare`.
    pub format: String,
    pub min_disk_gib: u32,
    pub min_memory_mib: u64,
    pub properties: Pairs,
}

/// Images, and their bytes.
#[async_trait]
pub trait Images: ImageSource + 'static {
    /// The image as a server of `project` would be made from it; only an active one that the project can see.
    async fn find(&self, image: ImageId, project: &ProjectId, is_admin: bool) -> Result<ImageSnapshot, PortError>;

    /// Makes an image without bytes, which only its owner sees.
    async fn create(&self, draft: ImageDraft, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Gives an image its bytes. One that has them already is success, and nothing is read.
    async fn upload(&self, image: ImageId, bytes: ByteStream, meta: Arc<Meta>) -> Result<(), PortError>;

    /// Deletes an image, with bytes or without.
    async fn delete(&self, image: ImageId, meta: Arc<Meta>) -> Result<(), PortError>;

    /// The backups of a server of this kind that have their bytes and belong to the owner of `like`, newest first; none if
    /// `like` is gone. What others say of their images counts for nothing.
    async fn backups(&self, like: ImageId, instance: InstanceId, kind: &str) -> Result<Vec<ImageId>, PortError>;
}
