//! The keys of personal fields: one small file beside the log. The log itself has no keys.
//!
//! The file has fixed records in the order of their creation. A stored event names its record ([`KeySlot`]), so finding
//! a key takes one read and no memory. A subject may have several keys, for example a new one after a restart. An
//! erasure destroys all of them: it overwrites the records in place. Only the owner can read the file. In a copy of the
//! log without this file, nobody can read the sealed fields. If the file is lost, only the personal fields are lost.
//!
//! Invariants: a key is durable before [`KeyRing::current`] returns it. One flush serves all waiting tasks. A record is
//! written once and later only destroyed. Overwriting in place does not reach all copies. A copy-on-write file system,
//! or a backup of this file, may keep old keys.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{DataSubject, SealError};

const MAGIC: &[u8; 8] = b"CHRKEYS1";
/// The size of a record, and of the head of the file, in bytes.
const RECORD: u64 = SIZE as u64;
const SIZE: usize = 64;
/// The number of records that an erasure reads at once.
const PAGE: usize = 4_096;
/// The number of subjects with a key in memory.
const REMEMBERED: usize = 8_192;

const ALIVE: u8 = 1;
const DESTROYED: u8 = 2;

/// The id of a file of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingId(pub [u8; 16]);

/// The number of a record in the file; the first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeySlot(pub u64);

/// A key. Its bytes are overwritten when it is dropped.
#[derive(Clone)]
pub struct SealingKey(pub(super) [u8; 32]);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey(...)")
    }
}

impl Drop for SealingKey {
    fn drop(&mut self) {
        self.0 = [0; 32];
        // Otherwise the compiler could optimise the overwrite away.
        std::hint::black_box(&self.0);
    }
}

/// The state of a key in the file.
#[derive(Debug, Clone)]
pub enum KeyLookup {
    Key(SealingKey),
    Destroyed,
    /// The key is not in this file, or cannot be read from it.
    Lost,
}

/// Where the records are stored.
#[derive(Debug)]
enum KeyFileStorage {
    File(File),
    Memory(Mutex<Vec<u8>>),
    /// There is no file.
    Absent,
}

impl KeyFileStorage {
    fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => {
                let mut done = 0;
                while done < buffer.len() {
                    match file.read_at(&mut buffer[done..], at + done as u64) {
                        Ok(0) => break,
                        Ok(n) => done += n,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(done)
            }
            Self::Memory(bytes) => {
                let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let count = buffer.len().min(bytes.len() - from);
                buffer[..count].copy_from_slice(&bytes[from..from + count]);
                Ok(count)
            }
            Self::Absent => Ok(0),
        }
    }

    fn write(&self, buffer: &[u8], at: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all_at(buffer, at),
            Self::Memory(bytes) => {
                let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                let from = usize::try_from(at).unwrap_or(usize::MAX);
                if bytes.len() < from + buffer.len() {
                    bytes.resize(from + buffer.len(), 0);
                }
                bytes[from..from + buffer.len()].copy_from_slice(buffer);
                Ok(())
            }
            Self::Absent => Err(io::Error::new(io::ErrorKind::NotFound, "the file of keys is missing")),
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self {
            Self::File(file) => file.sync_data(),
            Self::Memory(_) | Self::Absent => Ok(()),
        }
    }

    fn length(&self) -> io::Result<u64> {
        match self {
            Self::File(file) => Ok(file.metadata()?.len()),
            Self::Memory(bytes) => Ok(bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64),
            Self::Absent => Ok(0),
        }
    }
}

#[derive(Debug, Default)]
struct KeyFileState {
    /// The number of the next record.
    next: u64,
    current: HashMap<DataSubject, (KeySlot, SealingKey)>,
    /// The reason of a failed flush. After a failed flush the content of the disk is unknown.
    failed: Option<String>,
}

/// All keys of one log.
#[derive(Debug)]
pub struct KeyRing {
    path: PathBuf,
    ring: RingId,
    backing: KeyFileStorage,
    state: Mutex<KeyFileState>,
    /// All records up to this one are durable.
    durable: AtomicU64,
    flushing: Mutex<()>,
}

