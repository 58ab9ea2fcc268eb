//! `chronova-dev schedule`: measures decisions about where servers go.
//!
//! The hosts are those of a simulated fleet. The read models know them, but no host agent runs. `decide` measures only
//! the decision (prefilters, candidates, filters, weighers). `place` measures what a process that builds a server does:
//! the decision, and the durable claim in the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::coordination::pending_claims::PendingClaims;
use chronova_actors::hosts::metrics::HostMetrics;
use chronova_actors::instance::InstanceRoot;
use chronova_actors::runtime::RuntimeOptions;
use chronova_actors::scheduler::placing::{SelectionError, SelectionRequest};
use chronova_actors::scheduler::{RequestSpec, SchedulerOptions, choose, filters};
use chronova_events::envelope::Meta;
use chronova_events::ids::{FlavorId, InstanceId, ProcessId, ProjectId, UserId};
use chronova_events::instance::{BuildRequested, DiskConfig, FlavorSnapshot, InstanceEvent, RequestedNetworks};
use chronova_hypervisor::sim::SimUri;

use super::meter::{Meter, Run, measure};
use super::raw;
use super::report::{Aim, BenchLine, BenchReport, thousands};
use super::settings::{Common, in_system};
use super::world::BenchWorld;
use chronova::simulated::registrations;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct ScheduleBenchArgs {
    /// Numbers of hosts to choose among
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    hosts: Vec<u32>,
    /// Servers placed in one run
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    servers: u32,
    /// How many are placed at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    at_once: u32,
}

pub(super) fn run(common: &Common, args: &ScheduleBenchArgs) -> Result<BenchReport> {
    let hosts: Vec<usize> = if common.short { vec![20] } else { args.hosts.iter().map(|n| *n as usize).collect() };
    let servers = common.sized(args.servers as usize, 50);
    let mut report = BenchReport::new("schedule")
        .setting("hosts", &"sim://N: 64 CPUs, 256 GiB of memory, 4 TiB of disk")
        .setting("servers placed in a run", &servers)
        .setting("placed at once", &args.at_once)
        .setting("flavor", &"1 CPU, 512 MiB, 1 GiB")
        .setting("default filters", &filters::DEFAULT.join(", "))
        .setting("full list of filters", &filters::FILTERS.len());
    let raw = raw::append_and_sync(&common.folder(), 4096, common.sized(300, 20))?;
    let raw = f64::from(u32::try_from(raw.operations)?) / raw.elapsed.as_secs_f64();
    for n in hosts {
        for (name, enabled_filters) in [
            ("default filters", filters::DEFAULT.to_vec()),
            ("all filters", filters::FILTERS.iter().map(|filter| filter.name).collect()),
        ] {
            let options = SchedulerOptions { enabled_filters, ..SchedulerOptions::default() };
            let options = RuntimeOptions { scheduler: options, ..RuntimeOptions::default() };
            let title =
                |what: &str| format!("{what}, {} hosts, {name}", thousands(f64::from(u32::try_from(n).unwrap_or(0))));
            let decided = common.repeat_warm(&title("decide"), || {
                let scratch = common.scratch()?;
                in_system(decide_run(scratch.path(), n, &options, common.sized(1_000, 20)))
            })?;
            report.lines.push(BenchLine::new(title("decide"), decided));
            let placed = common.repeat_warm(&title("place"), || {
                let scratch = common.scratch()?;
                in_system(place_run(scratch.path(), n, &options, servers, args.at_once as usize))
            })?;
            let line = BenchLine::new(title("place"), placed).raw("append 4096 bytes and sync", raw);
            report.lines.push(if n == 1_000 { line.aim(Aim::PerSecond(2_000.0)) } else { line });
        }
    }
    Ok(report)
}

async fn decide_run(folder: &std::path::Path, hosts: usize, options: &RuntimeOptions, times: usize) -> Result<Run> {
    let world =
        BenchWorld::open(folder, registrations(&SimUri::new(hosts), &options.hosts).await?, options.clone()).await?;
    let asked = asked(InstanceId::random());
    let (pending, metrics) = (PendingClaims::default(), HostMetrics::default());
    let run = measure(times, |_| {
        let decision = choose(&world.context().views, (&pending, &metrics), &asked.request, &options.scheduler);
        anyhow::ensure!(!decision.ranked.is_empty(), "no suitable host");
        Ok(())
    })?;
    world.close().await;
    Ok(run)
}

async fn place_run(
    folder: &std::path::Path,
    hosts: usize,
    options: &RuntimeOptions,
    servers: usize,
    at_once: usize,
) -> Result<Run> {
    let mut filling = registrations(&SimUri::new(hosts), &options.hosts).await?;
    let ids: Arc<Vec<InstanceId>> = Arc::new((0..servers).map(|_| InstanceId::random()).collect());
    for id in ids.iter() {
        let requested = InstanceEvent::from(build(*id));
        filling.push((InstanceRoot::stream(id), vec![requested.into()]));
    }
    let world = BenchWorld::open(folder, filling, options.clone()).await?;
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    let meter = Meter::start();
    for _ in 0..at_once {
        let (context, next, ids) = (Arc::clone(world.context()), Arc::clone(&next), Arc::clone(&ids));
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                let asked = asked(*id);
                let began = Instant::now();
                match context.scheduler.place(&asked).await {
                    Ok(_) => latencies.push(began.elapsed()),
                    Err(SelectionError::NoHost { reasons, .. }) => bail!("no suitable host: {}", reasons.counts()),
                    Err(SelectionError::NotNow(error)) => bail!("{error}"),
                }
            }
            Ok(latencies)
        });
    }
    let mut latencies = Vec::with_capacity(servers);
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    let run = meter.stop(latencies);
    world.close().await;
    Ok(run)
}

fn asked(server: InstanceId) -> SelectionRequest {
    let build = build(server);
    SelectionRequest {
        request: RequestSpec::of_build(&build, &std::collections::BTreeSet::new(), "nova"),
        server,
        project: build.project,
        user: build.user,
        process: build.process,
        attempt: 1,
        reservation: build.reservation,
        batch: 1,
        launch_index: 0,
        meta: Meta::system("bench"),
    }
}

pub(super) fn build(instance: InstanceId) -> BuildRequested {
    BuildRequested {
        instance,
        process: ProcessId::derive(instance.0, "build"),
        number: 1,
        reservation: "r-bench000".to_owned(),
        launch_index: 0,
        batch: 1,
        project: ProjectId::new("bench"),
        user: UserId::new("bench"),
        name: "bench".to_owned(),
        hostname: "bench".to_owned(),
        description: None,
        flavor: std::sync::Arc::new(FlavorSnapshot {
            id: FlavorId::new("1"),
            name: "tiny".to_owned(),
            vcpus: 1,
            memory_mib: 512,
            root_gib: 1,
            ephemeral_gib: 0,
            swap_mib: 0,
            extra_specs: vec![],
        }),
        image: None,
        key: None,
        user_data: None,
        config_drive: false,
        networks: RequestedNetworks::None,
        security_groups: vec![],
        metadata: vec![],
        tags: vec![],
        availability_zone: None,
        forced_host: None,
        requested_host: None,
        scheduler_hints: vec![],
        disk_config: DiskConfig::Manual,
        access_ip_v4: None,
        access_ip_v6: None,
        trusted_certs: vec![],
    }
}
