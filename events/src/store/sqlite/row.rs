//! One event as one row, and the checksum over it.
//!
//! Every read verifies the checksum of each row, which needs no other row. To verify the chain ([`crate::chain`]), a
//! reader also needs the previous row. The checksum also covers the chain's hash.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Row};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::floor::ArchiveReader;
use crate::chain::{EventContent, EventHash};
use crate::envelope::{Cause, Meta, Position, Recorded, RequestSource, Revision, StreamId, Timestamp};
use crate::ids::{EventId, ProcessId, ProjectId, RequestId, UserId};
use crate::sealed::keys::KeyRing;
use crate::store::StoreError;

/// The columns for [`RowReader::read`], in its order.
pub(super) const COLUMNS: &str = "e.position, s.name, e.revision, e.id, e.kind, e.version, e.codec, e.recorded_at, \
    e.request_id, e.correlation, e.causation, e.user, e.project, e.roles, e.process, e.system, e.data, e.hash, e.checksum";

pub(super) const INSERT: &str = "INSERT INTO events (position, stream, revision, id, kind, version, codec, recorded_at, \
    request_id, correlation, causation, user, project, roles, process, system, data, hash, checksum) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";

/// Converts a number for SQLite, whose integers are signed. The numbers of a log stay far below the limit.
#[allow(clippy::cast_possible_wrap)]
pub(super) fn signed(value: u64) -> i64 {
    value as i64
}

#[allow(clippy::cast_sign_loss)]
pub(super) fn unsigned(value: i64) -> u64 {
    value as u64
}

/// The cause as columns: exactly one of user, process and system is set.
#[derive(Default)]
struct CauseColumns<'a> {
    user: Option<&'a str>,
    project: Option<&'a str>,
    roles: Option<String>,
    process: Option<&'a [u8]>,
    system: Option<&'a str>,
}

impl<'a> CauseColumns<'a> {
    fn of(cause: &'a Cause) -> Self {
        match cause {
            Cause::User { user, project, roles, source } => Self {
                user: Some(user.as_str()),
                project: project.as_ref().map(ProjectId::as_str),
                // Texts can always be encoded as JSON.
                roles: match source {
                    None => serde_json::to_string(roles).ok(),
                    Some(source) => serde_json::to_string(&SourcedRoles { roles, source: &**source }).ok(),
                },
                ..Self::default()
            },
            Cause::Process { process } => Self { process: Some(process.0.as_bytes()), ..Self::default() },
            Cause::System { part } => Self { system: Some(part), ..Self::default() },
        }
    }
}

/// The form of the column `roles` with the source of the request. Without a source, the column is the list of roles
/// alone. A separate column for the source would be another file format.
#[derive(Serialize, Deserialize)]
struct SourcedRoles<R, S> {
    roles: R,
    source: S,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RolesColumn {
    Alone(Vec<String>),
    Sourced(SourcedRoles<Vec<String>, RequestSource>),
}

/// Writes one event.
pub(super) fn insert(
    statement: &mut CachedStatement<'_>,
    event: &Recorded,
    stream: i64,
    kind: i64,
    sum: u32,
) -> rusqlite::Result<()> {
    let meta = &*event.meta;
    let cause = CauseColumns::of(&meta.cause);
    statement.execute(rusqlite::params![
        signed(event.position.0),
        stream,
        signed(event.revision.0),
        event.id.0.as_bytes().as_slice(),
        kind,
        event.version,
        event.codec,
        event.recorded_at.0,
        meta.request_id.as_ref().map(RequestId::as_str),
        meta.correlation.as_bytes().as_slice(),
        meta.causation.as_ref().map(|id| id.0.as_bytes().as_slice()),
        cause.user,
        cause.project,
        cause.roles,
        cause.process,
        cause.system,
        &event.data[..],
        event.hash.as_ref().map(|hash| hash.0.as_slice()),
        sum,
    ])?;
    Ok(())
}

/// The CRC-32 over all data of an event: the canonical bytes of its content ([`EventContent::bytes`]), then position,
/// revision and hash. It is part of the file format.
pub(super) fn checksum(event: &Recorded, scratch: &mut Vec<u8>) -> u32 {
    EventContent::of(event).bytes(scratch);
    finish_checksum(crc32fast::hash(scratch), event)
}

/// The checksum of an event, from the checksum of its content.
pub(super) fn finish_checksum(content: u32, event: &Recorded) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(content);
    hasher.update(&event.position.0.to_le_bytes());
    hasher.update(&event.revision.0.to_le_bytes());
    hasher.update(&event.hash.unwrap_or_default().0);
    hasher.finalize()
}

