//! One checkpoint as one file.
//!
//! ```text
//! "CHRVIEWS" | format, u32 | seal, 40 bytes | the read models' bytes, one after the other | table | length of the table, u32 | CRC-32, u32 | "SWEIVRHC"
//! ```
//!
//! The read models are sealed, each as a part of its own ([`chronova_events::sealed::whole`]), because they repeat
//! personal fields and password hashes. The table is not encrypted. It holds the mark, and the name, version, length
//! and CRC-32 of each read model. The table's own CRC-32 covers the head of the file and the table. The checksums
//! cover the sealed bytes, so damage is found even without the key. The lengths must add up to the length of the file,
//! so no byte before the table escapes a checksum. Numbers are little-endian. Read models and table are in the compact
//! codec of snapshots.
//!
//! A file of format 1 has no seal: its read models are not encrypted. Chronova still reads such a file, so that the
//! first start after an upgrade need not fold the whole log. The next checkpoint replaces every such file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use chronova_events::codec;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::sealed::whole::{SealMark, WholeSeal};
use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::Projection;
use crate::views::{Mark, View, ViewVisitor, Views};

const MAGIC: &[u8; 8] = b"CHRVIEWS";
const END: &[u8; 8] = b"SWEIVRHC";
const FORMAT: u32 = 2;
/// The format without a seal.
const CLEAR: u32 = 1;
/// The length of the magic and the format.
const HEAD: usize = 12;
const TAIL: usize = 16;
/// A table lists a few names; a longer table is damaged.
const LARGEST_TABLE: usize = 1 << 16;

/// The steps of writing a checkpoint, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointWriteStep {
    Create,
    /// Writing one read model; the number is its index in the file.
    Write(usize),
    Table,
    Sync,
    Rename,
    SyncFolder,
    Thin,
}

/// One read model in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Section {
    pub name: String,
    pub version: u32,
    pub length: u64,
    pub checksum: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SectionTable {
    pub mark: Mark,
    pub sections: Vec<Section>,
}

impl SectionTable {
    /// Each read model with the range of its bytes in the file.
    pub(super) fn ranges(&self, head: usize) -> impl Iterator<Item = (&Section, Range<usize>)> {
        self.sections.iter().scan(head, |at, section| {
            let begin = *at;
            *at = begin.saturating_add(usize::try_from(section.length).unwrap_or(usize::MAX));
            Some((section, begin..*at))
        })
    }

    fn end(&self, head: usize) -> usize {
        self.ranges(head).last().map_or(head, |(_, range)| range.end)
    }
}

/// A file whose head and table were checked.
#[derive(Debug)]
pub(super) struct Outline {
    pub table: SectionTable,
    /// The length of the whole file in bytes.
    pub length: u64,
    /// `None`: the read models are not encrypted.
    pub seal: Option<SealMark>,
    /// All bytes before the read models.
    head: Vec<u8>,
}

impl Outline {
    /// Each read model with the range of its bytes in the file.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (&Section, Range<usize>)> {
        self.table.ranges(self.head.len())
    }

    /// The bytes that are authenticated with a read model. They bind the sealed bytes to this file, to the mark of the
    /// file, and to the name of the read model.
    pub(super) fn bound(&self, name: &str) -> Result<Vec<u8>, CheckpointError> {
        bound(&self.head, &self.table.mark, name)
    }
}

fn bound(head: &[u8], mark: &Mark, name: &str) -> Result<Vec<u8>, CheckpointError> {
    let mark = codec::encode_snapshot(mark).map_err(|error| CheckpointError::Encode(error.to_string()))?;
    Ok([head, &mark, name.as_bytes()].concat())
}

