//! A virtual network with its subnets and ports: one stream, because addresses are allocated atomically.
//!
//! A port's addresses are unique in its network, so one aggregate decides about all ports of a network. The decisions
//! keep three invariants. No address and no MAC is held twice. Every fixed address lies in one of the subnets. Subnets
//! do not overlap.
//!
//! The stream of an external network also has its floating addresses. A floating address is held by a port of that
//! network. A fixed address has at most one floating address.

mod floating;
pub mod ipam;
mod payloads;
mod state;

pub use floating::{
    Association, FLOATING_IP_OWNER, FloatingIp, FloatingIpAllocated, FloatingIpAssociated, FloatingIpDisassociated,
    FloatingIpReleased, FloatingIpSettings, FloatingIpSettingsReplaced,
};
pub use payloads::*;
pub use state::{Network, NetworkRow, Port, Subnet};

noun! {
    /// Events of a network.
    NetworkEvent = "network" {
        /// The network was created.
        NetworkCreated = "created" @ 1,
        /// The settings of the network were changed to these values.
        NetworkSettingsReplaced = "settings_replaced" @ 2 from { 1 => payloads::NetworkSettingsReplacedV1 },
        /// The network was deleted.
        NetworkDeleted = "deleted" @ 1,
        /// A subnet was created.
        SubnetAdded = "subnet_added" @ 1,
        /// The settings of a subnet were changed to these values.
        SubnetSettingsReplaced = "subnet_settings_replaced" @ 2 from { 1 => payloads::SubnetSettingsReplacedV1 },
        /// A subnet was deleted.
        SubnetRemoved = "subnet_removed" @ 1,
        /// A port was created with these addresses.
        PortCreated = "port_created" @ 1,
        /// The settings of a port were changed to these values.
        PortSettingsReplaced = "port_settings_replaced" @ 3 from { 1 => PortSettingsReplacedV1, 2 => PortSettingsReplacedV2 },
        /// The addresses of a port changed.
        PortReaddressed = "port_readdressed" @ 1,
        /// A port was bound to a device on a host.
        PortBound = "port_bound" @ 1,
        /// A port was unbound.
        PortUnbound = "port_unbound" @ 1,
        /// A port was deleted; its addresses are free.
        PortDeleted = "port_deleted" @ 1,
        /// A project got a floating address of this external network.
        FloatingIpAllocated = "floating_ip_allocated" @ 1,
        /// The settings of a floating address were changed to these values.
        FloatingIpSettingsReplaced = "floating_ip_settings_replaced" @ 2 from { 1 => floating::FloatingIpSettingsReplacedV1 },
        /// A floating address is now associated with this fixed address.
        FloatingIpAssociated = "floating_ip_associated" @ 1,
        /// A floating address was disassociated.
        FloatingIpDisassociated = "floating_ip_disassociated" @ 1,
        /// A floating address was released to its pool.
        FloatingIpReleased = "floating_ip_released" @ 1,
    }
}
