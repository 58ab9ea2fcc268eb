//! The ports of an existing server: attaching a port, adding and removing addresses, and the present interfaces.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{InstanceId, NetworkId, PortId, ProcessId, ProjectId};
use chronova_events::instance::{NicInfo, RequestedNetworks, RequestedNic};
use chronova_events::network::Port;
use chronova_projections::networks::NetworksView;
use chronova_projections::views::Views;

use super::allocate::{PlannedInterface, command, info};
use super::{EmbeddedNetworks, check as words, port_error};
use crate::aggregate::CommandError;
use crate::ports::{InterfaceRequest, InterfacesRequest, PortError};
use crate::services::embedded::network::ovn::OvnOptions;
use crate::services::embedded::network::{FixedIpRequest, NetworkCommand, PortPatch};

/// The id of the port that is created for `process`. A repeated request finds the same port.
pub(super) fn port_of(process: ProcessId) -> PortId {
    PortId::derive(process.0, "port")
}

/// The network of the interface. The refusals have the messages of Nova's `attach_interface`.
pub(super) fn check(
    views: &Views,
    project: &ProjectId,
    nic: &RequestedNic,
    by_administrator: bool,
) -> Result<NetworkId, PortError> {
    let network = views.networks.read(|view| match (nic.port, nic.network) {
        (Some(port), _) => {
            let port = usable_port(view, project, port)?;
            let id = port.created.port;
            if !port.binding().device.is_empty() {
                return Err(PortError::Conflict(format!("Port {id} is still in use.")));
            }
            if port.addresses().is_empty() {
                return Err(PortError::Invalid(format!("Port {id} requires a FixedIP in order to be used.")));
            }
            Ok(port.created.network)
        }
        (None, Some(network)) => {
            words::admitted_network(view, project, by_administrator, network).map_err(not_found)?;
            free(view, project, network, nic)?;
            Ok(network)
        }
        (None, None) => automatic(view, project),
    })?;
    if nic.port.is_none() {
        words::check_quota(views, project, 1)?;
    }
    Ok(network)
}

fn usable_port<'a>(view: &'a NetworksView, project: &ProjectId, port: PortId) -> Result<&'a Arc<Port>, PortError> {
    words::usable_port(view, project, port).map_err(not_found)
}

/// If the requested port or network does not exist, Nova answers 404 for an existing server, but 400 for a new one.
fn not_found(error: PortError) -> PortError {
    match error {
        PortError::Invalid(message) => PortError::NotFound(message),
        other => other,
    }
}

/// Checks that the network has a subnet, and that no port has the requested address.
fn free(view: &NetworksView, project: &ProjectId, network: NetworkId, nic: &RequestedNic) -> Result<(), PortError> {
    let Some(whole) = view.whole(network).filter(|whole| !whole.subnets.is_empty()) else {
        let message = format!("Network {network} requires a subnet in order to boot instances on.");
        return Err(PortError::Invalid(message));
    };
    let Some(text) = &nic.fixed_ip else { return Ok(()) };
    let address = text.parse().map_err(|_| PortError::Invalid(format!("Invalid input received: {text}")))?;
    match whole.holder(address).and_then(|port| whole.ports.get(&port)) {
        Some(port) => Err(PortError::Conflict(words::in_use(view, project, port, text))),
        None => Ok(()),
    }
}

fn automatic(view: &NetworksView, project: &ProjectId) -> Result<NetworkId, PortError> {
    match words::automatic(view, project) {
        Ok(Some(network)) => Ok(network),
        Ok(None) => Err(PortError::Invalid(format!(
            "No specific network was requested and none are available for project '{project}'."
        ))),
        Err(_) => Err(PortError::Invalid(
            "More than one possible network found. Specify network ID(s) to select which one(s) to connect to."
                .to_owned(),
        )),
    }
}

/// The present state of the interfaces with ports that are still the server's. An interface on an unknown network
/// belongs to an adopted server. Another service has its port, so the interface stays.
pub(super) fn refreshed(
    views: &Views,
    instance: InstanceId,
    nics: &[NicInfo],
    ovn: Option<&OvnOptions>,
) -> Vec<NicInfo> {
    let device = instance.to_string();
    views.networks.read(|networks| {
        views.security_groups.read(|groups| {
            let own = nics.iter().filter(|nic| match networks.port(nic.port) {
                Some(port) => port.binding().device == device,
                None => networks.whole(nic.network).is_none(),
            });
            own.filter_map(|nic| {
                if networks.whole(nic.network).is_none() {
                    return Some(nic.clone());
                }
                let planned = PlannedInterface {
                    port: nic.port,
                    network: nic.network,
                    given: !nic.owned,
                    fixed_ip: None,
                    tag: nic.tag.clone(),
                };
                info(networks, groups, &planned, ovn).ok()
            })
            .collect()
        })
    })
}

