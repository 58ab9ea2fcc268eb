//! `chronova-dev aims`: measures all performance aims, in one table with Nova's figures.
//!
//! Nova's figures come from the same measurements on a machine with two cores. Four compute services ran there with the
//! fake driver (`docs/performance.md`). The long parts (a log of many events, a million servers) come last.

use std::time::Duration;

use anyhow::Result;

use super::live::cloud::LoadedCloud;
use super::meter::Run;
use super::report::{Aim, BenchLine, BenchReport, thousands};
use super::settings::Common;
use super::stats::Latencies;
use super::{api, boot, copied_servers, scale};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct AimsArgs {
    /// Events of the log with which a start is measured
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    events: u64,
    /// Servers whose memory is measured; 0 leaves that out
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    servers: u32,
    /// Seconds per measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    seconds: u64,
}

/// Simulated hosts of the measured control plane.
const HOSTS: usize = 4;

/// One row of the table.
struct AimRow {
    what: &'static str,
    nova: &'static str,
    aim: &'static str,
    ours: String,
    reached: bool,
}

pub(super) fn run(common: &Common, args: &AimsArgs) -> Result<BenchReport> {
    let time = if common.short { Duration::from_millis(200) } else { Duration::from_secs(args.seconds) };
    let mut report = BenchReport::new("aims").setting("seconds per measurement", &time.as_secs_f64());
    let mut rows = Vec::new();
    let mut small = common.clone();
    // A long measurement runs only once.
    small.runs = 1;
    boots_and_memory(common, &mut report, &mut rows)?;
    reads(common, time, &mut report, &mut rows)?;
    starts(&small, common.sized(args.events, 2_000), &mut report, &mut rows)?;
    if args.servers > 0 {
        million(&small, common.sized(args.servers, 60), time, &mut report, &mut rows)?;
    }
    report.notes.extend(table(&rows));
    Ok(report)
}

