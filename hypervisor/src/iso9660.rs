//! Small ISO 9660 images for config drives: a pure function from files to bytes.
//!
//! An image has two directory trees over one copy of the data. One has ISO 9660's own names of level 1
//! (`META_DAT.JSO;1`). The other has Joliet names (`meta_data.json`), which Linux, the BSDs and Windows prefer. The
//! recording times are constant, so that the same input gives the same bytes. Limits: 64 UTF-16 units per name, 8 names
//! per path including the file's, less than 4 GiB per file.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

const SECTOR: usize = 2048;
/// The first 16 sectors are reserved for the system.
const DESCRIPTORS: u32 = 16;
/// 2000-01-01 00:00:00 UTC: years since 1900, month, day, hour, minute, second, offset.
const RECORDED: [u8; 7] = [100, 1, 1, 0, 0, 0, 0];
const RECORDED_LONG: &[u8; 17] = b"2000010100000000\0";
const UNSPECIFIED_LONG: &[u8; 17] = b"0000000000000000\0";
/// ISO 9660 allows 8 levels of directories, the root included. So a path has at most 7 directories and a file.
const LEVELS: usize = 8;

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum IsoError {
    #[error("{0:?} cannot be a volume label: use 1 to 16 visible ASCII characters without spaces")]
    Label(String),
    #[error("{0:?} cannot be a path in an ISO image")]
    Path(String),
    #[error("{0:?} occurs twice in the ISO image, or is both a file and a directory")]
    Duplicate(String),
    #[error("the content does not fit an ISO image")]
    TooLarge,
}

/// Writes an image with `files` (path without leading slash, content).
pub fn write(label: &str, files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, IsoError> {
    if !(1..=16).contains(&label.len()) || !label.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(IsoError::Label(label.to_owned()));
    }
    let tree = Tree::new(files)?;
    let mut next = DESCRIPTORS + 3;
    let mut views = Vec::new();
    for kind in [IsoTreeKind::Primary, IsoTreeKind::Joliet] {
        views.push(IsoTreeView::place(kind, &tree, &mut next)?);
    }
    let mut extents = Vec::new();
    for (_, content) in files {
        extents.push(next);
        next = next.checked_add(sectors(content.len())?).ok_or(IsoError::TooLarge)?;
    }

    let mut image = vec![0; DESCRIPTORS as usize * SECTOR];
    for view in &views {
        image.extend(descriptor(label, view, next));
    }
    image.extend(sector(&[255, b'C', b'D', b'0', b'0', b'1', 1]));
    for view in &views {
        view.write(&tree, files, &extents, &mut image)?;
    }
    for (_, content) in files {
        image.extend_from_slice(content);
        pad(&mut image);
    }
    Ok(image)
}

fn sectors(bytes: usize) -> Result<u32, IsoError> {
    u32::try_from(bytes)
        .map(|_| bytes.div_ceil(SECTOR))
        .ok()
        .and_then(|n| u32::try_from(n).ok())
        .ok_or(IsoError::TooLarge)
}

fn pad(image: &mut Vec<u8>) {
    image.resize(image.len().div_ceil(SECTOR) * SECTOR, 0);
}

fn sector(start: &[u8]) -> Vec<u8> {
    let mut sector = start.to_vec();
    sector.resize(SECTOR, 0);
    sector
}

fn both16(value: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (value.to_le_bytes(), value.to_be_bytes());
    [a, b, c, d]
}

fn both32(value: u32) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&value.to_le_bytes());
    both[4..].copy_from_slice(&value.to_be_bytes());
    both
}

/// The directories. Number 0 is the root, which is its own parent.
struct Tree {
    directories: Vec<IsoDirectory>,
}

#[derive(Default)]
struct IsoDirectory {
    parent: usize,
    /// Subdirectories by name.
    directories: BTreeMap<String, usize>,
    /// Files by name, as indexes into the input.
    files: BTreeMap<String, usize>,
}

