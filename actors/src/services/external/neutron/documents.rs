//! Neutron's documents, with the fields that Chronova reads.

use std::net::IpAddr;

use chronova_events::ids::{
    FloatingIpId, NetworkId, PortId, ProjectId, SecurityGroupId, SecurityGroupRuleId, SubnetId,
};
use chronova_events::network::FixedAddress;
use chronova_events::security_group::{Direction, Ethertype, RuleTraffic};
use serde::Deserialize;
use serde_json::Value;

use crate::ports::PortInfo;

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NeutronPort {
    #[serde(deserialize_with = "id")]
    pub id: PortId,
    #[serde(deserialize_with = "id")]
    pub network_id: NetworkId,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default)]
    tenant_id: Option<String>,
    pub mac_address: String,
    #[serde(default)]
    pub device_id: String,
    #[serde(default)]
    pub device_owner: String,
    #[serde(default)]
    pub fixed_ips: Vec<NeutronFixedIp>,
    #[serde(default)]
    pub security_groups: Vec<String>,
    #[serde(default)]
    pub port_security_enabled: Option<bool>,
    /// `deferred`: the address depends on the host.
    #[serde(default)]
    pub ip_allocation: Option<String>,
    #[serde(default, rename = "binding:host_id")]
    pub host: Option<String>,
    #[serde(default, rename = "binding:vif_type")]
    pub vif_type: Option<String>,
    #[serde(default, rename = "binding:vif_details")]
    pub vif_details: Value,
    #[serde(default, rename = "binding:profile")]
    pub profile: Value,
    #[serde(default, rename = "binding:vnic_type")]
    pub vnic_type: Option<String>,
    #[serde(default)]
    pub numa_affinity_policy: Option<String>,
    /// The resources that the port requests; `null` without any.
    #[serde(default)]
    pub resource_request: Value,
}

/// One of the bindings of a port, as `ports/ID/bindings` shows it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct NeutronBinding {
    #[serde(default)]
    pub host: String,
    /// `ACTIVE` or `INACTIVE`.
    #[serde(default)]
    status: String,
    #[serde(default)]
    pub vif_type: Option<String>,
    #[serde(default)]
    pub vif_details: Value,
}

impl NeutronBinding {
    pub(super) fn is_active(&self) -> bool {
        self.status == "ACTIVE"
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NeutronFixedIp {
    #[serde(deserialize_with = "id")]
    pub subnet_id: SubnetId,
    pub ip_address: IpAddr,
}

impl NeutronPort {
    pub(super) fn project(&self) -> ProjectId {
        ProjectId::new(self.project_id.as_deref().or(self.tenant_id.as_deref()).unwrap_or_default())
    }

    pub(super) fn addresses(&self) -> Vec<FixedAddress> {
        let address = |ip: &NeutronFixedIp| FixedAddress { subnet: ip.subnet_id, address: ip.ip_address };
        self.fixed_ips.iter().map(address).collect()
    }

    /// Whether a server has the port. Only such ports can have several bindings.
    pub(super) fn is_of_compute(&self) -> bool {
        self.device_owner.starts_with("compute:")
    }

    pub(super) fn bound_to(&self) -> Option<&str> {
        self.host.as_deref().filter(|host| !host.is_empty())
    }

    pub(super) fn info(&self) -> PortInfo {
        PortInfo {
            port: self.id,
            network: self.network_id,
            project: self.project(),
            server: self.device_id.parse().ok(),
            host: self.bound_to().map(str::to_owned),
            addresses: self.addresses(),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NeutronNetwork {
    #[serde(deserialize_with = "id")]
    pub id: NetworkId,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default)]
    tenant_id: Option<String>,
    #[serde(default)]
    pub shared: bool,
    #[serde(default, rename = "router:external")]
    pub external: bool,
    #[serde(default = "yes")]
    pub admin_state_up: bool,
    #[serde(default)]
    pub mtu: u32,
    #[serde(default)]
    pub subnets: Vec<String>,
}

impl NeutronNetwork {
    pub(super) fn is_of(&self, project: &ProjectId) -> bool {
        self.project_id.as_deref().or(self.tenant_id.as_deref()) == Some(project.as_str())
    }
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NeutronSubnet {
    #[serde(deserialize_with = "id")]
    pub id: SubnetId,
    pub cidr: String,
    pub gateway_ip: Option<String>,
    #[serde(default)]
    pub dns_nameservers: Vec<String>,
    #[serde(default)]
    pub enable_dhcp: bool,
}

impl NeutronSubnet {
    pub(super) fn prefix(&self) -> u8 {
        self.cidr.rsplit('/').next().and_then(|length| length.parse().ok()).unwrap_or(0)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NeutronGroup {
    #[serde(deserialize_with = "id")]
    pub id: SecurityGroupId,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default)]
    tenant_id: Option<String>,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub security_group_rules: Vec<NeutronRule>,
}

impl NeutronGroup {
    pub(super) fn project(&self) -> ProjectId {
        ProjectId::new(self.project_id.as_deref().or(self.tenant_id.as_deref()).unwrap_or_default())
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NeutronRule {
    #[serde(deserialize_with = "id")]
    pub id: SecurityGroupRuleId,
    #[serde(deserialize_with = "id")]
    pub security_group_id: SecurityGroupId,
    direction: String,
    #[serde(default)]
    ethertype: Option<String>,
    /// A name or a number.
    #[serde(default)]
    protocol: Value,
    #[serde(default)]
    port_range_min: Option<u16>,
    #[serde(default)]
    port_range_max: Option<u16>,
    #[serde(default)]
    remote_ip_prefix: Option<String>,
    #[serde(default)]
    remote_group_id: Option<String>,
}

impl NeutronRule {
    pub(super) fn traffic(&self) -> RuleTraffic {
        let ipv6 = self.ethertype.as_deref().is_some_and(|kind| kind.eq_ignore_ascii_case("ipv6"));
        RuleTraffic {
            direction: if self.direction == "egress" { Direction::Egress } else { Direction::Ingress },
            ethertype: if ipv6 { Ethertype::Ipv6 } else { Ethertype::Ipv4 },
            protocol: match &self.protocol {
                Value::String(name) => Some(name.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            },
            port_min: self.port_range_min,
            port_max: self.port_range_max,
            remote_prefix: self.remote_ip_prefix.clone(),
            remote_group: self.remote_group_id.as_deref().and_then(|id| id.parse().ok()),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct NeutronFloatingIp {
    #[serde(deserialize_with = "id")]
    pub id: FloatingIpId,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default)]
    tenant_id: Option<String>,
    pub floating_ip_address: IpAddr,
    #[serde(deserialize_with = "id")]
    pub floating_network_id: NetworkId,
    #[serde(default)]
    pub port_id: Option<String>,
    #[serde(default)]
    pub fixed_ip_address: Option<IpAddr>,
}

impl NeutronFloatingIp {
    pub(super) fn project(&self) -> ProjectId {
        ProjectId::new(self.project_id.as_deref().or(self.tenant_id.as_deref()).unwrap_or_default())
    }

    pub(super) fn port(&self) -> Option<PortId> {
        self.port_id.as_deref()?.parse().ok()
    }
}

fn id<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}
