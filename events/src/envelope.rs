//! The envelope of every event: its position in the log, the time of recording, and its cause.
//!
//! The envelope is readable without decoding the payload, so that auditors can filter the log with any SQL tool.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::chain::EventHash;
use crate::ids::{EventId, ProcessId, ProjectId, RequestId, UserId};
use crate::registry::{DecodeError, Event};
use crate::sealed::keys::KeyRing;
use crate::sealed::{self, Personal};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    pub fn to_utc(self) -> chrono::DateTime<chrono::Utc> {
        chrono::DateTime::from_timestamp_micros(self.0).unwrap_or_default()
    }

    /// `2026-01-31T12:00:00Z`, the form of the Compute API.
    pub fn iso_seconds(self) -> String {
        self.to_utc().format("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// `2026-01-31T12:00:00.000000`, the form of the extended attributes of the Compute API.
    pub fn iso_micros(self) -> String {
        self.to_utc().format("%Y-%m-%dT%H:%M:%S%.6f").to_string()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_utc().format("%Y-%m-%dT%H:%M:%S%.6fZ"))
    }
}

/// The name of the stream of one aggregate's events: `instance-<uuid>`, `quota-<project>`, `ledger-<cell>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(Arc<str>);

impl StreamId {
    pub fn new(category: &str, id: impl fmt::Display) -> Self {
        Self(Arc::from(format!("{category}-{id}")))
    }

