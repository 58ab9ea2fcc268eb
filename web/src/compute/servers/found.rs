//! The server that a path names, if the caller may know of it.
//!
//! Invariant: a server of another project does not exist for those who are not administrators (404, never 403), as in
//! Nova, where the rows of other projects are not read.

use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::instance::Alive;
use chronova_projections::servers::ServerRow;

use crate::compute::reject;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::policy::{Permit, Target};

/// A server that the caller may know of, and the permit for the route's rule.
pub(in crate::compute) struct Found {
    pub(in crate::compute) id: InstanceId,
    pub(in crate::compute) row: Arc<ServerRow>,
    pub(in crate::compute) permit: Permit,
    pub(in crate::compute) target: Target,
}

impl Found {
    pub(in crate::compute) fn server(&self) -> Result<&Alive, Fault> {
        self.row.instance.known().ok_or_else(|| reject::no_instance(self.id))
    }
}

/// The live server that the path parameter `name` names.
pub(in crate::compute) fn find(ctx: &Ctx, name: &str) -> Result<Found, Fault> {
    find_where(ctx, name, false)
}

/// As [`find`]; `deleted` ones too where asked for.
pub(in crate::compute) fn find_where(ctx: &Ctx, name: &str, deleted: bool) -> Result<Found, Fault> {
    let id: InstanceId = ctx.id(name, |text| format!("Instance {text} could not be found."))?;
    let row = ctx.views()?.servers.read(|servers| servers.get(id).cloned());
    let row = row.ok_or_else(|| reject::no_instance(id))?;
    let server = if deleted { row.instance.known() } else { row.instance.alive() };
    let server = server.ok_or_else(|| reject::no_instance(id))?;
    let (project, user) = (server.request.project.clone(), server.request.user.clone());
    if !ctx.caller().is_admin && ctx.caller().project.as_ref() != Some(&project) {
        return Err(reject::no_instance(id));
    }
    let target = Target::owned(&project, &user);
    let permit = ctx.authorize(&target)?;
    Ok(Found { id, row, permit, target })
}

/// In the one spelling in which Nova keeps addresses. The schema let only addresses through.
pub(super) fn one_spelling(address: String) -> String {
    address.parse::<std::net::IpAddr>().map_or(address, |parsed| parsed.to_string())
}
