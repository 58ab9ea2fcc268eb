//! Tests what a verification finds in a damaged log and where, and what it reports about an intact one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chronova_events::chain::{Anchor, EventHash};
use chronova_events::envelope::{Position, Revision, StreamId};
use chronova_events::store::conformance::{event, text};
use chronova_events::store::sqlite::verify::{LogDamage, Verification, VerifyOptions, verify};
use chronova_events::store::sqlite::{SqliteOptions, SqliteStore};
use chronova_events::store::{EventStore, Expected, StreamSnapshot};
use futures::StreamExt;
use rusqlite::Connection;
use tempfile::TempDir;

const STREAMS: u64 = 97;

fn open(path: &Path) -> Arc<SqliteStore> {
    SqliteStore::open(path, &SqliteOptions::default()).unwrap()
}

fn mark(n: u64) -> String {
    format!("event number {n:06}.")
}

fn stream(n: u64) -> StreamId {
    StreamId::new("process", n % STREAMS)
}

/// Appends `count` events. The nth event is in stream n modulo `STREAMS`. If `count` is more than 1,000, the appends
/// are concurrent, so the nth event may be at another position.
async fn fill(store: &dyn EventStore, from: u64, count: u64) {
    let appends = (from..from + count).map(|n| {
        let (stream, new) = (stream(n), vec![event(mark(n))]);
        async move { store.append(&stream, Expected::Any, new).await.unwrap() }
    });
    let under_way = if count > 1_000 { 512 } else { 1 };
    futures::stream::iter(appends).buffered(under_way).for_each(|_| async {}).await;
}

async fn log(count: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = open(&path);
    fill(&*store, 1, count).await;
    let snapshot = StreamSnapshot { revision: Revision(1), state_version: 1, bytes: b"the state".to_vec() };
    store.save_snapshot(&stream(3), snapshot).await.unwrap();
    store.close().await;
    (folder, path)
}

fn look(path: &Path) -> Verification {
    verify(path, &VerifyOptions::default()).unwrap()
}

fn quick(path: &Path) -> Verification {
    verify(path, &VerifyOptions { quick: true, ..VerifyOptions::default() }).unwrap()
}

fn against(path: &Path, anchor: Anchor) -> Verification {
    verify(path, &VerifyOptions { against: vec![anchor], ..VerifyOptions::default() }).unwrap()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn flip(path: &Path, bit: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    byte[0] ^= 1 << (bit % 8);
    file.write_all_at(&byte, bit / 8).unwrap();
}

fn flip_all<'a>(path: &Path, bits: impl Iterator<Item = &'a u64>) {
    for bit in bits {
        flip(path, *bit);
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

/// A small random generator, so that each run flips the same bits.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 17
}

fn at(damages: &[LogDamage], position: u64) -> Option<&LogDamage> {
    damages.iter().find(|damage| damage.position == Some(Position(position)) && damage.page.is_none())
}

#[tokio::test]
async fn an_intact_log_is_verified_and_reported() {
    let (_folder, path) = log(20_000).await;
    let found = look(&path);
    assert_eq!(found.damages, []);
    assert_eq!(found.remarks, Vec::<String>::new());
    assert_eq!((found.events, found.streams, found.snapshots), (20_000, STREAMS, 1));
    assert_eq!(found.pages, size(&path) / 4_096);
    assert_eq!(found.chained_until, Position::START);
    let store = open(&path);
    assert_eq!(store.anchor().await.unwrap(), found.head);
    // The verification runs beside a writer, which moves pages all the time.
    let more = Arc::clone(&store);
    let writing = tokio::spawn(async move { fill(&*more, 20_001, 15_000).await });
    while !writing.is_finished() {
        let path = path.clone();
        let found = tokio::task::spawn_blocking(move || look(&path)).await.unwrap();
        assert_eq!(found.damages, []);
    }
    writing.await.unwrap();
    store.close().await;
    assert_eq!(look(&path).events, 35_000);
}

#[tokio::test]
async fn a_crash_leaves_no_page_unsealed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let options = SqliteOptions { checkpoint_pages: 50, ..SqliteOptions::default() };
    let store = SqliteStore::open(&path, &options).unwrap();
    for part in 0..10 {
        fill(&*store, part * 200 + 1, 200).await;
        let copies = tempfile::tempdir().unwrap();
        let copy = copies.path().join("log.db");
        // The seals are copied first, which is the worst order in which a crash can leave the files.
        for suffix in [".seals", "", "-wal", ".witness"] {
            std::fs::copy(beside(&path, suffix), beside(&copy, suffix)).unwrap();
        }
        assert_eq!(look(&copy).damages, [], "the files of the crash must be undamaged");
        open(&copy).close().await;
        let found = look(&copy);
        assert_eq!(found.damages, [], "the log reopened after the crash must be undamaged");
        assert_eq!(found.events, (part + 1) * 200);
    }
}

