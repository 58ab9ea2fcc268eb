//! Listing servers.
//!
//! A list costs what it shows: the read model keeps the servers of each project and of all in the default order. Only
//! other orders, deleted servers, and filters that few pass look at more.

use std::cmp::Ordering;
use std::sync::Arc;

use chronova_events::instance::Alive;
use chronova_events::instance::status;
use chronova_projections::servers::ServerRow;

use super::filters::{Deleted, Wanted};
use crate::compute::paging::{self, Page};
use crate::compute::versions;
use crate::compute::views::server::{BRIEF, SERVER, ServerView};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::fields::{self, FieldTable};
use crate::reply::Reply;

pub(super) async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "os_compute_api:servers:index:get_all_tenants", "servers", &BRIEF)
}

pub(super) async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "os_compute_api:servers:detail:get_all_tenants", "servers/detail", &SERVER)
}

fn list(
    ctx: &Ctx,
    list_all: &'static str,
    collection: &str,
    table: &'static FieldTable<ServerView>,
) -> Result<Reply, Fault> {
    let wanted = Wanted::read(ctx, list_all)?;
    let page = rows(ctx, &wanted)?;
    Ok(Reply::json_text(200, text(ctx, &page, collection, table)?))
}

/// The answer as text. Nothing is looked up twice for servers on the same host.
fn text(
    ctx: &Ctx,
    page: &Page<Arc<ServerRow>>,
    collection: &str,
    table: &'static FieldTable<ServerView>,
) -> Result<Vec<u8>, Fault> {
    let mut viewer = super::Viewer::new(ctx, false)?;
    let mut out = Vec::with_capacity(64 + page.items.len() * ROW);
    out.extend_from_slice(b"{\"servers\":[");
    let mut shown = 0;
    for row in &page.items {
        let Some(view) = viewer.view(row) else { continue };
        if shown > 0 {
            out.push(b',');
        }
        shown += 1;
        if ctx.is_past() {
            table.write(&view, ctx.version, &mut out);
        } else {
            ctx.app.compute.rendered.write(table, &view, ctx.version, &mut out);
        }
    }
    out.push(b']');
    if page.more
        && let Some(last) = page.items.last()
    {
        out.extend_from_slice(b",\"servers_links\":");
        fields::append(&mut out, &paging::next(ctx, collection, &last.id.to_string()));
    }
    out.push(b'}');
    Ok(out)
}

/// About as long is a server in full.
const ROW: usize = 2_048;

fn rows(ctx: &Ctx, wanted: &Wanted) -> Result<Page<Arc<ServerRow>>, Fault> {
    let limit = paging::limit(ctx)?;
    if wanted.nothing {
        return Ok(Page { items: Vec::new(), more: false });
    }
    let order = order(ctx)?;
    let views = ctx.views()?;
    let marker = ctx.query.first("marker");
    // The common case: servers that are there, newest first, straight from the index.
    if let (Deleted::No, true) = (wanted.deleted, order.is_empty()) {
        let after = marker.map(|text| text.parse().map_err(|_| no_marker(text))).transpose()?;
        return views.servers.read(|servers| {
            let rows = servers.newest(wanted.project.as_ref(), after);
            let rows = rows.ok_or_else(|| no_marker(marker.unwrap_or_default()))?;
            let items: Vec<_> = rows.filter(|row| wanted.holds(row)).take(limit).cloned().collect();
            let more = limit > 0 && items.len() == limit;
            Ok(Page { items, more })
        });
    }
    let mut all: Vec<Arc<ServerRow>> =
        views.servers.read(|servers| servers.all().filter(|row| wanted.holds(row)).cloned().collect());
    all.sort_by(|a, b| compare(&order, a, b));
    let after = match marker {
        Some(marker) => all.iter().position(|row| row.id.to_string() == marker).ok_or_else(|| no_marker(marker))? + 1,
        None => 0,
    };
    let items: Vec<_> = all.into_iter().skip(after).take(limit).collect();
    let more = limit > 0 && items.len() == limit;
    Ok(Page { items, more })
}

