//! One process per log.
//!
//! The lock is on a file of its own: closing any handle of the data file would drop SQLite's own locks on it. The kernel
//! gives the lock up when the process ends, however it ends; the file stays and tells who had it last.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::store::StoreError;

/// Held as long as the log is open.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
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
                return Err(StoreError::Locked { path: data.display().to_string(), pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        // Only for the message that the next one gets; a full disk must not keep the log closed.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}
