//! Writes segments of the archive.
//!
//! A segment consists of frames of some events each, which are compressed by themselves. So a reader of one event
//! unpacks one frame, and a reader of the whole segment needs to know nothing of frames.

use std::io::{self, Write as _};

use super::entry::ExportEntry;
use super::{ArchiveFault, FORMAT, Manifest, SegmentFrame, VERSION, at, sha256};
use crate::chain::EventHash;
use crate::envelope::{Position, Timestamp};
use crate::place::FilePlace;
use crate::store::EventStore;

/// The largest number of events in one segment.
const SEGMENT: u64 = 250_000;
/// The number of events in one frame.
const FRAME: u64 = 1_024;
/// The level of compression.
const LEVEL: i32 = 9;

/// Signs the text of a manifest.
pub type SignText<'a> = &'a (dyn Fn(&str) -> String + Sync);

/// The last position of the segment that begins at `first`.
pub fn end_of(first: u64, last: u64) -> u64 {
    last.min(first + SEGMENT - 1)
}

/// The name of a segment's file.
pub fn name_of(first: u64, last: u64) -> String {
    format!("log-{first:020}-{last:020}.jsonl.zst")
}

/// Writes the next segment: the events from `first` to `last`, or fewer if there are too many for one segment. The
/// segment is durable before its manifest, and both are when this returns. `tell` gets the position that was reached.
///
/// # Errors
/// The log has no such events, or a file cannot be written.
pub async fn write(
    store: &dyn EventStore,
    place: &dyn FilePlace,
    (first, last): (u64, u64),
    now: Timestamp,
    sign: Option<SignText<'_>>,
    mut tell: impl FnMut(u64),
) -> Result<Manifest, ArchiveFault> {
    let last = end_of(first, last);
    let name = name_of(first, last);
    let target = place.path_of(&name);
    let mut draft = place.draft(&name).map_err(at(&target))?;
    let temporary = draft.path.clone();
    let before = hash_at(store, first.saturating_sub(1)).await?;
    let (mut frames, mut hash, mut offset, mut position) = (Vec::new(), before, 0_u64, first.saturating_sub(1));
    while position < last {
        tell(position);
        frames.push(SegmentFrame { first: position + 1, offset, before: hash.to_string() });
        let lines = frame(store, &mut position, last, &mut hash).await?;
        let packed = tokio::task::spawn_blocking(move || zstd::bulk::compress(&lines, LEVEL)).await;
        let packed = packed.map_err(io::Error::other).and_then(|packed| packed).map_err(at(&temporary))?;
        draft.file.write_all(&packed).map_err(at(&temporary))?;
        offset += packed.len() as u64;
    }
    let mut manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        file: name,
        first,
        last,
        before: before.to_string(),
        end: hash.to_string(),
        sha256: sha256(&temporary)?,
        archived_at: now.to_string(),
        frames,
        signature: None,
    };
    manifest.signature = sign.map(|sign| sign(&manifest.text()));
    place.finish(draft, &manifest.sha256).map_err(at(&target))?;
    describe(place, &manifest)?;
    Ok(manifest)
}

/// The lines of the next frame, which ends at `last` at the latest. Moves `position` and `hash` to its last event.
async fn frame(
    store: &dyn EventStore,
    position: &mut u64,
    last: u64,
    hash: &mut EventHash,
) -> Result<Vec<u8>, ArchiveFault> {
    let (end, mut lines) = (last.min(*position + FRAME), Vec::new());
    while *position < end {
        let wanted = usize::try_from(end - *position).unwrap_or(usize::MAX);
        let page = store.read_all(Position(*position), wanted).await?;
        if page.is_empty() {
            return Err(ArchiveFault::Unusable(format!("the log ends at position {position}")));
        }
        for recorded in &page {
            serde_json::to_writer(&mut lines, &ExportEntry::shown(recorded, None))
                .map_err(|error| ArchiveFault::Unusable(error.to_string()))?;
            lines.push(b'\n');
            let none = || ArchiveFault::Unusable(format!("the log has no hash at position {}", recorded.position));
            (*position, *hash) = (recorded.position.0, recorded.hash.ok_or_else(none)?);
        }
    }
    Ok(lines)
}

/// Writes the manifest.
fn describe(place: &dyn FilePlace, manifest: &Manifest) -> Result<(), ArchiveFault> {
    let described = manifest.described_in();
    let mut text = serde_json::to_vec_pretty(manifest).map_err(|error| ArchiveFault::Unusable(error.to_string()))?;
    text.push(b'\n');
    place.create(&described, &text).map_err(at(&place.path_of(&described)))
}

/// The chain's hash at a position of the log.
///
/// # Errors
/// The log cannot be read, or has no such event.
pub async fn hash_at(store: &dyn EventStore, position: u64) -> Result<EventHash, ArchiveFault> {
    let Some(before) = position.checked_sub(1) else { return Ok(EventHash::START) };
    let found = store.read_all(Position(before), 1).await?;
    let hash = found.first().filter(|recorded| recorded.position.0 == position).and_then(|recorded| recorded.hash);
    hash.ok_or_else(|| ArchiveFault::Unusable(format!("the log has no hash at position {position}")))
}
