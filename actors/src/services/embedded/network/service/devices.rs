//! Ports whose interfaces are PCI devices of their hosts, and the carriers of networks.
//!
//! A device is in the port's `binding:profile` as long as the port is bound to the device's host.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{NetworkId, PortId};
use chronova_events::network::Port;
use chronova_hypervisor::guest::NicPlug;
use chronova_projections::networks::NetworksView;
use serde_json::{Map, Value};

use super::{EmbeddedNetworks, port_error};
use crate::pci::alias::PciNumaPolicy;
use crate::pci::ports::{DevicePort, DeviceVnic, PortDevice, is_trusted, profile_with};
use crate::ports::PortError;
use crate::services::embedded::network::ports::profile;
use crate::services::embedded::network::{NetworkCommand, PortPatch};
use crate::topology::networks::NetworkCarrier;

/// The ports among these that need a device.
pub(super) fn requested(view: &NetworksView, ports: &[PortId]) -> Vec<DevicePort> {
    let known = ports.iter().filter_map(|port| view.port(*port));
    known
        .filter_map(|port| {
            let vnic = DeviceVnic::of_word(&port.settings().vnic_type)?;
            let (network, profile) = (view.network(port.created.network), profile(port));
            Some(DevicePort {
                port: port.created.port,
                vnic,
                network: network.and_then(|network| network.created.provider.physical_network.clone()),
                policy: policy(&profile),
                trusted: is_trusted(&profile),
            })
        })
        .collect()
}

/// The carriers of these networks, and of the networks of these ports.
pub(super) fn carriers(view: &NetworksView, networks: &[NetworkId], ports: &[PortId]) -> BTreeSet<NetworkCarrier> {
    let of_ports = ports.iter().filter_map(|port| Some(view.port(*port)?.created.network));
    let known = networks.iter().copied().chain(of_ports).filter_map(|network| view.network(network));
    let provider = known.map(|network| &network.created.provider);
    provider
        .filter_map(|provider| NetworkCarrier::of(&provider.network_type, provider.physical_network.as_deref()))
        .collect()
}

/// Neutron has an attribute `numa_affinity_policy`. Ports here have no such attribute, so the profile can say it.
fn policy(profile: &Map<String, Value>) -> Option<PciNumaPolicy> {
    profile.get("numa_affinity_policy")?.as_str().and_then(PciNumaPolicy::of_word)
}

/// The plug of a port. The VLAN is that of the port's network.
pub(super) fn plug(view: &NetworksView, port: &Port) -> NicPlug {
    let Some(vnic) = DeviceVnic::of_word(&port.settings().vnic_type) else { return NicPlug::Network };
    let provider = view.network(port.created.network).map(|network| &network.created.provider);
    let vlan = provider.filter(|provider| provider.network_type == "vlan");
    vnic.plug(vlan.and_then(|provider| u16::try_from(provider.segmentation_id?).ok()))
}

/// The change that writes the device into the port's profile, or removes a former one; `None` if nothing changes.
fn change(port: &Port, device: Option<&PortDevice>) -> Option<PortPatch> {
    let before = profile(port);
    let after = profile_with(&before, device);
    let mac = device.and_then(PortDevice::own_mac).filter(|mac| *mac != port.created.mac);
    let profile = (after != before).then(|| Value::Object(after).to_string());
    let patch = PortPatch { profile, mac: mac.map(str::to_owned), ..PortPatch::default() };
    (patch.profile.is_some() || patch.mac.is_some()).then_some(patch)
}

impl EmbeddedNetworks {
    /// Writes the device of a port into its profile. Without a device, removes a former one.
    pub(super) async fn equip(
        &self,
        port: &Port,
        device: Option<&PortDevice>,
        meta: &Arc<Meta>,
    ) -> Result<Position, PortError> {
        let Some(patch) = change(port, device) else { return Ok(Position::START) };
        let command = NetworkCommand::ChangePort { port: port.created.port, patch };
        self.send(port.created.network, command, meta).await.map_err(port_error)
    }

    /// Like [`Self::equip`], for a port that is given to a server. A port that another server has stays as it is, and
    /// the binding is refused afterwards.
    pub(super) async fn equip_given(
        &self,
        port: PortId,
        server: &str,
        device: Option<&PortDevice>,
        meta: &Arc<Meta>,
    ) -> Result<Position, PortError> {
        let known = self.views.networks.read(|view| view.port(port).cloned());
        match known.filter(|port| port.binding().device.is_empty() || port.binding().device == server) {
            Some(port) => self.equip(&port, device, meta).await,
            None => Ok(Position::START),
        }
    }
}
