//! Floating addresses of an external network: payloads of their events, and their state.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::NetworkEvent;
use super::payloads::FixedAddress;
use crate::envelope::Timestamp;
use crate::ids::{FloatingIpId, NetworkId, PortId, ProjectId, RouterId, SubnetId};
use crate::tags::{SettingsWithTags, TagsChange};

/// Neutron's `device_owner` of a port that holds a floating address.
pub const FLOATING_IP_OWNER: &str = "network:floatingip";

/// The settings of a floating address, without its association.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FloatingIpSettings {
    pub description: String,
    pub dns_name: String,
    pub dns_domain: String,
    /// Sorted.
    pub tags: Vec<String>,
}

impl SettingsWithTags for FloatingIpSettings {
    fn tags_mut(&mut self) -> &mut Vec<String> {
        &mut self.tags
    }
}

/// The fixed address that a floating address is associated with, and the router between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Association {
    /// The port's network. It is not the network of the floating address.
    pub network: NetworkId,
    pub port: PortId,
    pub subnet: SubnetId,
    pub address: IpAddr,
    pub router: RouterId,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpAllocated {
    pub network: NetworkId,
    pub floating_ip: FloatingIpId,
    pub project: ProjectId,
    /// The port of the external network that holds the address. It belongs to no project.
    pub port: PortId,
    pub address: FixedAddress,
    pub settings: FloatingIpSettings,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpSettingsReplaced {
    pub network: NetworkId,
    pub floating_ip: FloatingIpId,
    pub settings: FloatingIpSettings,
    /// The change of the tags. `settings` itself has no tags.
    pub tags: TagsChange,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpAssociated {
    pub network: NetworkId,
    pub floating_ip: FloatingIpId,
    pub association: Association,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpDisassociated {
    pub network: NetworkId,
    pub floating_ip: FloatingIpId,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpReleased {
    pub network: NetworkId,
    pub floating_ip: FloatingIpId,
}

/// The older version, with all tags. Chronova still reads it and no longer writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloatingIpSettingsReplacedV1 {
    pub network: NetworkId,
    pub floating_ip: FloatingIpId,
    pub settings: FloatingIpSettings,
}

impl From<FloatingIpSettingsReplacedV1> for FloatingIpSettingsReplaced {
    fn from(old: FloatingIpSettingsReplacedV1) -> Self {
        let (settings, tags) = TagsChange::all(old.settings);
        Self { network: old.network, floating_ip: old.floating_ip, settings, tags }
    }
}

/// A floating address, with its present settings and association.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FloatingIp {
    pub allocated: FloatingIpAllocated,
    pub association: Option<Association>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub revision: u64,
}

impl FloatingIp {
    pub fn id(&self) -> FloatingIpId {
        self.allocated.floating_ip
    }

    pub fn project(&self) -> &ProjectId {
        &self.allocated.project
    }

    pub fn network(&self) -> NetworkId {
        self.allocated.network
    }

    pub fn address(&self) -> IpAddr {
        self.allocated.address.address
    }

    pub fn settings(&self) -> &FloatingIpSettings {
        &self.allocated.settings
    }
}

/// One example of each event.
pub(super) fn samples() -> Vec<NetworkEvent> {
    let uuid = uuid::Uuid::from_u128;
    let (network, floating_ip, port) = (NetworkId(uuid(1)), FloatingIpId(uuid(6)), PortId(uuid(7)));
    let address = FixedAddress { subnet: SubnetId(uuid(2)), address: IpAddr::from([203, 0, 113, 5]) };
    let settings =
        FloatingIpSettings { description: "of the shop".into(), tags: vec!["blue".into()], ..Default::default() };
    let association = Association {
        network: NetworkId(uuid(8)),
        port: PortId(uuid(3)),
        subnet: SubnetId(uuid(9)),
        address: IpAddr::from([10, 0, 0, 5]),
        router: RouterId(uuid(10)),
    };
    let project = ProjectId::new("p");
    let tags = TagsChange::Difference { added: vec![], removed: vec!["blue".into()] };
    vec![
        FloatingIpAllocated { network, floating_ip, project, port, address, settings: settings.clone() }.into(),
        FloatingIpSettingsReplaced { network, floating_ip, settings, tags }.into(),
        FloatingIpAssociated { network, floating_ip, association }.into(),
        FloatingIpDisassociated { network, floating_ip }.into(),
        FloatingIpReleased { network, floating_ip }.into(),
    ]
}
