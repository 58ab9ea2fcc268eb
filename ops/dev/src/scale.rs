//! `chronova-dev scale`: many hosts and many servers in one process.
//!
//! The benchmark first registers hosts. It requests many servers at once over the API. Then it fills the log with
//! copied servers ([`copied_servers`](super::copied_servers)). The control plane folds them, stops, and starts again.
//! Lists, a steady mix of requests, and further builds follow. After another start, one host in a hundred stops
//! answering, and the mix is repeated. Last, the control plane is killed and starts again. Each line of the report
//! measures one of these steps.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::live::cloud::LoadedCloud;
use super::live::process::ProcessMemory;
use super::meter::Run;
use super::mix::Mix;
use super::report::{Aim, BenchLine, BenchReport, thousands};
use super::settings::Common;
use super::stats::Latencies;
use super::{api, boot, copied_servers};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ScaleBenchArgs {
    /// Simulated hosts
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    hosts: u32,
    /// Servers in the end
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    servers: u32,
    /// Servers built over the API
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    storm: u32,
    /// Projects that the filled servers belong to
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    projects: u32,
    /// Seconds per measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
}

/// Clients of the storm and of the mix.
const CLIENTS: usize = 8;

pub(super) fn run(common: &Common, args: &ScaleBenchArgs) -> Result<BenchReport> {
    let size = Size {
        hosts: common.sized(args.hosts, 10),
        servers: common.sized(args.servers, 60),
        storm: common.sized(args.storm, 20),
        projects: common.sized(args.projects, 3),
        time: if common.short { Duration::from_millis(300) } else { Duration::from_secs(args.seconds) },
    };
    let mut report = BenchReport::new("scale")
        .setting("hosts", &size.hosts)
        .setting("servers", &size.servers)
        .setting("of these built over the API", &size.storm)
        .setting("projects of the others", &size.projects);
    scaled(common, size, &mut report)?;
    report.notes.push(
        "CPU and memory are those of the server's process, the simulated hosts and their guests included".to_owned(),
    );
    Ok(report)
}

/// The benchmark waits no longer than this until the lost hosts are marked as down.
const LOSS: Duration = Duration::from_mins(5);

/// The number of hosts that keep answering.
fn healthy(hosts: u32) -> u32 {
    hosts - hosts.div_ceil(100)
}

/// Two fleets: the healthy hosts, and the hosts that will stop answering.
fn fleets(hosts: u32, ill: &str) -> String {
    let size = "vcpus=1000&memory_mib=1000000&disk_gib=100000";
    format!("sim://{}?{size} sim://{}?name=ill&{size}{ill}", healthy(hosts), hosts.div_ceil(100))
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) hosts: u32,
    pub(super) servers: u32,
    pub(super) storm: u32,
    pub(super) projects: u32,
    pub(super) time: Duration,
}

/// The figures that `aims` takes from this benchmark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scaled {
    pub(super) bytes_per_server: f64,
}

