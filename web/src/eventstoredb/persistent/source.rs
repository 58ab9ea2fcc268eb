//! Reads the source of a group from a place on, and then live.

use std::sync::Arc;

use chronova_events::envelope::{Position, Recorded, Revision, StreamId};
use chronova_events::store::tail::Subscription;
use tonic::Status;
use uuid::Uuid;

use super::super::filter::EventMatchFilter;
use super::super::links::LinkStream;
use super::super::served::{PAGE, ServedLog};
use super::super::{show, status};
use super::records::is_record;
use super::settings::{ALL, GroupRecord};

/// The source of a group.
pub(super) enum GroupSource {
    All(Option<EventMatchFilter>),
    Stream(StreamId),
    Links(LinkStream),
}

/// The next events of a source, each with its place and the id that consumers use, and the place up to which the source
/// is read.
pub(super) struct SourcePage {
    pub(super) events: Vec<(u64, Uuid, Arc<Recorded>)>,
    pub(super) read: u64,
}

impl GroupSource {
    pub(super) fn of(record: &GroupRecord) -> Result<Self, Status> {
        if record.id.source == ALL {
            return Ok(Self::All(record.filter.as_ref().map(super::settings::FilterRecord::matcher).transpose()?));
        }
        Ok(match LinkStream::parse(&record.id.source) {
            Some(links) => Self::Links(links),
            None => Self::Stream(StreamId::from_stored(&record.id.source)),
        })
    }

    /// The place of an event that the source has.
    fn place(&self, event: &Recorded) -> u64 {
        match self {
            Self::Stream(_) => event.revision.0,
            Self::All(_) | Self::Links(_) => event.position.0,
        }
    }

    /// The id by which consumers name an event.
    pub(super) fn id(&self, event: &Recorded) -> Uuid {
        match self {
            Self::Links(links) => show::link_id(event, links.name()),
            Self::All(_) | Self::Stream(_) => event.id.0,
        }
    }

    fn has(&self, event: &Recorded) -> bool {
        match self {
            Self::All(filter) => filter.as_ref().is_none_or(|filter| filter.admits(event)) && !is_record(event),
            Self::Stream(stream) => event.stream == *stream,
            Self::Links(links) => links.has(event) && !is_record(event),
        }
    }
}

/// Reads a source.
pub(super) struct SourceReader {
    source: GroupSource,
    read: u64,
    /// `None` while there are older events to read.
    live: Option<Subscription>,
}

impl SourceReader {
    /// Begins after this place.
    pub(super) fn new(source: GroupSource, read: u64) -> Self {
        Self { source, read, live: None }
    }

    /// The next page, possibly without events. Waits for new events at the end of the log.
    pub(super) async fn next(&mut self, log: &ServedLog) -> Result<SourcePage, Status> {
        loop {
            if let Some(live) = &mut self.live {
                let batch = live.next().await.map_err(|error| status::of_store(&error))?;
                return Ok(self.page(batch));
            }
            // The position is taken before the read. So the live subscription repeats events rather than losing them.
            let head = log.store.head();
            let before = self.read;
            let (events, read) = self.older(log).await?;
            if !events.is_empty() || read > before {
                let mut page = self.page(events);
                self.read = self.read.max(read);
                page.read = self.read;
                tokio::task::yield_now().await;
                return Ok(page);
            }
            let from = match &self.source {
                GroupSource::Stream(_) => head,
                GroupSource::All(_) | GroupSource::Links(_) => Position(self.read),
            };
            self.live = Some(log.store.subscribe(from));
        }
    }

    /// The next events that the log has already, and the place up to which the source is read then.
    async fn older(&self, log: &ServedLog) -> Result<(Vec<Arc<Recorded>>, u64), Status> {
        let events = match &self.source {
            GroupSource::All(_) => log.store.read_all(Position(self.read), PAGE).await,
            GroupSource::Stream(stream) => log.store.read_stream(stream, Revision(self.read), PAGE).await,
            GroupSource::Links(links) => {
                let page = links.page(log, Position(self.read)).await?;
                return Ok((page.events, page.until.0));
            }
        };
        let events = events.map_err(|error| status::of_store(&error))?;
        let read = events.last().map_or(self.read, |last| self.source.place(last));
        Ok((events, read))
    }

    /// The events of the source in a batch of the log.
    fn page(&mut self, batch: Vec<Arc<Recorded>>) -> SourcePage {
        let mut events = Vec::new();
        for event in batch {
            let place = self.source.place(&event);
            let known = place <= self.read;
            match &self.source {
                GroupSource::Stream(stream) if event.stream != *stream => continue,
                _ if known => continue,
                _ => self.read = place,
            }
            if self.source.has(&event) {
                events.push((place, self.source.id(&event), event));
            }
        }
        SourcePage { events, read: self.read }
    }
}
