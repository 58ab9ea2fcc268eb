//! The records of persistent subscriptions in the log: definitions, checkpoints, parked events.
//!
//! The records have the streams and the types that EventStoreDB gives them. Chronova stores them as events of another
//! program (`external.recorded`), because it does not interpret them: only this folder does. No client can append to
//! these streams. `SUBJECT` is the source and the group, `$ce-instance::billing`:
//!
//! * `$persistentSubscriptionConfig`: the definitions of all groups. Each event replaces the one before.
//! * `$persistentsubscription-SUBJECT-checkpoint`: up to which place all events are settled. The newest event counts.
//! * `$persistentsubscription-SUBJECT-parked`: links to parked events.

use std::sync::Arc;

use chronova_events::envelope::{Meta, NewEvent, Recorded, Revision, StreamId};
use chronova_events::external::{ExternalBytes, ExternalEvent, ExternalRecorded};
use chronova_events::registry::NounEvent as _;
use chronova_events::store::eventstoredb::form::{BINARY, JSON};
use chronova_events::store::{AppendError, Expected};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tonic::Status;
use uuid::Uuid;

use super::super::served::ServedLog;
use super::super::{show, status};
use super::settings::{GroupRecord, PersistentGroupId};

/// The names of all streams of records begin with this text. The comparison ignores the case of letters.
const OWN: &str = "$persistentsubscription";

/// Whether the event is such a record. Persistent subscriptions skip them, because each checkpoint would otherwise be
/// an event that needs another checkpoint.
pub(super) fn is_record(event: &Recorded) -> bool {
    event.stream.as_str().get(..OWN.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN))
}

fn definitions() -> StreamId {
    StreamId::from_stored("$persistentSubscriptionConfig")
}

fn checkpoints(id: &PersistentGroupId) -> StreamId {
    StreamId::from_stored(&format!("{OWN}-{}-checkpoint", id.shown()))
}

/// The stream of the group's parked events.
pub(super) fn parked(id: &PersistentGroupId) -> StreamId {
    StreamId::from_stored(&format!("{OWN}-{}-parked", id.shown()))
}

/// The definitions of all groups.
#[derive(Debug, Default, Serialize, Deserialize)]
struct GroupList {
    groups: Vec<GroupRecord>,
}

/// The settled part of a group's source, and of its parked events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupCheckpoint {
    key: Uuid,
    /// All events of the source up to this place are acknowledged, skipped or parked.
    pub(super) settled: u64,
    /// The parked events up to this revision are replayed and settled.
    pub(super) replayed: u64,
}

impl GroupCheckpoint {
    pub(super) fn first(record: &GroupRecord) -> Self {
        Self { key: record.key, settled: record.after, replayed: record.parked_before }
    }

    pub(super) fn at(self, settled: u64, replayed: u64) -> Self {
        Self { settled, replayed, ..self }
    }
}

/// All groups, and the revision of their stream.
pub(super) async fn groups(log: &ServedLog) -> Result<(Vec<GroupRecord>, Revision), Status> {
    let revision = log.last_revision(&definitions()).await?;
    let list: GroupList = newest(log, &definitions(), revision).await?.unwrap_or_default();
    Ok((list.groups, revision))
}

/// Records the definitions of all groups. Returns the new revision of their stream.
pub(super) async fn save_groups(
    log: &ServedLog,
    groups: Vec<GroupRecord>,
    expected: Revision,
    user: &str,
) -> Result<Revision, Status> {
    let outside = outside("$PersistentConfig", JSON, encoded(&GroupList { groups }), Vec::new());
    append(log, &definitions(), Expected::Exact(expected), outside, user).await
}

/// The group's newest checkpoint. A group that has none begins at its start.
pub(super) async fn checkpoint(log: &ServedLog, record: &GroupRecord) -> Result<GroupCheckpoint, Status> {
    let stream = checkpoints(&record.id);
    let revision = log.last_revision(&stream).await?;
    let found: Option<GroupCheckpoint> = newest(log, &stream, revision).await?;
    Ok(found.filter(|found| found.key == record.key).unwrap_or(GroupCheckpoint::first(record)))
}

