//! One checksum for every page of the data file, in a file beside it: `log.db.seals`.
//!
//! The checksums and hashes of events detect every change of an event. The file also has index pages, free space in
//! pages, and SQLite's own counters. A flipped bit there changes no event, but may be the first sign of a failing disk.
//! So each page has a seal: a CRC-32 over the page's number and its bytes, which detects every single flipped bit.
//!
//! Pages change only when a checkpoint moves them from the write-ahead log into the data file. So seals are computed
//! from the write-ahead log after each checkpoint, before SQLite reuses that log. After a crash in between, the frames
//! still exist, and the next opening seals them. If sealing fails, the log continues: the seals are marked stale, and
//! the next opening computes them from the file. Only a verification reads the seals.
//!
//! At every moment the file on disk is empty, or its header says whether the seals are stale. So a process that is
//! killed while it computes all seals leaves no file that a verification would call damaged.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::data_file::{DataFile, identity};
use super::{lock, wal};

const MAGIC: &[u8; 8] = b"CHSEAL1\0";
const HEADER: usize = 8 + 16 + 8 + 4 + 4 + 4;
const ENTRY: u64 = 4;
/// The number of pages that are read from the data file together.
const PAGES_AT_ONCE: usize = 256;

/// The header of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SealsHeader {
    pub(super) log: Uuid,
    pub(super) pages: u64,
    pub(super) page_size: u32,
    /// Whether the seals are valid for all pages.
    pub(super) current: bool,
}

impl SealsHeader {
    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(self.log.as_bytes());
        bytes[24..32].copy_from_slice(&self.pages.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.page_size.to_le_bytes());
        bytes[36..40].copy_from_slice(&u32::from(self.current).to_le_bytes());
        let sum = crc32fast::hash(&bytes[..40]);
        bytes[40..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses a header; `None` for bytes that no version has written.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| bytes.get(at..at + 4)?.try_into().map(u32::from_le_bytes).ok();
        let header = Self {
            log: Uuid::from_slice(bytes.get(8..24)?).ok()?,
            pages: bytes.get(24..32)?.try_into().map(u64::from_le_bytes).ok()?,
            page_size: number(32)?,
            current: number(36)? == 1,
        };
        (header.page_size >= 512 && bytes.starts_with(&header.to_bytes())).then_some(header)
    }
}

/// `log.db` becomes `log.db.seals`.
pub(super) fn path_of(data: &Path) -> PathBuf {
    super::schema::beside(data, "seals")
}

