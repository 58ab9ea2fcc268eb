//! `chronova-dev cost`: fixed work for a counter of instructions.
//!
//! Wall time says little on a machine that others use, but a request always takes about the same number of
//! instructions. `tests/cost/count.sh` runs this command under `valgrind --tool=callgrind`. Each part does few rounds
//! of its work and then many. The script compares the difference with the committed figures.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::instance::InstanceRoot;
use chronova_actors::runtime::RuntimeOptions;
use chronova_events::codec::BINCODE_2;
use chronova_events::envelope::{Meta, Position, Recorded, Revision, Timestamp};
use chronova_events::ids::{EventId, InstanceId, ProjectId};
use chronova_events::instance::{BuildSucceeded, InstanceEvent, Placed};
use chronova_events::registry::Event;
use chronova_hypervisor::sim::SimUri;
use chronova_projections::synthetic_log::SyntheticEvents;
use chronova_projections::views::Views;

use super::cost_cloud::CostCloud;
use super::meter::{Meter, Run};
use super::report::{BenchLine, BenchReport};
use super::schedule;
use super::settings::Common;
use super::world::{BenchApi, BenchWorld};
use chronova::simulated::registrations;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct CostBenchArgs {
    /// The rounds of each part, first few and then many
    #[arg(long, value_name = "N", num_args = 2, default_values_t = [5, 25], value_parser = clap::value_parser!(u16).range(1..=10_000))]
    times: Vec<u16>,
}

/// The parts in their order, as `tests/cost/instructions.txt` names them.
const PARTS: [&str; 5] = ["requests", "list", "candidates", "boot", "delete"];

const SERVERS: usize = 100;
const HOSTS: usize = 100;
/// The number of events that `fold` and `write` use.
const EVENTS: usize = 2_000;

/// Enough boots that later ones find their caches filled.
const WARM_BOOTS: usize = 3;

/// Name, path (empty for one server) and version.
type BenchRequest = (&'static str, &'static str, &'static str);

const SEARCH: [BenchRequest; 1] = [(
    "allocation-candidates-100",
    "/placement/allocation_candidates?resources=VCPU:1,MEMORY_MB:512",
    "placement 1.39",
)];

const REQUESTS: [BenchRequest; 6] = [
    ("versions", "/compute/v2.1/", "compute 2.96"),
    ("flavors-detail", "/compute/v2.1/flavors/detail", "compute 2.96"),
    ("servers-detail-100", "/compute/v2.1/servers/detail", "compute 2.96"),
    ("servers-100", "/compute/v2.1/servers", "compute 2.96"),
    ("server", "", "compute 2.96"),
    ("allocation-candidates", "/placement/allocation_candidates?resources=VCPU:1&limit=10", "placement 1.39"),
];

/// The profiler writes what all threads have counted since the last call, and begins again.
#[inline(never)]
fn end_stretch(part: &str) {
    black_box(part);
}

/// A round of the part is one of each of these requests.
fn requests_of(part: &str) -> &'static [BenchRequest] {
    match part {
        "requests" => &REQUESTS,
        "list" => &REQUESTS[2..3],
        _ => &SEARCH,
    }
}

pub(super) fn run(common: &Common, args: &CostBenchArgs) -> Result<BenchReport> {
    let times: Vec<String> = args.times.iter().map(ToString::to_string).collect();
    let mut report = BenchReport::new("cost")
        .setting("times", &times.join(" and "))
        .setting("servers", &SERVERS)
        .setting("hosts", &HOSTS);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    let scratch = common.scratch()?;
    let (world, api, server) = system.block_on(open(&scratch.path().join("reads")))?;
    for part in &PARTS[..3] {
        let round = |times: usize| {
            for (_, path, version) in requests_of(part) {
                let path = if path.is_empty() { format!("/compute/v2.1/servers/{server}") } else { (*path).to_owned() };
                let (_, body) = system.block_on(api.get(&path, version, times))?;
                anyhow::ensure!(!body.is_empty(), "{path} answers nothing");
            }
            Ok(())
        };
        // The first round fills the caches.
        round(1)?;
        report.lines.push(BenchLine::new(*part, vec![stretches(part, &args.times, round)?]));
    }
    system.block_on(world.close());
    let cloud = system.block_on(CostCloud::open(&scratch.path().join("boots")))?;
    system.block_on(cloud.boot(WARM_BOOTS))?;
    let boots = stretches("boot", &args.times, |times| system.block_on(cloud.boot(times)))?;
    report.lines.push(BenchLine::new("boot", vec![boots]));
    let deletes = stretches("delete", &args.times, |times| system.block_on(cloud.delete(times)))?;
    report.lines.push(BenchLine::new("delete", vec![deletes]));
    system.block_on(cloud.close());
    report.lines.push(BenchLine::new("fold-event", vec![fold()?]));
    report.lines.push(BenchLine::new("write-event", vec![write()?]));
    Ok(report)
}

