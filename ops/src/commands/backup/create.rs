//! `chronova backup create`.
//!
//! The order makes a backup consistent beside a running server. The command first copies the files, which takes most of
//! the time. Then it copies the log up to the log's present end. Last, it copies the files that were added meanwhile.
//! The server may remove one of these files before the command copies it. Then the command copies more of the log, up
//! to an event that ends the use of the file.
//!
//! A killed command leaves no backup. The next command continues the segments of the log that the killed one wrote.

use std::io::Write;

use chronova_events::chain::Anchor;
use chronova_events::envelope::{Position, Timestamp};
use chronova_events::place::FilePlace;
use chronova_events::store::EventStore;

use super::super::audit::archive::{Manifest, manifests, segment};
use super::super::audit::export::hash_at;
use super::super::{CommandFailure, Exit, LogPlace};
use super::files::{CopiedFiles, KEYS};
use super::folder::{BackupWriter, store as store_file};
use super::manifest::{BackupManifest, StoredFile, sha256_of};
use super::prune::prune;
use super::{BackupCreateArgs, at};

/// The largest number of rounds of copying. A further round is needed if a file was removed before it was copied.
const ROUNDS: usize = 100;
/// Times of events are not exactly in order. Events that are more than this many positions apart have their times in
/// order.
const DISORDER: u64 = 8_192;

pub(super) async fn run(
    args: &BackupCreateArgs,
    place: &LogPlace,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<Exit, CommandFailure> {
    let address = args.place.completed(place)?;
    if let Some(Ok(dir)) = address.folder().map(std::path::absolute)
        && let Ok(data) = std::path::absolute(&place.data.0)
        && dir.starts_with(&data)
    {
        let told = format!("{} is in the data directory and would be lost with it: name another folder", dir.display());
        return Err(CommandFailure::Usage(told));
    }
    // Without a log there is nothing to back up, and no folder is made.
    drop(place.read().await?);
    let writer = BackupWriter::open(&address, &place.data)?;
    let backups = writer.folder.backups()?;
    match make(&writer, &backups, place, now, out).await {
        Err(failure) if failure.is_full() => {
            writer.remove_unfinished()?;
            return Err(CommandFailure::Usage(format!(
                "{failure}: no backup was made; the {} older backups in {address} are whole. Free space, then run the \
                 command again: it continues where it stopped",
                backups.len()
            )));
        }
        made => made?,
    }
    if let Some(keep) = args.keep {
        writeln!(out, "removed {} older backups", prune(&writer, keep)?)?;
    }
    Ok(Exit::Yes)
}

async fn make(
    writer: &BackupWriter,
    backups: &[BackupManifest],
    place: &LogPlace,
    now: Timestamp,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let newest = backups.last();
    let mut files = CopiedFiles::after(newest, &writer.folder)?;
    files.collect(&place.data, writer)?;
    for _ in 0..ROUNDS {
        // Opening the log makes its events durable, so that the backup has no event that the log may yet lose.
        let store = place.read().await?;
        let segments = extend(&*store, writer.folder.log(), now).await?;
        let head = store.anchor().await?.unwrap_or(Anchor::START);
        files.collect(&place.data, writer)?;
        // A log in a database does not show events that were appended after it was opened.
        let later = place.read().await?;
        if !files.are_complete(head.position, &*later).await? {
            continue;
        }
        let (recorded_at, bytes) = (time_of(&*store, head.position).await?, files.bytes);
        let mut manifest = BackupManifest::new(now, head, recorded_at);
        manifest.segments = descriptions(writer.folder.log(), &segments, newest)?;
        manifest.keys = store_file(&place.data.keys(), writer.folder.keys(), KEYS.to_owned())?;
        manifest.files = files.list();
        writer.complete(&manifest)?;
        let all: Vec<BackupManifest> = backups.iter().cloned().chain([manifest.clone()]).collect();
        writer.remove_unneeded(&all)?;
        let before = newest.map_or(0, |newest| newest.position);
        writeln!(
            out,
            "backed up to position {} ({} events and {bytes} bytes of files are new)",
            manifest.position,
            manifest.position - before
        )?;
        return Ok(());
    }
    Err(CommandFailure::Usage("images are deleted faster than they can be copied: run the command again".to_owned()))
}

/// Continues the archive up to the end of the log. Returns all segments.
async fn extend(store: &dyn EventStore, log: &dyn FilePlace, now: Timestamp) -> Result<Vec<Manifest>, CommandFailure> {
    let mut segments = manifests(log)?;
    check_same_log(store, log, segments.last()).await?;
    let (mut next, last) = (segments.last().map_or(1, |newest| newest.last + 1), store.head().0);
    while next <= last {
        let written = segment(store, log, (next, last), now, None).await?;
        next = written.last + 1;
        segments.push(written);
    }
    Ok(segments)
}

/// Refuses a log that does not continue the log in the backups: the log of another cloud, or a log that was restored to
/// an earlier position and has new events since.
async fn check_same_log(
    store: &dyn EventStore,
    log: &dyn FilePlace,
    newest: Option<&Manifest>,
) -> Result<(), CommandFailure> {
    let Some(newest) = newest else { return Ok(()) };
    if newest.last <= store.head().0 && hash_at(store, newest.last).await?.to_string() == newest.end {
        return Ok(());
    }
    Err(CommandFailure::Usage(format!(
        "{} has another log, which reaches position {}: a log that was restored to an earlier position needs a backup \
         folder of its own",
        log.address(),
        newest.last
    )))
}

/// The descriptions of the segments after the newest backup.
fn descriptions(
    log: &dyn FilePlace,
    segments: &[Manifest],
    newest: Option<&BackupManifest>,
) -> Result<Vec<StoredFile>, CommandFailure> {
    let before = newest.map_or(0, |newest| newest.position);
    let describe = |segment: &Manifest| {
        let name = segment.described_in();
        let content = log.get(&name).map_err(at(&log.path_of(&name)))?;
        let (size, sha256) = (content.len() as u64, sha256_of(&content));
        Ok(StoredFile { path: name, size, sha256, modified: None })
    };
    segments.iter().filter(|segment| segment.first > before).map(describe).collect()
}

/// The latest time of an event up to `position`. A restore to this time reaches at least this position. Events are not
/// exactly in the order of their times, because some wait for others before they are appended.
async fn time_of(store: &dyn EventStore, position: Position) -> Result<Timestamp, CommandFailure> {
    let before = Position(position.0.saturating_sub(DISORDER));
    let found = store.read_all(before, usize::try_from(position.0 - before.0).unwrap_or(usize::MAX)).await?;
    Ok(found.iter().map(|event| event.recorded_at).max().unwrap_or(Timestamp(0)))
}
