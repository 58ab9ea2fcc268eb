//! What the `chronova` binary is made of, apart from the crates it wires together.
//!
//! `config` reads nova.conf-format files against one table of options; `telemetry` sets up logs and metrics.

pub mod config;
pub mod telemetry;
