//! The tables, and the row that names the appending member.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::link::within;
use super::row::signed;
use crate::chain::{Anchor, EventHash};
use crate::envelope::Position;
use crate::store::StoreError;

/// Format 2 added the acknowledged position, the list of members, the mark of their secret, and the request of a
/// switchover. Format 3 added the time from which the leader may work on hosts. Format 4 added the levels of the log
/// and of the members, and the time since which each member has announced itself without a gap. It also added `oldest`,
/// the oldest format whose members can use these tables.
///
/// The first member of a new version brings the tables to its format, and members of the older version go on. So a new
/// format only adds columns with defaults, and leaves `oldest` as it is. If members of the former format cannot use a
/// new format, the new format raises `oldest`. Operators must then stop all members for the upgrade.
const FORMAT: i32 = 4;

/// The members `m` that keep the level of the log low, if `$1` is the leader's holder. A member counts if it has
/// announced itself in the last minute. If the database or the leader was away, the silence of the others proves
/// nothing. So all members count until the leader has announced itself for a minute without a gap.
const COUNTED: &str = "(m.seen > clock_timestamp() - interval '60 seconds' OR EXISTS (SELECT FROM chronova_members l \
    WHERE l.holder = $1 AND (l.since > clock_timestamp() - interval '60 seconds' \
        OR l.seen < clock_timestamp() - interval '10 seconds')))";

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
        state_version bigint NOT NULL, data bytea NOT NULL); \
    ALTER TABLE chronova_head ADD COLUMN IF NOT EXISTS durable bigint NOT NULL DEFAULT 0, \
        ADD COLUMN IF NOT EXISTS secret bytea, ADD COLUMN IF NOT EXISTS wish text, \
        ADD COLUMN IF NOT EXISTS wish_until timestamptz NOT NULL DEFAULT '-infinity', \
        ADD COLUMN IF NOT EXISTS hosts_from timestamptz NOT NULL DEFAULT '-infinity', \
        ADD COLUMN IF NOT EXISTS level int NOT NULL DEFAULT 1, ADD COLUMN IF NOT EXISTS oldest int NOT NULL DEFAULT 4; \
    CREATE TABLE IF NOT EXISTS chronova_members (name text PRIMARY KEY, holder bytea NOT NULL, address text NOT NULL, \
        version text NOT NULL, position bigint NOT NULL, seen timestamptz NOT NULL); \
    ALTER TABLE chronova_members ADD COLUMN IF NOT EXISTS level int NOT NULL DEFAULT 1, \
        ADD COLUMN IF NOT EXISTS since timestamptz NOT NULL DEFAULT '-infinity'; \
    UPDATE chronova_head SET format = 4 WHERE format < 4; COMMIT";

/// The head row as the new holder found it.
pub(super) struct HeldHead {
    pub(super) epoch: i64,
    pub(super) head: Anchor,
    /// The id of the last appended batch.
    pub(super) batch: Vec<u8>,
    /// The id of the key file that the log needs.
    pub(super) keys: Option<Vec<u8>>,
    /// How long the new holder must not work on hosts: until the leases of all earlier holders have ended.
    pub(super) hosts_after: Duration,
    /// The level of the log.
    pub(super) level: u16,
}

/// The holder from whom a member takes the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenFrom<'a> {
    /// The epoch of a holder whose lease has ended, or the caller's own.
    Free,
    /// The caller's own epoch.
    Own,
    /// Like `Free`, or the epoch of this holder, whose process has ended although its lease lasts.
    Ended(&'a [u8]),
}

/// Lets the database show that this session renews the lease of `holder`.
pub(super) async fn show_session(client: &Client, holder: &[u8]) -> Result<(), StoreError> {
    let sql = "SELECT set_config('application_name', 'chronova leader ' || encode($1, 'hex'), false)";
    within(client.execute(sql, &[&holder])).await.map(drop)
}

/// Refuses a database that may lose acknowledged events.
pub(super) async fn check_durability(client: &Client, allow_asynchronous: bool) -> Result<(), StoreError> {
    let sql = "SELECT current_setting('fsync'), current_setting('synchronous_standby_names')";
    let row = within(client.query_one(sql, &[])).await?;
    if row.get::<_, &str>(0) != "on" {
        return Err(StoreError::Io("the database has fsync = off and may lose events: set fsync = on".to_owned()));
    }
    if row.get::<_, &str>(1).is_empty() && !allow_asynchronous {
        let what = "the database has no synchronous standby, so events are lost if the database is lost: set \
                    synchronous_standby_names, or allow an asynchronous database";
        return Err(StoreError::Io(what.to_owned()));
    }
    Ok(())
}