fn no_marker(marker: &str) -> Fault {
    Fault::bad_request(format!("marker [{marker}] not found"))
}

/// Keys and whether each descends; empty for the default, newest first.
fn order(ctx: &Ctx) -> Result<Vec<(String, bool)>, Fault> {
    let mut directions = ctx.query.all("sort_dir");
    let mut order = Vec::new();
    for key in ctx.query.all("sort_key") {
        if matches!(key, "host" | "node") && !ctx.caller().is_admin {
            return Err(Fault::forbidden("Only administrators can sort servers by host or node"));
        }
        let descends = match directions.next() {
            None | Some("desc") => true,
            Some("asc") => false,
            Some(other) => return Err(Fault::bad_request(format!("Unknown sort direction: {other}"))),
        };
        if key != "locked" || versions::sorts_by_locked(ctx.version) {
            order.push((key.to_owned(), descends));
        }
    }
    if order.is_empty() && ctx.query.first("sort_dir") == Some("asc") {
        order.push(("created_at".to_owned(), false));
    }
    Ok(order)
}

fn compare(order: &[(String, bool)], a: &Arc<ServerRow>, b: &Arc<ServerRow>) -> Ordering {
    let (Some(left), Some(right)) = (a.server(), b.server()) else { return Ordering::Equal };
    for (key, descends) in order {
        let ordering = by_key(key, (a, left), (b, right));
        if ordering.is_ne() {
            return if *descends { ordering.reverse() } else { ordering };
        }
    }
    // Nova ends every order with the newest first.
    (right.created_at, b.id).cmp(&(left.created_at, a.id))
}

fn by_key(key: &str, (a, left): (&ServerRow, &Alive), (b, right): (&ServerRow, &Alive)) -> Ordering {
    let text = |of: fn(&Alive) -> Option<&str>| of(left).cmp(&of(right));
    let state = |row: &ServerRow| status::of(&row.instance);
    match key {
        "created_at" => left.created_at.cmp(&right.created_at),
        "updated_at" => left.updated_at.cmp(&right.updated_at),
        "launched_at" => left.launched_at.cmp(&right.launched_at),
        "terminated_at" => left.terminated_at.cmp(&right.terminated_at),
        "display_name" => text(|s| Some(&s.request.name)),
        "display_description" => text(|s| s.request.description.as_deref()),
        "hostname" => text(|s| Some(&s.request.hostname)),
        "availability_zone" => text(|s| {
            s.placement.as_ref().map(|placed| &*placed.availability_zone).or(s.request.availability_zone.as_deref())
        }),
        "host" | "node" => text(|s| s.placement.as_ref().map(|placed| &*placed.hostname)),
        "key_name" => text(|s| s.request.key.as_ref().map(|key| &*key.name)),
        "project_id" => text(|s| Some(s.request.project.as_str())),
        "user_id" => text(|s| Some(s.request.user.as_str())),
        "access_ip_v4" => text(|s| s.request.access_ip_v4.as_deref()),
        "access_ip_v6" => text(|s| s.request.access_ip_v6.as_deref()),
        "image_ref" => {
            let id = |s: &Alive| s.request.image.as_ref().map(|image| image.id);
            id(left).cmp(&id(right))
        }
        "instance_type_id" => left.request.flavor.id.cmp(&right.request.flavor.id),
        "config_drive" => left.request.config_drive.cmp(&right.request.config_drive),
        "launch_index" => left.request.launch_index.cmp(&right.request.launch_index),
        "locked" | "locked_by" => left.lock.is_some().cmp(&right.lock.is_some()),
        "uuid" => a.id.cmp(&b.id),
        "vm_state" => state(a).map(|s| s.vm_state).cmp(&state(b).map(|s| s.vm_state)),
        "task_state" => state(a).map(|s| s.task_state).cmp(&state(b).map(|s| s.task_state)),
        "power_state" => state(a).map(|s| s.power_state).cmp(&state(b).map(|s| s.power_state)),
        _ => Ordering::Equal,
    }
}
