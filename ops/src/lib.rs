//! What the `chronova` binary is made of, apart from the crates it wires together.
//!
//! [`config`] reads nova.conf-format files against one table of options; [`telemetry`] sets up logs and metrics; [`serve`]
//! puts the rooms of the house together; [`cli`] is the command line; [`commands`] holds what operators ask of a log;
//! [`bench`] measures; [`simulated`] knows hosts that nobody drives.

pub mod bench;
pub mod cli;
pub mod commands;
pub mod config;
pub mod output;
pub mod serve;
pub mod simulated;
pub mod telemetry;
