//! The moment that `--as-of` names.

use std::fmt;

use chronova_events::envelope::{Position, Timestamp};
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;

use super::super::CommandFailure;
use super::super::moments::AsOf;

/// A position of the log, and its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    pub position: Position,
    pub time: Timestamp,
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {}, {}", self.position, self.time)
    }
}

/// Finds the position that `as_of` names. As in the API, a time names the longest prefix of the log without a later
/// event.
pub(super) async fn find(store: &dyn EventStore, as_of: AsOf, now: Timestamp) -> Result<Past, CommandFailure> {
    match as_of {
        AsOf::Position(position) => at_position(store, Position(position)).await,
        AsOf::Time(when) => at_time(store, when.resolve(now), now).await,
    }
}

async fn at_position(store: &dyn EventStore, position: Position) -> Result<Past, CommandFailure> {
    let head = store.head();
    if position > head {
        return Err(CommandFailure::Usage(format!(
            "position {position} is after the end of the log, which is at {head}"
        )));
    }
    let last = store.read_all(Position(position.0.saturating_sub(1)), 1).await?;
    let time = last.first().filter(|last| last.position == position).map(|last| last.recorded_at);
    Ok(Past { position, time: time.unwrap_or_default() })
}

async fn at_time(store: &dyn EventStore, time: Timestamp, now: Timestamp) -> Result<Past, CommandFailure> {
    if time > now {
        return Err(CommandFailure::Usage(format!("{time} is in the future; it is {now}")));
    }
    let later = Criteria { since: Some(Timestamp(time.0.saturating_add(1))), ..Criteria::default() };
    let mut position = Position::START;
    loop {
        let page = store.search(position, 1, &later).await?;
        if let Some(first) = page.events.first() {
            return Ok(Past { position: Position(first.position.0.saturating_sub(1)), time });
        }
        if page.until == position {
            return Ok(Past { position, time });
        }
        position = page.until;
    }
}
