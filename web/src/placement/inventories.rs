//! `/resource_providers/{uuid}/inventories`

use chronova_actors::ledger::LedgerCommand;
use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Inventory, Provider};
use serde_json::{Value, json};

use super::ledger::{named_provider, provider_id, send};
use super::reject::During;
use super::{answers, bodies, versions, views};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

const ALL: &str = "/resource_providers/{uuid}/inventories";
const ONE: &str = "/resource_providers/{uuid}/inventories/{resource_class}";

pub(super) const ROUTES: &[Route] = &[
    get("resource_providers_inventories.list", ALL, handler!(list))
        .policy("placement:resource_providers:inventories:list"),
    post("resource_providers_inventories.create", ALL, handler!(create))
        .policy("placement:resource_providers:inventories:create")
        .body(bodies::inventory_create_body),
    put("resource_providers_inventories.update", ALL, handler!(set))
        .policy("placement:resource_providers:inventories:update")
        .body(bodies::inventories_set_body),
    delete("resource_providers_inventories.delete", ALL, handler!(clear))
        .policy("placement:resource_providers:inventories:delete")
        .since(1, 5)
        .outside(405),
    get("resource_providers_inventories_one.get", ONE, handler!(show))
        .policy("placement:resource_providers:inventories:show"),
    put("resource_providers_inventories_one.update", ONE, handler!(update))
        .policy("placement:resource_providers:inventories:update")
        .body(bodies::inventory_update_body),
    delete("resource_providers_inventories_one.delete", ONE, handler!(remove))
        .policy("placement:resource_providers:inventories:delete"),
];

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    answers::check_accept(&ctx)?;
    all(&ctx)
}

fn all(ctx: &Ctx) -> Result<Reply, Fault> {
    let provider = named_provider(ctx)?;
    answers::show(ctx, views::inventories(&provider), Some(provider.updated_at))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    answers::check_accept(&ctx)?;
    let provider = named_provider(&ctx)?;
    one(&ctx, &provider, ctx.param("resource_class"), 200)
}

fn one(ctx: &Ctx, provider: &Provider, class: &str, status: u16) -> Result<Reply, Fault> {
    let line = provider
        .inventories
        .get(class)
        .ok_or_else(|| Fault::not_found(format!("No inventory of class {class} for {}", provider.id)))?;
    let mut body = views::inventory(line);
    body["resource_provider_generation"] = json!(provider.generation);
    answers::dated(ctx, Reply::json(status, body), Some(provider.updated_at))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let class = ctx.body["resource_class"].as_str().unwrap_or_default().to_owned();
    let (inventory, reserve) = (inventory(&class, &ctx.body), versions::reserve(ctx.version));
    let command = LedgerCommand::AddInventory { provider, inventory, reserve };
    send(&ctx, command, During::CreateInventory(provider)).await?;
    let reply = one(&ctx, &*named_provider(&ctx)?, &class, 201)?;
    Ok(reply
        .header("Location", answers::location(&ctx, &format!("/resource_providers/{provider}/inventories/{class}"))))
}

async fn set(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let command = LedgerCommand::SetInventories {
        provider,
        generation: Some(generation(&ctx.body)),
        inventories: inventories(&ctx.body["inventories"]),
        reserve: versions::reserve(ctx.version),
    };
    send(&ctx, command, During::SetInventories(provider)).await?;
    all(&ctx)
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let class = ctx.param("resource_class");
    let command = LedgerCommand::UpdateInventory {
        provider,
        generation: generation(&ctx.body),
        inventory: inventory(class, &ctx.body),
        reserve: versions::reserve(ctx.version),
    };
    send(&ctx, command, During::UpdateInventory(provider)).await?;
    one(&ctx, &*named_provider(&ctx)?, class, 200)
}

async fn clear(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let reserve = versions::reserve(ctx.version);
    let command = LedgerCommand::SetInventories { provider, generation: None, inventories: Vec::new(), reserve };
    send(&ctx, command, During::Other).await?;
    Ok(Reply::empty(204))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let provider: ProviderId = provider_id(&ctx)?;
    let class = ctx.param("resource_class");
    let command = LedgerCommand::DeleteInventory { provider, class: class.to_owned() };
    send(&ctx, command, During::DeleteInventory(class)).await?;
    Ok(Reply::empty(204))
}

/// The generation that the client has seen. One that no provider can have is one that no provider has.
pub(super) fn generation(body: &Value) -> u64 {
    number(&body["resource_provider_generation"]).unwrap_or(u64::MAX)
}

/// JSON's `4.0` is an integer too.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // integers below 2^53
pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64))
}

pub(super) fn inventories(body: &Value) -> Vec<Inventory> {
    body.as_object().into_iter().flatten().map(|(class, fields)| inventory(class, fields)).collect()
}

/// With Placement's defaults for what was not said.
fn inventory(class: &str, body: &Value) -> Inventory {
    const MAX_INT: u64 = 0x7FFF_FFFF;
    let field = |name: &str, default| number(&body[name]).unwrap_or(default);
    Inventory {
        class: class.to_owned(),
        total: field("total", 0),
        reserved: field("reserved", 0),
        min_unit: field("min_unit", 1),
        max_unit: field("max_unit", MAX_INT),
        step_size: field("step_size", 1),
        allocation_ratio: body["allocation_ratio"].as_f64().unwrap_or(1.0),
    }
}
