//! Reads the log page by page.

use std::ops::ControlFlow;
use std::sync::Arc;

use chronova_events::envelope::{Position, Recorded};
use chronova_events::registry::Event;
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
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

/// Calls `each` for the events up to `until` that match `criteria`, in order. An index of the log shortens the search.
pub async fn search(
    store: &dyn EventStore,
    until: Position,
    criteria: &Criteria,
    mut each: impl FnMut(&Arc<Recorded>) -> Result<(), CommandFailure>,
) -> Result<(), CommandFailure> {
    let mut line = ProgressLine::new("searches the log", 0, until.min(store.head()).0);
    let mut at = Position::START;
    loop {
        line.at(at.0);
        let page = store.search(at, PAGE, criteria).await?;
        page.events.iter().filter(|recorded| recorded.position <= until).try_for_each(&mut each)?;
        if page.until == at || page.until >= until {
            return Ok(());
        }
        at = page.until;
    }
}

/// The payload of an event, or an error that names the event if its payload cannot be read.
pub fn payload(recorded: &Recorded) -> Result<&Arc<Event>, CommandFailure> {
    recorded.event().map_err(|source| CommandFailure::Decode { position: recorded.position.0, source })
}
