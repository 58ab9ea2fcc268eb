//! The events that an adoption writes, by stream, with Nova's times.
//!
//! Hosts come before servers, and groups before their members. So positions do not follow Nova's clock, but within a
//! stream times never go back.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::envelope::{Meta, NewEvent, StreamId, Timestamp};
use chronova_events::registry::Event;
use chronova_events::store::{AppendError, EventStore, Expected};
use futures::{StreamExt as _, TryStreamExt as _};

/// The parts of the log, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HistoryPart {
    Catalogue,
    Hosts,
    Providers,
    Aggregates,
    Groups,
    Quota,
    Claims,
    Servers,
}

/// The adoption appends to this many streams at the same time.
const AT_ONCE: usize = 256;
/// Events of one append.
const PER_APPEND: usize = 500;

/// The events of an adoption, by part. Within a part, the streams are in the order of their first events.
#[derive(Debug, Default)]
pub struct AdoptionHistory {
    parts: BTreeMap<HistoryPart, AdoptedStreams>,
    /// The newest time of each stream.
    newest: BTreeMap<StreamId, Timestamp>,
    /// Events that keep their order across streams. The adoption writes them last.
    ordered: Vec<(StreamId, NewEvent)>,
    events: usize,
}

#[derive(Debug, Default)]
struct AdoptedStreams {
    order: Vec<StreamId>,
    events: BTreeMap<StreamId, Vec<NewEvent>>,
}

impl AdoptionHistory {
    pub(super) fn push(
        &mut self,
        part: HistoryPart,
        stream: StreamId,
        at: Timestamp,
        meta: &Arc<Meta>,
        event: impl Into<Event>,
    ) {
        let newest = self.newest.entry(stream.clone()).or_default();
        let at = at.max(*newest);
        *newest = at;
        let streams = self.parts.entry(part).or_default();
        let order = &mut streams.order;
        let events = streams.events.entry(stream.clone()).or_insert_with(|| {
            order.push(stream);
            Vec::new()
        });
        events.push(NewEvent::new(event, at, meta));
        self.events += 1;
    }

    /// Adds an event that is written after all events of [`AdoptionHistory::push`], in the order of the calls.
    pub(super) fn push_last(&mut self, stream: StreamId, at: Timestamp, meta: &Arc<Meta>, event: impl Into<Event>) {
        let newest = self.newest.entry(stream.clone()).or_default();
        let at = at.max(*newest);
        *newest = at;
        self.ordered.push((stream, NewEvent::new(event, at, meta)));
        self.events += 1;
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events
    }

    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// Writes everything to an empty log.
    pub async fn write(self, store: &dyn EventStore) -> Result<(), AppendError> {
        for streams in self.parts.into_values() {
            let AdoptedStreams { order, mut events } = streams;
            let appends = order.into_iter().map(|stream| {
                let events = events.remove(&stream).unwrap_or_default();
                append(store, stream, events)
            });
            futures::stream::iter(appends).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        }
        for (stream, event) in self.ordered {
            store.append(&stream, Expected::Any, vec![event]).await?;
        }
        Ok(())
    }
}

async fn append(store: &dyn EventStore, stream: StreamId, events: Vec<NewEvent>) -> Result<(), AppendError> {
    let mut events = events.into_iter().peekable();
    while events.peek().is_some() {
        let some: Vec<NewEvent> = events.by_ref().take(PER_APPEND).collect();
        store.append(&stream, Expected::Any, some).await?;
    }
    Ok(())
}
