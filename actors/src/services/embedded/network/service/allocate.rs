//! Creates or binds the ports of a server.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{NetworkId, PortId, ProjectId, SecurityGroupId};
use chronova_events::instance::{FixedIp, NicInfo, RequestedNetworks, RequestedNic};
use chronova_events::network::{Port, PortBinding, PortSettings};
use chronova_projections::networks::NetworksView;
use chronova_projections::security_groups::SecurityGroupsView;

use super::{EmbeddedNetworks, check, port_error, realise};
use crate::aggregate::CommandError;
use crate::ports::{InterfacesRequest, PortError};
use crate::services::embedded::network::ovn::OvnOptions;
use crate::services::embedded::network::security_group::{SecurityGroupCommand, SecurityGroupRoot};
use crate::services::embedded::network::{FixedIpRequest, NetworkCommand, PortRequest};

/// An interface with its port and network.
pub(super) struct PlannedInterface {
    pub(super) port: PortId,
    pub(super) network: NetworkId,
    /// Whether the user created the port, so that it is only bound.
    pub(super) given: bool,
    pub(super) fixed_ip: Option<String>,
    pub(super) tag: Option<String>,
}

impl EmbeddedNetworks {
    pub(super) async fn allocate_all(
        &self,
        wanted: &InterfacesRequest,
        meta: &Arc<Meta>,
    ) -> Result<Vec<NicInfo>, PortError> {
        let planned = self.plan(wanted)?;
        if planned.is_empty() {
            return Ok(vec![]);
        }
        let mut seen = self.ensure_default_group(&wanted.project, meta).await?;
        let groups =
            self.views.security_groups.read(|view| check::groups(view, &wanted.project, &wanted.security_groups))?;
        let new = planned.iter().filter(|nic| !nic.given).map(|nic| nic.port).collect();
        self.take_room(&wanted.project, new, meta).await?;
        self.touched.note(wanted.instance, planned.iter().map(|nic| nic.network));
        for nic in &planned {
            if nic.given {
                let device = wanted.grants.of(nic.port).device;
                seen = seen.max(self.equip_given(nic.port, &wanted.instance.to_string(), device, meta).await?);
            }
            let command = command(wanted, nic, &groups)?;
            seen = seen.max(self.send(nic.network, command, meta).await.map_err(port_error)?);
        }
        self.see(seen).await?;
        let nics = self.views.networks.read(|networks| {
            self.views.security_groups.read(|groups| {
                planned.iter().map(|nic| self.info(networks, groups, nic)).collect::<Result<Vec<_>, _>>()
            })
        })?;
        self.touched.forget(wanted.instance);
        Ok(nics)
    }

    /// The port and the network of each interface. Continues the work of an earlier, interrupted call.
    fn plan(&self, wanted: &InterfacesRequest) -> Result<Vec<PlannedInterface>, PortError> {
        let automatic = [RequestedNic::automatic()];
        let nics = match &wanted.networks {
            RequestedNetworks::None => return Ok(vec![]),
            RequestedNetworks::Auto => &automatic[..],
            RequestedNetworks::These(nics) | RequestedNetworks::OfAnyProject(nics) => nics,
        };
        let touched = self.touched.of(wanted.instance).first().copied();
        self.views.networks.read(|view| {
            let mut planned = Vec::with_capacity(nics.len());
            for (index, nic) in nics.iter().enumerate() {
                planned.extend(plan_nic(view, wanted, index, nic, touched)?);
            }
            Ok(planned)
        })
    }

    pub(super) fn info(
        &self,
        networks: &NetworksView,
        groups: &SecurityGroupsView,
        nic: &PlannedInterface,
    ) -> Result<NicInfo, PortError> {
        info(networks, groups, nic, self.carried())
    }

    pub(super) async fn ensure_default_group(
        &self,
        project: &ProjectId,
        meta: &Arc<Meta>,
    ) -> Result<Position, PortError> {
        let command = SecurityGroupCommand::EnsureDefault { project: project.clone() };
        let sent = self.gateway.send::<SecurityGroupRoot>(project, command, Arc::clone(meta)).await;
        sent.map(|committed| committed.position).map_err(|error| match error {
            CommandError::Rejected(reject) => PortError::Conflict(reject.to_string()),
            CommandError::Unavailable(error) => PortError::Unavailable(error.to_string()),
        })
    }
}

/// The ids of the ports that the service may have created for the server.
pub(super) fn made_for(wanted: &InterfacesRequest) -> BTreeSet<PortId> {
    let count = match &wanted.networks {
        RequestedNetworks::Auto => 1,
        listed => listed.listed().len(),
    };
    (0..count).map(|index| port_id(wanted, index)).collect()
}