/// Writes the whole file and returns its length in bytes.
pub(super) fn write(
    views: &Views,
    path: &Path,
    keys: &KeyRing,
    before: &mut dyn FnMut(CheckpointWriteStep) -> io::Result<()>,
) -> Result<u64, CheckpointError> {
    before(CheckpointWriteStep::Create)?;
    let seal = WholeSeal::begin(keys)?;
    let head = [&MAGIC[..], &FORMAT.to_le_bytes(), &seal.mark().to_bytes()].concat();
    let temporary = path.with_extension("tmp");
    let mut writing = CheckpointWriter {
        out: ChecksumWriter {
            out: BufWriter::with_capacity(1 << 20, create(&temporary)?),
            length: 0,
            sum: FileChecksum::new(),
        },
        sections: Vec::new(),
        seal: &seal,
        head: &head,
        mark: views.marked(),
        before,
        failure: None,
    };
    writing.out.write_all(&head)?;
    views.each(views, &mut writing);
    let CheckpointWriter { mut out, sections, mark, before, failure, .. } = writing;
    if let Some(failure) = failure {
        return Err(failure);
    }
    before(CheckpointWriteStep::Table)?;
    let table = SectionTable { mark, sections };
    let table = codec::encode_snapshot(&table).map_err(|error| CheckpointError::Encode(error.to_string()))?;
    out.write_all(&tail(&head, &table)?)?;
    let bytes = out.length;
    let file = out.out.into_inner().map_err(io::IntoInnerError::into_error)?;
    before(CheckpointWriteStep::Sync)?;
    file.sync_all()?;
    before(CheckpointWriteStep::Rename)?;
    fs::rename(&temporary, path)?;
    before(CheckpointWriteStep::SyncFolder)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(bytes)
}

/// Creates a file that only its owner may read. An old file of that name is replaced.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

type FileChecksum = crc32fast::Hasher;

/// Counts the bytes, and computes their checksum.
struct ChecksumWriter {
    out: BufWriter<File>,
    length: u64,
    sum: FileChecksum,
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct CheckpointWriter<'a> {
    out: ChecksumWriter,
    sections: Vec<Section>,
    seal: &'a WholeSeal,
    head: &'a [u8],
    mark: Mark,
    before: &'a mut dyn FnMut(CheckpointWriteStep) -> io::Result<()>,
    failure: Option<CheckpointError>,
}

impl CheckpointWriter<'_> {
    fn section<P: Projection>(&mut self, view: &P) -> Result<(), CheckpointError> {
        (self.before)(CheckpointWriteStep::Write(self.sections.len()))?;
        let (begin, bound) = (self.out.length, bound(self.head, &self.mark, P::NAME)?);
        self.out.sum = FileChecksum::new();
        let part = u32::try_from(self.sections.len()).map_err(io::Error::other)?;
        let mut sealing = self.seal.writer(part, &bound, &mut self.out);
        codec::write_snapshot(view, &mut sealing).map_err(|error| CheckpointError::Encode(error.to_string()))?;
        sealing.finish()?;
        self.sections.push(Section {
            name: P::NAME.to_owned(),
            version: P::VERSION,
            length: self.out.length - begin,
            checksum: self.out.sum.clone().finalize(),
        });
        Ok(())
    }
}

impl ViewVisitor for CheckpointWriter<'_> {
    fn visit<P: Projection>(&mut self, view: &View<P>, _: &View<P>) {
        if self.failure.is_none() {
            self.failure = self.section(&*view.share()).err();
        }
    }
}

/// Reads the whole file and checks its head and table.
pub(super) fn read(path: &Path) -> Result<(Outline, Vec<u8>), CheckpointError> {
    let outline = outline(path)?;
    let bytes = fs::read(path)?;
    if bytes.len() as u64 != outline.length {
        return Err(unusable("it changed while it was read"));
    }
    Ok((outline, bytes))
}

