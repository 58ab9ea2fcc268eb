//! Maps one event to and from EventStoreDB's terms.
//!
//! For Chronova's events the type is the kind (`instance.build_requested`), and the data is the payload in our codec
//! (`application/octet-stream`). The custom metadata is a JSON object with the rest of the envelope, with
//! EventStoreDB's names for correlation and causation. [`EventStoreDbEvent::readable`] has the payload as JSON instead,
//! for people. Events of other programs are unchanged, byte for byte.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::codec::{BINCODE_2, MAX_PAYLOAD, SEALED};
use crate::envelope::{Cause, Meta, NewEvent, Position, Recorded, RequestSource, Revision, StreamId, Timestamp};
use crate::external::{ExternalBytes, ExternalEvent, ExternalRecorded, is_ours};
use crate::ids::{EventId, ProcessId, ProjectId, RequestId, UserId};
use crate::registry::{DecodeError, Event, NounEvent};
use crate::store::AppendError;

pub const JSON: &str = "application/json";
pub const BINARY: &str = "application/octet-stream";

/// The largest length in bytes of a stream name or event type from outside.
pub const MAX_NAME: usize = 255;

/// Why an event is not valid in its stream.
#[derive(Debug, Error)]
pub enum EventStoreDbEventError {
    #[error("`{0}` is not an event kind of the streams `{1}-...`")]
    OtherNoun(String, String),
    #[error("{kind} version {found} is not the version {expected} that is written here")]
    OtherVersion { kind: String, found: u16, expected: u16 },
    #[error("the metadata is not that of a Chronova event: {0}")]
    Metadata(String),
    #[error("the event cannot be decoded")]
    Payload(#[from] DecodeError),
    #[error("the event's type is empty, begins with $, or is longer than {MAX_NAME} bytes")]
    Name,
    #[error("the content type `{0}` is neither {JSON} nor {BINARY}")]
    ContentType(String),
    #[error("an event of {size} bytes exceeds the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
}

/// An event as EventStoreDB's protocol carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventStoreDbEvent {
    pub event_type: String,
    pub content_type: String,
    pub metadata: Bytes,
    pub data: Bytes,
}

/// The envelope of Chronova's own events, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct JsonEnvelope {
    #[serde(rename = "$correlationId")]
    correlation: Uuid,
    #[serde(rename = "$causationId", default, skip_serializing_if = "Option::is_none")]
    causation: Option<EventId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<RequestId>,
    cause: MetadataCause,
    /// Microseconds since 1970-01-01T00:00:00Z.
    recorded_at: i64,
    version: u16,
    codec: u8,
    /// The event's hash in the chain, for clients that store it; Chronova does not read it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

/// [`Cause`] in the form of the JSON metadata.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MetadataCause {
    User {
        user: UserId,
        project: Option<ProjectId>,
        roles: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<RequestSource>,
    },
    Process(ProcessId),
    System(String),
}

impl From<&Cause> for MetadataCause {
    fn from(cause: &Cause) -> Self {
        match cause.clone() {
            Cause::User { user, project, roles, source } => {
                Self::User { user, project, roles, source: source.as_deref().cloned() }
            }
            Cause::Process { process } => Self::Process(process),
            Cause::System { part } => Self::System(part),
        }
    }
}

impl From<MetadataCause> for Cause {
    fn from(who: MetadataCause) -> Self {
        match who {
            MetadataCause::User { user, project, roles, source } => {
                Self::User { user, project, roles, source: source.map(Arc::new) }
            }
            MetadataCause::Process(process) => Self::Process { process },
            MetadataCause::System(part) => Self::System { part },
        }
    }
}

impl JsonEnvelope {
    fn new(meta: &Meta, recorded_at: Timestamp, version: u16, codec: u8) -> Self {
        Self {
            correlation: meta.correlation,
            causation: meta.causation,
            request_id: meta.request_id.clone(),
            cause: MetadataCause::from(&meta.cause),
            recorded_at: recorded_at.0,
            version,
            codec,
            hash: None,
        }
    }

