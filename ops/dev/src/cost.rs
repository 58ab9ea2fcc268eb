//! `chronova-dev cost`: fixed work for a counter of instructions.
//!
//! Wall time says little on a machine that others use, but a request always takes about the same number of
//! instructions. `tests/cost/count.sh` runs this command under `valgrind --tool=callgrind` with few and with many
//! rounds. The script compares the difference with the committed figures.

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

use super::meter::{Meter, Run};
use super::report::{BenchLine, BenchReport};
use super::schedule;
use super::settings::Common;
use super::world::{BenchApi, BenchWorld};
use chronova::simulated::registrations;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct CostBenchArgs {
    /// How often each request is made
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    times: u16,
}

const SERVERS: usize = 100;
const HOSTS: usize = 100;
/// The number of events that `fold` and `write` use.
const EVENTS: usize = 2_000;

const REQUESTS: [(&str, &str, &str); 6] = [
    ("versions", "/compute/v2.1/", "compute 2.96"),
    ("flavors-detail", "/compute/v2.1/flavors/detail", "compute 2.96"),
    ("servers-detail-100", "/compute/v2.1/servers/detail", "compute 2.96"),
    ("servers-100", "/compute/v2.1/servers", "compute 2.96"),
    ("server", "", "compute 2.96"),
    ("allocation-candidates", "/placement/allocation_candidates?resources=VCPU:1&limit=10", "placement 1.39"),
];

/// The function in which the profiler counts instructions.
#[inline(never)]
fn counted_stretch<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

pub(super) fn run(common: &Common, args: &CostBenchArgs) -> Result<BenchReport> {
    let times = usize::from(args.times);
    let mut report =
        BenchReport::new("cost").setting("times", &times).setting("servers", &SERVERS).setting("hosts", &HOSTS);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    let scratch = common.scratch()?;
    let (world, api, server) = system.block_on(open(scratch.path()))?;
    for (name, path, version) in REQUESTS {
        let path = if path.is_empty() { format!("/compute/v2.1/servers/{server}") } else { path.to_owned() };
        // This request fills the caches before the count.
        system.block_on(api.get(&path, version, 1))?;
        let meter = Meter::start();
        let (latencies, body) = counted_stretch(|| system.block_on(api.get(&path, version, times)))?;
        anyhow::ensure!(!body.is_empty(), "{path} answers nothing");
        report.lines.push(BenchLine::new(name, vec![meter.stop(latencies)]));
    }
    system.block_on(world.close());
    report.lines.push(BenchLine::new("fold-event", vec![fold()?]));
    report.lines.push(BenchLine::new("write-event", vec![write()?]));
    Ok(report)
}

async fn open(folder: &std::path::Path) -> Result<(BenchWorld, BenchApi, InstanceId)> {
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
    counted_stretch(|| views.apply(&events))?;
    Ok(meter.stop(vec![std::time::Duration::from_nanos(1); EVENTS]))
}

/// Encodes each event, and decodes the bytes again.
fn write() -> Result<Run> {
    let events = events();
    let meter = Meter::start();
    counted_stretch(|| -> Result<()> {
        for recorded in &events {
            let bytes = recorded.event()?.encode()?;
            black_box(Event::decode(&recorded.kind, recorded.version, BINCODE_2, &bytes)?);
        }
        Ok(())
    })?;
    Ok(meter.stop(vec![std::time::Duration::from_nanos(1); EVENTS]))
}
