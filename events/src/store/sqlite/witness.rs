//! Records outside the log how far the log reached.
//!
//! SQLite cannot distinguish a truncated write-ahead log from a complete one: it opens both without an error. So
//! [`super::sync`] notes the head and the size of the data file in a small file, after each sync that makes events
//! durable. The note is not fsynced. After a power failure it may be older than the log, which is harmless. It is never
//! newer.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::envelope::Position;

const MAGIC: &[u8; 4] = b"CHW1";
const SIZE: usize = 4 + 16 + 8 + 8 + 4;

/// The head and size of the log at some time. The log can only have grown since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WitnessNote {
    pub(super) log: Uuid,
    pub(super) head: Position,
    /// The size of the data file after its last checkpoint, in bytes.
    pub(super) file: u64,
}

impl WitnessNote {
    fn to_bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..20].copy_from_slice(self.log.as_bytes());
        bytes[20..28].copy_from_slice(&self.head.0.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.file.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses a note; `None` if a power failure left only half of the note.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(SIZE - 4)?;
        if sum != crc32fast::hash(body).to_le_bytes() || &body[..4] != MAGIC {
            return None;
        }
        let number = |at: usize| body[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        Some(Self { log: Uuid::from_slice(&body[4..20]).ok()?, head: Position(number(20)?), file: number(28)? })
    }
}

/// The result of reading the note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoteState {
    Missing,
    Damaged,
    Says(WitnessNote),
}

#[derive(Debug)]
pub(super) struct Witness {
    path: PathBuf,
    file: Option<File>,
    /// Whether the last write failed. The note is written often, so only the first of several failures is logged.
    failing: bool,
}

impl Witness {
    pub(super) fn beside(data: &Path) -> Self {
        Self { path: super::schema::beside(data, "witness"), file: None, failing: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the note for a verification.
    pub(super) fn look(data: &Path) -> NoteState {
        match std::fs::read(Self::beside(data).path) {
            Err(_) => NoteState::Missing,
            Ok(bytes) if bytes.len() != SIZE => NoteState::Damaged,
            Ok(bytes) => WitnessNote::from_bytes(&bytes).map_or(NoteState::Damaged, NoteState::Says),
        }
    }

    pub(super) fn read(&self) -> Option<WitnessNote> {
        let bytes = std::fs::read(&self.path).ok()?;
        let note = WitnessNote::from_bytes(&bytes);
        if note.is_none() {
            tracing::warn!(
                path = %self.path.display(),
                "ignoring the note of how far the log reached: it cannot be read"
            );
        }
        note
    }

    /// Writes the note. A failure does not stop the log, because an old or missing note only weakens the proof.
    pub(super) fn write(&mut self, note: WitnessNote) {
        let written = match &self.file {
            Some(file) => file.write_all_at(&note.to_bytes(), 0),
            None => self.create(note),
        };
        if let Some(error) = self.first_failure(written) {
            tracing::warn!(path = %self.path.display(), %error, "cannot write the note of how far the log reaches");
        }
    }

    /// Chooses the failures for the text log: only the first one after a successful write.
    fn first_failure(&mut self, written: std::io::Result<()>) -> Option<std::io::Error> {
        let failed_before = std::mem::replace(&mut self.failing, written.is_err());
        written.err().filter(|_| !failed_before)
    }

    fn create(&mut self, note: WitnessNote) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        file.write_all_at(&note.to_bytes(), 0)?;
        self.file = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_survives_and_a_torn_one_is_ignored() {
        let note = WitnessNote { log: Uuid::from_u128(7), head: Position(42), file: 8_192 };
        let mut bytes = note.to_bytes();
        assert_eq!(WitnessNote::from_bytes(&bytes), Some(note));
        assert_eq!(WitnessNote::from_bytes(&bytes[..20]), None);
        bytes[25] ^= 1;
        assert_eq!(WitnessNote::from_bytes(&bytes), None);
    }

    #[test]
    fn only_the_first_of_several_failures_is_logged() {
        let mut witness = Witness::beside(Path::new("/nonexistent/log.db"));
        let fails = || Err(std::io::Error::other("no space"));
        let logged = [fails(), fails(), Ok(()), Ok(()), fails(), fails()]
            .map(|written| witness.first_failure(written).is_some());
        assert_eq!(logged, [true, false, false, false, true, false]);
    }
}