    fn to_json(&self) -> Bytes {
        // Texts and numbers can always be encoded as JSON.
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    fn into_meta(self) -> Meta {
        let Self { request_id, correlation, causation, cause, .. } = self;
        Meta { request_id, correlation, causation, cause: cause.into() }
    }
}

impl EventStoreDbEvent {
    /// An event about to be appended.
    pub fn of_new(new: &NewEvent) -> Result<Self, AppendError> {
        if let Some(ExternalEvent::ExternalRecorded(outside)) = ExternalEvent::of(&new.event) {
            return Ok(Self::of_external(outside));
        }
        let data = clear(&new.event)?;
        if data.len() > MAX_PAYLOAD {
            return Err(AppendError::TooLarge { size: data.len(), limit: MAX_PAYLOAD });
        }
        let envelope = JsonEnvelope::new(&new.meta, new.recorded_at, new.event.version(), BINCODE_2);
        Ok(Self::ours(new.event.kind(), &envelope, data))
    }

    /// An event of the log, as stored. An event with sealed personal fields is an exception: the reader has no keys
    /// (see `docs/eventstoredb.md`), so this function unseals the fields and encodes the event in its newest version.
    pub fn of_recorded(recorded: &Recorded) -> Result<Self, DecodeError> {
        if let Some(outside) = external(recorded)? {
            return Ok(Self::of_external(&outside));
        }
        let hash = recorded.hash.map(|hash| hash.to_string());
        if recorded.codec == SEALED {
            let event = recorded.event()?;
            let mut envelope = JsonEnvelope::new(&recorded.meta, recorded.recorded_at, event.version(), BINCODE_2);
            envelope.hash = hash;
            let damaged =
                |source| DecodeError::Damaged { kind: recorded.kind.to_string(), version: event.version(), source };
            return Ok(Self::ours(&recorded.kind, &envelope, event.encode().map_err(damaged)?.into()));
        }
        let mut envelope = JsonEnvelope::new(&recorded.meta, recorded.recorded_at, recorded.version, recorded.codec);
        envelope.hash = hash;
        Ok(Self::ours(&recorded.kind, &envelope, recorded.data.clone()))
    }

    /// An event of the log for people, with the payload as JSON.
    pub fn readable(recorded: &Recorded) -> Result<Self, DecodeError> {
        let form = Self::of_recorded(recorded)?;
        if &*recorded.kind == OUTSIDE {
            return Ok(form);
        }
        let data = recorded.event()?.json().to_string().into();
        Ok(Self { content_type: JSON.to_owned(), data, ..form })
    }

    fn ours(kind: &str, envelope: &JsonEnvelope, data: Bytes) -> Self {
        let (event_type, content_type) = (kind.to_owned(), BINARY.to_owned());
        Self { event_type, content_type, metadata: envelope.to_json(), data }
    }

    fn of_external(outside: &ExternalRecorded) -> Self {
        Self {
            event_type: outside.event_type.clone(),
            content_type: outside.content_type.clone(),
            metadata: outside.metadata.0.clone(),
            data: outside.data.0.clone(),
        }
    }

    /// Converts a peer's event for one of our streams. It must be complete, of a known kind in its newest version, and
    /// in the right stream.
    pub fn into_ours(self, id: EventId, stream: &StreamId) -> Result<NewEvent, EventStoreDbEventError> {
        let noun = self.event_type.split_once('.').map_or("", |(noun, _)| noun);
        if noun != stream.category() || !is_ours(noun) {
            return Err(EventStoreDbEventError::OtherNoun(self.event_type, stream.category().to_owned()));
        }
        check_size(self.data.len())?;
        let envelope = self.envelope()?;
        let event = Event::decode(&self.event_type, envelope.version, envelope.codec, &self.data)?;
        if event.version() != envelope.version {
            let (found, expected) = (envelope.version, event.version());
            return Err(EventStoreDbEventError::OtherVersion { kind: self.event_type, found, expected });
        }
        let recorded_at = Timestamp(envelope.recorded_at);
        Ok(NewEvent { id, event: Arc::new(event), recorded_at, meta: Arc::new(envelope.into_meta()) })
    }