fn boots_and_memory(common: &Common, report: &mut BenchReport, rows: &mut Vec<AimRow>) -> Result<()> {
    let servers = common.sized(1_000, 24);
    let (mut idle, mut full, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    common.repeat("boots", || {
        let mut cloud = LoadedCloud::new(common.scratch()?, &boot::fleet(4))?;
        cloud.start()?;
        cloud.wait_for_hosts(HOSTS)?;
        super::live::pause(Duration::from_secs(2));
        idle.push(cloud.memory().pss);
        let furniture = cloud.furnish()?;
        let (_, warm) = boot::build(&cloud, &furniture, 8, 32)?;
        boot::delete(&cloud, 8, &warm)?;
        runs.push(boot::build(&cloud, &furniture, 8, servers)?.0);
        full.push(cloud.memory().pss);
        cloud.stop().map(drop)
    })?;
    let middle = |values: &mut Vec<u64>| {
        values.sort_unstable();
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let kib = values.get(values.len() / 2).copied().unwrap_or(0) as f64;
        kib * 1_024.0 / 1e6
    };
    let (idle, full) = (middle(&mut idle), middle(&mut full));
    let line = BenchLine::new("build until ACTIVE, 8 clients", runs).aim(Aim::PerSecond(500.0));
    let (rate, cpu) = (line.per_second().unwrap_or(0.0), line.cpu().unwrap_or(f64::MAX));
    report.lines.push(line.figure("MB of memory idle", idle).figure("MB after a thousand servers", full));
    rows.push(AimRow {
        what: "boots/s until ACTIVE, 8 clients, durable log",
        nova: "1.2",
        aim: "at least 500",
        ours: format!("{rate:.0}"),
        reached: rate >= 500.0,
    });
    rows.push(AimRow {
        what: "server CPU per boot",
        nova: "1,660 ms",
        aim: "at most 2 ms",
        ours: format!("{:.2} ms", cpu / 1e3),
        reached: cpu <= 2_000.0,
    });
    rows.push(AimRow {
        what: "memory idle / after 1,000 servers",
        nova: "2,690 MB / 3,290 MB",
        aim: "at most 40 MB / 60 MB",
        ours: format!("{idle:.0} MB / {full:.0} MB"),
        reached: idle <= 40.0 && full <= 60.0,
    });
    Ok(())
}

fn reads(common: &Common, time: Duration, report: &mut BenchReport, rows: &mut Vec<AimRow>) -> Result<()> {
    let mut cloud = LoadedCloud::new(common.scratch()?, &boot::fleet(4))?;
    cloud.start()?;
    cloud.wait_for_hosts(HOSTS)?;
    let furniture = cloud.furnish()?;
    let reads = api::Reads { common, cloud: &cloud, time };
    let mut row = |line: BenchLine, what, nova, aim, most: f64| {
        let p50 = line.percentile(50).unwrap_or(f64::MAX) / 1e3;
        rows.push(AimRow { what, nova, aim, ours: format!("{p50:.3} ms"), reached: p50 <= most });
        report.lines.push(line);
    };
    let flavors = reads.get("GET flavors/detail", "/compute/v2.1/flavors/detail", 1)?;
    row(flavors, "GET /flavors/detail p50", "18 ms", "at most 0.2 ms", 0.2);
    let identity = reads.get("GET auth/projects", "/identity/v3/auth/projects", 1)?;
    row(identity, "small authenticated GET (identity)", "15 ms", "at most 0.2 ms", 0.2);
    let (hundred, thousand) = (common.sized(100, 10), common.sized(1_000, 20));
    let path = "/compute/v2.1/servers/detail?limit=1000";
    cloud.fill(&furniture, 0, hundred)?;
    let one = reads.get("GET servers/detail, 100 servers", path, 1)?;
    row(one, "GET /servers/detail, 100 servers, p50, one client", "275 ms", "at most 1 ms", 1.0);
    let eight = reads.get("GET servers/detail, 100 servers", path, 8)?;
    let of_raw = eight.ratio().unwrap_or(0.0);
    cloud.fill(&furniture, hundred, thousand)?;
    let large = reads.get("GET servers/detail, 1,000 servers", path, 1)?;
    row(large, "GET /servers/detail, 1,000 servers", "4,190 ms at most", "at most 8 ms", 8.0);
    if let Some(candidates) = reads.candidates(common.sized(1_000, 20))?.into_iter().next() {
        row(candidates, "allocation_candidates, 1,000 providers", "327 ms", "at most 3 ms", 3.0);
    }
    report.lines.push(eight);
    rows.push(AimRow {
        what: "throughput against an actix handler that returns the same bytes",
        nova: "-",
        aim: "at least 0.5",
        ours: format!("{of_raw:.2}"),
        reached: of_raw >= 0.5,
    });
    cloud.stop().map(drop)
}

/// Measures one start, as a run of one operation.
fn start(cloud: &mut LoadedCloud) -> Result<Run> {
    let took = cloud.start()?;
    let memory = cloud.memory();
    let cpu = super::live::process::cpu(cloud.pid());
    let latencies = Latencies::of(vec![took]);
    Ok(Run { operations: 1, elapsed: took, cpu, latencies, resident_kib: memory.rss, peak_kib: memory.peak })
}

fn starts(common: &Common, events: u64, report: &mut BenchReport, rows: &mut Vec<AimRow>) -> Result<()> {
    let mut empty = Vec::new();
    for _ in 0..3 {
        let mut cloud = LoadedCloud::new(common.scratch()?, &boot::fleet(4))?;
        empty.push(start(&mut cloud)?);
        cloud.stop()?;
    }
    let empty = BenchLine::new("start on an empty log", empty);
    let mut cloud = LoadedCloud::new(common.scratch()?, &boot::fleet(100))?;
    cloud.start()?;
    cloud.wait_for_hosts(100)?;
    let furniture = cloud.furnish()?;
    boot::build(&cloud, &furniture, 1, 1)?;
    cloud.stop()?;
    copied_servers::live(&cloud.data(), events, LIVE)?;
    // The first start folds the whole log and leaves a checkpoint.
    let fold = start(&mut cloud)?;
    cloud.stop()?;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(start(&mut cloud)?);
        cloud.stop()?;
    }
    let name = format!("start with {} events", thousands(f64::from(u32::try_from(events)?)));
    let many = BenchLine::new(name, runs)
        .figure("seconds of the first start, which folds all of them", fold.elapsed.as_secs_f64());
    let seconds = |line: &BenchLine| line.percentile(50).unwrap_or(f64::MAX) / 1e6;
    let (none, all) = (seconds(&empty), seconds(&many));
    report.lines.extend([empty, many]);
    rows.push(AimRow {
        what: "cold start to first 200, empty log / 10 million events",
        nova: "34 s",
        aim: "at most 0.3 s / 2 s",
        ours: format!("{none:.2} s / {all:.2} s"),
        reached: none <= 0.3 && all <= 2.0,
    });
    Ok(())
}

/// Servers that exist at the end of the log of many events.
const LIVE: usize = 10_000;

fn million(
    common: &Common,
    servers: u32,
    time: Duration,
    report: &mut BenchReport,
    rows: &mut Vec<AimRow>,
) -> Result<()> {
    let size = scale::Size {
        hosts: common.sized(10_000, 10),
        servers,
        storm: common.sized(10_000, 20),
        projects: common.sized(1_000, 3),
        time,
    };
    let found = scale::scaled(common, size, report)?;
    rows.push(AimRow {
        what: "memory at 1,000,000 servers",
        nova: "-",
        aim: "at most 4 KB per server",
        ours: format!("{:.2} KB per server", found.bytes_per_server / 1e3),
        reached: found.bytes_per_server <= 4_000.0,
    });
    Ok(())
}

fn table(rows: &[AimRow]) -> Vec<String> {
    let reached = rows.iter().filter(|row| row.reached).count();
    let mut lines =
        vec![String::new(), "| what | Nova Zed | aim | Chronova | |".to_owned(), "|---|---|---|---|---|".to_owned()];
    lines.extend(rows.iter().map(|row| {
        let AimRow { what, nova, aim, ours, reached } = row;
        format!("| {what} | {nova} | {aim} | {ours} | {} |", if *reached { "reached" } else { "MISSED" })
    }));
    lines.push(String::new());
    lines.push(format!("{reached} of {} reached", rows.len()));
    lines
}
