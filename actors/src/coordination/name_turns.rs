//! If host names must be unique, the requests that give them to servers take turns. If two members took turns
//! separately, two servers would get one name.
//!
//! A request looks for its names in the read models. The read models lag, so the request keeps its turn until the read
//! models show its servers. The turns are in memory only, because no request is under way after a crash.

use chronova_events::ids::ProjectId;

use super::project_turns::{ProjectTurn, ProjectTurns};
use crate::server_options::NameScope;

/// The turns of all scopes.
#[derive(Debug, Default)]
pub struct NameTurns(ProjectTurns);

impl NameTurns {
    /// Waits for the turn of the scope; `None` if names may repeat. The caller drops the turn when the read models show
    /// the caller's names.
    pub(crate) async fn turn(&self, scope: NameScope, project: &ProjectId) -> Option<ProjectTurn> {
        match scope {
            NameScope::Unbound => None,
            NameScope::Project => Some(self.0.turn(project).await),
            NameScope::Global => Some(self.0.turn(&ProjectId::new("")).await),
        }
    }
}
