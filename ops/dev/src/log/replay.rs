//! Benchmarks that read a long log: folds, rebuilds, restarts, and questions about the past.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::envelope::{Meta, NewEvent, Position, StreamId, Timestamp};
use chronova_events::fold::Fold;
use chronova_events::instance::{Instance, InstanceEvent};
use chronova_events::registry::NounEvent;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore, probe};
use chronova_events::store::{EventStore, Expected};
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints, KeeperOptions};
use chronova_projections::progress::WorkProgress;
use chronova_projections::replay::{ReplayEnd, replay};
use chronova_projections::synthetic_log::SyntheticEvents;
use chronova_projections::views::Views;

use super::super::meter::{Meter, Run};
use super::super::report::{Aim, BenchLine, BenchReport};
use super::super::settings::{Common, in_system};
use super::super::stats::{Latencies, median};

/// How many servers exist at the same time.
const FLEET: usize = 10_000;
/// How many times each server is stopped and started.
const CYCLES: u32 = 2;
/// How many events the read models fold at once.
const BATCH: usize = 4_096;
/// How many events `write` appends concurrently.
const TOGETHER: usize = 2_048;
/// The name of the reference in the lines about folds and rebuilds. The reference is the speed of SQLite alone.
const RAW: &str = "plain SQLite, the same rows read";
/// How many rows SQLite alone reads. More rows would not change the rate.
const ROWS: u64 = 2_000_000;
/// How many decoded events the folds hold in memory.
const SAMPLE: usize = 200_000;

pub(super) fn measure(common: &Common, sizes: &[u64], report: &mut BenchReport) -> Result<()> {
    let folder = common.scratch()?;
    let path = folder.path().join("log.db");
    let mut life = SyntheticEvents::new(FLEET, CYCLES);
    let mut written = 0;
    for &events in sizes {
        chronova::output::complain(&format!("\rwriting a log of {events} events "));
        // The larger log begins with the smaller one.
        in_system(write(&path, &mut life, Timestamp(0), written, events))?;
        chronova::output::complain("\r\x1b[K");
        let log = BenchLog { path: &path, events, checkpoints: folder.path().join(format!("views-{events}")) };
        if written == 0 {
            log.decoded(common, report)?;
        }
        log.read_back(common, report)?;
        written = events;
    }
    Ok(())
}

/// The log file, its number of events, and the folder for its checkpoints.
struct BenchLog<'a> {
    path: &'a Path,
    events: u64,
    checkpoints: PathBuf,
}

impl BenchLog<'_> {
    /// Measures the folds without reading: the events are decoded in memory already.
    fn decoded(&self, common: &Common, report: &mut BenchReport) -> Result<()> {
        let folds = common.repeat("fold", || in_system(fold(self.path)))?;
        let views = common.repeat("fold into all read models", || in_system(project(self.path)))?;
        let raw = common.repeat("plain SQLite", || plain(self.path, self.events.min(SAMPLE as u64)))?;
        let raw = BenchLine::new("replay.sqlite", raw);
        let limit = raw.per_second().unwrap_or(0.0);
        let line = |name: &str, runs| BenchLine::new(name, runs).raw(RAW, limit);
        report.lines.push(line("replay.fold", folds).aim(Aim::PerSecond(1_000_000.0)));
        report.lines.push(line("replay.projections", views).aim(Aim::PerSecond(300_000.0)));
        report.lines.push(raw);
        Ok(())
    }

    fn read_back(&self, common: &Common, report: &mut BenchReport) -> Result<()> {
        let (events, path) = (self.events, self.path);
        let name = |what: &str| format!("{what}.{events}");
        let kept = ReplayCheckpoints::new(&self.checkpoints, events)?;
        #[allow(clippy::cast_precision_loss)] // sizes stay far below 2^53
        let bytes = path.metadata()?.len() as f64 / events as f64;

        let raw = common.repeat(&name("plain SQLite"), || plain(path, events.min(ROWS)))?;
        let raw = BenchLine::new(name("rebuild") + ".sqlite", raw);
        let rebuilds = common.repeat(&name("rebuild"), || in_system(rebuild(path, &kept)))?;
        let seconds = median(rebuilds.iter().map(|run| run.elapsed.as_secs_f64()).collect()).unwrap_or(0.0);
        let limit = raw.per_second().unwrap_or(0.0);
        let line = BenchLine::new(name("rebuild"), rebuilds).raw(RAW, limit).aim(Aim::PerSecond(300_000.0));
        report.lines.push(line.figure("bytes per event", bytes).figure("seconds", seconds));
        report.lines.push(raw);

        let (_, newest) = &kept.head;
        let restarts = common.repeat(&name("restart"), || in_system(restart(path, newest, events)))?;
        let disk =
            BenchLine::new(name("restart") + ".disk", common.repeat("the bytes of a checkpoint", || read(newest))?);
        let line = BenchLine::new(name("restart"), restarts).aim(Aim::P50Within(Duration::from_secs(2)));
        let size = newest.list().0.last().map_or(0, |found| found.bytes);
        #[allow(clippy::cast_precision_loss)] // sizes stay far below 2^53
        let line = line.figure("MiB of the checkpoint", (size >> 20) as f64);
        report.lines.push(line.raw("the bytes of the checkpoint, read", disk.per_second().unwrap_or(0.0)));
        report.lines.push(disk);

        let (at, behind) = &kept.behind;
        let restarts = common.repeat(&(name("restart") + ".killed"), || in_system(restart(path, behind, events)))?;
        let line = BenchLine::new(name("restart") + ".killed", restarts).aim(Aim::P50Within(Duration::from_secs(2)));
        #[allow(clippy::cast_precision_loss)] // sizes stay far below 2^53
        let line = line.figure("events since the checkpoint", (events - at.0) as f64);
        report.lines.push(line);

        let mut loads = Vec::new();
        let (past, history) = &kept.past;
        let asked = common.repeat(&name("as-of"), || {
            let (load, run) = in_system(as_of(path, history, *past, events))?;
            loads.push(load.as_secs_f64());
            Ok(run)
        })?;
        let line = BenchLine::new(name("as-of"), asked).aim(Aim::P50Within(Duration::from_secs(1)));
        report.lines.push(line.figure("seconds to load the checkpoint, not included", median(loads).unwrap_or(0.0)));
        for (_, checkpoints) in kept.all() {
            checkpoints.discard_all()?;
        }
        Ok(())
    }
}

