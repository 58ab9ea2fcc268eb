//! Keeps the states of streams in the log's file when their events leave it.
//!
//! A start loads the states of some streams: the users of the embedded identity service, servers, hosts, unfinished
//! processes. Each such stream gets a snapshot before its first events leave the file, so that a start needs no
//! archive. That snapshot is folded from the stream's first event. When later events of the stream leave, the fold
//! begins at the snapshot. Otherwise each move would search the whole archive for each stream.
//!
//! An erasure destroys the keys of all snapshots, and a new version of the program may not read older ones. Such
//! snapshots are written again as soon as the archive can be read.

use std::collections::HashSet;
use std::io::Write;

use chronova_actors::gateway::{keep_state, state_version};
use chronova_actors::shell::folding::StateKeeping;
use chronova_events::envelope::{Position, StreamId};
use chronova_events::sealed::DataSubject;
use chronova_events::sealed::keys::KeySlot;
use chronova_events::store::sqlite::{KeptSnapshot, SqliteStore};
use chronova_events::store::{EventStore as _, StoreError};
use chronova_projections::checkpoint::Checkpoints;
use futures::future::join_all;

use super::super::log_place::LockedLog;
use super::super::progress_line::ProgressLine;
use super::super::rebuild::fold;
use super::super::{CommandFailure, Exit};

/// The number of streams whose states are kept at the same time, so that their snapshots share transactions.
const AT_ONCE: usize = 32;
/// The number while the events are read from the archive, so that half of the log's readers stay free for others.
const AT_ONCE_FROM_ARCHIVE: usize = 2;

/// A stream, and whether its present snapshot is proved.
type StreamToKeep = (StreamId, bool);

/// Writes a snapshot of every stream with an event after `after` up to `until`, if a start may load the stream. Each
/// one is the state that all events of its stream fold into. Returns the number of snapshots.
///
/// # Errors
/// An event cannot be read, or a snapshot cannot be written or differs from the state. Nothing may leave the file then.
pub(super) async fn keep(log: &SqliteStore, after: Position, until: Position) -> Result<u64, StoreError> {
    let known = log.kept_snapshots().await?;
    // An older program moved events without a snapshot of their streams.
    let (is_kept, streams) = (log.archived().await?.first.is_some(), log.streams_between(after, until).await?);
    let streams = streams.into_iter().map(|part| (part.stream, is_kept && part.is_archived)).collect::<Vec<_>>();
    write(log, &known, &streams, AT_ONCE).await
}

/// If the log's first events are in the archive, writes each snapshot again that nobody can read any more. Returns the
/// number of written snapshots.
///
/// # Errors
/// As for [`keep`].
pub(crate) async fn renew(log: &SqliteStore) -> Result<u64, StoreError> {
    if log.archived().await?.end.position == Position::START {
        return Ok(0);
    }
    let known = log.kept_snapshots().await?;
    let is_usable =
        |kept: &KeptSnapshot| kept.is_readable && state_version(kept.stream.category()) == Some(kept.state_version);
    let lost = known.iter().filter(|kept| !is_usable(kept)).map(|kept| (kept.stream.clone(), false));
    write(log, &known, &lost.collect::<Vec<_>>(), AT_ONCE_FROM_ARCHIVE).await
}

/// Like [`renew`], for a program that calls it again and again: without an erasure since the last call, no snapshot has
/// been lost. `seen` is the key of the snapshots at that call. May wait for the disk.
///
/// # Errors
/// As for [`keep`].
pub(crate) async fn renew_since(log: &SqliteStore, seen: &mut Option<KeySlot>) -> Result<u64, StoreError> {
    let Some(keys) = log.keys() else { return Ok(0) };
    let (key, _) = keys.current(&DataSubject::Caches)?;
    if *seen == Some(key) {
        return Ok(0);
    }
    let renewed = renew(log).await?;
    *seen = Some(key);
    Ok(renewed)
}

/// Makes the next start independent of the archive again, after a command that may have erased data.
///
/// # Errors
/// The error in `exit`, or the output cannot be written.
pub(in crate::commands) async fn after_erasure(
    locked: &LockedLog,
    checkpoints: &Checkpoints,
    exit: Result<Exit, CommandFailure>,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    if let LockedLog::File(log) = locked
        && matches!(exit, Ok(Exit::Yes))
        && let Err(failure) = restore(log, checkpoints).await
    {
        writeln!(out, "the next start needs the archive, because the states of streams cannot be kept: {failure}")?;
    }
    exit
}

/// Writes the snapshots and a checkpoint again, if events are in the archive.
async fn restore(log: &SqliteStore, checkpoints: &Checkpoints) -> Result<(), CommandFailure> {
    if log.archived().await?.end.position == Position::START {
        return Ok(());
    }
    renew(log).await?;
    if checkpoints.list().0.is_empty() {
        let whole = fold(log, Position::END).await?;
        checkpoints.save(&whole).map_err(|error| CommandFailure::Usage(error.to_string()))?;
    }
    Ok(())
}

async fn write(
    log: &SqliteStore,
    known: &[KeptSnapshot],
    streams: &[StreamToKeep],
    at_once: usize,
) -> Result<u64, StoreError> {
    let (mut written, mut done, mut ended) = (0, 0, HashSet::new());
    let mut progress = ProgressLine::new("keeps the states of streams", 0, streams.len() as u64);
    for part in streams.chunks(at_once) {
        let kept = join_all(part.iter().map(|(stream, is_proved)| keep_state(log, stream, *is_proved))).await;
        for ((stream, _), kept) in part.iter().zip(kept) {
            match kept? {
                StateKeeping::Kept => written += 1,
                StateKeeping::NotNeeded => _ = ended.insert(stream),
            }
        }
        done += part.len() as u64;
        progress.at(done);
    }
    drop(progress);
    // Snapshots of streams that have ended since the snapshot was written.
    let needless = known.iter().map(|kept| &kept.stream).filter(|stream| ended.contains(stream));
    let needless: Vec<StreamId> = needless.cloned().collect();
    if !needless.is_empty() {
        log.forget_for_ever(needless).await?;
    }
    Ok(written)
}
