//! Appends events. Other programs append to their own streams, Chronova's processes to Chronova's streams.

use std::sync::Arc;

use chronova_events::envelope::{Cause, Meta, NewEvent, Revision, StreamId};
use chronova_events::external::is_ours;
use chronova_events::ids::EventId;
use chronova_events::store::eventstoredb::form::{EventStoreDbEvent, MAX_NAME};
use chronova_events::store::{AppendError, Appended, Expected};
use serde::Deserialize;
use tonic::Status;
use uuid::Uuid;

use super::access::{LogRight, LogUser};
use super::served::ServedLog;
use super::status;
use super::wire::{self, ExpectedRevision, ProposedMessage};

/// The most events of one append. [`ServedLog::max_append_bytes`] bounds their size.
pub(super) const MAX_EVENTS: usize = 4_096;

/// An append that expects any revision may repeat an earlier append. The server searches this many of the stream's
/// newest events for the earlier append.
const REPEATED: u16 = 256;

/// The refusal of an append.
#[derive(Debug)]
pub(super) enum AppendRefusal {
    /// The stream's revision is not the expected revision.
    WrongVersion(Revision),
    TooLarge(usize),
    Status(Status),
}

impl From<Status> for AppendRefusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// The name of the stream in a client's message, if it is a valid name.
pub(super) fn stream_name(identifier: Option<wire::StreamIdentifier>) -> Result<String, Status> {
    let name = identifier.map(|identifier| identifier.stream_name).unwrap_or_default();
    match String::from_utf8(name.to_vec()) {
        Ok(name) if !name.is_empty() && name.len() <= MAX_NAME => Ok(name),
        _ => Err(Status::invalid_argument(format!("the name of a stream must be 1 to {MAX_NAME} bytes of UTF-8"))),
    }
}

/// Checks that `user` may append to the stream of that name.
fn permitted(user: &LogUser, name: &str) -> Result<StreamId, Status> {
    if user.right < LogRight::Write {
        return Err(Status::permission_denied("this user may only read"));
    }
    if name.starts_with('$') {
        return Err(Status::permission_denied("streams whose names begin with $ cannot be written here"));
    }
    let stream = StreamId::from_stored(name);
    if is_ours(stream.category()) && user.right < LogRight::Peer {
        return Err(Status::permission_denied(format!(
            "streams of the category {} are reserved for events of Chronova; choose another category",
            stream.category()
        )));
    }
    Ok(stream)
}

/// Performs one append.
pub(super) async fn append(
    log: &ServedLog,
    user: &LogUser,
    name: String,
    expected: &ExpectedRevision,
    proposed: Vec<ProposedMessage>,
) -> Result<Appended, AppendRefusal> {
    let stream = permitted(user, &name)?;
    let size: usize = proposed.iter().map(|message| message.data.len() + message.custom_metadata.len()).sum();
    if size > log.max_append_bytes {
        return Err(AppendRefusal::TooLarge(log.max_append_bytes));
    }
    if proposed.len() > MAX_EVENTS {
        return Err(Status::invalid_argument(format!("one append may have at most {MAX_EVENTS} events")).into());
    }
    let events =
        proposed.into_iter().map(|message| take(log, user, &stream, message)).collect::<Result<Vec<_>, Status>>()?;
    let expected = match expected {
        ExpectedRevision::Revision(revision) => Expected::Exact(Revision(revision.saturating_add(1))),
        ExpectedRevision::NoStream(_) => Expected::Exact(Revision::NONE),
        ExpectedRevision::Any(_) => Expected::Any,
        ExpectedRevision::StreamExists(_) => {
            let there = log.store.read_stream(&stream, Revision::NONE, 1).await.map_err(|e| status::of_store(&e))?;
            if there.is_empty() {
                return Err(AppendRefusal::WrongVersion(Revision::NONE));
            }
            Expected::Any
        }
    };
    if expected == Expected::Any
        && let Some(done) = done_recently(log, &stream, &events).await?
    {
        return Ok(done);
    }
    let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    match log.store.append(&stream, expected, events).await {
        Ok(appended) => Ok(appended),
        Err(AppendError::Conflict { expected, actual, .. }) => match done_at(log, &stream, expected, &ids).await? {
            Some(done) => Ok(done),
            None => Err(AppendRefusal::WrongVersion(actual)),
        },
        Err(AppendError::TooLarge { limit, .. }) => Err(AppendRefusal::TooLarge(limit)),
        Err(AppendError::Encode(reason)) => Err(Status::invalid_argument(reason).into()),
        Err(AppendError::Store(error)) => Err(status::of_store(&error).into()),
    }
}

