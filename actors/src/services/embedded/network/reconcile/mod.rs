//! The reconcilers of the embedded network service and of its data plane on hosts.
//!
//! | file | contents |
//! |---|---|
//! | [`filters`] | updates the packet filters of running guests |
//! | [`networks`] | removes bridges and DHCP servers of deleted networks from hosts |
//! | [`northbound`] | writes the networks into OVN's northbound database |
//! | [`interfaces`] | notifies servers when their ports change |
//! | [`floating_ips`] | cleans up after deleted ports and routers |

pub mod filters;
pub mod floating_ips;
pub mod interfaces;
pub mod networks;
pub mod northbound;
