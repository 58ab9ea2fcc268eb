//! Reads the log page by page.

use std::ops::ControlFlow;
use std::sync::Arc;

use chronova_events::envelope::{Position, Recorded};
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
pub use chronova_events::store::criteria::mentions;

use super::CommandFailure;
use super::progress_line::ProgressLine;

const PAGE: usize = 4_096;

/// Calls `each` for the events after `after` and up to `until`, in order, until `each` breaks. Returns the position of
/// the last event before the break, or `after` if there is none.
pub async fn walk(
    store: &dyn EventStore,
    after: Position,
    until: Position,
    mut each: impl FnMut(&Arc<Recorded>) -> Result<ControlFlow<()>, CommandFailure>,
) -> Result<Position, CommandFailure> {
    let mut line = ProgressLine::new("reads the log", after.0, until.min(store.head()).0);
    let mut at = after;
    loop {
        line.at(at.0);
        let page = store.read_all(at, PAGE).await?;
        if page.is_empty() {
            return Ok(at);
        }
        for recorded in &page {
            if recorded.position > until || each(recorded)?.is_break() {
                return Ok(at);
            }
            at = recorded.position;
        }
    }
}

/// The payload of an event, or an error that names the event if its payload cannot be read.
pub fn payload(recorded: &Recorded) -> Result<&Arc<Event>, CommandFailure> {
    recorded.event().map_err(|source| CommandFailure::Decode { position: recorded.position.0, source })
}