impl Tree {
    fn new(files: &[(String, Vec<u8>)]) -> Result<Self, IsoError> {
        let mut tree = Self { directories: vec![IsoDirectory::default()] };
        for (index, (path, _)) in files.iter().enumerate() {
            tree.insert(path, index)?;
        }
        Ok(tree)
    }

    fn insert(&mut self, path: &str, file: usize) -> Result<(), IsoError> {
        let names: Vec<_> = path.split('/').collect();
        if names.len() > LEVELS || !names.iter().all(|name| is_name(name)) {
            return Err(IsoError::Path(path.to_owned()));
        }
        let Some((last, parents)) = names.split_last() else { return Err(IsoError::Path(path.to_owned())) };
        let mut at = 0;
        for name in parents {
            at = self.directory(at, name, path)?;
        }
        let here = &mut self.directories[at];
        if here.directories.contains_key(*last) || here.files.insert((*last).to_owned(), file).is_some() {
            return Err(IsoError::Duplicate(path.to_owned()));
        }
        Ok(())
    }

    fn directory(&mut self, parent: usize, name: &str, path: &str) -> Result<usize, IsoError> {
        if self.directories[parent].files.contains_key(name) {
            return Err(IsoError::Duplicate(path.to_owned()));
        }
        if let Some(known) = self.directories[parent].directories.get(name) {
            return Ok(*known);
        }
        let index = self.directories.len();
        self.directories.push(IsoDirectory { parent, ..IsoDirectory::default() });
        self.directories[parent].directories.insert(name.to_owned(), index);
        Ok(index)
    }
}

