//! The devices that a host offers to guests. A host offers those of its devices that a device spec names.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{HostPciDevice, HostPciReplaced, Ledger, PciDeviceType};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::pci::{HostPci, PciDevice};

use super::class_of_product;
use super::device_spec::DeviceSpec;

/// The provider of a device in Placement. A virtual function belongs to the provider of its physical function.
pub fn provider_of(host: ProviderId, root: PciAddress) -> ProviderId {
    ProviderId::derive(host.0, &root.to_string())
}

/// Nova's name of that provider: `<hypervisor_hostname>_<ADDRESS>`.
pub fn provider_name(hostname: &str, root: PciAddress) -> String {
    format!("{hostname}_{}", root.to_string().to_ascii_uppercase())
}

/// Whether the device is a virtual function, with or without a vDPA device.
fn is_function(device: &HostPciDevice) -> bool {
    matches!(device.kind, PciDeviceType::Vf | PciDeviceType::Vdpa)
}

/// The address of the device that has a provider of its own.
pub fn root_of(device: &HostPciDevice) -> PciAddress {
    device.parent.filter(|_| is_function(device)).unwrap_or(device.address)
}

/// Logs the devices that guests of the host have although `found`, the host's new report, does not offer them.
pub fn warn_of_kept(ledger: &Ledger, host: ProviderId, name: &str, found: &HostPciReplaced) {
    let held = ledger.pci_claims.on(host).flat_map(|(_, devices)| devices);
    for device in held.filter(|device| found.device(device.address).is_none()) {
        tracing::warn!(host = name, address = %device.address, "a guest has a PCI device that is not offered any more");
    }
}

/// The first libvirt (8.1.0) that starts the guest although a card refuses to clear the VLAN of a virtual function. A
/// card with its own control plane does refuse, so an older libvirt cannot start the guest.
const REFUSED_VLAN_TOLERATED: u32 = 8_001_000;

/// Warns of remote-managed devices on a host whose libvirt may not start guests that have them.
pub fn warn_of_old_libvirt(found: &HostPciReplaced, name: &str, libvirt_version: u32) {
    if is_too_old(found, libvirt_version) {
        tracing::warn!(
            host = name,
            "the host has remote-managed PCI devices and a libvirt before 8.1.0: guests with such a device do not start \
             if the card refuses to clear the VLAN of its functions"
        );
    }
}

fn is_too_old(found: &HostPciReplaced, libvirt_version: u32) -> bool {
    libvirt_version < REFUSED_VLAN_TOLERATED && found.devices.iter().any(|device| device.remote_managed)
}

/// Finds the virtual functions that are offered to ordinary ports, although other functions of the same model are
/// tagged `remote_managed`. An ordinary port gets no traffic through such a function.
fn untagged(devices: &[HostPciDevice]) -> Vec<PciAddress> {
    let tagged: BTreeSet<_> = devices.iter().filter(|device| device.remote_managed).map(model).collect();
    let is_untagged = |device: &&HostPciDevice| {
        device.kind == PciDeviceType::Vf
            && device.network.is_some()
            && !device.remote_managed
            && tagged.contains(&model(device))
    };
    devices.iter().filter(is_untagged).map(|device| device.address).collect()
}

fn model(device: &HostPciDevice) -> (&str, &str) {
    (&device.vendor, &device.product)
}

/// The devices of a host that guests may get. `reports`: whether they are in Placement.
///
/// # Errors
/// The device specs do not fit the devices of this host, or contradict each other there.
pub fn offered(
    found: &HostPci,
    specs: &[DeviceSpec],
    host: ProviderId,
    reports: bool,
) -> Result<HostPciReplaced, String> {
    let mut devices = Vec::new();
    for device in &found.devices {
        let Some(spec) = specs.iter().find(|spec| spec.names(device)) else { continue };
        if let Some(device) = offered_device(device, spec, found)? {
            devices.push(device);
        }
    }
    devices.sort_by_key(|device| device.address);
    for address in untagged(&devices) {
        tracing::warn!(
            %address,
            "[pci] device_spec tags other functions of this model as remote_managed, but not this one: an ordinary port \
             that gets it may pass no traffic"
        );
    }
    if reports {
        track(&mut devices, host)?;
    }
    Ok(HostPciReplaced { provider: host, sockets: found.sockets.clone(), devices })
}