    /// Converts an event of another program. It is recorded at `now`, with `meta`.
    pub fn into_external(
        self,
        id: EventId,
        now: Timestamp,
        meta: &Arc<Meta>,
    ) -> Result<NewEvent, EventStoreDbEventError> {
        if self.event_type.is_empty() || self.event_type.len() > MAX_NAME || self.event_type.starts_with('$') {
            return Err(EventStoreDbEventError::Name);
        }
        if ![JSON, BINARY].contains(&self.content_type.as_str()) {
            return Err(EventStoreDbEventError::ContentType(self.content_type));
        }
        // The names and lengths that are encoded with the content need space, too.
        check_size(self.data.len() + self.metadata.len() + 2 * MAX_NAME)?;
        let event = Event::from(ExternalEvent::from(self.outside()));
        Ok(NewEvent { id, event: Arc::new(event), recorded_at: now, meta: Arc::clone(meta) })
    }

    fn outside(self) -> ExternalRecorded {
        let Self { event_type, content_type, metadata, data } = self;
        ExternalRecorded { event_type, content_type, data: ExternalBytes(data), metadata: ExternalBytes(metadata) }
    }

    fn envelope(&self) -> Result<JsonEnvelope, EventStoreDbEventError> {
        serde_json::from_slice(&self.metadata).map_err(|error| EventStoreDbEventError::Metadata(error.to_string()))
    }

