//! Listing servers.
//!
//! The cost of a list in the default order depends only on the size of the page. For this, the read model keeps each
//! project's servers, and all servers, in this order. A list of changes reads only the servers that changed. Other
//! orders, deleted servers, selective filters and patterns read more rows, but none of other projects. Patterns are
//! matched outside the read model's lock, so other projects do not wait for them.

use std::cmp::Ordering;
use std::sync::Arc;

use chronova_events::ids::InstanceId;
use chronova_events::instance::Alive;
use chronova_events::instance::status;
use chronova_projections::servers::ServerRow;

use super::filters::{self, DeletedFilter, ServerListQuery};
use crate::compute::bodies::servers as bodies;
use crate::compute::paging::{self, ResultPage};
use crate::compute::versions;
use crate::compute::views::server::{BRIEF, SERVER, ServerView};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::fields::{self, FieldTable};
use crate::query;
use crate::reply::Reply;

pub(super) async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "os_compute_api:servers:index:get_all_tenants", "servers", &BRIEF).await
}

pub(super) async fn detail(ctx: Ctx) -> Result<Reply, Fault> {
    list(&ctx, "os_compute_api:servers:detail:get_all_tenants", "servers/detail", &SERVER).await
}

async fn list(
    ctx: &Ctx,
    list_all: &'static str,
    collection: &str,
    table: &'static FieldTable<ServerView>,
) -> Result<Reply, Fault> {
    let wanted = ServerListQuery::read(ctx, list_all)?;
    let page = rows(ctx, &wanted)?;
    Ok(Reply::json_text(200, text(ctx, &page, collection, table).await?))
}

/// The answer as text. The viewer looks up each host once, even if many servers are on it.
async fn text(
    ctx: &Ctx,
    page: &ResultPage<Arc<ServerRow>>,
    collection: &str,
    table: &'static FieldTable<ServerView>,
) -> Result<Vec<u8>, Fault> {
    let mut viewer = super::viewer::Viewer::new(ctx, &page.items, false, collection == "servers").await?;
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

/// The approximate length of one detailed server.
const ROW: usize = 2_048;

fn rows(ctx: &Ctx, wanted: &ServerListQuery) -> Result<ResultPage<Arc<ServerRow>>, Fault> {
    let limit = paging::limit(ctx)?;
    if wanted.nothing {
        return Ok(ResultPage { items: Vec::new(), more: false });
    }
    let order = order(ctx)?;
    let views = ctx.views()?;
    let marker = ctx.query.first("marker");
    // The common case: servers that are not deleted, newest first, read from the index.
    if let (DeletedFilter::No, true, false) = (wanted.deleted, order.is_empty(), wanted.is_of_changes()) {
        let after = marker.map(|text| text.parse().map_err(|_| no_marker(text))).transpose()?;
        let unknown = || no_marker(marker.unwrap_or_default());
        let items: Vec<_> = if wanted.patterns {
            let rows = views.servers.read(|servers| {
                servers.newest(wanted.project.as_ref(), after).map(|rows| rows.cloned().collect::<Vec<_>>())
            });
            rows.ok_or_else(unknown)?.into_iter().filter(|row| wanted.holds(row)).take(limit).collect()
        } else {
            views.servers.read(|servers| {
                let rows = servers.newest(wanted.project.as_ref(), after).ok_or_else(unknown)?;
                Ok::<_, Fault>(rows.filter(|row| wanted.holds(row)).take(limit).cloned().collect())
            })?
        };
        let more = limit > 0 && items.len() == limit;
        return Ok(ResultPage { items, more });
    }
    // Filtering and sorting run outside the read model's lock.
    let id = marker.map(|text| text.parse::<InstanceId>().map_err(|_| no_marker(text))).transpose()?;
    let (mut all, last) = views.servers.read(|servers| {
        // As in Nova, the marker may be a server that the list does not show any more.
        let last = id.and_then(|id| servers.get(id)).filter(|row| row.server().is_some() && wanted.is_of(row));
        (wanted.candidates(servers), last.cloned())
    });
    if let (None, Some(text)) = (&last, marker) {
        return Err(no_marker(text));
    }
    all.retain(|row| wanted.holds(row));
    all.sort_by(|a, b| compare(&order, a, b));
    let after = last.map_or(0, |last| all.partition_point(|row| compare(&order, row, &last).is_le()));
    let items: Vec<_> = all.into_iter().skip(after).take(limit).collect();
    let more = limit > 0 && items.len() == limit;
    Ok(ResultPage { items, more })
}

fn no_marker(marker: &str) -> Fault {
    Fault::bad_request(format!("marker [{marker}] not found"))
}

/// The sort keys, and whether each descends. The list is empty for the default order, newest first. As in Nova's
/// database layer, the time of creation is the last sort key, in the direction of the first key.
fn order(ctx: &Ctx) -> Result<Vec<(String, bool)>, Fault> {
    let descends = |text: &str| match text.trim() {
        "desc" => Ok(true),
        "asc" => Ok(false),
        _ => Err(filters::invalid("Unknown sort direction, must be 'desc' or 'asc'")),
    };
    let mut keys: Vec<&str> = ctx.query.all("sort_key").map(str::trim).collect();
    let mut directions: Vec<&str> = ctx.query.all("sort_dir").collect();
    if keys.is_empty() {
        keys.push("created_at");
    }
    let mut index = 0;
    while let Some(key) = keys.get(index) {
        let ignored = match *key {
            "locked" => !versions::sorts_by_locked(ctx.version),
            key => bodies::NOT_SORTED_BY.contains(&key),
        };
        if ignored {
            // Remove the key's direction, too.
            if index < directions.len() {
                directions.remove(index);
            }
            keys.remove(index);
        } else if matches!(*key, "host" | "node") && !ctx.caller().is_admin {
            return Err(Fault::forbidden(format!("Only administrators can sort servers by {key}")));
        } else {
            index += 1;
        }
    }
    let directions: Vec<bool> = directions.into_iter().map(descends).collect::<Result<_, _>>()?;
    if directions.len() > keys.len() {
        return Err(filters::invalid("Sort direction size exceeds sort key size"));
    }
    let first = directions.first().copied().unwrap_or(true);
    let directions = directions.into_iter().chain(std::iter::repeat(first));
    let mut order: Vec<(String, bool)> = keys.into_iter().map(str::to_owned).zip(directions).collect();
    query::drop_repeated(&mut order);
    if !order.iter().any(|(key, _)| key == "created_at") {
        order.push(("created_at".to_owned(), first));
    }
    // This is the order of the read model, so nothing needs sorting.
    if matches!(&order[..], [(key, true)] if key == "created_at") {
        order.clear();
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
    // There is no key, or all keys of the two servers are equal. Without a key, or if the first key descends, the newer
    // server comes first. If the first key ascends, the server with the lower id comes first.
    let turned = order.first().is_none_or(|(_, descends)| *descends);
    if turned { (right.created_at, b.id).cmp(&(left.created_at, a.id)) } else { a.id.cmp(&b.id) }
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
