//! `chronova bench`: how fast, how much CPU, how much memory, on this machine.
//!
//! What is measured is this program, in this process or (`api`, `boot`, `mix`, `scale`, `aims`: see [`live`]) as a server of
//! its own over HTTP on the loopback, and a limit of the machine (`raw`) stands beside it where there is one. A benchmark prints what it ran on and with which settings, does
//! everything `--runs` times and prints the medians. It writes only to a folder of its own, which it removes.
//!
//! Adding one: a file with `Args` and `fn run(&Common, &Args) -> anyhow::Result<Report>`, a variant of [`Which`] and its
//! line in [`run`]. [`meter`] measures, [`raw`] knows what the machine does, [`report`] prints.

pub mod machine;
pub mod meter;
pub mod raw;
pub mod report;
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

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use machine::Machine;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    which: Which,
}

/// What every benchmark takes.
#[derive(Debug, Clone, clap::Args)]
pub struct Common {
    /// Print JSON instead of the table
    #[arg(long, global = true)]
    pub json: bool,
    /// Write the JSON to a file as well
    #[arg(long, global = true, value_name = "FILE")]
    pub json_file: Option<PathBuf>,
    /// How often everything is done; the figures are the medians
    #[arg(long, global = true, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,
    /// Folder on the disk to measure; what is written there is removed [default: the folder for temporary files]
    #[arg(long, global = true, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Smaller sizes and fewer operations: shows that it works, in seconds
    #[arg(long, global = true)]
    pub short: bool,
}

impl Common {
    /// The disk to measure.
    pub fn folder(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// A folder of its own on the disk to measure; gone when dropped.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        let parent = self.folder();
        tempfile::Builder::new()
            .prefix("chronova-bench-")
            .tempdir_in(&parent)
            .with_context(|| format!("nothing can be written to {}", parent.display()))
    }

    /// Does `once` as often as was asked for, and says on standard error how far it is.
    pub fn repeat<T>(&self, what: &str, mut once: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
        (1..=self.runs)
            .map(|run| {
                crate::output::complain(&format!("\r{what}: run {run} of {} ", self.runs));
                let done = once();
                crate::output::complain("\r\x1b[K");
                done.with_context(|| what.to_owned())
            })
            .collect()
    }

    /// As [`Common::repeat`], with a first time that does not count: caches fill, memory is taken from the system.
    pub fn repeat_warm<T>(&self, what: &str, mut once: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
        once().with_context(|| what.to_owned())?;
        self.repeat(what, once)
    }

    /// One number for the whole benchmark, another one for the short form.
    pub fn sized<T>(&self, whole: T, short: T) -> T {
        if self.short { short } else { whole }
    }
}

#[derive(Debug, clap::Subcommand)]
enum Which {
    /// What the disk does without this program: appends that wait until they are durable
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

/// Runs a benchmark and prints what it found.
pub fn run(args: &Args) -> ExitCode {
    if let Which::Chaos(chaos) = &args.which {
        return chaos::run(&args.common, chaos).unwrap_or_else(|error| {
            crate::output::complain(&format!("chronova: {error:#}\n"));
            ExitCode::from(2)
        });
    }
    match measured(args) {
        Ok(text) => {
            crate::output::print(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            crate::output::complain(&format!("chronova: {error:#}\n"));
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

/// Runs `work` as the server runs: an actix system on a tokio runtime with several threads.
pub fn in_system<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no threads")?;
    actix_rt::System::with_tokio_rt(move || runtime).block_on(work)
}
