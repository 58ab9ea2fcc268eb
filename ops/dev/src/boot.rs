//! `chronova-dev boot`: builds servers until they are ACTIVE, and deletes them until they are gone, over HTTP on a
//! durable log.
//!
//! The simulated hosts answer at once, so the figures are those of the control plane. Every client creates a server,
//! polls until it is ACTIVE and creates the next one. Nova's figures were measured in the same way. At the end, a burst
//! requests the same number of servers without waiting for any. The server's CPU time includes the polling.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::live::client::LoadClient;
use super::live::cloud::{Furniture, LoadedCloud};
use super::live::load::{self, LoadLimit};
use super::live::pause;
use super::meter::Run;
use super::raw;
use super::report::{Aim, BenchLine, BenchReport};
use super::settings::Common;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct BootBenchArgs {
    /// Servers built in one run
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    servers: u32,
    /// Clients
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    clients: u16,
    /// Simulated hosts
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hosts: u32,
    /// An empty PostgreSQL database for the log, instead of SQLite; only with `--runs 1`
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

/// The first pause between two polls of a server. Each further pause is one and a half times as long as the one before.
const LOOK: Duration = Duration::from_millis(4);
const LONGEST_LOOK: Duration = Duration::from_millis(50);
/// A server that takes longer counts as lost.
const PATIENCE: Duration = Duration::from_mins(10);

pub(super) fn run(common: &Common, args: &BootBenchArgs) -> Result<BenchReport> {
    anyhow::ensure!(args.database.is_none() || common.runs == 1, "--database needs --runs 1: each run needs a new log");
    let servers = common.sized(args.servers as usize, 24);
    let clients = usize::from(args.clients);
    let fleet = fleet(args.hosts);
    let mut report =
        BenchReport::new("boot").setting("servers", &servers).setting("clients", &clients).setting("hosts", &fleet);
    let raw = raw::append_and_sync(&common.folder(), 4096, common.sized(300, 20))?;
    let raw = f64::from(u32::try_from(raw.operations)?) / raw.elapsed.as_secs_f64();
    let mut all = Vec::new();
    for _ in 0..common.runs {
        let mut cloud = LoadedCloud::new(common.scratch()?, &fleet)?;
        if let Some(url) = &args.database {
            cloud.store_in(url, &fleet)?;
        }
        all.push(once(cloud, args.hosts as usize, servers, clients)?);
    }
    let each = |of: fn(&Boots) -> &Run| all.iter().map(|boots| of(boots).clone()).collect::<Vec<Run>>();
    let line = |name: &str, of: fn(&Boots) -> &Run| BenchLine::new(format!("{name}, {clients} clients"), each(of));
    report.lines.push(
        line("build until ACTIVE", |boots| &boots.build)
            .raw("append 4096 bytes and sync", raw)
            .aim(Aim::PerSecond(500.0)),
    );
    report
        .lines
        .push(line("build until ACTIVE: CPU", |boots| &boots.build).aim(Aim::CpuWithin(Duration::from_millis(2))));
    report.lines.push(line("delete until gone", |boots| &boots.delete));
    report.lines.push(line("asked for at once, until all are ACTIVE", |boots| &boots.burst));
    report.notes.push("CPU and memory are those of the server's process".to_owned());
    Ok(report)
}

/// A fleet with room for 40,000 servers a host. A host reports each of its processors, so hosts with many more of them
/// would need megabytes of memory that no real host needs.
pub(super) fn fleet(hosts: u32) -> String {
    format!("sim://{hosts}?vcpus=10000&memory_mib=100000000&disk_gib=10000000")
}

struct Boots {
    build: Run,
    delete: Run,
    burst: Run,
}

fn once(mut cloud: LoadedCloud, hosts: usize, servers: usize, clients: usize) -> Result<Boots> {
    cloud.start()?;
    cloud.wait_for_hosts(hosts)?;
    let furniture = cloud.furnish()?;
    // This warm-up is not measured, because the process still reads code from the disk and takes memory from the
    // system.
    let (_, warm) = build(&cloud, &furniture, clients, clients * 4)?;
    delete(&cloud, clients, &warm)?;
    let (build, ids) = build(&cloud, &furniture, clients, servers)?;
    let delete = delete(&cloud, clients, &ids)?;
    let burst = burst(&cloud, &furniture, clients, servers)?;
    cloud.stop()?;
    Ok(Boots { build, delete, burst })
}

/// Builds servers; returns their ids.
pub(super) fn build(
    cloud: &LoadedCloud,
    furniture: &Furniture,
    clients: usize,
    servers: usize,
) -> Result<(Run, Vec<String>)> {
    let ids = Mutex::new(Vec::with_capacity(servers));
    let run = load::clients(cloud, clients, LoadLimit::Count(servers), |client, number| {
        let asked = client.post("/compute/v2.1/servers", &furniture.server(&format!("boot-{number}")))?;
        let id = asked.expect(202)?.text("/server/id")?;
        until_active(client, &id)?;
        ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        Ok(())
    })?;
    Ok((run, ids.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

pub(super) fn until_active(client: &mut LoadClient, id: &str) -> Result<()> {
    let path = format!("/compute/v2.1/servers/{id}");
    let mut look = LOOK;
    let begun = Instant::now();
    loop {
        pause(look);
        let status = client.get(&path)?.expect(200)?.text("/server/status")?;
        match status.as_str() {
            "ACTIVE" => return Ok(()),
            "BUILD" if begun.elapsed() < PATIENCE => look = (look * 3 / 2).min(LONGEST_LOOK),
            other => bail!("server {id} is {other}"),
        }
    }
}

/// Deletes servers, and waits until they are gone.
pub(super) fn delete(cloud: &LoadedCloud, clients: usize, ids: &[String]) -> Result<Run> {
    load::clients(cloud, clients, LoadLimit::Count(ids.len()), |client, number| {
        let path = format!("/compute/v2.1/servers/{}", ids[number]);
        client.delete(&path)?.expect(204)?;
        let (begun, mut look) = (Instant::now(), LOOK);
        loop {
            pause(look);
            if client.get(&path)?.status == 404 {
                return Ok(());
            }
            anyhow::ensure!(begun.elapsed() < PATIENCE, "server {} never goes", ids[number]);
            look = (look * 3 / 2).min(LONGEST_LOOK);
        }
    })
}

/// Requests all servers without waiting for any. The elapsed time is that from the first request to the last ACTIVE.
pub(super) fn burst(cloud: &LoadedCloud, furniture: &Furniture, clients: usize, servers: usize) -> Result<Run> {
    let cpu = super::live::process::cpu(cloud.pid());
    let begun = Instant::now();
    let asked = load::clients(cloud, clients, LoadLimit::Count(servers), |client, number| {
        client.post("/compute/v2.1/servers", &furniture.server(&format!("burst-{number}")))?.expect(202).map(drop)
    })?;
    cloud.settle()?;
    let cpu = super::live::process::cpu(cloud.pid()).saturating_sub(cpu);
    Ok(Run { elapsed: begun.elapsed(), cpu, ..asked })
}
