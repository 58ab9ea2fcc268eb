//! The file of keys beside the log, and the note in the log that keys exist.
//!
//! A log that once had keys is opened for writing only if the keys are there, or if the operator has accepted their
//! loss. Otherwise every personal field would look erased. Checkpoints and snapshots written then would stay wrong even
//! after the file of keys is restored.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};

use super::{error, schema};
use crate::sealed::keys::KeyRing;
use crate::store::StoreError;

/// The file is named `log.db.keys`.
pub(super) const SUFFIX: &str = "keys";
/// The file that marks the keys as permanently lost.
const ACCEPTED: &str = "keys.lost";

/// Notes in the log the id of its key file. The note is part of the transaction that stores the first sealed event.
pub(super) fn note(connection: &Connection, keys: &KeyRing) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta VALUES ('keys', ?1) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    connection.execute(sql, [&keys.ring().0[..]]).map(drop)
}

/// Opens the keys of the log at `path`. Creates the file if the log has no keys yet.
pub(super) fn open(connection: &Connection, path: &Path) -> Result<Arc<KeyRing>, StoreError> {
    let file = schema::beside(path, SUFFIX);
    let noted: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM meta WHERE key = 'keys'", [], |row| row.get(0))
        .optional()
        .map_err(|e| error::explain(&e, 0))?;
    let accepted = schema::beside(path, ACCEPTED);
    if let Some(noted) = &noted
        && !accepted.exists()
    {
        let keys = KeyRing::open_read_only(&file)?;
        if keys.ring().0[..] != noted[..] {
            let what = if keys.is_there() { "belong to another log" } else { "are missing" };
            return Err(StoreError::Io(format!(
                "the keys of the personal fields ({}) {what}: put the file back; if it is lost for ever, create {} to \
                 accept that these fields cannot be read any more",
                file.display(),
                accepted.display()
            )));
        }
    }
    let keys = KeyRing::open(&file)?;
    if noted.is_some_and(|noted| noted[..] != keys.ring().0[..]) {
        note(connection, &keys).map_err(|e| error::explain(&e, 0))?;
    }
    // The operator accepted only this loss. If the keys are lost again, the operator must decide again.
    match std::fs::remove_file(&accepted) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::Io(format!("{}: {error}", accepted.display())))
        }
        _ => Ok(keys),
    }
}
