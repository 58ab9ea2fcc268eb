//! Places of files: a folder, or a bucket of an object store that speaks S3.
//!
//! | file | contents |
//! |---|---|
//! | [`address`] | the names of places, as operators write them |
//! | [`folder`] | a folder |
//! | [`s3`] | a bucket: signed requests, with a bounded cache on the local disk |
//!
//! A place has files with plain names and no folders. A file appears under its name only when it is whole and durable.
//! If a caller writes several files and one of them names the others, the caller writes that file last.
//!
//! All calls block, because the readers of an archive are threads of the store. They take a bounded time, also if the
//! object store does not answer.

pub mod address;
pub mod folder;
pub mod s3;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use address::{PlaceAddress, S3Access, S3Address};
pub use folder::FolderPlace;
pub use s3::{S3Limits, S3Place};

/// The folder beside a log for its archive in an object store: drafts of files, and a cache of parts that were read.
pub const LOCAL: &str = "archive.s3";

/// A new file that is not whole yet. It is a file on the local disk, which is removed when the draft is given up.
#[derive(Debug)]
pub struct PlaceDraft {
    pub file: File,
    pub path: PathBuf,
    /// The name that the file will have.
    pub name: String,
}

impl Drop for PlaceDraft {
    /// The disk may be full, and the log needs its space.
    fn drop(&mut self) {
        // A finished draft has another name. After any other failure, the next writer removes the file.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A place of files.
pub trait FilePlace: fmt::Debug + Send + Sync {
    fn address(&self) -> &PlaceAddress;

    /// The path of a file for messages.
    fn path_of(&self, name: &str) -> PathBuf;

    /// The names of all files and their sizes in bytes, in no order.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such place.
    fn sizes(&self) -> io::Result<Vec<(String, u64)>>;

    /// The names of all files, in no order.
    ///
    /// # Errors
    /// As for [`FilePlace::sizes`].
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.sizes()?.into_iter().map(|(name, _)| name).collect())
    }

    /// The content of a small file.
    fn get(&self, name: &str) -> io::Result<Vec<u8>>;

    /// `length` bytes of a file from the byte `from` on; fewer at its end. A file does not change after it was written,
    /// so a copy that was read before may answer.
    fn range(&self, name: &str, from: u64, length: u64) -> io::Result<Vec<u8>>;

    /// Forgets a copy of these bytes, because they are not whole. So the next [`FilePlace::range`] reads the file
    /// itself, which somebody may have repaired.
    fn forget(&self, _name: &str, _from: u64, _length: u64) {}

    /// Reads the file itself from its beginning, and no earlier copy.
    fn reader(&self, name: &str) -> io::Result<Box<dyn Read + '_>>;

    /// Makes the place ready for new files. Returns the folder on the local disk that a writer locks.
    fn prepare(&self) -> io::Result<PathBuf>;

    /// Begins a file, and replaces an earlier draft of it.
    fn draft(&self, name: &str) -> io::Result<PlaceDraft>;

    /// Gives a draft its name. `sha256`: the hash of its bytes in hexadecimal digits.
    fn finish(&self, draft: PlaceDraft, sha256: &str) -> io::Result<()>;

    /// Writes a small file that is not there yet, after all files that were finished before it.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if another writer has written such a file with another content.
    fn create(&self, name: &str, content: &[u8]) -> io::Result<()>;

    /// Removes a file, if it is there.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes sure that these files and the place itself are durable.
    fn make_durable(&self, names: &[String]) -> io::Result<()>;
}

/// Opens a place. `local`: the folder on the local disk for drafts and cache of an object store; nothing is written
/// there before it is needed.
///
/// # Errors
/// The address has no key file, or the file of the certificate authorities cannot be read.
pub fn open(address: &PlaceAddress, local: &Path) -> io::Result<Arc<dyn FilePlace>> {
    Ok(match address {
        PlaceAddress::Folder(folder) => Arc::new(FolderPlace::new(folder.clone())),
        PlaceAddress::S3(s3) => Arc::new(S3Place::open(s3, local)?),
    })
}