/// The usual number of rounds, or the larger one of a soak run.
fn rounds(usual: u64, soak: u64) -> u64 {
    if std::env::var_os("CHRONOVA_SOAK").is_some() { soak } else { usual }
}

#[tokio::test]
async fn flipped_bits_of_a_large_log_are_found() {
    const EVENTS: u64 = 100_000;
    let (_folder, path) = log(EVENTS).await;
    assert_eq!(quick(&path).damages, []);
    let (mut seed, bits) = (11, size(&path) * 8);
    let flips = rounds(200, 1_000);
    for round in 0..flips {
        // Some rounds flip a bit in one of the small files beside the log.
        let file = match round % 20 {
            18 => beside(&path, ".seals"),
            19 => beside(&path, ".witness"),
            _ => path.clone(),
        };
        let bit = random(&mut seed) % (size(&file) * 8);
        flip(&file, bit);
        let found = quick(&path);
        assert!(!found.is_whole(), "bit {bit} of {} was flipped and nobody noticed", file.display());
        flip(&file, bit);
    }
    println!("{flips} of {flips} flipped bits found, one at a time, in a log of {EVENTS} events, {} bytes", bits / 8);
    // One verification per bit takes long. So one verification finds many bits together, each on a separate page.
    let (handfuls, mut together) = (rounds(2, 150), 0);
    for _ in 0..handfuls {
        let mut flipped = BTreeMap::new();
        while flipped.len() < 40 {
            let bit = random(&mut seed) % bits;
            flipped.entry(bit / 8 / 4_096 + 1).or_insert(bit);
        }
        flip_all(&path, flipped.values());
        let found = verify(&path, &VerifyOptions { quick: true, limit: 1_000, ..VerifyOptions::default() }).unwrap();
        flip_all(&path, flipped.values());
        let named: BTreeSet<u64> = found.damages.iter().filter_map(|damage| damage.page).collect();
        assert!(named.iter().eq(flipped.keys()), "of bits {flipped:?} only pages {named:?} were named");
        together += flipped.len();
    }
    println!("{together} of {together} flipped bits found, 40 at a time");
    let found = look(&path);
    assert_eq!(found.damages, [], "the log must be undamaged with every bit flipped back");
    assert_eq!(found.events, EVENTS);
}

/// Damage of pages by disks and their controllers: zeroes, garbage, another page, or the page before its last write.
#[tokio::test]
async fn a_page_that_differs_from_its_last_write_is_named() {
    use std::os::unix::fs::FileExt;
    const PAGE: usize = 4_096;
    let (_folder, path) = log(2_000).await;
    let earlier = std::fs::read(&path).unwrap();
    let store = open(&path);
    fill(&*store, 2_001, 1_000).await;
    store.close().await;
    let whole = std::fs::read(&path).unwrap();
    let data = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let at = |page: u64| usize::try_from(page - 1).unwrap() * PAGE;
    let (pages, mut seed, mut kinds) = (whole.len() as u64 / PAGE as u64, 3, [0; 5]);
    let cases = rounds(20, 1_500);
    for case in 0..cases {
        let page = random(&mut seed) % pages + 1;
        let good = &whole[at(page)..at(page) + PAGE];
        let other = at(random(&mut seed) % pages + 1);
        let mut kind = usize::try_from(case % 5).unwrap();
        let mut bad = match kind {
            0 => vec![0; PAGE],
            1 => (0..PAGE).map(|_| random(&mut seed).to_le_bytes()[0]).collect(),
            2 => whole[other..other + PAGE].to_vec(),
            _ => earlier.get(at(page)..at(page) + PAGE).map_or_else(Vec::new, <[u8]>::to_vec),
        };
        if bad == good || bad.len() < PAGE {
            (kind, bad) = (1, vec![0xa5; PAGE]);
        }
        kinds[kind] += 1;
        data.write_all_at(&bad, at(page) as u64).unwrap();
        let found = if case % 10 == 0 { look(&path) } else { quick(&path) };
        data.write_all_at(good, at(page) as u64).unwrap();
        let named = found.damages.iter().any(|damage| damage.page == Some(page));
        assert!(named, "page {page}, kind {kind}: {:?}", found.damages);
    }
    println!("{cases} pages: {kinds:?} zeroes, garbage, another's, an earlier one");
    assert_eq!(look(&path).damages, []);
}

