//! Tests of whole control planes: their listeners, restarts and members, and kills, faults and attacks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

mod cloud;
mod creates;
#[path = "../../events/tests/database/mod.rs"]
mod database;
mod faults;
mod front_door;
mod hostile_lists;
mod isolation;
mod kills;
mod load;
mod members;
mod moving;
mod reloads;
mod restarts;
mod standby;
mod tls;
