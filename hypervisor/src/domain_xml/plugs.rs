//! The plugs of a guest's interfaces as domain XML: bridges, switches and taps. [`replug`] changes them for a guest that
//! migrates.
//!
//! Source: Nova's `_update_vif_xml`.

use std::ops::Range;

use roxmltree::{Document, Node};

use super::devices::source_address;
use super::splice::splice;
use crate::guest::{Nic, NicDevice, NicDeviceForm, NicPlug};
use crate::volumes;
use crate::xml::Element;

/// The interface's type, and the elements for the network, bridge or tap to which the interface is connected.
pub(super) fn plug(nic: &Nic) -> (&'static str, Vec<Element>) {
    let source = |attribute: &'static str, name: &str| Element::new("source").attr(attribute, name);
    match &nic.plug {
        NicPlug::Network => ("network", vec![source("network", &volumes::network_name(nic.network))]),
        NicPlug::OpenVswitch { bridge } => {
            let port = Element::new("parameters").attr("interfaceid", nic.port);
            let switch = Element::new("virtualport").attr("type", "openvswitch").child(port);
            ("bridge", vec![source("bridge", bridge), switch])
        }
        NicPlug::Bridge { bridge } => ("bridge", vec![source("bridge", bridge)]),
        NicPlug::Tap => ("ethernet", vec![]),
        NicPlug::Device(device) => device_plug(device),
    }
}

/// The plug of an interface that is a PCI device of the host. libvirt refuses an interface whose device is missing.
fn device_plug(plugged: &NicDevice) -> (&'static str, Vec<Element>) {
    let vlan = plugged.vlan.map(|tag| Element::new("vlan").child(Element::new("tag").attr("id", tag)));
    let named = || plugged.name.iter().map(|name| Element::new("source").attr("dev", name));
    match plugged.form {
        NicDeviceForm::HostDevice | NicDeviceForm::WholeCard => {
            let source = plugged.device.map(|device| Element::new("source").child(source_address(device.address)));
            ("hostdev", source.into_iter().chain(vlan).collect())
        }
        NicDeviceForm::Macvtap => {
            ("direct", named().map(|source| source.attr("mode", "passthrough")).chain(vlan).collect())
        }
        NicDeviceForm::Vdpa => ("vdpa", named().collect()),
    }
}

/// The elements of an interface that say what it is plugged into.
const PLUGS: [&str; 2] = ["source", "virtualport"];

/// Replaces the plugs of the interfaces with these MAC addresses in a guest's definition. The guest itself sees no
/// difference. A libvirt network has one name on all hosts, so its interfaces do not change.
///
/// # Errors
/// If the definition cannot be parsed.
pub fn replug(xml: &str, nics: &[Nic]) -> Result<String, roxmltree::Error> {
    let document = Document::parse(xml)?;
    let devices = document.root_element().children().find(|node| node.has_tag_name("devices"));
    let interfaces = devices.into_iter().flat_map(|devices| devices.children());
    let interfaces = interfaces.filter(|node| node.has_tag_name("interface"));
    let cuts = interfaces.filter_map(|node| {
        let mac = part(node, "mac", "address")?;
        let nic = nics.iter().find(|nic| nic.mac.eq_ignore_ascii_case(mac))?;
        replugged(xml, node, nic)
    });
    Ok(splice(xml, cuts.collect()))
}

fn part<'a>(node: Node<'a, '_>, element: &str, attribute: &str) -> Option<&'a str> {
    node.children().find(|child| child.has_tag_name(element))?.attribute(attribute)
}

/// The type of an interface, its bridge, and the id of its port in Open vSwitch.
type Plugged<'a> = (&'a str, Option<&'a str>, Option<&'a str>);

fn replugged(xml: &str, node: Node<'_, '_>, nic: &Nic) -> Option<(Range<usize>, String)> {
    let port = nic.port.to_string();
    let wanted: Plugged<'_> = match &nic.plug {
        // The guest gives up the devices of its host before it migrates.
        NicPlug::Network | NicPlug::Device(_) => return None,
        NicPlug::OpenVswitch { bridge } => ("bridge", Some(bridge), Some(&port)),
        NicPlug::Bridge { bridge } => ("bridge", Some(bridge), None),
        NicPlug::Tap => ("ethernet", None, None),
    };
    let switch = node.children().find(|child| child.has_tag_name("virtualport"));
    let present: Plugged<'_> = (
        node.attribute("type").unwrap_or_default(),
        part(node, "source", "bridge"),
        switch.and_then(|switch| part(switch, "parameters", "interfaceid")),
    );
    (present != wanted).then(|| (node.range(), again(xml, node, nic)))
}

