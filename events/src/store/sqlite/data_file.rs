//! The data file beside SQLite: one descriptor for each file in this process, closed after SQLite's own descriptors.
//!
//! POSIX drops all locks of a process on a file when the process closes **any** descriptor of that file (fcntl(2)).
//! SQLite's connections hold such a lock while they are open. The lock tells other processes that they are not the last
//! user and must not remove the write-ahead log. A process that opens and closes the file beside SQLite silently drops
//! that lock. Then the next client that closes the file removes the write-ahead log under the writer. All events
//! acknowledged later are lost when the writer ends.
//!
//! So beside SQLite, only [`DataFile`] opens a data file that SQLite may have open. The users of [`DataFile`] share one
//! descriptor. Each user keeps its [`DataFile`] until the user's connections are closed. So in the user's struct, the
//! field of the [`DataFile`] comes after those of the connections.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The identity of a file, independent of its name: device and inode.
pub(super) type FileIdentity = (u64, u64);

pub(super) fn identity(metadata: &std::fs::Metadata) -> FileIdentity {
    (metadata.dev(), metadata.ino())
}

/// The descriptors of this process, with the number of users of each.
type OpenDataFiles = HashMap<FileIdentity, (Arc<File>, usize)>;

fn shared() -> MutexGuard<'static, OpenDataFiles> {
    static OPEN: LazyLock<Mutex<OpenDataFiles>> = LazyLock::new(Mutex::default);
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The data file, for reading pages without SQLite.
#[derive(Debug)]
pub(super) struct DataFile {
    /// `None` only while it is dropped.
    file: Option<Arc<File>>,
    identity: FileIdentity,
}

impl DataFile {
    /// Opens the file at `path`, which must exist.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut shared = shared();
        let known = identity(&path.metadata()?);
        if shared.contains_key(&known) {
            return Self::of(&mut shared, known);
        }
        let file = File::open(path)?;
        let found = identity(&file.metadata()?);
        match shared.entry(found) {
            // Meanwhile the name was given to a file that is already open. Closing this descriptor would drop the locks
            // on that file, so the descriptor stays open.
            Entry::Occupied(_) => std::mem::forget(file),
            Entry::Vacant(place) => {
                place.insert((Arc::new(file), 0));
            }
        }
        Self::of(&mut shared, found)
    }

    fn of(shared: &mut OpenDataFiles, identity: FileIdentity) -> io::Result<Self> {
        let (file, users) = shared.get_mut(&identity).ok_or(io::ErrorKind::NotFound)?;
        *users += 1;
        Ok(Self { file: Some(Arc::clone(file)), identity })
    }

    /// Adds one more user of the same descriptor.
    pub(super) fn share(&self) -> io::Result<Self> {
        Self::of(&mut shared(), self.identity)
    }

    /// Opens the file at `path`. Creates an empty one if there is none. Only the owner can read it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        if !path.try_exists()? {
            // The file was just created, so no connection can have it open.
            drop(OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?);
        }
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Self::open(path)
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_deref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Fills `bytes` from `at`; returns the number of bytes read.
    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match self.file()?.read_at(&mut bytes[done..], at + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Fills `bytes` with a page; pages are numbered from 1.
    pub(super) fn page(&self, page: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file()?.read_exact_at(bytes, (page - 1) * bytes.len() as u64)
    }
}

impl Drop for DataFile {
    /// The last user closes the descriptor before any other caller can open the file again.
    fn drop(&mut self) {
        let mut shared = shared();
        self.file = None;
        if let Some((_, users)) = shared.get_mut(&self.identity) {
            *users -= 1;
            if *users == 0 {
                shared.remove(&self.identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn is_one(one: &DataFile, other: &DataFile) -> bool {
        Arc::ptr_eq(one.file.as_ref().unwrap(), other.file.as_ref().unwrap())
    }

    #[test]
    fn all_names_of_a_file_share_one_descriptor_and_a_new_file_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("log.db"), folder.path().join("same"));
        assert!(DataFile::open(&path).is_err());
        let first = DataFile::create(&path).unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        assert!(is_one(&first, &DataFile::open(&other).unwrap()));
        assert!(is_one(&first, &first.share().unwrap()));
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
        assert!(!is_one(&first, &DataFile::create(&path).unwrap()));
        std::fs::write(&other, b"abc").unwrap();
        let mut bytes = [0; 2];
        assert_eq!((first.read(&mut bytes, 2).unwrap(), bytes[0]), (1, b'c'));
        first.page(1, &mut bytes).unwrap();
        assert_eq!(&bytes, b"ab");
        let known = first.identity;
        assert_eq!(shared().get(&known).map(|(_, users)| *users), Some(1));
        drop(first);
        assert!(!shared().contains_key(&known), "the descriptor must be closed with its last user");
    }
}
