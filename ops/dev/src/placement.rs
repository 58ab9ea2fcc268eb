//! `chronova-dev placement`: measures the search for allocation candidates, and claims.
//!
//! A flat host is one provider with CPUs, memory and disk. A nested host is four providers: the host with the disk, two
//! NUMA nodes with CPUs and memory, and a network card with virtual functions. All hosts have forty traits, as libvirt
//! hosts do. Every thousandth host has one more trait, which the selective request requires.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use chronova_actors::aggregate::{AggregateRoot as _, CommandError};
use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot, ServerClaim};
use chronova_actors::runtime::RuntimeOptions;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ConsumerId, ProjectId, ProviderId, UserId};
use chronova_events::ledger::{
    Allocation, Claimed, Inventory, InventoryReplaced, LedgerEvent, ProviderCreated, TraitCreated, TraitsReplaced,
};
use chronova_projections::placement::candidates::{CandidatesRequest, RequestGroup, TraitFilter, search};
use uuid::Uuid;

use super::meter::Meter;
use super::raw;
use super::report::{Aim, BenchLine, BenchReport, thousands};
use super::settings::{Common, in_system};
use super::world::{BenchWorld, Filling};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct PlacementBenchArgs {
    /// Numbers of hosts to search among
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    hosts: Vec<u32>,
    /// Claims in one run
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    claims: u32,
    /// Number of clients that claim at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    claimers: u32,
}

const VERSION: &str = "placement 1.39";
const LIMIT: usize = 1_000;
const RARE: &str = "CUSTOM_BENCH_RARE";
const FLAT: &str = "resources=VCPU:2,MEMORY_MB:2048,DISK_GB:20";
const NESTED: &str = "resources=DISK_GB:20&resources_N0=VCPU:2,MEMORY_MB:2048&resources_N1=VCPU:2,MEMORY_MB:2048\
                      &resources_NET=SRIOV_NET_VF:1&group_policy=isolate";
const SELECTIVE: &str = "resources=VCPU:2,MEMORY_MB:2048,DISK_GB:20&required=CUSTOM_BENCH_RARE";

pub(super) fn run(common: &Common, args: &PlacementBenchArgs) -> Result<BenchReport> {
    let hosts: Vec<usize> = if common.short { vec![50] } else { args.hosts.iter().map(|n| *n as usize).collect() };
    let mut report = BenchReport::new("placement")
        .setting("limit of a search", &LIMIT)
        .setting("claims", &common.sized(args.claims, 200))
        .setting("claimers at once", &args.claimers)
        .setting("flat request", &FLAT)
        .setting("nested request", &NESTED);
    for shape in [TreeShape::Flat, TreeShape::Nested] {
        for n in &hosts {
            search_lines(common, &mut report, shape, *n)?;
        }
    }
    claim_lines(common, args, &mut report)?;
    report.notes.push(
        "`search` is the search alone; `request` is GET /allocation_candidates from routing to the bytes of the answer, in \
         this process."
            .to_owned(),
    );
    Ok(report)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TreeShape {
    Flat,
    Nested,
}

impl TreeShape {
    fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Nested => "nested",
        }
    }

    fn query(self) -> &'static str {
        match self {
            Self::Flat => FLAT,
            Self::Nested => NESTED,
        }
    }

    fn request(self, rare: bool) -> CandidatesRequest {
        let group = |suffix: &str, resources: &[(&str, u64)]| RequestGroup {
            suffix: suffix.to_owned(),
            resources: resources.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect(),
            ..RequestGroup::default()
        };
        let numa = [("VCPU", 2), ("MEMORY_MB", 2048)];
        let mut groups = match self {
            Self::Flat => vec![group("", &[("VCPU", 2), ("MEMORY_MB", 2048), ("DISK_GB", 20)])],
            Self::Nested => vec![
                group("", &[("DISK_GB", 20)]),
                group("_N0", &numa),
                group("_N1", &numa),
                group("_NET", &[("SRIOV_NET_VF", 1)]),
            ],
        };
        if rare {
            groups[0].traits = TraitFilter { required: vec![[RARE.to_owned()].into()], ..TraitFilter::default() };
        }
        CandidatesRequest { groups, limit: Some(LIMIT), isolate: self == Self::Nested, ..CandidatesRequest::default() }
    }
}