fn offered_device(device: &PciDevice, spec: &DeviceSpec, found: &HostPci) -> Result<Option<HostPciDevice>, String> {
    let address = device.address;
    if spec.remote_managed {
        if device.kind != PciDeviceType::Vf {
            return Err(format!(
                "[pci] device_spec: {address} is remote_managed and not a virtual function: let the spec name its \
                 virtual functions only, by their product_id"
            ));
        }
        // Without a serial number, the network service cannot tell which card serves the port.
        let parent = found.devices.iter().find(|other| Some(other.address) == device.parent);
        if device.card_serial.is_none() && parent.is_none_or(|parent| parent.card_serial.is_none()) {
            tracing::warn!(%address, "a remote-managed PCI device has no card serial number, so no guest gets it");
            return Ok(None);
        }
    }
    Ok(Some(HostPciDevice {
        address,
        vendor: device.vendor.clone(),
        product: device.product.clone(),
        kind: device.kind,
        parent: device.parent,
        cell: device.cell,
        class: spec.class.clone().unwrap_or_else(|| class_of_product(&device.vendor, &device.product)),
        traits: spec.traits.clone(),
        provider: None,
        network: spec.network.clone(),
        remote_managed: spec.remote_managed,
        managed: spec.managed,
        offered: true,
    }))
}

/// Gives the devices their providers. Devices of a physical network are for ports. Placement does not track them, so
/// they get no provider.
fn track(devices: &mut [HostPciDevice], host: ProviderId) -> Result<(), String> {
    let mut roots: BTreeMap<PciAddress, HostPciDevice> = BTreeMap::new();
    for device in devices.iter_mut().filter(|device| !matches!(device.network, Some(Some(_)))) {
        let root = root_of(device);
        if is_function(device) && device.parent.is_none() {
            return Err(format!("the host reports no physical function of the virtual function {}", device.address));
        }
        device.provider = Some(provider_of(host, root));
        let Some(first) = roots.get(&root) else {
            roots.insert(root, device.clone());
            continue;
        };
        let (one, two) = (first.address, device.address);
        if is_function(first) != is_function(device) {
            return Err(format!(
                "[pci] device_spec names the physical function {root} and its virtual functions; with \
                 report_in_placement it must name either the physical function or its virtual functions"
            ));
        }
        if first.class != device.class {
            return Err(format!(
                "[pci] device_spec gives {one} the resource class {} and {two} {}; virtual functions of one physical \
                 function need the same",
                first.class, device.class
            ));
        }
        if first.traits != device.traits {
            return Err(format!(
                "[pci] device_spec gives {one} the traits {:?} and {two} {:?}; virtual functions of one physical \
                 function need the same",
                first.traits, device.traits
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use uuid::Uuid;

    use super::*;

    fn function(number: u8, product: &str, remote_managed: bool, for_ports: bool) -> HostPciDevice {
        HostPciDevice {
            address: format!("0000:82:00.{number}").parse().unwrap(),
            vendor: "15b3".to_owned(),
            product: product.to_owned(),
            kind: PciDeviceType::Vf,
            parent: None,
            cell: None,
            class: class_of_product("15b3", product),
            traits: vec![],
            provider: None,
            network: for_ports.then(|| Some("physnet1".to_owned())),
            remote_managed,
            managed: true,
            offered: true,
        }
    }

    #[test]
    fn a_function_without_the_tag_of_its_model_is_reported() {
        let numbers = |devices: &[HostPciDevice]| {
            untagged(devices).into_iter().map(|address| address.function).collect::<Vec<_>>()
        };
        let (tagged, other) = (function(0, "101c", true, true), function(3, "101e", false, true));
        let of_flavors = function(2, "101c", false, false);
        assert_eq!(numbers(&[tagged.clone(), function(1, "101c", false, true), of_flavors, other.clone()]), [1]);
        assert_eq!(numbers(&[tagged, other]), [0_u8; 0], "another model");
        assert_eq!(numbers(&[function(1, "101c", false, true)]), [0_u8; 0], "no function has the tag");
    }

    #[test]
    fn remote_managed_devices_need_a_libvirt_that_goes_on_without_a_vlan() {
        let of = |devices| HostPciReplaced { provider: ProviderId(Uuid::from_u128(1)), sockets: vec![], devices };
        let remote = of(vec![function(0, "101c", true, true)]);
        assert!(is_too_old(&remote, 8_000_000) && !is_too_old(&remote, 8_001_000));
        assert!(!is_too_old(&of(vec![function(0, "101c", false, true)]), 7_009_000));
    }
}
