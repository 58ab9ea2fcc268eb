#![allow(clippy::unwrap_used)]

use chronova_hypervisor::pci::PciDevice;
use uuid::Uuid;

use super::*;

#[allow(clippy::option_option, reason = "as in the device: no configuration, or one without a network")]
fn device(kind: PciDeviceType, network: Option<Option<&str>>, remote_managed: bool) -> HostPciDevice {
    HostPciDevice {
        address: "0000:81:00.1".parse().unwrap(),
        vendor: "8086".into(),
        product: "10ed".into(),
        kind,
        parent: Some("0000:81:00.0".parse().unwrap()),
        cell: None,
        class: "CUSTOM_PCI_8086_10ED".into(),
        traits: vec![],
        provider: None,
        network: network.map(|network| network.map(str::to_owned)),
        remote_managed,
        managed: true,
        offered: true,
    }
}

fn port(vnic: &str, network: Option<&str>) -> DevicePort {
    DevicePort {
        port: PortId(Uuid::from_u128(5)),
        vnic: DeviceVnic::of_word(vnic).unwrap(),
        network: network.map(str::to_owned),
        policy: None,
        trusted: false,
    }
}

#[test]
fn a_port_gets_a_device_of_its_kind_on_its_physical_network() {
    use PciDeviceType::{Pci, Pf, Vdpa, Vf};
    let on = Some(Some("physnet1"));
    for (vnic, kinds) in
        [("direct", &[Vf, Pci][..]), ("macvtap", &[Vf, Pci]), ("direct-physical", &[Pf]), ("vdpa", &[Vdpa])]
    {
        let port = port(vnic, Some("physnet1"));
        for kind in [Pci, Pf, Vf, Vdpa] {
            assert_eq!(port.admits(&device(kind, on, false)), kinds.contains(&kind), "{vnic} {kind:?}");
            assert!(!port.admits(&device(kind, on, true)), "a remote-managed device for a port of {vnic}");
        }
    }
    let remote = port("remote-managed", Some("physnet1"));
    assert!(remote.admits(&device(Vf, on, true)) && !remote.admits(&device(Vf, on, false)));
    assert!(!remote.admits(&device(Vdpa, on, true)));
    let direct = port("direct", Some("physnet1"));
    assert!(direct.admits(&device(Vf, Some(Some("PhysNet1")), false)), "tags differ only by case");
    for other in [Some(Some("physnet2")), Some(None), None] {
        assert!(!direct.admits(&device(Vf, other, false)), "{other:?}");
    }
    let tunnelled = port("direct", None);
    assert!(tunnelled.admits(&device(Vf, Some(None), false)), "the tag is null");
    assert!(!tunnelled.admits(&device(Vf, None, false)) && !tunnelled.admits(&device(Vf, on, false)));
    let trusting = DevicePort { trusted: true, ..port("direct", Some("physnet1")) };
    assert!(!trusting.admits(&device(Vf, on, false)), "no device has the trust mode");
    for word in ["normal", "virtio-forwarder", "smart-nic", ""] {
        assert_eq!(DeviceVnic::of_word(word), None, "{word}");
    }
}

fn held() -> HeldPciDevice {
    let alias = HeldPciDevice::requested_by(PortId(Uuid::from_u128(5)));
    HeldPciDevice { address: "0000:81:00.1".parse().unwrap(), alias, tracked: None }
}

/// The description of a card and of its virtual function 3.
fn found() -> HostPci {
    let device = |address: &str, kind, nic: PciNic, card_serial: Option<&str>| PciDevice {
        address: address.parse().unwrap(),
        vendor: "8086".into(),
        product: "10ed".into(),
        kind,
        parent: None,
        cell: None,
        card_serial: card_serial.map(str::to_owned),
        nic,
    };
    let card = PciNic { mac: Some("52:54:00:00:00:01".into()), ..PciNic::default() };
    let function = PciNic {
        interface: Some("enp129s0v3".into()),
        function: Some(3),
        vdpa: Some("/dev/vhost-vdpa-3".into()),
        ..PciNic::default()
    };
    let devices = vec![
        device("0000:81:00.0", PciDeviceType::Pf, card, Some("MT1")),
        device("0000:81:00.1", PciDeviceType::Vf, function, None),
    ];
    HostPci { devices, sockets: vec![] }
}

