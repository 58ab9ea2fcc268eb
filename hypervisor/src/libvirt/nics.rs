//! Attaches interfaces to existing guests and detaches them, in the running guest and in its persistent definition.
//!
//! The running guest is changed first. If it refuses, the persistent definition stays unchanged, too. After a crash in
//! between, a repeated call completes the change, because each half checks before it acts.

use roxmltree::{Document, Node};
use virt::domain::Domain;
use virt::error::ErrorNumber;
use virt_sys as sys;

use super::error::{Context, is, translate};
use crate::driver::{DriverError, DriverResult};
use crate::xml::Element;

const ATTACH: &str = "interface attachment";
const DETACH: &str = "interface detachment";

/// One of a domain's two definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Running,
    Definition,
}

impl Side {
    fn of_xml(self) -> u32 {
        match self {
            Self::Running => 0,
            Self::Definition => sys::VIR_DOMAIN_XML_INACTIVE,
        }
    }

    fn of_devices(self) -> u32 {
        match self {
            Self::Running => sys::VIR_DOMAIN_AFFECT_LIVE,
            Self::Definition => sys::VIR_DOMAIN_AFFECT_CONFIG,
        }
    }
}

/// Attaches the interface. Succeeds if it is already attached.
pub(super) fn attach(domain: &Domain, mac: &str, xml: &str) -> DriverResult<()> {
    for side in sides(domain, ATTACH)? {
        if cable_of(domain, side, mac, ATTACH)?.is_none() {
            domain.attach_device_flags(xml, side.of_devices()).during(ATTACH)?;
        }
    }
    Ok(())
}

/// Asks a running guest to release the interface. A later check shows whether the guest released it.
pub(super) fn ask_to_let_go(domain: &Domain, mac: &str) -> DriverResult<()> {
    if !domain.is_active().during(DETACH)? {
        return Ok(());
    }
    detach(domain, Side::Running, mac)
}

/// Removes the interface from the persistent definition after the running guest has released it. Returns whether the
/// guest has released it.
pub(super) fn forget_if_gone(domain: &Domain, mac: &str) -> DriverResult<bool> {
    if domain.is_active().during(DETACH)? && cable_of(domain, Side::Running, mac, DETACH)?.is_some() {
        return Ok(false);
    }
    detach(domain, Side::Definition, mac)?;
    Ok(true)
}

fn sides(domain: &Domain, call: &'static str) -> DriverResult<Vec<Side>> {
    Ok(match domain.is_active().during(call)? {
        true => vec![Side::Running, Side::Definition],
        false => vec![Side::Definition],
    })
}

fn detach(domain: &Domain, side: Side, mac: &str) -> DriverResult<()> {
    let Some(cable) = cable_of(domain, side, mac, DETACH)? else { return Ok(()) };
    let named = || {
        let source = cable.source.as_ref().map(|(attribute, name)| Element::new("source").attr(attribute, name));
        let interface = Element::new("interface").attr("type", &cable.kind);
        interface.child(Element::new("mac").attr("address", mac)).children(source).render()
    };
    let xml = cable.device.clone().unwrap_or_else(named);
    match domain.detach_device_flags(&xml, side.of_devices()) {
        Ok(()) => Ok(()),
        Err(error) if is(&error, ErrorNumber::DeviceMissing) => Ok(()),
        // QEMU has not finished an earlier request, so the guest may still react to that request.
        Err(error) if error.message().contains("already in the process of unplug") => Ok(()),
        Err(error) => Err(translate(DETACH, &error)),
    }
}

