//! The names of servers in a sealed file beside the log, `log.db.names`: for `chronova audit --server NAME`.
//!
//! The event that names a server has the name sealed under the server's key, and the index opens no seal. So a search
//! for a name would open an event of every server that ever was. The file repeats the names up to a position, with the
//! positions of their events. It is sealed as a whole under the key of the caches, which every erasure destroys.
//!
//! The file never answers by itself: each event that it names is read from the log and compared. A name that it lacks
//! is searched in the log. Anybody may remove the file. One that cannot be opened, or is of another log, is made again.
//!
//! ```text
//! "CHRNAMES" | format, u32 | seal, 40 bytes | position, u64 | hash of the event there, 32 bytes | sealed entries
//! ```
//!
//! An entry is a position, u64, the length of a name, u32, and the name. Numbers are little-endian. A version that
//! takes names from other events needs another format number, because its file has other names.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use chronova_events::chain::{Anchor, EventHash};
use chronova_events::envelope::{Position, Revision, StreamId};
use chronova_events::erasure::{ErasureEvent, Erasures};
use chronova_events::fold::Fold as _;
use chronova_events::registry::{Event, NounEvent as _};
use chronova_events::sealed::keys::KeyRing;
use chronova_events::sealed::whole::{SealMark, WholeSeal};
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
use uuid::Uuid;

use super::super::CommandFailure;
use super::super::log_pages::payload;
use super::export::hash_at;

const BEGIN: &[u8; 12] = b"CHRNAMES\x01\0\0\0";
const HEAD: usize = BEGIN.len() + SealMark::BYTES + 8 + 32;
/// The file is written again when the log has so many further events.
const BEHIND: u64 = 4_096;
/// The number of events that are read at once.
const PAGE: usize = 1_024;

/// No log has so many events of erasures.
const ERASURES: usize = 1 << 16;

/// How an event names a server; `None` if it does not.
pub(super) type NameOf = fn(&Event) -> Option<String>;

/// The names of servers.
#[derive(Debug)]
pub(super) struct ServerNames {
    /// The end of the part of the log that the file covers.
    until: Anchor,
    entries: Vec<u8>,
    /// The key for a new file.
    seal: Option<WholeSeal>,
}

impl ServerNames {
    /// The names of all servers. Takes them from the file, adds those of later events, and writes the file again if
    /// there are many later events.
    pub(super) async fn of(
        store: &dyn EventStore,
        path: &Path,
        kinds: &[&str],
        name: NameOf,
    ) -> Result<Self, CommandFailure> {
        let mut names = Self::read(store, path).await;
        let end = names.extend(store, kinds, name).await?;
        names.save(store, path, end).await;
        Ok(names)
    }

    /// Writes the file again if there are many later events and the log has a key for it.
    pub(super) async fn keep(
        store: &dyn EventStore,
        path: &Path,
        kinds: &[&str],
        name: NameOf,
    ) -> Result<(), CommandFailure> {
        let mut names = Self::read(store, path).await;
        if names.seal.is_some() {
            let end = names.extend(store, kinds, name).await?;
            names.save(store, path, end).await;
        }
        Ok(())
    }

    async fn read(store: &dyn EventStore, path: &Path) -> Self {
        let mut names = Self { until: Anchor::START, entries: Vec::new(), seal: None };
        let Some(keys) = store.keys() else { return names };
        if let Some((until, entries)) = opened(path, keys)
            && until.position <= store.head()
            && hash_at(store, until.position.0).await.is_ok_and(|hash| hash == until.hash)
        {
            (names.until, names.entries) = (until, entries);
        }
        if store.head().0.saturating_sub(names.until.position.0) >= BEHIND {
            names.seal = key(store, keys).await;
            // An erasure before the key was found may have erased names that were read above, so they are read again.
            if names.seal.is_some() {
                let again = opened(path, keys).filter(|(until, _)| *until == names.until);
                (names.until, names.entries) = again.unwrap_or((Anchor::START, Vec::new()));
            }
        }
        names
    }

    /// Adds the names of later events. Returns the end of the log.
    async fn extend(
        &mut self,
        store: &dyn EventStore,
        kinds: &[&str],
        name: NameOf,
    ) -> Result<Position, CommandFailure> {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let (criteria, mut at) = (Criteria { kinds, ..Criteria::default() }, self.until.position);
        loop {
            let page = store.search(at, PAGE, &criteria).await?;
            for recorded in &page.events {
                if let Some(name) = name(payload(recorded)?) {
                    self.add(recorded.position, &name);
                }
            }
            if page.until == at {
                return Ok(at);
            }
            at = page.until;
        }
    }

