//! How far events may leave the log's file: by the policy, and at most up to the newest checkpoint and the first event
//! under a legal hold.

use std::io::Write;

use chronova_events::envelope::{Position, StreamId, Timestamp};
use chronova_events::holds::{HeldPart, LegalHold};
use chronova_events::store::EventStore;
use chronova_events::store::criteria::Criteria;
use chronova_events::store::sqlite::retention::{ArchivedPart, LogSize};
use chronova_projections::checkpoint::OpenedViews;
use chronova_projections::views::Views;

use super::super::CommandFailure;
use super::super::audit::archive::first_at;

/// The number of streams in one search.
const STREAMS: usize = 200;

/// Which events leave the file. An event leaves if `before` or `keep_bytes` names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Events that were recorded before this time.
    pub before: Option<Timestamp>,
    /// The oldest events, until the used part of the file has at most this many bytes.
    pub keep_bytes: Option<u64>,
    /// The largest number of events that leave at once.
    pub at_most: Option<u64>,
}

/// The state of the log's file.
#[derive(Debug, Clone)]
pub(super) struct LogFacts {
    pub archived: ArchivedPart,
    pub size: LogSize,
}

/// The events that may leave the file: those after `from` up to `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PruneReach {
    pub from: Position,
    pub to: Position,
    /// Why fewer events leave than the policy says.
    pub limits: Vec<String>,
}

impl PruneReach {
    /// Reads the log after the events that have left the file already.
    pub(super) async fn of(
        store: &dyn EventStore,
        facts: &LogFacts,
        opened: &OpenedViews,
        policy: RetentionPolicy,
    ) -> Result<Self, CommandFailure> {
        let from = facts.archived.end.position;
        let mut reach = Self { from, to: from, limits: Vec::new() };
        if let Some(before) = policy.before {
            reach.to = reach.to.max(Position(first_at(store, from, before).await?.saturating_sub(1)));
        }
        if let Some(keep) = policy.keep_bytes {
            let leave = events_beyond(facts.size.used, keep, store.head().0.saturating_sub(from.0));
            reach.to = reach.to.max(Position(from.0 + leave));
        }
        if let Some(most) = policy.at_most {
            reach.to = reach.to.min(Position(from.0.saturating_add(most)));
        }
        match &opened.from {
            // A checkpoint without all read models allows no move. The search for holds needs the read model of the
            // servers, and only a complete checkpoint can be proved.
            Some(found) if !opened.absent.is_empty() || !opened.provisional.is_empty() => {
                let position = found.mark.position;
                reach.limit(from, || {
                    format!(
                        "the newest checkpoint (position {position}) is of another version: a server writes a new one \
                         when it stops"
                    )
                });
            }
            Some(found) => {
                let position = found.mark.position;
                // The event at the checkpoint's position stays, because each start compares this event with the
                // checkpoint.
                let before = Position(position.0.saturating_sub(1));
                reach.limit(before, || format!("the newest checkpoint is at position {position}"));
            }
            None => reach.limit(from, || "there is no checkpoint: a server writes one when it stops".to_owned()),
        }
        reach.keep_holds(store, &opened.views).await?;
        Ok(reach)
    }

    /// The number of events that may leave.
    pub(super) fn events(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0)
    }

    fn limit(&mut self, to: Position, why: impl FnOnce() -> String) {
        if to < self.to {
            self.to = to.max(self.from);
            self.limits.push(why());
        }
    }

    /// Ends before the first event under a hold.
    async fn keep_holds(&mut self, store: &dyn EventStore, views: &Views) -> Result<(), CommandFailure> {
        for hold in store.holds()?.0 {
            if self.events() == 0 {
                break;
            }
            if let Some(held) = first_held(store, &hold, views, (self.from, self.to)).await? {
                let before = Position(held.0.saturating_sub(1));
                self.limit(before, || format!("position {held} is under a legal hold: {} ({})", hold.of, hold.id));
            }
        }
        Ok(())
    }

    pub(super) fn tell(&self, out: &mut dyn Write) -> Result<(), CommandFailure> {
        for limit in &self.limits {
            writeln!(out, "limited: {limit}")?;
        }
        match self.events() {
            0 if self.from == Position::START => writeln!(out, "nothing to move: the file has all events")?,
            0 => writeln!(out, "nothing to move: positions 1 to {} are in the archive", self.from)?,
            events => {
                writeln!(out, "{events} events may leave the file: positions {} to {}", self.from.0 + 1, self.to)?;
            }
        }
        Ok(())
    }
}

