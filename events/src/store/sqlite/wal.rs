//! Reads SQLite's write-ahead log as a file (<https://www.sqlite.org/fileformat2.html#walformat>).
//!
//! SQLite does not report which pages a checkpoint wrote, and silently treats a damaged frame as the end of the file.
//! Both matter here: [`super::seals`] needs the pages, and a verification has to find the damage.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER: usize = 32;
const FRAME: usize = 24;

/// `log.db` becomes `log.db-wal`.
pub(super) fn path_of(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The running checksum of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WalChecksum {
    big_endian: bool,
    parts: (u32, u32),
}

impl WalChecksum {
    fn add(&mut self, bytes: &[u8]) {
        let number = |bytes: &[u8]| {
            let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
            if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let (mut first, mut second) = self.parts;
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(number(&pair[..4])).wrapping_add(second);
            second = second.wrapping_add(number(&pair[4..])).wrapping_add(first);
        }
        self.parts = (first, second);
    }

    fn is(&self, bytes: &[u8], at: usize) -> bool {
        self.parts == (word(bytes, at), word(bytes, at + 4))
    }
}

/// One page as written by a transaction.
#[derive(Debug)]
pub(super) struct WalFrame<'a> {
    pub(super) page: u32,
    pub(super) data: &'a [u8],
}

/// The result of reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WalContents {
    /// The number of frames of finished transactions.
    pub(super) committed: u64,
    /// The number of complete frames after the committed ones, in the same generation of the file. They are unfinished
    /// or damaged.
    pub(super) unfinished: u64,
}

/// Calls `each` with the newest frame of every page among the first `count` frames, in the order of pages. SQLite
/// itself has just read these frames. This function reads only the headers of all other frames.
pub(super) fn newest(path: &Path, count: u64, mut each: impl FnMut(&WalFrame<'_>) -> io::Result<()>) -> io::Result<()> {
    let file = File::open(path)?;
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let size = word(&header, 8) as usize;
    let at = |number: u64| HEADER as u64 + number * (FRAME + size) as u64;
    let mut last = BTreeMap::new();
    for number in 0..count {
        let mut page = [0; 4];
        file.read_exact_at(&mut page, at(number))?;
        last.insert(u32::from_be_bytes(page), number);
    }
    let mut data = vec![0; size];
    for (page, number) in last {
        file.read_exact_at(&mut data, at(number) + FRAME as u64)?;
        each(&WalFrame { page, data: &data })?;
    }
    Ok(())
}

/// Calls `each` for the frames of the write-ahead log at `path`. A missing or empty file has none. The number of
/// committed frames is known only at the end, because only the last frame of a transaction commits the others.
pub(super) fn frames(path: &Path, mut each: impl FnMut(&WalFrame<'_>)) -> io::Result<WalContents> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(WalContents::default()),
        Err(error) => return Err(error),
    };
    let mut file = BufReader::with_capacity(1 << 18, file);
    let mut header = [0; HEADER];
    if !whole(&mut file, &mut header)? || word(&header, 0) & !1 != 0x377f_0682 {
        return Ok(WalContents::default());
    }
    let mut sum = WalChecksum { big_endian: word(&header, 0) & 1 == 1, parts: (0, 0) };
    sum.add(&header[..24]);
    if !sum.is(&header, 24) {
        return Ok(WalContents::default());
    }
    let salts = (word(&header, 16), word(&header, 20));
    let mut buffer = vec![0; FRAME + word(&header, 8) as usize];
    let (mut read, mut sound) = (WalContents::default(), true);
    while whole(&mut file, &mut buffer)? {
        let ours = (word(&buffer, 8), word(&buffer, 12)) == salts;
        if sound {
            sum.add(&buffer[..8]);
            sum.add(&buffer[FRAME..]);
            sound = ours && sum.is(&buffer, 16);
        }
        if !sound {
            // A frame of an earlier generation is not counted.
            read.unfinished += u64::from(ours);
            continue;
        }
        each(&WalFrame { page: word(&buffer, 0), data: &buffer[FRAME..] });
        read.unfinished += 1;
        if word(&buffer, 4) != 0 {
            read.committed += read.unfinished;
            read.unfinished = 0;
        }
    }
    Ok(read)
}

/// Fills `buffer`. Returns `false` at the end of the file, even in the middle of the buffer.
fn whole(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