/// A checkpoint's position, and the folder that holds only this checkpoint.
type CheckpointAt = (Position, Arc<Checkpoints>);

/// The checkpoints that a control plane would have made of the log.
struct ReplayCheckpoints {
    /// The checkpoint for questions about the past, at half of the log.
    past: CheckpointAt,
    /// The newest checkpoint that a kill leaves in the worst case: as far behind the head as possible.
    behind: CheckpointAt,
    /// The checkpoint that a graceful shutdown writes, at the head of the log.
    head: CheckpointAt,
}

impl ReplayCheckpoints {
    fn new(folder: &Path, events: u64) -> Result<Self> {
        let keys = KeyRing::in_memory()?;
        let place = |name: &str, at| {
            let checkpoints = Checkpoints::new(folder.join(name), CheckpointOptions::default(), Arc::clone(&keys));
            (Position(at), checkpoints)
        };
        let behind = KeeperOptions::default().events.min(events / 4);
        let (past, head) = (place("past", events / 2), place("head", events));
        Ok(Self { past, behind: place("behind", events - behind), head })
    }

    fn all(&self) -> [&CheckpointAt; 3] {
        [&self.past, &self.behind, &self.head]
    }
}

/// Appends synthetic events to the log of a data folder until it has `events` events. Returns how many it has.
pub(crate) fn fill(data: &Path, events: u64) -> Result<u64> {
    let path = data.join("log.db");
    anyhow::ensure!(path.exists(), "there is no log in {}", data.display());
    in_system(async {
        let store = SqliteStore::open(&path, &SqliteOptions::default())?;
        let head = store.head().0;
        store.close().await;
        // The times of a log do not go back.
        let since = SystemClock.now();
        write(&path, &mut SyntheticEvents::new(FLEET, CYCLES), since, head, events).await?;
        Ok(events.max(head))
    })
}

/// Appends synthetic events to the log, which has `from` events, until it has `events` events. Each is recorded a
/// millisecond after the one before it; the times begin at `since`.
async fn write(path: &Path, life: &mut SyntheticEvents, since: Timestamp, from: u64, events: u64) -> Result<()> {
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let meta = Meta::system("bench");
    let mut at = from;
    while at < events {
        // Appends nearby events of one stream together, as a process does.
        let mut together: Vec<(StreamId, Vec<NewEvent>)> = Vec::new();
        let mut places: HashMap<StreamId, usize> = HashMap::new();
        while at < events && together.iter().map(|(_, events)| events.len()).sum::<usize>() < TOGETHER {
            let Some((stream, event)) = life.next() else { break };
            let new = NewEvent::new(event, Timestamp(since.0 + i64::try_from(at)? * 1_000), &meta);
            let place = *places.entry(stream.clone()).or_insert(together.len());
            match together.get_mut(place) {
                Some((_, events)) => events.push(new),
                None => together.push((stream, vec![new])),
            }
            at += 1;
        }
        let appends = together.into_iter().map(|(stream, events)| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.append(&stream, Expected::Any, events).await })
        });
        for appended in futures::future::join_all(appends).await {
            appended??;
        }
    }
    store.close().await;
    Ok(())
}

