//! FAT images for config drives (`config_drive_format = vfat`): a pure function from files to bytes.
//!
//! The images are as large as Nova's, 64 MiB, with FAT16 and long names. Every entry also has a short name without a
//! meaning, because long names need one. The times are constant, so that the same input gives the same bytes. Limits:
//! 255 UTF-16 units per name, 63 MiB of content.

use std::collections::BTreeMap;

use thiserror::Error;

const SECTOR: usize = 512;
/// The size of an image in sectors.
const SECTORS: u32 = 131_072;
const SECTORS_PER_CLUSTER: u8 = 4;
const CLUSTER: usize = SECTORS_PER_CLUSTER as usize * SECTOR;
const TABLES: usize = 2;
const TABLE_SECTORS: u16 = 128;
const TABLE: usize = TABLE_SECTORS as usize * SECTOR;
const ROOT_ENTRIES: u16 = 512;
/// Where the first table, the root directory and the data begin: one sector is before the tables.
const FIRST_TABLE: usize = SECTOR;
const ROOT: usize = FIRST_TABLE + TABLES * TABLE;
const DATA: usize = ROOT + ROOT_ENTRIES as usize * ENTRY;
/// The length of a directory entry.
const ENTRY: usize = 32;
/// The number of the first cluster, and the number after the last one.
const FIRST_CLUSTER: usize = 2;
const CLUSTERS_END: usize = FIRST_CLUSTER + (SECTORS as usize * SECTOR - DATA) / CLUSTER;
/// The mark of the last cluster of a file.
const LAST: u16 = 0xffff;
/// 2000-01-01.
const DATE: u16 = (20 << 9) | (1 << 5) | 1;
/// UTF-16 units in one entry of a long name.
const UNITS: usize = 13;

const ARCHIVE: u8 = 0x20;
const DIRECTORY: u8 = 0x10;
const VOLUME_LABEL: u8 = 0x08;
const LONG_NAME: u8 = 0x0f;

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum FatError {
    #[error("{0:?} cannot be a volume label: use 1 to 11 visible ASCII characters")]
    Label(String),
    #[error("{0:?} cannot be a path in a FAT image")]
    Path(String),
    #[error("{0:?} occurs twice in the FAT image, or is both a file and a directory")]
    Duplicate(String),
    #[error("the content does not fit a FAT image")]
    TooLarge,
}

/// A directory by its names in lower case, because FAT does not distinguish cases.
#[derive(Default)]
struct FatDirectory<'a>(BTreeMap<String, FatEntry<'a>>);

struct FatEntry<'a> {
    name: Vec<u16>,
    node: FatNode<'a>,
}

enum FatNode<'a> {
    File(&'a [u8]),
    Directory(FatDirectory<'a>),
}

/// The first bytes of an image, which [`is_image`] needs.
pub const HEAD: usize = SECTOR;

/// Whether the bytes are an image that [`write`] made, or its [`HEAD`]. Every other image of a config drive is ISO 9660.
pub fn is_image(bytes: &[u8]) -> bool {
    bytes.get(54..62) == Some(b"FAT16   ".as_slice())
}

/// Writes an image with `files` (path without leading slash, content).
pub fn write(label: &str, files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, FatError> {
    if !(1..=11).contains(&label.len()) || !label.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(FatError::Label(label.to_owned()));
    }
    let mut padded = [b' '; 11];
    padded[..label.len()].copy_from_slice(label.as_bytes());
    let mut root = FatDirectory::default();
    for (path, content) in files {
        root.add(path, content)?;
    }
    let mut image = FatImage::new(&padded);
    let mut entries = entry(&padded, VOLUME_LABEL, 0, 0).to_vec();
    entries.extend(image.directory(&root, None)?);
    if entries.len() > DATA - ROOT {
        return Err(FatError::TooLarge);
    }
    image.bytes[ROOT..ROOT + entries.len()].copy_from_slice(&entries);
    let (first, second) = image.bytes.split_at_mut(FIRST_TABLE + TABLE);
    let table = &first[FIRST_TABLE..];
    second[..table.len()].copy_from_slice(table);
    Ok(image.bytes)
}

impl<'a> FatDirectory<'a> {
    fn add(&mut self, path: &str, content: &'a [u8]) -> Result<(), FatError> {
        let wrong = || FatError::Path(path.to_owned());
        let twice = || FatError::Duplicate(path.to_owned());
        let mut here = self;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            let units = units(name).ok_or_else(wrong)?;
            let key = name.to_lowercase();
            if names.peek().is_none() {
                let entry = FatEntry { name: units, node: FatNode::File(content) };
                return here.0.insert(key, entry).map_or(Ok(()), |_| Err(twice()));
            }
            let new = || FatEntry { name: units, node: FatNode::Directory(FatDirectory::default()) };
            match &mut here.0.entry(key).or_insert_with(new).node {
                FatNode::Directory(directory) => here = directory,
                FatNode::File(_) => return Err(twice()),
            }
        }
        Err(wrong())
    }

    /// The length of the directory's content, with the entries for itself and its parent.
    fn length(&self) -> usize {
        let entries = self.0.values().map(|entry| 1 + entry.name.len().div_ceil(UNITS));
        ENTRY * (2 + entries.sum::<usize>())
    }
}

/// The name in UTF-16; `None` if it cannot be a long name.
fn units(name: &str) -> Option<Vec<u16>> {
    let units: Vec<u16> = name.encode_utf16().collect();
    let usable = |c: char| !c.is_control() && !"\"*/:<>?\\|".contains(c);
    let dots = name.ends_with(['.', ' ']);
    ((1..=255).contains(&units.len()) && !dots && name.chars().all(usable)).then_some(units)
}

