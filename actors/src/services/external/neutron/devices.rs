//! Ports whose interfaces are PCI devices of their hosts (SR-IOV, vDPA), and the carriers of networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{NetworkId, PortId};
use chronova_hypervisor::guest::NicPlug;
use serde::Deserialize;
use serde_json::Value;

use super::NeutronNetworks;
use super::calls::NeutronCaller;
use super::documents::NeutronPort;
use crate::pci::alias::PciNumaPolicy;
use crate::pci::ports::{DevicePort, DeviceVnic, is_trusted};
use crate::ports::PortError;
use crate::topology::networks::NetworkCarrier;

/// The provider attributes of a network, which only an administrator sees.
#[derive(Debug, Clone, Deserialize)]
struct NeutronSegments {
    id: String,
    #[serde(default, rename = "provider:physical_network")]
    physical_network: Option<String>,
    #[serde(default, rename = "provider:network_type")]
    network_type: Option<String>,
    /// The segments of a network with several.
    #[serde(default)]
    segments: Vec<NeutronSegment>,
}

#[derive(Debug, Clone, Deserialize)]
struct NeutronSegment {
    #[serde(default, rename = "provider:physical_network")]
    physical_network: Option<String>,
}

impl NeutronSegments {
    fn carrier(self) -> Option<NetworkCarrier> {
        let network_type = self.network_type.clone().unwrap_or_default();
        NetworkCarrier::of(&network_type, self.physical_network().as_deref())
    }

    /// As in Nova, the first segment with a physical network decides.
    fn physical_network(self) -> Option<String> {
        let of_segments = self.segments.into_iter().find_map(|segment| segment.physical_network);
        self.physical_network.or(of_segments)
    }
}

impl NeutronNetworks {
    pub(super) async fn ports_with_devices(
        &self,
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<Vec<DevicePort>, PortError> {
        let asker = NeutronCaller::account(meta);
        let ids: Vec<String> = ports.iter().map(PortId::to_string).collect();
        let mut found: Vec<NeutronPort> = self.calls.list_by(asker, "ports", "id", &ids, "").await?;
        found.retain(|port| vnic(port).is_some());
        let mut networks: Vec<String> = found.iter().map(|port| port.network_id.to_string()).collect();
        networks.sort();
        networks.dedup();
        if networks.is_empty() {
            return Ok(Vec::new());
        }
        let shown: Vec<NeutronSegments> = self.calls.list_by(asker, "networks", "id", &networks, "").await?;
        let physical: BTreeMap<NetworkId, Option<String>> = shown
            .into_iter()
            .filter_map(|network| Some((network.id.parse().ok()?, network.physical_network())))
            .collect();
        let wanted = found.iter().filter_map(|port| {
            Some(DevicePort {
                port: port.id,
                vnic: vnic(port)?,
                network: physical.get(&port.network_id).cloned().flatten(),
                policy: port.numa_affinity_policy.as_deref().and_then(PciNumaPolicy::of_word),
                trusted: port.profile.as_object().is_some_and(is_trusted),
            })
        });
        Ok(wanted.collect())
    }

    pub(super) async fn carriers_of(
        &self,
        networks: &[NetworkId],
        ports: &[PortId],
        meta: &Arc<Meta>,
    ) -> Result<BTreeSet<NetworkCarrier>, PortError> {
        let asker = NeutronCaller::account(meta);
        let ids: Vec<String> = ports.iter().map(PortId::to_string).collect();
        let found: Vec<NeutronPort> = self.calls.list_by(asker, "ports", "id", &ids, "").await?;
        let all: BTreeSet<String> = networks
            .iter()
            .map(NetworkId::to_string)
            .chain(found.iter().map(|port| port.network_id.to_string()))
            .collect();
        let all: Vec<String> = all.into_iter().collect();
        let shown: Vec<NeutronSegments> = self.calls.list_by(asker, "networks", "id", &all, "").await?;
        Ok(shown.into_iter().filter_map(NeutronSegments::carrier).collect())
    }
}

fn vnic(port: &NeutronPort) -> Option<DeviceVnic> {
    port.vnic_type.as_deref().and_then(DeviceVnic::of_word)
}

/// Types of ports that need other hardware than a PCI device, or a program on the host.
const UNSUPPORTED: [&str; 5] =
    ["accelerator-direct", "accelerator-direct-physical", "baremetal", "smart-nic", "virtio-forwarder"];

/// The plug of a port that is a device; `None` for any other port.
///
/// # Errors
/// The reason why the port cannot be plugged. A switch on the host needs the device's representor, which only a program
/// on the host can plug. A remote-managed card has its switch for itself.
pub(super) fn device_plug(port: &NeutronPort) -> Option<Result<NicPlug, String>> {
    if let Some(word) = port.vnic_type.as_deref().filter(|word| UNSUPPORTED.contains(word)) {
        return Some(Err(format!("binding:vnic_type {word} is not supported")));
    }
    let vnic = vnic(port)?;
    let vlan = match &port.vif_details["vlan"] {
        Value::String(tag) => tag.parse().ok(),
        tag => tag.as_u64().and_then(|tag| u16::try_from(tag).ok()),
    };
    // 0 means no tag.
    let vlan = vlan.filter(|tag| *tag > 0);
    Some(match (port.vif_type.as_deref().unwrap_or("unbound"), vnic) {
        ("unbound", _) => Err("the port is not bound to a host".to_owned()),
        ("hw_veb", DeviceVnic::Direct | DeviceVnic::Macvtap)
        | ("hostdev_physical", DeviceVnic::DirectPhysical)
        | ("vdpa", DeviceVnic::Vdpa)
        | (_, DeviceVnic::RemoteManaged) => Ok(vnic.plug(vlan)),
        ("ovs", _) => {
            Err("the switch on the host needs the representor of the device, which only a program on the host can plug"
                .to_owned())
        }
        (other, _) => Err(format!("Unexpected vif_type={other}")),
    })
}
