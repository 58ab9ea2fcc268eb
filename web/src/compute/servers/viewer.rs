//! Servers as answers show them: rows with what their views need of other read models.

use std::collections::HashMap;
use std::sync::Arc;

use chronova_actors::operations::Queries;
use chronova_events::ids::{HostId, InstanceId};
use chronova_projections::networks::Networks;
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;
use serde_json::Value;

use super::security_groups;
use crate::compute::views::server::{SERVER, Sees, ServerView, floating, host_status};
use crate::compute::{reject, zones};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::links::Links;

/// What the caller sees of servers; asked once per request.
pub(super) fn sees(ctx: &Ctx, groups: bool, brief: bool) -> Result<Arc<Sees>, Fault> {
    let own = ctx.own_target();
    Ok(ctx.app.compute.rendered.same(Sees {
        // The same for every path: what was written for one request is right for another.
        links: Links { path: String::new(), ..ctx.links.clone() },
        extended: ctx.allows("os_compute_api:os-extended-server-attributes", &own),
        host_status: ctx.allows("os_compute_api:servers:show:host_status", &own),
        host_status_unknown: ctx.allows("os_compute_api:servers:show:host_status:unknown-only", &own),
        extra_specs: ctx.allows("os_compute_api:os-flavor-extra-specs:index", &own),
        fault_details: ctx.caller().is_admin,
        groups,
        brief,
        names: Arc::clone(&ctx.queries()?.server_options.instance_name_template),
    }))
}

/// Makes views of rows with what they need of other read models.
pub(super) struct Viewer<'a> {
    queries: &'a Queries,
    views: &'a Views,
    sees: Arc<Sees>,
    /// What was found of hosts already: whether each answers, and its zone.
    hosts: HashMap<HostId, (&'static str, Arc<str>)>,
    /// Whether any server has a floating address: they are few where they are at all.
    floats: bool,
}

impl<'a> Viewer<'a> {
    pub(super) fn new(ctx: &'a Ctx, groups: bool, brief: bool) -> Result<Self, Fault> {
        Ok(Self::of(ctx.queries()?, ctx.views()?, sees(ctx, groups, brief)?))
    }

    fn of(queries: &'a Queries, views: &'a Views, sees: Arc<Sees>) -> Self {
        let floats = views.networks.read(Networks::any_floats);
        Self { queries, views, sees, hosts: HashMap::new(), floats }
    }

    /// `None` for a row whose server was never asked for.
    pub(super) fn view(&mut self, row: &Arc<ServerRow>) -> Option<ServerView> {
        let placed = row.server().and_then(|server| server.placement.as_ref()).map(|placed| placed.host);
        let mut view = ServerView::new(Arc::clone(row), None, &self.sees)?;
        if let Some(host) = placed {
            let (status, zone) = self.hosts.entry(host).or_insert_with(|| {
                let status = self.views.hosts.read(|hosts| host_status(hosts.get(host)));
                (status, zones::of_host(self.queries, self.views, host).into())
            });
            (view.host_status, view.zone) = (status, Some(Arc::clone(zone)));
        }
        if let Some(server) = row.server().filter(|_| !self.sees.brief) {
            view.security_groups = security_groups::names(self.views, row.id, server);
        }
        if let Some(server) = row.server().filter(|_| self.floats) {
            view.floating = self.views.networks.read(|networks| floating(networks, &server.nics));
        }
        if self.sees.groups {
            view.group =
                self.views.server_groups.read(|groups| groups.of_server(row.id).map(|group| group.definition.group));
        }
        Some(view)
    }
}

/// A row with what the view needs of other read models.
pub(super) fn view(ctx: &Ctx, row: &Arc<ServerRow>, sees: &Arc<Sees>) -> Result<Option<ServerView>, Fault> {
    let (queries, views) = (ctx.queries()?, ctx.views()?);
    Ok(Viewer::of(queries, views, Arc::clone(sees)).view(row))
}

/// The server as the read model shows it now, in full.
pub(super) fn render(ctx: &Ctx, id: InstanceId, sees: &Arc<Sees>) -> Result<Value, Fault> {
    let row = ctx.views()?.servers.read(|servers| servers.get(id).cloned());
    let row = row.ok_or_else(|| reject::no_instance(id))?;
    let view = view(ctx, &row, sees)?.ok_or_else(|| reject::no_instance(id))?;
    Ok(SERVER.render(&view, ctx.version))
}
