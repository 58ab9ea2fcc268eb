//! Reads and subscriptions: of one stream, of a link stream, or of the whole log.
//!
//! Clients rely on EventStoreDB's rules about the start of a read. A forward read includes the event at its start; a
//! subscription does not. A backward read includes the event at a start revision, but not the event at a start
//! position. The server reads further events when the client has taken the earlier ones. So a slow client costs the
//! memory of one page, or of one batch of a live subscription.

use std::collections::VecDeque;
use std::sync::Arc;

use chronova_events::envelope::{Position, Recorded, Revision, StreamId};
use chronova_events::store::tail::Subscription;
use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::access::{LogRight, LogUser};
use super::append::stream_name;
use super::filter::EventMatchFilter;
use super::links::{LinkReader, LinkStream};
use super::served::{PAGE, ServedLog, ShutdownSignal};
use super::show::{self, ReadFormat};
use super::status;
use super::wire::{
    AllOption, BACKWARDS, Checkpoint, ReadContent, ReadCount, ReadEvent, ReadFilter, ReadFrom, ReadOptions, ReadResp,
    RevisionOption, Standing, StreamNotFound, SubscriptionConfirmation, UuidForm,
};

pub(super) type ReadResponses = BoxStream<'static, Result<ReadResp, Status>>;

/// Starts the read or subscription that a client requests.
pub(super) async fn read(
    log: Arc<ServedLog>,
    user: &LogUser,
    options: Option<ReadOptions>,
) -> Result<ReadResponses, Status> {
    let options = options.ok_or_else(|| Status::invalid_argument("a read must have options"))?;
    let structured = matches!(options.uuid_option.and_then(|option| option.form), Some(UuidForm::Structured(_)));
    let shown = ReadFormat { exact: user.right == LogRight::Peer, structured };
    let backwards = options.read_direction == BACKWARDS;
    let filter = match options.filter {
        Some(ReadFilter::Filter(filter)) => Some(EventMatchFilter::parse(filter)?),
        Some(ReadFilter::None(_)) | None => None,
    };
    match (options.from, options.count) {
        (None, _) | (_, None) => Err(Status::invalid_argument("a read must have a start and a count")),
        (Some(ReadFrom::Stream(_)), _) if filter.is_some() => {
            Err(Status::invalid_argument("only reads of the whole log can have a filter"))
        }
        (_, Some(ReadCount::Subscription(_))) if backwards => {
            Err(Status::invalid_argument("a subscription cannot read backwards"))
        }
        (Some(ReadFrom::Stream(from)), Some(count)) => {
            let name = stream_name(from.stream_identifier)?;
            let at = from.revision.unwrap_or(RevisionOption::Start(super::wire::Empty {}));
            if let Some(links) = LinkStream::parse(&name) {
                return read_links(log, shown, (links, options.resolve_links), &at, backwards, &count).await;
            }
            let stream = StreamId::from_stored(&name);
            match count {
                ReadCount::Count(count) => {
                    let reader = StreamReader::new(&log, stream, &at, backwards, count).await?;
                    Ok(answers(EventRead { log, shown, source: EventSource::Stream(reader), _place: None }))
                }
                ReadCount::Subscription(_) => {
                    let place = Some(log.subscription()?);
                    let follower = StreamFollower::new(&log, stream, &at).await?;
                    Ok(answers(EventRead {
                        log,
                        shown,
                        source: EventSource::StreamLive(Box::new(follower)),
                        _place: place,
                    }))
                }
            }
        }
        (Some(ReadFrom::All(from)), Some(count)) => {
            let at = from.position.unwrap_or(AllOption::Start(super::wire::Empty {}));
            match count {
                ReadCount::Count(count) => {
                    let reader = AllReader::new(&log, &at, backwards, count, filter);
                    Ok(answers(EventRead { log, shown, source: EventSource::All(reader), _place: None }))
                }
                ReadCount::Subscription(_) => {
                    let place = Some(log.subscription()?);
                    let follower = AllFollower::new(&log, &at, filter);
                    Ok(answers(EventRead {
                        log,
                        shown,
                        source: EventSource::AllLive(Box::new(follower)),
                        _place: place,
                    }))
                }
            }
        }
    }
}

