//! Legal holds: parts of the log that must stay in the file and readable, until an operator removes the hold.
//!
//! The holds are in a small file beside the log (`log.db.holds`), so that a command can set one while a server runs. Each
//! move of events into the archive and each erasure reads the file first. A file that cannot be read is an error, not
//! an absence of holds.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::archive::begin;
use crate::envelope::Timestamp;
use crate::store::StoreError;

const FORMAT: &str = "chronova-holds";
const VERSION: u32 = 1;

/// The part of the log that a hold keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldPart {
    /// The id of a project: its requests, and the data of its servers.
    Project(String),
    /// The id of a server: its events, and its data.
    Server(Uuid),
    /// The id of a user: the user's requests and data, and the data of the user's servers.
    User(String),
    /// Positions of the log, both included.
    Positions { first: u64, last: u64 },
}

impl std::fmt::Display for HeldPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Project(id) => write!(f, "project {id}"),
            Self::Server(id) => write!(f, "server {id}"),
            Self::User(id) => write!(f, "user {id}"),
            Self::Positions { first, last } => write!(f, "positions {first} to {last}"),
        }
    }
}

/// One hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegalHold {
    pub id: Uuid,
    pub of: HeldPart,
    /// The reason as the operator wrote it.
    pub reason: String,
    /// When the hold was set, in microseconds since 1970.
    pub since: i64,
}

impl LegalHold {
    pub fn new(of: HeldPart, reason: String, now: Timestamp) -> Self {
        Self { id: crate::entropy::uuid(), of, reason, since: now.0 }
    }
}

/// All holds of a log, in the order in which they were set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LegalHolds(pub Vec<LegalHold>);

#[derive(Serialize, Deserialize)]
struct HoldsFile {
    format: String,
    version: u32,
    holds: Vec<LegalHold>,
}

impl LegalHolds {
    /// Reads the file at `path`. Without a file there are no holds.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let unusable = |reason: &dyn std::fmt::Display| StoreError::Io(format!("{}: {reason}", path.display()));
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unusable(&error)),
        };
        let file: HoldsFile = serde_json::from_slice(&bytes).map_err(|error| unusable(&error))?;
        if file.format != FORMAT || file.version != VERSION {
            return Err(unusable(&"it is no list of legal holds that this program knows"));
        }
        Ok(Self(file.holds))
    }

    /// Replaces the file at `path`, atomically and durably.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), StoreError> {
        let file = HoldsFile { format: FORMAT.to_owned(), version: VERSION, holds: self.0.clone() };
        let failed = |error: io::Error| StoreError::Io(format!("{}: {error}", path.display()));
        let text = serde_json::to_vec_pretty(&file).map_err(|error| failed(io::Error::other(error)))?;
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = Path::new(&temporary);
        let mut new = begin(temporary).map_err(StoreError::from)?;
        new.write_all(&text).and_then(|()| new.write_all(b"\n")).and_then(|()| new.sync_all()).map_err(failed)?;
        std::fs::rename(temporary, path).map_err(failed)?;
        match path.parent() {
            Some(folder) => File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn holds_are_read_as_they_were_written_and_a_damaged_file_is_no_absence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db.holds");
        assert_eq!(LegalHolds::read(&path), Ok(LegalHolds::default()));
        let parts = [
            HeldPart::Project("acme".into()),
            HeldPart::Server(Uuid::from_u128(1)),
            HeldPart::User("anna".into()),
            HeldPart::Positions { first: 3, last: 9 },
        ];
        let holds = parts.map(|of| LegalHold::new(of, "case 12".into(), Timestamp(5)));
        let holds = LegalHolds(holds.into());
        holds.write(&path).unwrap();
        assert_eq!(LegalHolds::read(&path), Ok(holds.clone()));
        LegalHolds(holds.0[..1].to_vec()).write(&path).unwrap();
        assert_eq!(LegalHolds::read(&path).unwrap().0, holds.0[..1]);
        std::fs::write(&path, "{}").unwrap();
        assert!(LegalHolds::read(&path).is_err());
    }
}
