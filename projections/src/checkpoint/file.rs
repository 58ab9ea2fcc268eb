//! One checkpoint as one file.
//!
//! ```text
//! "CHRVIEWS" | format, u32 | the read models' bytes, one after the other | table | length of the table, u32 | CRC-32, u32 | "SWEIVRHC"
//! ```
//!
//! The table names the read models with version, length and CRC-32 each, and the mark; its CRC-32 is over the file's first
//! twelve bytes and itself. Lengths must add up to the length of the file, so no byte is outside of a checksum. Numbers
//! are little-endian; read models and table are in the codec of snapshots, which is compact.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use chronova_events::codec;
use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::Projection;
use crate::views::{Mark, View, Views, Visitor};

const MAGIC: &[u8; 8] = b"CHRVIEWS";
const END: &[u8; 8] = b"SWEIVRHC";
const FORMAT: u32 = 1;
const HEAD: usize = 12;
const TAIL: usize = 16;
/// A table lists a handful of names; more is damage.
const LARGEST_TABLE: usize = 1 << 16;

/// What writing a checkpoint consists of, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Create,
    /// One read model, by its place.
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
pub(super) struct Table {
    pub mark: Mark,
    pub sections: Vec<Section>,
}

impl Table {
    /// Where each read model's bytes are.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (&Section, Range<usize>)> {
        self.sections.iter().scan(HEAD, |at, section| {
            let begin = *at;
            *at = begin.saturating_add(usize::try_from(section.length).unwrap_or(usize::MAX));
            Some((section, begin..*at))
        })
    }

    fn end(&self) -> usize {
        self.ranges().last().map_or(HEAD, |(_, range)| range.end)
    }
}

/// Writes the whole file; returns its length.
pub(super) fn write(
    views: &Views,
    path: &Path,
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> Result<u64, CheckpointError> {
    before(Step::Create)?;
    let temporary = path.with_extension("tmp");
    let mut writing = Writing {
        out: Summed { out: BufWriter::with_capacity(1 << 20, create(&temporary)?), length: 0, sum: Sum::new() },
        sections: Vec::new(),
        before,
        failure: None,
    };
    let head: Vec<u8> = MAGIC.iter().copied().chain(FORMAT.to_le_bytes()).collect();
    writing.out.write_all(&head)?;
    views.each(views, &mut writing);
    let Writing { mut out, sections, before, failure } = writing;
    if let Some(failure) = failure {
        return Err(failure);
    }
    before(Step::Table)?;
    let table = Table { mark: views.marked(), sections };
    let table = codec::encode_snapshot(&table).map_err(|error| CheckpointError::Encode(error.to_string()))?;
    out.write_all(&tail(&head, &table)?)?;
    let bytes = out.length;
    let file = out.out.into_inner().map_err(io::IntoInnerError::into_error)?;
    before(Step::Sync)?;
    file.sync_all()?;
    before(Step::Rename)?;
    fs::rename(&temporary, path)?;
    before(Step::SyncFolder)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(bytes)
}

/// Begins a file that its owner alone may read, whoever left one of that name.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

type Sum = crc32fast::Hasher;

/// Counts and sums up what goes through.
struct Summed {
    out: BufWriter<File>,
    length: u64,
    sum: Sum,
}

impl Write for Summed {
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

struct Writing<'a> {
    out: Summed,
    sections: Vec<Section>,
    before: &'a mut dyn FnMut(Step) -> io::Result<()>,
    failure: Option<CheckpointError>,
}

impl Writing<'_> {
    fn section<P: Projection>(&mut self, view: &P) -> Result<(), CheckpointError> {
        (self.before)(Step::Write(self.sections.len()))?;
        let begin = self.out.length;
        self.out.sum = Sum::new();
        codec::write_snapshot(view, &mut self.out).map_err(|error| CheckpointError::Encode(error.to_string()))?;
        self.sections.push(Section {
            name: P::NAME.to_owned(),
            version: P::VERSION,
            length: self.out.length - begin,
            checksum: self.out.sum.clone().finalize(),
        });
        Ok(())
    }
}

impl Visitor for Writing<'_> {
    fn visit<P: Projection>(&mut self, view: &View<P>, _: &View<P>) {
        if self.failure.is_none() {
            self.failure = self.section(&*view.share()).err();
        }
    }
}

/// Reads the whole file, with the table checked.
pub(super) fn read(path: &Path) -> Result<(Table, Vec<u8>), CheckpointError> {
    let (table, length) = table(path)?;
    let bytes = fs::read(path)?;
    if bytes.len() as u64 != length {
        return Err(unusable("it changed while it was read"));
    }
    Ok((table, bytes))
}

/// Reads and checks the table; tells the file's length.
pub(super) fn table(path: &Path) -> Result<(Table, u64), CheckpointError> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let short = || unusable("it is cut short");
    let body = usize::try_from(length).ok().and_then(|length| length.checked_sub(HEAD + TAIL)).ok_or_else(short)?;
    let mut head = [0; HEAD];
    file.read_exact(&mut head)?;
    let mut tail = [0; TAIL];
    file.seek(SeekFrom::Start((HEAD + body) as u64))?;
    file.read_exact(&mut tail)?;
    if &head[..8] != MAGIC || &tail[8..] != END {
        return Err(unusable("it is damaged or cut short"));
    }
    let format = number(&head[8..]);
    if format != FORMAT {
        return Err(unusable(&format!("it has format {format}, not {FORMAT}")));
    }
    let size = number(&tail[..4]) as usize;
    if size > body.min(LARGEST_TABLE) {
        return Err(unusable("its table is damaged"));
    }
    let mut bytes = vec![0; size];
    file.seek(SeekFrom::Start((HEAD + body - size) as u64))?;
    file.read_exact(&mut bytes)?;
    let mut sum = Sum::new();
    sum.update(&head);
    sum.update(&bytes);
    if sum.finalize() != number(&tail[4..8]) {
        return Err(unusable("its table is damaged"));
    }
    let table: Table = codec::decode_snapshot(&bytes).map_err(|error| unusable(&error.to_string()))?;
    if table.end() != HEAD + body - size {
        return Err(unusable("its lengths do not add up"));
    }
    Ok((table, length))
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn unusable(reason: &str) -> CheckpointError {
    CheckpointError::Unusable(reason.to_owned())
}

/// Says in a checkpoint that a read model is of another version: what an older binary would have left behind. For proofs
/// of what happens then.
pub fn relabel(path: &Path, name: &str, version: u32) -> Result<(), CheckpointError> {
    let (mut table, bytes) = read(path)?;
    let body = table.end();
    for section in table.sections.iter_mut().filter(|section| section.name == name) {
        section.version = version;
    }
    let mut file = bytes.get(..body).unwrap_or_default().to_vec();
    let table = codec::encode_snapshot(&table).map_err(|error| CheckpointError::Encode(error.to_string()))?;
    file.extend(tail(&file[..HEAD], &table)?);
    Ok(fs::write(path, file)?)
}

/// The table and what follows it.
fn tail(head: &[u8], table: &[u8]) -> io::Result<Vec<u8>> {
    let mut sum = Sum::new();
    sum.update(head);
    sum.update(table);
    let mut tail = table.to_vec();
    tail.extend(u32::try_from(table.len()).map_err(io::Error::other)?.to_le_bytes());
    tail.extend(sum.finalize().to_le_bytes());
    tail.extend(END);
    Ok(tail)
}
