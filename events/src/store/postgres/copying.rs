//! Copies a whole log into an empty database. Positions, hashes and times do not change.
//!
//! Until the copy is complete and verified, it is stored under another cell name, so that no member serves a part of a
//! log. An interrupted copy continues at its end. The last hash proves that the existing part belongs to the same
//! chain.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::link::DatabaseLink;
use super::reading::PostgresReader;
use super::schema::TakenFrom;
use super::{EventStore, PostgresOptions, StoreError, address, schema, writer};
use crate::chain::{Anchor, Chain};
use crate::envelope::{Position, Recorded};
use crate::store::tail::Tail;

/// The largest number of events in one transaction.
const BATCH: usize = 1_024;
const BATCH_BYTES: usize = 8 << 20;
/// The lease of a copy. It lasts longer than the copy of one batch takes. When the lease ends, another copy can begin.
const LEASE: Duration = Duration::from_secs(30);
const RENEWS: Duration = Duration::from_secs(5);

/// The progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// The copy begins after this position; the earlier events were already there.
    Begins(Position),
    Copies(Position),
    Verifies(Position),
}

/// Called at each stage. It can end the copy, and a later call of [`copy`] continues it.
pub type CopyListener<'a> = &'a mut dyn FnMut(CopyStage) -> ControlFlow<()>;

/// Copies `source` to the database. Returns the end of the log.
pub async fn copy(
    options: &PostgresOptions,
    source: &dyn EventStore,
    tell: CopyListener<'_>,
) -> Result<Anchor, StoreError> {
    let hashless = || refused("the log to copy has no hashes: start `chronova serve` on it once");
    let end = source.anchor().await?.ok_or_else(hashless)?;
    let (mut target, found) = CopyTarget::open(options).await?;
    let copied = target.take_over(options, source, (found, end), tell).await;
    // If the release fails, the lease ends by itself.
    let _ = schema::release(&target.link.client, &target.cell, &target.holder).await;
    copied.map(|()| end)
}

/// The log in the database that this process has taken.
struct CopyTarget {
    link: Arc<DatabaseLink>,
    /// The present cell name of the log.
    cell: String,
    holder: Vec<u8>,
    epoch: i64,
    renewed: Instant,
}

impl CopyTarget {
    /// Takes the log in the database. Also returns its end.
    async fn open(options: &PostgresOptions) -> Result<(Self, Anchor), StoreError> {
        let link = DatabaseLink::open(&address::parse(&options.url)?).await?;
        schema::check_durability(&link.client, options.allow_asynchronous).await?;
        let mut cell = unfinished(&options.cell);
        if schema::create(&link.client, &cell).await.is_err() {
            cell.clone_from(&options.cell);
            // The first attempt fails if the database has a complete log, which has the name `options.cell`. If the
            // attempt failed for another reason, there is no such log. Then `head` fails, so nothing creates a log of
            // this name.
            schema::head(&link.client, &cell).await?;
            schema::create(&link.client, &cell).await?;
        }
        let (holder, renewed) = (Uuid::new_v4().as_bytes().to_vec(), Instant::now());
        let (from, newest) = (TakenFrom::Free, options.levels.newest());
        schema::check_level(&link.client, &cell, newest).await?;
        let taken = schema::take_epoch(&link.client, &cell, &holder, None, from, LEASE, newest).await?;
        let busy = || refused("a member leads the log in this database, or another copy is under way");
        let held = taken.ok_or_else(busy)?;
        // The source may have any event that this version knows.
        schema::note_level(&link.client, &cell, &holder, newest).await?;
        Ok((Self { link, cell, holder, epoch: held.epoch, renewed }, held.head))
    }

    async fn take_over(
        &mut self,
        options: &PostgresOptions,
        source: &dyn EventStore,
        (found, end): (Anchor, Anchor),
        tell: CopyListener<'_>,
    ) -> Result<(), StoreError> {
        if found != anchor_at(source, found.position).await? {
            return Err(refused("the database holds another log: nothing was copied"));
        }
        if found != end {
            self.rename(unfinished(&options.cell)).await?;
        }
        self.copy_rest(source, found.position, end.position, tell).await?;
        let copies =
            PostgresReader::new(address::parse(&options.url)?, source.keys().cloned(), Tail::new(end.position));
        self.verify(source, &copies, end.position, tell).await?;
        self.rename(options.cell.clone()).await
    }

