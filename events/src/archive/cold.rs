//! Reads single events of an archive, for a log whose first events are in the archive alone.
//!
//! A read unpacks the frames with the wanted events, and keeps the unpacked bytes of a few frames in memory. When a
//! frame is unpacked, each of its events is compared with the hash chain. So a changed byte is an error that names the
//! file and the first event that is not whole. The bytes in memory are those of the file: personal fields are sealed in
//! them. So an erasure need not forget them.
//!
//! An archive in an object store also has a cache of such parts on the local disk ([`crate::place::s3`]).
//!
//! A place may be away: an object store does not answer, or a folder is not mounted. A log asks such a place only now
//! and then ([`ColdEvents::sparing`]). Otherwise each of the log's few readers would wait for the place, and the reads
//! of other events would wait for a reader.

use std::collections::VecDeque;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::entry::ExportEntry;
use super::{ArchiveFault, Manifest, SegmentFrame, at, manifests, sha256_in, shown};
use crate::chain::EventHash;
use crate::envelope::Recorded;
use crate::place::{FilePlace, PlaceAddress};
use crate::sealed::keys::KeyRing;
use crate::store::StoreError;

/// The number of unpacked bytes in memory. The frame that was read last stays, however large it is.
const KEPT: usize = 32 << 20;

/// One read of a place that is away ends within this time.
const LONGEST_READ: Duration = Duration::from_mins(1);

/// The events of an archive.
#[derive(Debug)]
pub struct ColdEvents {
    place: Arc<dyn FilePlace>,
    /// For this time, reads do not ask a place that was away. `None`: each read asks the place.
    pause: Option<Duration>,
    state: Mutex<ColdState>,
}

#[derive(Debug, Default)]
struct ColdState {
    segments: Arc<Vec<Manifest>>,
    frames: VecDeque<Arc<ColdFrame>>,
    bytes: usize,
    away: Option<AwayPlace>,
}

/// A place that could not be read.
#[derive(Debug)]
struct AwayPlace {
    reason: String,
    /// Reads fail at once until then.
    until: Instant,
}

/// The unpacked lines of one frame. All of them follow the chain.
#[derive(Debug)]
struct ColdFrame {
    first: u64,
    lines: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

/// A frame's place in the archive.
struct FramePlace<'a> {
    segment: &'a Manifest,
    /// `None` in a segment without frames. The file of such a segment is read as a whole.
    frame: Option<&'a SegmentFrame>,
    next: Option<&'a SegmentFrame>,
}

impl FramePlace<'_> {
    fn first(&self) -> u64 {
        self.frame.map_or(self.segment.first, |frame| frame.first)
    }

    fn last(&self) -> u64 {
        self.next.map_or(self.segment.last, |next| next.first.saturating_sub(1))
    }

    /// The chain's hash before the first event.
    fn before(&self) -> &str {
        self.frame.map_or(&self.segment.before, |frame| &frame.before)
    }

    /// The chain's hash at the last event.
    fn end(&self) -> &str {
        self.next.map_or(&self.segment.end, |next| &next.before)
    }

    /// The first byte, and the number of bytes.
    fn part(&self) -> (u64, u64) {
        let from = self.frame.map_or(0, |frame| frame.offset);
        (from, self.next.map_or(u64::MAX, |next| next.offset.saturating_sub(from)))
    }

    fn bytes(&self, place: &dyn FilePlace) -> std::io::Result<Vec<u8>> {
        let (from, length) = self.part();
        place.range(self.segment.file_name(), from, length)
    }

    /// Drops the cached copy of the frame's bytes, because they are damaged.
    fn forget(&self, place: &dyn FilePlace) {
        let (from, length) = self.part();
        place.forget(self.segment.file_name(), from, length);
    }
}

impl ColdFrame {
    fn last(&self) -> u64 {
        self.first + self.ends.len() as u64 - 1
    }

    fn line(&self, position: u64) -> Option<&[u8]> {
        let nth = usize::try_from(position.checked_sub(self.first)?).ok()?;
        let begin = match nth.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.lines.get(begin..*self.ends.get(nth)?)
    }

    fn event(&self, position: u64, keys: Option<&Arc<KeyRing>>) -> Result<Recorded, StoreError> {
        let entry = self.line(position).and_then(|line| serde_json::from_slice::<ExportEntry>(line).ok());
        let malformed = || StoreError::Corrupt { position, reason: "the archive has a malformed event".to_owned() };
        entry.and_then(|entry| entry.recorded(keys)).ok_or_else(malformed)
    }