/// Starts the read or subscription of a link stream. The flag says whether the client wants the events, too.
async fn read_links(
    log: Arc<ServedLog>,
    shown: ReadFormat,
    (links, resolved): (LinkStream, bool),
    at: &RevisionOption,
    backwards: bool,
    count: &ReadCount,
) -> Result<ReadResponses, Status> {
    match count {
        ReadCount::Count(count) => {
            let reader = LinkReader::new(&log, links, at, backwards, *count).await?;
            Ok(answers(EventRead { log, shown, source: EventSource::Links(reader, resolved), _place: None }))
        }
        ReadCount::Subscription(_) => {
            let place = Some(log.subscription()?);
            let follower = Box::new(LinkFollower::new(&log, links, at));
            Ok(answers(EventRead { log, shown, source: EventSource::LinksLive(follower, resolved), _place: place }))
        }
    }
}

/// One item of the answer to a read.
enum ReadItem {
    Event(Arc<Recorded>),
    /// A link to this event.
    Link(Arc<Recorded>),
    Other(ReadContent),
}

struct EventRead {
    log: Arc<ServedLog>,
    shown: ReadFormat,
    source: EventSource,
    /// The counted slot of a subscription; `None` for a read, which ends by itself.
    _place: Option<OwnedSemaphorePermit>,
}

enum EventSource {
    Stream(StreamReader),
    All(AllReader),
    /// The flag of a link stream says whether the client wants the events, too.
    Links(LinkReader, bool),
    StreamLive(Box<StreamFollower>),
    AllLive(Box<AllFollower>),
    LinksLive(Box<LinkFollower>, bool),
}

fn answers(reading: EventRead) -> ReadResponses {
    let state = (reading, VecDeque::new());
    stream::try_unfold(state, |(mut reading, mut page)| async move {
        loop {
            if let Some(item) = page.pop_front() {
                let answer = match item {
                    ReadItem::Event(event) => ReadContent::Event(show::event(&event, reading.shown)?),
                    ReadItem::Link(event) => ReadContent::Event(reading.link(&event)?),
                    ReadItem::Other(content) => content,
                };
                return Ok(Some((ReadResp { content: Some(answer) }, (reading, page))));
            }
            match reading.source.next(&reading.log).await? {
                Some(items) => page.extend(items),
                None => return Ok(None),
            }
        }
    })
    .boxed()
}

impl EventRead {
    fn link(&self, event: &Recorded) -> Result<ReadEvent, Status> {
        let (name, resolved) = match &self.source {
            EventSource::Links(reader, resolved) => (reader.links.name(), *resolved),
            EventSource::LinksLive(follower, resolved) => (follower.links.name(), *resolved),
            _ => return show::event(event, self.shown),
        };
        show::linked(event, name, resolved, self.shown)
    }
}

impl EventSource {
    /// The next items, possibly an empty list; `None` at the end.
    async fn next(&mut self, log: &ServedLog) -> Result<Option<Vec<ReadItem>>, Status> {
        match self {
            Self::Stream(reader) => reader.next(log).await,
            Self::All(reader) => reader.next(log).await,
            Self::Links(reader, _) => {
                if reader.ends_as_missing() {
                    return Ok(Some(vec![not_found(&StreamId::from_stored(reader.links.name()))]));
                }
                Ok(reader.next(log).await?.map(|page| page.into_iter().map(ReadItem::Link).collect()))
            }
            Self::StreamLive(follower) => follower.next(log).await.map(Some),
            Self::AllLive(follower) => follower.next(log).await.map(Some),
            Self::LinksLive(follower, _) => follower.next(log).await.map(Some),
        }
    }
}

async fn stream_page(
    log: &ServedLog,
    stream: &StreamId,
    after: Revision,
    limit: usize,
) -> Result<Vec<Arc<Recorded>>, Status> {
    log.store.read_stream(stream, after, limit).await.map_err(|error| status::of_store(&error))
}

