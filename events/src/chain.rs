//! The chain: one hash per event, over the event and the hash of the event before it in the whole log.
//!
//! One stored hash (an [`Anchor`]) later proves that no event up to it was changed, left out or inserted. Every back
//! end in which Chronova itself orders the events has this chain. The chain is part of the format of the log:
//! [`EventContent::bytes`] and [`link`] define the hashed bytes, which never change. There are two levels:
//!
//! * the **content** of an event: all of it except position and revision. The content is known before the append, so
//!   the hash of the content is computed by the thread that appends, not by the single writer;
//! * the **link**: hash of the previous event (32 zero bytes for the first), position, revision and content hash. It
//!   does not include the content itself. So a part of a log can be proved without the contents of the other events:
//!   their revisions and content hashes suffice.
//!
//! The hash is BLAKE3 with 32 bytes. The first hashed byte tells the two levels apart.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::envelope::{Cause, Meta, NewEvent, Position, Recorded, Revision, StreamId, Timestamp};
use crate::ids::EventId;

const CONTENT: u8 = 0;
const LINK: u8 = 1;

/// A BLAKE3 hash of 32 bytes; its text has 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventHash(pub [u8; 32]);

impl EventHash {
    /// The hash before the first event.
    pub const START: Self = Self([0; 32]);

    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for EventHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EventHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text cannot be read as a hash or as an anchor.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum AnchorError {
    #[error("a hash is 64 hexadecimal digits")]
    Hash,
    #[error("an anchor is POSITION:HASH, as `chronova audit head` prints it")]
    Anchor,
}

impl FromStr for EventHash {
    type Err = AnchorError;

    fn from_str(text: &str) -> Result<Self, AnchorError> {
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(AnchorError::Hash);
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| AnchorError::Hash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| AnchorError::Hash)?;
        }
        Ok(Self(hash))
    }
}

/// A position in the log and its hash, as text `POSITION:HASH`. An anchor that is stored outside the log proves all
/// events up to this position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    pub position: Position,
    pub hash: EventHash,
}

impl Anchor {
    /// The head of a log without events.
    pub const START: Self = Self { position: Position::START, hash: EventHash::START };
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.position, self.hash)
    }
}

impl FromStr for Anchor {
    type Err = AnchorError;

    fn from_str(text: &str) -> Result<Self, AnchorError> {
        let (position, hash) = text.trim().split_once(':').ok_or(AnchorError::Anchor)?;
        Ok(Self { position: Position(position.parse().map_err(|_| AnchorError::Anchor)?), hash: hash.parse()? })
    }
}

/// The content of an event, independent of its position.
#[derive(Debug, Clone, Copy)]
pub struct EventContent<'a> {
    pub stream: &'a StreamId,
    pub id: EventId,
    pub kind: &'a str,
    pub version: u16,
    pub codec: u8,
    pub recorded_at: Timestamp,
    pub meta: &'a Meta,
    /// The payload's bytes.
    pub data: &'a [u8],
}

impl<'a> EventContent<'a> {
    pub fn of(event: &'a Recorded) -> Self {
        Self {
            stream: &event.stream,
            id: event.id,
            kind: &event.kind,
            version: event.version,
            codec: event.codec,
            recorded_at: event.recorded_at,
            meta: &event.meta,
            data: &event.data,
        }
    }

    /// The content of an event that is about to be appended to `stream`; `codec` encoded the payload as `data`.
    pub fn of_new(stream: &'a StreamId, event: &'a NewEvent, codec: u8, data: &'a [u8]) -> Self {
        Self {
            stream,
            id: event.id,
            kind: event.event.kind(),
            version: event.event.version(),
            codec,
            recorded_at: event.recorded_at,
            meta: &event.meta,
            data,
        }
    }