    /// A stream id from the store.
    pub fn from_stored(text: &str) -> Self {
        Self(Arc::from(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the category: the id of the aggregate.
    pub fn key(&self) -> &str {
        self.0.split_once('-').map_or("", |(_, key)| key)
    }

    pub fn category(&self) -> &str {
        self.0.split_once('-').map_or(&self.0, |(category, _)| category)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The position of an event within its stream; the first event has revision 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first event: the stream does not exist.
    pub const NONE: Self = Self(0);
}

/// The position of an event within the whole log. Only the order has a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// Before the first event of the log.
    pub const START: Self = Self(0);
    /// After every possible event.
    pub const END: Self = Self(u64::MAX);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The user, process or part of the system that caused an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A person or a program with a token. `source` is `None` if it is unknown, or if an older version recorded the
    /// event.
    User {
        user: UserId,
        project: Option<ProjectId>,
        roles: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none", with = "text_forms_only")]
        source: Option<Arc<RequestSource>>,
    },
    /// A process that continues a user's request; the correlation leads to the user.
    Process { process: ProcessId },
    /// A part of the system: `host-watch`, `bootstrap`, `reconcile-quota`.
    System { part: String },
}

/// Where a request came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSource {
    /// The client's IP address. Behind a trusted proxy it is the address that the proxy names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The client program, as it names itself in the header `User-Agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl RequestSource {
    /// The largest length of the client program's name, in bytes. Clients choose the name, and each of their events
    /// has it.
    pub const LONGEST_AGENT: usize = 200;

    /// The source of a request; `None` if neither the address nor the program is known.
    pub fn new(address: Option<std::net::IpAddr>, agent: Option<&str>) -> Option<Arc<Self>> {
        let address = address.map(|address| address.to_canonical().to_string());
        let agent = agent.map(|agent| bounded(agent, Self::LONGEST_AGENT)).filter(|agent| !agent.is_empty());
        (address.is_some() || agent.is_some()).then(|| Arc::new(Self { address, agent }))
    }
}

/// The printable beginning of a text.
fn bounded(text: &str, most: usize) -> String {
    let mut short = String::new();
    for sign in text.chars().filter(|sign| !sign.is_control()) {
        if short.len() + sign.len_utf8() > most {
            break;
        }
        short.push(sign);
    }
    short
}

/// Writes the source in text forms only. The binary form is that of checkpoints, where nothing reads the source.
mod text_forms_only {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::RequestSource;

    #[allow(clippy::ref_option, reason = "serde calls it with the field")]
    pub(super) fn serialize<S: Serializer>(
        source: &Option<Arc<RequestSource>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => source.as_deref().serialize(serializer),
            false => serializer.serialize_unit(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<RequestSource>>, D::Error> {
        match deserializer.is_human_readable() {
            true => Ok(Option::<RequestSource>::deserialize(deserializer)?.map(Arc::new)),
            false => <()>::deserialize(deserializer).map(|()| None),
        }
    }
}

/// Why an event is in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub request_id: Option<RequestId>,
    /// Shared by all events that follow from one request.
    pub correlation: Uuid,
    /// The event that caused this one.
    pub causation: Option<EventId>,
    pub cause: Cause,
}

impl Meta {
    /// A change that a part of the system starts by itself.
    pub fn system(part: &str) -> Arc<Self> {
        Arc::new(Self {
            request_id: None,
            correlation: crate::entropy::uuid(),
            causation: None,
            cause: Cause::System { part: part.to_owned() },
        })
    }

    /// A change that `process` makes on behalf of the cause of `self`.
    pub fn by_process(&self, process: ProcessId, causation: Option<EventId>) -> Arc<Self> {
        Arc::new(Self {
            request_id: self.request_id.clone(),
            correlation: self.correlation,
            causation,
            cause: Cause::Process { process },
        })
    }
}

/// An event about to be appended. The deciding actor sets `recorded_at`, so that a pipelined aggregate folds the same
/// time that the log records.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub id: EventId,
    pub event: Arc<Event>,
    pub recorded_at: Timestamp,
    pub meta: Arc<Meta>,
}

impl NewEvent {
    pub fn new(event: impl Into<Event>, recorded_at: Timestamp, meta: &Arc<Meta>) -> Self {
        Self { id: EventId::random(), event: Arc::new(event.into()), recorded_at, meta: Arc::clone(meta) }
    }
}

/// An event in the log.
#[derive(Debug)]
pub struct Recorded {
    pub position: Position,
    pub stream: StreamId,
    pub revision: Revision,
    pub id: EventId,
    /// For example `instance.build_requested`; a kind never changes.
    pub kind: Arc<str>,
    pub version: u16,
    /// How `data` is encoded; see [`crate::codec`].
    pub codec: u8,
    pub recorded_at: Timestamp,
    pub meta: Arc<Meta>,
    pub data: Bytes,
    /// The event's place in the chain, see [`crate::chain`]; `None` in back ends that do not order all events
    /// themselves.
    pub hash: Option<EventHash>,
    /// Opens the personal fields of a sealed payload; `None` for payloads that are not sealed.
    pub keys: Option<Arc<KeyRing>>,
    /// The decoded payload. Events that this process appended need no decoding.
    pub decoded: OnceLock<Arc<Event>>,
}

impl Recorded {
    /// The payload, converted to its newest version.
    pub fn event(&self) -> Result<&Arc<Event>, DecodeError> {
        if let Some(event) = self.decoded.get() {
            return Ok(event);
        }
        let keys = self.keys.as_ref();
        let event = sealed::decode(keys, &self.stream, &self.kind, self.version, self.codec, &self.data)?;
        let event = Arc::new(event);
        Ok(self.decoded.get_or_init(|| event))
    }

    /// A copy without the decoded payload, which may contain fields that were erased since.
    pub fn encoded(&self) -> Self {
        Self {
            position: self.position,
            stream: self.stream.clone(),
            revision: self.revision,
            id: self.id,
            kind: Arc::clone(&self.kind),
            version: self.version,
            codec: self.codec,
            recorded_at: self.recorded_at,
            meta: Arc::clone(&self.meta),
            data: self.data.clone(),
            hash: self.hash,
            keys: self.keys.clone(),
            decoded: OnceLock::new(),
        }
    }

    /// A copy with the personal fields in their erased form, and without the client's address and user agent, for readers
    /// who must not see them.
    pub fn without_personal(&self) -> Result<Self, DecodeError> {
        let event = Arc::new(sealed::without_personal(self.event()?));
        let mut meta = Meta::clone(&self.meta);
        if let Cause::User { source, .. } = &mut meta.cause {
            *source = None;
        }
        Ok(Self { decoded: event.into(), meta: Arc::new(meta), ..self.encoded() })
    }

    /// Whether the personal fields can be read now.
    pub fn personal(&self) -> Personal {
        sealed::state(self.keys.as_deref(), self.codec, &self.data)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_source_of_a_request_is_bounded() {
        assert_eq!(RequestSource::new(None, None), None);
        assert_eq!(RequestSource::new(None, Some("\n\u{7}")), None);
        let long = "\u{e9}".repeat(500) + "\n";
        let source = RequestSource::new("::ffff:192.0.2.1".parse().ok(), Some(&long)).unwrap();
        assert_eq!(source.address.as_deref(), Some("192.0.2.1"));
        assert_eq!(source.agent.as_ref().unwrap().len(), RequestSource::LONGEST_AGENT);
    }

    #[test]
    fn an_old_cause_is_read_and_a_checkpoint_has_no_source() {
        let old = r#"{"User":{"user":"u","project":"p","roles":["r"]}}"#;
        let cause: Cause = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&cause).unwrap(), old, "without a source, the form is the old one");
        let Cause::User { user, project, roles, source: None } = cause.clone() else { panic!("{cause:?}") };
        let source = RequestSource::new("192.0.2.1".parse().ok(), Some("curl"));
        let new = Cause::User { user, project, roles, source };
        assert_eq!(serde_json::from_str::<Cause>(&serde_json::to_string(&new).unwrap()).unwrap(), new);
        let bytes = crate::codec::encode(&new).unwrap();
        assert_eq!(bytes, crate::codec::encode(&cause).unwrap(), "the bytes of older checkpoints");
        assert_eq!(crate::codec::decode::<Cause>(crate::codec::BINCODE_2, &bytes).unwrap(), cause);
    }
}
