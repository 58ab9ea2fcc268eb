//! The volume types: one stream for the whole catalogue, because names are unique in it.
//!
//! Invariant: the default type always exists, without an event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{ProjectId, VolumeTypeId};

/// The id of the default type, which always exists.
pub const DEFAULT_TYPE: VolumeTypeId = VolumeTypeId(Uuid::from_u128(0x7d0c_8a3e_5f0b_4c55_9e0e_3a1d_64c1_0001));

noun! {
    /// Events of volume types.
    VolumeTypeEvent = "volume_type" {
        /// A type was created.
        TypeCreated = "created" @ 1,
        /// The name, description or visibility of a type was changed to these values.
        TypeDescribed = "described" @ 1,
        /// The extra specs of a type are now these.
        TypeSpecsReplaced = "specs_replaced" @ 1,
        /// A project may use a type that is not public.
        TypeAccessGranted = "access_granted" @ 1,
        /// A project may no longer use a type that is not public.
        TypeAccessRevoked = "access_revoked" @ 1,
        /// A type was deleted.
        TypeDeleted = "deleted" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeCreated {
    pub volume_type: VolumeTypeId,
    pub name: String,
    pub description: Option<String>,
    pub public: bool,
    /// Key and value, sorted by key.
    pub extra_specs: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeDescribed {
    pub volume_type: VolumeTypeId,
    pub name: String,
    pub description: Option<String>,
    pub public: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeSpecsReplaced {
    pub volume_type: VolumeTypeId,
    /// Key and value, sorted by key.
    pub extra_specs: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeAccessGranted {
    pub volume_type: VolumeTypeId,
    pub project: ProjectId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeAccessRevoked {
    pub volume_type: VolumeTypeId,
    pub project: ProjectId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TypeDeleted {
    pub volume_type: VolumeTypeId,
}

/// One type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeType {
    pub id: VolumeTypeId,
    pub name: String,
    pub description: Option<String>,
    pub public: bool,
    pub extra_specs: Vec<(String, String)>,
    pub access: BTreeSet<ProjectId>,
    /// The type's number in the order of creation, deleted types included.
    pub number: u64,
}

impl VolumeType {
    /// Whether `project` may create volumes of this type.
    pub fn visible_to(&self, project: &ProjectId) -> bool {
        self.public || self.access.contains(project)
    }

    /// Whether volumes of the type may be attached more than once (`multiattach` is `<is> True`).
    pub fn multiattach(&self) -> bool {
        self.extra_specs.iter().any(|(key, value)| key == "multiattach" && value == "<is> True")
    }
}

/// All types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeTypes {
    pub by_id: BTreeMap<VolumeTypeId, Arc<VolumeType>>,
    pub made: u64,
}

impl Default for VolumeTypes {
    fn default() -> Self {
        let mut types = Self { by_id: BTreeMap::new(), made: 0 };
        types.insert(&TypeCreated {
            volume_type: DEFAULT_TYPE,
            name: "__DEFAULT__".to_owned(),
            description: Some("Default Volume Type".to_owned()),
            public: true,
            extra_specs: Vec::new(),
        });
        types
    }
}

impl VolumeTypes {
    pub fn named(&self, name: &str) -> Option<&Arc<VolumeType>> {
        self.by_id.values().find(|known| known.name == name)
    }

    fn insert(&mut self, created: &TypeCreated) {
        self.made += 1;
        let made = VolumeType {
            id: created.volume_type,
            name: created.name.clone(),
            description: created.description.clone(),
            public: created.public,
            extra_specs: created.extra_specs.clone(),
            access: BTreeSet::new(),
            number: self.made,
        };
        self.by_id.insert(created.volume_type, Arc::new(made));
    }

    fn change(&mut self, id: &VolumeTypeId, with: impl FnOnce(&mut VolumeType)) {
        if let Some(known) = self.by_id.get_mut(id) {
            with(Arc::make_mut(known));
        }
    }
}

impl Fold for VolumeTypes {
    type Event = VolumeTypeEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &VolumeTypeEvent, _: Timestamp) {
        match event {
            VolumeTypeEvent::TypeCreated(created) => self.insert(created),
            VolumeTypeEvent::TypeDescribed(now) => self.change(&now.volume_type, |known| {
                known.name.clone_from(&now.name);
                known.description.clone_from(&now.description);
                known.public = now.public;
            }),
            VolumeTypeEvent::TypeSpecsReplaced(now) => self.change(&now.volume_type, |known| {
                known.extra_specs.clone_from(&now.extra_specs);
            }),
            VolumeTypeEvent::TypeAccessGranted(granted) => self.change(&granted.volume_type, |known| {
                known.access.insert(granted.project.clone());
            }),
            VolumeTypeEvent::TypeAccessRevoked(revoked) => self.change(&revoked.volume_type, |known| {
                known.access.remove(&revoked.project);
            }),
            VolumeTypeEvent::TypeDeleted(deleted) => {
                self.by_id.remove(&deleted.volume_type);
            }
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<VolumeTypeEvent> {
    let volume_type = VolumeTypeId(Uuid::from_u128(1));
    let project = ProjectId::new("p");
    let extra_specs = vec![("multiattach".to_owned(), "<is> True".to_owned())];
    let (name, description) = ("shared".to_owned(), Some("for several servers".to_owned()));
    vec![
        TypeCreated { volume_type, name: name.clone(), description, public: true, extra_specs: extra_specs.clone() }
            .into(),
        TypeDescribed { volume_type, name, description: None, public: false }.into(),
        TypeSpecsReplaced { volume_type, extra_specs }.into(),
        TypeAccessGranted { volume_type, project: project.clone() }.into(),
        TypeAccessRevoked { volume_type, project }.into(),
        TypeDeleted { volume_type }.into(),
    ]
}
