//! Ports whose interfaces are PCI devices of their hosts: what such a port requests, and what it got.
//!
//! Source: Nova's `create_resource_requests`, `DEVICE_TYPE_FOR_VNIC_TYPE` and `_get_pci_device_profile`.

use chronova_events::ids::PortId;
use chronova_events::ledger::{HeldPciDevice, HostPciDevice, PciDeviceType};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::guest::{NicDevice, NicDeviceForm, NicPlug};
use chronova_hypervisor::pci::{HostPci, PassedDevice, PciNic};
use serde_json::{Map, Value, json};

use super::alias::PciNumaPolicy;
use super::take_flag;

/// How a port uses a device of its host. Neutron: `binding:vnic_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceVnic {
    /// A virtual function.
    Direct,
    /// A whole card.
    DirectPhysical,
    /// A virtual function behind a macvtap device.
    Macvtap,
    /// A virtual function with a vDPA device.
    Vdpa,
    /// A virtual function of a card with its own control plane.
    RemoteManaged,
}

impl DeviceVnic {
    /// `None`: a port of this type needs no device of the host.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "direct" => Some(Self::Direct),
            "direct-physical" => Some(Self::DirectPhysical),
            "macvtap" => Some(Self::Macvtap),
            "vdpa" => Some(Self::Vdpa),
            "remote-managed" => Some(Self::RemoteManaged),
            _ => None,
        }
    }

    fn suits(self, kind: PciDeviceType) -> bool {
        match self {
            // A card without SR-IOV is a device like a virtual function.
            Self::Direct | Self::Macvtap => matches!(kind, PciDeviceType::Vf | PciDeviceType::Pci),
            Self::DirectPhysical => kind == PciDeviceType::Pf,
            Self::Vdpa => kind == PciDeviceType::Vdpa,
            Self::RemoteManaged => kind == PciDeviceType::Vf,
        }
    }

    fn form(self) -> NicDeviceForm {
        match self {
            Self::Direct | Self::RemoteManaged => NicDeviceForm::HostDevice,
            Self::DirectPhysical => NicDeviceForm::WholeCard,
            Self::Macvtap => NicDeviceForm::Macvtap,
            Self::Vdpa => NicDeviceForm::Vdpa,
        }
    }

    /// Neutron's `binding:vif_type` of such a port.
    pub fn vif_type(self) -> &'static str {
        match self {
            Self::Direct | Self::Macvtap | Self::RemoteManaged => "hw_veb",
            Self::DirectPhysical => "hostdev_physical",
            Self::Vdpa => "vdpa",
        }
    }

    /// The plug of the interface, without its device. `vlan`: the tag of the port's segment. The control plane of the
    /// network sets the tags of vDPA devices and of remote-managed cards. A guest sets those of a whole card itself.
    pub fn plug(self, vlan: Option<u16>) -> NicPlug {
        let vlan = vlan.filter(|_| matches!(self, Self::Direct | Self::Macvtap));
        NicPlug::Device(NicDevice { form: self.form(), vlan, device: None, name: None })
    }
}

/// A port that requests a device of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePort {
    pub port: PortId,
    pub vnic: DeviceVnic,
    /// The physical network of the port's network; `None` for a network without one.
    pub network: Option<String>,
    /// The port's own NUMA policy (`numa_affinity_policy`). It takes precedence over the policy of flavor and image.
    pub policy: Option<PciNumaPolicy>,
    /// Whether the port may have only a device whose trust mode is on (`trusted` in its `binding:profile`).
    pub trusted: bool,
}

impl DevicePort {
    /// Whether the device serves the port. The device's tag `physical_network` names the port's physical network, or is
    /// `null` for a port without one.
    pub fn admits(&self, device: &HostPciDevice) -> bool {
        let is_on = match (&device.network, &self.network) {
            (Some(Some(tag)), Some(network)) => tag.eq_ignore_ascii_case(network),
            (Some(None), None) => true,
            _ => false,
        };
        // Nothing on the hosts sets the trust mode of a virtual function.
        !self.trusted
            && is_on
            && self.vnic.suits(device.kind)
            && device.remote_managed == (self.vnic == DeviceVnic::RemoteManaged)
    }
}

/// The device that a port got on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortDevice {
    pub port: PortId,
    pub device: PassedDevice,
    kind: PciDeviceType,
    /// `VENDOR:PRODUCT`.
    ids: String,
    network: Option<String>,
    nic: PciNic,
    card: Option<CardOfFunction>,
}