#[tokio::test]
async fn a_flipped_bit_is_found_at_its_position() {
    const EVENTS: u64 = 100_000;
    let (_folder, path) = log(EVENTS).await;
    let bytes = std::fs::read(&path).unwrap();
    let store = open(&path);
    let all = store.read_all(Position::START, usize::MAX).await.unwrap();
    store.close().await;
    let mut seed = 23;
    for _ in 0..rounds(4, 40) {
        let n = random(&mut seed) % EVENTS + 1;
        let wanted = text(&all[usize::try_from(n - 1).unwrap()]);
        let place = bytes.windows(wanted.len()).position(|window| window == wanted.as_bytes()).unwrap() as u64;
        let bit = place * 8 + random(&mut seed) % (wanted.len() as u64 * 8);
        flip(&path, bit);
        let found = look(&path);
        flip(&path, bit);
        let damage = at(&found.damages, n).unwrap_or_else(|| panic!("{n}: {:?}", found.damages));
        assert_eq!(damage.stream.as_ref(), Some(&all[usize::try_from(n - 1).unwrap()].stream), "{damage}");
        let page = place / 4_096 + 1;
        let on_page = found.damages.iter().find(|damage| damage.page == Some(page)).expect("no page named");
        assert!(on_page.what.contains("(events "), "{on_page}");
        assert_eq!(found.events, EVENTS, "the other events must be checked, too");
    }
}

#[tokio::test]
async fn a_page_without_an_event_is_named() {
    let (_folder, path) = log(2_000).await;
    let connection = Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name = ?1 ORDER BY pageno DESC";
    let page = |name: &str| u64::from(connection.query_row(sql, [name], |row| row.get::<_, u32>(0)).unwrap());
    for name in ["events_by_stream", "streams", "kinds", "snapshots"] {
        let bit = ((page(name) - 1) * 4_096 + 2_000) * 8;
        flip(&path, bit);
        let found = look(&path);
        flip(&path, bit);
        let named = found.damages.iter().any(|damage| damage.page == Some(page(name)) && damage.what.contains(name));
        assert!(named, "{name}: {:?}", found.damages);
    }
    // Without its first bytes, SQLite does not recognise the file.
    flip(&path, 3);
    assert!(!look(&path).is_whole());
}