/// The seal of a page; pages are numbered from 1.
pub(super) fn seal(page: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&page.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Calls `each` with the number and the bytes of every page after `after`.
pub(super) fn pages(
    data: &DataFile,
    page_size: u32,
    after: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let size = u64::from(page_size);
    let mut bytes = vec![0; page_size as usize * PAGES_AT_ONCE];
    let mut page = after;
    loop {
        let read = data.read(&mut bytes, page * size)?;
        for bytes in bytes[..read].chunks_exact(page_size as usize) {
            page += 1;
            each(page, bytes)?;
        }
        if read < bytes.len() {
            return Ok(());
        }
    }
}

/// Reads all seals of a log, for a verification. `None` if there is no file of seals, or if the file is empty, because
/// its writer was killed before it wrote the header. A file that no version can have written is an error.
pub(super) fn read(data: &Path) -> io::Result<Option<(SealsHeader, Vec<u32>)>> {
    let bytes = match std::fs::read(path_of(data)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    let Some(header) = SealsHeader::from_bytes(&bytes) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its header is damaged"));
    };
    let entries: Vec<u32> =
        bytes[HEADER..].chunks_exact(4).map(|entry| u32::from_le_bytes(entry.try_into().unwrap_or_default())).collect();
    Ok(Some((header, entries)))
}

/// The write-ahead log that a killed writer left. The last SQLite client that closes the data file moves the
/// write-ahead log into it without sealing, and removes the write-ahead log. This struct shows whether that has
/// happened.
#[derive(Debug)]
pub(super) struct WalRemains {
    killed: bool,
    /// Kept open, so that no other file gets the same identity. `None` if the file is missing or empty.
    wal: Option<File>,
}

impl WalRemains {
    /// Reads the file before SQLite opens it, because SQLite would begin a new write-ahead log.
    pub(super) fn of(data: &Path) -> Self {
        let holds_pages = |wal: &File| wal.metadata().is_ok_and(|metadata| metadata.len() > 0);
        let wal = File::open(wal::path_of(data)).ok().filter(holds_pages);
        Self { killed: lock::was_left(data), wal }
    }

    /// Whether the seals may be older than the data file. If a killed writer left no frames, this cannot be known, and
    /// the answer is `true`.
    pub(super) fn are_overtaken(&self, data: &Path) -> bool {
        let known = self.wal.as_ref().and_then(|wal| wal.metadata().ok());
        let now = wal::path_of(data).metadata().ok();
        self.killed && (known.is_none() || known.as_ref().map(identity) != now.as_ref().map(identity))
    }
}

/// The seals, as the writer maintains them.
#[derive(Debug)]
pub(super) struct Seals {
    path: PathBuf,
    /// `None` after a failure: nothing is sealed until the log is reopened.
    file: Option<File>,
    /// The file after a failure, until the seals in it are marked stale.
    unmarked: Option<File>,
    header: SealsHeader,
    data: DataFile,
}

impl Seals {
    /// Opens the existing seals, or begins new ones. `overtaken`: another program may have changed pages without
    /// sealing them.
    pub(super) fn open(path: &Path, data: DataFile, log: Uuid, page_size: u32, overtaken: bool) -> Self {
        let fresh = SealsHeader { log, pages: 0, page_size, current: false };
        let mut this = Self { path: path.to_owned(), file: None, unmarked: None, header: fresh, data };
        match this.attach() {
            Ok(found) => this.header = found.filter(|header| header.log == log).unwrap_or(fresh),
            Err(error) => this.give_up(&error),
        }
        if this.header.page_size != page_size || overtaken {
            this.header = fresh;
        }
        // The file must say so, because the next process cannot know that this one was overtaken.
        if !this.header.current
            && let Err(error) = this.finish()
        {
            this.give_up(&error);
        }
        this
    }

    fn attach(&mut self) -> io::Result<Option<SealsHeader>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path_of(&self.path))?;
        let mut bytes = [0; HEADER];
        let found = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => SealsHeader::from_bytes(&bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        self.file = Some(file);
        Ok(found)
    }

    /// Seals the pages of the first `frames` frames, after a checkpoint moved these into the data file.
    pub(super) fn renew(&mut self, frames: u64) {
        let renewed = match self.header.current {
            true => self.absorb(frames),
            false => self.rebuild(),
        };
        if let Err(error) = renewed {
            self.give_up(&error);
        }
    }

    fn absorb(&mut self, frames: u64) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if frames == 0 {
            return Ok(());
        }
        let mut fresh = BTreeMap::new();
        wal::newest(&wal::path_of(&self.path), frames, |frame| {
            fresh.insert(u64::from(frame.page), seal(frame.page.into(), frame.data));
            Ok(())
        })?;
        let size = self.path.metadata()?.len() / u64::from(self.header.page_size);
        if size > self.header.pages {
            // SQLite never writes the page of its locks, so no frame has that page. New pages without a frame are
            // sealed from the file.
            pages(&self.data, self.header.page_size, self.header.pages, |page, bytes| {
                fresh.entry(page).or_insert_with(|| seal(page, bytes));
                Ok(())
            })?;
            self.header.pages = size;
        }
        write(file, fresh)?;
        self.finish()
    }

    /// Computes all seals from the data file.
    fn rebuild(&mut self) -> io::Result<()> {
        self.seal_all()?;
        self.header.current = true;
        self.finish()
    }

    /// Writes the seals of all pages behind the header, which [`Seals::open`] has marked stale and which stays so.
    fn seal_all(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.set_len(HEADER as u64)?;
        let mut some = BTreeMap::new();
        self.header.pages = 0;
        pages(&self.data, self.header.page_size, 0, |page, bytes| {
            some.insert(page, seal(page, bytes));
            self.header.pages = page;
            if some.len() >= 1 << 16 { write(file, std::mem::take(&mut some)) } else { Ok(()) }
        })?;
        write(file, some)?;
        // The header must not reach the disk before the seals.
        file.sync_data()
    }

    fn finish(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(&self.header.to_bytes(), 0)?;
        // SQLite may overwrite the write-ahead log next. Then these seals could not be computed from it again.
        file.sync_data()
    }

    fn give_up(&mut self, error: &io::Error) {
        tracing::warn!(path = %path_of(&self.path).display(), %error, "the pages of the log cannot be sealed");
        self.header.current = false;
        self.unmarked = self.file.take();
        self.may_change();
    }

    /// Whether pages may be changed: nothing has failed, or the seals on disk are marked stale. Marks them if needed.
    pub(super) fn may_change(&mut self) -> bool {
        if let Some(file) = &self.unmarked {
            // Overwriting works even on a full disk. If it fails, the file is removed.
            let marked =
                file.write_all_at(&self.header.to_bytes(), 0).or_else(|_| std::fs::remove_file(path_of(&self.path)));
            if marked.is_err() {
                return false;
            }
            self.unmarked = None;
        }
        true
    }
}

