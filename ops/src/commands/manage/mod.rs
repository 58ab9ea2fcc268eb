//! `chronova manage`: what operators and their automation ask of `nova-manage`, with its sub-commands, options, outputs
//! and exit codes.
//!
//! There are three kinds of sub-commands. Those that read or change the running cloud call the running server. Those
//! about cells answer for the one cell that there is. Those about databases have nothing to do, because the event log
//! needs no synchronisation. They say so in one sentence on standard error, and exit with the code on which automation
//! depends. The only exception is `db archive_deleted_rows`, which moves old events of the log into its archive.

mod archiving;
mod cells;
mod cloud;
mod databases;
mod dates;
mod image_property;
mod keystone;
mod libvirt;
mod limits;
mod logging;
mod options;
mod placement;
mod pretty_table;
mod transport;
mod volume_attachment;

use std::io::{self, Write};

use clap::{Args, CommandFactory, Parser, Subcommand};

use super::CommandFailure;
use crate::config::Config;

pub(super) use cloud::{RefusedRequest, RunningCloud};
pub use logging::LoggingOptions;
pub use options::{NovaOptions, files_last};
pub(super) use pretty_table::{Align, PrettyTable};

/// The exit code of a sub-command, from Nova's documentation of it.
pub type ManageExit = u8;

/// Nova's code for an error that a sub-command does not document.
const UNEXPECTED: ManageExit = 255;

/// Do what nova-manage does, with its options, outputs and exit codes.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct ManageArgs {
    #[command(flatten)]
    pub options: NovaOptions,
    #[command(subcommand)]
    pub category: ManageCategory,
}

/// The command line of the program under the name `nova-manage`.
#[derive(Debug, Parser)]
#[command(name = "nova-manage", version)]
pub struct NovaManage {
    #[command(flatten)]
    pub args: ManageArgs,
}

/// The categories.
#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum ManageCategory {
    /// The main database.
    #[command(subcommand, arg_required_else_help = true)]
    Db(databases::DbCommand),
    /// The API database.
    #[command(subcommand, arg_required_else_help = true)]
    ApiDb(databases::ApiDbCommand),
    /// The cells.
    #[command(subcommand, name = "cell_v2", arg_required_else_help = true)]
    CellV2(cells::CellCommand),
    /// The allocations and aggregates of Placement.
    #[command(subcommand, arg_required_else_help = true)]
    Placement(placement::PlacementCommand),
    /// The machine types of servers.
    #[command(subcommand, arg_required_else_help = true)]
    Libvirt(libvirt::LibvirtCommand),
    /// The volumes of servers.
    #[command(subcommand, arg_required_else_help = true)]
    VolumeAttachment(volume_attachment::VolumeAttachmentCommand),
    /// The image properties that servers keep.
    #[command(subcommand, arg_required_else_help = true)]
    ImageProperty(image_property::ImagePropertyCommand),
    /// The limits of projects.
    #[command(subcommand, arg_required_else_help = true)]
    Limits(limits::LimitsCommand),
    /// Print the version.
    Version,
    /// Print the words that complete a line: the categories, or the sub-commands of one.
    #[command(name = "bash-completion")]
    BashCompletion { query_category: Option<String> },
}

/// Runs the sub-command. Writes its failure to standard error and to the log.
pub fn run(args: &ManageArgs, config: &Config) -> ManageExit {
    let cloud = RunningCloud::new(config, args.options.access());
    let mut out = io::BufWriter::new(io::stdout().lock());
    let (done, unexpected) = perform(&args.category, &cloud, &mut out);
    match done.and_then(|code| Ok(out.flush().map(|()| code)?)) {
        Ok(code) => code,
        // `nova-manage cell_v2 list_cells | head`: the reader has closed the pipe.
        Err(CommandFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(failure) => {
            tracing::error!(error = %failure, "the sub-command failed");
            crate::output::complain(&format!("{failure}\n"));
            unexpected
        }
    }
}

/// Performs the sub-command. Also returns the exit code of an unexpected failure.
fn perform(
    category: &ManageCategory,
    cloud: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> (Result<ManageExit, CommandFailure>, ManageExit) {
    match category {
        ManageCategory::Db(command) => (databases::run(command, cloud.config, out), UNEXPECTED),
        ManageCategory::ApiDb(command) => (databases::run_api(command, out), UNEXPECTED),
        ManageCategory::CellV2(command) => (cells::run(command, cloud, out), command.unexpected()),
        ManageCategory::Placement(command) => (placement::run(command, cloud, out), command.unexpected()),
        ManageCategory::Libvirt(command) => (libvirt::run(command, cloud, out), 1),
        ManageCategory::VolumeAttachment(command) => (volume_attachment::run(command, cloud, out), 1),
        ManageCategory::ImageProperty(command) => (image_property::run(command, cloud, out), 1),
        ManageCategory::Limits(command) => (limits::run(command, cloud, out), 1),
        ManageCategory::Version => (version(out), UNEXPECTED),
        ManageCategory::BashCompletion { query_category } => (completion(query_category.as_deref(), out), UNEXPECTED),
    }
}

fn version(out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    writeln!(out, "{}", env!("CARGO_PKG_VERSION"))?;
    Ok(0)
}

fn completion(category: Option<&str>, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    let command = NovaManage::command();
    let words = |of: &clap::Command| {
        let names = of.get_subcommands().map(clap::Command::get_name);
        names.filter(|name| !matches!(*name, "version" | "bash-completion" | "help")).collect::<Vec<_>>().join(" ")
    };
    match category {
        None => writeln!(out, "{}", words(&command))?,
        Some(name) => {
            if let Some(found) = command.find_subcommand(name) {
                writeln!(out, "{}", words(found))?;
            }
        }
    }
    Ok(0)
}
