//! The test world: the building blocks of the integration tests.
//!
//! [`world::World`] is a whole control plane on a log in memory and a simulated fleet. A test can crash it at any
//! append and start it again on the same log and hosts. [`process_harness`] tests processes with it.
//! [`placement_model`] is an independent model of Placement. [`ports`] has the conformance suites of the other
//! services. [`fuzz`] generates random input. [`answers`] compares answers with the descriptions of their operations.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations)] // this crate is tests

pub mod answers;
pub mod bandwidth;
pub mod choosing_volumes;
pub mod compute_api;
pub mod creation;
pub mod fuzz;
pub mod gates;
pub mod gpus;
pub mod memory_certificates;
pub mod memory_keys;
pub mod migrating_volumes;
pub mod mixed_images;
pub mod mixed_networks;
pub mod moves;
pub mod pci;
pub mod pinned;
pub mod placement_model;
pub mod ports;
pub mod process_harness;
pub mod quick;
pub mod requests;
pub mod services;
pub mod volume_kind;
pub mod volumes;
pub mod world;
