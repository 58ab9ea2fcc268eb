//! Measures how fast read models are folded, written as checkpoints and read back.
//!
//! `cargo bench -p chronova-projections --bench views`

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::sync::{Arc, OnceLock};

use chronova_events::codec::BINCODE_2;
use chronova_events::envelope::{Meta, Position, Recorded, Revision, Timestamp};
use chronova_events::ids::EventId;
use chronova_events::sealed::keys::KeyRing;
use chronova_projections::checkpoint::{CheckpointOptions, Checkpoints};
use chronova_projections::synthetic_log::SyntheticEvents;
use chronova_projections::views::Views;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const EVENTS: usize = 200_000;
const BATCH: usize = 4_096;

/// A log of servers that live for a while. Its events are not yet decoded, as when the store reads them.
fn log() -> Vec<Arc<Recorded>> {
    let meta = Meta::system("bench");
    let recorded = |((stream, event), position): ((_, chronova_events::registry::Event), u64)| {
        Arc::new(Recorded {
            position: Position(position),
            stream,
            revision: Revision(1),
            id: EventId(uuid::Uuid::from_u128(u128::from(position))),
            kind: Arc::from(event.kind()),
            version: event.version(),
            codec: BINCODE_2,
            recorded_at: Timestamp(i64::try_from(position).unwrap()),
            meta: Arc::clone(&meta),
            data: event.encode().unwrap().into(),
            hash: None,
            keys: None,
            decoded: OnceLock::new(),
        })
    };
    SyntheticEvents::new(2_000, 2).zip(1..).take(EVENTS).map(recorded).collect()
}

fn folded(log: &[Arc<Recorded>]) -> Views {
    let views = Views::new();
    log.chunks(BATCH).for_each(|batch| views.apply(batch).unwrap());
    views
}

fn benches(c: &mut Criterion) {
    let mut group = c.benchmark_group("views");
    group.sample_size(10).throughput(Throughput::Elements(EVENTS as u64));
    group.bench_function("decode", |bench| {
        bench.iter_batched(
            log,
            |log| {
                for recorded in &log {
                    recorded.event().unwrap();
                }
                log
            },
            BatchSize::PerIteration,
        );
    });
    let log = log();
    let views = folded(&log);
    group.bench_function("fold", |bench| bench.iter(|| folded(&log)));
    let folder = tempfile::tempdir().unwrap();
    let keys = KeyRing::in_memory().unwrap();
    let checkpoints = Checkpoints::new(folder.path(), CheckpointOptions::default(), keys);
    let found = checkpoints.save(&views).unwrap();
    group.throughput(Throughput::Bytes(found.bytes));
    group.bench_function("checkpoint written", |bench| {
        bench.iter(|| checkpoints.save(&views).unwrap());
    });
    group.bench_function("checkpoint read", |bench| bench.iter(|| checkpoints.load(|_| true)));
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
