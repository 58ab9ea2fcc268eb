//! Events as JSON with all inputs of their hashes, so that a reader can verify them without the log. Archives and
//! exports consist of such lines.

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::chain::{EventContent, EventHash, link};
use crate::codec;
use crate::envelope::{Cause, Meta, Position, Recorded, RequestSource, Revision, StreamId, Timestamp};
use crate::ids::EventId;
use crate::sealed::keys::KeyRing;

/// One event of a file: shown, or left out and represented by the hash of its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExportEntry {
    pub position: u64,
    pub revision: u64,
    /// The chain's hash at this event.
    pub hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<StoredEvent>,
    /// The readable form. The chain does not cover it, so only the signature proves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Value>,
    /// The hash of an event that was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// An event as the log keeps it; the payload's bytes are in base64.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredEvent {
    pub id: Uuid,
    pub stream: String,
    pub kind: String,
    pub version: u16,
    pub codec: u8,
    /// Microseconds since 1970.
    pub recorded_at: i64,
    pub request_id: Option<String>,
    pub correlation: Uuid,
    pub causation: Option<Uuid>,
    pub cause: StoredCause,
    pub data: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredCause {
    User {
        user: String,
        project: Option<String>,
        roles: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<RequestSource>,
    },
    Process {
        process: Uuid,
    },
    System {
        part: String,
    },
}

impl StoredEvent {
    pub fn of(recorded: &Recorded) -> Self {
        let meta = &recorded.meta;
        Self {
            id: recorded.id.0,
            stream: recorded.stream.as_str().to_owned(),
            kind: recorded.kind.to_string(),
            version: recorded.version,
            codec: recorded.codec,
            recorded_at: recorded.recorded_at.0,
            request_id: meta.request_id.as_ref().map(ToString::to_string),
            correlation: meta.correlation,
            causation: meta.causation.map(|id| id.0),
            cause: match &meta.cause {
                Cause::User { user, project, roles, source } => StoredCause::User {
                    user: user.to_string(),
                    project: project.as_ref().map(ToString::to_string),
                    roles: roles.clone(),
                    source: source.as_deref().cloned(),
                },
                Cause::Process { process } => StoredCause::Process { process: process.0 },
                Cause::System { part } => StoredCause::System { part: part.clone() },
            },
            data: STANDARD.encode(&recorded.data),
        }
    }

    fn meta(&self) -> Meta {
        Meta {
            request_id: self.request_id.as_deref().map(Into::into),
            correlation: self.correlation,
            causation: self.causation.map(EventId),
            cause: match &self.cause {
                StoredCause::User { user, project, roles, source } => Cause::User {
                    user: user.as_str().into(),
                    project: project.as_deref().map(Into::into),
                    roles: roles.clone(),
                    source: source.clone().map(Arc::new),
                },
                StoredCause::Process { process } => Cause::Process { process: crate::ids::ProcessId(*process) },
                StoredCause::System { part } => Cause::System { part: part.clone() },
            },
        }
    }
}

impl ExportEntry {
    /// An event that is shown, with a form for people where there is one.
    pub fn shown(recorded: &Recorded, event: Option<Value>) -> Self {
        Self { stored: Some(StoredEvent::of(recorded)), event, ..Self::bare(recorded) }
    }

    /// An event that is left out. The hash of its content reveals nothing, because the content includes a random id.
    pub fn omitted(recorded: &Recorded) -> Self {
        Self { content: Some(EventContent::of(recorded).hash().to_string()), ..Self::bare(recorded) }
    }

    fn bare(recorded: &Recorded) -> Self {
        Self {
            position: recorded.position.0,
            revision: recorded.revision.0,
            hash: recorded.hash.unwrap_or_default().to_string(),
            stored: None,
            event: None,
            content: None,
        }
    }

    /// The event as the log stores it; `None` for an event that was left out or is malformed.
    pub fn recorded(&self, keys: Option<&Arc<KeyRing>>) -> Option<Recorded> {
        let stored = self.stored.as_ref()?;
        let sealed = stored.codec == codec::SEALED;
        Some(Recorded {
            position: Position(self.position),
            stream: StreamId::from_stored(&stored.stream),
            revision: Revision(self.revision),
            id: EventId(stored.id),
            kind: Arc::from(stored.kind.as_str()),
            version: stored.version,
            codec: stored.codec,
            recorded_at: Timestamp(stored.recorded_at),
            meta: Arc::new(stored.meta()),
            data: STANDARD.decode(&stored.data).ok()?.into(),
            hash: self.hash.parse().ok(),
            keys: keys.filter(|_| sealed).cloned(),
            decoded: OnceLock::new(),
        })
    }

    /// The hash of this event, if it follows `before` at `position` in the chain.
    pub fn follows(&self, before: &EventHash, position: u64) -> Result<EventHash, String> {
        let wrong = |what: &str| format!("position {position}: {what}");
        if self.position != position {
            return Err(wrong(&format!("position {} is in its place", self.position)));
        }
        let content = match (&self.stored, &self.content) {
            (Some(_), None) => self.recorded(None).map(|recorded| EventContent::of(&recorded).hash()),
            (None, Some(content)) => content.parse().ok(),
            _ => None,
        };
        let content = content.ok_or_else(|| wrong("it is malformed"))?;
        let hash = link(before, Position(position), Revision(self.revision), &content);
        if self.hash == hash.to_string() { Ok(hash) } else { Err(wrong("it does not match the hash chain")) }
    }
}
