//! The decisions on flavors.

use chronova_events::flavor::{
    AccessGranted, AccessRevoked, ExtraSpecsReplaced, FlavorDeleted, FlavorDescribed, FlavorEvent, Flavors,
};
use chronova_events::ids::FlavorId;

use super::{FlavorCommand, FlavorReject};

pub fn decide(state: &Flavors, command: FlavorCommand) -> Result<Vec<FlavorEvent>, FlavorReject> {
    let known = |id: &FlavorId| state.by_id.get(id).ok_or_else(|| FlavorReject::NotFound(id.clone()));
    Ok(vec![match command {
        FlavorCommand::Create(created) => {
            if state.by_id.contains_key(&created.flavor) {
                return Err(FlavorReject::IdTaken(created.flavor));
            }
            if state.named(&created.name).is_some() {
                return Err(FlavorReject::NameTaken(created.name));
            }
            created.into()
        }
        FlavorCommand::Delete { flavor } => {
            known(&flavor)?;
            FlavorDeleted { flavor }.into()
        }
        FlavorCommand::Describe { flavor, description } => {
            if known(&flavor)?.definition.description == description {
                return Ok(vec![]);
            }
            FlavorDescribed { flavor, description }.into()
        }
        FlavorCommand::SetExtraSpecs { flavor, extra_specs } => {
            let mut merged = known(&flavor)?.extra_specs.clone();
            for (key, value) in extra_specs {
                merged.retain(|(k, _)| *k != key);
                merged.push((key, value));
            }
            merged.sort();
            ExtraSpecsReplaced { flavor, extra_specs: merged }.into()
        }
        FlavorCommand::RemoveExtraSpec { flavor, key } => {
            let mut rest = known(&flavor)?.extra_specs.clone();
            let before = rest.len();
            rest.retain(|(k, _)| *k != key);
            if rest.len() == before {
                return Err(FlavorReject::NoSuchExtraSpec { flavor, key });
            }
            ExtraSpecsReplaced { flavor, extra_specs: rest }.into()
        }
        FlavorCommand::GrantAccess { flavor, project, even_public } => {
            let now = known(&flavor)?;
            if now.definition.public && !even_public {
                return Err(FlavorReject::Public(flavor));
            }
            if now.access.contains(&project) {
                return Err(FlavorReject::AccessExists { flavor, project });
            }
            AccessGranted { flavor, project }.into()
        }
        FlavorCommand::RevokeAccess { flavor, project } => {
            if !known(&flavor)?.access.contains(&project) {
                return Err(FlavorReject::NoAccess { flavor, project });
            }
            AccessRevoked { flavor, project }.into()
        }
    }])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::flavor::FlavorCreated;
    use chronova_events::fold::Fold;
    use chronova_events::ids::ProjectId;

    use super::*;

    fn flavor(id: &str, name: &str, public: bool) -> FlavorCreated {
        FlavorCreated {
            flavor: FlavorId::new(id),
            name: name.into(),
            vcpus: 1,
            memory_mib: 512,
            root_gib: 1,
            ephemeral_gib: 0,
            swap_mib: 0,
            rxtx_factor: 1.0,
            public,
            disabled: false,
            description: None,
        }
    }

    fn given(commands: Vec<FlavorCommand>) -> Flavors {
        let mut state = Flavors::default();
        for command in commands {
            for event in decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(1));
            }
        }
        state
    }

    #[test]
    fn ids_and_names_are_unique() {
        let state = given(vec![FlavorCommand::Create(flavor("1", "a", true))]);
        let again = |id, name| decide(&state, FlavorCommand::Create(flavor(id, name, true))).unwrap_err();
        assert_eq!(again("1", "b"), FlavorReject::IdTaken(FlavorId::new("1")));
        assert_eq!(again("2", "a"), FlavorReject::NameTaken("a".into()));
    }

    #[test]
    fn only_private_flavors_have_access_lists() {
        let state =
            given(vec![FlavorCommand::Create(flavor("1", "a", true)), FlavorCommand::Create(flavor("2", "b", false))]);
        let grant = |id: &str, even_public| {
            let (flavor, project) = (FlavorId::new(id), ProjectId::new("p"));
            decide(&state, FlavorCommand::GrantAccess { flavor, project, even_public })
        };
        assert_eq!(grant("1", false).unwrap_err(), FlavorReject::Public(FlavorId::new("1")));
        assert!(grant("1", true).is_ok() && grant("2", false).is_ok());
        let revoke = FlavorCommand::RevokeAccess { flavor: FlavorId::new("2"), project: ProjectId::new("p") };
        assert!(matches!(decide(&state, revoke), Err(FlavorReject::NoAccess { .. })));
    }

    #[test]
    fn extra_specs_are_merged_and_sorted() {
        let set = |pairs: &[(&str, &str)]| FlavorCommand::SetExtraSpecs {
            flavor: FlavorId::new("1"),
            extra_specs: pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        };
        let state = given(vec![
            FlavorCommand::Create(flavor("1", "a", true)),
            set(&[("b", "1"), ("a", "1")]),
            set(&[("b", "2")]),
        ]);
        let specs = &state.by_id[&FlavorId::new("1")].extra_specs;
        assert_eq!(*specs, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        let remove = FlavorCommand::RemoveExtraSpec { flavor: FlavorId::new("1"), key: "c".into() };
        assert!(matches!(decide(&state, remove), Err(FlavorReject::NoSuchExtraSpec { .. })));
    }
}
