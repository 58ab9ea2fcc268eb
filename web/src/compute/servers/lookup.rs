//! Finds the server of a path, if the caller may see it.
//!
//! Invariant: a caller who is no administrator gets 404, and never 403, for a server of another project. Nova answers
//! the same, because it does not read the rows of other projects.

use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::instance::Alive;
use chronova_projections::servers::ServerRow;

use crate::compute::reject;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::policy::{Permit, PolicyTarget};

/// A server that the caller may see, and the permit for the route's rule.
pub(in crate::compute) struct PermittedServer {
    pub(in crate::compute) id: InstanceId,
    pub(in crate::compute) row: Arc<ServerRow>,
    pub(in crate::compute) permit: Permit,
    pub(in crate::compute) target: PolicyTarget,
}

impl PermittedServer {
    pub(in crate::compute) fn server(&self) -> Result<&Alive, Fault> {
        self.row.instance.known().ok_or_else(|| reject::no_instance(self.id))
    }
}

/// The live server that the path parameter `name` names.
pub(in crate::compute) fn find(ctx: &Ctx, name: &str) -> Result<PermittedServer, Fault> {
    find_where(ctx, name, false)
}

/// The server that the path parameter `name` names. Finds a deleted server only if `deleted` is true.
pub(in crate::compute) fn find_where(ctx: &Ctx, name: &str, deleted: bool) -> Result<PermittedServer, Fault> {
    let id: InstanceId = ctx.id(name, |text| format!("Instance {text} could not be found."))?;
    let row = ctx.views()?.servers.read(|servers| servers.get(id).cloned());
    let row = row.ok_or_else(|| reject::no_instance(id))?;
    let server = if deleted { row.instance.known() } else { row.instance.alive() };
    let server = server.ok_or_else(|| reject::no_instance(id))?;
    let (project, user) = (server.request.project.clone(), server.request.user.clone());
    if !ctx.caller().is_admin && ctx.caller().project.as_ref() != Some(&project) {
        return Err(reject::no_instance(id));
    }
    let target = PolicyTarget::owned(&project, &user);
    let permit = ctx.authorize(&target)?;
    Ok(PermittedServer { id, row, permit, target })
}

/// Nova's canonical spelling of an address. The schema allows only addresses.
pub(super) fn one_spelling(address: String) -> String {
    address.parse::<std::net::IpAddr>().map_or(address, |parsed| parsed.to_string())
}