impl EmbeddedNetworks {
    pub(super) async fn attach_one(&self, wanted: InterfaceRequest, meta: &Arc<Meta>) -> Result<NicInfo, PortError> {
        let own = wanted.nic.port.unwrap_or_else(|| port_of(wanted.process));
        let device = wanted.instance.to_string();
        // Continues the work of an earlier attempt.
        let known = self.views.networks.read(|view| {
            view.port(own).filter(|port| port.binding().device == device).map(|port| port.created.network)
        });
        let network = match known {
            Some(network) => network,
            // `check_attach` has judged the user, and the event does not say whether an administrator asked.
            None => check(&self.views, &wanted.project, &wanted.nic, true)?,
        };
        let nic = PlannedInterface {
            port: own,
            network,
            given: wanted.nic.port.is_some(),
            fixed_ip: wanted.nic.fixed_ip.clone(),
            tag: wanted.nic.tag.clone(),
        };
        let all = InterfacesRequest {
            instance: wanted.instance,
            project: wanted.project.clone(),
            hostname: wanted.hostname,
            host: wanted.host,
            availability_zone: wanted.availability_zone,
            networks: RequestedNetworks::These(vec![wanted.nic]),
            // As in Nova, the request names no groups, so the network's port security decides whether the default group
            // applies.
            security_groups: Vec::new(),
            grants: wanted.grants,
        };
        let mut seen = self.ensure_default_group(&wanted.project, meta).await?;
        let command = command(&all, &nic, &[])?;
        let new: BTreeSet<PortId> = (!nic.given).then_some(own).into_iter().collect();
        self.take_room(&wanted.project, new.clone(), meta).await?;
        self.touched.note(wanted.instance, [network]);
        if nic.given {
            seen = seen.max(self.equip_given(own, &device, all.grants.of(own).device, meta).await?);
        }
        let sent = match self.send(network, command, meta).await {
            Ok(sent) => sent,
            Err(error) => {
                if matches!(error, CommandError::Rejected(_)) {
                    self.give_back(&wanted.project, new, meta).await;
                }
                return Err(port_error(error));
            }
        };
        self.see(seen.max(sent)).await?;
        self.views.networks.read(|networks| self.views.security_groups.read(|groups| self.info(networks, groups, &nic)))
    }

    /// Gives the server's port on that network one more address, from the first subnet with a free address.
    pub(super) async fn add_one(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        network: NetworkId,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let port = self.ports_of(project, instance).into_iter().find(|port| port.created.network == network);
        let found = self.views.networks.read(|view| {
            let port = port?;
            let subnets = view.whole(network)?.subnets.keys().copied().collect::<Vec<_>>();
            Some((port.created.port, port.addresses().to_vec(), subnets))
        });
        let (port, addresses, subnets) =
            found.ok_or_else(|| PortError::NotFound(format!("Network could not be found for instance {instance}.")))?;
        let mut refusal = PortError::Conflict(format!("No fixed IP addresses available for network: {network}"));
        for subnet in subnets {
            let mut wanted: Vec<FixedIpRequest> = addresses.iter().copied().map(FixedIpRequest::from).collect();
            wanted.push(FixedIpRequest { subnet: Some(subnet), address: None });
            match self.readdress(network, port, wanted, meta).await {
                Err(PortError::Conflict(message)) => refusal = PortError::Conflict(message),
                other => return other,
            }
        }
        Err(refusal)
    }

    pub(super) async fn remove_one(
        &self,
        instance: InstanceId,
        project: &ProjectId,
        address: IpAddr,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let holds = |port: &Arc<Port>| port.addresses().iter().any(|fixed| fixed.address == address);
        let port = self.ports_of(project, instance).into_iter().find(holds).ok_or_else(|| {
            PortError::NotFound(format!(
                "Fixed IP not found for instance {instance}: {address} is none of its addresses."
            ))
        })?;
        let left = port.addresses().iter().copied().filter(|fixed| fixed.address != address);
        let left = left.map(FixedIpRequest::from).collect();
        self.readdress(port.created.network, port.created.port, left, meta).await
    }

    async fn readdress(
        &self,
        network: NetworkId,
        port: PortId,
        addresses: Vec<FixedIpRequest>,
        meta: &Arc<Meta>,
    ) -> Result<(), PortError> {
        let patch = PortPatch { addresses: Some(addresses), ..PortPatch::default() };
        let sent = self.send(network, NetworkCommand::ChangePort { port, patch }, meta).await.map_err(port_error)?;
        self.see(sent).await
    }
}
