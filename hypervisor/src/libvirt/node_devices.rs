//! libvirt's list of a host's devices, and the parts of their descriptions that the readers of PCI devices and of mediated
//! devices look for.
//!
//! A host that cannot list its devices must not look like a host without devices. Otherwise the placement ledger would
//! withdraw the inventories of the devices.

use roxmltree::Node;
use virt::connect::Connect;
use virt::error::{Error, ErrorNumber};

use super::error::{number, translate};
use crate::driver::{DriverError, DriverResult};

/// The descriptions of all devices with a capability.
pub(super) fn described(connect: &Connect, capability: u32, call: &'static str) -> DriverResult<Vec<String>> {
    let mut described = Vec::new();
    for device in listed(call, connect.list_all_node_devices(capability))? {
        match device.xml_desc(0).map_err(|error| translate(call, &error)) {
            Ok(xml) => described.push(xml),
            Err(error @ DriverError::Unreachable(_)) => return Err(error),
            // The device has disappeared since it was listed, or the host cannot describe it.
            Err(error) => tracing::debug!(%error, "a device of the host is left out"),
        }
    }
    Ok(described)
}

/// The list in libvirt's answer. A libvirt without node devices (`test:///`), or one that is too old to know the
/// capability, has no such device.
fn listed<T>(call: &'static str, answer: Result<Vec<T>, Error>) -> DriverResult<Vec<T>> {
    match answer {
        Ok(listed) => Ok(listed),
        Err(error) => match number(&error) {
            Some(ErrorNumber::NoSupport | ErrorNumber::InvalidArg) => Ok(Vec::new()),
            _ => Err(translate(call, &error)),
        },
    }
}

pub(super) fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name(name))
}

/// The text of a child, without spaces around it.
pub(super) fn text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    child(node, name)?.text().map(str::trim)
}

/// The capability of the type `kind` in the description of a device, or in that of another capability.
pub(super) fn capability<'a, 'i>(node: Node<'a, 'i>, kind: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|part| part.has_tag_name("capability") && part.attribute("type") == Some(kind))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_host_that_cannot_list_its_devices_is_not_a_host_without_devices() {
        let connect = Connect::open(Some("test:///default")).unwrap();
        let failed = connect.lookup_domain_by_uuid(uuid::Uuid::nil()).unwrap_err();
        assert!(listed::<String>("devices", Err(failed)).is_err());
        // libvirt knows no capability with this number. A new capability is unknown to an old libvirt.
        assert_eq!(described(&connect, 1 << 26, "devices").unwrap(), Vec::<String>::new());
    }
}
