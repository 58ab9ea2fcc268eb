//! The ports that Compute calls: each embedded service passes the conformance suite of its port.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "ports/identity.rs"]
mod identity;
#[path = "ports/images.rs"]
mod images;
#[path = "ports/networks.rs"]
mod networks;
#[path = "ports/volumes.rs"]
mod volumes;