    fn add(&mut self, position: Position, name: &str) {
        // A name has at most 255 characters.
        let Ok(length) = u32::try_from(name.len()) else { return };
        self.entries.extend_from_slice(&position.0.to_le_bytes());
        self.entries.extend_from_slice(&length.to_le_bytes());
        self.entries.extend_from_slice(name.as_bytes());
    }

    fn each(&self) -> impl Iterator<Item = (Position, &[u8])> {
        let mut rest = self.entries.as_slice();
        std::iter::from_fn(move || {
            let (position, after) = rest.split_first_chunk::<8>()?;
            let (length, after) = after.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (name, after) = after.split_at_checked(length)?;
            rest = after;
            Some((Position(u64::from_le_bytes(*position)), name))
        })
    }

    /// The servers that ever had this name.
    pub(super) async fn servers(
        &self,
        store: &dyn EventStore,
        wanted: &str,
        name: NameOf,
    ) -> Result<Vec<Uuid>, CommandFailure> {
        let named = self.each().filter(|(_, name)| *name == wanted.as_bytes());
        let positions: Vec<Position> = named.map(|(position, _)| position).collect();
        let mut found = Vec::new();
        for part in positions.chunks(PAGE) {
            for recorded in store.read_at(part).await? {
                if name(payload(&recorded)?).is_some_and(|name| name == wanted) {
                    found.extend(recorded.stream.key().parse::<Uuid>().ok());
                }
            }
        }
        Ok(found)
    }

    /// Writes the file, if there is a key. The names reach up to `end`.
    async fn save(&self, store: &dyn EventStore, path: &Path, end: Position) {
        let Some(seal) = &self.seal else { return };
        // The log on an EventStoreDB server has no hashes, and so no file.
        let Ok(hash) = hash_at(store, end.0).await else { return };
        if let Err(error) = write(path, seal, Anchor { position: end, hash }, &self.entries) {
            // An auditor need not have the right to write beside the log.
            tracing::debug!(%error, "the names of servers were not kept");
        }
    }
}

/// The key for a new file; `None` if there is none yet, or while an erasure is under way.
///
/// Every later erasure destroys the key, because it destroys all keys of caches. An erasure under way may have
/// destroyed them already, and not yet the keys of the names.
async fn key(store: &dyn EventStore, keys: &KeyRing) -> Option<WholeSeal> {
    let seal = WholeSeal::with_known(keys).ok()??;
    let stream = StreamId::new(ErasureEvent::NOUN, "main");
    let (events, mut erasures) =
        (store.read_stream(&stream, Revision::NONE, ERASURES).await.ok()?, Erasures::default());
    for recorded in &events {
        erasures.evolve(ErasureEvent::of(recorded.event().ok()?)?, recorded.recorded_at);
    }
    (events.len() < ERASURES && erasures.unfinished().is_empty()).then_some(seal)
}

/// Opens the file: the end of the part of the log that it covers, and its entries.
fn opened(path: &Path, keys: &KeyRing) -> Option<(Anchor, Vec<u8>)> {
    let bytes = fs::read(path).ok()?;
    let (head, sealed) = bytes.split_at_checked(HEAD)?;
    let after = head.strip_prefix(BEGIN)?;
    let mark = SealMark::of(after)?;
    let (position, hash) = after.get(SealMark::BYTES..)?.split_first_chunk::<8>()?;
    let until = Anchor { position: Position(u64::from_le_bytes(*position)), hash: EventHash::from_slice(hash)? };
    let entries = WholeSeal::of(keys, mark).ok()?.open(0, head, sealed)?;
    Some((until, entries))
}

fn write(path: &Path, seal: &WholeSeal, until: Anchor, entries: &[u8]) -> io::Result<()> {
    let head = [&BEGIN[..], &seal.mark().to_bytes(), &until.position.0.to_le_bytes(), &until.hash.0].concat();
    let draft = path.with_extension("names.tmp");
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&draft)?;
    if file.try_lock().is_err() {
        // Another command writes the same.
        return Ok(());
    }
    if file.metadata()?.ino() != fs::metadata(&draft)?.ino() {
        // The other command has finished: this is the file itself, and no draft any more.
        return Ok(());
    }
    let written = file.set_len(0).and_then(|()| {
        file.write_all(&head)?;
        let mut sealing = seal.writer(0, &head, &mut file);
        sealing.write_all(entries)?;
        sealing.finish()
    });
    match written.and_then(|()| fs::rename(&draft, path)) {
        // The disk may be full, and the log needs its space.
        Err(error) => fs::remove_file(&draft).and(Err(error)),
        done => done,
    }
}