/// Does the rounds of one part, first few and then many.
fn stretches(part: &str, times: &[u16], round: impl Fn(usize) -> Result<()>) -> Result<Run> {
    let mut durations = Vec::new();
    end_stretch(part);
    let meter = Meter::start();
    for times in times {
        let began = std::time::Instant::now();
        round(usize::from(*times))?;
        durations.push(began.elapsed());
        end_stretch(part);
    }
    Ok(meter.stop(durations))
}

async fn open(folder: &std::path::Path) -> Result<(BenchWorld, BenchApi, InstanceId)> {
    std::fs::create_dir_all(folder)?;
    let options = RuntimeOptions::default();
    let mut filling = registrations(&SimUri::new(HOSTS), &options.hosts).await?;
    let uri = SimUri::new(HOSTS);
    let ids: Vec<InstanceId> =
        (0..SERVERS).map(|number| InstanceId::derive(uuid::Uuid::nil(), &number.to_string())).collect();
    for (number, id) in ids.iter().enumerate() {
        let mut request = schedule::build(*id);
        (request.project, request.name) = (ProjectId::new("admin"), format!("server-{number}"));
        let process = request.process;
        let placed = Placed {
            process,
            host: uri.host_id(number % HOSTS),
            hostname: uri.hostname(number % HOSTS),
            attempt: 1,
            availability_zone: "nova".to_owned(),
        };
        let events: [InstanceEvent; 3] = [request.into(), placed.into(), BuildSucceeded { process }.into()];
        filling.push((InstanceRoot::stream(id), events.map(Event::from).to_vec()));
    }
    let world = BenchWorld::open(folder, filling, options).await?;
    let api = world.api()?;
    Ok((world, api, *ids.first().context("no server")?))
}

fn events() -> Vec<Arc<Recorded>> {
    let meta = Meta::system("bench");
    let recorded = SyntheticEvents::new(20, 1).take(EVENTS).zip(1_u64..).map(|((stream, event), position)| {
        Arc::new(Recorded {
            position: Position(position),
            stream,
            revision: Revision(position),
            id: EventId(uuid::Uuid::from_u128(u128::from(position))),
            kind: event.kind().into(),
            version: event.version(),
            codec: BINCODE_2,
            recorded_at: Timestamp(1),
            meta: Arc::clone(&meta),
            data: bytes::Bytes::new(),
            hash: None,
            keys: None,
            decoded: Arc::new(event).into(),
        })
    });
    recorded.collect()
}

/// Folds the events of servers' lives into all read models.
fn fold() -> Result<Run> {
    let (events, views) = (events(), Views::new());
    let meter = Meter::start();
    views.apply(&events)?;
    Ok(meter.stop(vec![std::time::Duration::from_nanos(1); EVENTS]))
}

/// Encodes each event, and decodes the bytes again.
fn write() -> Result<Run> {
    let events = events();
    let meter = Meter::start();
    for recorded in &events {
        let bytes = recorded.event()?.encode()?;
        black_box(Event::decode(&recorded.kind, recorded.version, BINCODE_2, &bytes)?);
    }
    Ok(meter.stop(vec![std::time::Duration::from_nanos(1); EVENTS]))
}