fn search_lines(common: &Common, report: &mut BenchReport, shape: TreeShape, hosts: usize) -> Result<()> {
    let times = common.sized(if hosts > 5_000 { 50 } else { 200 }, 5);
    let scratch = common.scratch()?;
    let name = |what: &str| format!("{what}, {} hosts, {}", count(hosts), shape.name());
    let (searched, selective, requested, rare, bytes) = in_system(async {
        let world = BenchWorld::open(scratch.path(), filling(fleet(shape, hosts)), RuntimeOptions::default()).await?;
        let placement = &world.context().views.placement;
        let search_runs = |rare: bool| {
            let request = shape.request(rare);
            let searched = |_| {
                let found = placement.read(|placement| search(&placement.index, &request));
                anyhow::ensure!(!found.candidates.is_empty(), "the search finds no candidates");
                Ok(())
            };
            common.repeat_warm(&name("search"), || super::meter::measure(times, searched))
        };
        let (searched, selective) = (search_runs(false)?, search_runs(true)?);
        let api = world.api()?;
        let mut requested = Vec::new();
        let mut bytes = 0;
        let path = format!("/placement/allocation_candidates?{}&limit={LIMIT}", shape.query());
        for run in 0..=common.runs {
            let meter = Meter::start();
            let (latencies, body) = api.get(&path, VERSION, times).await?;
            // The first run is a warm-up.
            if run > 0 {
                requested.push(meter.stop(latencies));
            }
            bytes = body.len();
        }
        let mut rare = Vec::new();
        if shape == TreeShape::Flat {
            let path = format!("/placement/allocation_candidates?{SELECTIVE}&limit={LIMIT}");
            for _ in 0..common.runs {
                let meter = Meter::start();
                rare.push(meter.stop(api.get(&path, VERSION, times).await?.0));
            }
        }
        world.close().await;
        Ok((searched, selective, requested, rare, bytes))
    })?;
    report.lines.push(BenchLine::new(name("search"), searched));
    report.lines.push(BenchLine::new(name("search for a rare trait"), selective));
    let line =
        BenchLine::new(name("request"), requested).figure("bytes of the answer", f64::from(u32::try_from(bytes)?));
    let goal = Aim::P50Within(Duration::from_millis(5));
    report.lines.push(if hosts == 1_000 && shape == TreeShape::Flat { line.aim(goal) } else { line });
    if !rare.is_empty() {
        report.lines.push(BenchLine::new(name("request for a rare trait"), rare));
    }
    Ok(())
}

fn count(number: usize) -> String {
    u32::try_from(number).map_or_else(|_| number.to_string(), |number| thousands(f64::from(number)))
}

// -------------------------------------------------------------------------------------------------------------- claims

/// The hosts whose resources the clients claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimTarget {
    /// The claims go to all hosts in turn.
    Spread,
    /// All claims are for the same host, which has room for half of them.
    OneHost,
}

fn claim_lines(common: &Common, args: &PlacementBenchArgs, report: &mut BenchReport) -> Result<()> {
    let claims = common.sized(args.claims as usize, 200);
    let claimers = args.claimers as usize;
    let raw = raw::append_and_sync(&common.folder(), 4096, common.sized(300, 20))?;
    let raw = f64::from(u32::try_from(raw.operations)?) / raw.elapsed.as_secs_f64();
    for (name, target, claimers) in [
        ("claims, one after the other".to_owned(), ClaimTarget::Spread, 1),
        (format!("claims, {claimers} at once, 1,000 hosts"), ClaimTarget::Spread, claimers),
        (format!("claims, {claimers} at once, one host"), ClaimTarget::OneHost, claimers),
    ] {
        let claims = if claimers == 1 { claims.min(common.sized(1_000, 50)) } else { claims };
        let mut refused = 0;
        let runs = common.repeat_warm(&name, || {
            let scratch = common.scratch()?;
            let (run, refused_in_run) = in_system(claim_run(scratch.path(), target, claims, claimers))?;
            refused = refused_in_run;
            Ok(run)
        })?;
        let line = BenchLine::new(name, runs).raw("append 4096 bytes and sync", raw);
        report.lines.push(line.figure("refused for want of room", f64::from(u32::try_from(refused)?)));
    }
    Ok(())
}

