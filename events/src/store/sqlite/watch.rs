//! Checks whether an open log can be written: its files are still the opened ones, and the disk has space.
//!
//! A removed or replaced file exists as long as a process has it open. Writes to it succeed and are synced, but are
//! lost when the process ends. So before each acknowledgement the log checks that each name still leads to the opened
//! file. A program that properly removes the write-ahead log first moves its content into the data file. So the check
//! comes after the sync, and earlier acknowledged events are safe.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::data_file::{FileIdentity, identity};
use crate::store::StoreError;

/// The number of bytes that must be free: a few commits.
const ROOM: usize = 256 << 10;
/// How long the result of a probe is valid.
const KNOWN_FOR: Duration = Duration::from_secs(2);

/// The open files of a writer, and the reason why it writes no more.
#[derive(Debug)]
pub(super) struct LogWatch {
    files: Vec<(PathBuf, FileIdentity)>,
    failed: Mutex<Option<StoreError>>,
    /// The probe file that is written and removed to check for free space.
    probe: PathBuf,
    /// The result of the last probe, and its time.
    room: Mutex<Option<(Instant, Result<(), StoreError>)>>,
}

impl LogWatch {
    /// Watches these files of a log. All of them are open. `probe` is a file name that no other code uses.
    pub(super) fn over<const N: usize>(files: [PathBuf; N], probe: PathBuf) -> Result<Self, StoreError> {
        let known = files.into_iter().map(|path| match path.metadata() {
            Ok(metadata) => Ok((path, identity(&metadata))),
            Err(error) => Err(StoreError::Io(format!("{}: {error}", path.display()))),
        });
        Ok(Self { files: known.collect::<Result<_, _>>()?, failed: Mutex::default(), probe, room: Mutex::default() })
    }

    /// Records why writing has stopped. Callers get this reason from now on. The first reason stays.
    pub(super) fn fail(&self, failure: &StoreError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| failure.clone());
    }

    /// Fails if a file was removed or replaced. The error is permanent: the log has to be opened again.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if let Some(failure) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Err(failure);
        }
        for (path, known) in &self.files {
            let what = match path.metadata() {
                Ok(metadata) if identity(&metadata) == *known => continue,
                Ok(_) => "was replaced by another file".to_owned(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => "was removed or moved away".to_owned(),
                Err(error) => format!("cannot be read ({error})"),
            };
            let failure = StoreError::Io(format!(
                "{} {what} while the log is open: nothing more is acknowledged until the log is opened again",
                path.display()
            ));
            tracing::error!(path = %path.display(), "a file of the event log {what} while the log is open: nothing is acknowledged any more; restart the service");
            self.fail(&failure);
            return Err(failure);
        }
        Ok(())
    }

    /// Fails if the disk is full or read-only. The error is temporary. The result is cached for some time, so that
    /// frequent calls cost nothing.
    pub(super) fn room(&self) -> Result<(), StoreError> {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        match &*room {
            Some((then, found)) if then.elapsed() < KNOWN_FOR => found.clone(),
            _ => {
                let found = self.look_for_room();
                *room = Some((Instant::now(), found.clone()));
                found
            }
        }
    }

    /// Probes by writing, because only a write detects quotas and read-only file systems.
    fn look_for_room(&self) -> Result<(), StoreError> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.probe);
        let written = file.and_then(|mut file| file.write_all(&vec![0; ROOM]));
        let removed = std::fs::remove_file(&self.probe);
        written.and(removed).map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full,
            _ => StoreError::Io(format!("nothing can be written beside the log: {error}")),
        })
    }
}
