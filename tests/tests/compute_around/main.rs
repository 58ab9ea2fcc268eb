//! What is around servers: interfaces, consoles, what other services tell, and the smaller resources; through the API.

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
mod small;
mod vendor_data;
