//! Reads the scheduling decisions on a server from the log, because no read model holds them.

use std::sync::Arc;

use chronova_events::envelope::{Position, Revision, StreamId, Timestamp};
use chronova_events::ids::InstanceId;
use chronova_events::instance::{InstanceEvent, Scheduled};
use chronova_events::registry::NounEvent;
use chronova_events::store::{EventStore, StoreError};

/// How many events are read at once.
const PAGE: usize = 512;

/// Every decision on a server up to the position `until`, and its time, oldest first.
///
/// # Errors
/// The log cannot be read.
pub async fn decisions(
    store: &dyn EventStore,
    server: InstanceId,
    until: Position,
) -> Result<Vec<(Timestamp, Scheduled)>, StoreError> {
    let stream = StreamId::new("instance", server);
    let mut found = Vec::new();
    let mut after = Revision::NONE;
    loop {
        let page: Vec<Arc<_>> = store.read_stream(&stream, after, PAGE).await?;
        for recorded in &page {
            if recorded.position > until {
                return Ok(found);
            }
            after = recorded.revision;
            let event = recorded
                .event()
                .map_err(|error| StoreError::Corrupt { position: recorded.position.0, reason: error.to_string() })?;
            if let Some(InstanceEvent::Scheduled(scheduled)) = InstanceEvent::of(event) {
                found.push((recorded.recorded_at, scheduled.clone()));
            }
        }
        if page.len() < PAGE {
            return Ok(found);
        }
    }
}
