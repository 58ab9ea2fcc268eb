//! Measures how fast the log appends and reads events, beside plain SQLite on the same disk.
//!
//! Run `cargo bench -p chronova-events --bench log`. `CHRONOVA_BENCH_DIR` names the folder of the log, which should be
//! on the measured disk and not in memory. The default is the system's folder for temporary files.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronova_events::codec::{self, BINCODE_2};
use chronova_events::envelope::{Cause, Meta, NewEvent, Position, StreamId, Timestamp};
use chronova_events::ids::{ProjectId, RequestId, UserId};
use chronova_events::process::{ProcessEvent, StepUndone};
use chronova_events::registry::{Event, samples};
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn folder() -> TempDir {
    let parent = std::env::var_os("CHRONOVA_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    tempfile::tempdir_in(parent).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// An event that a user's request causes.
fn event() -> NewEvent {
    let meta = Arc::new(Meta {
        request_id: Some(RequestId::new("req-3b8f1ab0-6d2c-4a52-9d5e-3f2a7c3d9a10")),
        correlation: uuid::Uuid::from_u128(7),
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

/// The time of `rounds` appends, shared among `writers`.
fn append(runtime: &Runtime, store: &Arc<SqliteStore>, writers: u64, rounds: u64) -> Duration {
    let begun = Instant::now();
    runtime.block_on(async {
        let write = |writer: u64| {
            let store = Arc::clone(store);
            let share = rounds / writers + u64::from(writer < rounds % writers);
            tokio::spawn(async move {
                let stream = StreamId::new("process", writer);
                for _ in 0..share {
                    store.append(&stream, Expected::Any, vec![event()]).await.unwrap();
                }
            })
        };
        for writer in (0..writers).map(write).collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    });
    begun.elapsed()
}

fn durable_appends(c: &mut Criterion) {
    let mut group = c.benchmark_group("durable_append");
    group.throughput(Throughput::Elements(1)).sample_size(10).measurement_time(Duration::from_secs(5));
    let runtime = runtime();
    for writers in [1, 64] {
        let folder = folder();
        let store = SqliteStore::open(folder.path().join("log.db"), &SqliteOptions::default()).unwrap();
        group.bench_function(format!("{writers}_writers"), |b| {
            b.iter_custom(|rounds| append(&runtime, &store, writers, rounds));
        });
        runtime.block_on(store.close());
    }
    for batch in [1, 64] {
        let (_folder, mut connection) = raw();
        group.bench_function(format!("raw_sqlite_batches_of_{batch}"), |b| {
            b.iter_custom(|rounds| insert(&mut connection, batch, rounds));
        });
    }
    group.finish();
}

/// The reference in plain SQLite: the same table and bytes, without an index by stream.
fn raw() -> (TempDir, Connection) {
    let folder = folder();
    let path = folder.path().join("log.db");
    // The store itself creates the tables.
    drop(SqliteStore::open(&path, &SqliteOptions::default()).unwrap());
    let connection = Connection::open(&path).unwrap();
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; \
                    PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -65536;";
    connection.execute_batch(settings).unwrap();
    (folder, connection)
}

fn insert(connection: &mut Connection, batch: u64, rounds: u64) -> Duration {
    let sql = "INSERT INTO events (stream, revision, id, kind, version, codec, recorded_at, request_id, correlation, user, \
               project, roles, data, checksum, hash) VALUES (?1, ?2, ?3, 1, 1, 1, 1, ?4, ?5, ?6, ?7, ?8, ?9, 4000000000, ?10)";
    let (id, text) = ([7_u8; 16], "x".repeat(101));
    let mut revision: i64 =
        connection.query_row("SELECT coalesce(max(revision), 0) FROM events", [], |row| row.get(0)).unwrap();
    let begun = Instant::now();
    let mut left = rounds;
    while left > 0 {
        let transaction = connection.transaction().unwrap();
        let mut statement = transaction.prepare_cached(sql).unwrap();
        revision += 1;
        for stream in 0..batch.min(left) {
            statement
                .execute(rusqlite::params![
                    i64::try_from(stream).unwrap(),
                    revision,
                    id.as_slice(),
                    "req-3b8f1ab0-6d2c-4a52-9d5e-3f2a7c3d9a10",
                    id.as_slice(),
                    "5f4dcc3b5aa765d61d8327deb882cf99",
                    "9f86d081884c7d659a2feaa0c55ad015",
                    "[\"member\",\"reader\"]",
                    text.as_bytes(),
                    [8_u8; 32].as_slice(),
                ])
                .unwrap();
        }
        drop(statement);
        transaction.commit().unwrap();
        left -= batch.min(left);
    }
    begun.elapsed()
}

fn reads(c: &mut Criterion) {
    let folder = folder();
    let runtime = runtime();
    let path = folder.path().join("log.db");
    let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
    let count = 10_000;
    runtime.block_on(async {
        let events = (0..count).map(|_| event()).collect();
        store.append(&StreamId::new("process", "read"), Expected::Any, events).await.unwrap();
    });
    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Elements(count)).sample_size(10);
    group.bench_function("all_and_decode", |b| {
        b.iter(|| {
            runtime.block_on(async {
                let events = store.read_all(Position::START, usize::MAX).await.unwrap();
                events.iter().filter(|event| event.event().is_ok()).count()
            })
        });
    });
    group.finish();
}

fn codec(c: &mut Criterion) {
    let samples = samples();
    let encoded: Vec<(&'static str, u16, Vec<u8>)> =
        samples.iter().map(|event| (event.kind(), event.version(), event.encode().unwrap())).collect();
    let mut group = c.benchmark_group("codec");
    group.throughput(Throughput::Elements(samples.len() as u64));
    group.bench_function("encode_every_kind", |b| {
        b.iter(|| samples.iter().map(|event| event.encode().unwrap().len()).sum::<usize>());
    });
    group.bench_function("decode_every_kind", |b| {
        b.iter_batched(
            || (),
            |()| {
                let decode = |(kind, version, bytes): &(&str, u16, Vec<u8>)| {
                    Event::decode(kind, *version, BINCODE_2, bytes).unwrap()
                };
                encoded.iter().map(decode).collect::<Vec<_>>()
            },
            BatchSize::SmallInput,
        );
    });
    let numbers: Vec<u64> = (0..1_000).collect();
    group.bench_function("encode_1000_numbers", |b| b.iter(|| codec::encode(&numbers).unwrap()));
    group.finish();
}

criterion_group!(benches, durable_appends, reads, codec);
criterion_main!(benches);
