//! One event as one row.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::chain::EventHash;
use crate::envelope::{Position, Recorded, Revision, StreamId, Timestamp};
use crate::ids::EventId;
use crate::sealed::keys::KeyRing;
use crate::store::StoreError;

pub(super) const COLUMNS: &str = "position, stream, revision, id, kind, version, codec, recorded_at, meta, data, hash";

/// PostgreSQL's integers are signed. No log reaches larger numbers.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn read(row: &Row, keys: Option<&Arc<KeyRing>>) -> Result<Recorded, StoreError> {
    let position = row.get::<_, i64>(0).unsigned_abs();
    parse(row, keys)
        .ok_or_else(|| StoreError::Corrupt { position, reason: "a column has an unexpected type".to_owned() })
}

fn parse(row: &Row, keys: Option<&Arc<KeyRing>>) -> Option<Recorded> {
    let codec = u8::try_from(row.get::<_, i32>(6)).ok()?;
    Some(Recorded {
        position: Position(row.get::<_, i64>(0).unsigned_abs()),
        stream: StreamId::from_stored(std::str::from_utf8(row.get(1)).ok()?),
        revision: Revision(row.get::<_, i64>(2).unsigned_abs()),
        id: EventId(Uuid::from_slice(row.get(3)).ok()?),
        kind: Arc::from(row.get::<_, &str>(4)),
        version: u16::try_from(row.get::<_, i32>(5)).ok()?,
        codec,
        recorded_at: Timestamp(row.get(7)),
        meta: Arc::new(serde_json::from_str(row.get(8)).ok()?),
        data: Bytes::copy_from_slice(row.get(9)),
        hash: Some(EventHash::from_slice(row.get(10))?),
        keys: keys.filter(|_| codec == crate::codec::SEALED).cloned(),
        decoded: OnceLock::new(),
    })
}
