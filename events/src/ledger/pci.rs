//! The PCI devices of hosts, and the devices that guests have.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{ConsumerId, PortId, ProviderId};
use crate::pci::PciAddress;

/// The type of a PCI device. Nova: `dev_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PciDeviceType {
    /// `type-PCI`: a device without SR-IOV.
    Pci,
    /// `type-PF`: a physical function, which may have virtual functions.
    Pf,
    /// `type-VF`: a virtual function.
    Vf,
    /// `vdpa`: a virtual function with a vDPA device, which only ports can use.
    Vdpa,
}

impl PciDeviceType {
    /// Nova's word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pci => "type-PCI",
            Self::Pf => "type-PF",
            Self::Vf => "type-VF",
            Self::Vdpa => "vdpa",
        }
    }
}

/// A PCI device that `[pci] device_spec` gives to guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPciDevice {
    pub address: PciAddress,
    /// Four hexadecimal digits in lower case.
    pub vendor: String,
    /// Four hexadecimal digits in lower case.
    pub product: String,
    pub kind: PciDeviceType,
    /// The physical function of a virtual function.
    pub parent: Option<PciAddress>,
    /// The host's NUMA cell of the device, if the host reports it.
    pub cell: Option<u32>,
    /// The resource class of the device in Placement.
    pub class: String,
    /// The traits that `device_spec` names, sorted.
    pub traits: Vec<String>,
    /// The device's provider in Placement, with `[pci] report_in_placement`.
    pub provider: Option<ProviderId>,
    /// The tag `physical_network`: `None` without the tag, `Some(None)` for the JSON value `null`.
    pub network: Option<Option<String>>,
    /// Whether only ports with `vnic_type` `remote-managed` may have the device.
    pub remote_managed: bool,
    /// Whether libvirt detaches the device from its host's driver.
    pub managed: bool,
    /// Whether new guests may get the device. If not, the device stays listed only as long as a guest has it.
    pub offered: bool,
}

/// The PCI devices of a host that guests may get are now these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPciReplaced {
    pub provider: ProviderId,
    /// The socket of each NUMA cell, as pairs of cell and socket, sorted.
    pub sockets: Vec<(u32, u32)>,
    /// Sorted by address.
    pub devices: Vec<HostPciDevice>,
}

impl HostPciReplaced {
    pub fn device(&self, address: PciAddress) -> Option<&HostPciDevice> {
        self.devices.iter().find(|device| device.address == address)
    }
}

/// A PCI device that a guest has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPciDevice {
    pub address: PciAddress,
    /// The alias by which the flavor requested the device, or the port that requested it, as `port:ID`. The name of an
    /// alias has no colon.
    pub alias: String,
    /// The device's provider in Placement, and the resource class there.
    pub tracked: Option<(ProviderId, String)>,
}

/// Begins the word for a port that requested a device.
const OF_PORT: &str = "port:";

impl HeldPciDevice {
    /// The word for a port that requests a device.
    pub fn requested_by(port: PortId) -> String {
        format!("{OF_PORT}{port}")
    }

    /// The port that requested the device; `None` if the flavor did.
    pub fn port(&self) -> Option<PortId> {
        self.alias.strip_prefix(OF_PORT)?.parse().ok()
    }
}

/// A consumer got PCI devices of a host. These replace the consumer's former devices, and end with its allocation on
/// the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciDevicesClaimed {
    pub consumer: ConsumerId,
    /// The host's provider.
    pub provider: ProviderId,
    /// In the order of the flavor's requests. Empty: the consumer has no devices any more.
    pub devices: Vec<HeldPciDevice>,
}

/// The PCI devices of all consumers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PciClaims {
    by_host: BTreeMap<ProviderId, BTreeMap<ConsumerId, Arc<Vec<HeldPciDevice>>>>,
    host_of: BTreeMap<ConsumerId, ProviderId>,
}

impl PciClaims {
    /// The host and the devices of a consumer.
    pub fn of(&self, consumer: &ConsumerId) -> Option<(ProviderId, &Arc<Vec<HeldPciDevice>>)> {
        let host = *self.host_of.get(consumer)?;
        Some((host, self.by_host.get(&host)?.get(consumer)?))
    }

    /// The consumers with devices of a host, and the devices.
    pub fn on(&self, host: ProviderId) -> impl Iterator<Item = (&ConsumerId, &[HeldPciDevice])> {
        let here = self.by_host.get(&host).into_iter().flatten();
        here.map(|(consumer, devices)| (consumer, devices.as_slice()))
    }

    pub fn is_empty(&self) -> bool {
        self.host_of.is_empty()
    }

    pub(super) fn take(&mut self, claimed: &PciDevicesClaimed) {
        self.release(&claimed.consumer);
        if claimed.devices.is_empty() {
            return;
        }
        let here = self.by_host.entry(claimed.provider).or_default();
        here.insert(claimed.consumer.clone(), Arc::new(claimed.devices.clone()));
        self.host_of.insert(claimed.consumer.clone(), claimed.provider);
    }

    pub(super) fn release(&mut self, consumer: &ConsumerId) {
        let Some(host) = self.host_of.remove(consumer) else { return };
        if let Some(here) = self.by_host.get_mut(&host) {
            here.remove(consumer);
            if here.is_empty() {
                self.by_host.remove(&host);
            }
        }
    }

    pub(super) fn forget_host(&mut self, host: ProviderId) {
        for (consumer, _) in self.by_host.remove(&host).into_iter().flatten() {
            self.host_of.remove(&consumer);
        }
    }

    /// Keeps the consumer's devices only if the consumer still has an allocation on their host.
    pub(super) fn keep(&mut self, consumer: &ConsumerId, hosts: impl Fn(ProviderId) -> bool) {
        if self.host_of.get(consumer).is_some_and(|host| !hosts(*host)) {
            self.release(consumer);
        }
    }
}

pub(super) fn samples() -> [super::LedgerEvent; 2] {
    let provider = ProviderId(uuid::Uuid::from_u128(1));
    let tracked = ProviderId(uuid::Uuid::from_u128(3));
    let address = |function| PciAddress { domain: 0, bus: 0x81, slot: 0, function };
    let device = HostPciDevice {
        address: address(1),
        vendor: "8086".into(),
        product: "10ed".into(),
        kind: PciDeviceType::Vf,
        parent: Some(address(0)),
        cell: Some(0),
        class: "CUSTOM_PCI_8086_10ED".into(),
        traits: vec!["CUSTOM_FAST".into()],
        provider: Some(tracked),
        network: Some(Some("physnet1".into())),
        remote_managed: false,
        managed: true,
        offered: true,
    };
    let held =
        HeldPciDevice { address: address(1), alias: "vf".into(), tracked: Some((tracked, device.class.clone())) };
    let consumer = ConsumerId::new("00000000-0000-0000-0000-000000000002");
    [
        HostPciReplaced { provider, sockets: vec![(0, 0)], devices: vec![device] }.into(),
        PciDevicesClaimed { consumer, provider, devices: vec![held] }.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_names_the_port_that_requested_it() {
        let port = PortId(uuid::Uuid::from_u128(7));
        let held = |alias: String| HeldPciDevice {
            address: PciAddress { domain: 0, bus: 1, slot: 0, function: 0 },
            alias,
            tracked: None,
        };
        assert_eq!(held(HeldPciDevice::requested_by(port)).port(), Some(port));
        assert_eq!(held("gpu".to_owned()).port(), None);
    }
}
