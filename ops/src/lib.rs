//! The parts of the `chronova` program that are not in the crates it wires together.
//!
//! [`config`] reads nova.conf-format files against one table of options. [`telemetry`] sets up the logs. [`serve`]
//! wires the crates together. [`cli`] is the command line. [`commands`] holds the operators' commands. [`nova`] reads
//! the databases of a Nova that is taken over. [`simulated`] gives the events of a simulated fleet's registration, for
//! commands that replay decisions. [`output`] writes to the terminal.

pub mod cli;
pub mod commands;
pub mod config;
pub mod nova;
pub mod output;
pub mod serve;
pub mod simulated;
pub mod telemetry;
