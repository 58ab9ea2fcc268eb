//! The ports that compute asks, and the embedded services behind them: each passes the suite of its port.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "ports/identity.rs"]
mod identity;
#[path = "ports/images.rs"]
mod images;
#[path = "ports/networks.rs"]
mod networks;
#[path = "ports/volumes.rs"]
mod volumes;
