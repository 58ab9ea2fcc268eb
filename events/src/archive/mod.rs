//! The archive: old events of the log in compressed files, outside of the event store, in a folder or in an object store
//! ([`crate::place`]).
//!
//! A segment is a file of JSON lines (zstd), one stored event each. A manifest beside the segment has its positions and
//! the SHA-256 of its file. It also has the chain's hashes before the first event and at the last event. A manifest is
//! written atomically after its segment, so a segment without a manifest is ignored. Segments follow each other without
//! gaps. Personal fields are sealed in the archive under the same keys as in the log, so an erasure reaches the archive,
//! too.
//!
//! [`segment`] writes segments. [`cold`] reads single events of them for a store whose first events are in the archive
//! alone.

pub mod cold;
pub mod entry;
pub mod segment;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::place::FilePlace;
use crate::store::StoreError;

const FORMAT: &str = "chronova-archive";
const VERSION: u32 = 1;

/// Why an archive cannot be read or written.
#[derive(Debug, Error)]
pub enum ArchiveFault {
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("{0}")]
    Unusable(String),
    #[error(transparent)]
    Log(#[from] StoreError),
}

impl From<ArchiveFault> for StoreError {
    fn from(fault: ArchiveFault) -> Self {
        match fault {
            ArchiveFault::File { error, .. }
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                Self::Full
            }
            ArchiveFault::Log(error) => error,
            fault => Self::Io(fault.to_string()),
        }
    }
}

pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> ArchiveFault + '_ {
    move |error| ArchiveFault::File { path: path.to_owned(), error }
}

/// The description of a segment, kept in a file beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: String,
    version: u32,
    pub file: String,
    pub first: u64,
    pub last: u64,
    /// The chain's hash before the first event, and at the last one.
    pub before: String,
    pub end: String,
    pub sha256: String,
    pub archived_at: String,
    /// The parts of the file that can be read alone. They save time, and prove nothing, so no signature covers them. An
    /// older archive has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<SegmentFrame>,
    /// The ed25519 signature of [`Manifest::text`], in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// A part of a segment's file that is compressed by itself. It ends where the next one begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentFrame {
    /// The position of its first event.
    pub first: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// The chain's hash before its first event.
    pub before: String,
}

impl Manifest {
    /// The signed text.
    pub fn text(&self) -> String {
        let Self { format, version, file, first, last, before, end, sha256, archived_at, .. } = self;
        format!("{format} {version}\n{file}\n{first}\n{last}\n{before}\n{end}\n{sha256}\n{archived_at}\n")
    }

    /// The name of the file with this description. It is only a name, because that file is beside the segment.
    pub fn described_in(&self) -> String {
        self.file_name().trim_end_matches(".jsonl.zst").to_owned() + ".json"
    }

    /// The name of the segment's file. Any folder in the manifest's entry is dropped, because the file must be beside
    /// the manifest.
    pub fn file_name(&self) -> &str {
        Path::new(&self.file).file_name().and_then(OsStr::to_str).unwrap_or_default()
    }
}

/// The segments of an archive, in order.
///
/// # Errors
/// The place or a manifest cannot be read.
pub fn manifests(place: &dyn FilePlace) -> Result<Vec<Manifest>, ArchiveFault> {
    let mut all = Vec::new();
    for name in place.names().map_err(at(&shown(place)))? {
        let path = place.path_of(&name);
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = place.get(&name).map_err(at(&path))?;
            let manifest: Manifest = match serde_json::from_slice(&text) {
                Ok(manifest) => manifest,
                Err(error) if has_our_name(&path) => {
                    return Err(ArchiveFault::Unusable(format!("{}: {error}", path.display())));
                }
                // A file of another program must not make the archive unreadable.
                Err(_) => continue,
            };
            if manifest.format != FORMAT {
                continue;
            }
            if manifest.version != VERSION {
                return Err(ArchiveFault::Unusable(format!(
                    "{} is of version {} of the format, and this program reads version {VERSION}",
                    path.display(),
                    manifest.version
                )));
            }
            all.push(manifest);
        }
    }
    all.sort_by_key(|manifest| manifest.first);
    Ok(all)
}

/// Whether the name begins like the names that [`segment::name_of`] gives.
fn has_our_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"log-"))
}

/// Creates a file that only its owner may read, like the log itself. Replaces a file that a crash left.
///
/// # Errors
/// The file cannot be created.
pub fn begin(path: &Path) -> Result<File, ArchiveFault> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(path)(error)),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(at(path))
}

/// The place of an archive, for messages.
pub(crate) fn shown(place: &dyn FilePlace) -> PathBuf {
    PathBuf::from(place.address().to_string())
}

/// The hash of a file's bytes, in hexadecimal digits.
///
/// # Errors
/// The file cannot be read.
pub fn sha256(path: &Path) -> Result<String, ArchiveFault> {
    File::open(path).and_then(|mut file| sha256_of(&mut file)).map_err(at(path))
}

/// The hash of the bytes of a file in a place, in hexadecimal digits.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_in(place: &dyn FilePlace, name: &str) -> Result<String, ArchiveFault> {
    place.reader(name).and_then(|mut reader| sha256_of(&mut *reader)).map_err(at(&place.path_of(name)))
}

fn sha256_of(reader: &mut dyn io::Read) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    Ok(hash.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
