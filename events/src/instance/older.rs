//! Older versions of payloads. Chronova still reads them and no longer writes them.

use serde::{Deserialize, Serialize};

use super::payloads::{
    BuildRequested, DiskConfig, FlavorSnapshot, ImageSnapshot, KeySnapshot, RequestedNetworks, SortedPairs,
};
use super::rebuild::RebuildRequested;
use super::shelving::ShelveRequested;
use crate::ids::{ImageId, InstanceId, ProcessId, ProjectId, UserId};

/// The first version. It lacks the requested host that the filters check, and the number of servers in the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuildRequestedV1 {
    pub instance: InstanceId,
    pub process: ProcessId,
    /// The server's number in the order of the requests for servers. `instance_name_template` forms the domain's name
    /// from this number.
    pub number: u64,
    pub reservation: String,
    pub launch_index: u32,
    pub project: ProjectId,
    pub user: UserId,
    pub name: String,
    pub hostname: String,
    pub description: Option<String>,
    pub flavor: FlavorSnapshot,
    pub image: Option<ImageSnapshot>,
    pub key: Option<KeySnapshot>,
    /// Base64, as the user sent it.
    pub user_data: Option<String>,
    pub config_drive: bool,
    pub networks: RequestedNetworks,
    pub security_groups: Vec<String>,
    pub metadata: SortedPairs,
    pub tags: Vec<String>,
    pub availability_zone: Option<String>,
    /// The host that an administrator forced, without the filters (`zone:host:node`).
    pub forced_host: Option<String>,
    pub scheduler_hints: Vec<(String, Vec<String>)>,
    pub disk_config: DiskConfig,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
    pub trusted_certs: Vec<String>,
}

impl From<BuildRequestedV1> for BuildRequested {
    fn from(old: BuildRequestedV1) -> Self {
        Self {
            instance: old.instance,
            process: old.process,
            number: old.number,
            reservation: old.reservation,
            launch_index: old.launch_index,
            batch: 1,
            project: old.project,
            user: old.user,
            name: old.name,
            hostname: old.hostname,
            description: old.description,
            flavor: old.flavor.into(),
            image: old.image.map(Into::into),
            key: old.key,
            user_data: old.user_data,
            config_drive: old.config_drive,
            networks: old.networks,
            security_groups: old.security_groups,
            metadata: old.metadata,
            tags: old.tags,
            availability_zone: old.availability_zone,
            forced_host: old.forced_host,
            requested_host: None,
            scheduler_hints: old.scheduler_hints,
            disk_config: old.disk_config,
            access_ip_v4: old.access_ip_v4,
            access_ip_v6: old.access_ip_v6,
            trusted_certs: old.trusted_certs,
        }
    }
}

/// The first version. It lacks `reimage`, because a rebuild could not write an image to a root volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RebuildRequestedV1 {
    pub process: ProcessId,
    pub image: ImageSnapshot,
    pub other_image: bool,
    pub preserve_ephemeral: bool,
    pub name: String,
    pub hostname: String,
    pub description: Option<String>,
    pub key: Option<KeySnapshot>,
    pub user_data: Option<String>,
    pub metadata: SortedPairs,
    pub trusted_certs: Vec<String>,
    pub disk_config: DiskConfig,
    pub access_ip_v4: Option<String>,
    pub access_ip_v6: Option<String>,
}

impl From<RebuildRequestedV1> for RebuildRequested {
    fn from(old: RebuildRequestedV1) -> Self {
        Self {
            process: old.process,
            image: old.image,
            other_image: old.other_image,
            preserve_ephemeral: old.preserve_ephemeral,
            reimage: false,
            name: old.name,
            hostname: old.hostname,
            description: old.description,
            key: old.key,
            user_data: old.user_data,
            metadata: old.metadata,
            trusted_certs: old.trusted_certs,
            disk_config: old.disk_config,
            access_ip_v4: old.access_ip_v4,
            access_ip_v6: old.access_ip_v6,
        }
    }
}

/// The first version. It always has an image, because the disk of every shelved server became an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShelveRequestedV1 {
    pub process: ProcessId,
    pub image: ImageId,
}

impl From<ShelveRequestedV1> for ShelveRequested {
    fn from(old: ShelveRequestedV1) -> Self {
        Self { process: old.process, image: Some(old.image) }
    }
}