pub(super) async fn save_checkpoint(
    log: &ServedLog,
    record: &GroupRecord,
    checkpoint: GroupCheckpoint,
) -> Result<(), Status> {
    let outside = outside("$SubscriptionCheckpoint", JSON, encoded(&checkpoint), Vec::new());
    append(log, &checkpoints(&record.id), Expected::Any, outside, &record.owner).await.map(drop)
}

/// Parks an event. Returns the revision of the parked event.
pub(super) async fn park(
    log: &ServedLog,
    record: &GroupRecord,
    event: &Recorded,
    reason: &str,
) -> Result<Revision, Status> {
    let why = encoded(&json!({ "reason": reason, "added": log.clock.now().0 }));
    let outside = outside(show::LINK, BINARY, show::link_data(event).into_bytes(), why);
    append(log, &parked(&record.id), Expected::Any, outside, &record.owner).await
}

/// The next parked events after a revision, at most `limit`, each with the revision of its record. A record whose event
/// cannot be found has no event.
pub(super) async fn parked_after(
    log: &ServedLog,
    record: &GroupRecord,
    after: Revision,
    limit: usize,
) -> Result<Vec<(Revision, Option<Arc<Recorded>>)>, Status> {
    let page = log.store.read_stream(&parked(&record.id), after, limit).await;
    let mut found = Vec::new();
    for link in page.map_err(|error| status::of_store(&error))? {
        let event = match place(&link) {
            Some((stream, before)) => {
                let events = log.store.read_stream(&stream, before, 1).await;
                events.map_err(|error| status::of_store(&error))?.into_iter().next()
            }
            None => None,
        };
        found.push((link.revision, event));
    }
    Ok(found)
}

/// The stream of a link's event, and the revision before the event.
fn place(link: &Recorded) -> Option<(StreamId, Revision)> {
    let data = content(link)?;
    let (revision, stream) = std::str::from_utf8(&data).ok()?.split_once('@')?;
    Some((StreamId::from_stored(stream), Revision(revision.parse().ok()?)))
}

fn content(recorded: &Recorded) -> Option<bytes::Bytes> {
    let ExternalEvent::ExternalRecorded(outside) = ExternalEvent::of(recorded.event().ok()?)?;
    Some(outside.data.0.clone())
}

/// The content of the stream's event at this revision; `None` if the stream is empty.
async fn newest<T: for<'de> Deserialize<'de>>(
    log: &ServedLog,
    stream: &StreamId,
    revision: Revision,
) -> Result<Option<T>, Status> {
    let Some(before) = revision.0.checked_sub(1) else { return Ok(None) };
    let page = log.store.read_stream(stream, Revision(before), 1).await;
    let page = page.map_err(|error| status::of_store(&error))?;
    let data = page.first().and_then(|recorded| content(recorded)).unwrap_or_default();
    serde_json::from_slice(&data).map(Some).map_err(|error| {
        tracing::error!(%stream, %error, "a record of persistent subscriptions cannot be read");
        Status::data_loss("a record of persistent subscriptions cannot be read")
    })
}

fn encoded(record: &impl Serialize) -> Vec<u8> {
    // Texts and numbers can always be encoded as JSON.
    serde_json::to_vec(record).unwrap_or_default()
}

fn outside(event_type: &str, content_type: &str, data: Vec<u8>, metadata: Vec<u8>) -> ExternalRecorded {
    ExternalRecorded {
        event_type: event_type.to_owned(),
        content_type: content_type.to_owned(),
        data: ExternalBytes(data.into()),
        metadata: ExternalBytes(metadata.into()),
    }
}

async fn append(
    log: &ServedLog,
    stream: &StreamId,
    expected: Expected,
    outside: ExternalRecorded,
    user: &str,
) -> Result<Revision, Status> {
    let meta = Meta::system(&format!("eventstoredb/{user}"));
    let new = NewEvent::new(ExternalEvent::from(outside), log.clock.now(), &meta);
    match log.store.append(stream, expected, vec![new]).await {
        Ok(appended) => Ok(appended.revision),
        Err(AppendError::Store(error)) => Err(status::of_store(&error)),
        Err(error @ AppendError::Conflict { .. }) => Err(Status::aborted(error.to_string())),
        Err(error @ (AppendError::TooLarge { .. } | AppendError::Encode(_))) => {
            Err(Status::invalid_argument(error.to_string()))
        }
    }
}
