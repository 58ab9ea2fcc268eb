//! An [`EventStore`] on a server that speaks EventStoreDB's protocol.
//!
//! * A [`RemoteConnection`] holds the present client of the server, and retries calls for a limited time while the
//!   server cannot be reached. The client library gives up after a few attempts, so each retry opens a new client. An
//!   append is retried with the same event ids: the server recognises the events that it already has.
//! * A **follower** task subscribes to the whole log and feeds the live end ([`Tail`]). If its subscription breaks, the
//!   task subscribes again at the same position. An append returns when its events have arrived this way, so that this
//!   process reads its own writes.
//! * A [`SnapshotFolder`] is a cache and stays on this machine. In the log, snapshots would be events.
//!
//! Streams and types that begin with `$` belong to the server and are skipped.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use eventstore::{
    AppendToStreamOptions, CurrentRevision, EventData, ExpectedRevision, ReadAllOptions, ReadStreamOptions,
    RecordedEvent, ResolvedEvent, StreamPosition, SubscribeToAllOptions, SubscriptionEvent, SubscriptionFilter,
};
use tokio::task::JoinHandle;

use super::form::{BINARY, EventLocation, EventStoreDbEvent};
use super::remote::RemoteConnection;
use super::snapshots::SnapshotFolder;
use crate::chain::Anchor;
use crate::envelope::{NewEvent, Position, Recorded, Revision, StreamId, Timestamp};
use crate::ids::EventId;
use crate::store::tail::{Subscription, Tail};
use crate::store::{
    AppendError, AppendRight, Appended, EventStore, Expected, StoreError, StreamSnapshot, check_expected,
};

/// The largest position and the largest revision: the server stores both as signed numbers.
const FAR: u64 = i64::MAX as u64;

/// A log on another server.
pub struct EventStoreDb {
    remote: Arc<RemoteConnection>,
    tail: Arc<Tail>,
    snapshots: SnapshotFolder,
    follower: JoinHandle<()>,
    this: Weak<Self>,
}

impl std::fmt::Debug for EventStoreDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStoreDb").field("head", &self.tail.head()).finish_non_exhaustive()
    }
}

/// The address of the log, and how long it may be unreachable.
#[derive(Debug, Clone)]
pub struct EventStoreDbOptions {
    /// `esdb://NAME:PASSWORD@HOST:2113?tls=true`, as EventStoreDB's clients write it.
    pub url: String,
    /// The folder for snapshots; `None`: no snapshots are stored.
    pub snapshots: Option<std::path::PathBuf>,
    /// How long a call is retried when the server is unreachable.
    pub patience: Duration,
}

impl EventStoreDb {
    /// Connects, finds the end of the log and follows it.
    pub async fn connect(options: &EventStoreDbOptions) -> Result<Arc<Self>, StoreError> {
        let remote = Arc::new(RemoteConnection::new(&options.url, options.patience)?);
        let head = head(&remote).await?;
        let tail = Tail::new(head);
        let follower = tokio::spawn(follow(Arc::clone(&remote), Arc::clone(&tail)));
        let snapshots = SnapshotFolder::new(options.snapshots.clone());
        Ok(Arc::new_cyclic(|this| Self { remote, tail, snapshots, follower, this: this.clone() }))
    }

    /// Stops following. Subscribers still get the events in memory.
    pub fn close(&self) {
        self.follower.abort();
        self.tail.close();
    }

    /// The newest event of a stream.
    async fn last(&self, stream: &StreamId) -> Result<Option<RecordedEvent>, StoreError> {
        let options = ReadStreamOptions::default().position(StreamPosition::End).backwards().max_count(1);
        let read = self.remote.retry(|client| async {
            let client = client;
            let mut found = client.read_stream(stream.as_str(), &options).await?;
            found.next().await
        });
        match read.await {
            Ok(event) => Ok(event.and_then(|resolved| resolved.event)),
            Err(eventstore::Error::ResourceNotFound) => Ok(None),
            Err(error) => Err(explain(&error)),
        }
    }

    /// The id of the event at a revision. It ties a snapshot to its log.
    async fn id_at(&self, stream: &StreamId, revision: Revision) -> Result<Option<EventId>, StoreError> {
        let Some(before) = revision.0.checked_sub(1) else { return Ok(None) };
        Ok(self.read_stream(stream, Revision(before), 1).await?.first().map(|event| event.id))
    }
}