/// Reads and checks head and table.
pub(super) fn outline(path: &Path) -> Result<Outline, CheckpointError> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let short = || unusable("it is truncated");
    let whole = usize::try_from(length).ok().filter(|length| *length >= HEAD + TAIL).ok_or_else(short)?;
    let mut tail = [0; TAIL];
    file.seek(SeekFrom::Start((whole - TAIL) as u64))?;
    file.read_exact(&mut tail)?;
    file.rewind()?;
    let (head, seal) = head(&mut file)?;
    if &tail[8..] != END {
        return Err(unusable("it is damaged or truncated"));
    }
    let body = whole.checked_sub(head.len() + TAIL).ok_or_else(short)?;
    let size = number(&tail[..4]) as usize;
    if size > body.min(LARGEST_TABLE) {
        return Err(unusable("its table is damaged"));
    }
    let mut bytes = vec![0; size];
    file.seek(SeekFrom::Start((head.len() + body - size) as u64))?;
    file.read_exact(&mut bytes)?;
    let mut sum = FileChecksum::new();
    sum.update(&head);
    sum.update(&bytes);
    if sum.finalize() != number(&tail[4..8]) {
        return Err(unusable("its table is damaged"));
    }
    let table: SectionTable = codec::decode_snapshot(&bytes).map_err(|error| unusable(&error.to_string()))?;
    if table.end(head.len()) != head.len() + body - size {
        return Err(unusable("its lengths do not add up"));
    }
    Ok(Outline { table, length, seal, head })
}

/// Reads the magic, the format and the seal: all bytes before the read models.
fn head(file: &mut File) -> Result<(Vec<u8>, Option<SealMark>), CheckpointError> {
    let mut head = vec![0; HEAD];
    file.read_exact(&mut head)?;
    if &head[..8] != MAGIC {
        return Err(unusable("it is damaged or truncated"));
    }
    match number(&head[8..]) {
        CLEAR => Ok((head, None)),
        FORMAT => {
            let mut seal = [0; SealMark::BYTES];
            file.read_exact(&mut seal).map_err(|_| unusable("it is truncated"))?;
            head.extend_from_slice(&seal);
            Ok((head, SealMark::of(&seal)))
        }
        format => Err(unusable(&format!("it has format {format}, not {FORMAT}"))),
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn unusable(reason: &str) -> CheckpointError {
    CheckpointError::Unusable(reason.to_owned())
}

/// Gives a read model in a checkpoint another version, as if an older binary had written it. For tests.
pub fn relabel(path: &Path, name: &str, version: u32) -> Result<(), CheckpointError> {
    let (Outline { mut table, head, .. }, bytes) = read(path)?;
    let body = table.end(head.len());
    for section in table.sections.iter_mut().filter(|section| section.name == name) {
        section.version = version;
    }
    let mut file = bytes.get(..body).unwrap_or_default().to_vec();
    let table = codec::encode_snapshot(&table).map_err(|error| CheckpointError::Encode(error.to_string()))?;
    file.extend(tail(&head, &table)?);
    Ok(fs::write(path, file)?)
}

/// Writes a file of format 1, as earlier versions did.
#[cfg(test)]
pub(super) fn write_clear(views: &Views, path: &Path) {
    struct Clear(Vec<u8>, Vec<Section>);
    impl ViewVisitor for Clear {
        fn visit<P: Projection>(&mut self, view: &View<P>, _: &View<P>) {
            let bytes = codec::encode_snapshot(&*view.share()).unwrap_or_default();
            let (name, version) = (P::NAME.to_owned(), P::VERSION);
            let (length, checksum) = (bytes.len() as u64, crc32fast::hash(&bytes));
            self.1.push(Section { name, version, length, checksum });
            self.0.extend(bytes);
        }
    }
    let head = [&MAGIC[..], &CLEAR.to_le_bytes()].concat();
    let mut clear = Clear(head.clone(), Vec::new());
    views.each(views, &mut clear);
    let table = codec::encode_snapshot(&SectionTable { mark: views.marked(), sections: clear.1 }).unwrap_or_default();
    clear.0.extend(tail(&head, &table).unwrap_or_default());
    assert!(fs::write(path, clear.0).is_ok());
}

/// The encoded table, and the end of the file after it.
fn tail(head: &[u8], table: &[u8]) -> io::Result<Vec<u8>> {
    let mut sum = FileChecksum::new();
    sum.update(head);
    sum.update(table);
    let mut tail = table.to_vec();
    tail.extend(u32::try_from(table.len()).map_err(io::Error::other)?.to_le_bytes());
    tail.extend(sum.finalize().to_le_bytes());
    tail.extend(END);
    Ok(tail)
}