fn again(xml: &str, node: Node<'_, '_>, nic: &Nic) -> String {
    let (kind, plug) = plug(nic);
    let own = node.attributes().filter(|attribute| attribute.name() != "type");
    let own: String = own.flat_map(|attribute| [" ", &xml[attribute.range()]]).collect();
    let is_plug = |child: &Node<'_, '_>| PLUGS.iter().any(|name| child.has_tag_name(*name));
    let kept: String = node
        .children()
        .filter(|child| child.is_element() && !is_plug(child))
        .map(|child| &xml[child.range()])
        .collect();
    let plug: String = plug.iter().map(Element::render).collect();
    format!("<interface type='{kind}'{own}>{kept}{plug}</interface>")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::ids::NetworkId;

    const PORT: &str = "33333333-3333-4333-8333-333333333333";

    fn nic(plug: NicPlug) -> Nic {
        Nic {
            port: PORT.parse().unwrap(),
            network: NetworkId(uuid::Uuid::nil()),
            mac: "FA:16:3e:00:00:02".to_owned(),
            mtu: 1442,
            filter: None,
            tap: "tap33333333-33".to_owned(),
            plug,
        }
    }

    fn switch(bridge: &str) -> NicPlug {
        NicPlug::OpenVswitch { bridge: bridge.to_owned() }
    }

    /// A running guest's definition in libvirt's form, with this interface.
    fn guest(interface: &str) -> String {
        format!(
            "<domain><devices><disk/><interface type='network'><mac address='fa:16:3e:00:00:01'/>\
             <source network='chronova-1'/></interface>\n    {interface}\n  </devices></domain>"
        )
    }

    fn on_switch(bridge: &str) -> String {
        format!(
            "<interface type='bridge' trustGuestRxFilters='yes'>\n      <mac address='fa:16:3e:00:00:02'/>\n      \
             <source bridge='{bridge}'/>\n      <virtualport type='openvswitch'>\n        <parameters \
             interfaceid='{PORT}'/>\n      </virtualport>\n      <target dev='tap33333333-33'/>\n      <model \
             type='virtio'/>\n      <mtu size='1442'/>\n      <address type='pci' slot='0x03'/>\n    </interface>"
        )
    }

    #[test]
    fn an_interface_gets_the_bridge_of_its_destination() {
        let here = replug(&guest(&on_switch("br-int")), &[nic(switch("br-ovn"))]).unwrap();
        assert!(here.contains("<source bridge='br-ovn'/>") && !here.contains("br-int"), "{here}");
        for kept in ["trustGuestRxFilters='yes'", "<address type='pci' slot='0x03'/>", "<mtu size='1442'/>", PORT] {
            assert_eq!(here.matches(kept).count(), 1, "{kept}: {here}");
        }
        assert!(here.contains("<source network='chronova-1'/>"), "the other interface must stay: {here}");
        Document::parse(&here).unwrap();
    }

    #[test]
    fn an_interface_changes_its_kind_with_its_host() {
        let linux = NicPlug::Bridge { bridge: "brq1".to_owned() };
        let here = replug(&guest(&on_switch("br-int")), &[nic(linux)]).unwrap();
        assert!(here.contains("<source bridge='brq1'/>") && !here.contains("virtualport"), "{here}");
        let tap = replug(&here, &[nic(NicPlug::Tap)]).unwrap();
        assert!(tap.contains("<interface type='ethernet' trust") && !tap.contains("bridge="), "{tap}");
        let back = replug(&tap, &[nic(switch("br-int"))]).unwrap();
        assert!(back.contains(PORT) && back.contains("<source bridge='br-int'/>"), "{back}");
    }

    #[test]
    fn a_guest_that_needs_no_change_stays_byte_for_byte() {
        let xml = guest(&on_switch("br-int"));
        for nics in [vec![], vec![nic(switch("br-int"))], vec![nic(NicPlug::Network)]] {
            assert_eq!(replug(&xml, &nics).unwrap(), xml, "{nics:?}");
        }
        let mut other = nic(switch("br-ovn"));
        other.mac = "fa:16:3e:00:00:03".to_owned();
        assert_eq!(replug(&xml, &[other]).unwrap(), xml);
    }
}
