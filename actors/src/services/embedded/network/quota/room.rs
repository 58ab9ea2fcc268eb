//! The facts about a project's things that the decision needs when room is taken for another one.

use std::collections::BTreeSet;

use chronova_events::envelope::Timestamp;
use chronova_events::ids::ProjectId;
use chronova_events::network_quota::Counted;
use chronova_projections::networks::Networks;

use super::NetworkQuotaCommand;

/// A thing that took room so long ago and is not there was never made: its maker died, or lost the log, in between. A request
/// that makes something takes milliseconds.
const ABANDONED_MICROS: i64 = 10 * 60 * 1_000_000;

/// Takes room for `things` of the project. `now`: `None` where nobody tells the time; then nothing counts as abandoned.
pub fn take(
    view: &Networks,
    project: &ProjectId,
    things: BTreeSet<Counted>,
    now: Option<Timestamp>,
) -> NetworkQuotaCommand {
    let held: BTreeSet<Counted> = view.held(project).map(|held| held.counted().collect()).unwrap_or_default();
    let mut gone = view.freed(project).cloned().unwrap_or_default();
    let old = |since: &Timestamp| now.is_some_and(|now| now.0.saturating_sub(since.0) > ABANDONED_MICROS);
    let taken = view.limits(project).into_iter().flat_map(|own| &own.taken);
    gone.extend(taken.filter(|(thing, since)| old(since) && !held.contains(thing)).map(|(thing, _)| *thing));
    NetworkQuotaCommand::Take { project: project.clone(), things, held, gone }
}
