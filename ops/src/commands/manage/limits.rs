//! `limits`: Chronova keeps the limits of projects in its own log, so it copies none to Keystone.

use std::io::Write;

use clap::Subcommand;

use super::cloud::RunningCloud;
use super::{CommandFailure, ManageExit};

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum LimitsCommand {
    /// Refused: Chronova reads no limits from Keystone.
    MigrateToUnifiedLimits {
        #[arg(long = "project-id", value_name = "ID")]
        project_id: Option<String>,
        #[arg(long = "region-id", value_name = "ID")]
        region_id: Option<String>,
        #[arg(long)]
        verbose: bool,
        #[arg(long = "dry-run")]
        dry_run: bool,
        #[arg(long)]
        quiet: bool,
        #[arg(long = "no-embedded-flavor-scan")]
        no_embedded_flavor_scan: bool,
    },
}

pub(super) fn run(
    command: &LimitsCommand,
    _: &RunningCloud<'_>,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    let LimitsCommand::MigrateToUnifiedLimits { verbose, quiet, .. } = command;
    if *verbose && *quiet {
        writeln!(out, "--verbose and --quiet are mutually exclusive")?;
        return Ok(1);
    }
    if !quiet {
        writeln!(out, "Chronova reads no limits from Keystone, so none were migrated: quotas stay as they are.")?;
    }
    Ok(1)
}
