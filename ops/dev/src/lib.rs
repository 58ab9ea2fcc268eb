//! `chronova-dev`: the developers' program, which is not installed. It measures Chronova on this machine, generates
//! load, and injects faults (`chaos`).
//!
//! A benchmark measures Chronova's crates in this process, or the `chronova` program as a server over HTTP on the
//! loopback (`api`, `boot`, `mix`, `scale`, `aims`: see [`live`]). If the machine's limit can be measured ([`raw`]),
//! the report shows it beside the figures. A benchmark prints its machine and its settings. Most benchmarks repeat
//! their measurements `--runs` times and print the medians. Apart from the file of `--json-file`, a benchmark writes
//! only to its own temporary folder, and removes that folder.
//!
//! To add a benchmark: write a file with its arguments and `fn run(&Common, &Arguments) ->
//! anyhow::Result<BenchReport>`, then add a variant of [`DevCommand`] and its line in [`measured`]. [`meter`] measures,
//! [`raw`] measures the machine's limits, [`report`] prints.

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
mod copied_servers;
mod cost;
mod disk;
mod live;
mod log;
mod mix;
mod package_files;
mod placement;
mod scale;
mod schedule;
mod world;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;

use machine::MachineInfo;
use settings::Common;

/// Measure Chronova on this machine, load it, and inject faults: a program for its developers.
#[derive(Debug, clap::Parser)]
#[command(name = "chronova-dev", version, max_term_width = 100)]
struct DevArgs {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    which: DevCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DevCommand {
    /// The disk alone: appends that wait until they are durable
    Disk(disk::DiskBenchArgs),
    /// The search for allocation candidates, and claims under contention
    Placement(placement::PlacementBenchArgs),
    /// The event log: durable appends by many writers, replay, rebuild, restart
    Log(log::LogBenchArgs),
    /// Decisions about where servers go, with and without the claim
    Schedule(schedule::ScheduleBenchArgs),
    /// Reading over HTTP: lists, details, allocation candidates, each beside an actix handler with the same bytes
    Api(api::ApiBenchArgs),
    /// Servers built and deleted over HTTP, by several clients, on a durable log
    Boot(boot::BootBenchArgs),
    /// Reads, actions, creations and deletions mixed
    Mix(mix::MixBenchArgs),
    /// Many hosts and many servers in one process
    Scale(scale::ScaleBenchArgs),
    /// Fixed work for a counter of instructions
    Cost(cost::CostBenchArgs),
    /// All performance aims, in one table with Nova's figures
    Aims(aims::AimsArgs),
    /// The man pages and shell completions of the Debian package
    PackageFiles(package_files::PackageFilesArgs),
    /// Append synthetic events to the log of a stopped control plane: for trials of commands on a long log
    FillLog(FillLogArgs),
    /// Copy one server many times into the log and the simulated hosts of a stopped control plane
    CopyServers(CopyServersArgs),
    /// Random operations while hosts and driver calls fail and the control plane is killed: nothing may be stuck or
    /// left behind
    Chaos(chaos::ChaosArgs),
}

#[derive(Debug, clap::Args)]
struct FillLogArgs {
    /// The data folder
    data: std::path::PathBuf,
    /// How many events the log has afterwards
    #[arg(long, value_name = "N")]
    events: u64,
}

#[derive(Debug, clap::Args)]
struct CopyServersArgs {
    /// The data folder of a control plane that has built a server by itself
    data: std::path::PathBuf,
    /// How many servers are added
    #[arg(long, value_name = "N")]
    servers: usize,
    /// How many new projects they belong to
    #[arg(long, value_name = "N", default_value_t = 100)]
    projects: usize,
}

/// Reads the command line, runs the benchmark or the chaos runs, and prints the report. Exit codes: 0 done; 1 a chaos
/// run found a fault; 2 the command could not be carried out.
pub fn run() -> ExitCode {
    let args = DevArgs::parse();
    if let DevCommand::PackageFiles(files) = &args.which {
        return ended(package_files::write(files).map(|()| String::new()));
    }
    if let DevCommand::FillLog(fill) = &args.which {
        return ended(log::fill(&fill.data, fill.events).map(|events| format!("the log has {events} events\n")));
    }
    if let DevCommand::CopyServers(copies) = &args.which {
        let CopyServersArgs { data, servers, projects } = copies;
        let copied = copied_servers::fill(data, *servers, *projects);
        return ended(copied.map(|()| format!("{servers} servers were added\n")));
    }
    if let DevCommand::Chaos(chaos) = &args.which {
        return chaos::run(&args.common, chaos).unwrap_or_else(|error| {
            chronova::output::complain(&format!("chronova-dev: {error:#}\n"));
            ExitCode::from(2)
        });
    }
    ended(measured(&args))
}

fn ended(outcome: Result<String>) -> ExitCode {
    match outcome {
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

fn measured(args: &DevArgs) -> Result<String> {
    let common = &args.common;
    let folder = common.folder();
    raw::check_writable(&folder).with_context(|| format!("nothing can be written to {}", folder.display()))?;
    let machine = MachineInfo::here(&folder);
    let mut report = match &args.which {
        DevCommand::Disk(args) => disk::run(common, args),
        DevCommand::Placement(args) => placement::run(common, args),
        DevCommand::Log(args) => log::run(common, args),
        DevCommand::Schedule(args) => schedule::run(common, args),
        DevCommand::Api(args) => api::run(common, args),
        DevCommand::Boot(args) => boot::run(common, args),
        DevCommand::Mix(args) => mix::run(common, args),
        DevCommand::Scale(args) => scale::run(common, args),
        DevCommand::Cost(args) => cost::run(common, args),
        DevCommand::Aims(args) => aims::run(common, args),
        DevCommand::Chaos(_) | DevCommand::PackageFiles(_) | DevCommand::FillLog(_) | DevCommand::CopyServers(_) => {
            anyhow::bail!("this command measures nothing")
        }
    }?;
    report.settings.push(("runs", common.runs.to_string()));
    let whole = report::json(&report, &machine);
    if let Some(file) = &common.json_file {
        let text = format!("{whole:#}\n");
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(if common.json { format!("{whole:#}\n") } else { report::table(&report, &machine) })
}
