//! Migrates a file of an older format, one format at a time. Each step is one transaction.
//!
//! Format 2 updated its index by stream in each transaction. The migration replaces this index by an empty table, which
//! is filled when the log is opened.
//!
//! Format 1 had no chain. The migration gives its events a chain in their order, after it checked each event against
//! its checksum. Such a chain proves the content of the log at the migration, not before. So the table `meta` keeps the
//! position of the last of these events, and a verification reports it.

use rusqlite::{Connection, params};

use super::row::{COLUMNS, RowReader, checksum, signed};
use super::schema::{audit_view, bound};
use super::{by_stream, error, reader};
use crate::chain::{EventContent, EventHash, link};
use crate::envelope::{Position, Recorded};
use crate::store::StoreError;

/// The number of events that are read before they are written back.
const PAGE: u64 = 1_024;
/// The number of events between two progress messages.
const TOLD_EVERY: u64 = 1_000_000;

/// Migrates from format 1.
pub(super) fn from_1(connection: &Connection) -> Result<(), StoreError> {
    let explain = |e: rusqlite::Error| error::explain(&e, 0);
    let transaction = connection.unchecked_transaction().map_err(explain)?;
    let head = reader::head(&transaction)?;
    tracing::info!(events = head.0, format = 2, "converting the log to a newer file format");
    transaction.execute_batch("ALTER TABLE events ADD COLUMN hash BLOB NOT NULL DEFAULT x''").map_err(explain)?;
    chain(&transaction, head)?;
    let finish = || {
        transaction.execute("INSERT INTO meta VALUES ('chained_until', ?1)", [signed(head.0)])?;
        transaction.execute_batch("DROP VIEW audit_events")?;
        transaction.execute_batch(&audit_view())?;
        transaction.pragma_update(None, "user_version", 2)
    };
    finish().map_err(explain)?;
    transaction.commit().map_err(explain)
}

/// Migrates from format 2, which updated the index by stream in each transaction.
pub(super) fn from_2(connection: &Connection) -> Result<(), StoreError> {
    let explain = |e: rusqlite::Error| error::explain(&e, 0);
    let transaction = connection.unchecked_transaction().map_err(explain)?;
    let head = reader::head(&transaction)?;
    tracing::info!(events = head.0, format = 3, "converting the log to a newer file format");
    let convert = || {
        transaction.execute_batch("DROP INDEX events_by_stream")?;
        transaction.execute_batch(by_stream::LAYOUT)?;
        transaction.pragma_update(None, "user_version", 3)
    };
    convert().map_err(explain)?;
    transaction.commit().map_err(explain)
}

/// Gives every event its hash, and the checksum of the new format.
fn chain(connection: &Connection, head: Position) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM events e LEFT JOIN streams s ON s.id = e.stream \
         WHERE e.position > ?1 AND e.position <= ?2 ORDER BY e.position"
    );
    let kinds = reader::kinds(connection)?;
    let mut select = connection.prepare(&sql).map_err(|e| error::explain(&e, 0))?;
    let mut update = connection
        .prepare("UPDATE events SET hash = ?1, checksum = ?2 WHERE position = ?3")
        .map_err(|e| error::explain(&e, 0))?;
    let mut reader = RowReader::new(&kinds);
    let (mut at, mut hash, mut scratch) = (0, EventHash::START, Vec::new());
    while at < head.0 {
        let last = head.0.min(at + PAGE);
        let mut page = Vec::new();
        let mut rows = select.query([bound(at), bound(last)]).map_err(|e| error::explain(&e, at + 1))?;
        while let Some(row) = rows.next().map_err(|e| error::explain(&e, at + 1))? {
            let position = at + 1 + page.len() as u64;
            page.push(whole(&mut reader, row, position, &mut scratch)?);
        }
        if page.len() as u64 != last - at {
            return Err(super::reader::missing(at + 1 + page.len() as u64));
        }
        for mut event in page {
            hash = link(&hash, event.position, event.revision, &EventContent::of(&event).hash());
            event.hash = Some(hash);
            let sum = checksum(&event, &mut scratch);
            update
                .execute(params![hash.0.as_slice(), sum, signed(event.position.0)])
                .map_err(|e| error::explain(&e, event.position.0))?;
            if event.position.0.is_multiple_of(TOLD_EVERY) {
                tracing::info!(done = event.position.0, of = head.0, "converting the log to a newer file format");
            }
        }
        at = last;
    }
    Ok(())
}

/// Reads the row at `position` and checks it against the checksum of format 1: position, revision, then the content.
fn whole(
    reader: &mut RowReader<'_>,
    row: &rusqlite::Row<'_>,
    position: u64,
    scratch: &mut Vec<u8>,
) -> Result<Recorded, StoreError> {
    let corrupt = |reason: &str| StoreError::Corrupt { position, reason: reason.to_owned() };
    let parsed = reader.parse(row).map_err(|e| error::explain(&e, position))?;
    let (event, sum) = parsed.ok_or_else(|| corrupt("a column has an unexpected type"))?;
    if event.position.0 != position {
        return Err(super::reader::missing(position));
    }
    EventContent::of(&event).bytes(scratch);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&event.position.0.to_le_bytes());
    hasher.update(&event.revision.0.to_le_bytes());
    // The first byte of a content belongs to the chain, so format 1 did not hash it.
    hasher.update(&scratch[1..]);
    if hasher.finalize() == sum { Ok(event) } else { Err(corrupt("the checksum does not match")) }
}
