//! `chronova log` and its subcommands.

use std::process::ExitCode;

use clap::Subcommand;

use super::{ConfigPaths, operate};
use crate::commands::retention::holds::HoldCommand;
use crate::commands::{self, OperatorCommand};

#[derive(Debug, Subcommand)]
pub(super) enum LogCommand {
    /// Copy a log in SQLite to the PostgreSQL database that [chronova] event_store names.
    Copy {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::log_copy::LogCopyArgs,
    },
    /// Move old events out of the log's file into the archive, while no server runs.
    ///
    /// All commands and queries go on reading them there. A running server does the same by itself: see [chronova]
    /// retention_days and retention_size.
    Prune {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::retention::prune::LogPruneArgs,
    },
    /// Keep a part of the log in its file, and its personal data readable, until the hold is removed.
    #[command(subcommand)]
    Hold(HoldSubcommand),
}

#[derive(Debug, Subcommand)]
enum HoldSubcommand {
    /// Set a hold; prints its id.
    Add {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::retention::holds::HoldAddArgs,
    },
    /// List the holds.
    List {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::retention::holds::HoldListArgs,
    },
    /// Remove a hold.
    Remove {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: commands::retention::holds::HoldRemoveArgs,
    },
}

impl LogCommand {
    pub(super) fn run(self) -> ExitCode {
        let (place, command) = match self {
            Self::Copy { place, args } => (place, OperatorCommand::LogCopy(args)),
            Self::Prune { place, args } => (place, OperatorCommand::LogPrune(args)),
            Self::Hold(HoldSubcommand::Add { place, args }) => {
                (place, OperatorCommand::LogHold(HoldCommand::Add(args)))
            }
            Self::Hold(HoldSubcommand::List { place, args }) => {
                (place, OperatorCommand::LogHold(HoldCommand::List(args)))
            }
            Self::Hold(HoldSubcommand::Remove { place, args }) => {
                (place, OperatorCommand::LogHold(HoldCommand::Remove(args)))
            }
        };
        operate(&place, command)
    }
}
