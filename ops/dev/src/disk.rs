//! `chronova-dev disk`: measures how fast the disk makes appends durable. No write to the log can be faster.

use anyhow::Result;

use super::raw;
use super::report::{BenchLine, BenchReport};
use super::settings::Common;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct DiskBenchArgs {
    /// Appends in one run
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    appends: u32,
}

pub(super) fn run(common: &Common, args: &DiskBenchArgs) -> Result<BenchReport> {
    let folder = common.folder();
    let appends = common.sized(args.appends as usize, 20);
    let mut report = BenchReport::new("disk").setting("appends", &appends);
    for size in [512, 4096, 65536] {
        let name = format!("append {size} bytes and sync");
        let runs = common.repeat(&name, || Ok(raw::append_and_sync(&folder, size, appends)?))?;
        report.lines.push(BenchLine::new(name, runs));
    }
    Ok(report)
}
