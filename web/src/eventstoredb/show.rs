//! Renders events, positions and times for clients.

use chronova_events::envelope::{Position, Recorded, StreamId};
use chronova_events::store::eventstoredb::form::{BINARY, EventStoreDbEvent};
use tonic::Status;
use uuid::Uuid;

use super::served::ServedLog;
use super::wire;

/// The type of links, as in EventStoreDB.
pub(super) const LINK: &str = "$>";

/// The formats that a client requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadFormat {
    /// Whether payloads have the stored form (for peers) instead of JSON.
    pub(super) exact: bool,
    /// UUIDs as two numbers instead of as text.
    pub(super) structured: bool,
}

pub(super) fn uuid(id: Uuid, structured: bool) -> wire::Uuid {
    let value = if structured {
        let (most, least) = id.as_u64_pair();
        #[expect(clippy::cast_possible_wrap, reason = "the two halves of a UUID travel as signed numbers")]
        wire::UuidValue::Structured(wire::StructuredUuid {
            most_significant_bits: most as i64,
            least_significant_bits: least as i64,
        })
    } else {
        wire::UuidValue::Text(id.to_string())
    };
    wire::Uuid { value: Some(value) }
}

pub(super) fn stream(stream: &StreamId) -> wire::StreamIdentifier {
    wire::StreamIdentifier { stream_name: bytes::Bytes::copy_from_slice(stream.as_str().as_bytes()) }
}

/// Commit and prepare positions differ only in transactions, which this server does not support.
pub(super) fn position(at: Position) -> wire::Position {
    wire::Position { commit_position: at.0, prepare_position: at.0 }
}

pub(super) fn now(log: &ServedLog) -> wire::Timestamp {
    let now = log.clock.now();
    let nanos = i32::try_from(now.0.rem_euclid(1_000_000) * 1_000).unwrap_or_default();
    wire::Timestamp { seconds: now.seconds(), nanos }
}

pub(super) fn event(recorded: &Recorded, shown: ReadFormat) -> Result<wire::ReadEvent, Status> {
    let form =
        if shown.exact { EventStoreDbEvent::of_recorded(recorded) } else { EventStoreDbEvent::readable(recorded) };
    let form = form.map_err(|error| {
        tracing::error!(position = recorded.position.0, %error, "an event of the log cannot be shown");
        Status::data_loss(format!("the event at position {} cannot be decoded", recorded.position))
    })?;
    // Ticks of 100 nanoseconds.
    let created = recorded.recorded_at.0.saturating_mul(10).to_string();
    let metadata = [("type", form.event_type), ("content-type", form.content_type), ("created", created)];
    let at = position(recorded.position);
    let event = wire::RecordedEvent {
        id: Some(uuid(recorded.id.0, shown.structured)),
        stream_identifier: Some(stream(&recorded.stream)),
        stream_revision: recorded.revision.0.saturating_sub(1),
        prepare_position: at.prepare_position,
        commit_position: at.commit_position,
        metadata: metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        custom_metadata: form.metadata,
        data: form.data,
    };
    let position = Some(wire::EventPosition::Commit(at.commit_position));
    Ok(wire::ReadEvent { event: Some(event), link: None, position })
}

/// An event of a link stream. `resolved` clients get the event itself with the link, others the link alone.
pub(super) fn linked(
    recorded: &Recorded,
    stream: &str,
    resolved: bool,
    shown: ReadFormat,
) -> Result<wire::ReadEvent, Status> {
    let link = link(recorded, stream, shown);
    if resolved {
        return Ok(wire::ReadEvent { link: Some(link), ..event(recorded, shown)? });
    }
    let position = Some(wire::EventPosition::Commit(recorded.position.0));
    Ok(wire::ReadEvent { event: Some(link), link: None, position })
}

/// The id of a link, which is the same in every read.
pub(super) fn link_id(recorded: &Recorded, stream: &str) -> Uuid {
    Uuid::new_v5(&recorded.id.0, stream.as_bytes())
}

/// The data of a link to this event.
pub(super) fn link_data(recorded: &Recorded) -> String {
    format!("{}@{}", recorded.revision.0.saturating_sub(1), recorded.stream)
}

fn link(recorded: &Recorded, stream: &str, shown: ReadFormat) -> wire::RecordedEvent {
    let created = recorded.recorded_at.0.saturating_mul(10).to_string();
    let metadata = [("type", LINK.to_owned()), ("content-type", BINARY.to_owned()), ("created", created)];
    let at = position(recorded.position);
    wire::RecordedEvent {
        id: Some(uuid(link_id(recorded, stream), shown.structured)),
        stream_identifier: Some(wire::StreamIdentifier {
            stream_name: bytes::Bytes::copy_from_slice(stream.as_bytes()),
        }),
        stream_revision: recorded.position.0,
        prepare_position: at.prepare_position,
        commit_position: at.commit_position,
        metadata: metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        custom_metadata: bytes::Bytes::new(),
        data: link_data(recorded).into(),
    }
}
