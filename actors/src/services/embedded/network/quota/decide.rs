//! The decisions on a project's network quota.

use std::collections::BTreeSet;

use chronova_events::ids::ProjectId;
use chronova_events::network_quota::{
    CountedResource, NetworkLimits, NetworkLimitsReset, NetworkLimitsSet, NetworkQuotaEvent, NetworkRoomReleased,
    NetworkRoomTaken,
};

use super::{NetworkQuotaCommand, NetworkQuotaReject, limit_of};

pub fn decide(
    state: &NetworkLimits,
    command: NetworkQuotaCommand,
) -> Result<Vec<NetworkQuotaEvent>, NetworkQuotaReject> {
    Ok(match command {
        NetworkQuotaCommand::Set { project, mut limits } => {
            limits.retain(|(resource, limit)| state.limits.get(resource) != Some(limit));
            limits.sort();
            if limits.is_empty() { vec![] } else { vec![NetworkLimitsSet { project, limits }.into()] }
        }
        NetworkQuotaCommand::Reset { .. } if state.limits.is_empty() => vec![],
        NetworkQuotaCommand::Reset { project } => vec![NetworkLimitsReset { project }.into()],
        NetworkQuotaCommand::Take { project, things, held, gone } => {
            // A resource that is created again under its id does not count as gone.
            let gone: BTreeSet<CountedResource> = gone.into_iter().filter(|thing| !things.contains(thing)).collect();
            let mut used: BTreeSet<CountedResource> =
                state.taken.keys().copied().filter(|thing| !gone.contains(thing)).collect();
            used.extend(held);
            let new = new(state, &used, things)?;
            let mut events = release(state, project.clone(), gone);
            if !new.is_empty() {
                events.push(NetworkRoomTaken { project, things: new }.into());
            }
            events
        }
        NetworkQuotaCommand::Release { project, things } => release(state, project, things),
    })
}

/// The resources in `things` that are not counted yet. Refuses if the quota is too small for all of them.
fn new(
    state: &NetworkLimits,
    used: &BTreeSet<CountedResource>,
    things: BTreeSet<CountedResource>,
) -> Result<Vec<CountedResource>, NetworkQuotaReject> {
    let mut new = Vec::new();
    for thing in things.into_iter().filter(|thing| !used.contains(thing)) {
        let resource = thing.resource();
        // A negative limit means no limit.
        let Ok(limit) = usize::try_from(limit_of(Some(state), resource)) else { continue };
        let alike = |other: &&CountedResource| other.resource() == resource;
        if used.iter().filter(alike).count() + new.iter().filter(alike).count() >= limit {
            return Err(NetworkQuotaReject::OverQuota(resource));
        }
        new.push(thing);
    }
    Ok(new)
}

fn release(state: &NetworkLimits, project: ProjectId, things: BTreeSet<CountedResource>) -> Vec<NetworkQuotaEvent> {
    let things: Vec<CountedResource> = things.into_iter().filter(|thing| state.taken.contains_key(thing)).collect();
    if things.is_empty() { vec![] } else { vec![NetworkRoomReleased { project, things }.into()] }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::{NetworkId, PortId, ProjectId};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn limits_are_set_once_and_reset_once() {
        let project = ProjectId::new("p");
        let set = NetworkQuotaCommand::Set { project: project.clone(), limits: vec![("port".to_owned(), 5)] };
        let mut state = NetworkLimits::default();
        assert_eq!(decide(&state, NetworkQuotaCommand::Reset { project: project.clone() }), Ok(vec![]));
        for event in decide(&state, set.clone()).unwrap() {
            state.evolve(&event, Timestamp(0));
        }
        assert_eq!(state.limits.get("port"), Some(&5));
        assert_eq!(decide(&state, set), Ok(vec![]));
        for event in decide(&state, NetworkQuotaCommand::Reset { project }).unwrap() {
            state.evolve(&event, Timestamp(0));
        }
        assert_eq!(state, NetworkLimits::default());
    }

    fn port(n: u128) -> CountedResource {
        CountedResource::Port(PortId(Uuid::from_u128(n)))
    }

    /// A reservation for `things`; the caller knows that `held` exist and that `gone` do not.
    fn take(things: &[CountedResource], held: &[CountedResource], gone: &[CountedResource]) -> NetworkQuotaCommand {
        let set = |these: &[CountedResource]| these.iter().copied().collect();
        let (things, held, gone) = (set(things), set(held), set(gone));
        NetworkQuotaCommand::Take { project: ProjectId::new("p"), things, held, gone }
    }

    #[test]
    fn quota_is_exact_and_is_released() {
        let project = ProjectId::new("p");
        let mut state = NetworkLimits::default();
        let mut tell = |command: NetworkQuotaCommand| -> Result<usize, NetworkQuotaReject> {
            let events = decide(&state, command)?;
            for event in &events {
                state.evolve(event, Timestamp(0));
            }
            Ok(events.len())
        };
        let over = Err(NetworkQuotaReject::OverQuota("port"));
        let limits = vec![("port".to_owned(), 2), ("network".to_owned(), -1)];
        tell(NetworkQuotaCommand::Set { project: project.clone(), limits }).unwrap();
        assert_eq!(tell(take(&[port(1)], &[], &[])), Ok(1));
        assert_eq!(tell(take(&[port(1)], &[port(1)], &[])), Ok(0), "the request is a repetition");
        assert_eq!(tell(take(&[port(2)], &[port(9)], &[])), over, "a resource without reserved quota counts, too");
        assert_eq!(
            tell(take(&[port(2), port(3)], &[port(1)], &[])),
            over,
            "a request over the limit gets no quota for any of its resources"
        );
        assert_eq!(tell(take(&[port(2)], &[port(1)], &[])), Ok(1));
        assert_eq!(tell(take(&[port(3)], &[port(2)], &[])), over);
        assert_eq!(tell(take(&[port(3)], &[port(2)], &[port(1)])), Ok(2), "a deleted resource releases its quota");
        assert_eq!(tell(NetworkQuotaCommand::Release { project: project.clone(), things: [port(3)].into() }), Ok(1));
        assert_eq!(tell(NetworkQuotaCommand::Release { project, things: [port(3)].into() }), Ok(0));
        assert_eq!(tell(take(&[port(4)], &[port(2)], &[])), Ok(1));
        let network = CountedResource::Network(NetworkId(Uuid::nil()));
        assert_eq!(tell(take(&[network], &[], &[])), Ok(0), "without a limit, no quota is reserved");
    }
}