/// Reads the rows with plain SQLite.
fn plain(path: &Path, events: u64) -> Result<Run> {
    let (meter, began) = (Meter::start(), Instant::now());
    let rows = probe::read(path, events)?;
    anyhow::ensure!(rows == events, "there are {rows} rows");
    Ok(as_one(meter, rows, began))
}

/// Reads the bytes of the newest checkpoint.
fn read(checkpoints: &Arc<Checkpoints>) -> Result<Run> {
    let newest = checkpoints.list().0.pop().context("there is no checkpoint")?;
    let (meter, began) = (Meter::start(), Instant::now());
    std::hint::black_box(std::fs::read(newest.path)?);
    Ok(Run { operations: 1, ..meter.stop(vec![began.elapsed()]) })
}

/// Reads all servers as of the position that is farthest from its checkpoint. Returns how long the checkpoint took to
/// load, and how long the answer took after that.
async fn as_of(path: &Path, checkpoints: &Arc<Checkpoints>, past: Position, events: u64) -> Result<(Duration, Run)> {
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let spacing = checkpoints.options().spacing;
    let asked = Position(events.min(past.0 + spacing - 1));
    let began = Instant::now();
    let views = Arc::new(checkpoints.load(|mark| mark.position == past).views);
    let load = began.elapsed();
    anyhow::ensure!(views.position() == past, "the checkpoint is of {}", views.position());
    let (meter, began) = (Meter::start(), Instant::now());
    replay(&*store, &views, ReplayEnd::Position(asked), &WorkProgress::new("time travel", 0)).await?;
    let servers = views.servers.read(|servers| servers.all().count());
    let run = Run { operations: 1, ..meter.stop(vec![began.elapsed()]) };
    anyhow::ensure!(views.position() == asked && servers > 0, "the answer is of {}", views.position());
    store.close().await;
    Ok((load, run))
}

/// One run of `operations` operations. Only their total time is known.
fn as_one(meter: Meter, operations: u64, began: Instant) -> Run {
    Run { operations, ..meter.stop(vec![began.elapsed()]) }
}

/// Folds the events of the servers in the first part of the log.
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

/// Folds decoded events into all read models.
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

/// Rebuilds all read models from the file, as after a change of their version. The first rebuild also saves the
/// checkpoints on its way; the result does not include the time for that.
async fn rebuild(path: &Path, kept: &ReplayCheckpoints) -> Result<Run> {
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let views = Arc::new(Views::new());
    let progress = WorkProgress::new("replay", 0);
    let (mut whole, mut took) = (Run::default(), Duration::ZERO);
    let stops: Vec<&CheckpointAt> = if kept.head.1.list().0.is_empty() { kept.all().into() } else { vec![&kept.head] };
    for (position, checkpoints) in stops {
        let (meter, began) = (Meter::start(), Instant::now());
        replay(&*store, &views, ReplayEnd::Position(*position), &progress).await?;
        took += began.elapsed();
        let part = meter.stop(Vec::new());
        whole.elapsed += part.elapsed;
        whole.cpu += part.cpu;
        whole.resident_kib = part.resident_kib;
        whole.peak_kib = whole.peak_kib.max(part.peak_kib);
        if checkpoints.list().0.is_empty() {
            checkpoints.save(&views).context("the checkpoint cannot be written")?;
        }
    }
    anyhow::ensure!(views.position() == kept.head.0, "the read models are at {}", views.position());
    store.close().await;
    Ok(Run { operations: kept.head.0.0, latencies: Latencies::of(vec![took]), ..whole })
}

/// Does what a start does before it can answer: opens the log, reads the checkpoint, and folds the later events.
async fn restart(path: &Path, checkpoints: &Arc<Checkpoints>, events: u64) -> Result<Run> {
    let (meter, began) = (Meter::start(), Instant::now());
    let store = SqliteStore::open(path, &SqliteOptions::default())?;
    let opened = checkpoints.open(&*store).await.context("the checkpoint cannot be read")?;
    let views = Arc::new(opened.views);
    replay(&*store, &views, ReplayEnd::Head, &WorkProgress::new("replay", 0)).await?;
    let run = Run { operations: 1, ..meter.stop(vec![began.elapsed()]) };
    anyhow::ensure!(views.position() == Position(events), "the read models are at {}", views.position());
    store.close().await;
    Ok(run)
}