pub(super) async fn create(client: &Client, cell: &str) -> Result<(), StoreError> {
    // If the tables exist, a joining member takes no lock that would delay the leader's appends.
    if !exists(client).await? || check_head(client, cell).await?.is_some_and(|found| found.format < FORMAT) {
        within(client.batch_execute(CREATE)).await?;
    }
    let sql = "INSERT INTO chronova_head (cell, format, epoch, holder, position, hash, batch) \
               VALUES ($1, $2, 0, '', 0, $3, '') ON CONFLICT DO NOTHING";
    within(client.execute(sql, &[&cell, &FORMAT, &&EventHash::START.0[..]])).await?;
    check_head(client, cell).await.map(drop)
}

/// The end of the log of `cell`. Creates nothing.
pub(super) async fn head(client: &Client, cell: &str) -> Result<Anchor, StoreError> {
    let missing = || StoreError::Io(format!("the database holds no log of cell {cell:?}"));
    if !exists(client).await? {
        return Err(missing());
    }
    check_head(client, cell).await?.map(|found| found.head).ok_or_else(missing)
}

/// Refuses a log that has no list of members yet.
pub(super) async fn check_members(client: &Client, cell: &str) -> Result<(), StoreError> {
    let missing = || StoreError::Io(format!("the database holds no log of cell {cell:?}"));
    let found = if exists(client).await? { check_head(client, cell).await? } else { None };
    match found.ok_or_else(missing)?.format {
        FORMAT.. => Ok(()),
        found => Err(StoreError::OlderFormat { found: found.unsigned_abs(), supported: FORMAT.unsigned_abs() }),
    }
}

async fn exists(client: &Client) -> Result<bool, StoreError> {
    let row = within(client.query_one("SELECT to_regclass('chronova_head') IS NOT NULL", &[])).await?;
    Ok(row.get(0))
}

/// The format and the end of a log.
struct FoundHead {
    format: i32,
    head: Anchor,
}

/// Refuses the log of another cell, or of a newer version that this version cannot use. `None` if there is no log.
async fn check_head(client: &Client, cell: &str) -> Result<Option<FoundHead>, StoreError> {
    // Tables of an older format have no column `oldest`.
    let sql = "SELECT cell, format, position, hash, (to_jsonb(h) ->> 'oldest')::int FROM chronova_head h";
    let found = within(client.query(sql, &[])).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let (other, format) = (row.get::<_, &str>(0), row.get::<_, i32>(1));
    if other != cell {
        return Err(StoreError::Io(format!("the database holds the log of cell {other:?}, not of {cell:?}")));
    }
    if row.get::<_, Option<i32>>(4).unwrap_or(format) > FORMAT {
        return Err(StoreError::NewerFormat { found: format.unsigned_abs(), supported: FORMAT.unsigned_abs() });
    }
    Ok(Some(FoundHead { format, head: anchor(row, 2)? }))
}

/// Reads a position, and its hash from the next column.
fn anchor(row: &Row, column: usize) -> Result<Anchor, StoreError> {
    let position = position(row, column);
    let damaged =
        || StoreError::Corrupt { position: position.0, reason: "the hash of the head is not 32 bytes".to_owned() };
    Ok(Anchor { position, hash: EventHash::from_slice(row.get(column + 1)).ok_or_else(damaged)? })
}

fn position(row: &Row, column: usize) -> Position {
    Position(row.get::<_, i64>(column).unsigned_abs())
}

