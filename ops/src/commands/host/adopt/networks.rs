//! The networks and ports that an adoption of guests adds to the embedded network service.
//!
//! The service's own decisions judge them, so that no two ports have one address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::services::embedded::network::{
    FixedIpRequest, NetworkCommand, NetworkReject, NetworkRoot, PortRequest, SubnetGateway, SubnetRequest,
};
use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold as _;
use chronova_events::ids::{NetworkId, PortId, ProjectId, SubnetId};
use chronova_events::instance::{FixedIp, NicInfo};
use chronova_events::network::{Network, NetworkCreated, NetworkEvent, NetworkSettings, ProviderAttributes};
use chronova_hypervisor::guest::{NetworkSpec, SubnetSpec};
use chronova_projections::views::Views;

use super::facts::ToldNetwork;

/// The networks as they will be, and the events that make them so.
pub(super) struct PlannedNetworks<'a> {
    views: &'a Views,
    now: Timestamp,
    states: BTreeMap<NetworkId, Network>,
    events: BTreeMap<NetworkId, Vec<NetworkEvent>>,
}

impl<'a> PlannedNetworks<'a> {
    pub(super) fn of(views: &'a Views, now: Timestamp) -> Self {
        Self { views, now, states: BTreeMap::new(), events: BTreeMap::new() }
    }

    pub(super) fn into_events(self) -> BTreeMap<NetworkId, Vec<NetworkEvent>> {
        self.events
    }

    fn state(&mut self, network: NetworkId) -> &mut Network {
        let views = self.views;
        let known = || views.networks.read(|view| view.whole(network).cloned()).unwrap_or_default();
        self.states.entry(network).or_insert_with(known)
    }

    fn send(&mut self, network: NetworkId, command: NetworkCommand) -> Result<(), NetworkReject> {
        let now = self.now;
        let events = NetworkRoot::decide(self.state(network), command)?;
        for event in events {
            self.state(network).evolve(&event, now);
            self.events.entry(network).or_default().push(event);
        }
        Ok(())
    }

    pub(super) fn has(&mut self, network: NetworkId) -> bool {
        self.state(network).row.is_some()
    }

    /// Adds a network of a host with its subnets.
    pub(super) fn create(&mut self, spec: &NetworkSpec, told: &ToldNetwork) -> Result<(), NetworkReject> {
        let (id, project) = (spec.network, ProjectId::new(&told.project));
        let default = NetworkSettings::default();
        let mtu = if spec.mtu > 0 { spec.mtu } else { default.mtu };
        self.send(
            id,
            NetworkCommand::Create(NetworkCreated {
                network: id,
                project: project.clone(),
                settings: NetworkSettings { name: told.name.clone(), shared: told.shared, mtu, ..default },
                provider: ProviderAttributes {
                    network_type: "local".to_owned(),
                    physical_network: None,
                    segmentation_id: None,
                },
                availability_zone_hints: Vec::new(),
            }),
        )?;
        for subnet in &spec.subnets {
            let wanted = subnet_request(id, &project, subnet)
                .ok_or_else(|| NetworkReject::InvalidInput(format!("{} is no subnet", subnet.cidr)))?;
            self.send(id, NetworkCommand::AddSubnet(wanted))?;
        }
        Ok(())
    }

    /// The device of a port that exists already.
    pub(super) fn device_of(&mut self, network: NetworkId, port: PortId) -> Option<String> {
        self.state(network).ports.get(&port).map(|port| port.binding().device.clone())
    }

    /// Adds a port.
    pub(super) fn add(&mut self, network: NetworkId, port: PortRequest) -> Result<(), NetworkReject> {
        self.send(network, NetworkCommand::CreatePort(port))
    }

    /// The interface of a port, as the server records it.
    pub(super) fn interface(&mut self, network: NetworkId, port: PortId) -> Option<NicInfo> {
        let state = self.state(network);
        let (row, port) = (state.row.as_ref()?, state.ports.get(&port)?);
        let fixed_ips = port.addresses().iter().filter_map(|fixed| {
            let subnet = &state.subnets.get(&fixed.subnet)?.added;
            Some(FixedIp {
                address: fixed.address.to_string(),
                prefix: subnet.cidr.prefix_len(),
                gateway: subnet.settings.gateway.map(|gateway| gateway.to_string()),
                dns: subnet.settings.dns.iter().map(ToString::to_string).collect(),
                dhcp: subnet.settings.dhcp,
            })
        });
        Some(NicInfo {
            port: port.created.port,
            network,
            network_label: row.settings().name.clone(),
            mac: port.created.mac.clone(),
            mtu: row.settings().mtu,
            fixed_ips: fixed_ips.collect(),
            tag: None,
            owned: port.created.made_for.is_some(),
            // The service shows the names at the next start.
            security_groups: Vec::new(),
        })
    }
}

fn subnet_request(network: NetworkId, project: &ProjectId, subnet: &SubnetSpec) -> Option<SubnetRequest> {
    let gateway = match &subnet.gateway {
        Some(address) => SubnetGateway::At(address.parse().ok()?),
        None => SubnetGateway::None,
    };
    Some(SubnetRequest {
        subnet: SubnetId::derive(network.0, &subnet.cidr),
        project: project.clone(),
        name: String::new(),
        description: String::new(),
        cidr: subnet.cidr.parse().ok()?,
        gateway,
        pools: None,
        dhcp: subnet.dhcp,
        dns: subnet.dns.iter().filter_map(|address| address.parse().ok()).collect(),
        host_routes: Vec::new(),
        ipv6_address_mode: None,
        ipv6_ra_mode: None,
        tags: Vec::new(),
    })
}

/// The request for these addresses.
pub(super) fn fixed(addresses: &[IpAddr]) -> Vec<FixedIpRequest> {
    addresses.iter().map(|address| FixedIpRequest { subnet: None, address: Some(*address) }).collect()
}
