//! `db` and `api_db`, for databases that Chronova does not have. The event log needs no synchronisation, because the
//! server raises an older log by itself. It needs no online migration, because old events are read in their own version.
//! Its old events can be archived ([`super::archiving`]), and nothing purges them.

use std::io::Write;
use std::time::Duration;

use chronova_events::store::sqlite::FORMAT;
use chronova_events::store::sqlite::retention::MovePace;
use clap::Subcommand;

use super::super::retention::prune::PruneEnd;
use super::archiving::{self, ArchiveRequest};
use super::{Align, CommandFailure, ManageExit, PrettyTable, UNEXPECTED, dates};
use crate::config::Config;
use crate::output::complain;

/// The most rows that Nova accepts: the largest value of an INTEGER column.
const MOST_ROWS: i64 = 0x7FFF_FFFF;
/// The code for input that cannot be used.
const BAD_INPUT: ManageExit = 127;

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum DbCommand {
    /// Print the version of the event log's form.
    Version,
    /// Synchronise the main database: there is nothing to do.
    Sync {
        /// Accepted; there is no cell database.
        #[arg(long = "local_cell", alias = "local-cell")]
        local_cell: bool,
        /// Accepted; there is no cell database.
        #[arg(long = "database_connection", alias = "database-connection", value_name = "URL")]
        database_connection: Option<String>,
        version: Option<String>,
    },
    /// Move old events of the log into its archive, as `chronova log prune` does.
    ArchiveDeletedRows {
        #[arg(
            long = "max_rows",
            alias = "max-rows",
            value_name = "NUMBER",
            default_value_t = 1000,
            allow_negative_numbers = true
        )]
        max_rows: i64,
        /// A date, as YYYY-MM-DD [HH:mm:ss] or as `date` prints it.
        #[arg(long, value_name = "DATE")]
        before: Option<String>,
        #[arg(long)]
        verbose: bool,
        #[arg(long = "until-complete")]
        until_complete: bool,
        #[arg(long)]
        purge: bool,
        #[arg(long = "all-cells")]
        all_cells: bool,
        #[arg(long = "task-log")]
        task_log: bool,
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        sleep: u64,
    },
    /// Purge archived rows: archived events stay.
    Purge {
        #[arg(long)]
        all: bool,
        /// A date, as YYYY-MM-DD [HH:mm:ss] or as `date` prints it.
        #[arg(long, value_name = "DATE")]
        before: Option<String>,
        #[arg(long)]
        verbose: bool,
        #[arg(long = "all-cells")]
        all_cells: bool,
    },
    /// Migrate data in place: there is nothing to do.
    OnlineDataMigrations {
        #[arg(long = "max-count", value_name = "NUMBER")]
        max_count: Option<String>,
    },
    /// Refused: Chronova drives no bare metal.
    IronicComputeNodeMove {
        #[arg(long = "ironic-node-uuid", value_name = "UUID")]
        ironic_node_uuid: Option<String>,
        #[arg(long = "destination-host", value_name = "HOST")]
        destination_host: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub enum ApiDbCommand {
    /// Print the version of the event log's form.
    Version,
    /// Synchronise the API database: there is nothing to do.
    Sync { version: Option<String> },
}

pub(super) fn run(command: &DbCommand, config: &Config, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    match command {
        DbCommand::Version => version(out),
        DbCommand::Sync { version, .. } => Ok(sync(version.as_deref())),
        DbCommand::ArchiveDeletedRows { max_rows, before, verbose, until_complete, sleep, .. } => {
            let pause = until_complete.then(|| Duration::from_secs(*sleep));
            archive((*max_rows, pause), before.as_deref(), *verbose, config, out)
        }
        DbCommand::Purge { all, before, .. } => purge(*all, before.as_deref(), out),
        DbCommand::OnlineDataMigrations { max_count } => migrate(max_count.as_deref(), out),
        DbCommand::IronicComputeNodeMove { .. } => {
            complain("Chronova drives no bare metal, so there is no Ironic node to move.\n");
            Ok(UNEXPECTED)
        }
    }
}

pub(super) fn run_api(command: &ApiDbCommand, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    match command {
        ApiDbCommand::Version => version(out),
        ApiDbCommand::Sync { version } => Ok(sync(version.as_deref())),
    }
}

fn version(out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    complain("Chronova has an event log instead of databases; this is the version of its form.\n");
    writeln!(out, "{FORMAT}")?;
    Ok(0)
}

/// Refuses a number, which was the form of a version before alembic. Nova refuses it, too.
fn sync(version: Option<&str>) -> ManageExit {
    if let Some(number) = version.filter(|text| text.parse::<u64>().is_ok()) {
        complain(&format!("You should use an alembic version, not {number}.\n"));
        return UNEXPECTED;
    }
    complain("Chronova has no database to synchronise: its server raises an older event log by itself.\n");
    0
}

/// `pause`: between two batches; `None`: there is one batch.
fn archive(
    (max_rows, pause): (i64, Option<Duration>),
    before: Option<&str>,
    verbose: bool,
    config: &Config,
    out: &mut dyn Write,
) -> Result<ManageExit, CommandFailure> {
    if max_rows < 0 {
        writeln!(out, "Must supply a positive value for max_rows")?;
        return Ok(2);
    }
    if max_rows > MOST_ROWS {
        writeln!(out, "max rows must be <= {MOST_ROWS}")?;
        return Ok(2);
    }
    let before = match before.map(dates::parse).transpose() {
        Ok(before) => before,
        Err(error) => {
            writeln!(out, "Invalid value for --before: {error}")?;
            return Ok(4);
        }
    };
    let rows = u64::try_from(max_rows).unwrap_or_default();
    let (most, pace) = match pause {
        Some(pause) if rows > 0 => (None, MovePace { batch: rows, pause }),
        _ => (Some(rows), MovePace::default()),
    };
    let told = verbose && pause.is_some();
    if told {
        write!(out, "Archiving..")?;
        out.flush()?;
    }
    let end = archiving::run(&ArchiveRequest { before, most, pace, verbose }, config)?;
    if told {
        // Nova writes a dot for each batch.
        let batches = if let PruneEnd::Moved(events) = end { events.div_ceil(rows.max(1)) } else { 0 };
        (0..batches).try_for_each(|_| write!(out, "."))?;
        writeln!(out, ".complete")?;
    }
    match end {
        PruneEnd::Different => {
            complain("Nothing was archived: the checkpoint of the read models differs from the log.\n");
            Ok(UNEXPECTED)
        }
        PruneEnd::Nothing | PruneEnd::Moved(0) => {
            if verbose {
                writeln!(out, "Nothing was archived.")?;
            }
            Ok(0)
        }
        PruneEnd::Moved(events) => {
            if verbose {
                let mut table = PrettyTable::new(Align::Centre, &["Table", "Number of Rows Archived"]);
                table.row(vec!["events".to_owned(), events.to_string()]);
                write!(out, "{}", table.render())?;
            }
            Ok(1)
        }
    }
}

fn purge(all: bool, before: Option<&str>, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    if before.is_none() && !all {
        writeln!(out, "Either --before or --all is required")?;
        return Ok(1);
    }
    if let Some(Err(error)) = before.map(dates::parse) {
        writeln!(out, "Invalid value for --before: {error}")?;
        return Ok(2);
    }
    complain("Chronova purges no archived events: `chronova audit erase` erases personal data in them.\n");
    Ok(3)
}

fn migrate(max_count: Option<&str>, out: &mut dyn Write) -> Result<ManageExit, CommandFailure> {
    match max_count.map(str::parse::<u64>) {
        None => writeln!(out, "Running batches of 50 until complete")?,
        Some(Ok(1..)) => {}
        Some(_) => {
            writeln!(out, "Must supply a positive value for max_number")?;
            return Ok(BAD_INPUT);
        }
    }
    write!(out, "{}", PrettyTable::new(Align::Centre, &["Migration", "Total Needed", "Completed"]).render())?;
    complain("Chronova migrates no data in place: it reads old events in their own version.\n");
    Ok(0)
}
