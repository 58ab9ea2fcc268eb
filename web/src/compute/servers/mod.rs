//! Servers: creating, showing, changing and deleting them.
//!
//! Invariant: a server of another project does not exist for those who are not administrators (404, never 403), as in
//! Nova, where the rows of other projects are not read.

pub(super) mod action_log;
pub(super) mod actions;
pub(super) mod admin;
mod change;
mod create;
pub(super) mod evacuate;
pub(super) mod filters;
pub(super) mod interfaces;
mod list;
pub(super) mod live;
pub(super) mod metadata;
pub(super) mod moves;
pub(super) mod parts;
mod scheduling;
pub(super) mod security_groups;
pub(super) mod shares;
pub(super) mod tags;
mod topology;
pub(super) mod volumes;
pub(super) mod volumes_boot;
pub(super) mod work;

use std::collections::HashMap;
use std::sync::Arc;

use chronova_actors::house::House;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::Alive;
use chronova_hypervisor::driver::Driver;
use chronova_projections::networks::Networks;
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;
use serde_json::{Value, json};

use super::bodies::{no_query, servers as bodies};
use super::views::server::{SERVER, Sees, ServerView, floating, host_status};
use super::{reject, zones};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::links::Links;
use crate::policy::{Permit, Target};
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("servers.index", "/servers", handler!(list::index))
        .policy("os_compute_api:servers:index")
        .query(bodies::index_query)
        .as_of(),
    get("servers.detail", "/servers/detail", handler!(list::detail))
        .policy("os_compute_api:servers:detail")
        .query(bodies::index_query)
        .as_of(),
    post("servers.create", "/servers", handler!(create::create))
        .policy("os_compute_api:servers:create")
        .body(bodies::create_body),
    get("servers.show", "/servers/{id}", handler!(show))
        .policy_on_target("os_compute_api:servers:show")
        .query(no_query)
        .as_of(),
    get("servers.scheduling", "/servers/{id}/chronova:scheduling", handler!(scheduling::show))
        .policy_on_target("os_compute_api:os-extended-server-attributes")
        .query(no_query),
    put("servers.update", "/servers/{id}", handler!(change::update))
        .policy_on_target("os_compute_api:servers:update")
        .body(bodies::update_body),
    delete("servers.delete", "/servers/{id}", handler!(change::delete))
        .policy_on_target("os_compute_api:servers:delete"),
];

/// A server that the caller may know of, and the permit for the route's rule.
pub(in crate::compute) struct Found {
    pub(in crate::compute) id: InstanceId,
    pub(super) row: Arc<ServerRow>,
    pub(in crate::compute) permit: Permit,
    pub(super) target: Target,
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

/// The driver of the server's host, where it has one that answers.
pub(in crate::compute) fn host_driver(ctx: &Ctx, found: &Found) -> Result<Arc<dyn Driver>, Fault> {
    actions::driver(ctx, found)
}

/// As [`find`]; `deleted` ones too where asked for.
pub(super) fn find_where(ctx: &Ctx, name: &str, deleted: bool) -> Result<Found, Fault> {
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
fn one_spelling(address: String) -> String {
    address.parse::<std::net::IpAddr>().map_or(address, |parsed| parsed.to_string())
}

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
        names: Arc::clone(&ctx.house()?.options.instance_name_template),
    }))
}

/// Makes views of rows with what they need of other read models.
pub(super) struct Viewer<'a> {
    house: &'a House,
    views: &'a Views,
    sees: Arc<Sees>,
    /// What was found of hosts already: whether each answers, and its zone.
    hosts: HashMap<HostId, (&'static str, Arc<str>)>,
    /// Whether any server has a floating address: they are few where they are at all.
    floats: bool,
}

impl<'a> Viewer<'a> {
    pub(super) fn new(ctx: &'a Ctx, groups: bool, brief: bool) -> Result<Self, Fault> {
        Ok(Self::of(ctx.house()?, ctx.views()?, sees(ctx, groups, brief)?))
    }

    fn of(house: &'a House, views: &'a Views, sees: Arc<Sees>) -> Self {
        let floats = views.networks.read(Networks::any_floats);
        Self { house, views, sees, hosts: HashMap::new(), floats }
    }

    /// `None` for a row whose server was never asked for.
    pub(super) fn view(&mut self, row: &Arc<ServerRow>) -> Option<ServerView> {
        let placed = row.server().and_then(|server| server.placement.as_ref()).map(|placed| placed.host);
        let mut view = ServerView::new(Arc::clone(row), None, &self.sees)?;
        if let Some(host) = placed {
            let (status, zone) = self.hosts.entry(host).or_insert_with(|| {
                let status = self.views.hosts.read(|hosts| host_status(hosts.get(host)));
                (status, zones::of_host(self.house, self.views, host).into())
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
    let (house, views) = (ctx.house()?, ctx.views()?);
    Ok(Viewer::of(house, views, Arc::clone(sees)).view(row))
}

/// The server as the read model shows it now, in full.
pub(super) fn render(ctx: &Ctx, id: InstanceId, sees: &Arc<Sees>) -> Result<Value, Fault> {
    let row = ctx.views()?.servers.read(|servers| servers.get(id).cloned());
    let row = row.ok_or_else(|| reject::no_instance(id))?;
    let view = view(ctx, &row, sees)?.ok_or_else(|| reject::no_instance(id))?;
    Ok(SERVER.render(&view, ctx.version))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    Ok(Reply::ok(json!({"server": render(&ctx, found.id, &sees(&ctx, true, false)?)?})))
}
