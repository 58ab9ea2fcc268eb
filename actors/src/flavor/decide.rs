//! What may happen to flavors.

use chronova_events::flavor::{
    AccessGranted, AccessRevoked, ExtraSpecsReplaced, Flavor, FlavorDeleted, FlavorDescribed, FlavorEvent, Flavors,
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
        FlavorCommand::GrantAccess { flavor, project } => {
            if private(known(&flavor)?)?.access.contains(&project) {
                return Err(FlavorReject::AccessExists { flavor, project });
            }
            AccessGranted { flavor, project }.into()
        }
        FlavorCommand::RevokeAccess { flavor, project } => {
            if !private(known(&flavor)?)?.access.contains(&project) {
                return Err(FlavorReject::NoAccess { flavor, project });
            }
            AccessRevoked { flavor, project }.into()
        }
    }])
}

fn private(flavor: &Flavor) -> Result<&Flavor, FlavorReject> {
    match flavor.definition.public {
        true => Err(FlavorReject::Public(flavor.definition.flavor.clone())),
        false => Ok(flavor),
    }
}
