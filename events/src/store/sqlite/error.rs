//! Translates SQLite's errors into errors of the event store.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::{Error, ErrorCode, ffi};

use crate::store::StoreError;

/// Translates an error. `position` is that of the event that was being read or written, if known.
pub(super) fn explain(error: &Error, position: u64) -> StoreError {
    let corrupt = |reason: String| StoreError::Corrupt { position, reason };
    match error {
        Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => StoreError::Full,
            // SQLite reports this error on a full disk if it has to grow the index of the write-ahead log.
            ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => StoreError::Full,
            // A violated constraint means that two events have the same position, so the file differs from the writer's
            // state.
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation => {
                corrupt(error.to_string())
            }
            // SQLite read a page beyond the end of the file.
            ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHORT_READ => {
                corrupt("the file is shorter than it was".to_owned())
            }
            _ => StoreError::Io(error.to_string()),
        },
        Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::FromSqlConversionFailure(..)
        | Error::Utf8Error(..) => corrupt(error.to_string()),
        _ => StoreError::Io(error.to_string()),
    }
}

/// Whether a write to the file at `path` failed because a quota is used up. SQLite reports only a full disk as such and
/// hides the system's reason for other failures. So this function asks the system again with another file beside the
/// log.
pub(super) fn is_quota(error: &Error, path: &Path) -> bool {
    let Error::SqliteFailure(failure, _) = error else { return false };
    if failure.extended_code != ffi::SQLITE_IOERR_WRITE {
        return false;
    }
    let path = super::schema::beside(path, "room");
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    let written = file.and_then(|mut file| file.write_all(&[0; 8_192]));
    let _ = std::fs::remove_file(&path);
    written.is_err_and(|error| matches!(error.kind(), ErrorKind::QuotaExceeded | ErrorKind::StorageFull))
}

/// Whether the state of the file is unknown after this failure. Nothing may then be written until the log is reopened.
/// After a failed fsync the kernel may have dropped the pages that it could not write.
pub(super) fn is_fatal(error: &Error) -> bool {
    match error {
        Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation => true,
            ErrorCode::SystemIoFailure => {
                matches!(failure.extended_code, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC)
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> Error {
        Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_failed_fsync_is_fatal_and_a_full_disk_is_not() {
        assert!(is_fatal(&failure(ffi::SQLITE_IOERR_FSYNC)));
        assert!(!is_fatal(&failure(ffi::SQLITE_FULL)));
        assert_eq!(explain(&failure(ffi::SQLITE_FULL), 1), StoreError::Full);
        assert_eq!(explain(&failure(ffi::SQLITE_IOERR_SHMSIZE), 1), StoreError::Full);
        assert!(matches!(explain(&failure(ffi::SQLITE_CORRUPT), 7), StoreError::Corrupt { position: 7, .. }));
        assert!(matches!(explain(&failure(ffi::SQLITE_IOERR_WRITE), 1), StoreError::Io(_)));
    }
}
