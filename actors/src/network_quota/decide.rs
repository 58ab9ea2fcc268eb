//! What may happen to a project's network limits.

use chronova_events::network_quota::{NetworkLimits, NetworkLimitsReset, NetworkLimitsSet, NetworkQuotaEvent};

use super::NetworkQuotaCommand;

pub fn decide(state: &NetworkLimits, command: NetworkQuotaCommand) -> Vec<NetworkQuotaEvent> {
    match command {
        NetworkQuotaCommand::Set { project, mut limits } => {
            limits.retain(|(resource, limit)| state.limits.get(resource) != Some(limit));
            limits.sort();
            if limits.is_empty() { vec![] } else { vec![NetworkLimitsSet { project, limits }.into()] }
        }
        NetworkQuotaCommand::Reset { .. } if state.limits.is_empty() => vec![],
        NetworkQuotaCommand::Reset { project } => vec![NetworkLimitsReset { project }.into()],
    }
}

#[cfg(test)]
mod tests {
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::ProjectId;

    use super::*;

    #[test]
    fn limits_are_set_once_and_reset_once() {
        let project = ProjectId::new("p");
        let set = NetworkQuotaCommand::Set { project: project.clone(), limits: vec![("port".to_owned(), 5)] };
        let mut state = NetworkLimits::default();
        assert_eq!(decide(&state, NetworkQuotaCommand::Reset { project: project.clone() }), vec![]);
        for event in decide(&state, set.clone()) {
            state.evolve(&event, Timestamp(0));
        }
        assert_eq!(state.limits.get("port"), Some(&5));
        assert_eq!(decide(&state, set), vec![]);
        for event in decide(&state, NetworkQuotaCommand::Reset { project }) {
            state.evolve(&event, Timestamp(0));
        }
        assert_eq!(state, NetworkLimits::default());
    }
}