/// How many of the `events` events must leave the file so that the used bytes are at most `keep`.
fn events_beyond(used: u64, keep: u64, events: u64) -> u64 {
    let beyond = u128::from(used.saturating_sub(keep)) * u128::from(events);
    let leave = beyond.div_ceil(u128::from(used.max(1)));
    u64::try_from(leave).unwrap_or(events).min(events)
}

/// The first position after `from` and up to `to` that the hold keeps.
async fn first_held(
    store: &dyn EventStore,
    hold: &LegalHold,
    views: &Views,
    (from, to): (Position, Position),
) -> Result<Option<Position>, CommandFailure> {
    let mut all = Vec::new();
    match &hold.of {
        HeldPart::Positions { first, last } => {
            return Ok((*last > from.0).then(|| Position((*first).max(from.0 + 1))));
        }
        HeldPart::Project(id) => {
            all.push(Criteria { projects: vec![id.clone()], ..Criteria::default() });
            all.extend(streams_of(views, |project, _| project == id));
        }
        HeldPart::User(id) => {
            all.push(Criteria { users: vec![id.clone()], ..Criteria::default() });
            all.extend(streams_of(views, |_, user| user == id));
        }
        HeldPart::Server(id) => {
            let mut criteria = Criteria { servers: vec![*id], ..Criteria::default() };
            criteria.learn(store).await?;
            all.push(criteria);
        }
    }
    let mut first = None;
    for criteria in &all {
        let end = first.unwrap_or(to);
        first = first_match(store, criteria, (from, end)).await?.or(first);
    }
    Ok(first)
}

/// Searches for the streams of the servers whose project and user match.
fn streams_of(views: &Views, is_held: impl Fn(&str, &str) -> bool) -> Vec<Criteria> {
    let streams: Vec<String> = views.servers.read(|servers| {
        let held = servers.all().filter_map(|row| {
            let request = &row.server()?.request;
            is_held(request.project.as_str(), request.user.as_str())
                .then(|| StreamId::new("instance", row.id).to_string())
        });
        held.collect()
    });
    streams.chunks(STREAMS).map(|part| Criteria { streams: part.to_vec(), ..Criteria::default() }).collect()
}

/// The first matching event after `from` and up to `to`.
async fn first_match(
    store: &dyn EventStore,
    criteria: &Criteria,
    (from, to): (Position, Position),
) -> Result<Option<Position>, CommandFailure> {
    let mut at = from;
    while at < to {
        let found = store.search(at, 1, criteria).await?;
        if let Some(first) = found.events.first() {
            return Ok(Some(first.position).filter(|position| *position <= to));
        }
        if found.until == at {
            break;
        }
        at = found.until;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_says_how_many_events_leave() {
        assert_eq!(events_beyond(1_000, 1_000, 100), 0);
        assert_eq!(events_beyond(1_000, 2_000, 100), 0);
        assert_eq!(events_beyond(1_000, 900, 100), 10);
        assert_eq!(events_beyond(1_000, 899, 100), 11);
        assert_eq!(events_beyond(1_000, 0, 100), 100);
        assert_eq!(events_beyond(0, 0, 0), 0);
        assert_eq!(events_beyond(u64::MAX, 0, u64::MAX), u64::MAX);
    }
}
