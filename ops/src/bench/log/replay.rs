//! Reading a log of many events back: folds, rebuild, restart.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chronova_events::envelope::{Meta, NewEvent, Position, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::instance::{Instance, InstanceEvent};
use chronova_events::registry::NounEvent;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints};
use chronova_projections::lifelike::Lifelike;
use chronova_projections::progress::Progress;
use chronova_projections::replay::{Until, replay};
use chronova_projections::views::Views;
use futures::StreamExt as _;

use super::super::meter::{Meter, Run};
use super::super::report::{Aim, Line, Report};
use super::super::{Common, in_system};

/// Servers alive at the same time, and how often each is stopped and started.
const FLEET: usize = 10_000;
const CYCLES: u32 = 2;
/// Events read at once, and folded at once.
const BATCH: usize = 4_096;
/// Events that are kept decoded for the folds.
const SAMPLE: usize = 200_000;

pub(super) fn measure(common: &Common, events: u64, report: &mut Report) -> Result<()> {
    let folder = common.scratch()?;
    let path = folder.path().join("log.db");
    crate::output::complain(&format!("\rwriting a log of {events} events "));
    in_system(write(&path, events))?;
    crate::output::complain("\r\x1b[K");
    #[allow(clippy::cast_precision_loss)] // sizes stay far below 2^53
    let bytes = path.metadata()?.len() as f64 / events as f64;
    let checkpoints = Checkpoints::new(folder.path().join("views"), CheckpointOptions::default());

    let folds = common.repeat("fold", || in_system(fold(&path)))?;
    report.lines.push(Line::new("replay.fold", folds).aim(Aim::PerSecond(1_000_000.0)));
    let views = common.repeat("fold into all read models", || in_system(project(&path)))?;
    report.lines.push(Line::new("replay.projections", views));
    let rebuilds = common.repeat("rebuild", || in_system(rebuild(&path, &checkpoints)))?;
    let seconds = rebuilds.first().map_or(0.0, |run| run.elapsed.as_secs_f64());
    let line = Line::new("rebuild", rebuilds).aim(Aim::PerSecond(300_000.0)).figure("bytes per event", bytes);
    report.lines.push(line.figure("seconds of the first run", seconds));
    let restarts = common.repeat("restart", || in_system(restart(&path, &checkpoints, events)))?;
    report.lines.push(Line::new("restart", restarts).aim(Aim::P50Within(Duration::from_secs(2))));
    Ok(())
}

/// A log as a cloud leaves it.
async fn write(path: &Path, events: u64) -> Result<()> {
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let meta = Meta::system("bench");
    let count = usize::try_from(events)?;
    let appends = Lifelike::new(FLEET, CYCLES).take(count).zip(0_i64..).map(|((stream, event), n)| {
        let (store, new) = (Arc::clone(&store), NewEvent::new(event, Timestamp(n * 1_000), &meta));
        async move { store.append(&stream, Expected::Any, vec![new]).await }
    });
    // Streams do not mix up: appends are taken in the order in which they are sent.
    let mut appends = futures::stream::iter(appends).buffered(512);
    while let Some(appended) = appends.next().await {
        appended?;
    }
    drop(appends);
    store.close().await;
    Ok(())
}

/// One operation that is many: all of them took this long.
fn as_one(meter: Meter, operations: u64, began: Instant) -> Run {
    Run { operations, ..meter.stop(vec![began.elapsed()]) }
}

/// The states of all servers in the first part of the log.
async fn fold(path: &Path) -> Result<Run> {
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let all = store.read_all(Position::START, SAMPLE).await?;
    let mut streams: std::collections::BTreeMap<&str, Vec<(&InstanceEvent, Timestamp)>> =
        std::collections::BTreeMap::new();
    for recorded in &all {
        if let Some(event) = InstanceEvent::of(recorded.event()?) {
            streams.entry(recorded.stream.as_str()).or_default().push((event, recorded.recorded_at));
        }
    }
    let (meter, began, mut count) = (Meter::start(), Instant::now(), 0);
    for events in streams.values() {
        let mut state = Instance::default();
        for (event, at) in events {
            state.evolve(event, *at);
            count += 1;
        }
        std::hint::black_box(&state);
    }
    let run = as_one(meter, count, began);
    store.close().await;
    Ok(run)
}

/// All read models from events that are decoded already.
async fn project(path: &Path) -> Result<Run> {
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let all = store.read_all(Position::START, SAMPLE).await?;
    for recorded in &all {
        recorded.event()?;
    }
    let views = Views::new();
    let (meter, began) = (Meter::start(), Instant::now());
    for batch in all.chunks(BATCH) {
        views.apply(batch)?;
    }
    let run = as_one(meter, all.len() as u64, began);
    store.close().await;
    Ok(run)
}

/// All read models from the file, as after a change of their version; keeps them in a checkpoint, which is not counted.
async fn rebuild(path: &Path, checkpoints: &Arc<Checkpoints>) -> Result<Run> {
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let views = Arc::new(Views::new());
    let (meter, began) = (Meter::start(), Instant::now());
    let position = replay(&*store, &views, Until::Head, &Progress::new("replay", 0)).await?;
    let run = as_one(meter, position.0, began);
    if checkpoints.list().0.is_empty() {
        checkpoints.save(&views).context("the checkpoint cannot be written")?;
    }
    store.close().await;
    Ok(run)
}

/// What a start does before it can answer: opens the log, reads the checkpoint, folds what came after it.
async fn restart(path: &Path, checkpoints: &Arc<Checkpoints>, events: u64) -> Result<Run> {
    let (meter, began) = (Meter::start(), Instant::now());
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let opened = checkpoints.open(&*store).await.context("the checkpoint cannot be read")?;
    let views = Arc::new(opened.views);
    replay(&*store, &views, Until::Head, &Progress::new("replay", 0)).await?;
    let run = Run { operations: 1, ..meter.stop(vec![began.elapsed()]) };
    anyhow::ensure!(views.position() == Position(events), "the read models are at {}", views.position());
    store.close().await;
    Ok(run)
}
