//! The catalogue of volume types.

use std::collections::BTreeMap;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{ProjectId, VolumeTypeId};
use chronova_events::volume_type::{
    DEFAULT_TYPE, TypeAccessGranted, TypeAccessRevoked, TypeCreated, TypeDeleted, TypeDescribed, TypeSpecsReplaced,
    VolumeTypeEvent, VolumeTypes,
};
use thiserror::Error;

use crate::aggregate::AggregateRoot;
use crate::flavor::FlavorCatalogueId;

#[derive(Debug, Clone, Copy)]
pub enum VolumeTypeRoot {}

#[derive(Debug, Clone)]
pub enum VolumeTypeCommand {
    Create(TypeCreated),
    Describe {
        volume_type: VolumeTypeId,
        name: Option<String>,
        description: Option<Option<String>>,
        public: Option<bool>,
    },
    /// Adds or changes these extra specs.
    SetSpecs {
        volume_type: VolumeTypeId,
        specs: Vec<(String, String)>,
    },
    RemoveSpec {
        volume_type: VolumeTypeId,
        key: String,
    },
    Grant {
        volume_type: VolumeTypeId,
        project: ProjectId,
    },
    Revoke {
        volume_type: VolumeTypeId,
        project: ProjectId,
    },
    Delete {
        volume_type: VolumeTypeId,
    },
}

/// The refusals, with Cinder's messages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VolumeTypeReject {
    #[error("Volume type {0} could not be found.")]
    NotFound(VolumeTypeId),
    #[error("Volume Type {0} already exists.")]
    NameTaken(String),
    #[error("Volume Type {volume_type} has no extra specs with key {key}.")]
    NoSpec { volume_type: VolumeTypeId, key: String },
    #[error("Invalid volume type: Type access modification is not applicable to public volume type.")]
    Public,
    #[error("Volume type access for {volume_type} / {project} combination already exists.")]
    AccessExists { volume_type: VolumeTypeId, project: ProjectId },
    #[error("Volume type access not found for {volume_type} / {project} combination.")]
    NoAccess { volume_type: VolumeTypeId, project: ProjectId },
    #[error("The volume type {0} is a default volume type and cannot be deleted.")]
    IsDefault(VolumeTypeId),
}

impl AggregateRoot for VolumeTypeRoot {
    type Id = FlavorCatalogueId;
    type State = VolumeTypes;
    type Command = VolumeTypeCommand;
    type Reject = VolumeTypeReject;

    fn stream(_: &FlavorCatalogueId) -> StreamId {
        StreamId::new("volume_type", "catalogue")
    }

    fn decide(state: &VolumeTypes, command: VolumeTypeCommand) -> Result<Vec<VolumeTypeEvent>, VolumeTypeReject> {
        decide(state, command)
    }
}

fn decide(state: &VolumeTypes, command: VolumeTypeCommand) -> Result<Vec<VolumeTypeEvent>, VolumeTypeReject> {
    let known = |id: VolumeTypeId| state.by_id.get(&id).ok_or(VolumeTypeReject::NotFound(id));
    Ok(vec![match command {
        VolumeTypeCommand::Create(mut created) => {
            if state.named(&created.name).is_some() {
                return Err(VolumeTypeReject::NameTaken(created.name));
            }
            created.extra_specs.sort();
            created.into()
        }
        VolumeTypeCommand::Describe { volume_type, name, description, public } => {
            let now = known(volume_type)?;
            let name = name.unwrap_or_else(|| now.name.clone());
            if state.named(&name).is_some_and(|other| other.id != volume_type) {
                return Err(VolumeTypeReject::NameTaken(name));
            }
            let description = description.unwrap_or_else(|| now.description.clone());
            TypeDescribed { volume_type, name, description, public: public.unwrap_or(now.public) }.into()
        }
        VolumeTypeCommand::SetSpecs { volume_type, specs } => {
            let mut merged: BTreeMap<String, String> = known(volume_type)?.extra_specs.iter().cloned().collect();
            merged.extend(specs);
            TypeSpecsReplaced { volume_type, extra_specs: merged.into_iter().collect() }.into()
        }
        VolumeTypeCommand::RemoveSpec { volume_type, key } => {
            let mut rest = known(volume_type)?.extra_specs.clone();
            let before = rest.len();
            rest.retain(|(known, _)| *known != key);
            if rest.len() == before {
                return Err(VolumeTypeReject::NoSpec { volume_type, key });
            }
            TypeSpecsReplaced { volume_type, extra_specs: rest }.into()
        }
        VolumeTypeCommand::Grant { volume_type, project } => {
            let now = known(volume_type)?;
            if now.public {
                return Err(VolumeTypeReject::Public);
            }
            if now.access.contains(&project) {
                return Err(VolumeTypeReject::AccessExists { volume_type, project });
            }
            TypeAccessGranted { volume_type, project }.into()
        }
        VolumeTypeCommand::Revoke { volume_type, project } => {
            let now = known(volume_type)?;
            if now.public {
                return Err(VolumeTypeReject::Public);
            }
            if !now.access.contains(&project) {
                return Err(VolumeTypeReject::NoAccess { volume_type, project });
            }
            TypeAccessRevoked { volume_type, project }.into()
        }
        VolumeTypeCommand::Delete { volume_type } if volume_type == DEFAULT_TYPE => {
            return Err(VolumeTypeReject::IsDefault(volume_type));
        }
        VolumeTypeCommand::Delete { volume_type } => {
            known(volume_type)?;
            TypeDeleted { volume_type }.into()
        }
    }])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use uuid::Uuid;

    use super::*;

    const ID: VolumeTypeId = VolumeTypeId(Uuid::from_u128(1));

    fn created(name: &str, public: bool) -> VolumeTypeCommand {
        let (name, description) = (name.to_owned(), None);
        VolumeTypeCommand::Create(TypeCreated { volume_type: ID, name, description, public, extra_specs: vec![] })
    }

    fn given(commands: Vec<VolumeTypeCommand>) -> VolumeTypes {
        let mut state = VolumeTypes::default();
        for command in commands {
            for event in decide(&state, command).unwrap() {
                state.evolve(&event, Timestamp(1));
            }
        }
        state
    }

    #[test]
    fn the_default_type_always_exists() {
        let state = VolumeTypes::default();
        assert_eq!(state.named("__DEFAULT__").unwrap().id, DEFAULT_TYPE);
        let delete = VolumeTypeCommand::Delete { volume_type: DEFAULT_TYPE };
        assert_eq!(decide(&state, delete), Err(VolumeTypeReject::IsDefault(DEFAULT_TYPE)));
        assert_eq!(
            decide(&state, created("__DEFAULT__", true)),
            Err(VolumeTypeReject::NameTaken("__DEFAULT__".into()))
        );
    }

    #[test]
    fn types_have_specs_and_private_types_have_access_lists() {
        let specs = vec![("multiattach".to_owned(), "<is> True".to_owned())];
        let set = VolumeTypeCommand::SetSpecs { volume_type: ID, specs };
        let state = given(vec![created("a", true), set]);
        assert!(state.by_id[&ID].multiattach());
        let grant = VolumeTypeCommand::Grant { volume_type: ID, project: ProjectId::new("p") };
        assert_eq!(decide(&state, grant.clone()), Err(VolumeTypeReject::Public));
        let state = given(vec![created("a", false), grant]);
        assert!(
            state.by_id[&ID].visible_to(&ProjectId::new("p")) && !state.by_id[&ID].visible_to(&ProjectId::new("q"))
        );
    }
}
