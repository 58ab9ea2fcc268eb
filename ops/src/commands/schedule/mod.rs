//! `chronova schedule`: what the scheduler would do, without doing it.
//!
//! `--dry-run` decides for one flavor (and image, hints, zone) on the cell as the log leaves it, and tells why.
//! `--replay` makes every decision of a stretch of the log again, with another configuration or another fleet, and reports
//! what would have differed. Both read the log only, beside a running server if need be; the scheduler is the server's own,
//! and a decision follows from read models, request and options alone.

mod alternative;
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

use super::when::When;
use super::{CommandFailure, Exit};
use crate::config::{self, Config, Severity};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(group(clap::ArgGroup::new("how").required(true).args(["dry_run", "replay"])))]
pub struct Args {
    /// Say where a server would go now, and why
    #[arg(long, requires = "flavor", help_heading = "What if")]
    pub dry_run: bool,
    /// Its flavor, by name or id
    #[arg(long, value_name = "FLAVOR", help_heading = "What if")]
    pub flavor: Option<String>,
    /// Its image, by name or id
    #[arg(long, value_name = "IMAGE", help_heading = "What if")]
    pub image: Option<String>,
    /// Whose server it would be
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
    /// So many servers, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "What if")]
    pub count: u32,

    /// Make the decisions of the log again, and say what would have differed
    #[arg(long, help_heading = "Replay")]
    pub replay: bool,
    /// Those from then on; what is older stays as it was
    #[arg(long, value_name = "TIME", help_heading = "Replay")]
    pub since: Option<When>,
    /// Those until then
    #[arg(long, value_name = "TIME", help_heading = "Replay")]
    pub until: Option<When>,
    /// With this configuration instead of that of --config-file; may be repeated, later files win
    #[arg(long, value_name = "FILE", help_heading = "Replay")]
    pub config: Vec<PathBuf>,
    /// On these hosts instead of the real ones: sim://N?vcpus=64&memory_mib=262144&disk_gib=4096
    #[arg(long, value_name = "URI", help_heading = "Replay", conflicts_with = "dry_run")]
    pub fleet: Option<SimUri>,
    /// How many differences are listed
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Replay")]
    pub limit: usize,

    /// As JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// The options of the scheduler, and of the inventories it sees.
#[derive(Debug, Clone)]
pub struct Rules {
    pub scheduler: SchedulerOptions,
    /// The rest of the options: ratios and reserves, of which the inventories of another fleet are made.
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

/// Does what `args` ask for, by `rules` unless they name other ones.
pub async fn run(
    args: &Args,
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