/// Writes adjacent seals with one call.
fn write(file: &File, seals: BTreeMap<u64, u32>) -> io::Result<()> {
    let (mut first, mut bytes): (u64, Vec<u8>) = (0, Vec::new());
    let put = |first: u64, bytes: &[u8]| match first {
        0 => Ok(()),
        _ => file.write_all_at(bytes, HEADER as u64 + (first - 1) * ENTRY),
    };
    for (page, seal) in seals {
        if first + bytes.len() as u64 / ENTRY != page || first == 0 {
            put(first, &bytes)?;
            (first, bytes) = (page, Vec::new());
        }
        bytes.extend_from_slice(&seal.to_le_bytes());
    }
    put(first, &bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_header_round_trips_and_a_foreign_one_is_refused() {
        let header = SealsHeader { log: Uuid::from_u128(7), pages: 42, page_size: 4096, current: true };
        let bytes = header.to_bytes();
        assert_eq!(SealsHeader::from_bytes(&bytes), Some(header));
        for bit in 0..HEADER * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SealsHeader::from_bytes(&flipped), None, "bit {bit}");
        }
        for length in 0..HEADER {
            assert_eq!(SealsHeader::from_bytes(&bytes[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_kill_at_any_step_leaves_seals_that_can_be_read() {
        const PAGE: u32 = 4_096;
        let folder = tempfile::tempdir().unwrap();
        let (path, log) = (folder.path().join("log.db"), Uuid::from_u128(7));
        std::fs::write(&path, vec![1_u8; 3 * PAGE as usize]).unwrap();
        let open = |overtaken| Seals::open(&path, DataFile::open(&path).unwrap(), log, PAGE, overtaken);
        let header = || read(&path).unwrap().map(|(header, seals)| (header.current, header.pages, seals.len()));
        assert_eq!(header(), None);
        std::fs::write(path_of(&path), "").unwrap();
        assert_eq!(header(), None, "the file was created, and not yet written");
        for overtaken in [false, true] {
            drop(open(overtaken));
            assert!(matches!(header(), Some((false, 0, _))), "the file must say that its seals are stale");
            // The next process begins again, even if it was not overtaken itself.
            let mut seals = open(false);
            seals.seal_all().unwrap();
            assert_eq!(header(), Some((false, 0, 3)), "the seals are written, and the header is not");
            seals.renew(0);
            assert_eq!(header(), Some((true, 3, 3)));
        }
        drop(open(false));
        assert_eq!(header(), Some((true, 3, 3)), "an opening must keep the seals");
        std::fs::write(path_of(&path), [0_u8; HEADER]).unwrap();
        assert!(read(&path).is_err(), "a header of zeroes is damage");
    }
}
