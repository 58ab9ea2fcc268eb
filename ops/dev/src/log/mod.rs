//! `chronova-dev log`: measures durable appends, and how fast a log is read, folded and restarted from.
//!
//! Each append figure has two references from the same run, measured in turns. The first is plain SQLite with the same
//! table and bytes. Each of its transactions has as many events as there are writers. The second only writes and syncs
//! the bytes.

mod append;
mod replay;

use anyhow::Result;

pub(super) use self::replay::fill;

use super::report::BenchReport;
use super::settings::Common;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct LogBenchArgs {
    /// Numbers of writers that append at the same time
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1_u32, 8, 64, 512])]
    writers: Vec<u32>,
    /// Appends in one run, for each number of writers [default: about two seconds' worth on a fast disk]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    appends: Option<u32>,
    /// Numbers of events in the logs whose rebuild and restart are measured, smallest first; 0 leaves this out
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1_000_000_u64], value_parser = clap::value_parser!(u64).range(0..=100_000_000))]
    events: Vec<u64>,
    /// A PostgreSQL database without a log of a cloud, to measure appends there, too
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Only the logs of --events, no appends
    #[arg(long)]
    no_appends: bool,
}

pub(super) fn run(common: &Common, args: &LogBenchArgs) -> Result<BenchReport> {
    let mut sizes: Vec<u64> = args.events.iter().map(|events| common.sized(*events, *events.min(&5_000))).collect();
    sizes.retain(|events| *events > 0);
    sizes.sort_unstable();
    sizes.dedup();
    let shown: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let mut report = BenchReport::new("log").setting("events", &shown.join(", "));
    if !args.no_appends {
        append::measure(common, &args.writers, args.appends, args.database.as_deref(), &mut report)?;
    }
    replay::measure(common, &sizes, &mut report)?;
    report.notes.push(
        "append.N: N writers, each waits until its event is durable; of raw: plain SQLite, N in a transaction".into(),
    );
    report.notes.push("append.N.disk: the bytes of N events written to a file and synced, without SQLite".into());
    if args.database.is_some() {
        report
            .notes
            .push("append.N.postgres: the same in the database; of raw: one INSERT of N rows of these bytes".into());
    }
    if !sizes.is_empty() {
        report.notes.push("replay.fold: events of servers, decoded before, into their states, on one core".into());
        report.notes.push("replay.projections: decoded events into all read models, on one core".into());
        let more = [
            "rebuild.N: a log of N events from the disk, decoded, into all read models; .sqlite: its rows, read by SQLite",
            "restart.N: log and checkpoint until requests could be answered; .disk: the bytes of the checkpoint",
            "restart.N.killed: the same after a kill, with the oldest checkpoint that a kill can leave",
            "as-of.N: all servers at the position that is farthest after a checkpoint, once that checkpoint is loaded",
        ];
        report.notes.extend(more.map(str::to_owned));
    }
    Ok(report)
}