impl KeyRing {
    /// Opens the file for sealing. Creates it, durably, if there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<Self>, SealError> {
        let path = path.as_ref();
        create(path).map_err(|error| failure(path, &error))?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let ring = file
            .map_err(|error| failure(path, &error))
            .and_then(|file| Self::over(KeyFileStorage::File(file), path))?;
        if let Some(folder) = path.parent() {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failure(folder, &error))?;
        }
        Ok(ring)
    }

    /// Makes new keys follow the last record in the file. Another process may have added records before it lost the
    /// right to append.
    pub fn take_over(&self) -> Result<(), SealError> {
        let length = self.length_now().map_err(|error| failure(&self.path, &error))?;
        let written = length.saturating_sub(RECORD).div_ceil(RECORD);
        let mut state = self.state();
        state.next = state.next.max(written + 1);
        state.current.clear();
        Ok(())
    }

    /// The present length. On NFS, an open file may not show what another machine has written since. So this function
    /// opens the file again.
    fn length_now(&self) -> io::Result<u64> {
        match &self.backing {
            KeyFileStorage::File(_) => Ok(File::open(&self.path)?.metadata()?.len()),
            other => other.length(),
        }
    }

    /// Opens the file for reading. If there is no file, or only a part of its head, every key is [`KeyLookup::Lost`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Arc<Self>, SealError> {
        let path = path.as_ref();
        let backing = match File::open(path) {
            Ok(file) => KeyFileStorage::File(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => KeyFileStorage::Absent,
            Err(error) => return Err(failure(path, &error)),
        };
        if matches!(backing, KeyFileStorage::Absent) || backing.length().is_ok_and(|length| length < RECORD) {
            return Ok(Arc::new(Self::new(KeyFileStorage::Absent, path, RingId([0; 16]), 0)));
        }
        Self::over(backing, path)
    }

    /// Keys in memory only, for tests and models.
    pub fn in_memory() -> Result<Arc<Self>, SealError> {
        Self::over(KeyFileStorage::Memory(Mutex::default()), Path::new("memory"))
    }

    fn new(backing: KeyFileStorage, path: &Path, ring: RingId, records: u64) -> Self {
        Self {
            path: path.to_owned(),
            ring,
            backing,
            state: Mutex::new(KeyFileState { next: records + 1, ..KeyFileState::default() }),
            durable: AtomicU64::new(records),
            flushing: Mutex::default(),
        }
    }

    fn over(backing: KeyFileStorage, path: &Path) -> Result<Arc<Self>, SealError> {
        let fail = |error: io::Error| failure(path, &error);
        let length = backing.length().map_err(fail)?;
        // A power failure can leave a file without a head. No event was sealed with a key of such a file.
        if length < RECORD {
            let ring = RingId(random::<16>().map_err(|reason| refusal(path, reason))?);
            backing.write(&head(ring), 0).and_then(|()| backing.sync()).map_err(fail)?;
            return Ok(Arc::new(Self::new(backing, path, ring, 0)));
        }
        let mut bytes = [0; SIZE];
        backing.read(&mut bytes, 0).map_err(fail)?;
        let ring = RingId(bytes[8..24].try_into().unwrap_or_default());
        if bytes != head(ring) {
            return Err(refusal(path, "this is not a file of keys, or its header is damaged".to_owned()));
        }
        // A record that is half written after a power failure is skipped. No event was sealed with its key.
        let records = (length - RECORD).div_ceil(RECORD);
        Ok(Arc::new(Self::new(backing, path, ring, records)))
    }

    /// The id of this file. Everything that is sealed stores it.
    pub fn ring(&self) -> RingId {
        self.ring
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file exists.
    pub fn is_there(&self) -> bool {
        !matches!(self.backing, KeyFileStorage::Absent)
    }

    /// The record of the next key. Every key that exists now is in an earlier record.
    pub fn next(&self) -> KeySlot {
        KeySlot(self.state().next)
    }

    fn state(&self) -> MutexGuard<'_, KeyFileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failure(&self, reason: String, full: bool) -> SealError {
        SealError::Keys { path: self.path.display().to_string(), reason, full }
    }

    /// Whether `subject` has a key that is usable without waiting for the disk.
    pub fn knows(&self, subject: &DataSubject) -> bool {
        let durable = self.durable.load(Ordering::SeqCst);
        self.state().current.get(subject).is_some_and(|(slot, _)| slot.0 <= durable)
    }

    /// The current key of `subject`. If there is none, this creates one and flushes it to disk.
    pub fn current(&self, subject: &DataSubject) -> Result<(KeySlot, SealingKey), SealError> {
        let (slot, key) = self.find_or_write(subject)?;
        self.flush(slot)?;
        Ok((slot, key))
    }

    fn find_or_write(&self, subject: &DataSubject) -> Result<(KeySlot, SealingKey), SealError> {
        let mut state = self.state();
        if let Some(reason) = &state.failed {
            return Err(self.failure(reason.clone(), false));
        }
        if let Some((slot, key)) = state.current.get(subject) {
            return Ok((*slot, key.clone()));
        }
        let key = SealingKey(random::<32>().map_err(|reason| self.failure(reason, false))?);
        let slot = KeySlot(state.next);
        let written = self.backing.write(&record(ALIVE, digest(subject), &key.0), slot.0 * RECORD);
        written.map_err(|error| failure(&self.path, &error))?;
        state.next += 1;
        if state.current.len() >= REMEMBERED {
            state.current.clear();
        }
        state.current.insert(subject.clone(), (slot, key.clone()));
        Ok((slot, key))
    }

    /// Returns when the record is durable. One flush serves all waiting tasks.
    fn flush(&self, slot: KeySlot) -> Result<(), SealError> {
        if self.durable.load(Ordering::SeqCst) >= slot.0 {
            return Ok(());
        }
        let _one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.durable.load(Ordering::SeqCst) >= slot.0 {
            return Ok(());
        }
        // After a failed flush, the next flush may succeed although the pages of the failed one are lost.
        let (last, failed) = {
            let state = self.state();
            (state.next - 1, state.failed.clone())
        };
        if let Some(reason) = failed {
            return Err(self.failure(reason, false));
        }
        if let Err(error) = self.backing.sync() {
            self.state().failed = Some(format!("flushing failed: {error}"));
            return Err(failure(&self.path, &error));
        }
        self.durable.fetch_max(last, Ordering::SeqCst);
        Ok(())
    }

    /// The key in a record.
    pub fn look_up(&self, ring: RingId, slot: KeySlot) -> KeyLookup {
        let at = slot.0.checked_mul(RECORD).filter(|at| *at >= RECORD && ring == self.ring);
        let mut bytes = [0; SIZE];
        match at.map(|at| self.backing.read(&mut bytes, at)) {
            Some(Ok(read)) if read == bytes.len() => parse(&bytes).map_or(KeyLookup::Lost, |(_, found)| found),
            _ => KeyLookup::Lost,
        }
    }

    /// Makes later fields of `subject` use a new key. So an erasure of the present fields does not destroy the key of
    /// the later fields.
    pub fn retire(&self, subject: &DataSubject) {
        self.state().current.remove(subject);
    }

    /// Whether the file has a key of `subject`, whichever process created it. Reads the whole file.
    pub fn has_key_of(&self, subject: &DataSubject) -> Result<bool, SealError> {
        self.newest_of(subject).map(|found| found.is_some())
    }

    /// The newest key of `subject` in the file, whichever process created it. Reads the whole file.
    pub fn newest_of(&self, subject: &DataSubject) -> Result<Option<(KeySlot, SealingKey)>, SealError> {
        let (wanted, mut page, mut at, mut newest) = (digest(subject), vec![0; PAGE * SIZE], RECORD, None);
        loop {
            let read = self.backing.read(&mut page, at).map_err(|error| failure(&self.path, &error))?;
            let records = page[..read].chunks_exact(SIZE);
            if records.len() == 0 {
                return Ok(newest);
            }
            for bytes in records {
                if let Some((whose, KeyLookup::Key(key))) = parse(bytes)
                    && whose == wanted
                {
                    newest = Some((KeySlot(at / RECORD), key));
                }
                at += RECORD;
            }
        }
    }

    /// Destroys every key of `subject` in the records before `before`. Returns the number of destroyed keys.
    pub fn destroy(&self, subject: &DataSubject, before: KeySlot) -> Result<u64, SealError> {
        self.destroy_all(std::slice::from_ref(subject), before)
    }

    /// Destroys every key of all these subjects in the records before `before`, in one pass over the file.
    pub fn destroy_all(&self, subjects: &[DataSubject], before: KeySlot) -> Result<u64, SealError> {
        let fail = |error: io::Error| failure(&self.path, &error);
        let digests: std::collections::HashSet<[u8; 16]> = subjects.iter().map(digest).collect();
        for subject in subjects {
            self.retire(subject);
        }
        let mut destroyed = 0;
        let mut page = vec![0; PAGE * SIZE];
        let mut at = RECORD;
        loop {
            let read = self.backing.read(&mut page, at).map_err(fail)?;
            let records = page[..read].chunks_exact(SIZE);
            if records.len() == 0 {
                break;
            }
            for bytes in records {
                if at / RECORD >= before.0 {
                    break;
                }
                if let Some((whose, KeyLookup::Key(_))) = parse(bytes)
                    && digests.contains(&whose)
                {
                    self.backing.write(&record(DESTROYED, whose, &[0; 32]), at).map_err(fail)?;
                    destroyed += 1;
                }
                at += RECORD;
            }
            if at / RECORD >= before.0 {
                break;
            }
        }
        // Without a flush, a power failure would restore the keys.
        self.backing.sync().map_err(fail)?;
        Ok(destroyed)
    }
}

