//! One process per log.
//!
//! The lock is on a file of its own: closing any handle of the data file would drop SQLite's own locks on it. The
//! kernel releases the lock when the process ends, however it ends. The file stays, and names the last holder if that
//! one did not close the log properly. The kernel is asked for the present holder first, because a new holder may not
//! have written its name yet.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::store::StoreError;

/// Held as long as the log is open.
#[derive(Debug)]
pub(super) struct LogLock {
    file: File,
}

/// Whether the last process that had the log to write has ended without closing it, or left pages in the write-ahead log
/// when it did.
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
                // Only for the message.
                let _ = file.read_to_string(&mut text);
                let pid = holder(&file).or_else(|| text.trim().parse().ok());
                return Err(StoreError::Locked { path: data.display().to_string(), pid });
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        // Only for the message that the next one gets; a full disk must not keep the log closed.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }

    /// Marks a clean close: everything is in the data file and sealed.
    pub(super) fn leave(&self) {
        // Where that fails, the seals are made again from the file, at the price of reading it once.
        let _ = self.file.set_len(0);
    }
}

/// The holder, according to the kernel (proc_locks(5)). `None` if it does not say: a process of another container.
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let device = metadata.dev();
    // As makedev(3) puts them together.
    let (major, minor) =
        ((device >> 8 & 0xfff) | (device >> 32 & !0xfff), (device & 0xff) | (device >> 12 & 0xffff_ff00));
    named(&locks, &format!("{major:02x}:{minor:02x}:{}", metadata.ino()))
}

/// `1: FLOCK  ADVISORY  WRITE 4242 fe:01:131090 0 EOF`
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
    use super::*;

    #[test]
    fn the_kernel_names_the_holder() {
        let locks = "1: POSIX  ADVISORY  READ 7 fe:01:13 128 128\n\
                     2: FLOCK  ADVISORY  WRITE 4242 fe:01:13 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 fe:01:13 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 fe:01:14 0 EOF\n";
        assert_eq!(named(locks, "fe:01:13"), Some(4242));
        assert_eq!(named(locks, "fe:01:14"), None, "a process of another container");
        assert_eq!(named(locks, "fe:01:15"), None);
    }
}
