//! Ports that are PCI devices of their hosts: their request, their `binding:profile` and their plug.

use std::collections::BTreeSet;

use chronova_events::ids::NetworkId;
use chronova_events::ledger::{HeldPciDevice, HostPciDevice, PciDeviceType};
use chronova_events::pci::PciAddress;
use chronova_hypervisor::guest::{NicDevice, NicDeviceForm};
use chronova_hypervisor::pci::{HostPci, PciDevice, PciNic};

use super::super::grants::binding_change;
use super::*;
use crate::pci::alias::PciNumaPolicy;
use crate::pci::ports::{DevicePort, DeviceVnic, PortDevice};
use crate::ports::PortGrant;
use crate::topology::networks::NetworkCarrier;

/// A virtual function that the port got.
fn device(port: PortId, address: &str) -> PortDevice {
    let address = address.parse().unwrap();
    let held = HeldPciDevice { address, alias: HeldPciDevice::requested_by(port), tracked: None };
    PortDevice::of(&held, &known(address), None).unwrap()
}

/// A whole card with this MAC address.
fn card(port: PortId, mac: &str) -> PortDevice {
    let address = "0000:83:00.0".parse().unwrap();
    let held = HeldPciDevice { address, alias: HeldPciDevice::requested_by(port), tracked: None };
    let described = PciDevice {
        address,
        vendor: "8086".into(),
        product: "154c".into(),
        kind: PciDeviceType::Pf,
        parent: None,
        cell: None,
        card_serial: None,
        nic: PciNic { mac: Some(mac.to_owned()), ..PciNic::default() },
    };
    let found = HostPci { devices: vec![described], sockets: vec![] };
    PortDevice::of(&held, &HostPciDevice { kind: PciDeviceType::Pf, ..known(address) }, Some(&found)).unwrap()
}

fn known(address: PciAddress) -> HostPciDevice {
    HostPciDevice {
        address,
        vendor: "8086".into(),
        product: "154c".into(),
        kind: PciDeviceType::Vf,
        parent: None,
        cell: None,
        class: "CUSTOM_PCI_8086_154C".into(),
        traits: vec![],
        provider: None,
        network: Some(Some("physnet1".into())),
        remote_managed: false,
        managed: true,
        offered: true,
    }
}

fn profile(slot: &str) -> Value {
    json!({"pci_vendor_info": "8086:154c", "pci_slot": slot, "physical_network": "physnet1"})
}

/// Adds a port of a user with this `vnic_type`.
fn add(neutron: &NeutronStub, vnic: &str) -> PortId {
    let id = neutron.add(PROJECT, "");
    let mut state = neutron.state.lock().unwrap();
    let port = state.ports.last_mut().unwrap();
    port.insert("binding:vnic_type".to_owned(), json!(vnic));
    port.insert("numa_affinity_policy".to_owned(), json!("required"));
    id
}

#[tokio::test]
async fn a_port_requests_a_device_on_the_physical_network_of_its_network() {
    let neutron = NeutronStub::start().await;
    let (direct, normal) = (add(&neutron, "direct"), add(&neutron, "normal"));
    let wanted = DevicePort {
        port: direct,
        vnic: DeviceVnic::Direct,
        network: Some("physnet1".into()),
        policy: Some(PciNumaPolicy::Required),
        trusted: false,
    };
    assert_eq!(neutron.networks.device_ports(&[direct, normal], &meta()).await.unwrap(), [wanted]);
    let calls = neutron.service.calls().len();
    assert_eq!(neutron.networks.device_ports(&[normal], &meta()).await.unwrap(), []);
    assert_eq!(neutron.service.calls().len(), calls + 1, "no network is asked for an ordinary port");
}

#[tokio::test]
async fn the_physical_network_carries_a_network_and_the_networks_of_ports() {
    let neutron = NeutronStub::start().await;
    let port = add(&neutron, "normal");
    let network: NetworkId = NETWORK.parse().unwrap();
    let expected = BTreeSet::from([NetworkCarrier::Physical("physnet1".into())]);
    assert_eq!(neutron.networks.carriers(&[network], &[], &meta()).await.unwrap(), expected);
    assert_eq!(neutron.networks.carriers(&[], &[port], &meta()).await.unwrap(), expected);
    let calls = neutron.service.calls().len();
    assert_eq!(neutron.networks.carriers(&[], &[], &meta()).await.unwrap(), BTreeSet::new());
    assert_eq!(neutron.service.calls().len(), calls, "nothing is asked about nothing");
}