/// The attacker has full access: every checksum is corrected, and the seals are rebuilt.
#[tokio::test]
async fn a_forged_event_breaks_the_chain_and_a_forged_chain_fits_no_anchor() {
    let (_folder, path) = log(300).await;
    let honest = look(&path).head.unwrap();
    let middle = {
        let connection = Connection::open(&path).unwrap();
        let hash: Vec<u8> =
            connection.query_row("SELECT hash FROM events WHERE position = 150", [], |row| row.get(0)).unwrap();
        Anchor { position: Position(150), hash: EventHash::from_slice(&hash).unwrap() }
    };
    let found = against(&path, middle);
    assert!(found.is_whole());
    assert_eq!(found.anchors, [middle]);

    // A whole log is forged, with another event at position 150. Only an anchor detects this.
    let folder = tempfile::tempdir().unwrap();
    let forged = folder.path().join("log.db");
    let store = open(&forged);
    fill(&*store, 1, 149).await;
    store.append(&stream(150), Expected::Any, vec![event("something else")]).await.unwrap();
    fill(&*store, 151, 150).await;
    store.close().await;
    assert!(look(&forged).is_whole(), "a log forged as a whole must pass without an anchor");
    for anchor in [middle, honest] {
        let found = against(&forged, anchor);
        let damage = at(&found.damages, anchor.position.0).expect("the anchor must reveal the forgery");
        assert!(damage.what.contains("anchor"), "{damage}");
    }
    let beyond = Anchor { position: Position(301), hash: honest.hash };
    assert!(at(&against(&path, beyond).damages, 301).unwrap().what.contains("before the anchor"));

    let from = Connection::open(&forged).unwrap();
    from.execute("ATTACH ?1 AS theirs", [path.display().to_string()]).unwrap();
    // One event comes from the other log, with a correct checksum and hash of its own.
    let columns = "id = t.id, data = t.data, correlation = t.correlation, checksum = t.checksum, hash = t.hash";
    let sql =
        format!("UPDATE events SET {columns} FROM theirs.events t WHERE t.position = 200 AND events.position = 200");
    assert_eq!(from.execute(&sql, []).unwrap(), 1);
    drop(from);
    let found = look(&forged);
    let damage = at(&found.damages, 200).expect("the foreign event must be found");
    assert!(damage.what.contains("chain"), "{damage}");
    assert_eq!(damage.stream, Some(stream(200)));
}

#[tokio::test]
async fn missing_events_are_named() {
    let cases = [
        ("DELETE FROM events WHERE position = 150", 150, "missing"),
        ("UPDATE events SET revision = 90 WHERE position = 150", 150, "checksum"),
        ("UPDATE head SET position = 301", 301, "were written"),
        ("DELETE FROM events WHERE position > 290; UPDATE head SET position = 290", 291, "its end is lost"),
    ];
    for (change, position, word) in cases {
        let (_folder, path) = log(300).await;
        Connection::open(&path).unwrap().execute_batch(change).unwrap();
        let found = look(&path);
        let is_reported =
            |damage: &LogDamage| damage.position == Some(Position(position)) && damage.what.contains(word);
        assert!(found.damages.iter().any(is_reported), "{change}: {:?}", found.damages);
    }
}

#[tokio::test]
async fn an_overwritten_page_in_the_middle_is_found_and_the_rest_can_be_read() {
    let (_folder, path) = log(3_000).await;
    let connection = Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT pageno FROM dbstat WHERE name = 'events' AND pagetype = 'leaf' ORDER BY path LIMIT 1 OFFSET 20";
    let page = connection.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    drop(connection);
    let mut bytes = std::fs::read(&path).unwrap();
    let begin = (page as usize - 1) * 4_096;
    bytes[begin..begin + 4_096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let found = verify(&path, &VerifyOptions { limit: 200, ..VerifyOptions::default() }).unwrap();
    let lost: Vec<u64> = found.damages.iter().filter_map(|damage| Some(damage.position?.0)).collect();
    let (first, last) = (*lost.iter().min().unwrap(), *lost.iter().max().unwrap());
    assert!(first > 1 && last < 3_000 && last - first < 100, "{:?}", found.damages);
    assert!(found.damages.iter().any(|damage| damage.page == Some(page.into())));
    assert!(found.damages.iter().any(|damage| damage.stream.is_some()), "a damage must name its stream");
    // The log opens, the other events are readable, and appends work.
    let store = open(&path);
    let before = usize::try_from(first - 1).unwrap();
    assert_eq!(store.read_all(Position::START, before).await.unwrap().len(), before);
    assert!(store.read_all(Position(first - 1), 1).await.is_err());
    assert_eq!(store.read_all(Position(last), usize::MAX).await.unwrap().len() as u64, 3_000 - last);
    fill(&*store, 3_001, 5).await;
    assert_eq!(store.head(), Position(3_005));
}

#[tokio::test]
async fn much_damage_is_reported_in_part() {
    let (_folder, path) = log(3_000).await;
    Connection::open(&path).unwrap().execute_batch("UPDATE events SET recorded_at = recorded_at + 1").unwrap();
    let found = verify(&path, &VerifyOptions { limit: 7, ..VerifyOptions::default() }).unwrap();
    assert_eq!(found.damages.len(), 7);
    assert!(found.more);
}
