//! The ports that Compute calls: each embedded service, and a real Keystone, Glance and Cinder, pass the conformance
//! suite of their port. A real Neutron passes the cases about servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "ports/identity.rs"]
mod identity;
#[path = "ports/images.rs"]
mod images;
#[path = "ports/networks.rs"]
mod networks;
#[path = "ports/volumes.rs"]
mod volumes;