    /// Unpacks a frame, and compares its events with the chain.
    fn read(archive: &dyn FilePlace, place: &FramePlace<'_>) -> Result<Self, StoreError> {
        let path = archive.path_of(place.segment.file_name());
        let lost = |error: std::io::Error| {
            let position = place.first();
            // A folder that is not mounted has none of its files.
            let is_away = error.kind() == std::io::ErrorKind::TimedOut || archive.names().is_err();
            let reason = format!("the archive cannot be read: {}: {error}", path.display());
            match is_away {
                true => StoreError::ArchiveAway { position, reason },
                false => StoreError::Corrupt { position, reason },
            }
        };
        let bytes = place.bytes(archive).map_err(lost)?;
        let mut lines = Vec::new();
        // If the bytes are damaged, `lines` has the lines before the damage.
        let unpacked = zstd::Decoder::new(&bytes[..]).and_then(|mut decoder| decoder.read_to_end(&mut lines).map(drop));
        let (first, mut position) = (place.first(), place.first());
        let corrupt = |position: u64, reason: &dyn std::fmt::Display| StoreError::Corrupt {
            position,
            reason: format!("{}: {reason}", path.display()),
        };
        let mut hash = place.before().parse::<EventHash>().map_err(|error| corrupt(position, &error))?;
        let (mut ends, mut end) = (Vec::new(), 0);
        for line in lines.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let entry: ExportEntry = serde_json::from_slice(line).map_err(|error| corrupt(position, &error))?;
            hash = entry.follows(&hash, position).map_err(|reason| corrupt(position, &reason))?;
            end += line.len();
            ends.push(end);
            position += 1;
        }
        unpacked.map_err(|error| corrupt(position, &error))?;
        if position != place.last().saturating_add(1) || hash.to_string() != place.end() {
            return Err(corrupt(position, &"it does not end as its manifest says"));
        }
        Ok(Self { first, lines, ends })
    }
}

impl ColdEvents {
    /// The archive in `place`, which is read when an event is asked for.
    pub fn new(place: Arc<dyn FilePlace>) -> Self {
        Self { place, pause: None, state: Mutex::default() }
    }

    /// After a read that found the place away, reads fail at once for this time. Then one read asks the place again,
    /// and the others still fail until it has an answer.
    #[must_use]
    pub fn sparing(mut self, pause: Duration) -> Self {
        self.pause = Some(pause);
        self
    }

    pub fn address(&self) -> &PlaceAddress {
        self.place.address()
    }

    fn state(&self) -> MutexGuard<'_, ColdState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads events after `after` and up to `last`: at least one, and at most those of one frame.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] names the first event that the archive does not have as it was written.
    /// [`StoreError::ArchiveAway`]: the archive's place cannot be read now.
    pub fn read(&self, after: u64, last: u64, keys: Option<&Arc<KeyRing>>) -> Result<Vec<Recorded>, StoreError> {
        let frame = self.frame(after + 1)?;
        // If a manifest lists its frames out of order, the frame may lack the event. The first position then gives the
        // error, so callers make progress or stop.
        let last = last.min(frame.last()).max(after + 1);
        (after + 1..=last).map(|position| frame.event(position, keys)).collect()
    }

    /// Reads the event at `position`.
    ///
    /// # Errors
    /// As for [`ColdEvents::read`].
    pub fn event(&self, position: u64, keys: Option<&Arc<KeyRing>>) -> Result<Recorded, StoreError> {
        self.frame(position)?.event(position, keys)
    }

    /// The last position of the frame that should have the event at `position`, if any should.
    pub fn end_of_part(&self, position: u64) -> Option<u64> {
        let segments = self.segments(position).ok()?;
        place_of(&segments, position).map(|place| place.last())
    }

    /// Checks that the segments up to `last` follow each other from the first event on, and makes them durable.
    ///
    /// # Errors
    /// A segment is missing or belongs to another chain, or a file cannot be made durable.
    pub fn make_durable(&self, last: u64) -> Result<(), StoreError> {
        let (mut next, mut before, mut names) = (1, EventHash::START.to_string(), Vec::new());
        for segment in manifests(&*self.place)? {
            if next > last {
                break;
            }
            if segment.first != next || segment.before != before {
                let what = format!("the archive in {} does not continue after position {}", self.address(), next - 1);
                return Err(StoreError::Io(what));
            }
            names.extend([segment.file_name().to_owned(), segment.described_in()]);
            (next, before) = (segment.last.saturating_add(1), segment.end);
        }
        if next <= last {
            let what = format!("the archive in {} ends at position {}", self.address(), next - 1);
            return Err(StoreError::Io(what));
        }
        Ok(self.place.make_durable(&names).map_err(at(&shown(&*self.place)))?)
    }

