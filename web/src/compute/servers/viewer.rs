//! Builds the views of servers from their rows and the parts of other read models.

use std::collections::HashMap as StdHashMap;
use std::sync::Arc;
use std::vec::IntoIter;

use chronova_actors::operations::Queries;
use chronova_actors::ports::FloatingAddress;
use chronova_events::ids::{HostId, InstanceId, PortId};
use chronova_events::instance::{Alive, NicInfo};
use chronova_projections::servers::ServerRow;
use chronova_projections::views::Views;
use foldhash::fast::RandomState;
use serde_json::Value;

use super::security_groups;
use crate::compute::views::server::{SERVER, ServerView, ServerVisibility, host_status};
use crate::compute::{reject, zones};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::links::Links;

/// A list looks into these maps for each server, so they use a fast hash.
type HashMap<K, V> = StdHashMap<K, V, RandomState>;

/// The caller's visibility of servers. The policy is checked once per request.
pub(super) fn sees(ctx: &Ctx, groups: bool, brief: bool) -> Result<Arc<ServerVisibility>, Fault> {
    let own = ctx.own_target();
    Ok(ctx.app.compute.rendered.same(ServerVisibility {
        // The links do not depend on the request's path. An empty path lets requests to all paths use the same rendered
        // servers.
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

/// The security groups and floating IPs of the servers of an answer, from the network service.
#[derive(Default)]
struct Connected {
    /// The groups of each server, in the order of the rows. Deleted servers have no entry.
    groups: IntoIter<(InstanceId, Vec<String>)>,
    floating: HashMap<PortId, Vec<FloatingAddress>>,
}

impl Connected {
    /// Asks the network service about all servers of the answer at once.
    async fn of(ctx: &Ctx, rows: &[Arc<ServerRow>], brief: bool) -> Result<Self, Fault> {
        let networks = ctx.networks()?;
        let servers: Vec<_> = rows.iter().filter_map(|row| Some((row.id, row.server()?))).collect();
        let groups = match brief {
            true => Vec::new(),
            false => {
                let names = security_groups::names(ctx, networks.as_deref(), &servers).await?;
                servers.iter().map(|(id, _)| *id).zip(names).collect()
            }
        };
        let ports: Vec<PortId> = servers.iter().flat_map(|(_, server)| &server.nics).map(|nic| nic.port).collect();
        let floating = match networks {
            Some(networks) => networks.floating_addresses(&ports, &ctx.service_caller()).await,
            None => Ok(Vec::new()),
        };
        let mut by_port: HashMap<PortId, Vec<FloatingAddress>> = HashMap::default();
        for address in floating.map_err(reject::network)? {
            by_port.entry(address.port).or_default().push(address);
        }
        Ok(Self { groups: groups.into_iter(), floating: by_port })
    }

    /// The security groups of a server. The caller must ask in the order of the rows.
    fn groups_of(&mut self, server: InstanceId) -> Vec<String> {
        let is_next = self.groups.as_slice().first().is_some_and(|(next, _)| *next == server);
        if is_next { self.groups.next().map(|(_, names)| names).unwrap_or_default() } else { Vec::new() }
    }

    fn floating_of(&self, server: &Alive) -> Vec<FloatingAddress> {
        if self.floating.is_empty() {
            return Vec::new();
        }
        let of = |nic: &NicInfo| self.floating.get(&nic.port).into_iter().flatten().cloned();
        server.nics.iter().flat_map(of).collect()
    }
}

/// Builds the views of servers from their rows and from other read models.
pub(super) struct Viewer<'a> {
    queries: &'a Queries,
    views: &'a Views,
    sees: Arc<ServerVisibility>,
    /// The status and the zone of each host that was looked up already.
    hosts: HashMap<HostId, (&'static str, Arc<str>)>,
    connected: Connected,
}

impl<'a> Viewer<'a> {
    /// Creates a viewer that can show these rows only.
    pub(super) async fn new(ctx: &'a Ctx, rows: &[Arc<ServerRow>], groups: bool, brief: bool) -> Result<Self, Fault> {
        Self::of(ctx, rows, sees(ctx, groups, brief)?).await
    }

    async fn of(ctx: &'a Ctx, rows: &[Arc<ServerRow>], sees: Arc<ServerVisibility>) -> Result<Self, Fault> {
        let connected = Connected::of(ctx, rows, sees.brief).await?;
        Ok(Self { queries: ctx.queries()?, views: ctx.views()?, sees, hosts: HashMap::default(), connected })
    }

    /// The caller must pass the rows in the order in which it gave them to [`Viewer::new`]. `None` if no server was
    /// ever requested with the row's id.
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
        view.security_groups = self.connected.groups_of(row.id);
        view.floating = row.server().map(|server| self.connected.floating_of(server)).unwrap_or_default();
        if self.sees.groups {
            view.group =
                self.views.server_groups.read(|groups| groups.of_server(row.id).map(|group| group.definition.group));
        }
        Some(view)
    }
}

/// The server as the read model shows it now, in full.
pub(super) async fn render(ctx: &Ctx, id: InstanceId, sees: &Arc<ServerVisibility>) -> Result<Value, Fault> {
    let row = ctx.views()?.servers.read(|servers| servers.get(id).cloned());
    let row = row.ok_or_else(|| reject::no_instance(id))?;
    let mut viewer = Viewer::of(ctx, std::slice::from_ref(&row), Arc::clone(sees)).await?;
    let view = viewer.view(&row).ok_or_else(|| reject::no_instance(id))?;
    Ok(SERVER.render(&view, ctx.version))
}