#[tokio::test]
async fn a_port_is_bound_with_its_device_and_without_it_when_it_is_released() {
    let neutron = NeutronStub::start().await;
    let own = add(&neutron, "direct");
    let given = RequestedNic { network: None, port: Some(own), fixed_ip: None, tag: None };
    let mut request = wanted(vec![given]);
    request.grants.devices = vec![device(own, "0000:81:00.1")];
    for _ in 0..2 {
        neutron.networks.allocate(request.clone(), meta()).await.unwrap();
        assert_eq!(neutron.ports()[0]["binding:profile"], profile("0000:81:00.1"));
    }
    let bound = neutron.service.calls();
    let bound = bound.iter().filter(|call| call.line.starts_with("PUT ") && call.body.contains("pci_slot"));
    let bodies: Vec<_> = bound.map(|call| call.body.contains("binding:host_id")).collect();
    assert_eq!(bodies, [true], "one request must bind the port and name its device");
    let (id, project) = (request.instance, &request.project);
    let there = PortGrants { devices: vec![device(own, "0000:82:00.3")], ..PortGrants::default() };
    neutron.networks.rebind(id, project, Some("h2"), "nova", &there, meta()).await.unwrap();
    let port = &neutron.ports()[0];
    assert_eq!((&port["binding:host_id"], &port["binding:profile"]), (&json!("h2"), &profile("0000:82:00.3")));
    neutron.networks.rebind(id, project, None, "nova", &PortGrants::default(), meta()).await.unwrap();
    assert_eq!(neutron.ports()[0]["binding:profile"], json!({}), "an unbound port keeps a device");
    neutron.networks.rebind(id, project, Some("h1"), "nova", &request.grants, meta()).await.unwrap();
    neutron.networks.release(id, project, &[], meta()).await.unwrap();
    assert_eq!(neutron.ports()[0]["binding:profile"], json!({}));
}

/// Neutron refuses another MAC address for a bound port, and takes the address of a whole card from the profile.
#[test]
fn only_an_unbound_port_is_given_the_mac_address_of_its_card() {
    let card = card(SUBNET.parse().unwrap(), "52:54:00:00:00:01");
    let change = |host: &str| {
        let port: NeutronPort = serde_json::from_value(json!({"id": SUBNET, "network_id": NETWORK,
            "mac_address": "fa:16:3e:00:00:01", "binding:host_id": host, "binding:profile": {}}))
        .unwrap();
        let body = binding_change(&port, Some(PortGrant { device: Some(&card), providers: None }));
        (body.get("mac_address").cloned(), body["binding:profile"]["device_mac_address"].clone())
    };
    let mac = json!("52:54:00:00:00:01");
    assert_eq!(change(""), (Some(mac.clone()), mac.clone()));
    assert_eq!(change("h1"), (None, mac));
}

#[test]
fn each_kind_of_device_has_its_plug() {
    let plugged = |kind: &str, vnic: &str, details: Value| {
        let port: NeutronPort = serde_json::from_value(json!({"id": SUBNET, "network_id": NETWORK,
            "mac_address": "fa:16:3e:00:00:01", "binding:vif_type": kind, "binding:vnic_type": vnic,
            "binding:vif_details": details}))
        .unwrap();
        plug(&port, "br-int")
    };
    let device = |form, vlan| NicPlug::Device(NicDevice { form, vlan, device: None, name: None });
    let tagged = json!({"vlan": "100"});
    assert_eq!(plugged("hw_veb", "direct", tagged.clone()), Ok(device(NicDeviceForm::HostDevice, Some(100))));
    assert_eq!(plugged("hw_veb", "direct", json!({"vlan": 0})), Ok(device(NicDeviceForm::HostDevice, None)));
    assert_eq!(plugged("hw_veb", "macvtap", json!({"vlan": 7})), Ok(device(NicDeviceForm::Macvtap, Some(7))));
    assert_eq!(
        plugged("hostdev_physical", "direct-physical", tagged.clone()),
        Ok(device(NicDeviceForm::WholeCard, None))
    );
    assert_eq!(plugged("vdpa", "vdpa", json!({})), Ok(device(NicDeviceForm::Vdpa, None)));
    // A remote-managed port has no VLAN, because the host may not set one on the device.
    assert_eq!(plugged("ovs", "remote-managed", tagged), Ok(device(NicDeviceForm::HostDevice, None)));
    for (kind, vnic, reason) in [
        ("ovs", "direct", "representor"),
        ("ovs", "vdpa", "representor"),
        ("unbound", "direct", "not bound"),
        ("hw_veb", "vdpa", "Unexpected vif_type=hw_veb"),
        ("ovs", "virtio-forwarder", "virtio-forwarder is not supported"),
        ("hw_veb", "accelerator-direct", "accelerator-direct is not supported"),
    ] {
        let refused = plugged(kind, vnic, json!({})).unwrap_err().to_string();
        assert!(refused.contains(reason), "{kind} {vnic}: {refused}");
    }
}
