//! The flavor catalogue.

pub mod decide;

use chronova_events::envelope::StreamId;
use chronova_events::flavor::{FlavorCreated, FlavorEvent, Flavors};
use chronova_events::ids::{FlavorId, ProjectId};
use thiserror::Error;

use crate::aggregate::AggregateRoot;

/// The id of the only catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlavorCatalogueId;

#[derive(Debug, Clone, Copy)]
pub enum FlavorRoot {}

#[derive(Debug, Clone)]
pub enum FlavorCommand {
    Create(FlavorCreated),
    Delete {
        flavor: FlavorId,
    },
    Describe {
        flavor: FlavorId,
        description: Option<String>,
    },
    /// Adds or changes the given extra specs, and keeps the others.
    SetExtraSpecs {
        flavor: FlavorId,
        extra_specs: Vec<(String, String)>,
    },
    RemoveExtraSpec {
        flavor: FlavorId,
        key: String,
    },
    /// `even_public`: accept a grant for a public flavor (the API before 2.7). Such a grant has no effect.
    GrantAccess {
        flavor: FlavorId,
        project: ProjectId,
        even_public: bool,
    },
    RevokeAccess {
        flavor: FlavorId,
        project: ProjectId,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlavorReject {
    #[error("flavor {0} could not be found")]
    NotFound(FlavorId),
    #[error("flavor with name {0} already exists")]
    NameTaken(String),
    #[error("flavor with id {0} already exists")]
    IdTaken(FlavorId),
    #[error("flavor {flavor} has no extra spec {key}")]
    NoSuchExtraSpec { flavor: FlavorId, key: String },
    #[error("a public flavor has no access list")]
    Public(FlavorId),
    #[error("project {project} may use flavor {flavor} already")]
    AccessExists { flavor: FlavorId, project: ProjectId },
    #[error("project {project} may not use flavor {flavor}")]
    NoAccess { flavor: FlavorId, project: ProjectId },
}

impl AggregateRoot for FlavorRoot {
    type Id = FlavorCatalogueId;
    type State = Flavors;
    type Command = FlavorCommand;
    type Reject = FlavorReject;

    fn stream(_: &FlavorCatalogueId) -> StreamId {
        StreamId::new("flavor", "catalogue")
    }

    fn decide(state: &Flavors, command: FlavorCommand) -> Result<Vec<FlavorEvent>, FlavorReject> {
        decide::decide(state, command)
    }
}