/// What a reader of rows needs: the names of kinds by their numbers in the file, and more.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    pub(super) names: HashMap<i64, Arc<str>>,
    /// The keys for sealed payloads.
    pub(super) keys: Option<Arc<KeyRing>>,
    /// The events that the file does not have any more.
    pub(super) archive: ArchiveReader,
}

impl Kinds {
    pub(super) fn with_keys(keys: &Arc<KeyRing>, archive: &ArchiveReader) -> Self {
        Self { names: HashMap::new(), keys: Some(Arc::clone(keys)), archive: archive.clone() }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}

impl FromIterator<(i64, Arc<str>)> for Kinds {
    fn from_iter<T: IntoIterator<Item = (i64, Arc<str>)>>(names: T) -> Self {
        Self { names: names.into_iter().collect(), keys: None, archive: ArchiveReader::default() }
    }
}

/// Converts the rows of one read into events.
pub(super) struct RowReader<'a> {
    kinds: &'a Kinds,
    /// Events of one append share their meta, also when they are read back.
    last: Option<Arc<Meta>>,
    scratch: Vec<u8>,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(kinds: &'a Kinds) -> Self {
        Self { kinds, last: None, scratch: Vec::new() }
    }

    /// Converts a row. `position` is the expected position, for the error if the row cannot be read.
    pub(super) fn read(&mut self, row: &Row<'_>, position: u64) -> Result<Recorded, StoreError> {
        let corrupt = |reason: &str| StoreError::Corrupt { position, reason: reason.to_owned() };
        let event = self.parse(row).map_err(|e| super::error::explain(&e, position))?;
        let Some((event, sum)) = event else {
            return Err(corrupt("a column has an unexpected type"));
        };
        if event.hash.is_none() {
            return Err(corrupt("it has no hash"));
        }
        if checksum(&event, &mut self.scratch) != sum {
            return Err(StoreError::Corrupt {
                position: event.position.0,
                reason: "the checksum does not match".to_owned(),
            });
        }
        Ok(event)
    }

    /// The event and its checksum. In a file that is about to be migrated the event has no hash.
    pub(super) fn parse(&mut self, row: &Row<'_>) -> rusqlite::Result<Option<(Recorded, u32)>> {
        let (Some(name), Some(kind)) = (text(row, 1)?, self.kinds.names.get(&row.get(4)?)) else {
            return Ok(None);
        };
        let stream = StreamId::from_stored(name);
        let Some(meta) = parse_meta(row)? else {
            return Ok(None);
        };
        let meta = match &self.last {
            Some(last) if **last == meta => Arc::clone(last),
            _ => Arc::new(meta),
        };
        self.last = Some(Arc::clone(&meta));
        let codec = row.get(6)?;
        let event = Recorded {
            position: Position(unsigned(row.get(0)?)),
            stream,
            revision: Revision(unsigned(row.get(2)?)),
            id: EventId(match uuid(row, 3)? {
                Some(id) => id,
                None => return Ok(None),
            }),
            kind: Arc::clone(kind),
            version: row.get(5)?,
            codec,
            recorded_at: Timestamp(row.get(7)?),
            meta,
            data: Bytes::copy_from_slice(row.get_ref(16)?.as_blob()?),
            hash: EventHash::from_slice(row.get_ref(17)?.as_blob()?),
            keys: if codec == crate::codec::SEALED { self.kinds.keys.clone() } else { None },
            decoded: OnceLock::new(),
        };
        Ok(Some((event, row.get(18)?)))
    }
}

fn parse_meta(row: &Row<'_>) -> rusqlite::Result<Option<Meta>> {
    let cause = match (text(row, 11)?, uuid(row, 14)?, text(row, 15)?) {
        (Some(user), None, None) => {
            let roles = text(row, 13)?.and_then(|roles| serde_json::from_str(roles).ok());
            let (roles, source) = match roles {
                Some(RolesColumn::Alone(roles)) => (roles, None),
                Some(RolesColumn::Sourced(SourcedRoles { roles, source })) => (roles, Some(Arc::new(source))),
                None => return Ok(None),
            };
            Cause::User { user: UserId::new(user), project: text(row, 12)?.map(ProjectId::new), roles, source }
        }
        (None, Some(process), None) => Cause::Process { process: ProcessId(process) },
        (None, None, Some(part)) => Cause::System { part: part.to_owned() },
        _ => return Ok(None),
    };
    let Some(correlation) = uuid(row, 9)? else {
        return Ok(None);
    };
    Ok(Some(Meta {
        request_id: text(row, 8)?.map(RequestId::new),
        correlation,
        causation: uuid(row, 10)?.map(EventId),
        cause,
    }))
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

/// `None` for NULL and for bytes that are not a UUID.
fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Blob(bytes) => Uuid::from_slice(bytes).ok(),
        _ => None,
    })
}