    /// Writes the canonical bytes into `to`, which is cleared first. Numbers are little-endian. Each text and list is
    /// preceded by its length in 8 bytes, each optional value by one byte, 1 if present. So the encoding is
    /// unambiguous.
    ///
    /// The order, where `?` marks an optional value: a zero byte; event id (16); version (2); codec (1); recorded at,
    /// microseconds since 1970 (8); stream; kind; request id?; correlation (16); causation? (16, with length); the
    /// cause; the payload (with length). The first byte of the cause is its kind:
    ///
    /// * 1: user, project?, roles (their count in 8 bytes, then each);
    /// * 4: the same, and then the client's address? and program?;
    /// * 2: process id (16);
    /// * 3: the name of the part of the system.
    pub fn bytes(&self, to: &mut Vec<u8>) {
        to.clear();
        to.push(CONTENT);
        to.extend_from_slice(self.id.0.as_bytes());
        to.extend_from_slice(&self.version.to_le_bytes());
        to.push(self.codec);
        to.extend_from_slice(&self.recorded_at.0.to_le_bytes());
        put(to, self.stream.as_str().as_bytes());
        put(to, self.kind.as_bytes());
        put_optional(to, self.meta.request_id.as_ref().map(|id| id.as_str().as_bytes()));
        to.extend_from_slice(self.meta.correlation.as_bytes());
        put_optional(to, self.meta.causation.as_ref().map(|id| id.0.as_bytes().as_slice()));
        put_cause(to, &self.meta.cause);
        put(to, self.data);
    }

    pub fn hash(&self) -> EventHash {
        let mut bytes = Vec::with_capacity(384 + self.data.len());
        self.bytes(&mut bytes);
        hash(&bytes)
    }
}

fn put_cause(to: &mut Vec<u8>, cause: &Cause) {
    match cause {
        Cause::User { user, project, roles, source } => {
            to.push(if source.is_some() { 4 } else { 1 });
            put(to, user.as_str().as_bytes());
            put_optional(to, project.as_ref().map(|id| id.as_str().as_bytes()));
            to.extend_from_slice(&(roles.len() as u64).to_le_bytes());
            for role in roles {
                put(to, role.as_bytes());
            }
            if let Some(source) = source {
                put_optional(to, source.address.as_ref().map(String::as_bytes));
                put_optional(to, source.agent.as_ref().map(String::as_bytes));
            }
        }
        Cause::Process { process } => {
            to.push(2);
            to.extend_from_slice(process.0.as_bytes());
        }
        Cause::System { part } => {
            to.push(3);
            put(to, part.as_bytes());
        }
    }
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn put_optional(to: &mut Vec<u8>, bytes: Option<&[u8]>) {
    to.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put(to, bytes);
    }
}

/// The BLAKE3 hash of the bytes of a content or of a link.
pub fn hash(bytes: &[u8]) -> EventHash {
    EventHash(*blake3::hash(bytes).as_bytes())
}

/// The hash of the event at `position`. It is taken over the byte 1, the hash of the previous event (32), position (8),
/// revision (8) and the content hash (32). Numbers are little-endian.
pub fn link(before: &EventHash, position: Position, revision: Revision, content: &EventHash) -> EventHash {
    let mut bytes = [0; 81];
    bytes[0] = LINK;
    bytes[1..33].copy_from_slice(&before.0);
    bytes[33..41].copy_from_slice(&position.0.to_le_bytes());
    bytes[41..49].copy_from_slice(&revision.0.to_le_bytes());
    bytes[49..].copy_from_slice(&content.0);
    hash(&bytes)
}

/// Follows the chain over consecutive events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    pub head: EventHash,
}

impl Chain {
    /// Continues after `head`; [`EventHash::START`] at the beginning of the log.
    pub fn after(head: EventHash) -> Self {
        Self { head }
    }