    /// The files of changed or missing segments, up to the segment with the event at `last`.
    ///
    /// # Errors
    /// The place or a manifest cannot be read, or an object store does not answer.
    pub fn changed_files(&self, last: u64) -> Result<Vec<PathBuf>, ArchiveFault> {
        let segments = manifests(&*self.place)?;
        let changed = |segment: &Manifest| {
            let name = segment.file_name();
            match sha256_in(&*self.place, name) {
                Ok(sha256) if sha256 == segment.sha256 => None,
                // The silence of an object store does not mean that the file was changed.
                Err(ArchiveFault::File { error, .. }) if error.kind() == std::io::ErrorKind::TimedOut => {
                    Some(Err(at(&self.place.path_of(name))(error)))
                }
                _ => Some(Ok(self.place.path_of(name))),
            }
        };
        segments.iter().filter(|segment| segment.first <= last).filter_map(changed).collect()
    }

    /// The segments. The place is read again if none of them has `position`, because an archive grows.
    fn segments(&self, position: u64) -> Result<Arc<Vec<Manifest>>, ArchiveFault> {
        let known = Arc::clone(&self.state().segments);
        if place_of(&known, position).is_some() {
            return Ok(known);
        }
        let found = Arc::new(manifests(&*self.place)?);
        self.state().segments = Arc::clone(&found);
        Ok(found)
    }

    fn frame(&self, position: u64) -> Result<Arc<ColdFrame>, StoreError> {
        let has = |frame: &&Arc<ColdFrame>| (frame.first..=frame.last()).contains(&position);
        if let Some(frame) = self.state().frames.iter().find(has) {
            return Ok(Arc::clone(frame));
        }
        let Some(pause) = self.pause else { return self.read_frame(position) };
        if let Some(away) = &mut self.state().away {
            if Instant::now() < away.until {
                return Err(StoreError::ArchiveAway { position, reason: away.reason.clone() });
            }
            away.until = Instant::now() + LONGEST_READ;
        }
        let read = self.read_frame(position);
        self.state().away = match &read {
            Err(StoreError::ArchiveAway { reason, .. }) => {
                Some(AwayPlace { reason: reason.clone(), until: Instant::now() + pause })
            }
            _ => None,
        };
        read
    }

    fn read_frame(&self, position: u64) -> Result<Arc<ColdFrame>, StoreError> {
        let lost = |reason: String| StoreError::Corrupt { position, reason };
        let segments = self.segments(position);
        let segments = segments.map_err(|fault| {
            let reason = format!("the archive cannot be read: {fault}");
            match fault {
                // The place does not answer, or it is not there.
                ArchiveFault::File { .. } => StoreError::ArchiveAway { position, reason },
                _ => lost(reason),
            }
        })?;
        let Some(place) = place_of(&segments, position) else {
            return Err(lost(format!("the archive in {} does not have the event", self.address())));
        };
        let frame = ColdFrame::read(&*self.place, &place).inspect_err(|_| place.forget(&*self.place));
        let frame = Arc::new(frame?);
        let mut state = self.state();
        state.bytes += frame.lines.len();
        state.frames.push_back(Arc::clone(&frame));
        while state.bytes > KEPT && state.frames.len() > 1 {
            let gone = state.frames.pop_front().map_or(0, |gone| gone.lines.len());
            state.bytes -= gone;
        }
        Ok(frame)
    }
}

/// The frame that should have the event at `position`.
fn place_of(segments: &[Manifest], position: u64) -> Option<FramePlace<'_>> {
    let segment = segments.iter().find(|segment| (segment.first..=segment.last).contains(&position))?;
    let after = segment.frames.partition_point(|frame| frame.first <= position);
    let frame = after.checked_sub(1).and_then(|nth| segment.frames.get(nth));
    let next = if frame.is_some() { segment.frames.get(after) } else { None };
    Some(FramePlace { segment, frame, next })
}
