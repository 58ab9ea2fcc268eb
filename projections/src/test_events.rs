//! Recorded events for the tests of read models.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, OnceLock};

use chronova_events::codec;
use chronova_events::envelope::{Meta, Position, Recorded, Revision, StreamId, Timestamp};
use chronova_events::ids::EventId;
use chronova_events::registry::Event;

/// The event as the first of its stream, recorded at `time`.
pub(crate) fn recorded(stream: StreamId, time: i64, event: &Event) -> Recorded {
    Recorded {
        position: Position(1),
        stream,
        revision: Revision(1),
        id: EventId::random(),
        kind: Arc::from(event.kind()),
        version: event.version(),
        codec: codec::BINCODE_2,
        recorded_at: Timestamp(time),
        meta: Meta::system("test"),
        data: event.encode().unwrap().into(),
        hash: None,
        keys: None,
        decoded: OnceLock::new(),
    }
}