/// How an interface of a domain is connected to its host.
#[derive(Debug, PartialEq, Eq)]
struct NicCable {
    /// libvirt's type of the interface: for example `network`, `bridge` or `hostdev`.
    kind: String,
    /// The attribute of `<source>` that this type needs, and its value.
    source: Option<(&'static str, String)>,
    /// The whole element, for an interface that is a device of the host.
    device: Option<String>,
}

/// How the domain's interface with this MAC is connected. `None` if the domain has no such interface.
fn cable_of(domain: &Domain, side: Side, mac: &str, call: &'static str) -> DriverResult<Option<NicCable>> {
    let xml = domain.xml_desc(side.of_xml()).during(call)?;
    let failed = |error| DriverError::Failed { call, message: format!("the domain cannot be read: {error}") };
    let document = Document::parse(&xml).map_err(failed)?;
    Ok(cable(&xml, document.root_element(), mac))
}

fn cable(xml: &str, domain: Node<'_, '_>, mac: &str) -> Option<NicCable> {
    let own = |node: &Node<'_, '_>| part(*node, "mac", "address").is_some_and(|known| known.eq_ignore_ascii_case(mac));
    let node = interfaces(domain).find(own)?;
    let kind = node.attribute("type").unwrap_or("network").to_owned();
    // In a running guest, an interface on a libvirt network names both the network and the network's bridge.
    let attribute = if kind == "network" { "network" } else { "bridge" };
    let source = part(node, "source", attribute).map(|name| (attribute, name.to_owned()));
    let is_device = matches!(kind.as_str(), "hostdev" | "direct" | "vdpa");
    let device = is_device.then(|| xml[node.range()].to_owned());
    Some(NicCable { kind, source, device })
}

fn interfaces<'a, 'input>(domain: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    let devices = domain.children().find(|node| node.has_tag_name("devices"));
    devices.into_iter().flat_map(|devices| devices.children()).filter(|node| node.has_tag_name("interface"))
}

fn part<'a>(device: Node<'a, '_>, element: &str, attribute: &str) -> Option<&'a str> {
    device.children().find(|node| node.has_tag_name(element))?.attribute(attribute)
}

/// The MAC addresses in the domain's definition.
pub(super) fn macs(domain: &Domain) -> DriverResult<Vec<String>> {
    const CALL: &str = "interfaces";
    let xml = domain.xml_desc(Side::Definition.of_xml()).during(CALL)?;
    let failed = |error| DriverError::Failed { call: CALL, message: format!("the domain cannot be read: {error}") };
    let document = Document::parse(&xml).map_err(failed)?;
    let known = interfaces(document.root_element()).filter_map(|node| part(node, "mac", "address"));
    let mut macs: Vec<String> = known.map(str::to_ascii_lowercase).collect();
    macs.sort();
    Ok(macs)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_interface_is_found_by_its_mac() {
        let xml = "<domain><devices><disk/><interface type='network'><mac address='fa:16:3e:00:00:01'/>\
                   <source network='chronova-1' bridge='virbr1'/></interface>\
                   <interface type='bridge'><mac address='fa:16:3e:00:00:02'/><source bridge='br-int'/></interface>\
                   <interface type='ethernet'><mac address='fa:16:3e:00:00:03'/></interface></devices></domain>";
        let document = Document::parse(xml).unwrap();
        let find = |mac| cable(xml, document.root_element(), mac).map(|found| (found.kind, found.source));
        let of = |kind: &str, source: Option<(&'static str, &str)>| {
            Some((kind.to_owned(), source.map(|(attribute, name)| (attribute, name.to_owned()))))
        };
        assert_eq!(find("FA:16:3E:00:00:01"), of("network", Some(("network", "chronova-1"))));
        assert_eq!(find("fa:16:3e:00:00:02"), of("bridge", Some(("bridge", "br-int"))));
        assert_eq!(find("fa:16:3e:00:00:03"), of("ethernet", None));
        assert_eq!(find("fa:16:3e:00:00:04"), None);
    }

    #[test]
    fn an_interface_that_is_a_device_is_detached_by_its_whole_element() {
        let device = "<interface type='hostdev' managed='yes'><mac address='fa:16:3e:00:00:01'/><source><address \
                      type='pci' domain='0x0000' bus='0x81' slot='0x00' function='0x1'/></source></interface>";
        let xml = format!("<domain><devices>{device}</devices></domain>");
        let document = Document::parse(&xml).unwrap();
        let found = cable(&xml, document.root_element(), "fa:16:3e:00:00:01").unwrap();
        assert_eq!((found.kind.as_str(), found.source, found.device.as_deref()), ("hostdev", None, Some(device)));
    }
}