/// The card of a virtual function.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CardOfFunction {
    mac: Option<String>,
    serial: Option<String>,
}

/// The keys of `binding:profile` that describe a device.
const KEYS: [&str; 7] =
    ["pci_vendor_info", "pci_slot", "physical_network", "card_serial_number", "pf_mac_address", "vf_num", CARD_MAC];
/// The key for the MAC address of a whole card. The network service gives this address to the port.
const CARD_MAC: &str = "device_mac_address";

impl PortDevice {
    /// `None`: the device is not a port's. `known`: the device in the ledger. `found`: the host's own description, if
    /// the host answers.
    pub fn of(held: &HeldPciDevice, known: &HostPciDevice, found: Option<&HostPci>) -> Option<Self> {
        let at = |address: PciAddress| found?.devices.iter().find(|device| device.address == address);
        let own = at(held.address);
        let card = known.parent.and_then(at).map(|card| CardOfFunction {
            mac: card.nic.mac.clone(),
            serial: own.and_then(|own| own.card_serial.clone()).or_else(|| card.card_serial.clone()),
        });
        Some(Self {
            port: held.port()?,
            device: PassedDevice { address: held.address, managed: known.managed },
            kind: known.kind,
            ids: format!("{}:{}", known.vendor, known.product),
            network: known.network.clone().flatten(),
            nic: own.map(|own| own.nic.clone()).unwrap_or_default(),
            card,
        })
    }

    pub fn is_whole_card(&self) -> bool {
        self.kind == PciDeviceType::Pf
    }

    /// The MAC address that the port must have, because the guest gets a whole card with its own address.
    pub fn own_mac(&self) -> Option<&str> {
        self.nic.mac.as_deref().filter(|_| self.is_whole_card())
    }

    /// Gives the interface its device. An interface that is no device stays as it is.
    pub fn give_to(&self, plug: &mut NicPlug) {
        let NicPlug::Device(plugged) = plug else { return };
        plugged.device = Some(self.device);
        plugged.name = match plugged.form {
            NicDeviceForm::Macvtap => self.nic.interface.clone(),
            NicDeviceForm::Vdpa => self.nic.vdpa.clone(),
            NicDeviceForm::HostDevice | NicDeviceForm::WholeCard => None,
        };
    }

    /// The keys of the port's `binding:profile`, as Nova writes them.
    fn entries(&self) -> Map<String, Value> {
        let mut entries = Map::new();
        let mut add = |key: &str, value: Value| entries.insert(key.to_owned(), value);
        add("pci_vendor_info", json!(self.ids));
        add("pci_slot", json!(self.device.address.to_string()));
        add("physical_network", json!(self.network));
        if let Some(mac) = self.own_mac() {
            add(CARD_MAC, json!(mac));
        }
        if let (Some(card), Some(number)) = (&self.card, self.nic.function) {
            if let Some(mac) = &card.mac {
                add("pf_mac_address", json!(mac));
                add("vf_num", json!(number));
            }
            if let Some(serial) = &card.serial {
                add("card_serial_number", json!(serial));
            }
        }
        entries
    }
}

/// Whether the profile of a port asks for a trusted device.
pub fn is_trusted(profile: &Map<String, Value>) -> bool {
    take_flag(&mut profile.clone(), "trusted") == Ok(Some(true))
}

/// The MAC address of the whole card that a port has according to its profile.
pub fn card_mac(profile: &Map<String, Value>) -> Option<&str> {
    profile.get(CARD_MAC).and_then(Value::as_str)
}

/// The profile of a port that has this device, or none. Other keys stay.
pub fn profile_with(profile: &Map<String, Value>, device: Option<&PortDevice>) -> Map<String, Value> {
    let mut after = profile.clone();
    // A user may have set a key of the same name for a port without a device.
    if device.is_some() || profile.contains_key("pci_slot") {
        after.retain(|key, _| !KEYS.contains(&key.as_str()));
    }
    if let Some(device) = device {
        let entries = device.entries();
        // While a guest uses a card, the host does not see the card's address.
        let is_same = device.is_whole_card() && profile.get("pci_slot") == entries.get("pci_slot");
        let seen_before = profile.get(CARD_MAC).filter(|_| is_same);
        after.extend(seen_before.map(|mac| (CARD_MAC.to_owned(), mac.clone())));
        after.extend(entries);
    }
    after
}

#[cfg(test)]
mod tests;