async fn all_page(log: &ServedLog, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, Status> {
    log.store.read_all(after, limit).await.map_err(|error| status::of_store(&error))
}

/// The number of events to read: those left, at most a page.
fn at_most(left: u64) -> usize {
    usize::try_from(left).unwrap_or(PAGE).min(PAGE)
}

// ------------------------------------------------------------------------------------------------------- one stream

struct StreamReader {
    stream: StreamId,
    /// A forward read continues after this revision. A backward read continues with this revision itself.
    at: Revision,
    backwards: bool,
    left: u64,
    found: bool,
}

impl StreamReader {
    async fn new(
        log: &ServedLog,
        stream: StreamId,
        at: &RevisionOption,
        backwards: bool,
        left: u64,
    ) -> Result<Self, Status> {
        let found = !stream_page(log, &stream, Revision::NONE, 1).await?.is_empty();
        let last = if found && (backwards || matches!(at, RevisionOption::End(_))) {
            log.last_revision(&stream).await?
        } else {
            Revision::NONE
        };
        let at = match (at, backwards) {
            (RevisionOption::Revision(revision), false) => Revision(*revision),
            (RevisionOption::Revision(revision), true) => last.min(Revision(revision.saturating_add(1))),
            (RevisionOption::Start(_), false) => Revision::NONE,
            (RevisionOption::Start(_), true) => last.min(Revision(1)),
            (RevisionOption::End(_), _) => last,
        };
        Ok(Self { stream, at, backwards, left, found })
    }

    async fn next(&mut self, log: &ServedLog) -> Result<Option<Vec<ReadItem>>, Status> {
        if !self.found {
            self.found = true;
            self.left = 0;
            return Ok(Some(vec![not_found(&self.stream)]));
        }
        let limit = at_most(self.left);
        if limit == 0 || self.backwards && self.at == Revision::NONE {
            return Ok(None);
        }
        let page = if self.backwards {
            let after = Revision(self.at.0.saturating_sub(limit as u64));
            let count = usize::try_from(self.at.0 - after.0).unwrap_or(limit);
            let mut page = stream_page(log, &self.stream, after, count).await?;
            page.reverse();
            self.at = after;
            page
        } else {
            let page = stream_page(log, &self.stream, self.at, limit).await?;
            self.at = page.last().map_or(self.at, |last| last.revision);
            page
        };
        self.left -= page.len() as u64;
        Ok((!page.is_empty()).then(|| page.into_iter().map(ReadItem::Event).collect()))
    }
}

struct StreamFollower {
    stream: StreamId,
    after: Revision,
    /// Subscribed before the catch-up read, so that no event is missed. Events that the subscription repeats are
    /// recognized by their revision.
    live: Subscription,
    phase: ReadPhase,
    ending: ShutdownSignal,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadPhase {
    Confirm,
    CatchUp,
    Live,
}

impl StreamFollower {
    async fn new(log: &ServedLog, stream: StreamId, at: &RevisionOption) -> Result<Self, Status> {
        let live = log.store.subscribe(log.store.head());
        let after = match at {
            RevisionOption::Revision(revision) => Revision(revision.saturating_add(1)),
            RevisionOption::Start(_) => Revision::NONE,
            RevisionOption::End(_) => log.last_revision(&stream).await?,
        };
        Ok(Self { stream, after, live, phase: ReadPhase::Confirm, ending: log.ending() })
    }

    async fn next(&mut self, log: &ServedLog) -> Result<Vec<ReadItem>, Status> {
        match self.phase {
            ReadPhase::Confirm => {
                self.phase = ReadPhase::CatchUp;
                Ok(vec![confirmation()])
            }
            ReadPhase::CatchUp => {
                let page = stream_page(log, &self.stream, self.after, PAGE).await?;
                if let Some(last) = page.last() {
                    self.after = last.revision;
                    return Ok(page.into_iter().map(ReadItem::Event).collect());
                }
                self.phase = ReadPhase::Live;
                let stream_revision = self.after.0.checked_sub(1);
                let standing = Standing { timestamp: Some(show::now(log)), stream_revision, position: None };
                Ok(vec![ReadItem::Other(ReadContent::CaughtUp(standing))])
            }
            ReadPhase::Live => {
                let batch = newest(&mut self.live, &mut self.ending).await?;
                let (stream, after) = (&self.stream, &mut self.after);
                let mut items = Vec::new();
                for event in batch {
                    if event.stream == *stream && event.revision > *after {
                        *after = event.revision;
                        items.push(ReadItem::Event(event));
                    }
                }
                Ok(items)
            }
        }
    }
}

fn not_found(stream: &StreamId) -> ReadItem {
    let stream_identifier = Some(show::stream(stream));
    ReadItem::Other(ReadContent::StreamNotFound(StreamNotFound { stream_identifier }))
}

fn confirmation() -> ReadItem {
    let subscription_id = uuid::Uuid::new_v4().to_string();
    ReadItem::Other(ReadContent::Confirmation(SubscriptionConfirmation { subscription_id }))
}

/// Waits for the next events. If the server stops meanwhile, returns an error status, because clients do not expect a
/// subscription to end without one.
async fn newest(live: &mut Subscription, ending: &mut ShutdownSignal) -> Result<Vec<Arc<Recorded>>, Status> {
    tokio::select! {
        batch = live.next() => batch.map_err(|error| status::of_store(&error)),
        () = ending.wait() => Err(status::ending()),
    }
}

// ------------------------------------------------------------------------------------------------------ link streams

struct LinkFollower {
    links: LinkStream,
    at: Position,
    live: Subscription,
    phase: ReadPhase,
    ending: ShutdownSignal,
}

impl LinkFollower {
    fn new(log: &ServedLog, links: LinkStream, at: &RevisionOption) -> Self {
        let at = match at {
            RevisionOption::Revision(revision) => Position(*revision),
            RevisionOption::Start(_) => Position::START,
            RevisionOption::End(_) => log.store.head(),
        };
        Self { links, at, live: log.store.subscribe(at), phase: ReadPhase::Confirm, ending: log.ending() }
    }

    async fn next(&mut self, log: &ServedLog) -> Result<Vec<ReadItem>, Status> {
        match self.phase {
            ReadPhase::Confirm => {
                self.phase = ReadPhase::CatchUp;
                Ok(vec![confirmation()])
            }
            ReadPhase::CatchUp => {
                let page = self.links.page(log, self.at).await?;
                if page.until > self.at {
                    self.at = page.until;
                    tokio::task::yield_now().await;
                    return Ok(page.events.into_iter().map(ReadItem::Link).collect());
                }
                self.phase = ReadPhase::Live;
                self.live = log.store.subscribe(self.at);
                let stream_revision = (self.at != Position::START).then_some(self.at.0);
                let standing = Standing { timestamp: Some(show::now(log)), stream_revision, position: None };
                Ok(vec![ReadItem::Other(ReadContent::CaughtUp(standing))])
            }
            ReadPhase::Live => {
                let mut batch = newest(&mut self.live, &mut self.ending).await?;
                batch.retain(|event| self.links.has(event));
                Ok(batch.into_iter().map(ReadItem::Link).collect())
            }
        }
    }
}

// ------------------------------------------------------------------------------------------------------ the whole log

struct AllReader {
    /// A forward read continues after this position. A backward read continues with the last event at or before this
    /// position.
    at: Position,
    backwards: bool,
    left: u64,
    filter: Option<EventMatchFilter>,
}

impl AllReader {
    fn new(log: &ServedLog, at: &AllOption, backwards: bool, left: u64, filter: Option<EventMatchFilter>) -> Self {
        let head = log.store.head();
        let at = match (at, backwards) {
            (AllOption::Position(at), _) => Position(at.commit_position.saturating_sub(1)),
            (AllOption::Start(_), _) => Position::START,
            (AllOption::End(_), _) => head,
        };
        Self { at: if backwards { at.min(head) } else { at }, backwards, left, filter }
    }

    async fn next(&mut self, log: &ServedLog) -> Result<Option<Vec<ReadItem>>, Status> {
        if self.left == 0 || self.backwards && self.at == Position::START {
            return Ok(None);
        }
        let page = if self.backwards {
            // Positions are unique, so a window of `PAGE` positions has at most `PAGE` events.
            let after = Position(self.at.0.saturating_sub(PAGE as u64));
            let mut page = all_page(log, after, PAGE).await?;
            page.retain(|event| event.position <= self.at);
            page.reverse();
            self.at = after;
            page
        } else {
            let page = all_page(log, self.at, PAGE).await?;
            let Some(last) = page.last() else { return Ok(None) };
            self.at = last.position;
            page
        };
        let admitted = page.into_iter().filter(|event| self.filter.as_ref().is_none_or(|filter| filter.admits(event)));
        let items: Vec<ReadItem> = admitted.take(at_most(self.left)).map(ReadItem::Event).collect();
        self.left -= items.len() as u64;
        // A filter may match no event of many pages, so other tasks get a turn after each page.
        tokio::task::yield_now().await;
        Ok(Some(items))
    }
}

struct AllFollower {
    at: Position,
    live: Subscription,
    phase: ReadPhase,
    filter: Option<EventMatchFilter>,
    /// The number of events since the last checkpoint.
    silent: u64,
    ending: ShutdownSignal,
}

impl AllFollower {
    fn new(log: &ServedLog, at: &AllOption, filter: Option<EventMatchFilter>) -> Self {
        let at = match at {
            AllOption::Position(at) => Position(at.commit_position),
            AllOption::Start(_) => Position::START,
            AllOption::End(_) => log.store.head(),
        };
        let live = log.store.subscribe(at);
        Self { at, live, phase: ReadPhase::Confirm, filter, silent: 0, ending: log.ending() }
    }

    async fn next(&mut self, log: &ServedLog) -> Result<Vec<ReadItem>, Status> {
        match self.phase {
            ReadPhase::Confirm => {
                self.phase = ReadPhase::CatchUp;
                Ok(vec![confirmation()])
            }
            ReadPhase::CatchUp => {
                let page = all_page(log, self.at, PAGE).await?;
                if !page.is_empty() {
                    return Ok(self.sift(page));
                }
                self.phase = ReadPhase::Live;
                self.live = log.store.subscribe(self.at);
                let standing = self.standing(log);
                Ok(vec![ReadItem::Other(ReadContent::CaughtUp(standing))])
            }
            ReadPhase::Live => {
                let batch = newest(&mut self.live, &mut self.ending).await?;
                // A batch of many pages means that the client cannot keep up with the log.
                if batch.len() > PAGE * 8 {
                    self.phase = ReadPhase::CatchUp;
                    let mut items = vec![ReadItem::Other(ReadContent::FellBehind(self.standing(log)))];
                    items.extend(self.sift(batch));
                    return Ok(items);
                }
                Ok(self.sift(batch))
            }
        }
    }

    fn standing(&self, log: &ServedLog) -> Standing {
        let position = (self.at != Position::START).then(|| show::position(self.at));
        Standing { timestamp: Some(show::now(log)), stream_revision: None, position }
    }

    /// Passes the events that the filter matches, and adds checkpoints.
    fn sift(&mut self, batch: Vec<Arc<Recorded>>) -> Vec<ReadItem> {
        let mut items = Vec::new();
        for event in batch {
            self.at = event.position;
            self.silent += 1;
            let Some(filter) = &self.filter else {
                items.push(ReadItem::Event(event));
                continue;
            };
            if filter.admits(&event) {
                items.push(ReadItem::Event(event));
            }
            if self.silent >= filter.checkpoint_every {
                self.silent = 0;
                let super::wire::Position { commit_position, prepare_position } = show::position(self.at);
                items.push(ReadItem::Other(ReadContent::Checkpoint(Checkpoint { commit_position, prepare_position })));
            }
        }
        items
    }
}
