//! Measures durable appends, and plain SQLite and the bare disk for comparison. With a database, also appends to a log
//! in PostgreSQL, and plain inserts for comparison.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use chronova_events::envelope::{Cause, Meta, NewEvent, StreamId, Timestamp};
use chronova_events::ids::{ProjectId, RequestId, UserId};
use chronova_events::process::{ProcessEvent, StepUndone};
use chronova_events::store::postgres::{PostgresConnection, PostgresOptions, PostgresStore};
use chronova_events::store::sqlite::probe::Probe;
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use uuid::Uuid;

use super::super::meter::{Meter, Run};
use super::super::raw;
use super::super::report::{Aim, BenchLine, BenchReport};
use super::super::settings::{Common, in_system};

/// The bytes of a row in SQLite beside the payload of [`event`]; index pages do not count. The measurements of the bare
/// disk and of plain inserts write the same number of bytes.
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

pub(super) fn measure(
    common: &Common,
    writers: &[u32],
    appends: Option<u32>,
    database: Option<&str>,
    report: &mut BenchReport,
) -> Result<()> {
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
        if let Some(url) = database {
            measure_database(common, url, writers, appends, report)?;
        }
    }
    Ok(())
}

/// Measures appends to a log in a PostgreSQL database, in turns with plain inserts of the same bytes.
fn measure_database(common: &Common, url: &str, writers: u32, appends: u64, report: &mut BenchReport) -> Result<()> {
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    common.repeat_warm(&format!("append to PostgreSQL, {writers} at once"), || {
        ours.push(in_database(url, writers, appends)?);
        plain.push(inserts(url, writers, appends)?);
        Ok(())
    })?;
    // The first run was only a warm-up.
    ours.remove(0);
    plain.remove(0);
    let plain = BenchLine::new(format!("append.{writers}.postgres.inserts"), plain);
    let limit = plain.per_second().unwrap_or(0.0);
    let line = BenchLine::new(format!("append.{writers}.postgres"), ours);
    report.lines.push(line.raw("plain inserts into PostgreSQL, the same bytes and batches", limit));
    report.lines.push(plain);
    Ok(())
}

/// Appends `appends` events by `writers` tasks, each of which waits until its event is durable. Also returns the file's
/// bytes per event.
fn durable(common: &Common, writers: u32, appends: u64) -> Result<(Run, f64)> {
    let folder = common.scratch()?;
    let path = folder.path().join("log.db");
    let store = SqliteStore::open(&path, &SqliteOptions::default())?;
    let run = in_system(async {
        let log: Arc<dyn EventStore> = store.clone();
        let run = appended(&log, writers, appends).await?;
        store.close().await;
        Ok(run)
    })?;
    #[allow(clippy::cast_precision_loss)] // sizes stay far below 2^53
    let bytes = path.metadata()?.len() as f64 / run.operations.max(1) as f64;
    Ok((run, bytes))
}

/// Appends as [`durable`] does, to a log in a PostgreSQL database. The log grows from run to run.
fn in_database(url: &str, writers: u32, appends: u64) -> Result<Run> {
    in_system(async {
        // No other log has this cell, so a database with the log of a cloud is refused.
        let options = PostgresOptions::at(url.to_owned(), "benchmark".to_owned());
        let store = PostgresStore::open(&PostgresOptions { allow_asynchronous: true, ..options }).await?;
        let log: Arc<dyn EventStore> = store.clone();
        let run = appended(&log, writers, appends).await?;
        store.close().await;
        Ok(run)
    })
}

async fn appended(store: &Arc<dyn EventStore>, writers: u32, appends: u64) -> Result<Run> {
    let prototype = event();
    let share = appends / u64::from(writers);
    let meter = Meter::start();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, prototype) = (Arc::clone(store), prototype.clone());
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
    Ok(meter.stop(all))
}

/// Inserts as many rows into a table of the database. Each statement, and so each round trip and each commit, has as
/// many rows as there are writers.
fn inserts(url: &str, writers: u32, appends: u64) -> Result<Run> {
    let bytes = event().event.encode()?.len() + ENVELOPE;
    let insert = format!("INSERT INTO chronova_probe SELECT repeat('x', {bytes}) FROM generate_series(1, {writers})");
    in_system(async move {
        let connection = PostgresConnection::open(url).await?;
        let client = connection.client();
        client.batch_execute("DROP TABLE IF EXISTS chronova_probe; CREATE TABLE chronova_probe (row text)").await?;
        let mut latencies = Vec::new();
        let meter = Meter::start();
        for _ in 0..appends / u64::from(writers) {
            let began = Instant::now();
            client.batch_execute(&insert).await?;
            latencies.push(began.elapsed());
        }
        let run = of_events(meter.stop(latencies), writers);
        client.batch_execute("DROP TABLE chronova_probe").await?;
        Ok(run)
    })
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
