//! Reads ports, and converts them to the interfaces of servers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId};
use chronova_events::instance::{FixedIp, NicInfo};

use super::NeutronNetworks;
use super::calls::{NeutronCaller, encoded};
use super::documents::{NeutronFloatingIp, NeutronNetwork, NeutronPort, NeutronSubnet};
use crate::ports::{FloatingAddress, PortError, PortInfo, ServiceCaller};

/// The networks, subnets and groups of some ports.
pub(super) struct Surroundings {
    networks: BTreeMap<NetworkId, NeutronNetwork>,
    subnets: Vec<NeutronSubnet>,
    groups: BTreeMap<String, String>,
}

impl Surroundings {
    pub(super) fn nic(&self, port: &NeutronPort, tag: Option<String>, owned: bool) -> Result<NicInfo, PortError> {
        let network = self.networks.get(&port.network_id);
        let network = network.ok_or_else(|| PortError::Conflict(format!("Network {} is gone.", port.network_id)))?;
        let address = |address: &super::documents::NeutronFixedIp| {
            let subnet = self.subnets.iter().find(|subnet| subnet.id == address.subnet_id)?;
            Some(FixedIp {
                address: address.ip_address.to_string(),
                prefix: subnet.prefix(),
                gateway: subnet.gateway_ip.clone(),
                dns: subnet.dns_nameservers.clone(),
                dhcp: subnet.enable_dhcp,
            })
        };
        let name = |id: &String| self.groups.get(id).unwrap_or(id).clone();
        Ok(NicInfo {
            port: port.id,
            network: port.network_id,
            network_label: network.name.clone(),
            mac: port.mac_address.clone(),
            mtu: network.mtu,
            fixed_ips: port.fixed_ips.iter().filter_map(address).collect(),
            tag,
            owned,
            security_groups: port.security_groups.iter().map(name).collect(),
        })
    }
}

impl NeutronNetworks {
    pub(super) async fn surroundings(
        &self,
        ports: &[&NeutronPort],
        asker: NeutronCaller<'_>,
    ) -> Result<Surroundings, PortError> {
        let ids: BTreeSet<String> = ports.iter().map(|port| port.network_id.to_string()).collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let groups = ports.iter().flat_map(|port| port.security_groups.iter().cloned()).collect();
        let (networks, subnets, groups) = futures::join!(
            self.calls.list_by::<NeutronNetwork>(asker, "networks", "id", &ids, ""),
            self.calls.list_by::<NeutronSubnet>(asker, "subnets", "network_id", &ids, ""),
            self.names_of(groups, asker),
        );
        let networks = networks?.into_iter().map(|network| (network.id, network)).collect();
        Ok(Surroundings { networks, subnets: subnets?, groups: groups? })
    }

    /// The present state of a server's interfaces. An interface is left out if its port is not the server's any more.
    pub(super) async fn present(&self, instance: InstanceId, nics: &[NicInfo]) -> Result<Vec<NicInfo>, PortError> {
        if nics.is_empty() {
            return Ok(Vec::new());
        }
        let meta = Meta::system("neutron");
        let asker = NeutronCaller::account(&meta);
        let ports = self.ports_with_device(asker, instance).await?;
        let own: Vec<(&NicInfo, &NeutronPort)> =
            nics.iter().filter_map(|nic| Some((nic, ports.iter().find(|port| port.id == nic.port)?))).collect();
        let all: Vec<&NeutronPort> = own.iter().map(|(_, port)| *port).collect();
        let surroundings = self.surroundings(&all, asker).await?;
        own.into_iter().map(|(nic, port)| surroundings.nic(port, nic.tag.clone(), nic.owned)).collect()
    }

    pub(super) async fn floating_of(
        &self,
        ports: &[PortId],
        caller: &ServiceCaller,
    ) -> Result<Vec<FloatingAddress>, PortError> {
        let asker = NeutronCaller::of(caller);
        if ports.is_empty() || !self.calls.has_extension(asker, "router").await? {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = ports.iter().map(PortId::to_string).collect();
        let found: Vec<NeutronFloatingIp> = self.calls.list_by(asker, "floatingips", "port_id", &ids, "").await?;
        let of_port = |port: &PortId| {
            let port = *port;
            let own = found.iter().filter(move |floating| floating.port() == Some(port));
            own.map(move |floating| FloatingAddress { port, address: floating.floating_ip_address })
        };
        Ok(ports.iter().flat_map(of_port).collect())
    }

    pub(super) async fn ports_with_ids(
        &self,
        ports: &[PortId],
        caller: &ServiceCaller,
    ) -> Result<Vec<PortInfo>, PortError> {
        let ids: Vec<String> = ports.iter().map(PortId::to_string).collect();
        let found: Vec<NeutronPort> = self.calls.list_by(NeutronCaller::of(caller), "ports", "id", &ids, "").await?;
        let info = |id: &PortId| found.iter().find(|port| port.id == *id).map(NeutronPort::info);
        Ok(ports.iter().filter_map(info).collect())
    }

    pub(super) async fn ports_with_address(
        &self,
        address: IpAddr,
        caller: &ServiceCaller,
    ) -> Result<Vec<PortInfo>, PortError> {
        let query = format!("fixed_ips={}", encoded(&format!("ip_address={address}")));
        let found: Vec<NeutronPort> = self.calls.list(NeutronCaller::of(caller), "ports", &query).await?;
        Ok(found.iter().map(NeutronPort::info).collect())
    }
}
