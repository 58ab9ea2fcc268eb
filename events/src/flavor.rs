//! The flavors: one stream for the whole catalogue, because names and ids are unique in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::envelope::Timestamp;
use crate::fold::Fold;
use crate::ids::{FlavorId, ProjectId};

noun! {
    /// Events of flavors.
    FlavorEvent = "flavor" {
        /// A flavor was created.
        FlavorCreated = "created" @ 1,
        /// A flavor was deleted; its servers keep their copy.
        FlavorDeleted = "deleted" @ 1,
        /// The description of a flavor was changed or removed (2.55).
        FlavorDescribed = "described" @ 1,
        /// The extra specs of a flavor are now these.
        ExtraSpecsReplaced = "extra_specs_replaced" @ 1,
        /// A project may use a flavor that is not public.
        AccessGranted = "access_granted" @ 1,
        /// A project may no longer use a flavor that is not public.
        AccessRevoked = "access_revoked" @ 1,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlavorCreated {
    pub flavor: FlavorId,
    pub name: String,
    pub vcpus: u32,
    pub memory_mib: u64,
    pub root_gib: u32,
    pub ephemeral_gib: u32,
    pub swap_mib: u32,
    pub rxtx_factor: f64,
    pub public: bool,
    pub disabled: bool,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlavorDeleted {
    pub flavor: FlavorId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlavorDescribed {
    pub flavor: FlavorId,
    pub description: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExtraSpecsReplaced {
    pub flavor: FlavorId,
    /// Key and value, sorted by key.
    pub extra_specs: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessGranted {
    pub flavor: FlavorId,
    pub project: ProjectId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccessRevoked {
    pub flavor: FlavorId,
    pub project: ProjectId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flavor {
    pub definition: FlavorCreated,
    pub extra_specs: Vec<(String, String)>,
    pub access: BTreeSet<ProjectId>,
    pub created_at: Timestamp,
    pub updated_at: Option<Timestamp>,
    /// The flavor's number in the order of creation, deleted flavors included.
    pub number: u64,
}

impl Flavor {
    /// Whether `project` may create servers from the flavor.
    pub fn visible_to(&self, project: &ProjectId) -> bool {
        self.definition.public || self.access.contains(project)
    }
}

/// All flavors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Flavors {
    pub by_id: BTreeMap<FlavorId, Arc<Flavor>>,
    pub made: u64,
}

impl Flavors {
    pub fn named(&self, name: &str) -> Option<&Arc<Flavor>> {
        self.by_id.values().find(|flavor| flavor.definition.name == name)
    }

    fn change(&mut self, id: &FlavorId, at: Timestamp, with: impl FnOnce(&mut Flavor)) {
        if let Some(flavor) = self.by_id.get_mut(id) {
            let flavor = Arc::make_mut(flavor);
            flavor.updated_at = Some(at);
            with(flavor);
        }
    }
}

impl Fold for Flavors {
    type Event = FlavorEvent;
    const STATE_VERSION: u32 = 1;

    fn evolve(&mut self, event: &FlavorEvent, at: Timestamp) {
        match event {
            FlavorEvent::FlavorCreated(created) => {
                self.made += 1;
                let flavor = Flavor {
                    definition: created.clone(),
                    extra_specs: Vec::new(),
                    access: BTreeSet::new(),
                    created_at: at,
                    updated_at: None,
                    number: self.made,
                };
                self.by_id.insert(created.flavor.clone(), Arc::new(flavor));
            }
            FlavorEvent::FlavorDeleted(deleted) => {
                self.by_id.remove(&deleted.flavor);
            }
            FlavorEvent::FlavorDescribed(described) => self.change(&described.flavor, at, |flavor| {
                flavor.definition.description.clone_from(&described.description);
            }),
            FlavorEvent::ExtraSpecsReplaced(replaced) => self.change(&replaced.flavor, at, |flavor| {
                flavor.extra_specs.clone_from(&replaced.extra_specs);
            }),
            FlavorEvent::AccessGranted(granted) => self.change(&granted.flavor, at, |flavor| {
                flavor.access.insert(granted.project.clone());
            }),
            FlavorEvent::AccessRevoked(revoked) => self.change(&revoked.flavor, at, |flavor| {
                flavor.access.remove(&revoked.project);
            }),
        }
    }
}

/// One example of each event.
pub fn samples() -> Vec<FlavorEvent> {
    let flavor = FlavorId::new("42");
    let project = ProjectId::new("p");
    vec![
        FlavorCreated {
            flavor: flavor.clone(),
            name: "m1.small".into(),
            vcpus: 1,
            memory_mib: 2048,
            root_gib: 20,
            ephemeral_gib: 0,
            swap_mib: 0,
            rxtx_factor: 1.0,
            public: true,
            disabled: false,
            description: Some("small".into()),
        }
        .into(),
        FlavorDeleted { flavor: flavor.clone() }.into(),
        FlavorDescribed { flavor: flavor.clone(), description: None }.into(),
        ExtraSpecsReplaced { flavor: flavor.clone(), extra_specs: vec![("hw:cpu_policy".into(), "shared".into())] }
            .into(),
        AccessGranted { flavor: flavor.clone(), project: project.clone() }.into(),
        AccessRevoked { flavor, project }.into(),
    ]
}