/// Takes the next epoch and the lease. Holders of older epochs can append no more. The present holder always succeeds.
/// Any other caller gets `None` if a switchover requests a member other than `name`, or if `from` does not name the
/// present holder's epoch. A holder without a lease (zero) is deposed at once. A holder that has ended must also have
/// no session in this database. A caller that knows only levels up to `newest` gets `None` for a log of a higher level.
///
/// The wait before work on hosts is at most `lease`, because no earlier lease lasts longer from now on. The limit
/// matters if the database's clock was once fast: an old end of a lease then lies too far in the future.
///
/// This is a write and waits for the standby. So the returned row is replicated, which a plain read cannot promise.
pub(super) async fn take_epoch(
    client: &Client,
    cell: &str,
    holder: &[u8],
    name: Option<&str>,
    from: TakenFrom<'_>,
    lease: Duration,
    newest: u16,
) -> Result<Option<HeldHead>, StoreError> {
    let sql = "UPDATE chronova_head SET epoch = epoch + 1, holder = $2, \
                   lease_until = clock_timestamp() + make_interval(secs => $4), \
                   hosts_from = CASE WHEN holder = $2 THEN hosts_from ELSE least(greatest(hosts_from, lease_until), \
                       clock_timestamp() + make_interval(secs => $4)) END, \
                   wish_until = CASE WHEN holder = $2 THEN wish_until ELSE '-infinity' END \
               WHERE cell = $1 AND level <= $7 AND (holder = $2 OR (NOT $3 \
                   AND (lease_until <= clock_timestamp() OR (holder = $6 \
                       AND NOT EXISTS (SELECT FROM pg_stat_activity \
                           WHERE application_name = 'chronova leader ' || encode($6, 'hex')))) \
                   AND (wish_until <= clock_timestamp() OR wish IS NOT DISTINCT FROM $5))) \
               RETURNING epoch, position, hash, batch, keys, CASE WHEN hosts_from > clock_timestamp() \
                   THEN extract(epoch FROM hosts_from - clock_timestamp())::float8 ELSE 0 END, level";
    let ended = match from {
        TakenFrom::Ended(holder) => Some(holder),
        TakenFrom::Free | TakenFrom::Own => None,
    };
    let own_only = from == TakenFrom::Own;
    let (seconds, newest) = (lease.as_secs_f64(), i32::from(newest));
    let values: &[&(dyn ToSql + Sync)] = &[&cell, &holder, &own_only, &seconds, &name, &ended, &newest];
    let Some(row) = within(client.query_opt(sql, values)).await? else {
        return Ok(None);
    };
    // The wait starts when the answer arrives, so it is longer by the answer's travel time. That is safe.
    let hosts_after = Duration::try_from_secs_f64(row.get(5)).unwrap_or(lease).min(lease);
    let (head, level) = (anchor(&row, 1)?, level(&row, 6));
    Ok(Some(HeldHead { epoch: row.get(0), head, batch: row.get(3), keys: row.get(4), hosts_after, level }))
}

fn level(row: &Row, column: usize) -> u16 {
    u16::try_from(row.get::<_, i32>(column)).unwrap_or(u16::MAX)
}

/// Refuses a process that knows only levels up to `newest`, if the log has a higher level.
pub(super) async fn check_level(client: &Client, cell: &str, newest: u16) -> Result<(), StoreError> {
    let found = within(client.query_opt("SELECT level FROM chronova_head WHERE cell = $1", &[&cell])).await?;
    match found.map(|row| level(&row, 0)) {
        Some(level) if level > newest => Err(StoreError::NewerLevel { level, newest }),
        _ => Ok(()),
    }
}

/// The newest level that is known to all members that count for this holder ([`COUNTED`]). `None` if no member counts.
pub(super) async fn common_level(client: &Client, holder: &[u8]) -> Result<Option<u16>, StoreError> {
    let sql = format!("SELECT min(m.level) FROM chronova_members m WHERE {COUNTED}");
    let row = within(client.query_one(sql.as_str(), &[&holder])).await?;
    Ok(row.get::<_, Option<i32>>(0).map(|common| u16::try_from(common).unwrap_or(u16::MAX)))
}

/// Raises the level of the holder's log to the newest level that is known to this process and to all members that count
/// ([`COUNTED`]). Also returns the level if the log has it already, because the answer to an earlier attempt may be
/// lost. `None` if another holder has the log.
pub(super) async fn raise_level(
    client: &Client,
    cell: &str,
    holder: &[u8],
    newest: u16,
) -> Result<Option<u16>, StoreError> {
    let sql = format!(
        "UPDATE chronova_head h SET level = greatest(h.level, least(known.level, $3)) \
         FROM (SELECT coalesce(min(m.level), $3) AS level FROM chronova_members m WHERE {COUNTED}) known \
         WHERE h.holder = $1 AND h.cell = $2 RETURNING h.level"
    );
    Ok(within(client.query_opt(sql.as_str(), &[&holder, &cell, &i32::from(newest)])).await?.map(|row| level(&row, 0)))
}