pub(super) fn scaled(common: &Common, size: Size, report: &mut BenchReport) -> Result<Scaled> {
    let hosts = |ill: &str| fleets(size.hosts, ill);
    let fleet = hosts("");
    let mut cloud = LoadedCloud::new(common.scratch()?, &fleet)?;
    cloud.start()?;
    let empty = cloud.memory();
    let (began, cpu) = (Instant::now(), super::live::process::cpu(cloud.pid()));
    cloud.wait_for_hosts(size.hosts as usize)?;
    let registered = stretch(&cloud, u64::from(size.hosts), began, cpu);
    let with_hosts = cloud.memory();
    let line = BenchLine::new(format!("{} hosts register", number(size.hosts)), vec![registered]);
    report.lines.push(line.figure("bytes of memory per host", per(with_hosts, empty, size.hosts)));

    let furniture = cloud.furnish()?;
    boot::build(&cloud, &furniture, 1, 1)?;
    let (log, begun) = (log_bytes(&cloud), cloud.memory());
    let (storm, ids) = boot::build(&cloud, &furniture, CLIENTS, size.storm as usize)?;
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let growth = (log_bytes(&cloud) - log) as f64 / f64::from(size.storm.max(1));
    let line = BenchLine::new(format!("storm: {} servers built, {CLIENTS} clients", number(size.storm)), vec![storm]);
    let line = line.figure("bytes of log per server built", growth);
    report.lines.push(line.figure("bytes of memory per server built", per(cloud.memory(), begun, size.storm)));
    cloud.stop()?;
    let small = started(&mut cloud)?;
    report.lines.push(BenchLine::new(format!("restart, {} servers", number(size.storm)), vec![small]));
    let before = settled(&cloud);
    cloud.stop()?;

    let more = size.servers.saturating_sub(size.storm);
    let begun = Instant::now();
    copied_servers::fill(&cloud.data(), more as usize, size.projects as usize)?;
    let filled = Run { operations: u64::from(more), elapsed: begun.elapsed(), ..Run::default() };
    let line = BenchLine::new(format!("fill: {} servers' events appended", number(more)), vec![filled]);
    #[allow(clippy::cast_precision_loss)]
    let size_of_log = log_bytes(&cloud) as f64;
    report.lines.push(line.figure("bytes of log in all", size_of_log));
    let folded = started(&mut cloud)?;
    report
        .lines
        .push(BenchLine::new(format!("first start: {} servers folded from the log", number(more)), vec![folded]));
    let stopped = cloud.stop()?;
    let again = started(&mut cloud)?;
    let line = BenchLine::new(format!("restart, {} servers", number(size.servers)), vec![again]);
    let line = line.figure("seconds to end in order", stopped.as_secs_f64());
    report.lines.push(line);
    cloud.wait_for_hosts(size.hosts as usize)?;
    let after = settled(&cloud);
    let bytes_per_server = per(after, before, more);

    let reads = api::Reads { common, cloud: &cloud, time: size.time };
    let project = "/compute/v2.1/servers/detail?limit=100";
    let lines = [
        reads.get("GET servers/detail?limit=100, own project", project, 1)?,
        reads.get("GET servers?limit=1000, all projects", "/compute/v2.1/servers?all_tenants=1&limit=1000", 1)?,
        reads.get("GET servers/detail?limit=100, all projects", &format!("{project}&all_tenants=1"), 1)?,
        reads.get(
            "allocation_candidates?limit=10",
            "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:64&limit=10",
            1,
        )?,
    ];
    report.lines.extend(lines);
    let mix = Mix::new(ids);
    let mixed = mix.run(&cloud, &furniture, CLIENTS, size.time)?;
    let line = BenchLine::new(format!("mix, {CLIENTS} clients"), vec![mixed]);
    report.lines.push(line.figure("bytes of memory per server", bytes_per_server));
    let (more_built, _) = boot::build(&cloud, &furniture, CLIENTS, common.sized(2_000, 16))?;
    report.lines.push(
        BenchLine::new(format!("build until ACTIVE, {CLIENTS} clients"), vec![more_built]).aim(Aim::PerSecond(500.0)),
    );
    // After the next start, one host in a hundred stops answering at its third heartbeat.
    cloud.stop()?;
    cloud.configure(&hosts("&fail=usage:die-n3"))?;
    cloud.start()?;
    let (begun, healthy) = (Instant::now(), healthy(size.hosts) as usize);
    // Right after the start, hosts may count as down. So the wait for the dead hosts begins when more hosts are up than
    // will survive.
    cloud.wait_for_hosts(healthy + 1)?;
    let mut up = cloud.hosts_up()?;
    while up > healthy && begun.elapsed() < LOSS {
        super::live::pause(Duration::from_secs(1));
        up = cloud.hosts_up()?;
    }
    let seen = begun.elapsed();
    let mut lost = BenchLine::new(format!("mix, {CLIENTS} clients, one host in a hundred dead"), vec![]);
    lost.runs.push(mix.run(&cloud, &furniture, CLIENTS, size.time)?);
    if up <= healthy {
        lost = lost.figure("seconds until all of them are seen to be down", seen.as_secs_f64());
    } else {
        let late = format!("{} dead hosts were still up {} s after the start", up - healthy, seen.as_secs());
        report.notes.push(late);
    }
    report.lines.push(lost);
    cloud.kill()?;
    let crashed = started(&mut cloud)?;
    report.lines.push(BenchLine::new("start after a crash in the middle".to_owned(), vec![crashed]));
    cloud.stop()?;
    Ok(Scaled { bytes_per_server })
}

fn number(of: u32) -> String {
    thousands(f64::from(of))
}

/// A run that lasted from `began` until now.
fn stretch(cloud: &LoadedCloud, operations: u64, began: Instant, cpu: Duration) -> Run {
    let cpu = super::live::process::cpu(cloud.pid()).saturating_sub(cpu);
    let memory = cloud.memory();
    let latencies = Latencies::of(vec![began.elapsed()]);
    Run { operations, elapsed: began.elapsed(), cpu, latencies, resident_kib: memory.rss, peak_kib: memory.peak }
}

/// Starts the control plane. The run has one operation, which lasts until the first answer.
fn started(cloud: &mut LoadedCloud) -> Result<Run> {
    let took = cloud.start()?;
    let (memory, cpu) = (cloud.memory(), super::live::process::cpu(cloud.pid()));
    let latencies = Latencies::of(vec![took]);
    Ok(Run { operations: 1, elapsed: took, cpu, latencies, resident_kib: memory.rss, peak_kib: memory.peak })
}

/// Waits until the memory changes by less than half a percent in a second, at most 30 seconds. Returns the memory.
fn settled(cloud: &LoadedCloud) -> ProcessMemory {
    let mut memory = cloud.memory();
    for _ in 0..30 {
        super::live::pause(Duration::from_secs(1));
        let now = cloud.memory();
        if now.rss.abs_diff(memory.rss) * 200 < now.rss {
            return now;
        }
        memory = now;
    }
    memory
}

/// The memory in bytes that each of `count` things added.
fn per(after: ProcessMemory, before: ProcessMemory, count: u32) -> f64 {
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let bytes = after.rss.saturating_sub(before.rss) as f64 * 1024.0;
    bytes / f64::from(count.max(1))
}

/// Bytes of the log: the database file and its write-ahead log.
fn log_bytes(cloud: &LoadedCloud) -> u64 {
    let size = |name: &str| std::fs::metadata(cloud.data().join(name)).map_or(0, |file| file.len());
    size("log.db") + size("log.db-wal")
}