    /// Renews the lease, and fails if another process has taken the log.
    async fn hold(&mut self) -> Result<(), StoreError> {
        if self.renewed.elapsed() < RENEWS {
            return Ok(());
        }
        self.renewed = Instant::now();
        let renewed = schema::renew(&self.link.client, &self.cell, &self.holder, LEASE, Position::START).await?;
        renewed.map(drop).ok_or_else(taken_away)
    }

    async fn rename(&mut self, cell: String) -> Result<(), StoreError> {
        if !schema::rename(&self.link.client, &self.cell, &self.holder, &cell).await? {
            return Err(taken_away());
        }
        self.cell = cell;
        Ok(())
    }

    async fn copy_rest(
        &mut self,
        source: &dyn EventStore,
        found: Position,
        end: Position,
        tell: CopyListener<'_>,
    ) -> Result<(), StoreError> {
        let mut at = found;
        check(tell(CopyStage::Begins(at)))?;
        while at < end {
            let limit = usize::try_from(end.0 - at.0).unwrap_or(BATCH).min(BATCH);
            let mut events = source.read_all(at, limit).await?;
            let mut bytes = 0;
            let mut fits = |event: &Arc<Recorded>| {
                bytes += event.data.len() + 256;
                bytes < BATCH_BYTES
            };
            let count = events.iter().take_while(|event| fits(event)).count().max(1);
            events.truncate(count);
            let Some(last) = events.last() else { return Err(refused("the log to copy ended early")) };
            let last = last.position;
            let written = writer::append(&self.link, &self.cell, self.epoch, at, Uuid::new_v4(), &events).await?;
            if written != events.len() as u64 {
                return Err(taken_away());
            }
            at = last;
            self.hold().await?;
            check(tell(CopyStage::Copies(at)))?;
        }
        Ok(())
    }

    /// Compares every event with its copy, and verifies the chain of the copies.
    async fn verify(
        &mut self,
        source: &dyn EventStore,
        copies: &PostgresReader,
        end: Position,
        tell: CopyListener<'_>,
    ) -> Result<(), StoreError> {
        let (mut at, mut chain) = (Position::START, Chain::after(Anchor::START.hash));
        while at < end {
            let copied = copies.read_all(at, BATCH).await?;
            let original = source.read_all(at, copied.len()).await?;
            for (copy, original) in copied.iter().zip(&original) {
                if !same(copy, original) || !chain.accepts(copy) {
                    let reason = "the copy differs from the original".to_owned();
                    return Err(StoreError::Corrupt { position: copy.position.0, reason });
                }
            }
            let Some(last) = copied.last().filter(|_| copied.len() == original.len()) else {
                return Err(StoreError::Corrupt { position: at.0, reason: "the copy ends early".to_owned() });
            };
            at = last.position;
            self.hold().await?;
            check(tell(CopyStage::Verifies(at)))?;
        }
        Ok(())
    }
}

/// The cell name of a copy until the copy is complete.
fn unfinished(cell: &str) -> String {
    format!("{cell} (unfinished copy)")
}

fn taken_away() -> StoreError {
    refused("another process took over the log in this database")
}

/// The anchor of the source at `position`; the start if the source has no event there.
async fn anchor_at(source: &dyn EventStore, position: Position) -> Result<Anchor, StoreError> {
    if position == Position::START {
        return Ok(Anchor::START);
    }
    let found =
        if position <= source.head() { source.read_all(Position(position.0 - 1), 1).await? } else { Vec::new() };
    let hash = found.first().and_then(|event| event.hash);
    Ok(hash.map_or(Anchor::START, |hash| Anchor { position, hash }))
}

fn same(copy: &Recorded, original: &Recorded) -> bool {
    let envelope = |event: &Recorded| {
        (event.position, event.stream.clone(), event.revision, event.id, event.kind.clone(), event.version, event.codec)
    };
    let rest = |event: &Recorded| (event.recorded_at, event.data.clone(), event.hash);
    envelope(copy) == envelope(original) && rest(copy) == rest(original) && copy.meta == original.meta
}

fn check(flow: ControlFlow<()>) -> Result<(), StoreError> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(refused("the copy was stopped; start it again to continue")),
    }
}

fn refused(what: &str) -> StoreError {
    StoreError::Io(what.to_owned())
}
