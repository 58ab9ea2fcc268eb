//! Logs of all released versions can be opened, verified and rebuilt.
//!
//! `tests/golden/logs` has one compressed log of each released version and file format. `heads.txt` has the head of
//! each log (position and hash), which every later version must confirm. If personal fields are sealed, the keys are
//! beside the log. A release adds its own log: every kind of event, and a short life of a cloud on simulated hosts.
//! `CHRONOVA_BLESS=1 cargo test -p chronova-tests --test engine log_corpus` writes it. Existing logs are never
//! overwritten.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_events::chain::Anchor;
use chronova_events::envelope::{Meta, NewEvent, Position, Revision, StreamId, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::instance::PowerAction;
use chronova_events::registry::samples;
use chronova_events::store::sqlite::verify::{VerifyOptions, verify};
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected, StreamSnapshot};
use chronova_projections::checkpoint;
use chronova_projections::runner;
use chronova_projections::views::Views;
use chronova_tests::world::World;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

const SUFFIX: &str = ".log.db.zst";
/// The largest unpacked log, in bytes, so that a damaged file cannot fill the disk.
const LARGEST: u64 = 64 << 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/logs")
}

fn logs() -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let named = entries.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.to_owned();
        Some((name, path))
    });
    named.collect()
}

fn heads() -> BTreeMap<String, Anchor> {
    let text = std::fs::read_to_string(folder().join("heads.txt")).unwrap_or_default();
    let line = |line: &str| {
        let (name, head) = line.split_once(' ').expect("NAME POSITION:HASH");
        (name.to_owned(), head.parse().unwrap())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

/// Opens the log as a server of this version does, verifies all of it, and folds it. Returns its head.
async fn lives(name: &str, packed: &Path) -> Anchor {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("log.db");
    let mut bytes = Vec::new();
    let decoder = StreamingDecoder::new(std::fs::File::open(packed).unwrap()).unwrap();
    decoder.take(LARGEST).read_to_end(&mut bytes).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let keys = folder().join(format!("{name}.log.db.keys"));
    if keys.exists() {
        std::fs::copy(keys, path.with_file_name("log.db.keys")).unwrap();
    }
    let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let views = Views::new();
    let end = runner::catch_up(&*store, &views).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(end, store.head(), "{name}");
    let again = Views::new();
    runner::catch_up(&*store, &again).await.unwrap();
    assert_eq!(checkpoint::differences(&views, &again, 9), Vec::<String>::new(), "{name}");
    let anchor = store.anchor().await.unwrap().unwrap();
    // The log continues at its end.
    let stream = StreamId::new("process", "corpus");
    let new = NewEvent::new(samples().remove(0), Timestamp(1), &Meta::system("corpus"));
    let appended = store.append(&stream, Expected::Exact(Revision::NONE), vec![new]).await.unwrap();
    assert_eq!(appended.position, Position(anchor.position.0 + 1), "{name}");
    store.close().await;
    let found = verify(&path, &VerifyOptions { against: vec![anchor], ..VerifyOptions::default() }).unwrap();
    assert_eq!(found.damages, [], "{name}");
    assert_eq!((found.anchors.len(), found.events), (1, appended.position.0), "{name}");
    anchor
}

#[actix_rt::test]
async fn logs_of_every_release_open_verify_and_rebuild() {
    if std::env::var_os("CHRONOVA_BLESS").is_some() {
        bless().await;
    }
    let (logs, heads) = (logs(), heads());
    assert!(logs.contains_key(env!("CARGO_PKG_VERSION")), "this version has no log yet: see the top of this file");
    assert_eq!(logs.keys().collect::<Vec<_>>(), heads.keys().collect::<Vec<_>>(), "logs and heads differ");
    for (name, path) in &logs {
        assert_eq!(Some(&lives(name, path).await), heads.get(name), "{name}: the log has another head");
    }
}

/// Adds the log of this version and missing heads; existing ones stay.
async fn bless() {
    let packed = folder().join(format!("{}{SUFFIX}", env!("CARGO_PKG_VERSION")));
    if !packed.exists() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log.db");
        let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        every_kind(&*store).await;
        life(&*store).await;
        store.close().await;
        let packed_bytes = compress_to_vec(&*std::fs::read(&path).unwrap(), CompressionLevel::Fastest);
        std::fs::write(&packed, packed_bytes).unwrap();
        let keys = folder().join(concat!(env!("CARGO_PKG_VERSION"), ".log.db.keys"));
        std::fs::copy(path.with_file_name("log.db.keys"), keys).unwrap();
    }
    let mut heads = heads();
    for (name, path) in logs() {
        if let Entry::Vacant(new) = heads.entry(name.clone()) {
            new.insert(lives(&name, &path).await);
        }
    }
    let lines: Vec<String> = heads.iter().map(|(name, head)| format!("{name} {head}\n")).collect();
    std::fs::write(folder().join("heads.txt"), format!("# log, position:hash of its head\n{}", lines.concat()))
        .unwrap();
}

async fn every_kind(store: &dyn EventStore) {
    for (n, event) in (0_i64..).zip(samples()) {
        let noun = event.kind().split_once('.').unwrap().0.to_owned();
        let new = NewEvent::new(event, Timestamp(1_790_000_000_000_000 + n), &Meta::system("corpus"));
        store.append(&StreamId::new(&noun, n % 3), Expected::Any, vec![new]).await.unwrap();
    }
    let snapshot = StreamSnapshot { revision: Revision(1), state_version: 0, bytes: vec![1, 2, 3] };
    store.save_snapshot(&StreamId::new("instance", 0), snapshot).await.unwrap();
}

/// Servers are built, stopped, started and deleted on simulated hosts.
async fn life(store: &dyn EventStore) {
    let world = World::new(2);
    let life = world.live(None, None).await;
    life.hosts_up(2).await;
    let ids: Vec<InstanceId> = (0..3).map(|_| InstanceId::random()).collect();
    for id in &ids {
        life.build(*id).await.unwrap();
    }
    life.settled().await;
    life.power(ids[0], PowerAction::Stop).await.unwrap();
    life.settled().await;
    life.power(ids[0], PowerAction::Start).await.unwrap();
    life.delete(ids[1]).await.unwrap();
    life.settled().await;
    life.stop().await;
    for recorded in world.log.read_all(Position::START, usize::MAX).await.unwrap() {
        let new = NewEvent {
            id: recorded.id,
            event: Arc::clone(recorded.event().unwrap()),
            recorded_at: recorded.recorded_at,
            meta: Arc::clone(&recorded.meta),
        };
        store.append(&recorded.stream, Expected::Any, vec![new]).await.unwrap();
    }
}
