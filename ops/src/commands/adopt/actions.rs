//! The actions on a server, from Nova's instance actions.

use std::collections::BTreeMap;

use chronova_events::ids::{HostId, ProjectId, RequestId, UserId};
use chronova_events::instance::{AdoptedAction, AdoptedActionEvent};

use super::Unadoptable;
use super::hosts::AdoptedHosts;
use crate::nova::rows::NovaRow;

/// The adoption keeps this many actions of a server, the newest ones: an event of the log may not grow without limit.
pub(super) const MOST: usize = 1_000;
/// The adoption keeps this many characters of an event's details.
const LONGEST: usize = 500;

/// Reads the actions, oldest first. `events` has the events of each action, by the action's number.
pub(super) fn actions(
    rows: &[NovaRow<'_>],
    events: &BTreeMap<&str, Vec<NovaRow<'_>>>,
    hosts: &AdoptedHosts,
) -> Result<Vec<AdoptedAction>, Unadoptable> {
    let mut numbered = Vec::with_capacity(rows.len());
    for row in rows {
        let events = events.get(row.text("id").unwrap_or_default()).map_or(&[][..], Vec::as_slice);
        numbered.push(((row.created_at()?, row.count("id")?), action(row, events, hosts)?));
    }
    numbered.sort_by_key(|(order, _)| *order);
    let surplus = numbered.len().saturating_sub(MOST);
    Ok(numbered.into_iter().skip(surplus).map(|(_, action)| action).collect())
}

fn action(row: &NovaRow<'_>, events: &[NovaRow<'_>], hosts: &AdoptedHosts) -> Result<AdoptedAction, Unadoptable> {
    let mut numbered = Vec::with_capacity(events.len());
    for event in events {
        numbered.push((event.count("id")?, action_event(event, hosts)?));
    }
    numbered.sort_by_key(|(number, _)| *number);
    Ok(AdoptedAction {
        name: row.text("action").unwrap_or_default().to_owned(),
        request_id: row.words("request_id").map(RequestId::new),
        user: row.words("user_id").map(UserId::new),
        project: row.words("project_id").map(ProjectId::new),
        started_at: row.time("start_time")?.unwrap_or(row.created_at()?),
        updated_at: row.updated_at()?,
        message: row.words("message").map(str::to_owned),
        events: numbered.into_iter().map(|(_, event)| event).collect(),
    })
}

fn action_event(row: &NovaRow<'_>, hosts: &AdoptedHosts) -> Result<AdoptedActionEvent, Unadoptable> {
    let host: Option<HostId> = row.words("host").and_then(|name| hosts.of_service(name)).map(|host| host.id);
    Ok(AdoptedActionEvent {
        name: row.text("event").unwrap_or_default().to_owned(),
        started_at: row.time("start_time")?.unwrap_or(row.created_at()?),
        finished_at: row.time("finish_time")?,
        succeeded: row.words("result").map(|result| result == "Success"),
        details: row.words("details").map(|details| details.chars().take(LONGEST).collect()),
        host,
    })
}
