//! Shows the host's operator where a guest comes from: the metadata element and the SMBIOS strings.

use super::facts::HostFacts;
use crate::guest::GuestSpec;
use crate::mdev::GuestMdev;
use crate::options::Serial;
use crate::xml::Element;

/// The namespace of our metadata element. A domain with this element, or with Nova's, is ours. Every other domain on
/// the host is left alone.
pub const NAMESPACE: &str = "urn:chronova:instance:1";

pub(super) fn element(guest: &GuestSpec) -> Element {
    let flavor = Element::new("chronova:flavor")
        .attr("name", &guest.flavor_name)
        .child(Element::leaf("chronova:memory", guest.memory_mib))
        .child(Element::leaf("chronova:disk", guest.root.as_ref().map_or(0, |root| root.size_gib)))
        .child(Element::leaf("chronova:ephemeral", guest.ephemerals_gib.iter().sum::<u32>()))
        .child(Element::leaf("chronova:swap", guest.swap_mib))
        .child(Element::leaf("chronova:vcpus", guest.vcpus));
    let owner = Element::new("chronova:owner")
        .child(Element::new("chronova:user").attr("uuid", &guest.user))
        .child(Element::new("chronova:project").attr("uuid", &guest.project));
    let root =
        guest.root.as_ref().map(|root| Element::new("chronova:root").attr("type", "image").attr("uuid", root.image.id));
    let ports = guest.nics.iter().map(|nic| Element::new("chronova:port").attr("uuid", nic.port));
    let mdev = |device: &GuestMdev| {
        let named = Element::new("chronova:mdev").attr("uuid", device.uuid);
        named.attr("parent", device.parent).attr("type", &device.mdev_type)
    };
    // A start of the guest creates the mediated devices that are missing. It reads their parents and types here: the
    // `hostdev` elements of the domain hold only ids.
    let mdevs =
        (!guest.mdevs.is_empty()).then(|| Element::new("chronova:mdevs").children(guest.mdevs.iter().map(mdev)));
    let instance = Element::new("chronova:instance")
        .attr("xmlns:chronova", NAMESPACE)
        .child(Element::leaf("chronova:name", &guest.display_name))
        .child(flavor)
        .child(owner)
        .children(root)
        .child(Element::new("chronova:ports").children(ports))
        .children(mdevs);
    Element::new("metadata").child(instance)
}

/// cloud-init recognises an OpenStack guest by the product name `OpenStack Compute` (its `ds-identify`). cloud-init
/// uses the serial if it cannot read a config drive.
pub(super) fn sysinfo(guest: &GuestSpec, host: &HostFacts) -> Element {
    let entry = |name: &str, value: &str| Element::leaf("entry", value).attr("name", name);
    let id = guest.instance.to_string();
    let serial = match host.guests.serial {
        Serial::None => None,
        Serial::Host => host.host_uuid.as_deref(),
        Serial::Server => Some(id.as_str()),
    };
    let system = Element::new("system")
        .child(entry("manufacturer", "Chronova"))
        .child(entry("product", "OpenStack Compute"))
        .child(entry("version", env!("CARGO_PKG_VERSION")))
        .children(serial.map(|serial| entry("serial", serial)))
        .child(entry("uuid", &id))
        .child(entry("family", "Virtual Machine"));
    Element::new("sysinfo").attr("type", "smbios").child(system)
}
