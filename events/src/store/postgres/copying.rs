//! Copies a whole log into an empty database: positions, hashes and times stay.
//!
//! The copy has an epoch and a lease, so that no member serves an unfinished one. A copy that was interrupted goes on where
//! it stopped: what is there already is a part of the same chain, which its last hash proves.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::link::DatabaseLink;
use super::reading::PostgresReader;
use super::schema::{self, EpochWhen};
use super::writer;
use super::{EventStore, PostgresOptions, StoreError};
use crate::chain::{Anchor, Chain};
use crate::envelope::{Position, Recorded};
use crate::store::tail::Tail;

/// Events of one transaction, and as many bytes at most.
const BATCH: usize = 1_024;
const BATCH_BYTES: usize = 8 << 20;
/// Longer than one batch takes.
const LEASE: Duration = Duration::from_secs(30);

/// Where a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Up to this position it was there already.
    Begins(Position),
    Copies(Position),
    Verifies(Position),
}

/// Copies `source` to the database. `tell` hears of each step, and may end the copy, which can go on later.
pub async fn copy(
    options: &PostgresOptions,
    source: &dyn EventStore,
    tell: &mut (dyn FnMut(CopyStage) -> ControlFlow<()> + Send),
) -> Result<Anchor, StoreError> {
    let end = source.anchor().await?.unwrap_or(Anchor::START);
    let holder = Uuid::new_v4().as_bytes().to_vec();
    let address = options.config(&holder)?;
    let link = DatabaseLink::open(&address).await?;
    schema::check_durability(&link.client, options.allow_asynchronous).await?;
    schema::create(&link.client, &options.cell).await?;
    let taken = schema::take_epoch(&link.client, None, &options.cell, &holder, EpochWhen::Free, LEASE).await?;
    let held = taken.ok_or_else(|| refused("a member leads the log in this database, or another copy is under way"))?;
    let copied = copy_rest(options, source, (&link, &holder, held.epoch), held.head, end, tell).await;
    let verified = match copied {
        Ok(()) => {
            let tail = Tail::new(end.position);
            let reader = PostgresReader::new(address, source.keys().cloned(), tail);
            verify(source, &reader, end, tell).await
        }
        Err(failure) => Err(failure),
    };
    // If it fails the lease ends by itself.
    let _ = schema::release(&link.client, &options.cell, &holder).await;
    verified.map(|()| end)
}

async fn copy_rest(
    options: &PostgresOptions,
    source: &dyn EventStore,
    (link, holder, epoch): (&Arc<DatabaseLink>, &[u8], i64),
    found: Anchor,
    end: Anchor,
    tell: &mut (dyn FnMut(CopyStage) -> ControlFlow<()> + Send),
) -> Result<(), StoreError> {
    if found != hash_at(source, found.position).await? {
        return Err(refused("the database holds another log: nothing was copied"));
    }
    let mut at = found.position;
    go_on(tell(CopyStage::Begins(at)))?;
    while at < end.position {
        let limit = usize::try_from(end.position.0 - at.0).unwrap_or(BATCH).min(BATCH);
        let mut events = source.read_all(at, limit).await?;
        let mut bytes = 0;
        let fits = |event: &Arc<Recorded>| {
            bytes += event.data.len() + 256;
            bytes < BATCH_BYTES
        };
        let count = events.iter().take_while(|event| fits(event)).count().max(1);
        events.truncate(count);
        let Some(last) = events.last() else { return Err(refused("the log to copy ended early")) };
        let last = last.position;
        if events.iter().any(|event| event.hash.is_none()) {
            return Err(refused("the log to copy has no hashes: start `chronova serve` on it once"));
        }
        let written = writer::append(link, &options.cell, epoch, at, Uuid::new_v4(), &events).await?;
        if written != events.len() as u64 {
            return Err(refused("somebody else took the log in this database: nothing more was copied"));
        }
        at = last;
        if schema::renew(&link.client, &options.cell, holder, LEASE, at).await?.is_none() {
            return Err(refused("somebody else took the log in this database"));
        }
        go_on(tell(CopyStage::Copies(at)))?;
    }
    // Of an empty log, or of one that was copied before.
    schema::renew(&link.client, &options.cell, holder, LEASE, at).await.map(drop)
}

/// The event at `position` of the source, or what is not one of its events.
async fn hash_at(source: &dyn EventStore, position: Position) -> Result<Anchor, StoreError> {
    if position == Position::START {
        return Ok(Anchor::START);
    }
    let found =
        if position <= source.head() { source.read_all(Position(position.0 - 1), 1).await? } else { Vec::new() };
    let hash = found.first().and_then(|event| event.hash);
    Ok(hash.map_or(Anchor::START, |hash| Anchor { position, hash }))
}

/// Compares every event with its copy, and the chain of the copies.
async fn verify(
    source: &dyn EventStore,
    copies: &PostgresReader,
    end: Anchor,
    tell: &mut (dyn FnMut(CopyStage) -> ControlFlow<()> + Send),
) -> Result<(), StoreError> {
    let (mut at, mut chain) = (Position::START, Chain::after(Anchor::START.hash));
    while at < end.position {
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
        go_on(tell(CopyStage::Verifies(at)))?;
    }
    Ok(())
}

fn same(copy: &Recorded, original: &Recorded) -> bool {
    let envelope = |event: &Recorded| {
        (event.position, event.stream.clone(), event.revision, event.id, event.kind.clone(), event.version, event.codec)
    };
    let rest = |event: &Recorded| (event.recorded_at, event.data.clone(), event.hash);
    envelope(copy) == envelope(original) && rest(copy) == rest(original) && copy.meta == original.meta
}

fn go_on(told: ControlFlow<()>) -> Result<(), StoreError> {
    match told {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(refused("the copy was ended; it goes on when it is started again")),
    }
}

fn refused(what: &str) -> StoreError {
    StoreError::Io(what.to_owned())
}