fn port_id(wanted: &InterfacesRequest, index: usize) -> PortId {
    PortId::derive(wanted.instance.0, &format!("port-{index}"))
}

fn plan_nic(
    view: &NetworksView,
    wanted: &InterfacesRequest,
    index: usize,
    nic: &RequestedNic,
    touched: Option<NetworkId>,
) -> Result<Option<PlannedInterface>, PortError> {
    let (fixed_ip, tag) = (nic.fixed_ip.clone(), nic.tag.clone());
    if let Some(port) = nic.port {
        let network = check::usable_port(view, &wanted.project, port)?.created.network;
        return Ok(Some(PlannedInterface { port, network, given: true, fixed_ip, tag }));
    }
    let port = port_id(wanted, index);
    let known = view.port(port).map(|port| port.created.network);
    let network = match (known, nic.network) {
        (Some(network), _) => network,
        (None, Some(network)) => {
            let by_administrator = check::is_of_administrator(&wanted.networks);
            check::admitted_network(view, &wanted.project, by_administrator, network)?.created.network
        }
        (None, None) => match touched.map_or_else(|| check::automatic(view, &wanted.project), |id| Ok(Some(id)))? {
            Some(network) => network,
            // Nova boots servers without interfaces if there is no network at all.
            None => return Ok(None),
        },
    };
    Ok(Some(PlannedInterface { port, network, given: false, fixed_ip, tag }))
}

pub(super) fn command(
    wanted: &InterfacesRequest,
    nic: &PlannedInterface,
    groups: &[SecurityGroupId],
) -> Result<NetworkCommand, PortError> {
    let binding = PortBinding {
        device: wanted.instance.to_string(),
        owner: format!("compute:{}", wanted.availability_zone),
        host: wanted.host.clone(),
    };
    if nic.given {
        return Ok(NetworkCommand::BindPort { port: nic.port, project: wanted.project.clone(), binding });
    }
    let address = nic.fixed_ip.as_ref().map(|text| {
        let address = text.parse().map_err(|_| PortError::Invalid(format!("Invalid input received: {text}")))?;
        Ok::<_, PortError>(vec![FixedIpRequest { subnet: None, address: Some(address) }])
    });
    Ok(NetworkCommand::CreatePort(PortRequest {
        port: nic.port,
        project: wanted.project.clone(),
        mac: None,
        addresses: address.transpose()?,
        settings: PortSettings { dns_name: wanted.hostname.clone(), ..PortSettings::default() },
        port_security: None,
        security_groups: named_groups(wanted, groups),
        binding,
        made_for: Some(wanted.instance),
    }))
}

/// The groups of a new port. If the user requested no group, Nova sends only `default`. Then the result is `None`, and
/// the network's port security decides whether groups apply at all.
fn named_groups(wanted: &InterfacesRequest, groups: &[SecurityGroupId]) -> Option<Vec<SecurityGroupId>> {
    match wanted.security_groups.as_slice() {
        [] => None,
        [only] if only == chronova_events::security_group::DEFAULT => None,
        _ => Some(groups.to_vec()),
    }
}

pub(super) fn info(
    networks: &NetworksView,
    groups: &SecurityGroupsView,
    nic: &PlannedInterface,
    ovn: Option<&OvnOptions>,
) -> Result<NicInfo, PortError> {
    let port = networks.port(nic.port);
    // Another request has deleted the port after the command.
    let port = port.ok_or_else(|| PortError::Conflict(format!("Port {} is gone.", nic.port)))?;
    let network = networks.network(port.created.network);
    let network = network.ok_or_else(|| PortError::Conflict(format!("Network {} is gone.", nic.network)))?;
    Ok(NicInfo {
        port: nic.port,
        network: network.created.network,
        network_label: network.settings().name.clone(),
        mac: port.created.mac.clone(),
        mtu: realise::mtu(network, ovn),
        fixed_ips: fixed_ips(networks, port),
        tag: nic.tag.clone(),
        owned: !nic.given,
        security_groups: port
            .settings()
            .security_groups
            .iter()
            .map(|id| groups.get(*id).map_or_else(|| id.to_string(), |group| group.settings().name.clone()))
            .collect(),
    })
}

fn fixed_ips(networks: &NetworksView, port: &Port) -> Vec<FixedIp> {
    let with_subnet = port.addresses().iter().filter_map(|fixed| Some((fixed, networks.subnet(fixed.subnet)?)));
    with_subnet
        .map(|(fixed, subnet)| FixedIp {
            address: fixed.address.to_string(),
            prefix: subnet.added.cidr.prefix_len(),
            gateway: subnet.added.settings.gateway.map(|gateway| gateway.to_string()),
            dns: subnet.added.settings.dns.iter().map(ToString::to_string).collect(),
            dhcp: subnet.added.settings.dhcp,
        })
        .collect()
}
