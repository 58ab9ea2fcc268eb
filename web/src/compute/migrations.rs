//! `os-migrations`: the moves of servers.

use std::sync::Arc;

use chronova_events::ids::FlavorId;
use chronova_events::instance::MoveKind;
use chronova_projections::migrations::Migration;
use serde_json::{Map, Value};

use super::bodies::hosts as bodies;
use super::servers::filters;
use super::views::migration::{MIGRATION, MigrationView};
use super::{paging, versions};
use crate::compute::answers::moves as answers;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

pub(super) const ROUTES: &[Route] = &[get("migrations.index", "/os-migrations", handler!(index))
    .policy("os_compute_api:os-migrations:index")
    .query(bodies::migrations_index_query)
    .as_of()
    .answers(answers::index)];

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    let wanted = wanted(&ctx)?;
    let mut reply = Map::new();
    if !versions::migrations_are_paged(ctx.version) {
        reply.insert("migrations".to_owned(), render(&ctx, wanted)?);
        return Ok(Reply::ok(Value::Object(reply)));
    }
    let page = paging::cut(&ctx, wanted, |row, marker| row.id.to_string() == marker)?;
    let marker = page.items.last().map(|row| row.id.to_string());
    reply.insert("migrations".to_owned(), render(&ctx, page.items)?);
    if let (true, true, Some(marker)) = (page.more, ctx.query.has("limit"), marker) {
        paging::link(&ctx, &mut reply, "migrations_links", "os-migrations", &marker);
    }
    Ok(Reply::ok(Value::Object(reply)))
}

/// The requested migrations that the caller may see, newest first.
fn wanted(ctx: &Ctx) -> Result<Vec<Arc<Migration>>, Fault> {
    let query = |name: &str| ctx.query.first(name).map(str::to_owned);
    let since = ctx.query.first("changes-since").map(filters::time).transpose()?;
    let before = ctx.query.first("changes-before").map(filters::time).transpose()?;
    if let (Some(since), Some(before)) = (since, before)
        && before < since
    {
        return Err(Fault::bad_request("The value of changes-since must be less than or equal to changes-before."));
    }
    // Chronova hides no migrations, so a list of the hidden ones is empty.
    if ctx.query.first("hidden").is_some_and(|hidden| matches!(hidden.to_lowercase().as_str(), "1" | "true")) {
        return Ok(Vec::new());
    }
    let everywhere = ctx.allows("os_compute_api:os-migrations:index:all_projects", &ctx.own_target());
    let own = ctx.caller().project.clone();
    let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    let (host, source, instance) = (query("host"), query("source_compute"), query("instance_uuid"));
    let (status, kind) = (query("status"), query("migration_type"));
    let of = |name: &str| query(name).filter(|_| versions::migrations_have_askers(ctx.version));
    let (user, project) = (of("user_id"), of("project_id"));
    let matches = |row: &Migration| {
        let target = row.target.as_ref().map(|target| target.hostname.as_str());
        (everywhere || (own.is_some() && row.project == own))
            && host.as_deref().is_none_or(|host| row.source.hostname == host || target == Some(host))
            && is(&source, &row.source.hostname)
            && is(&instance, &row.instance.to_string())
            && is(&status, row.status.word())
            && is(&kind, row.kind_word())
            && user.as_deref().is_none_or(|user| row.user.as_ref().is_some_and(|id| id.as_str() == user))
            && project.as_deref().is_none_or(|project| row.project.as_ref().is_some_and(|id| id.as_str() == project))
            && since.is_none_or(|at| row.updated_at >= at)
            && before.is_none_or(|at| row.updated_at <= at)
    };
    Ok(ctx.views()?.migrations.read(|view| view.all().filter(|row| matches(row)).cloned().collect()))
}

fn render(ctx: &Ctx, rows: Vec<Arc<Migration>>) -> Result<Value, Fault> {
    let views = ctx.views()?;
    let hosts = ctx.allows("os_compute_api:os-migrations:index:host", &ctx.own_target());
    let number = |id: &FlavorId| views.flavors.read(|view| view.flavors.by_id.get(id).map(|flavor| flavor.number));
    let shown: Vec<MigrationView> = rows
        .into_iter()
        .map(|row| MigrationView {
            old_flavor: number(&row.old_flavor).filter(|_| row.kind != MoveKind::Evacuate),
            new_flavor: number(&row.new_flavor).filter(|_| row.kind != MoveKind::Evacuate),
            dest_ip: row.target.as_ref().and_then(|target| {
                views.hosts.read(|hosts| hosts.get(target.host).map(|host| host.capabilities.host_ip.clone()))
            }),
            hosts,
            row,
        })
        .collect();
    let mut rendered = MIGRATION.render_all(&shown, ctx.version);
    if versions::migrations_have_links(ctx.version) {
        for (view, value) in shown.iter().zip(rendered.as_array_mut().into_iter().flatten()) {
            if let (true, Some(fields)) = (view.row.is_under_way(), value.as_object_mut()) {
                let collection = format!("servers/{}/migrations", view.row.instance);
                fields.insert("links".to_owned(), ctx.links.pair(&collection, &view.row.number.to_string()));
            }
        }
    }
    Ok(rendered)
}
