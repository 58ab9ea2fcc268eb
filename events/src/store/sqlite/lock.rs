//! The lock that allows only one writing process per log.
//!
//! The lock is on a file of its own. On the data file, closing any handle would drop SQLite's own locks. The kernel
//! releases the lock when the process ends, even by a kill. The lock file stays. It names the last holder, unless that
//! process closed the log properly. The present holder is looked up in the kernel first, because a new holder may not
//! have written its name yet.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::store::StoreError;

/// The lock, held as long as the log is open.
#[derive(Debug)]
pub(super) struct LogLock {
    file: File,
}

/// Whether the last writing process ended without closing the log, or left pages in the write-ahead log.
pub(super) fn was_left(data: &Path) -> bool {
    let file = File::open(super::schema::beside(data, "lock"));
    file.is_ok_and(|file| file.metadata().is_ok_and(|metadata| metadata.len() > 0) && holder(&file).is_none())
}

impl LogLock {
    pub(super) fn take(data: &Path) -> Result<Self, StoreError> {
        let path = super::schema::beside(data, "lock");
        let failed = |e: std::io::Error| StoreError::Io(format!("{}: {e}", path.display()));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The text is only for the message.
                let _ = file.read_to_string(&mut text);
                let pid = holder(&file).or_else(|| text.trim().parse().ok());
                return Err(StoreError::Locked { path: data.display().to_string(), pid });
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        // The process id is for the message of the next refusal, and for `was_left`. A full disk must not keep the log
        // closed.
        let _ = mark(&file).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }

    /// Marks a clean close: all pages are in the data file, and are sealed unless sealing failed.
    pub(super) fn leave(&self) {
        // If this fails, the next opening computes the seals again, which costs one read of the file.
        let _ = self.file.set_len(0);
    }
}

/// Gives the file a length without a block of data. So `was_left` notices a killed process even if the disk was full
/// and the process id could not be written.
fn mark(file: &File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.set_len(1)
}

/// The process id of the holder, according to the kernel (proc_locks(5)). `None` if nobody holds the lock, or if the
/// holder is in another container.
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let device = metadata.dev();
    // The device number is split as makedev(3) combines it.
    let (major, minor) =
        ((device >> 8 & 0xfff) | (device >> 32 & !0xfff), (device & 0xff) | (device >> 12 & 0xffff_ff00));
    named(&locks, &format!("{major:02x}:{minor:02x}:{}", metadata.ino()))
}

/// Parses lines such as `1: FLOCK  ADVISORY  WRITE 4242 fe:01:131090 0 EOF`.
fn named(locks: &str, inode: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", "ADVISORY", "WRITE", pid, place, ..] if place == inode => {
                pid.parse().ok().filter(|pid| *pid > 0)
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_log_without_a_process_id_was_left_unless_it_was_closed() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("log.db");
        assert!(!was_left(&data), "there is no lock file");
        let file = File::create(crate::store::sqlite::schema::beside(&data, "lock")).unwrap();
        // The state after `take` on a full disk.
        mark(&file).unwrap();
        assert!(was_left(&data));
        LogLock { file }.leave();
        assert!(!was_left(&data));
    }

    #[test]
    fn the_kernel_names_the_holder() {
        let locks = "1: POSIX  ADVISORY  READ 7 fe:01:13 128 128\n\
                     2: FLOCK  ADVISORY  WRITE 4242 fe:01:13 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 fe:01:13 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 fe:01:14 0 EOF\n";
        assert_eq!(named(locks, "fe:01:13"), Some(4242));
        assert_eq!(named(locks, "fe:01:14"), None, "a process of another container has no id here");
        assert_eq!(named(locks, "fe:01:15"), None);
    }
}
