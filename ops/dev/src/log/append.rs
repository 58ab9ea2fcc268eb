//! Measures durable appends, and plain SQLite and the bare disk for comparison.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use chronova_events::envelope::{Cause, Meta, NewEvent, StreamId, Timestamp};
use chronova_events::ids::{ProjectId, RequestId, UserId};
use chronova_events::process::{ProcessEvent, StepUndone};
use chronova_events::store::sqlite::probe::Probe;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use uuid::Uuid;

use super::super::meter::{Meter, Run};
use super::super::raw;
use super::super::report::{Aim, BenchLine, BenchReport};
use super::super::settings::{Common, in_system};

/// The bytes of a row in SQLite without the payload of [`event`] and without index pages. The measurement of the bare
/// disk writes as many bytes for each event.
const ENVELOPE: usize = 320;

/// The number of writers for which there is an aim.
const AIMED_AT: u32 = 64;

/// An event that a user's request causes. It is about as long as a server's events are on average.
fn event() -> NewEvent {
    let meta = Arc::new(Meta {
        request_id: Some(RequestId::new("req-3b8f1ab0-6d2c-4a52-9d5e-3f2a7c3d9a10")),
        correlation: Uuid::from_u128(7),
        causation: None,
        cause: Cause::User {
            user: UserId::new("5f4dcc3b5aa765d61d8327deb882cf99"),
            project: Some(ProjectId::new("9f86d081884c7d659a2feaa0c55ad015")),
            roles: vec!["member".to_owned(), "reader".to_owned()],
            source: None,
        },
    });
    NewEvent::new(ProcessEvent::from(StepUndone { step: "x".repeat(100) }), Timestamp(1), &meta)
}

pub(super) fn measure(common: &Common, writers: &[u32], appends: Option<u32>, report: &mut BenchReport) -> Result<()> {
    for &writers in writers {
        let writers = writers.max(1);
        let usual = u64::from(appends.unwrap_or((4_000 + writers.min(1_000) * 2_000).min(400_000)));
        let appends = common.sized(usual, u64::from(writers) * 4).max(writers.into());
        let (mut ours, mut plain, mut disk) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes_per_event = 0.0;
        // The three measurements take turns, so that other load on the machine affects all of them equally.
        common.repeat_warm(&format!("append, {writers} at once"), || {
            let (run, bytes) = durable(common, writers, appends)?;
            bytes_per_event = bytes;
            ours.push(run);
            plain.push(sqlite(common, writers, appends)?);
            let together = writers as usize * (event().event.encode()?.len() + ENVELOPE);
            let batches = usize::try_from(appends.div_ceil(writers.into()))?;
            disk.push(of_events(raw::append_and_sync(&common.folder(), together, batches)?, writers));
            Ok(())
        })?;
        // The first run was only a warm-up.
        for runs in [&mut ours, &mut plain, &mut disk] {
            runs.remove(0);
        }
        let plain = BenchLine::new(format!("append.{writers}.sqlite"), plain);
        let disk = BenchLine::new(format!("append.{writers}.disk"), disk);
        let limit = plain.per_second().unwrap_or(0.0);
        let mut line =
            BenchLine::new(format!("append.{writers}"), ours).raw("plain SQLite, the same bytes and batches", limit);
        if writers == AIMED_AT {
            line = line.aim(Aim::OfRaw(0.8));
        }
        report.lines.push(line.figure("bytes per event", bytes_per_event));
        report.lines.push(plain);
        report.lines.push(disk);
    }
    Ok(())
}

/// Appends `appends` events by `writers` tasks, each of which waits until its event is durable. Also returns the file's
/// bytes per event.
fn durable(common: &Common, writers: u32, appends: u64) -> Result<(Run, f64)> {
    let folder = common.scratch()?;
    let path = folder.path().join("log.db");
    let store = SqliteStore::open(&path, &SqliteOptions::default())?;
    let run = in_system(async {
        let prototype = event();
        let share = appends / u64::from(writers);
        let meter = Meter::start();
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let (store, prototype) = (Arc::clone(&store), prototype.clone());
                tokio::spawn(async move {
                    let stream = StreamId::new("process", writer);
                    let mut latencies: Vec<Duration> = Vec::with_capacity(usize::try_from(share).unwrap_or(0));
                    for _ in 0..share {
                        let new = vec![prototype.clone()];
                        let began = Instant::now();
                        store.append(&stream, Expected::Any, new).await?;
                        latencies.push(began.elapsed());
                    }
                    anyhow::Ok(latencies)
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await??);
        }
        let run = meter.stop(all);
        store.close().await;
        Ok(run)
    })?;
    #[allow(clippy::cast_precision_loss)] // sizes stay far below 2^53
    let bytes = path.metadata()?.len() as f64 / run.operations.max(1) as f64;
    Ok((run, bytes))
}

/// Appends as many events with plain SQLite, `writers` events in each transaction.
fn sqlite(common: &Common, writers: u32, appends: u64) -> Result<Run> {
    let folder = common.scratch()?;
    let mut probe = Probe::begin(&folder.path().join("log.db"))?;
    let (new, data) = (event(), event().event.encode()?);
    let mut latencies = Vec::new();
    let meter = Meter::start();
    for _ in 0..appends / u64::from(writers) {
        let began = Instant::now();
        probe.insert(&new, &data, writers.into())?;
        latencies.push(began.elapsed());
    }
    Ok(of_events(meter.stop(latencies), writers))
}

/// Converts a run that counts batches into one that counts events.
fn of_events(run: Run, writers: u32) -> Run {
    Run { operations: run.operations * u64::from(writers), ..run }
}