    /// Converts the event at `place` of a log on another server. Events outside our streams are not interpreted.
    pub fn into_recorded(self, place: EventLocation) -> Result<Recorded, EventStoreDbEventError> {
        let EventLocation { position, stream, revision, id, created } = place;
        if is_ours(stream.category()) {
            let envelope = self.envelope()?;
            return Ok(Recorded {
                position,
                stream,
                revision,
                id,
                kind: self.event_type.into(),
                version: envelope.version,
                codec: envelope.codec,
                recorded_at: Timestamp(envelope.recorded_at),
                meta: Arc::new(envelope.into_meta()),
                data: self.data,
                hash: None,
                keys: None,
                decoded: OnceLock::new(),
            });
        }
        let event = ExternalEvent::from(self.outside());
        let data = event.encode().map_err(|error| EventStoreDbEventError::Metadata(error.to_string()))?;
        let meta = Meta {
            request_id: None,
            correlation: id.0,
            causation: None,
            cause: Cause::System { part: "eventstoredb".to_owned() },
        };
        Ok(Recorded {
            position,
            stream,
            revision,
            id,
            kind: OUTSIDE.into(),
            version: event.version(),
            codec: BINCODE_2,
            recorded_at: created,
            meta: Arc::new(meta),
            data: data.into(),
            hash: None,
            keys: None,
            decoded: OnceLock::from(Arc::new(Event::from(event))),
        })
    }
}

fn clear(event: &Event) -> Result<Bytes, AppendError> {
    event.encode().map(Bytes::from).map_err(|error| AppendError::Encode(error.to_string()))
}

/// The place of an event in a log, in our terms.
#[derive(Debug, Clone)]
pub struct EventLocation {
    pub position: Position,
    pub stream: StreamId,
    pub revision: Revision,
    pub id: EventId,
    pub created: Timestamp,
}

/// The kind of all events of other programs. Their own type is in the payload.
pub const OUTSIDE: &str = "external.recorded";

fn external(recorded: &Recorded) -> Result<Option<ExternalRecorded>, DecodeError> {
    if &*recorded.kind != OUTSIDE {
        return Ok(None);
    }
    let event = ExternalEvent::of(recorded.event()?);
    Ok(event.map(|ExternalEvent::ExternalRecorded(outside)| outside.clone()))
}

fn check_size(size: usize) -> Result<(), EventStoreDbEventError> {
    if size > MAX_PAYLOAD { Err(EventStoreDbEventError::TooLarge { size, limit: MAX_PAYLOAD }) } else { Ok(()) }
}

/// The type that clients' filters match. For events of other programs it is their own type.
pub fn event_type(recorded: &Recorded) -> String {
    match external(recorded) {
        Ok(Some(outside)) => outside.event_type,
        Ok(None) | Err(_) => recorded.kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::store::conformance::event;

    fn place(stream: StreamId) -> EventLocation {
        let id = EventId(Uuid::nil());
        EventLocation { position: Position(7), stream, revision: Revision(3), id, created: Timestamp(5) }
    }

    #[test]
    fn our_events_round_trip_only_in_their_own_streams() {
        let new = event("a step");
        let form = EventStoreDbEvent::of_new(&new).unwrap();
        assert_eq!((form.event_type.as_str(), form.content_type.as_str()), ("process.step_undone", BINARY));
        let (there, elsewhere) = (StreamId::new("process", "x"), StreamId::new("instance", "x"));
        let back = form.clone().into_ours(new.id, &there).unwrap();
        assert_eq!(
            (back.event, back.meta, back.recorded_at),
            (Arc::clone(&new.event), new.meta.clone(), new.recorded_at)
        );
        assert!(matches!(form.clone().into_ours(new.id, &elsewhere), Err(EventStoreDbEventError::OtherNoun(..))));
        let read = form.clone().into_recorded(place(there)).unwrap();
        assert_eq!((read.event().unwrap(), &read.meta), (&new.event, &new.meta));
        assert_eq!(EventStoreDbEvent::of_recorded(&read).unwrap(), form);
        let readable = EventStoreDbEvent::readable(&read).unwrap();
        assert_eq!(readable.data, r#"{"step":"a step"}"#);
        assert_eq!((readable.content_type.as_str(), &readable.metadata), (JSON, &form.metadata));
    }

    #[test]
    fn an_event_that_does_not_decode_is_refused() {
        let (new, stream) = (event("x"), StreamId::new("process", "x"));
        let form = EventStoreDbEvent::of_new(&new).unwrap();
        let broken = EventStoreDbEvent { data: Bytes::from_static(b"\xff\xff"), ..form.clone() };
        assert!(matches!(broken.into_ours(new.id, &stream), Err(EventStoreDbEventError::Payload(_))));
        let unknown = EventStoreDbEvent { event_type: "process.dreamt".to_owned(), ..form.clone() };
        assert!(matches!(unknown.into_ours(new.id, &stream), Err(EventStoreDbEventError::Payload(_))));
        let bare = EventStoreDbEvent { metadata: Bytes::from_static(b"{}"), ..form };
        assert!(matches!(bare.into_ours(new.id, &stream), Err(EventStoreDbEventError::Metadata(_))));
    }

    #[test]
    fn events_of_other_programs_are_kept_byte_for_byte() {
        let theirs = EventStoreDbEvent {
            // An event of another program keeps its type, even if the type equals one of our kinds.
            event_type: "process.step_undone".to_owned(),
            content_type: JSON.to_owned(),
            metadata: Bytes::from_static(&[0, 255]),
            data: Bytes::from_static(b"{}"),
        };
        let meta = Meta::system("test");
        let new = theirs.clone().into_external(EventId(Uuid::nil()), Timestamp(1), &meta).unwrap();
        assert_eq!(new.event.kind(), OUTSIDE);
        assert_eq!(EventStoreDbEvent::of_new(&new).unwrap(), theirs);
        let read = theirs.clone().into_recorded(place(StreamId::new("orders", "7"))).unwrap();
        assert_eq!((&*read.kind, event_type(&read).as_str()), (OUTSIDE, "process.step_undone"));
        assert_eq!(EventStoreDbEvent::readable(&read).unwrap(), theirs);
        let odd = EventStoreDbEvent { content_type: "text/html".to_owned(), ..theirs.clone() };
        assert!(matches!(odd.into_external(new.id, Timestamp(1), &meta), Err(EventStoreDbEventError::ContentType(_))));
        let large = EventStoreDbEvent { data: vec![0; MAX_PAYLOAD].into(), ..theirs };
        assert!(matches!(
            large.into_external(new.id, Timestamp(1), &meta),
            Err(EventStoreDbEventError::TooLarge { .. })
        ));
    }
}