impl Drop for EventStoreDb {
    fn drop(&mut self) {
        self.close();
    }
}

#[async_trait]
impl EventStore for EventStoreDb {
    fn append_right(&self) -> Option<AppendRight> {
        Some(AppendRight(()))
    }

    async fn append(
        &self,
        stream: &StreamId,
        expected: Expected,
        events: Vec<NewEvent>,
    ) -> Result<Appended, AppendError> {
        if events.is_empty() {
            let revision = self.last(stream).await?.map_or(Revision::NONE, |last| Revision(last.revision + 1));
            check_expected(stream, expected, revision)?;
            return Ok(Appended { revision, position: self.tail.head() });
        }
        let mut data = Vec::with_capacity(events.len());
        for new in &events {
            let form = EventStoreDbEvent::of_new(new)?;
            if form.content_type != BINARY {
                // The client re-encodes JSON, but data of other programs must not change by a byte. So such events
                // cannot be appended here.
                return Err(AppendError::Encode(
                    "events of other programs cannot be appended through this back end".to_owned(),
                ));
            }
            data.push((new.id, form));
        }
        let options = AppendToStreamOptions::default().expected_revision(match expected {
            Expected::Any => ExpectedRevision::Any,
            Expected::Exact(Revision::NONE) => ExpectedRevision::NoStream,
            Expected::Exact(revision) => ExpectedRevision::Exact((revision.0 - 1).min(FAR)),
        });
        let write = self.remote.retry(|client| async {
            let client = client;
            let events: Vec<EventData> = data.iter().map(|(id, form)| proposal(*id, form)).collect();
            client.append_to_stream(stream.as_str(), &options, events).await
        });
        match write.await {
            Ok(written) => {
                let position = Position(written.position.commit);
                self.tail.reached(position, self.remote.patience).await?;
                Ok(Appended { revision: Revision(written.next_expected_version + 1), position })
            }
            Err(eventstore::Error::WrongExpectedVersion { current, .. }) => {
                let actual = match current {
                    CurrentRevision::Current(revision) => Revision(revision + 1),
                    CurrentRevision::NoStream => Revision::NONE,
                };
                let expected = match expected {
                    Expected::Exact(revision) => revision,
                    Expected::Any => actual,
                };
                Err(AppendError::Conflict { stream: stream.clone(), expected, actual })
            }
            Err(error) => Err(explain(&error).into()),
        }
    }

    async fn read_stream(
        &self,
        stream: &StreamId,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        if limit == 0 || after.0 > FAR {
            return Ok(Vec::new());
        }
        let options = ReadStreamOptions::default()
            .position(StreamPosition::Position(after.0))
            .forwards()
            .max_count(bounded(limit));
        let read = self.remote.retry(|client| async {
            let client = client;
            let mut found = client.read_stream(stream.as_str(), &options).await?;
            let mut events = Vec::new();
            while let Some(event) = found.next().await? {
                events.push(event);
            }
            Ok(events)
        });
        match read.await {
            Ok(events) => events.into_iter().filter_map(seen).map(|event| event.map(Arc::new)).collect(),
            Err(eventstore::Error::ResourceNotFound) => Ok(Vec::new()),
            Err(error) => Err(explain(&error)),
        }
    }

    async fn read_all(&self, after: Position, limit: usize) -> Result<Vec<Arc<Recorded>>, StoreError> {
        let (mut at, mut events) = (after, Vec::new());
        while events.len() < limit && at.0 <= FAR {
            // A read begins with the event at `at`, which was already read. So it asks for one more event.
            let wanted = bounded(limit - events.len()).saturating_add(1).min(bounded(usize::MAX));
            let options = ReadAllOptions::default().position(place(at)).forwards().max_count(wanted);
            let page = self.remote.retry(|client| async {
                let client = client;
                let mut found = client.read_all(&options).await?;
                let mut page = Vec::new();
                while let Some(event) = found.next().await? {
                    page.push(event);
                }
                Ok(page)
            });
            let page = page.await.map_err(|error| explain(&error))?;
            let (full, before) = (page.len() >= wanted, at);
            for resolved in page {
                let position = Position(resolved.get_original_event().position.commit);
                if position <= before {
                    continue;
                }
                at = position;
                if let Some(event) = seen(resolved) {
                    events.push(Arc::new(event?));
                }
            }
            if !full || at == before {
                break;
            }
        }
        events.truncate(limit);
        Ok(events)
    }

