//! `chronova schedule`: shows scheduling decisions without making them.
//!
//! `--dry-run` selects hosts for one or more servers of one flavor (and image, hints, zone) in the present state of the
//! cell, with the reasons. `--replay` repeats the decisions in a part of the log with another configuration or another
//! fleet, and reports the differences. A build and each move of a server are requests of their own. Both options only
//! read the log, so they work beside a running control plane. They run the control plane's scheduler on read models
//! that they fold from the log. The log has neither the metrics of hosts nor the answers of the scheduler hook, so
//! these do not count here. Random draws are zero.

mod alternative;
mod moves;
mod packing;
mod replay;
mod what_if;

use std::io::Write;
use std::path::PathBuf;

use chronova_actors::runtime::RuntimeOptions;
use chronova_actors::scheduler::SchedulerOptions;
use chronova_events::envelope::Timestamp;
use chronova_events::store::EventStore;
use chronova_hypervisor::sim::SimUri;

use super::moments::MomentArg;
use super::{CommandFailure, Exit};
use crate::config::{self, Config, Severity};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(group(clap::ArgGroup::new("how").required(true).args(["dry_run", "replay"])))]
pub struct ScheduleArgs {
    /// Show which host a server would get now, and why
    #[arg(long, requires = "flavor", help_heading = "What if")]
    pub dry_run: bool,
    /// Its flavor, by name or id
    #[arg(long, value_name = "FLAVOR", help_heading = "What if")]
    pub flavor: Option<String>,
    /// Its image, by name or id
    #[arg(long, value_name = "IMAGE", help_heading = "What if")]
    pub image: Option<String>,
    /// The project of the server
    #[arg(long, value_name = "PROJECT", help_heading = "What if")]
    pub project: Option<String>,
    /// As in the API: ZONE, or ZONE:HOST
    #[arg(long, value_name = "ZONE[:HOST]", help_heading = "What if")]
    pub availability_zone: Option<String>,
    /// A scheduler hint; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "What if")]
    pub hint: Vec<String>,
    /// An extra spec that the flavor would have; may be repeated
    #[arg(long, value_name = "KEY=VALUE", help_heading = "What if")]
    pub extra_spec: Vec<String>,
    /// Number of servers, placed one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "What if")]
    pub count: u32,

    /// Repeat the decisions of the log, and report the differences
    #[arg(long, help_heading = "Replay")]
    pub replay: bool,
    /// Decisions from then on; earlier ones stay as they were
    #[arg(long, value_name = "TIME", help_heading = "Replay")]
    pub since: Option<MomentArg>,
    /// Decisions until then
    #[arg(long, value_name = "TIME", help_heading = "Replay")]
    pub until: Option<MomentArg>,
    /// With this configuration instead of that of --config-file; may be repeated, later files win
    #[arg(long, value_name = "FILE", help_heading = "Replay")]
    pub config: Vec<PathBuf>,
    /// On these hosts instead of the real ones: sim://N?vcpus=64&memory_mib=262144&disk_gib=4096
    #[arg(long, value_name = "URI", help_heading = "Replay", conflicts_with = "dry_run")]
    pub fleet: Option<SimUri>,
    /// Number of differences to list
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Replay")]
    pub limit: usize,

    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// The options of the scheduler and of the hosts' inventories.
#[derive(Debug, Clone)]
pub struct Rules {
    pub scheduler: SchedulerOptions,
    /// The other options. They hold the allocation ratios and reserved amounts for the inventories of another fleet.
    pub options: RuntimeOptions,
}

impl Rules {
    pub fn of(config: &Config) -> Self {
        let options = config.targets().runtime;
        Self { scheduler: options.scheduler.clone(), options }
    }

    fn default_zone(&self) -> &str {
        &self.options.servers.availability_zone
    }
}

/// Runs the command with `rules`, or with the configuration files that `args` name.
pub async fn run(
    args: &ScheduleArgs,
    rules: &Rules,
    store: &dyn EventStore,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    if args.dry_run {
        return what_if::run(args, rules, store, now, out).await;
    }
    let other = if args.config.is_empty() { None } else { Some(load(&args.config)?) };
    replay::run(args, other.as_ref().unwrap_or(rules), store, now, out).await
}

fn load(files: &[PathBuf]) -> Result<Rules, CommandFailure> {
    let loaded = config::load(files).map_err(|invalid| {
        let problems: Vec<String> = invalid.problems.iter().map(ToString::to_string).collect();
        CommandFailure::Usage(format!("{}\n{invalid}", problems.join("\n")))
    })?;
    for remark in loaded.remarks.iter().filter(|remark| remark.severity != Severity::Note) {
        crate::output::complain(&format!("{remark}\n"));
    }
    Ok(Rules::of(&loaded.config))
}