    /// Whether `event` is the next one and unchanged. An event without a hash is refused.
    pub fn accepts(&mut self, event: &Recorded) -> bool {
        self.head = link(&self.head, event.position, event.revision, &EventContent::of(event).hash());
        event.hash == Some(self.head)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use uuid::Uuid;

    use super::*;
    use crate::envelope::RequestSource;
    use crate::ids::{ProcessId, ProjectId, RequestId, UserId};

    fn meta(cause: Cause) -> Meta {
        Meta {
            request_id: Some(RequestId::new("req-1")),
            correlation: Uuid::from_u128(2),
            causation: Some(EventId(Uuid::from_u128(3))),
            cause,
        }
    }

    fn user() -> Cause {
        Cause::User {
            user: UserId::new("u"),
            project: Some(ProjectId::new("p")),
            roles: vec!["member".into()],
            source: None,
        }
    }

    fn content(cause: Cause) -> EventHash {
        let stream = StreamId::new("instance", "a");
        let meta = meta(cause);
        let content = EventContent {
            stream: &stream,
            id: EventId(Uuid::from_u128(1)),
            kind: "instance.renamed",
            version: 1,
            codec: 1,
            recorded_at: Timestamp(1_769_860_800_000_000),
            meta: &meta,
            data: b"payload",
        };
        content.hash()
    }

    /// This format must never change, because existing logs and anchors use it.
    #[test]
    fn the_hashes_never_change() {
        let hashes = [
            content(user()),
            content(Cause::Process { process: ProcessId(Uuid::from_u128(4)) }),
            content(Cause::System { part: "host-watch".into() }),
        ];
        let link = link(&hashes[0], Position(2), Revision(1), &hashes[1]);
        let text: Vec<String> = hashes.iter().chain([&link]).map(ToString::to_string).collect();
        let expected = [
            "2b9f062fc50d43f6c3ddd171be3452516e13f8cbbe087b20d89c09553a791d14",
            "0e781de7bb9c13e36dc77b7c4c433cf14ddee410647d315f473325a5a01ae66a",
            "294edb7a19b7a0e9ea9b9fa25442f5475dd00b3bf997fe6ae448ed95dadaf63b",
            "b83a82c57358546136cbc7dec1c6df7c1098b08c1d82d9b980612fa3c5deff1e",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn an_anchor_is_parsed_from_its_own_text() {
        let anchor = Anchor { position: Position(7), hash: content(user()) };
        assert_eq!(anchor.to_string().parse(), Ok(anchor));
        assert_eq!(format!(" {anchor}\n").parse(), Ok(anchor));
        assert_eq!("7".parse::<Anchor>(), Err(AnchorError::Anchor));
        assert_eq!("x:00".parse::<Anchor>(), Err(AnchorError::Anchor));
        assert_eq!("7:00".parse::<Anchor>(), Err(AnchorError::Hash));
        assert_eq!(format!("7:{}", "é".repeat(32)).parse::<Anchor>(), Err(AnchorError::Hash));
    }

    #[test]
    fn a_change_of_the_user_changes_the_content_hash() {
        let plain = content(user());
        let others = [
            Cause::User { user: UserId::new("u"), project: None, roles: vec!["member".into()], source: None },
            Cause::User {
                user: UserId::new("u"),
                project: Some(ProjectId::new("p")),
                roles: vec!["mem".into(), "ber".into()],
                source: None,
            },
            Cause::User {
                user: UserId::new("u"),
                project: Some(ProjectId::new("p")),
                roles: vec!["member".into()],
                source: RequestSource::new("192.0.2.1".parse().ok(), None),
            },
            Cause::User {
                user: UserId::new("u"),
                project: Some(ProjectId::new("p")),
                roles: vec!["member".into()],
                source: RequestSource::new(None, Some("192.0.2.1")),
            },
            Cause::User {
                user: UserId::new("up"),
                project: Some(ProjectId::new("")),
                roles: vec!["member".into()],
                source: None,
            },
        ];
        for other in others {
            assert_ne!(content(other.clone()), plain, "{other:?}");
        }
    }
}
