//! Interfaces that are PCI devices of the host.

use super::*;
use crate::guest::{NicDevice, NicDeviceForm};

#[test]
fn interfaces_that_are_pci_devices_of_the_host() {
    let passed = |address: &str, managed| PassedDevice { address: address.parse().unwrap(), managed };
    let nic = |port: u128, form, device: PassedDevice, vlan, name: Option<&str>| Nic {
        port: PortId(Uuid::from_u128(port << 96)),
        filter: None,
        plug: NicPlug::Device(NicDevice { form, vlan, device: Some(device), name: name.map(str::to_owned) }),
        ..guest().nics.remove(0)
    };
    let nics = vec![
        nic(4, NicDeviceForm::HostDevice, passed("0000:81:00.1", true), Some(100), None),
        nic(5, NicDeviceForm::HostDevice, passed("0001:0a:1f.7", false), None, None),
        nic(6, NicDeviceForm::Macvtap, passed("0000:81:00.2", true), Some(7), Some("enp129s0v2")),
        nic(7, NicDeviceForm::Vdpa, passed("0000:81:00.3", true), None, Some("/dev/vhost-vdpa-0")),
        nic(8, NicDeviceForm::WholeCard, passed("0000:82:00.0", true), None, None),
    ];
    let rendered = |nic: &Nic| render_interface(nic, &[], 4, &host()).unwrap();
    let mac = format!("<mac address='{}'/>", nics[0].mac);
    let address = "<address domain='0x0000' bus='0x81' slot='0x00' function='0x1' type='pci'/>";
    let expected = [
        format!(
            "<interface type='hostdev' managed='yes'>{mac}<source>{address}</source><vlan><tag id='100'/></vlan>\
             </interface>"
        ),
        format!(
            "<interface type='hostdev' managed='no'>{mac}<source>{}</source></interface>",
            "<address domain='0x0001' bus='0x0a' slot='0x1f' function='0x7' type='pci'/>"
        ),
        format!(
            "<interface type='direct'>{mac}<source dev='enp129s0v2' mode='passthrough'/><vlan><tag id='7'/></vlan>\
             <model type='virtio'/><driver name='vhost'/></interface>"
        ),
        format!("<interface type='vdpa'>{mac}<source dev='/dev/vhost-vdpa-0'/><model type='virtio'/></interface>"),
        "<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x0000' bus='0x82' slot='0x00' \
         function='0x0'/></source></hostdev>"
            .to_owned(),
    ];
    for (nic, expected) in nics.iter().zip(expected) {
        let found: String = rendered(nic).lines().map(str::trim).collect();
        assert_eq!(found, expected);
    }
    golden("sriov", &GuestSpec { nics, ..guest() }, &host());
}