/// Notes that the holder's log has events up to `newest`, because a copy brings them.
pub(super) async fn note_level(client: &Client, cell: &str, holder: &[u8], newest: u16) -> Result<(), StoreError> {
    let sql = "UPDATE chronova_head SET level = greatest(level, $3) WHERE cell = $1 AND holder = $2";
    within(client.execute(sql, &[&cell, &holder, &i32::from(newest)])).await.map(drop)
}

/// A renewed lease.
pub(super) struct RenewedLease {
    /// The member that a switchover requests as the next leader.
    pub(super) wish: Option<String>,
}

/// Renews the lease from now on, and notes that everything up to `durable` is acknowledged. `None` if another holder
/// has the lease.
pub(super) async fn renew(
    client: &Client,
    cell: &str,
    holder: &[u8],
    lease: Duration,
    durable: Position,
) -> Result<Option<RenewedLease>, StoreError> {
    let sql = "UPDATE chronova_head SET lease_until = clock_timestamp() + make_interval(secs => $3), \
                   durable = greatest(durable, $4) WHERE cell = $1 AND holder = $2 \
               RETURNING CASE WHEN wish_until > clock_timestamp() THEN wish END";
    let values: &[&(dyn ToSql + Sync)] = &[&cell, &holder, &lease.as_secs_f64(), &signed(durable.0)];
    Ok(within(client.query_opt(sql, values)).await?.map(|row| RenewedLease { wish: row.get(0) }))
}

/// Gives the holder's log another cell name. `false` if another holder has the log.
pub(super) async fn rename(client: &Client, cell: &str, holder: &[u8], to: &str) -> Result<bool, StoreError> {
    let sql = "UPDATE chronova_head SET cell = $3 WHERE cell = $1 AND holder = $2";
    Ok(within(client.execute(sql, &[&cell, &holder, &to])).await? == 1)
}

/// Ends the lease, so that another member need not wait for its end.
pub(super) async fn release(client: &Client, cell: &str, holder: &[u8]) -> Result<(), StoreError> {
    let sql = "UPDATE chronova_head SET lease_until = '-infinity' WHERE cell = $1 AND holder = $2";
    within(client.execute(sql, &[&cell, &holder])).await.map(drop)
}

/// The id of the key file that the log needs; `None` if no encrypted event was appended yet.
pub(super) async fn ring(client: &Client, cell: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let rows = within(client.query("SELECT keys FROM chronova_head WHERE cell = $1", &[&cell])).await?;
    Ok(rows.first().and_then(|row| row.get(0)))
}

/// The name and address of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberName {
    pub name: String,
    /// `HOST:PORT` of its listener for other members.
    pub address: String,
}

/// The leader, according to the head row and the list of members.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenHead {
    pub(super) epoch: i64,
    pub(super) holder: Vec<u8>,
    pub(super) durable: Position,
    pub(super) lease_lasts: bool,
    pub(super) leader: Option<MemberName>,
    /// The level of the log.
    pub(super) level: u16,
}

pub(super) async fn look(client: &Client, cell: &str) -> Result<SeenHead, StoreError> {
    let sql = "SELECT epoch, durable, lease_until > clock_timestamp(), m.name, m.address, h.holder, h.level \
               FROM chronova_head h LEFT JOIN chronova_members m ON m.holder = h.holder WHERE cell = $1";
    let row = within(client.query_one(sql, &[&cell])).await?;
    let names: (Option<String>, Option<String>) = (row.get(3), row.get(4));
    let leader = names.0.zip(names.1).map(|(name, address)| MemberName { name, address });
    let (holder, durable, level) = (row.get(5), position(&row, 1), level(&row, 6));
    Ok(SeenHead { epoch: row.get(0), holder, durable, lease_lasts: row.get(2), leader, level })
}

/// The last acknowledged event.
pub(super) async fn durable(client: &Client, cell: &str) -> Result<Anchor, StoreError> {
    let sql = "SELECT position, hash FROM chronova_events WHERE position = \
                   (SELECT durable FROM chronova_head WHERE cell = $1)";
    let Some(row) = within(client.query_opt(sql, &[&cell])).await? else { return Ok(Anchor::START) };
    anchor(&row, 0)
}

