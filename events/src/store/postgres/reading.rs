//! Reads events and snapshots from the database, for members and for read-only users.

use std::sync::Arc;

use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::address::DatabaseAddress;
use super::link::{DatabaseLink, within};
use super::row::{self, signed};
use crate::envelope::{Position, Recorded, Revision, StreamId};
use crate::sealed::keys::KeyRing;
use crate::store::tail::Tail;
use crate::store::{StoreError, StreamSnapshot, sealed_snapshots};

/// One connection for reading. Only [`PostgresReader::read_up_to`] and [`PostgresReader::read_at`] return events that
/// the tail does not know yet.
pub(super) struct PostgresReader {
    config: DatabaseAddress,
    link: Mutex<Option<Arc<DatabaseLink>>>,
    pub(super) keys: Option<Arc<KeyRing>>,
    pub(super) tail: Arc<Tail>,
}

impl PostgresReader {
    pub(super) fn new(config: DatabaseAddress, keys: Option<Arc<KeyRing>>, tail: Arc<Tail>) -> Self {
        Self { config, link: Mutex::new(None), keys, tail }
    }

    /// Runs a statement, and repeats it up to two times if the connection is lost meanwhile.
    pub(super) async fn query(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let link = {
                let mut kept = self.link.lock().await;
                match kept.as_ref().filter(|link| !link.client.is_closed()) {
                    Some(link) => Arc::clone(link),
                    None => Arc::clone(kept.insert(DatabaseLink::open(&self.config).await?)),
                }
            };
            match within(link.client.query(sql, values)).await {
                Err(_) if attempts < 3 && link.client.is_closed() => {}
                answer => return answer,
            }
        }
    }

    fn recorded(&self, rows: &[Row]) -> Result<Vec<Arc<Recorded>>, StoreError> {
        rows.iter().map(|row| row::read(row, self.keys.as_ref()).map(Arc::new)).collect()
    }

    pub(super) async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let sql = format!(
            "SELECT {} FROM chronova_events WHERE stream = $1 AND revision > $2 AND position <= $3 \
             ORDER BY revision LIMIT $4",
            row::COLUMNS
        );
        let (name, durable) = (stream.as_str().as_bytes(), signed(self.tail.head().0));
        let rows = self.query(&sql, &[&name, &signed(after.0), &durable, &signed(limit as u64)]).await?;
        let events = self.recorded(&rows)?;
        for (event, revision) in events.iter().zip(after.0.saturating_add(1)..) {
            if event.revision.0 != revision {
                let reason = format!("revision {revision} of {stream} is missing");
                return Err(StoreError::Corrupt { position: event.position.0, reason });
            }
        }
        Ok(events)
    }

    pub(super) async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        self.read_up_to(after, self.tail.head(), limit).await
    }

    /// The events after `after` up to `until`, which the database must have.
    pub(super) async fn read_up_to(
        &self,
        after: Position,
        until: Position,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let sql = format!(
            "SELECT {} FROM chronova_events WHERE position > $1 AND position <= $2 ORDER BY position LIMIT $3",
            row::COLUMNS
        );
        let rows = self.query(&sql, &[&signed(after.0), &signed(until.0), &signed(limit as u64)]).await?;
        let events = self.recorded(&rows)?;
        let due = until.0.saturating_sub(after.0).min(limit as u64);
        let dense =
            events.iter().zip(after.0.saturating_add(1)..).all(|(event, position)| event.position.0 == position);
        if events.len() as u64 != due || !dense {
            return Err(missing(after));
        }
        Ok(events)
    }

    pub(super) async fn read_at(&self, positions: &[Position]) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let sql = format!("SELECT {} FROM chronova_events WHERE position = ANY($1) ORDER BY position", row::COLUMNS);
        let wanted: Vec<i64> = positions.iter().map(|position| signed(position.0)).collect();
        let events = self.recorded(&self.query(&sql, &[&wanted]).await?)?;
        match positions.iter().zip(events.iter().map(|event| event.position)).find(|(wanted, found)| *wanted != found) {
            Some((wanted, _)) => Err(missing(*wanted)),
            None if events.len() < positions.len() => Err(missing(positions[events.len()])),
            None => Ok(events),
        }
    }

    pub(super) async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        let sql = "SELECT revision, state_version, data FROM chronova_snapshots WHERE stream = $1";
        let rows = self.query(sql, &[&stream.as_str().as_bytes()]).await?;
        let snapshot = rows.first().map(|row| StreamSnapshot {
            revision: Revision(row.get::<_, i64>(0).unsigned_abs()),
            state_version: u32::try_from(row.get::<_, i64>(1)).unwrap_or(u32::MAX),
            bytes: row.get(2),
        });
        Ok(match (&self.keys, snapshot) {
            (Some(keys), Some(snapshot)) => sealed_snapshots::open(keys, stream, &snapshot),
            (_, snapshot) => snapshot,
        })
    }

    /// Encrypts the snapshot if the log has keys of personal fields.
    pub(super) async fn sealed(
        &self,
        stream: &StreamId,
        snapshot: StreamSnapshot,
    ) -> Result<StreamSnapshot, StoreError> {
        let Some(keys) = self.keys.clone() else { return Ok(snapshot) };
        let stream = stream.clone();
        let seal = move || sealed_snapshots::seal(&keys, &stream, &snapshot);
        tokio::task::spawn_blocking(seal).await.map_err(|error| StoreError::Io(error.to_string()))?
    }
}

pub(super) fn missing(after: Position) -> StoreError {
    StoreError::Corrupt { position: after.0, reason: "events are missing after this position".to_owned() }
}
