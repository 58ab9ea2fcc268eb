//! Servers: creating, showing, changing and deleting them, their subresources, and the actions on them.

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
pub(super) mod lookup;
pub(super) mod metadata;
pub(super) mod moves;
pub(super) mod parts;
mod scheduling;
pub(super) mod security_groups;
pub(super) mod shares;
pub(super) mod tags;
mod topology;
mod viewer;
pub(super) mod volumes;
pub(super) mod volumes_boot;
pub(super) mod work;

use chronova_actors::hosts::readings::HostReadings;
use serde_json::json;

use self::lookup::{PermittedServer, find};
use self::viewer::{render, sees};
use super::bodies::{no_query, servers as bodies};
use crate::answers::no_content;
use crate::compute::answers::servers as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("servers.index", "/servers", handler!(list::index))
        .policy("os_compute_api:servers:index")
        .query(bodies::index_query)
        .as_of()
        .answers(answers::index),
    get("servers.detail", "/servers/detail", handler!(list::detail))
        .policy("os_compute_api:servers:detail")
        .query(bodies::index_query)
        .as_of()
        .answers(answers::detail),
    post("servers.create", "/servers", handler!(create::create))
        .policy("os_compute_api:servers:create")
        .body(bodies::create_body)
        .answers(answers::create),
    get("servers.show", "/servers/{id}", handler!(show))
        .policy_on_target("os_compute_api:servers:show")
        .query(no_query)
        .as_of()
        .answers(answers::show),
    get("servers.scheduling", "/servers/{id}/chronova:scheduling", handler!(scheduling::show))
        .policy_on_target("os_compute_api:os-extended-server-attributes")
        .query(no_query)
        .answers(answers::scheduling),
    put("servers.update", "/servers/{id}", handler!(change::update))
        .policy_on_target("os_compute_api:servers:update")
        .body(bodies::update_body)
        .answers(answers::show),
    delete("servers.delete", "/servers/{id}", handler!(change::delete))
        .policy_on_target("os_compute_api:servers:delete")
        .answers(no_content),
];

/// The server's host, if the server has a host and this host answers.
pub(in crate::compute) fn host_of(ctx: &Ctx, found: &PermittedServer) -> Result<HostReadings, Fault> {
    actions::host(ctx, found)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let found = find(&ctx, "id")?;
    Ok(Reply::ok(json!({"server": render(&ctx, found.id, &sees(&ctx, true, false)?).await?})))
}
