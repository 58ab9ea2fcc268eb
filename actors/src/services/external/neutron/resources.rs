//! Networks, floating addresses and security groups of users, for Nova's old API: see [`NetworkResources`].

use std::net::IpAddr;

use async_trait::async_trait;
use chronova_events::ids::{FloatingIpId, NetworkId, PortId, ProjectId, SecurityGroupId, SecurityGroupRuleId};
use chronova_events::security_group::{Direction, Ethertype, RuleTraffic};
use serde_json::{Map, Value, json};

use super::NeutronNetworks;
use super::calls::{NeutronCaller, encoded, fields};
use super::documents::{NeutronFloatingIp, NeutronGroup, NeutronNetwork, NeutronPort, NeutronRule};
use crate::ports::{
    FloatingIpAllocationReject, FloatingIpInfo, FloatingIpTarget, NetworkInfo, NetworkResources, NewSecurityGroup,
    PortError, SecurityGroupInfo, SecurityRuleInfo, ServiceCaller,
};

const FLOATING: &str = "floatingips";
const GROUPS: &str = "security-groups";
const GROUP: &str = "security_group";
const RULES: &str = "security-group-rules";
const RULE: &str = "security_group_rule";

fn network_info(network: NeutronNetwork) -> NetworkInfo {
    NetworkInfo { id: network.id, name: network.name, external: network.external }
}

impl NeutronNetworks {
    async fn floating_ip_infos(
        &self,
        rows: Vec<NeutronFloatingIp>,
        asker: NeutronCaller<'_>,
    ) -> Result<Vec<FloatingIpInfo>, PortError> {
        let ports: Vec<String> = rows.iter().filter_map(|row| row.port_id.clone()).collect();
        let mut pools: Vec<String> = rows.iter().map(|row| row.floating_network_id.to_string()).collect();
        pools.sort();
        pools.dedup();
        let (ports, pools) = futures::join!(
            self.calls.list_by::<NeutronPort>(asker, "ports", "id", &ports, ""),
            self.calls.list_by::<NeutronNetwork>(asker, "networks", "id", &pools, ""),
        );
        let (ports, pools) = (ports?, pools?);
        let info = |row: NeutronFloatingIp| {
            let pool = pools.iter().find(|pool| pool.id == row.floating_network_id);
            let target = row.port().zip(row.fixed_ip_address).map(|(port, address)| {
                let holder = ports.iter().find(|known| known.id == port);
                FloatingIpTarget {
                    port,
                    address,
                    device: holder.map(|port| port.device_id.clone()).unwrap_or_default(),
                }
            });
            FloatingIpInfo {
                id: row.id,
                project: row.project(),
                address: row.floating_ip_address,
                network: row.floating_network_id,
                pool: pool.map(|pool| if pool.name.is_empty() { pool.id.to_string() } else { pool.name.clone() }),
                target,
            }
        };
        let mut infos: Vec<FloatingIpInfo> = rows.into_iter().map(info).collect();
        infos.sort_by_key(|info| info.id);
        Ok(infos)
    }

    async fn one_group(&self, group: NeutronGroup, asker: NeutronCaller<'_>) -> Result<SecurityGroupInfo, PortError> {
        let gone = || PortError::NotFound("Security group could not be found".to_owned());
        self.group_infos(vec![group], asker).await?.pop().ok_or_else(gone)
    }

    async fn one_rule(&self, rule: NeutronRule, asker: NeutronCaller<'_>) -> Result<SecurityRuleInfo, PortError> {
        let gone = || PortError::NotFound("Security group rule could not be found".to_owned());
        self.rule_infos(&[rule], &[], asker).await?.pop().ok_or_else(gone)
    }
}

/// The fields of a new rule.
fn rule_body(group: SecurityGroupId, traffic: &RuleTraffic) -> Map<String, Value> {
    let direction = if traffic.direction == Direction::Egress { "egress" } else { "ingress" };
    let ethertype = if traffic.ethertype == Ethertype::Ipv6 { "IPv6" } else { "IPv4" };
    let mut body = fields([
        ("security_group_id", json!(group.to_string())),
        ("direction", json!(direction)),
        ("ethertype", json!(ethertype)),
        ("protocol", json!(traffic.protocol)),
        ("port_range_min", json!(traffic.port_min)),
        ("port_range_max", json!(traffic.port_max)),
        ("remote_ip_prefix", json!(traffic.remote_prefix)),
        ("remote_group_id", json!(traffic.remote_group.map(|id| id.to_string()))),
    ]);
    body.retain(|_, value| !value.is_null());
    body
}

/// Maps Neutron's refusal of a new group or rule to a [`PortError`]. A rule that exists already is `Invalid`. The
/// general conversion covers all other refusals.
fn limited(error: super::calls::NeutronError) -> PortError {
    match error.kind() {
        "SecurityGroupRuleExists" => match PortError::from(error) {
            PortError::Conflict(message) => PortError::Invalid(message),
            other => other,
        },
        _ => error.into(),
    }
}

#[async_trait]
impl NetworkResources for NeutronNetworks {
    async fn list_networks(&self, caller: &ServiceCaller) -> Result<Vec<NetworkInfo>, PortError> {
        let all: Vec<NeutronNetwork> = self.calls.list(NeutronCaller::of(caller), "networks", "").await?;
        Ok(all.into_iter().map(network_info).collect())
    }

    async fn find_network(&self, network: NetworkId, caller: &ServiceCaller) -> Result<NetworkInfo, PortError> {
        let found = self.calls.show(NeutronCaller::of(caller), "networks", "network", &network.to_string()).await?;
        Ok(network_info(found))
    }