async fn claim_run(
    folder: &std::path::Path,
    target: ClaimTarget,
    claims: usize,
    claimers: usize,
) -> Result<(super::meter::Run, usize)> {
    let room = u64::try_from(match target {
        ClaimTarget::Spread => claims,
        ClaimTarget::OneHost => claims / 2,
    })?;
    let mut events = fleet(TreeShape::Flat, 1_000);
    let wide = |n| InventoryReplaced {
        provider: host(n),
        inventories: [("DISK_GB", 20), ("MEMORY_MB", 2_048), ("VCPU", 2)]
            .map(|(class, each)| inventory(class, room * each))
            .to_vec(),
    };
    events.extend((0..1_000).map(|n| LedgerEvent::from(wide(n))));
    let world = BenchWorld::open(folder, filling(events), RuntimeOptions::default()).await?;
    let (next, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    let meter = Meter::start();
    for _ in 0..claimers {
        let (context, next, refused) = (Arc::clone(world.context()), Arc::clone(&next), Arc::clone(&refused));
        tasks.spawn(async move {
            let meta = Meta::system("bench");
            let mut latencies = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= claims {
                    return Ok(latencies);
                }
                let host = host(if target == ClaimTarget::OneHost { 0 } else { number % 1_000 });
                let began = Instant::now();
                let claim = ServerClaim { claim: claim(host), group: None, guest: None };
                let command = LedgerCommand::ClaimAll { claims: vec![claim] };
                match context.gateway.send::<LedgerRoot>(&CELL, command, Arc::clone(&meta)).await {
                    Ok(_) => {}
                    Err(CommandError::Rejected(_)) => _ = refused.fetch_add(1, Ordering::Relaxed),
                    Err(error) => return Err(anyhow::anyhow!("{error}")),
                }
                latencies.push(began.elapsed());
            }
        });
    }
    let mut latencies = Vec::with_capacity(claims);
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    let run = meter.stop(latencies);
    world.close().await;
    Ok((run, refused.load(Ordering::Relaxed)))
}

fn claim(provider: ProviderId) -> Claimed {
    let resources = [("DISK_GB", 20), ("MEMORY_MB", 2_048), ("VCPU", 2)];
    Claimed {
        consumer: ConsumerId::new(Uuid::new_v4().to_string()),
        project: ProjectId::new("bench"),
        user: UserId::new("bench"),
        consumer_type: Some("INSTANCE".to_owned()),
        allocations: vec![Allocation {
            provider,
            resources: resources.map(|(class, amount)| (class.to_owned(), amount)).to_vec(),
        }],
    }
}

// --------------------------------------------------------------------------------------------------------------- fleet

/// The id of a host, equal in every run. The ids are not in the order of the hosts, as in a real cloud.
fn host(n: usize) -> ProviderId {
    ProviderId::derive(Uuid::from_u128(0xbe7c), &format!("host-{n}"))
}

fn inventory(class: &str, total: u64) -> Inventory {
    Inventory {
        class: class.to_owned(),
        total,
        reserved: 0,
        min_unit: 1,
        max_unit: total,
        step_size: 1,
        allocation_ratio: 1.0,
    }
}

fn filling(events: Vec<LedgerEvent>) -> Filling {
    vec![(LedgerRoot::stream(&CELL), events.into_iter().map(Into::into).collect())]
}

/// The events that create the hosts.
fn fleet(shape: TreeShape, hosts: usize) -> Vec<LedgerEvent> {
    let mut events = vec![TraitCreated { name: RARE.to_owned() }.into()];
    let usual: Vec<String> = (0..40).map(|n| format!("CUSTOM_CPU_CAPABILITY_{n:02}")).collect();
    for n in 0..hosts {
        let root = host(n);
        let mut provider = |id: ProviderId, name: String, parent, has: &[(&str, u64)]| {
            events.push(ProviderCreated { provider: id, name, parent }.into());
            let inventories = has.iter().map(|(class, total)| inventory(class, *total)).collect();
            events.push(InventoryReplaced { provider: id, inventories }.into());
        };
        // Hosts have different sizes.
        let size = 1 + u64::try_from(n % 4).unwrap_or(0);
        match shape {
            TreeShape::Flat => {
                let has = [("DISK_GB", 1_000 * size), ("MEMORY_MB", 65_536 * size), ("VCPU", 16 * size)];
                provider(root, format!("host-{n}"), None, &has);
            }
            TreeShape::Nested => {
                provider(root, format!("host-{n}"), None, &[("DISK_GB", 1_000 * size)]);
                let child = |name: &str| ProviderId::derive(root.0, name);
                for numa in ["numa0", "numa1"] {
                    let has = [("MEMORY_MB", 32_768 * size), ("VCPU", 8 * size)];
                    provider(child(numa), format!("host-{n}-{numa}"), Some(root), &has);
                }
                provider(child("card"), format!("host-{n}-card"), Some(root), &[("SRIOV_NET_VF", 8)]);
            }
        }
        let mut traits = usual.clone();
        if n % 1_000 == 0 {
            traits.insert(0, RARE.to_owned());
        }
        events.push(TraitsReplaced { provider: root, traits }.into());
    }
    events
}
