#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::Cell;

use chronova_events::envelope::{Meta, NewEvent, StreamId};
use chronova_events::registry;
use chronova_events::store::Expected;
use chronova_events::store::memory::MemoryStore;

use super::*;
use crate::runner::catch_up;

/// A log with all sample events, `rounds` times.
pub(crate) async fn filled(rounds: u32) -> Arc<MemoryStore> {
    let store = MemoryStore::new();
    for (event, time) in (0..rounds).flat_map(|_| registry::samples()).zip(1_000..) {
        let noun = event.kind().split_once('.').unwrap().0.to_owned();
        let stream = StreamId::new(&noun, uuid::Uuid::from_u128(1));
        let new = NewEvent::new(event, Timestamp(time), &Meta::system("test"));
        store.append(&stream, Expected::Any, vec![new]).await.unwrap();
    }
    store
}

async fn views_at(store: &MemoryStore, position: u64) -> Views {
    let views = Views::new();
    for recorded in store.read_all(Position::START, usize::try_from(position).unwrap()).await.unwrap() {
        views.apply(&[recorded]).unwrap();
    }
    views
}

fn same(left: &Views, right: &Views) {
    assert_eq!(differences(left, right, 5), [""; 0]);
    assert_eq!(left.marked(), right.marked());
}

const ALL: CheckpointOptions = CheckpointOptions { newest: 2, history: 64, spacing: 1, disk: u64::MAX };

/// Checkpoints with keys of their own.
fn checkpoints_in(folder: impl Into<PathBuf>) -> Arc<Checkpoints> {
    Checkpoints::new(folder, ALL, KeyRing::in_memory().unwrap())
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_checkpoint_file_holds_no_word_of_the_read_models() {
    let folder = tempfile::tempdir().unwrap();
    let views = Views::new();
    catch_up(&*filled(1).await, &views).await.unwrap();
    let checkpoints = checkpoints_in(folder.path());
    let sealed = fs::read(checkpoints.save(&views).unwrap().path).unwrap();
    let clear = folder.path().join("clear");
    file::write_clear(&views, &clear);
    let clear = fs::read(clear).unwrap();
    // The table holds the names of read models. The sealed part holds no word of the read models.
    let words = clear.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| word.len() > 5);
    let words = words
        .filter_map(|word| str::from_utf8(word).ok())
        .filter(|word| !Views::NAMES.concat().contains(*word) && !["CHRVIEWS", "SWEIVRHC"].contains(word));
    let (all, found): (Vec<&str>, Vec<&str>) =
        (words.clone().collect(), words.filter(|word| holds(&sealed, word)).collect());
    assert!(all.len() > 50 && found.is_empty(), "{} {found:?}", all.len());
}

#[tokio::test]
async fn a_checkpoint_without_a_seal_is_read_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(1).await;
    let (old, new) = (views_at(&store, 20).await, views_at(&store, 40).await);
    let clear = folder.path().join("views-00000000000000000020.checkpoint");
    file::write_clear(&old, &clear);
    let checkpoints = checkpoints_in(folder.path());
    let opened = checkpoints.load(|_| true);
    same(&opened.views, &old);
    assert!(opened.remarks()[0].contains("did not encrypt checkpoints"), "{:?}", opened.remarks());
    checkpoints.save(&new).unwrap();
    assert!(!clear.exists());
    assert_eq!(checkpoints.load(|_| true).remarks(), [""; 0]);
}

#[tokio::test]
async fn after_an_erasure_no_copy_of_a_checkpoint_opens_and_no_earlier_fork_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(1).await;
    let (old, new) = (views_at(&store, 20).await, views_at(&store, 40).await);
    let checkpoints = checkpoints_in(folder.path());
    let path = checkpoints.save(&old).unwrap().path;
    let copy = fs::read(&path).unwrap();
    let era = checkpoints.era();
    checkpoints.discard_all().unwrap();
    assert!(!path.exists());
    assert!(matches!(checkpoints.save_in(era, &old), Err(CheckpointError::Overtaken)));
    // An operator restores a backup of the file.
    fs::write(&path, copy).unwrap();
    let opened = checkpoints.load(|_| true);
    assert!(opened.from.is_none() && opened.refused[0].reason.contains("destroyed by an erasure"), "{opened:?}");
    checkpoints.save_in(checkpoints.era(), &new).unwrap();
    same(&checkpoints.load(|_| true).views, &new);
    // Without the file of keys no checkpoint is read.
    let strange = checkpoints_in(folder.path()).load(|_| true);
    assert!(strange.from.is_none() && strange.refused[0].reason.contains("not in the file of keys"), "{strange:?}");
}

#[tokio::test]
async fn a_loaded_checkpoint_equals_the_saved_read_models() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(2).await;
    let views = Views::new();
    catch_up(&*store, &views).await.unwrap();
    let checkpoints = checkpoints_in(folder.path());
    let found = checkpoints.save(&views).unwrap();
    let opened = checkpoints.load(|_| true);
    assert_eq!(opened.from.as_ref(), Some(&found));
    assert_eq!((opened.remarks(), opened.provisional.len(), opened.absent.len()), (vec![], 0, 0));
    same(&opened.views, &views);
    assert!(checkpoints_in(folder.path().join("nowhere")).load(|_| true).from.is_none());
}

