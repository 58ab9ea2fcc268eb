//! Resources around servers, through the API: interfaces, consoles, external events, and the smaller resources.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod consoles;
mod events;
mod flavors;
mod floating;
mod foreign_ports;
mod interfaces;
mod keypairs;
mod metadata;
mod quotas;
mod small_resources;
mod sriov;
mod vendor_data;