    fn subscribe(&self, after: Position) -> Subscription {
        let store: Weak<dyn EventStore> = self.this.clone();
        Subscription::new(store, &self.tail, after)
    }

    fn head(&self) -> Position {
        self.tail.head()
    }

    async fn anchor(&self) -> Result<Option<Anchor>, StoreError> {
        // The server determines the order of all events, so there is no hash chain here.
        Ok(None)
    }

    async fn load_snapshot(&self, stream: &StreamId) -> Result<Option<StreamSnapshot>, StoreError> {
        let Some((snapshot, made_from)) = self.snapshots.load(stream).await else { return Ok(None) };
        let same_log = self.id_at(stream, snapshot.revision).await? == made_from;
        Ok(same_log.then_some(snapshot))
    }

    async fn save_snapshot(&self, stream: &StreamId, snapshot: StreamSnapshot) -> Result<(), StoreError> {
        let made_from = self.id_at(stream, snapshot.revision).await?;
        self.snapshots.save(stream, &snapshot, made_from).await
    }
}

fn bounded(limit: usize) -> usize {
    limit.min(usize::try_from(FAR).unwrap_or(usize::MAX))
}

fn place(at: Position) -> StreamPosition<eventstore::Position> {
    match at {
        Position::START => StreamPosition::Start,
        Position(at) => StreamPosition::Position(eventstore::Position { commit: at, prepare: at }),
    }
}

fn proposal(id: EventId, form: &EventStoreDbEvent) -> EventData {
    EventData::binary(&form.event_type, form.data.clone()).id(id.0).metadata(form.metadata.clone())
}

/// Converts an event to our terms; `None` for the server's own events.
fn seen(resolved: ResolvedEvent) -> Option<Result<Recorded, StoreError>> {
    let event = resolved.event?;
    if event.event_type.starts_with('$') || event.stream_id.starts_with('$') {
        return None;
    }
    let ticks: Option<i64> = event.metadata.get("created").and_then(|ticks| ticks.parse().ok());
    let place = EventLocation {
        position: Position(event.position.commit),
        stream: StreamId::from_stored(&event.stream_id),
        revision: Revision(event.revision + 1),
        id: EventId(event.id),
        created: Timestamp(ticks.unwrap_or_default() / 10),
    };
    let form = EventStoreDbEvent {
        event_type: event.event_type,
        content_type: event.metadata.get("content-type").cloned().unwrap_or_default(),
        metadata: event.custom_metadata,
        data: event.data,
    };
    let position = place.position.0;
    Some(form.into_recorded(place).map_err(|error| StoreError::Corrupt { position, reason: error.to_string() }))
}

/// The position of the newest event that is not the server's own.
async fn head(remote: &RemoteConnection) -> Result<Position, StoreError> {
    let options = ReadAllOptions::default().position(StreamPosition::End).backwards().max_count(bounded(usize::MAX));
    let newest = remote.retry(|client| async {
        let client = client;
        let mut found = client.read_all(&options).await?;
        while let Some(resolved) = found.next().await? {
            let position = resolved.get_original_event().position.commit;
            if seen(resolved).is_some() {
                return Ok(Position(position));
            }
        }
        Ok(Position::START)
    });
    newest.await.map_err(|error| explain(&error))
}

/// Feeds the live end as long as the store lives.
async fn follow(remote: Arc<RemoteConnection>, tail: Arc<Tail>) {
    loop {
        let filter = SubscriptionFilter::on_event_type().exclude_system_events();
        let options = SubscribeToAllOptions::default().position(place(tail.head())).filter(filter);
        let (client, generation) = remote.client();
        let mut subscription = client.subscribe_to_all(&options).await;
        loop {
            match subscription.next_subscription_event().await {
                Ok(SubscriptionEvent::EventAppeared(resolved)) => match seen(resolved) {
                    Some(Ok(event)) if event.position > tail.head() => tail.publish([Arc::new(event)]),
                    Some(Ok(_)) | None => {}
                    Some(Err(error)) => {
                        tracing::error!(%error, "the subscription to the log failed: no more events can be read");
                        tail.close();
                        return;
                    }
                },
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "the subscription to the log has broken; subscribing again");
                    break;
                }
            }
        }
        tokio::time::sleep(RemoteConnection::PAUSE).await;
        remote.renew(generation);
    }
}

fn explain(error: &eventstore::Error) -> StoreError {
    StoreError::Io(error.to_string())
}
