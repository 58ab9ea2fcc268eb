//! A bounded cache of what was read from an object store, in a folder on the local disk.
//!
//! Each file has one part of an object, with a checksum behind it. The cache may lose parts at any time. A folder that
//! cannot be read or written caches nothing, because every part can be read from the object store again.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use super::signature::sha256_of;

/// The largest number of bytes of the parts in the folder. Each process may exceed it by one sixteenth.
const LIMIT: u64 = 1 << 30;
const EXTENSION: &str = "part";
const CHECKSUM: usize = 4;

/// The cache of one place.
#[derive(Debug)]
pub(super) struct PartCache {
    folder: PathBuf,
    limit: u64,
    /// The number of bytes since the cache was bounded.
    written: AtomicU64,
}

impl PartCache {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self::with_limit(folder, LIMIT)
    }

    fn with_limit(folder: PathBuf, limit: u64) -> Self {
        // The first part bounds the cache that an earlier process left.
        Self { folder, limit, written: AtomicU64::new(limit) }
    }

    fn path(&self, part: &str) -> PathBuf {
        self.folder.join(sha256_of(part.as_bytes())).with_extension(EXTENSION)
    }

    /// The bytes of a part, if the cache has them as they were written.
    pub(super) fn get(&self, part: &str) -> Option<Vec<u8>> {
        let mut bytes = fs::read(self.path(part)).ok()?;
        let sum = bytes.split_off(bytes.len().checked_sub(CHECKSUM)?);
        (sum == crc32fast::hash(&bytes).to_le_bytes()).then_some(bytes)
    }

    /// Adds a part, if the folder can be written.
    pub(super) fn put(&self, part: &str, bytes: &[u8]) {
        // The cache may lack any part, so its errors are not reported.
        let _ = self.write(part, bytes);
    }

    /// Removes a part.
    pub(super) fn remove(&self, part: &str) {
        // The part may be gone already. If this process cannot remove a part, it cannot write new parts either.
        let _ = fs::remove_file(self.path(part));
    }

    fn write(&self, part: &str, bytes: &[u8]) -> io::Result<()> {
        let size = bytes.len() as u64;
        if size > self.limit / 16 {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.path(part);
        let draft = path.with_extension(format!("{}.{EXTENSION}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.write_all(&crc32fast::hash(bytes).to_le_bytes())?;
        fs::rename(&draft, &path)?;
        if self.written.fetch_add(size, Ordering::Relaxed) + size > self.limit / 16 {
            self.written.store(0, Ordering::Relaxed);
            self.bound(&path)?;
        }
        Ok(())
    }

    /// Removes the oldest parts, until the others are small enough. Keeps the newest one.
    fn bound(&self, newest: &Path) -> io::Result<()> {
        let (mut parts, mut size): (Vec<(SystemTime, u64, PathBuf)>, u64) = (Vec::new(), 0);
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let is_part = path.extension().is_some_and(|extension| extension == EXTENSION);
            // Another process may remove a part at any time.
            let Some(found) = path.metadata().ok().filter(|_| is_part && path != newest) else { continue };
            size += found.len();
            parts.push((found.modified()?, found.len(), path));
        }
        parts.sort();
        for (_, length, path) in parts {
            if size <= self.limit {
                break;
            }
            // Another process may have removed it.
            let _ = fs::remove_file(&path);
            size = size.saturating_sub(length);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn size(folder: &Path) -> u64 {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn a_part_is_found_again_and_a_changed_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PartCache::new(folder.path().join("cache"));
        assert_eq!(cache.get("a"), None);
        cache.put("a", b"one");
        cache.put("b", b"");
        assert_eq!((cache.get("a"), cache.get("b")), (Some(b"one".to_vec()), Some(Vec::new())));
        for bytes in [&b"oNe\0\0\0\0"[..], b"on", b""] {
            fs::write(cache.path("a"), bytes).unwrap();
            assert_eq!(cache.get("a"), None);
        }
        cache.put("a", b"one");
        assert_eq!(cache.get("a"), Some(b"one".to_vec()));
        cache.remove("a");
        cache.remove("none");
        assert_eq!((cache.get("a"), cache.get("b")), (None, Some(Vec::new())));
    }

    #[test]
    fn the_folder_is_bounded_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PartCache::with_limit(folder.path().to_owned(), 1_600);
        fs::write(folder.path().join("segment.tmp"), [0; 400]).unwrap();
        for n in 0..100 {
            cache.put(&n.to_string(), &[7; 96]);
            assert!(size(folder.path()) <= 400 + 1_600 + 200, "{n}");
        }
        assert_eq!(cache.get("99"), Some(vec![7; 96]));
        assert!(folder.path().join("segment.tmp").exists());
        cache.put("large", &[7; 101]);
        assert_eq!(cache.get("large"), None);
    }

    #[test]
    fn a_folder_that_cannot_be_written_caches_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let cache = PartCache::new(file);
        cache.put("a", b"one");
        assert_eq!(cache.get("a"), None);
    }
}
