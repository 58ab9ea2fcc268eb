//! The grants of a server's ports on the host to which they are bound: PCI devices, and providers of resources.

use chronova_events::ids::PortId;

use super::port_resources::{PortAllocations, PortProviders};
use crate::pci::ports::PortDevice;

/// The devices and providers that ports have on one host. The network service writes them into `binding:profile`.
#[derive(Debug, Clone, Default)]
pub struct PortGrants {
    /// The PCI devices of ports that are devices of the host.
    pub devices: Vec<PortDevice>,
    /// The providers that give the ports their resources.
    pub allocations: PortAllocations,
}

impl PortGrants {
    /// The part of one port.
    pub fn of(&self, port: PortId) -> PortGrant<'_> {
        PortGrant {
            device: self.devices.iter().find(|device| device.port == port),
            providers: self.allocations.get(&port),
        }
    }
}

/// The device and the providers of one port.
#[derive(Debug, Clone, Copy)]
pub struct PortGrant<'a> {
    pub device: Option<&'a PortDevice>,
    pub providers: Option<&'a PortProviders>,
}
