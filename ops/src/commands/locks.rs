//! Locks on files and folders, so that two commands do not write the same ones.

use std::fs::TryLockError;
use std::path::Path;

use super::CommandFailure;

/// The result of an attempt to lock the file or folder at `path`, with an error for the operator. `does`: what the
/// other command does.
pub(super) fn taken(attempt: Result<(), TryLockError>, path: &Path, does: &str) -> Result<(), CommandFailure> {
    match attempt {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let told = format!("another command {does} ({} is locked): wait until it ends", path.display());
            Err(CommandFailure::Usage(told))
        }
        Err(TryLockError::Error(error)) => Err(CommandFailure::File { path: path.to_owned(), error }),
    }
}
