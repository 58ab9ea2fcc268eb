//! The decisions of the fleet. A repeated command changes nothing.

use chronova_events::fleet::{FleetChanges, FleetEvent};

use super::FleetCommand;

pub fn decide(state: &FleetChanges, command: FleetCommand) -> Vec<FleetEvent> {
    let has_removed = |uri: &String| state.removed.contains(uri);
    match command {
        FleetCommand::Add(add) if state.added.contains(&add.uri) && !add.hosts.iter().any(has_removed) => vec![],
        FleetCommand::Add(add) => vec![add.into()],
        FleetCommand::Remove(remove) if has_removed(&remove.uri) => vec![],
        FleetCommand::Remove(remove) => vec![remove.into()],
    }
}

#[cfg(test)]
mod tests {
    use chronova_events::envelope::Timestamp;
    use chronova_events::fleet::{HypervisorAdded, HypervisorRemoved};
    use chronova_events::fold::Fold as _;
    use chronova_events::ids::HostId;

    use super::*;

    #[test]
    fn only_a_change_is_an_event() {
        let (uri, host) = ("qemu:///system".to_owned(), HostId(uuid::Uuid::from_u128(7)));
        let add = || FleetCommand::Add(HypervisorAdded { uri: uri.clone(), hosts: vec![uri.clone()] });
        let remove = || FleetCommand::Remove(HypervisorRemoved { uri: uri.clone(), host });
        let mut state = FleetChanges::default();
        for (command, events) in [(add(), 1), (add(), 0), (remove(), 1), (remove(), 0), (add(), 1), (add(), 0)] {
            let decided = decide(&state, command.clone());
            assert_eq!(decided.len(), events, "{command:?} after {state:?}");
            for event in &decided {
                state.evolve(event, Timestamp(1));
            }
        }
    }
}