/// Checks and converts one proposed event.
fn take(log: &ServedLog, user: &LogUser, stream: &StreamId, mut message: ProposedMessage) -> Result<NewEvent, Status> {
    let id = EventId(uuid_of(message.id).ok_or_else(|| Status::invalid_argument("an event must have a UUID"))?);
    let form = EventStoreDbEvent {
        event_type: message.metadata.remove("type").unwrap_or_default(),
        content_type: message.metadata.remove("content-type").unwrap_or_default(),
        metadata: message.custom_metadata,
        data: message.data,
    };
    let new = if is_ours(stream.category()) {
        form.into_ours(id, stream)
    } else {
        let meta = meta_of(user, &form);
        form.into_external(id, log.clock.now(), &meta)
    };
    new.map_err(|error| status::of_form(&error))
}

/// The correlation ids in JSON metadata, by EventStoreDB's convention.
#[derive(Default, Deserialize)]
struct Correlation {
    #[serde(rename = "$correlationId")]
    correlation: Option<Uuid>,
}

fn meta_of(user: &LogUser, form: &EventStoreDbEvent) -> Arc<Meta> {
    let known = serde_json::from_slice::<Correlation>(&form.metadata).unwrap_or_default().correlation;
    Arc::new(Meta {
        request_id: None,
        correlation: known.unwrap_or_else(Uuid::new_v4),
        causation: None,
        cause: Cause::System { part: format!("eventstoredb/{}", user.name) },
    })
}

pub(super) fn uuid_of(id: Option<wire::Uuid>) -> Option<Uuid> {
    #[expect(clippy::cast_sign_loss, reason = "the two halves of a UUID travel as signed numbers")]
    match id?.value? {
        wire::UuidValue::Text(text) => Uuid::parse_str(&text).ok(),
        wire::UuidValue::Structured(halves) => {
            Some(Uuid::from_u64_pair(halves.most_significant_bits as u64, halves.least_significant_bits as u64))
        }
    }
}

/// Whether the stream has exactly these events after `expected`. If so, the client missed the answer to its first
/// append, and sends the append again. As in EventStoreDB, it gets the same answer again.
async fn done_at(
    log: &ServedLog,
    stream: &StreamId,
    expected: Revision,
    ids: &[EventId],
) -> Result<Option<Appended>, AppendRefusal> {
    let there = log.store.read_stream(stream, expected, ids.len()).await.map_err(|e| status::of_store(&e))?;
    let same = !ids.is_empty() && there.iter().map(|event| event.id).eq(ids.iter().copied());
    Ok(there.last().filter(|_| same).map(|last| Appended { revision: last.revision, position: last.position }))
}

/// Whether the stream's newest events contain these events. An append that expects any revision needs this search.
async fn done_recently(
    log: &ServedLog,
    stream: &StreamId,
    events: &[NewEvent],
) -> Result<Option<Appended>, AppendRefusal> {
    let Some(first) = events.first() else { return Ok(None) };
    let last = log.last_revision(stream).await?;
    let after = Revision(last.0.saturating_sub(REPEATED.into()));
    let recent = log.store.read_stream(stream, after, REPEATED.into()).await.map_err(|e| status::of_store(&e))?;
    let Some(at) = recent.iter().position(|event| event.id == first.id) else { return Ok(None) };
    let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    done_at(log, stream, Revision(recent[at].revision.0 - 1), &ids).await
}
