//! The tables, and the row that names the appending member.

use std::time::Duration;

use tokio_postgres::{Client, Row};

use super::link::within;
use crate::chain::{Anchor, EventHash};
use crate::envelope::Position;
use crate::store::StoreError;

const FORMAT: i32 = 1;

/// Creates the tables. Stream names are bytes, because a text of PostgreSQL holds no zero byte.
const CREATE: &str = "BEGIN; SELECT pg_advisory_xact_lock(4848310218); \
    CREATE TABLE IF NOT EXISTS chronova_head (cell text PRIMARY KEY, format int NOT NULL, epoch bigint NOT NULL, \
        holder bytea NOT NULL, position bigint NOT NULL, hash bytea NOT NULL, batch bytea NOT NULL, keys bytea, \
        lease_until timestamptz NOT NULL DEFAULT '-infinity'); \
    CREATE UNIQUE INDEX IF NOT EXISTS chronova_one_cell ON chronova_head ((true)); \
    CREATE TABLE IF NOT EXISTS chronova_events (position bigint PRIMARY KEY, stream bytea NOT NULL, \
        revision bigint NOT NULL, id bytea NOT NULL, kind text NOT NULL, version int NOT NULL, codec int NOT NULL, \
        recorded_at bigint NOT NULL, meta text NOT NULL, data bytea NOT NULL, hash bytea NOT NULL, \
        UNIQUE (stream, revision)); \
    CREATE TABLE IF NOT EXISTS chronova_snapshots (stream bytea PRIMARY KEY, revision bigint NOT NULL, \
        state_version bigint NOT NULL, data bytea NOT NULL); COMMIT";

/// The head row as the new holder found it.
pub(super) struct HeldHead {
    pub(super) epoch: i64,
    pub(super) head: Anchor,
    /// The id of the last appended batch.
    pub(super) batch: Vec<u8>,
    /// The id of the key file that the log needs.
    pub(super) keys: Option<Vec<u8>>,
}

/// Refuses a database that may lose acknowledged events.
pub(super) async fn check_durability(client: &Client, allow_asynchronous: bool) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('fsync'), current_setting('synchronous_standby_names')";
    let row = within(client.query_one(sql, &[])).await?;
    if row.get::<_, &str>(0) != "on" {
        return Err(StoreError::Io("the database has fsync = off and may lose events: set fsync = on".to_owned()));
    }
    if row.get::<_, &str>(1).is_empty() && !allow_asynchronous {
        let what = "the database has no synchronous standby, so its loss loses events: set synchronous_standby_names, \
                    or allow an asynchronous database";
        return Err(StoreError::Io(what.to_owned()));
    }
    Ok(())
}

pub(super) async fn create(client: &Client, cell: &str) -> Result<(), StoreError> {
    // If the tables exist, a joining member takes no lock that would delay the leader's appends.
    if !exists(client).await? {
        within(client.batch_execute(CREATE)).await?;
    }
    let sql = "INSERT INTO chronova_head VALUES ($1, $2, 0, '', 0, $3, '') ON CONFLICT DO NOTHING";
    within(client.execute(sql, &[&cell, &FORMAT, &&EventHash::START.0[..]])).await?;
    check_head(client, cell).await.map(drop)
}

/// The end of the log of `cell`. Creates nothing.
pub(super) async fn head(client: &Client, cell: &str) -> Result<Anchor, StoreError> {
    let missing = || StoreError::Io(format!("the database holds no log of cell {cell:?}"));
    if !exists(client).await? {
        return Err(missing());
    }
    check_head(client, cell).await?.ok_or_else(missing)
}

async fn exists(client: &Client) -> Result<bool, StoreError> {
    let row = within(client.query_one("SELECT to_regclass('chronova_head') IS NOT NULL", &[])).await?;
    Ok(row.get(0))
}

/// Refuses the log of another cell or of a newer version. Returns the end of the log, if there is one.
async fn check_head(client: &Client, cell: &str) -> Result<Option<Anchor>, StoreError> {
    let found = within(client.query("SELECT cell, format, position, hash FROM chronova_head", &[])).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let (other, format) = (row.get::<_, &str>(0), row.get::<_, i32>(1));
    if other != cell {
        return Err(StoreError::Io(format!("the database holds the log of cell {other:?}, not of {cell:?}")));
    }
    if format > FORMAT {
        return Err(StoreError::NewerFormat { found: format.unsigned_abs(), supported: FORMAT.unsigned_abs() });
    }
    anchor(row, 2).map(Some)
}

/// Reads a position, and its hash from the next column.
fn anchor(row: &Row, column: usize) -> Result<Anchor, StoreError> {
    let position = Position(row.get::<_, i64>(column).unsigned_abs());
    let damaged =
        || StoreError::Corrupt { position: position.0, reason: "the hash of the head is not 32 bytes".to_owned() };
    Ok(Anchor { position, hash: EventHash::from_slice(row.get(column + 1)).ok_or_else(damaged)? })
}

/// Takes the next epoch and the lease. Holders of older epochs can append no more. `None` if another holder has the
/// epoch, and either its lease lasts or `held_only` is set. A holder without a lease (zero) is deposed at once.
///
/// This is a write and waits for the standby. So the returned row is replicated, which a plain read cannot promise.
pub(super) async fn take_epoch(
    client: &Client,
    cell: &str,
    holder: &[u8],
    held_only: bool,
    lease: Duration,
) -> Result<Option<HeldHead>, StoreError> {
    let sql = "UPDATE chronova_head SET epoch = epoch + 1, holder = $2, \
                   lease_until = clock_timestamp() + make_interval(secs => $4) \
               WHERE cell = $1 AND (holder = $2 OR (NOT $3 AND lease_until <= clock_timestamp())) \
               RETURNING epoch, position, hash, batch, keys";
    let Some(row) = within(client.query_opt(sql, &[&cell, &holder, &held_only, &lease.as_secs_f64()])).await? else {
        return Ok(None);
    };
    Ok(Some(HeldHead { epoch: row.get(0), head: anchor(&row, 1)?, batch: row.get(3), keys: row.get(4) }))
}

/// Renews the lease from now on. `false` if another holder has it.
pub(super) async fn renew(client: &Client, cell: &str, holder: &[u8], lease: Duration) -> Result<bool, StoreError> {
    let sql = "UPDATE chronova_head SET lease_until = clock_timestamp() + make_interval(secs => $3) \
               WHERE cell = $1 AND holder = $2";
    Ok(within(client.execute(sql, &[&cell, &holder, &lease.as_secs_f64()])).await? == 1)
}

/// Renames the holder's log. `false` if another holder has it.
pub(super) async fn rename(client: &Client, cell: &str, holder: &[u8], to: &str) -> Result<bool, StoreError> {
    let sql = "UPDATE chronova_head SET cell = $3 WHERE cell = $1 AND holder = $2";
    Ok(within(client.execute(sql, &[&cell, &holder, &to])).await? == 1)
}

/// Ends the lease, so that another member need not wait for its end.
pub(super) async fn release(client: &Client, cell: &str, holder: &[u8]) -> Result<(), StoreError> {
    let sql = "UPDATE chronova_head SET lease_until = '-infinity' WHERE cell = $1 AND holder = $2";
    within(client.execute(sql, &[&cell, &holder])).await.map(drop)
}

/// The id of the key file that the log needs, as far as it is known now.
pub(super) async fn ring(client: &Client, cell: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let rows = within(client.query("SELECT keys FROM chronova_head WHERE cell = $1", &[&cell])).await?;
    Ok(rows.first().and_then(|row| row.get(0)))
}