    async fn list_floating_ips(&self, caller: &ServiceCaller) -> Result<Vec<FloatingIpInfo>, PortError> {
        let asker = NeutronCaller::of(caller);
        let of_project = caller.project.as_ref().filter(|_| !caller.is_admin);
        let query = of_project.map(|project| format!("project_id={}", encoded(project.as_str()))).unwrap_or_default();
        let rows = self.calls.list(asker, FLOATING, &query).await?;
        self.floating_ip_infos(rows, asker).await
    }

    async fn find_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<FloatingIpInfo, PortError> {
        let asker = NeutronCaller::of(caller);
        let row = self.calls.show(asker, FLOATING, "floatingip", &id.to_string()).await?;
        let gone = || PortError::NotFound(format!("Floating IP {id} could not be found"));
        self.floating_ip_infos(vec![row], asker).await?.pop().ok_or_else(gone)
    }

    async fn allocate_floating_ip(
        &self,
        network: NetworkId,
        project: &ProjectId,
        caller: &ServiceCaller,
    ) -> Result<FloatingIpInfo, FloatingIpAllocationReject> {
        let asker = NeutronCaller::of(caller);
        let body =
            fields([("floating_network_id", json!(network.to_string())), ("project_id", json!(project.as_str()))]);
        let made = self.calls.create(asker, FLOATING, "floatingip", body).await;
        let row = made.map_err(|error| match error.kind() {
            "IpAddressGenerationFailure" | "ExternalIpAddressExhausted" => FloatingIpAllocationReject::NoneLeft,
            "OverQuota" => FloatingIpAllocationReject::OverQuota,
            _ => PortError::from(error).into(),
        })?;
        let gone = || PortError::Unavailable("Neutron does not show the new floating address".to_owned());
        Ok(self.floating_ip_infos(vec![row], asker).await?.pop().ok_or_else(gone)?)
    }

    async fn associate_floating_ip(
        &self,
        id: FloatingIpId,
        to: Option<(PortId, IpAddr)>,
        caller: &ServiceCaller,
    ) -> Result<(), PortError> {
        let body = match to {
            Some((port, address)) => {
                fields([("port_id", json!(port.to_string())), ("fixed_ip_address", json!(address.to_string()))])
            }
            None => fields([("port_id", Value::Null)]),
        };
        let changed =
            self.calls.change::<Value>(NeutronCaller::of(caller), FLOATING, "floatingip", &id.to_string(), body).await;
        Ok(changed.map(drop)?)
    }

    async fn release_floating_ip(&self, id: FloatingIpId, caller: &ServiceCaller) -> Result<(), PortError> {
        Ok(self.calls.delete(NeutronCaller::of(caller), FLOATING, &id.to_string()).await?)
    }

    async fn list_groups(&self, all: bool, caller: &ServiceCaller) -> Result<Vec<SecurityGroupInfo>, PortError> {
        let asker = NeutronCaller::of(caller);
        let groups = match caller.project.as_ref().filter(|_| !(all && caller.is_admin)) {
            Some(project) => self.groups_of_project(project, asker).await?,
            None => self.calls.list(asker, GROUPS, "").await?,
        };
        self.group_infos(groups, asker).await
    }

    async fn find_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<SecurityGroupInfo, PortError> {
        let asker = NeutronCaller::of(caller);
        let found = self.calls.show(asker, GROUPS, GROUP, &group.to_string()).await?;
        self.one_group(found, asker).await
    }

    async fn create_group(
        &self,
        wanted: NewSecurityGroup,
        caller: &ServiceCaller,
    ) -> Result<SecurityGroupInfo, PortError> {
        let asker = NeutronCaller::of(caller);
        let body = fields([
            ("project_id", json!(wanted.project.as_str())),
            ("name", json!(wanted.name)),
            ("description", json!(wanted.description)),
        ]);
        let made = self.calls.create(asker, GROUPS, GROUP, body).await.map_err(limited)?;
        self.one_group(made, asker).await
    }

    async fn change_group(
        &self,
        group: SecurityGroupId,
        name: String,
        description: String,
        caller: &ServiceCaller,
    ) -> Result<SecurityGroupInfo, PortError> {
        let asker = NeutronCaller::of(caller);
        let body = fields([("name", json!(name)), ("description", json!(description))]);
        let changed = self.calls.change(asker, GROUPS, GROUP, &group.to_string(), body).await?;
        self.one_group(changed, asker).await
    }

    async fn delete_group(&self, group: SecurityGroupId, caller: &ServiceCaller) -> Result<(), PortError> {
        Ok(self.calls.delete(NeutronCaller::of(caller), GROUPS, &group.to_string()).await?)
    }

    async fn find_rule(
        &self,
        rule: SecurityGroupRuleId,
        caller: &ServiceCaller,
    ) -> Result<SecurityRuleInfo, PortError> {
        let asker = NeutronCaller::of(caller);
        let found = self.calls.show(asker, RULES, RULE, &rule.to_string()).await?;
        self.one_rule(found, asker).await
    }

    async fn add_rule(
        &self,
        group: SecurityGroupId,
        traffic: RuleTraffic,
        caller: &ServiceCaller,
    ) -> Result<SecurityRuleInfo, PortError> {
        let asker = NeutronCaller::of(caller);
        let made = self.calls.create(asker, RULES, RULE, rule_body(group, &traffic)).await.map_err(limited)?;
        self.one_rule(made, asker).await
    }

    async fn remove_rule(&self, rule: SecurityGroupRuleId, caller: &ServiceCaller) -> Result<(), PortError> {
        Ok(self.calls.delete(NeutronCaller::of(caller), RULES, &rule.to_string()).await?)
    }
}
