//! Keeps the host names of servers unique: `[DEFAULT] osapi_compute_unique_server_name_scope`.
//!
//! As in Nova, host names are compared without regard to upper and lower case, and soft-deleted servers count. The read
//! models lag, so a request keeps the turn of its scope until they show its names. So if two requests for one name come
//! at the same time, the second is refused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::{Meta, Position};
use chronova_events::ids::{InstanceId, ProjectId};
use chronova_projections::views::Views;
use thiserror::Error;

use super::Operations;
use crate::aggregate::CommandError;
use crate::coordination::name_turns::NameTurns;
use crate::coordination::project_turns::ProjectTurn;
use crate::instance::creation::CreateServersRequest;
use crate::instance::{CallerRights, InstanceChange, InstanceReject, InstanceRequest, InstanceRoot};
use crate::server_options::NameScope;

/// The longest time that a turn waits for the read models, which lag by microseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Why a change of a server failed.
#[derive(Debug, Error)]
pub enum ServerChangeReject {
    #[error("a server with the host name {0} exists")]
    NameTaken(String),
    #[error(transparent)]
    Server(#[from] CommandError<InstanceReject>),
}

/// The turn of a request for new servers; `None` if names may repeat.
///
/// # Errors
/// The error is a host name that another server already has, or that two servers of the request would have.
pub(super) async fn reserve(
    turns: &NameTurns,
    views: &Views,
    scope: NameScope,
    request: &CreateServersRequest,
) -> Result<Option<ProjectTurn>, String> {
    let project = &request.template.project;
    let Some(turn) = turns.turn(scope, project).await else { return Ok(None) };
    let mut taken = taken(views, scope, project, None);
    for name in request.hostnames() {
        let name = name.to_ascii_lowercase();
        if !taken.insert(name.clone()) {
            return Err(name);
        }
    }
    Ok(Some(turn))
}

/// The host names of all servers in the scope, in lower case. The name of the server `except` is left out.
fn taken(views: &Views, scope: NameScope, project: &ProjectId, except: Option<InstanceId>) -> BTreeSet<String> {
    views.servers.read(|servers| {
        let alive = servers.all().filter(|row| Some(row.id) != except).filter_map(|row| row.instance.alive());
        let inside = alive.filter(|server| scope == NameScope::Global || server.request.project == *project);
        inside.map(|server| server.request.hostname.to_ascii_lowercase()).collect()
    })
}

impl Operations {
    /// Changes a server of `project`.
    ///
    /// # Errors
    /// Another server has the new host name, or the server refuses. In both cases, nothing is changed. If the log is
    /// not available, the caller does not know whether the server was changed.
    pub async fn change_server(
        &self,
        meta: Arc<Meta>,
        (id, project): (InstanceId, &ProjectId),
        changes: Vec<InstanceChange>,
        asker: CallerRights,
    ) -> Result<Position, ServerChangeReject> {
        let (scope, views) = (self.reconcile.server_options.name_scope, &self.queries.views);
        let renamed = changes.iter().find_map(|change| match change {
            InstanceChange::Hostname(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        let turn = match &renamed {
            Some(_) => self.names.turn(scope, project).await,
            None => None,
        };
        if let Some(name) = renamed.filter(|_| turn.is_some())
            && taken(views, scope, project, Some(id)).contains(&name)
        {
            return Err(ServerChangeReject::NameTaken(name));
        }
        let request = InstanceRequest::Change { changes, asker };
        let position = self.gateway.send::<InstanceRoot>(&id, request, meta).await?.position;
        if turn.is_some() {
            views.wait_for(position, PATIENCE).await;
        }
        Ok(position)
    }
}