/// Ends the writing before each step in turn. The previous checkpoint stays whole, and no unfinished file is mistaken
/// for a checkpoint.
#[tokio::test]
async fn a_crash_between_any_two_steps_leaves_a_usable_checkpoint() {
    let store = filled(2).await;
    let (old, new) = (views_at(&store, 20).await, views_at(&store, 40).await);
    let mut last = 0;
    for crash in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = checkpoints_in(folder.path());
        checkpoints.save(&old).unwrap();
        let steps = Cell::new(0);
        let renamed = Cell::new(false);
        let written = checkpoints.save_by_steps(&new, &mut |step| {
            if steps.get() == crash {
                return Err(io::Error::other("power is gone"));
            }
            steps.set(steps.get() + 1);
            renamed.set(renamed.get() || step == CheckpointWriteStep::Rename);
            Ok(())
        });
        let opened = checkpoints.load(|_| true);
        same(&opened.views, if renamed.get() { &new } else { &old });
        assert_eq!(opened.refused, []);
        // The next write cleans up after the crash.
        checkpoints.save(&new).unwrap();
        assert!(checkpoints.files("tmp").is_empty());
        if written.is_ok() {
            last = crash;
            break;
        }
    }
    // The steps: create, each read model, table, sync, rename, sync of the folder, thin out.
    assert_eq!(last, Views::NAMES.len() + 6);
}

/// Cuts the newest file at each of its first bytes, in its middle, and in its table and tail. A disk that loses the end
/// of a file leaves such a file.
#[tokio::test]
async fn the_previous_checkpoint_replaces_one_that_was_cut_short() {
    let store = filled(2).await;
    let (old, new) = (views_at(&store, 20).await, views_at(&store, 40).await);
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints_in(folder.path());
    checkpoints.save(&old).unwrap();
    let newest = checkpoints.save(&new).unwrap().path;
    let whole = fs::read(&newest).unwrap();
    for length in (0..64).chain([whole.len() / 4, whole.len() / 2]).chain(whole.len() - 256..whole.len()) {
        fs::write(&newest, &whole[..length]).unwrap();
        let opened = checkpoints.load(|_| true);
        same(&opened.views, &old);
        assert_eq!(opened.refused.len(), 1);
        assert!(opened.remarks()[0].contains("is not used"), "{:?}", opened.remarks());
    }
    fs::write(&newest, [&whole[..], b"x"].concat()).unwrap();
    same(&checkpoints.load(|_| true).views, &old);
}

/// Flips bits all over the file; each flip is detected.
#[tokio::test]
async fn flipped_bits_are_detected() {
    let store = filled(1).await;
    let (old, new) = (views_at(&store, 20).await, views_at(&store, 40).await);
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = checkpoints_in(folder.path());
    checkpoints.save(&old).unwrap();
    let newest = checkpoints.save(&new).unwrap().path;
    let whole = fs::read(&newest).unwrap();
    let edges = (0..64).chain(whole.len() * 8 - 1_024..whole.len() * 8);
    for bit in edges.chain((0..whole.len() * 8).step_by(whole.len() * 8 / 300 + 1)) {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&newest, &flipped).unwrap();
        let opened = checkpoints.load(|_| true);
        assert_eq!(opened.refused.len(), 1, "bit {bit}");
        assert_eq!(opened.views.position(), Position(20), "bit {bit}");
    }
    fs::remove_file(checkpoints.list().0[0].path.clone()).unwrap();
    let opened = checkpoints.load(|_| true);
    assert!(opened.from.is_none());
    same(&opened.views, &Views::new());
}

#[tokio::test]
async fn a_checkpoint_of_another_log_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (log, other) = (filled(1).await, filled(2).await);
    let checkpoints = checkpoints_in(folder.path());
    checkpoints.save(&views_at(&log, 20).await).unwrap();
    assert_eq!(checkpoints.open(&*log).await.unwrap().views.position(), Position(20));
    // The other log has events of the same kinds, but other event ids.
    let opened = checkpoints.open(&*other).await.unwrap();
    assert!(opened.from.is_none() && opened.refused[0].reason.contains("another event at position 20"));
    let opened = checkpoints.open(&*MemoryStore::new()).await.unwrap();
    assert!(opened.refused[0].reason.contains("the log ends at 0"), "{:?}", opened.refused);
}

#[tokio::test]
async fn a_query_about_the_past_begins_at_the_nearest_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(2).await;
    let checkpoints = checkpoints_in(folder.path());
    for position in [10, 20, 30] {
        checkpoints.save(&views_at(&store, position).await).unwrap();
    }
    let at = |position: u64| checkpoints.nearest(|mark| mark.position.0 <= position).map(|views| views.position().0);
    assert_eq!((at(9), at(10), at(29), at(99)), (None, Some(10), Some(20), Some(30)));
}

#[tokio::test]
async fn a_keeper_writes_when_enough_has_happened() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(1).await;
    let views = Arc::new(Views::new());
    let checkpoints = checkpoints_in(folder.path());
    let pause = std::time::Duration::from_millis(1);
    let options = KeeperOptions { events: 10, interval: std::time::Duration::from_hours(1), pause };
    let keeper = CheckpointKeeper::new(Arc::clone(&views), Arc::clone(&checkpoints), options, Position::START);
    let keeping = tokio::spawn(Arc::clone(&keeper).keep());
    catch_up(&*store, &views).await.unwrap();
    while keeper.kept().position < store.head() {
        tokio::time::sleep(pause).await;
    }
    keeping.abort();
    same(&checkpoints.load(|_| true).views, &views);
    // The folder is a file, so the keeper reports the failure and goes on.
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let bad = CheckpointKeeper::new(views, checkpoints_in(file), options, Position::START);
    assert!(!bad.write().await);
    assert!(bad.kept().failure.is_some());
}
