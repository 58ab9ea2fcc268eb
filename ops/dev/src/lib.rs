//! `chronova-dev`: the developers' program, which is not installed. It measures Chronova on this machine, generates load,
//! and injects faults (`chaos`).
//!
//! A benchmark measures Chronova's crates in this process, or the `chronova` program as a server over HTTP on the loopback
//! (`api`, `boot`, `mix`, `scale`, `aims`: see [`live`]). A limit of the machine ([`raw`]) stands beside the figures where
//! there is one. A benchmark prints its machine and its settings, repeats everything `--runs` times and prints the medians.
//! It writes only to a folder of its own and removes that folder.
//!
//! To add a benchmark: write a file with `Args` and `fn run(&Common, &Args) -> anyhow::Result<Report>`, then add a variant
//! of [`Which`] and its line in [`measured`]. [`meter`] measures, [`raw`] knows the machine's limits, [`report`] prints.

pub mod machine;
pub mod meter;
pub mod raw;
pub mod report;
pub mod settings;
pub mod stats;

mod aims;
mod api;
mod boot;
mod chaos;
mod cost;
mod disk;
mod filling;
mod live;
mod log;
mod mix;
mod placement;
mod scale;
mod schedule;
mod world;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;

use machine::Machine;
use settings::Common;

/// Measure Chronova on this machine, load it, and inject faults: a program for its developers.
#[derive(Debug, clap::Parser)]
#[command(name = "chronova-dev", version, max_term_width = 100)]
struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    which: Which,
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// The disk alone: appends that wait until they are durable
    Disk(disk::Args),
    /// The search for allocation candidates, and claims under contention
    Placement(placement::Args),
    /// The event log: durable appends by many writers, replay, rebuild, restart
    Log(log::Args),
    /// Decisions about where servers go, with and without the claim
    Schedule(schedule::Args),
    /// Reading over HTTP: lists, details, allocation candidates, each beside an actix handler with the same bytes
    Api(api::Args),
    /// Servers built and deleted over HTTP, by several clients, on a durable log
    Boot(boot::Args),
    /// Reads, actions, creations and deletions mixed
    Mix(mix::Args),
    /// Many hosts and many servers in one process
    Scale(scale::Args),
    /// Fixed work for a counter of instructions
    Cost(cost::Args),
    /// Everything that this program is to reach, in one table beside Nova
    Aims(aims::Args),
    /// Random operations while hosts die, drivers lie and the control plane is killed: nothing may be stuck or left behind
    Chaos(chaos::Args),
}

/// Reads the command line, runs the benchmark or the chaos runs, and prints the report. Exit codes: 0 done; 1 a chaos run
/// found a fault; 2 the command could not be carried out.
pub fn run() -> ExitCode {
    let args = Args::parse();
    if let Which::Chaos(chaos) = &args.which {
        return chaos::run(&args.common, chaos).unwrap_or_else(|error| {
            chronova::output::complain(&format!("chronova-dev: {error:#}\n"));
            ExitCode::from(2)
        });
    }
    match measured(&args) {
        Ok(text) => {
            chronova::output::print(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            chronova::output::complain(&format!("chronova-dev: {error:#}\n"));
            ExitCode::from(2)
        }
    }
}

fn measured(args: &Args) -> Result<String> {
    let common = &args.common;
    let folder = common.folder();
    raw::check_writable(&folder).with_context(|| format!("nothing can be written to {}", folder.display()))?;
    let machine = Machine::here(&folder);
    let mut report = match &args.which {
        Which::Disk(args) => disk::run(common, args),
        Which::Placement(args) => placement::run(common, args),
        Which::Log(args) => log::run(common, args),
        Which::Schedule(args) => schedule::run(common, args),
        Which::Api(args) => api::run(common, args),
        Which::Boot(args) => boot::run(common, args),
        Which::Mix(args) => mix::run(common, args),
        Which::Scale(args) => scale::run(common, args),
        Which::Cost(args) => cost::run(common, args),
        Which::Aims(args) => aims::run(common, args),
        Which::Chaos(_) => anyhow::bail!("a chaos run measures nothing"),
    }?;
    report.settings.push(("runs", common.runs.to_string()));
    let whole = report::json(&report, &machine);
    if let Some(file) = &common.json_file {
        let text = format!("{whole:#}\n");
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(if common.json { format!("{whole:#}\n") } else { report::table(&report, &machine) })
}
