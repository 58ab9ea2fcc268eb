//! The embedded network service from the outside: its API, and the port through which servers get their interfaces.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub)]

mod api;
mod cost;
mod floating;
mod isolation;
mod ovn;
mod preconditions;
mod quotas;
mod servers;
mod tags;
mod world;
