//! Appends records of access in batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::access::{self, AccessSort, LeftOutOf};
use chronova_events::clock::Clock;
use chronova_events::envelope::{Meta, NewEvent, StreamId};
use chronova_events::store::{AppendError, EventStore, Expected, StoreError};
use futures::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use super::budget::AccessBudget;

/// How long a record waits for others. A crash loses the records of this time.
const WAIT: Duration = Duration::from_millis(500);
/// The most records of one batch.
const BATCH: usize = 1_024;
/// How often the numbers of records left out are recorded.
const COUNTED_EVERY: Duration = Duration::from_mins(1);

/// A record, and the rate that it used.
pub(super) type AccessRecord = (StreamId, NewEvent, AccessSort, LeftOutOf);

pub(super) enum Queued {
    Record(Box<AccessRecord>),
    /// A request to write all earlier records at once.
    Flush(oneshot::Sender<()>),
}

pub(super) async fn run(
    mut queued: mpsc::Receiver<Queued>,
    log: Arc<dyn EventStore>,
    budget: Arc<AccessBudget>,
    clock: Arc<dyn Clock>,
) {
    let mut count = interval(COUNTED_EVERY);
    count.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let first = tokio::select! {
            first = queued.recv() => first,
            _ = count.tick() => {
                write_left_out(&*log, &budget, &*clock).await;
                continue;
            }
        };
        let Some(first) = first else { return };
        let (batch, flush) = collect(first, &mut queued).await;
        write(&*log, &budget, &*clock, batch).await;
        if let Some(flush) = flush {
            write_left_out(&*log, &budget, &*clock).await;
            // An error means that the caller no longer waits.
            let _ = flush.send(());
        }
    }
}

/// Waits for more records after the first one.
async fn collect(
    first: Queued,
    queued: &mut mpsc::Receiver<Queued>,
) -> (Vec<AccessRecord>, Option<oneshot::Sender<()>>) {
    let until = Instant::now() + WAIT;
    let (mut batch, mut next) = (Vec::new(), Some(first));
    while let Some(one) = next {
        match one {
            Queued::Record(record) => batch.push(*record),
            Queued::Flush(done) => return (batch, Some(done)),
        }
        if batch.len() >= BATCH {
            break;
        }
        next = timeout_at(until, queued.recv()).await.ok().flatten();
    }
    (batch, None)
}

/// Makes one append for each stream. If an append fails, its records are counted as left out. If only records of one
/// kind cannot be written yet, because older members could not read them, the others are appended without them.
async fn write(log: &dyn EventStore, budget: &AccessBudget, clock: &dyn Clock, batch: Vec<AccessRecord>) {
    let mut streams: BTreeMap<StreamId, Vec<(NewEvent, AccessSort, LeftOutOf)>> = BTreeMap::new();
    for (stream, event, sort, of) in batch {
        streams.entry(stream).or_default().push((event, sort, of));
    }
    let appends = streams.into_iter().map(|(stream, mut records)| async move {
        while !records.is_empty() {
            let events = records.iter().map(|(event, ..)| event.clone()).collect();
            let appended = log.append(&stream, Expected::Any, events).await;
            let Err(error) = appended else { return };
            let is_refused = |(event, ..): &(NewEvent, AccessSort, LeftOutOf)| match &error {
                AppendError::Store(StoreError::BelowLevel { kind, .. }) => event.event.kind() == kind,
                _ => true,
            };
            let (refused, others): (Vec<_>, Vec<_>) = records.into_iter().partition(is_refused);
            tracing::warn!(%error, records = refused.len(), "records of access were not written");
            for (_, sort, of) in refused {
                budget.left_out(sort, of, clock.now());
            }
            records = others;
        }
    });
    join_all(appends).await;
}

async fn write_left_out(log: &dyn EventStore, budget: &AccessBudget, clock: &dyn Clock) {
    let Some(counts) = budget.take_left_out() else { return };
    let again = counts.clone();
    let event = NewEvent::new(access::AccessEvent::from(counts), clock.now(), &Meta::system("access-log"));
    if let Err(error) = log.append(&access::left_out_stream(), Expected::Any, vec![event]).await {
        tracing::warn!(%error, left_out = again.total, "the number of records left out was not written");
        budget.put_back(again);
    }
}