struct FatImage {
    bytes: Vec<u8>,
    /// The first free cluster.
    next: usize,
}

impl FatImage {
    fn new(label: &[u8; 11]) -> Self {
        let mut bytes = vec![0; SECTORS as usize * SECTOR];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, &[0xeb, 0x3c, 0x90]);
        put(3, b"CHRONOVA");
        put(11, &512_u16.to_le_bytes());
        put(13, &[SECTORS_PER_CLUSTER]);
        put(14, &1_u16.to_le_bytes());
        put(16, &[2]);
        put(17, &ROOT_ENTRIES.to_le_bytes());
        put(21, &[0xf8]);
        put(22, &TABLE_SECTORS.to_le_bytes());
        // Sectors for each track, and heads: a geometry that nothing reads any more.
        put(24, &32_u16.to_le_bytes());
        put(26, &64_u16.to_le_bytes());
        put(32, &SECTORS.to_le_bytes());
        put(36, &[0x80, 0, 0x29]);
        put(39, &0x2000_0101_u32.to_le_bytes());
        put(43, label);
        put(54, b"FAT16   ");
        put(510, &[0x55, 0xaa]);
        let mut image = Self { bytes, next: FIRST_CLUSTER };
        image.link(0, 0xfff8);
        image.link(1, LAST);
        image
    }

    fn link(&mut self, cluster: usize, next: u16) {
        let at = FIRST_TABLE + 2 * cluster;
        self.bytes[at..at + 2].copy_from_slice(&next.to_le_bytes());
    }

    /// Takes clusters for this number of bytes. Returns the first one; 0 for no bytes.
    fn reserve(&mut self, length: usize) -> Result<u16, FatError> {
        let (first, end) = (self.next, self.next + length.div_ceil(CLUSTER));
        let number = |cluster: usize| u16::try_from(cluster).map_err(|_| FatError::TooLarge);
        if end > CLUSTERS_END {
            return Err(FatError::TooLarge);
        }
        for cluster in first..end {
            let next = if cluster + 1 == end { LAST } else { number(cluster + 1)? };
            self.link(cluster, next);
        }
        self.next = end;
        if end == first { Ok(0) } else { number(first) }
    }

    fn fill(&mut self, first: u16, content: &[u8]) {
        if !content.is_empty() {
            let at = DATA + (usize::from(first) - FIRST_CLUSTER) * CLUSTER;
            self.bytes[at..at + content.len()].copy_from_slice(content);
        }
    }

    /// Stores all that is below a directory. Returns the directory's entries. `place` has its own cluster and that of its
    /// parent; the root has none.
    fn directory(&mut self, directory: &FatDirectory<'_>, place: Option<(u16, u16)>) -> Result<Vec<u8>, FatError> {
        let mut entries = Vec::new();
        if let Some((own, parent)) = place {
            entries.extend(entry(b".          ", DIRECTORY, own, 0));
            entries.extend(entry(b"..         ", DIRECTORY, parent, 0));
        }
        for (number, found) in directory.0.values().enumerate() {
            let (attributes, cluster, size) = match &found.node {
                FatNode::File(content) => {
                    let cluster = self.reserve(content.len())?;
                    self.fill(cluster, content);
                    (ARCHIVE, cluster, content.len())
                }
                FatNode::Directory(below) => {
                    let cluster = self.reserve(below.length())?;
                    let content = self.directory(below, Some((cluster, place.map_or(0, |(own, _)| own))))?;
                    self.fill(cluster, &content);
                    (DIRECTORY, cluster, 0)
                }
            };
            let alias = alias(number);
            entries.extend(long_name(&found.name, &alias));
            let size = u32::try_from(size).map_err(|_| FatError::TooLarge)?;
            entries.extend(entry(&alias, attributes, cluster, size));
        }
        Ok(entries)
    }
}

/// The short name of a directory's entry.
fn alias(number: usize) -> [u8; 11] {
    let mut name = *b"F0000000   ";
    let mut rest = number;
    for place in name[1..8].iter_mut().rev() {
        *place = b"0123456789"[rest % 10];
        rest /= 10;
    }
    name
}

fn entry(name: &[u8; 11], attributes: u8, cluster: u16, size: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..11].copy_from_slice(name);
    entry[11] = attributes;
    for date in [16, 18, 24] {
        entry[date..date + 2].copy_from_slice(&DATE.to_le_bytes());
    }
    entry[26..28].copy_from_slice(&cluster.to_le_bytes());
    entry[28..32].copy_from_slice(&size.to_le_bytes());
    entry
}

/// The entries of a long name, which stand before the entry of its short name, the last part first.
fn long_name(name: &[u16], alias: &[u8; 11]) -> Vec<u8> {
    let checksum = alias.iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut entries = Vec::new();
    let mut last = 0x40;
    for (number, part) in name.chunks(UNITS).enumerate().rev() {
        let mut units = [0xffff_u16; UNITS];
        units[..part.len()].copy_from_slice(part);
        if let Some(end) = units.get_mut(part.len()) {
            *end = 0;
        }
        let mut entry = [0_u8; ENTRY];
        // A name has at most 20 parts.
        let number = u8::try_from(number + 1).unwrap_or(u8::MAX);
        (entry[0], entry[11], entry[13]) = (number | last, LONG_NAME, checksum);
        last = 0;
        let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain((28..32).step_by(2));
        for (place, unit) in places.zip(units) {
            entry[place..place + 2].copy_from_slice(&unit.to_le_bytes());
        }
        entries.extend(entry);
    }
    entries
}

#[cfg(test)]
mod tests;