#[test]
fn the_profile_describes_the_device_of_the_port() {
    let known = device(PciDeviceType::Vf, Some(Some("physnet1")), false);
    let own = PortDevice::of(&held(), &known, Some(&found())).unwrap();
    let before = json!({"trusted": "true", "pci_slot": "0000:01:00.0", "vf_num": 9});
    let profile = profile_with(before.as_object().unwrap(), Some(&own));
    let expected = json!({
        "trusted": "true", "pci_vendor_info": "8086:10ed", "pci_slot": "0000:81:00.1", "physical_network": "physnet1",
        "pf_mac_address": "52:54:00:00:00:01", "vf_num": 3, "card_serial_number": "MT1",
    });
    assert_eq!(Value::Object(profile.clone()), expected);
    assert_eq!(Value::Object(profile_with(&profile, None)), json!({"trusted": "true"}));
    let users = json!({"physical_network": "own"});
    assert_eq!(Value::Object(profile_with(users.as_object().unwrap(), None)), users, "the port had no device");
    // The host does not answer.
    let bare = PortDevice::of(&held(), &known, None).unwrap();
    let bare = Value::Object(profile_with(&Map::new(), Some(&bare)));
    let expected = json!({"pci_vendor_info": "8086:10ed", "pci_slot": "0000:81:00.1", "physical_network": "physnet1"});
    assert_eq!(bare, expected);
    let of_flavor = HeldPciDevice { alias: "gpu".into(), ..held() };
    assert_eq!(PortDevice::of(&of_flavor, &known, Some(&found())), None);
}

#[test]
fn a_port_takes_the_mac_address_of_its_whole_card() {
    let card = HeldPciDevice { address: "0000:81:00.0".parse().unwrap(), ..held() };
    let known = device(PciDeviceType::Pf, Some(Some("physnet1")), false);
    let own = PortDevice::of(&card, &known, Some(&found())).unwrap();
    assert_eq!((own.is_whole_card(), own.own_mac()), (true, Some("52:54:00:00:00:01")));
    let profile = profile_with(&Map::new(), Some(&own));
    let expected = json!({
        "pci_vendor_info": "8086:10ed", "pci_slot": "0000:81:00.0", "physical_network": "physnet1",
        "device_mac_address": "52:54:00:00:00:01",
    });
    assert_eq!(card_mac(&profile), Some("52:54:00:00:00:01"));
    assert_eq!(Value::Object(profile.clone()), expected);
    let unseen = PortDevice::of(&card, &known, None).unwrap();
    assert_eq!(unseen.own_mac(), None);
    assert_eq!(profile_with(&profile, Some(&unseen)), profile, "the card is the same");
    assert_eq!(profile_with(&profile, None), Map::new());
}

#[test]
fn an_interface_gets_the_device_with_the_name_that_its_form_needs() {
    let known = device(PciDeviceType::Vf, Some(None), false);
    let own = PortDevice::of(&held(), &known, Some(&found())).unwrap();
    let given = |word: &str, vlan| {
        let mut plug = DeviceVnic::of_word(word).unwrap().plug(vlan);
        own.give_to(&mut plug);
        let NicPlug::Device(plugged) = plug else { panic!("{word} is no device") };
        assert_eq!(plugged.device, Some(own.device));
        (plugged.form, plugged.vlan, plugged.name)
    };
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(given("direct", Some(7)), (NicDeviceForm::HostDevice, Some(7), None));
    assert_eq!(given("macvtap", Some(7)), (NicDeviceForm::Macvtap, Some(7), name("enp129s0v3")));
    assert_eq!(given("vdpa", Some(7)), (NicDeviceForm::Vdpa, None, name("/dev/vhost-vdpa-3")));
    assert_eq!(given("remote-managed", Some(7)), (NicDeviceForm::HostDevice, None, None));
    assert_eq!(given("direct-physical", Some(7)), (NicDeviceForm::WholeCard, None, None));
    let mut normal = NicPlug::Network;
    own.give_to(&mut normal);
    assert_eq!(normal, NicPlug::Network);
    assert_eq!(own.own_mac(), None, "a virtual function takes the MAC address of the port");
}

#[test]
fn a_port_asks_for_a_trusted_device_by_its_profile() {
    for (value, trusted) in [
        (json!(true), true),
        (json!("True"), true),
        (json!("yes"), true),
        (json!(false), false),
        (json!("false"), false),
        (json!(1), false),
        (Value::Null, false),
    ] {
        let profile = json!({"trusted": value});
        assert_eq!(is_trusted(profile.as_object().unwrap()), trusted, "{profile}");
    }
    assert!(!is_trusted(&Map::new()));
}
