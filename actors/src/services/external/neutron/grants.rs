//! The grants of a port on its host, in `binding:profile`: its PCI device, and the providers of its resources.

use serde_json::{Map, Value, json};

use super::documents::NeutronPort;
use super::port_resources::{with_providers, without_providers};
use crate::pci::ports::{PortDevice, profile_with};
use crate::ports::PortGrant;

/// The profile of a binding to a host where the port got this. Other keys stay.
pub(super) fn profile_granted(profile: &Map<String, Value>, got: PortGrant<'_>) -> Map<String, Value> {
    with_providers(profile_with(profile, got.device), got.providers)
}

/// The fields of a request that write into the port's binding what the port got. `None`: the port is unbound, so it has
/// neither a device nor providers. Empty if nothing changes.
pub(super) fn binding_change(port: &NeutronPort, got: Option<PortGrant<'_>>) -> Map<String, Value> {
    let before = port.profile.as_object().cloned().unwrap_or_default();
    let after = match got {
        Some(got) => profile_granted(&before, got),
        None => without_providers(profile_with(&before, None)),
    };
    let mut body = Map::new();
    if after != before {
        body.insert("binding:profile".to_owned(), Value::Object(after));
    }
    // Neutron refuses another address for a bound port. There, it takes the address of a whole card from the profile.
    let mac = got.and_then(|got| got.device).and_then(PortDevice::own_mac).filter(|_| port.bound_to().is_none());
    let mac = mac.filter(|mac| !mac.eq_ignore_ascii_case(&port.mac_address));
    body.extend(mac.map(|mac| ("mac_address".to_owned(), json!(mac))));
    body
}