/// Creates the file, if there is none. Processes that do so at the same time get the same file.
fn create(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let ring = RingId(random::<16>().map_err(io::Error::other)?);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:032x}.new", u128::from_le_bytes(ring.0)));
    let new = PathBuf::from(name);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let created = file.write_all_at(&head(ring), 0).and_then(|()| file.sync_all());
    // Unlike a rename, a hard link never replaces an existing file.
    let linked = created.and_then(|()| std::fs::hard_link(&new, path));
    std::fs::remove_file(&new)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // This file system has no hard links: `KeyRing::open` creates the file itself.
        Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) => Ok(()),
        other => other,
    }
}

fn failure(path: &Path, error: &io::Error) -> SealError {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    SealError::Keys { path: path.display().to_string(), reason: error.to_string(), full }
}

fn refusal(path: &Path, reason: String) -> SealError {
    SealError::Keys { path: path.display().to_string(), reason, full: false }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The hash of the subject's id, which identifies the subject in the file. The hash has a fixed length.
fn digest(subject: &DataSubject) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    match subject {
        DataSubject::User(user) => hasher.update(b"user:").update(user.as_str().as_bytes()),
        DataSubject::Server(server) => hasher.update(b"server:").update(server.0.as_bytes()),
        DataSubject::Caches => hasher.update(b"caches"),
    };
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

fn head(ring: RingId) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..24].copy_from_slice(&ring.0);
    let sum = crc32fast::hash(&bytes[..60]);
    bytes[60..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn record(state: u8, whose: [u8; 16], key: &[u8; 32]) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[0] = state;
    bytes[8..24].copy_from_slice(&whose);
    bytes[24..56].copy_from_slice(key);
    let sum = crc32fast::hash(&bytes[..60]);
    bytes[60..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The subject and its key; `None` for a record that is not complete.
fn parse(bytes: &[u8]) -> Option<([u8; 16], KeyLookup)> {
    let sum = crc32fast::hash(&bytes[..60]).to_le_bytes();
    if bytes[60..] != sum {
        return None;
    }
    let whose = bytes[8..24].try_into().ok()?;
    match bytes[0] {
        ALIVE => Some((whose, KeyLookup::Key(SealingKey(bytes[24..56].try_into().ok()?)))),
        DESTROYED => Some((whose, KeyLookup::Destroyed)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::ids::{InstanceId, UserId};

    fn user(name: &str) -> DataSubject {
        DataSubject::User(UserId::new(name))
    }

    fn is_key(found: &KeyLookup) -> bool {
        matches!(found, KeyLookup::Key(_))
    }

    #[test]
    fn keys_survive_a_restart_and_destroyed_keys_stay_destroyed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let (anna, bob) = (user("anna"), DataSubject::Server(InstanceId(uuid::Uuid::from_u128(7))));
        let (ring, of_anna, of_bob) = {
            let keys = KeyRing::open(&path).unwrap();
            let (of_anna, of_bob) = (keys.current(&anna).unwrap().0, keys.current(&bob).unwrap().0);
            assert_eq!(keys.current(&anna).unwrap().0, of_anna);
            (keys.ring(), of_anna, of_bob)
        };
        let keys = KeyRing::open(&path).unwrap();
        assert_eq!(keys.ring(), ring);
        let later = keys.current(&anna).unwrap().0;
        assert_ne!(later, of_anna, "a restart must begin a new key");
        assert!(is_key(&keys.look_up(ring, of_anna)) && is_key(&keys.look_up(ring, later)));
        assert!(keys.has_key_of(&anna).unwrap() && !keys.has_key_of(&user("nobody")).unwrap());
        assert_eq!(keys.newest_of(&anna).unwrap().unwrap().0, later);
        assert_eq!(keys.destroy(&anna, keys.next()).unwrap(), 2);
        assert!(!keys.has_key_of(&anna).unwrap());
        for keys in [keys, KeyRing::open_read_only(&path).unwrap()] {
            assert!(matches!(keys.look_up(ring, of_anna), KeyLookup::Destroyed));
            assert!(matches!(keys.look_up(ring, later), KeyLookup::Destroyed));
            assert!(is_key(&keys.look_up(ring, of_bob)));
            assert!(matches!(keys.look_up(ring, KeySlot(99)), KeyLookup::Lost));
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, 4 * RECORD);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn fields_sealed_after_retiring_are_not_destroyed() {
        let keys = KeyRing::in_memory().unwrap();
        let before = keys.current(&user("a")).unwrap().0;
        let bound = keys.next();
        keys.retire(&user("a"));
        let after = keys.current(&user("a")).unwrap().0;
        assert_eq!(keys.destroy(&user("a"), bound).unwrap(), 1);
        assert!(matches!(keys.look_up(keys.ring(), before), KeyLookup::Destroyed));
        assert!(is_key(&keys.look_up(keys.ring(), after)));
    }

    #[test]
    fn a_task_that_waits_for_a_failed_flush_gets_no_key() {
        let keys = KeyRing::in_memory().unwrap();
        let (slot, _) = keys.find_or_write(&user("a")).unwrap();
        keys.state().failed = Some("flushing failed: no space".to_owned());
        assert!(keys.flush(slot).is_err());
        assert!(!keys.knows(&user("a")));
    }

    #[test]
    fn a_missing_file_has_no_keys_and_a_torn_record_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let absent = KeyRing::open_read_only(&path).unwrap();
        assert!(!absent.is_there() && matches!(absent.look_up(absent.ring(), KeySlot(1)), KeyLookup::Lost));
        assert!(absent.current(&user("a")).is_err());
        // A part of the head, as after a power failure, before the first key.
        std::fs::write(&path, &head(absent.ring())[..20]).unwrap();
        assert!(!KeyRing::open_read_only(&path).unwrap().is_there());
        assert_eq!(std::fs::read(&path).unwrap().len(), 20, "a reader writes");
        let slot = KeyRing::open(&path).unwrap().current(&user("a")).unwrap().0;
        // Half a record, as after a power failure.
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(&[1; 20]);
        std::fs::write(&path, &bytes).unwrap();
        let keys = KeyRing::open(&path).unwrap();
        let next = keys.current(&user("b")).unwrap().0;
        assert_eq!(next.0, slot.0 + 2);
        assert!(is_key(&keys.look_up(keys.ring(), slot)) && is_key(&keys.look_up(keys.ring(), next)));
        assert!(matches!(keys.look_up(keys.ring(), KeySlot(slot.0 + 1)), KeyLookup::Lost));
        std::fs::write(&path, vec![7; 200]).unwrap();
        assert!(matches!(KeyRing::open(&path), Err(SealError::Keys { .. })));
    }

    #[test]
    fn concurrent_subjects_get_different_keys() {
        let folder = tempfile::tempdir().unwrap();
        let keys = KeyRing::open(folder.path().join("keys")).unwrap();
        let slots: Vec<KeySlot> = std::thread::scope(|scope| {
            let keys = &keys;
            let all: Vec<_> =
                (0..16).map(|n| scope.spawn(move || keys.current(&user(&n.to_string())).unwrap().0)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let distinct: std::collections::BTreeSet<u64> = slots.iter().map(|slot| slot.0).collect();
        assert_eq!(distinct.len(), 16);
    }
}
