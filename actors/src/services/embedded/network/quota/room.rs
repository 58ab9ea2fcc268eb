//! Collects the facts about a project's resources that a reservation of quota needs.

use std::collections::BTreeSet;

use chronova_events::envelope::Timestamp;
use chronova_events::ids::ProjectId;
use chronova_events::network_quota::CountedResource;
use chronova_projections::networks::NetworksView;

use super::NetworkQuotaCommand;

/// Quota that was reserved longer ago than this and has no resource is abandoned: its request died, or the log was not
/// available. A creation takes milliseconds.
const ABANDONED_MICROS: i64 = 10 * 60 * 1_000_000;

/// The command that reserves quota for `things` of the project. It also releases the quota of deleted resources, and
/// abandoned quota.
pub fn take(
    view: &NetworksView,
    project: &ProjectId,
    things: BTreeSet<CountedResource>,
    now: Timestamp,
) -> NetworkQuotaCommand {
    let held: BTreeSet<CountedResource> = view.held(project).map(|held| held.counted().collect()).unwrap_or_default();
    let mut gone = view.freed(project).cloned().unwrap_or_default();
    let old = |since: &Timestamp| now.0.saturating_sub(since.0) > ABANDONED_MICROS;
    let taken = view.limits(project).into_iter().flat_map(|own| &own.taken);
    gone.extend(taken.filter(|(thing, since)| old(since) && !held.contains(thing)).map(|(thing, _)| *thing));
    NetworkQuotaCommand::Take { project: project.clone(), things, held, gone }
}