/// Whether Joliet allows the name.
fn is_name(name: &str) -> bool {
    let units = name.encode_utf16().count();
    (1..=64).contains(&units)
        && name != "."
        && name != ".."
        && !name.chars().any(|c| c.is_control() || matches!(c, '*' | '/' | ':' | ';' | '?' | '\\'))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IsoTreeKind {
    Primary,
    Joliet,
}

/// An entry of a directory. The standard sorts entries by identifier.
struct IsoEntry {
    identifier: Vec<u8>,
    target: IsoTarget,
}

#[derive(Clone, Copy)]
enum IsoTarget {
    Directory(usize),
    File(usize),
}

fn entries(kind: IsoTreeKind, directory: &IsoDirectory) -> Vec<IsoEntry> {
    let mut taken = BTreeSet::new();
    let mut entries = Vec::new();
    for (name, index) in &directory.directories {
        let identifier = match kind {
            IsoTreeKind::Primary => short_name(name, &mut taken, false),
            IsoTreeKind::Joliet => utf16(name),
        };
        entries.push(IsoEntry { identifier, target: IsoTarget::Directory(*index) });
    }
    for (name, index) in &directory.files {
        let identifier = match kind {
            IsoTreeKind::Primary => short_name(name, &mut taken, true),
            IsoTreeKind::Joliet => utf16(&format!("{name};1")),
        };
        entries.push(IsoEntry { identifier, target: IsoTarget::File(*index) });
    }
    entries.sort_by(|a, b| a.identifier.cmp(&b.identifier));
    entries
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// A level 1 identifier: 8 characters of `A-Z0-9_` (and 3 for a file's extension). A number makes it unique.
fn short_name(name: &str, taken: &mut BTreeSet<String>, file: bool) -> Vec<u8> {
    let clean = |part: &str, length: usize| -> String {
        let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        part.chars().map(allowed).take(length).collect()
    };
    let (stem, extension) = if file { name.rsplit_once('.').unwrap_or((name, "")) } else { (name, "") };
    let (stem, extension) = (clean(stem, 8), clean(extension, 3));
    let mut number = 0_u32;
    let mut identifier = if file { format!("{stem}.{extension}") } else { stem.clone() };
    while !taken.insert(identifier.clone()) {
        number += 1;
        let digits = number.to_string();
        let kept: String = stem.chars().take(8_usize.saturating_sub(digits.len())).collect();
        identifier = if file { format!("{kept}{digits}.{extension}") } else { format!("{kept}{digits}") };
    }
    if file {
        identifier.push_str(";1");
    }
    identifier.into_bytes()
}

/// One of the two trees, and its position in the image.
struct IsoTreeView {
    kind: IsoTreeKind,
    /// Directories in path table order, with their identifiers.
    order: Vec<(usize, Vec<u8>)>,
    table_bytes: u32,
    little_table: u32,
    big_table: u32,
    /// The first sector and the length in bytes of each directory.
    places: Vec<(u32, u32)>,
}

impl IsoTreeView {
    fn place(kind: IsoTreeKind, tree: &Tree, next: &mut u32) -> Result<Self, IsoError> {
        let mut order = vec![(0, vec![0])];
        // Breadth first with sorted children gives the order of the standard: by level, parent and identifier.
        let mut at = 0;
        while let Some((directory, _)) = order.get(at) {
            for entry in entries(kind, &tree.directories[*directory]) {
                if let IsoTarget::Directory(index) = entry.target {
                    order.push((index, entry.identifier));
                }
            }
            at += 1;
        }
        if u16::try_from(order.len()).is_err() {
            return Err(IsoError::TooLarge);
        }
        let table_bytes = order.iter().map(|(_, identifier)| 8 + identifier.len() + identifier.len() % 2).sum();
        let mut take = |bytes: usize| -> Result<(u32, u32), IsoError> {
            let start = *next;
            *next = start.checked_add(sectors(bytes)?).ok_or(IsoError::TooLarge)?;
            Ok((start, u32::try_from(bytes).map_err(|_| IsoError::TooLarge)?))
        };
        let (little_table, table_length) = take(table_bytes)?;
        let (big_table, _) = take(table_bytes)?;
        let mut places = vec![(0, 0); tree.directories.len()];
        for (directory, _) in &order {
            let lengths = entries(kind, &tree.directories[*directory])
                .iter()
                .map(|entry| record_length(&entry.identifier))
                .collect::<Vec<_>>();
            places[*directory] = take(directory_bytes(&lengths))?;
        }
        Ok(Self { kind, order, table_bytes: table_length, little_table, big_table, places })
    }

    fn write(
        &self,
        tree: &Tree,
        files: &[(String, Vec<u8>)],
        extents: &[u32],
        image: &mut Vec<u8>,
    ) -> Result<(), IsoError> {
        let number: BTreeMap<_, _> =
            self.order.iter().zip(1_u16..).map(|((directory, _), n)| (*directory, n)).collect();
        for big in [false, true] {
            for (directory, identifier) in &self.order {
                let parent = number.get(&tree.directories[*directory].parent).copied().unwrap_or(1);
                image.extend(table_record(identifier, self.places[*directory].0, parent, big));
            }
            pad(image);
        }
        for (directory, _) in &self.order {
            let here = &tree.directories[*directory];
            let mut block = Vec::new();
            append_record(&mut block, &[0], self.places[*directory], true);
            append_record(&mut block, &[1], self.places[here.parent], true);
            for entry in entries(self.kind, here) {
                let (place, is_directory) = match entry.target {
                    IsoTarget::Directory(index) => (self.places[index], true),
                    IsoTarget::File(index) => {
                        let size = u32::try_from(files[index].1.len()).map_err(|_| IsoError::TooLarge)?;
                        ((extents[index], size), false)
                    }
                };
                append_record(&mut block, &entry.identifier, place, is_directory);
            }
            pad(&mut block);
            image.extend(block);
        }
        Ok(())
    }
}

fn table_record(identifier: &[u8], extent: u32, parent: u16, big: bool) -> Vec<u8> {
    let mut record = vec![u8::try_from(identifier.len()).unwrap_or(u8::MAX), 0];
    if big {
        record.extend(extent.to_be_bytes());
        record.extend(parent.to_be_bytes());
    } else {
        record.extend(extent.to_le_bytes());
        record.extend(parent.to_le_bytes());
    }
    record.extend_from_slice(identifier);
    if identifier.len() % 2 == 1 {
        record.push(0);
    }
    record
}

fn record_length(identifier: &[u8]) -> usize {
    33 + identifier.len() + (identifier.len() + 1) % 2
}

/// The bytes of a directory's sectors. The directory has `.`, `..` and records of these lengths. No record may cross
/// the end of a sector.
fn directory_bytes(lengths: &[usize]) -> usize {
    let mut at = 2 * record_length(&[0]);
    for length in lengths {
        if at % SECTOR + length > SECTOR {
            at = at.div_ceil(SECTOR) * SECTOR;
        }
        at += length;
    }
    at.div_ceil(SECTOR) * SECTOR
}

fn append_record(block: &mut Vec<u8>, identifier: &[u8], place: (u32, u32), directory: bool) {
    let length = record_length(identifier);
    if block.len() % SECTOR + length > SECTOR {
        pad(block);
    }
    block.extend(record(identifier, place, directory));
}

fn record(identifier: &[u8], (extent, size): (u32, u32), directory: bool) -> Vec<u8> {
    // The length is at most 33 + 2 * 66 + 1 bytes: a name has at most 64 units, its version (`;1`) has 2, and a padding
    // byte makes the length even.
    let mut record = vec![u8::try_from(record_length(identifier)).unwrap_or(u8::MAX), 0];
    record.extend(both32(extent));
    record.extend(both32(size));
    record.extend(RECORDED);
    record.extend([if directory { 2 } else { 0 }, 0, 0]);
    record.extend(both16(1));
    record.push(u8::try_from(identifier.len()).unwrap_or(u8::MAX));
    record.extend_from_slice(identifier);
    if identifier.len().is_multiple_of(2) {
        record.push(0);
    }
    record
}

fn descriptor(label: &str, view: &IsoTreeView, total: u32) -> Vec<u8> {
    let joliet = view.kind == IsoTreeKind::Joliet;
    let text = |value: &str, length: usize| -> Vec<u8> {
        let mut field = if joliet { utf16(value) } else { value.as_bytes().to_vec() };
        while field.len() + usize::from(joliet) < length {
            field.extend_from_slice(if joliet { &[0, b' '] } else { b" " });
        }
        field.resize(length, 0);
        field
    };
    let mut d = vec![if joliet { 2 } else { 1 }];
    d.extend_from_slice(b"CD001\x01\0");
    d.extend(text("", 32)); // system
    d.extend(text(label, 32));
    d.extend([0; 8]);
    d.extend(both32(total));
    let mut escapes = [0; 32];
    if joliet {
        escapes[..3].copy_from_slice(b"%/E"); // UCS-2 level 3
    }
    d.extend(escapes);
    d.extend(both16(1)); // volumes in the set
    d.extend(both16(1)); // number of this one
    d.extend(both16(2048));
    d.extend(both32(view.table_bytes));
    d.extend(view.little_table.to_le_bytes());
    d.extend([0; 4]);
    d.extend(view.big_table.to_be_bytes());
    d.extend([0; 4]);
    d.extend(record(&[0], view.places[0], true));
    d.extend(text("", 128)); // volume set
    d.extend(text("", 128)); // publisher
    d.extend(text("", 128)); // preparer
    d.extend(text("CHRONOVA", 128)); // application
    for _ in 0..3 {
        d.extend(text("", 37)); // copyright, abstract, bibliography
    }
    d.extend_from_slice(RECORDED_LONG); // created
    d.extend_from_slice(RECORDED_LONG); // modified
    d.extend_from_slice(UNSPECIFIED_LONG); // expires
    d.extend_from_slice(UNSPECIFIED_LONG); // effective
    d.push(1);
    sector(&d)
}

#[cfg(test)]
mod tests;
