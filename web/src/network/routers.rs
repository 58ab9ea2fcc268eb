//! `/routers`. A router's [`gateways`](super::gateways) and [`interfaces`](super::interfaces) are ports of the
//! connected networks.
//!
//! Source: neutron `db/l3_db.py`, neutron-lib `exceptions/l3.py`.

use std::sync::Arc;

use chronova_actors::services::embedded::network::creation;
use chronova_actors::services::embedded::network::router::{RouterCommand, RouterPatch, RouterRoot};
use chronova_events::ids::{ProjectId, RouterId};
use chronova_events::router::{RouterCreated, RouterRow, RouterSettings};
use serde_json::{Value, json};

use super::attributes::Attributes;
use super::attributes::LONG_TEXT;
use super::gateways::{self, ExternalGatewayInfo};
use super::{answers, faults, listing, preconditions, targets, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::handler;
use crate::policy::Permit;
use crate::reply::Reply;
use crate::route::{Route, delete as delete_route, get, post, put};

pub(super) const ROUTES: &[Route] = &[
    get("routers.index", "/routers", handler!(index)).policy_on_target("get_router").answers(answers::routers).as_of(),
    post("routers.create", "/routers", handler!(create))
        .policy_on_target("create_router")
        .any_body()
        .answers(answers::router_created),
    get("routers.show", "/routers/{id}", handler!(show))
        .policy_on_target("get_router")
        .answers(answers::router_shown)
        .as_of(),
    put("routers.update", "/routers/{id}", handler!(update))
        .policy_on_target("update_router")
        .any_body()
        .answers(answers::router_shown),
    delete_route("routers.delete", "/routers/{id}", handler!(delete))
        .policy_on_target("delete_router")
        .answers(no_content),
];

const READ_ONLY: [&str; 6] =
    ["id", "tenant_id", "project_id", "status", "availability_zone_hints", "availability_zones"];

fn render(ctx: &Ctx, row: &RouterRow) -> Result<Value, Fault> {
    Ok(ctx.views()?.networks.read(|view| views::routing::router(view, row)))
}

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&ctx.own_target())?;
    let rows: Vec<Arc<RouterRow>> = ctx.views()?.networks.read(|view| view.routers().cloned().collect());
    let visible = rows.iter().filter(|row| targets::allows(&ctx, "get_router", &targets::router(row)));
    let rows = visible.map(|row| render(&ctx, row)).collect::<Result<_, _>>()?;
    listing::list(&ctx, "routers", "routers", rows)
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_router(&ctx, ctx.param("id"))?;
    ctx.authorize(&targets::router(&row))?;
    Ok(listing::one(&ctx, "router", render(&ctx, &row)?))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let mut body = Attributes::of(&ctx, "router")?;
    let project = targets::owner(&ctx, body.project()?)?;
    let permit = ctx.authorize(&targets::new(&project))?;
    let gateway = ExternalGatewayInfo::of(&ctx, &mut body, &targets::new(&project), false)?;
    let wanted = wanted(body, project, gateway.as_ref())?;
    let router = wanted.router;
    let gateway = gateways::of_new(&ctx, router, gateway.as_ref())?;
    let created = dispatch::perform(ctx.app.dispatch()?, &permit, async |operations, meta| {
        creation::create_router(operations, meta, wanted, gateway).await
    });
    created.await.map_err(faults::creation)?;
    let row = targets::find_router(&ctx, &router.to_string())?;
    Ok(Reply::json(201, json!({"router": render(&ctx, &row)?})))
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_router(&ctx, ctx.param("id"))?;
    let target = targets::router(&row);
    let permit = ctx.authorize(&target)?;
    let mut body = Attributes::of(&ctx, "router")?;
    body.refuse(&READ_ONLY)?;
    let gateway = ExternalGatewayInfo::of(&ctx, &mut body, &target, true)?;
    let mut patch = patch(&mut body)?;
    body.finish()?;
    preconditions::check(&ctx, row.revision)?;
    gateways::set(&ctx, &permit, &row, gateway.as_ref()).await?;
    patch.snat = gateway.as_ref().and_then(|gateway| gateway.snat);
    send(&ctx, &permit, row.id(), preconditions::router(&ctx, RouterCommand::Change(patch))?).await?;
    let row = targets::find_router(&ctx, ctx.param("id"))?;
    Ok(listing::one(&ctx, "router", render(&ctx, &row)?))
}

async fn delete(ctx: Ctx) -> Result<Reply, Fault> {
    let row = targets::find_router(&ctx, ctx.param("id"))?;
    let permit = ctx.authorize(&targets::router(&row))?;
    let id = row.id();
    if ctx.views()?.networks.read(|view| view.interfaces_of(id).next().is_some()) {
        return Err(Fault::conflict(format!("Router {id} still has ports")).key("RouterInUse"));
    }
    preconditions::check(&ctx, row.revision)?;
    // The gateway is deleted before the router. If the process crashes in between, the router without a gateway is
    // still valid.
    gateways::set(&ctx, &permit, &row, Some(&ExternalGatewayInfo::none())).await?;
    send(&ctx, &permit, id, preconditions::router(&ctx, RouterCommand::Delete)?).await?;
    Ok(Reply::empty(204))
}

pub(super) async fn send(ctx: &Ctx, permit: &Permit, id: RouterId, command: RouterCommand) -> Result<(), Fault> {
    dispatch::send::<RouterRoot>(ctx.app.dispatch()?, permit, &id, command).await.map(drop).map_err(faults::router(id))
}

fn patch(body: &mut Attributes) -> Result<RouterPatch, Fault> {
    for unsupported in ["distributed", "ha", "routes", "flavor_id"] {
        if !body.is_default(unsupported) && !body.is_false_or_null(unsupported) {
            return Err(faults::invalid_input(format_args!("{unsupported} is not supported")));
        }
        body.take(unsupported);
    }
    Ok(RouterPatch {
        name: body.text_or_null("name", 255)?,
        description: body.text_or_null("description", LONG_TEXT)?,
        admin_state_up: body.boolean("admin_state_up")?,
        snat: None,
        tags: None,
    })
}

/// The new router that the body describes.
fn wanted(
    mut body: Attributes,
    project: ProjectId,
    gateway: Option<&ExternalGatewayInfo>,
) -> Result<RouterCreated, Fault> {
    let availability_zone_hints = body.zone_hints()?;
    let settings = settings(patch(&mut body)?, gateway);
    body.finish()?;
    Ok(RouterCreated { router: RouterId::random(), project, settings, availability_zone_hints })
}

fn settings(patch: RouterPatch, gateway: Option<&ExternalGatewayInfo>) -> RouterSettings {
    let default = RouterSettings::default();
    RouterSettings {
        name: patch.name.unwrap_or_default(),
        description: patch.description.unwrap_or_default(),
        admin_state_up: patch.admin_state_up.unwrap_or(default.admin_state_up),
        snat: gateway.and_then(|gateway| gateway.snat).unwrap_or(default.snat),
        tags: Vec::new(),
    }
}