/// Records that this member is there, how far it has followed the log, and the newest level that it knows.
pub(super) async fn announce(
    client: &Client,
    member: &MemberName,
    holder: &[u8],
    at: Position,
    newest: u16,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO chronova_members AS m (name, holder, address, version, position, level, seen, since) \
               VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), clock_timestamp()) ON CONFLICT (name) \
               DO UPDATE SET holder = excluded.holder, address = excluded.address, version = excluded.version, \
                   position = excluded.position, level = excluded.level, seen = excluded.seen, \
                   since = CASE WHEN m.holder = excluded.holder AND m.seen > clock_timestamp() - interval '10 seconds' \
                       THEN m.since ELSE excluded.since END";
    let (version, at, newest) = (env!("CARGO_PKG_VERSION"), signed(at.0), i32::from(newest));
    let values: &[&(dyn ToSql + Sync)] = &[&member.name, &holder, &member.address, &version, &at, &newest];
    within(client.execute(sql, values)).await.map(drop)
}

/// Refuses a member whose secret differs from that of the other members. The first member sets the mark of the secret.
pub(super) async fn check_secret(client: &Client, cell: &str, mark: &[u8]) -> Result<(), StoreError> {
    let sql = "UPDATE chronova_head SET secret = $2 WHERE cell = $1 AND secret IS NULL";
    within(client.execute(sql, &[&cell, &mark])).await?;
    let row = within(client.query_one("SELECT secret FROM chronova_head WHERE cell = $1", &[&cell])).await?;
    if row.get::<_, Option<&[u8]>>(0) == Some(mark) {
        return Ok(());
    }
    let what = "the other members of this log sign tokens with another key: give all members the same data_dir";
    Err(StoreError::Io(what.to_owned()))
}

/// A member, as the database knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedMember {
    pub member: MemberName,
    pub version: String,
    /// The newest level that the member knows.
    pub level: u16,
    /// How far the member has followed the log.
    pub position: Position,
    /// Seconds since the member last recorded that it is there.
    pub silent: f64,
    pub leads: bool,
}

/// The log, its leader and its members, as the database knows them.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterPicture {
    pub epoch: i64,
    pub position: Position,
    /// The acknowledged position that followers may read without asking the leader.
    pub durable: Position,
    /// Seconds until the lease ends. Nobody leads at zero.
    pub lease_left: f64,
    /// The member that a switchover requests as the next leader; `None` if no switchover is under way.
    pub wish: Option<String>,
    /// The level of the log: members that know only lower levels cannot join.
    pub level: u16,
    /// In the order of their names.
    pub members: Vec<ListedMember>,
}

pub(super) async fn picture(client: &Client, cell: &str) -> Result<ClusterPicture, StoreError> {
    let sql = "SELECT epoch, position, durable, CASE WHEN lease_until > clock_timestamp() \
                   THEN extract(epoch FROM lease_until - clock_timestamp())::float8 ELSE 0 END, \
                   CASE WHEN wish_until > clock_timestamp() THEN wish END, holder, level FROM chronova_head \
               WHERE cell = $1";
    let head = within(client.query_one(sql, &[&cell])).await?;
    let sql = "SELECT name, address, version, position, \
                   extract(epoch FROM clock_timestamp() - seen)::float8, holder, level FROM chronova_members \
               ORDER BY name";
    let (lease_left, holder) = (head.get::<_, f64>(3), head.get::<_, &[u8]>(5));
    let members = within(client.query(sql, &[])).await?;
    let listed = |row: &Row| ListedMember {
        member: MemberName { name: row.get(0), address: row.get(1) },
        version: row.get(2),
        level: level(row, 6),
        position: position(row, 3),
        silent: row.get(4),
        leads: lease_left > 0.0 && row.get::<_, &[u8]>(5) == holder,
    };
    Ok(ClusterPicture {
        epoch: head.get(0),
        position: position(&head, 1),
        durable: position(&head, 2),
        lease_left,
        wish: head.get(4),
        level: level(&head, 6),
        members: members.iter().map(listed).collect(),
    })
}

/// Asks the leader to hand over to `member`. For half a minute no other member can take the lead.
pub(super) async fn wish(client: &Client, cell: &str, member: &str) -> Result<(), StoreError> {
    let sql = "UPDATE chronova_head SET wish = $2, wish_until = clock_timestamp() + interval '30 seconds' \
               WHERE cell = $1";
    within(client.execute(sql, &[&cell, &member])).await.map(drop)
}
