//! `chronova backup`: copies of a control plane's data in a folder or in an object store, made while the server runs.
//!
//! | file | contents |
//! |---|---|
//! | [`folder`] | the folder of backups: its layout, its lock, how files get there |
//! | [`manifest`] | the description of one backup |
//! | [`files`] | the files of the data folder that are copied beside the log |
//! | [`create`], [`list`], [`verify`], [`prune`], [`restore`] | the commands |
//!
//! The log is copied as an archive ([`super::audit::archive`]); each backup adds the segments with the new events.
//! Every other file is stored under the hash of its content, so that an unchanged file is copied once. The manifest is
//! written last and completes the backup. Its name has the hash of its content.
//!
//! Invariants: a file appears under its name only when it is complete and durable. A command changes no file that an
//! older backup needs, and removes none that a kept backup needs. The newest file of keys is enough for all backups. A
//! log that is restored to the end of a backup has every image and secret that it names.

mod create;
mod files;
mod folder;
mod list;
mod manifest;
mod prune;
mod restore;
mod verify;

use std::io::Write;
use std::path::Path;

use chronova_events::envelope::Timestamp;
use chronova_events::place::PlaceAddress;
use clap::{Args, Subcommand};

use super::list_form::ListFormArgs;
use super::moments::AsOf;
use super::{CommandFailure, Exit, LogPlace};
use crate::cli::ConfigPaths;

#[derive(Debug, Subcommand)]
pub enum BackupSubcommand {
    /// Back up the data of the control plane, which may run meanwhile; only what is new is copied.
    Create {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: BackupCreateArgs,
    },
    /// List the backups in a folder.
    List {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: BackupListArgs,
    },
    /// Read every byte of the backups in a folder, and name each damaged file.
    Verify {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: BackupPlace,
    },
    /// Remove all backups but the newest, and the files that only they need.
    Prune {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: BackupPruneArgs,
    },
    /// Write the data of a backup to an empty data directory.
    Restore {
        #[command(flatten)]
        place: ConfigPaths,
        #[command(flatten)]
        args: BackupRestoreArgs,
    },
}

/// A backup command with its arguments, without the configuration.
#[derive(Debug)]
pub enum BackupCommand {
    Create(BackupCreateArgs),
    List(BackupListArgs),
    Verify(BackupPlace),
    Prune(BackupPruneArgs),
    Restore(BackupRestoreArgs),
}

#[derive(Debug, Args)]
pub struct BackupPlace {
    /// The folder of the backups, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    pub address: PlaceAddress,
}

impl BackupPlace {
    /// The address with all that the configuration says about it.
    fn completed(&self, place: &LogPlace) -> Result<PlaceAddress, CommandFailure> {
        self.address.clone().completed(&place.s3).map_err(CommandFailure::Usage)
    }

    /// The configuration, if it says how to reach the backups.
    fn config(&self, paths: ConfigPaths) -> Option<ConfigPaths> {
        self.address.folder().is_none().then_some(paths)
    }
}

#[derive(Debug, Args)]
pub struct BackupCreateArgs {
    #[command(flatten)]
    pub place: BackupPlace,
    /// Then remove all backups but the newest N, as `backup prune` does
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub keep: Option<usize>,
}

#[derive(Debug, Args)]
pub struct BackupPruneArgs {
    #[command(flatten)]
    pub place: BackupPlace,
    /// How many backups stay: the newest N
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub keep: usize,
}

/// Parses the number of backups to keep. It is at least one; otherwise a prune would leave nothing to restore.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least one backup stays".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("a number of backups is expected".to_owned()),
    }
}

#[derive(Debug, Args)]
pub struct BackupListArgs {
    #[command(flatten)]
    pub place: BackupPlace,
    #[command(flatten)]
    pub form: ListFormArgs,
}

#[derive(Debug, Args)]
pub struct BackupRestoreArgs {
    #[command(flatten)]
    pub place: BackupPlace,
    /// Restore the state as of this position or time [default: the newest backup]
    #[arg(long, value_name = "POSITION|TIME")]
    pub at: Option<AsOf>,
    /// Restore without the keys of personal fields, if they are damaged: nobody can read these fields any more
    #[arg(long)]
    pub without_keys: bool,
}

impl BackupSubcommand {
    /// The command, and the configuration that it needs.
    pub fn parts(self) -> (Option<ConfigPaths>, BackupCommand) {
        match self {
            Self::Create { place, args } => (Some(place), BackupCommand::Create(args)),
            Self::List { place, args } => (args.place.config(place), BackupCommand::List(args)),
            Self::Verify { place, args } => (args.config(place), BackupCommand::Verify(args)),
            Self::Prune { place, args } => (args.place.config(place), BackupCommand::Prune(args)),
            Self::Restore { place, args } => (Some(place), BackupCommand::Restore(args)),
        }
    }
}

pub async fn run(
    command: &BackupCommand,
    place: &LogPlace,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    match command {
        BackupCommand::Create(args) => create::run(args, place, now, out).await,
        BackupCommand::List(args) => list::run(args, place, out),
        BackupCommand::Verify(args) => verify::run(args, place, out),
        BackupCommand::Prune(args) => prune::run(args, place, out),
        BackupCommand::Restore(args) => restore::run(args, place, now, out).await,
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> CommandFailure + '_ {
    move |error| CommandFailure::File { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_an_object_store_needs_the_configuration() {
        let config = |address: &str| {
            let place = BackupPlace { address: address.parse().unwrap() };
            place.config(ConfigPaths::default()).is_some()
        };
        assert!(!config("/srv/backups"));
        assert!(config("s3://cold/backups"));
    }
}
