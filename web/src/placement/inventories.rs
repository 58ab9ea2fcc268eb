//! `/resource_providers/{uuid}/inventories`

use chronova_actors::ledger::LedgerCommand;
use chronova_events::ids::ProviderId;
use chronova_events::ledger::Provider;
use serde_json::json;

use super::ledger::{named_provider, provider_id, send};
use super::readers::{self, InventoriesBody};
use super::reject::PlacementOperation;
use super::{answers, bodies, replies, versions, views};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

const ALL: &str = "/resource_providers/{uuid}/inventories";
const ONE: &str = "/resource_providers/{uuid}/inventories/{resource_class}";

pub(super) const ROUTES: &[Route] = &[
    get("resource_providers_inventories.list", ALL, handler!(list))
        .policy("placement:resource_providers:inventories:list")
        .answers(answers::inventories)
        .as_of(),
    post("resource_providers_inventories.create", ALL, handler!(create))
        .policy("placement:resource_providers:inventories:create")
        .body(bodies::inventory_create_body)
        .answers(answers::inventory_created),
    put("resource_providers_inventories.update", ALL, handler!(set))
        .policy("placement:resource_providers:inventories:update")
        .body(bodies::inventories_set_body)
        .answers(answers::inventories),
    delete("resource_providers_inventories.delete", ALL, handler!(clear))
        .policy("placement:resource_providers:inventories:delete")
        .since(1, 5)
        .outside(405)
        .answers(no_content),
    get("resource_providers_inventories_one.get", ONE, handler!(show))
        .policy("placement:resource_providers:inventories:show")
        .answers(answers::inventory_shown)
        .as_of(),
    put("resource_providers_inventories_one.update", ONE, handler!(update))
        .policy("placement:resource_providers:inventories:update")
        .body(bodies::inventory_update_body)
        .answers(answers::inventory_shown),
    delete("resource_providers_inventories_one.delete", ONE, handler!(remove))
        .policy("placement:resource_providers:inventories:delete")
        .answers(no_content),
];

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    all(&ctx)
}

fn all(ctx: &Ctx) -> Result<Reply, Fault> {
    let provider = named_provider(ctx)?;
    replies::show(ctx, views::inventories(&provider), Some(provider.updated_at))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
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
    replies::dated(ctx, Reply::json(status, body), Some(provider.updated_at))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let (inventory, reserve) = (readers::new_inventory(&ctx.body), versions::reserve(ctx.version));
    let class = inventory.class.clone();
    let command = LedgerCommand::AddInventory { provider, inventory, reserve };
    send(&ctx, command, PlacementOperation::CreateInventory(provider)).await?;
    let reply = one(&ctx, &*named_provider(&ctx)?, &class, 201)?;
    Ok(reply
        .header("Location", replies::location(&ctx, &format!("/resource_providers/{provider}/inventories/{class}"))))
}

async fn set(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let InventoriesBody { generation, inventories } = InventoriesBody::read(&ctx.body);
    let (generation, reserve) = (Some(generation), versions::reserve(ctx.version));
    let command = LedgerCommand::SetInventories { provider, generation, inventories, reserve };
    send(&ctx, command, PlacementOperation::SetInventories(provider)).await?;
    all(&ctx)
}

async fn update(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let class = ctx.param("resource_class");
    let command = LedgerCommand::UpdateInventory {
        provider,
        generation: readers::generation(&ctx.body),
        inventory: readers::inventory(class, &ctx.body),
        reserve: versions::reserve(ctx.version),
    };
    send(&ctx, command, PlacementOperation::UpdateInventory(provider)).await?;
    one(&ctx, &*named_provider(&ctx)?, class, 200)
}

async fn clear(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let reserve = versions::reserve(ctx.version);
    let command = LedgerCommand::SetInventories { provider, generation: None, inventories: Vec::new(), reserve };
    send(&ctx, command, PlacementOperation::Other).await?;
    Ok(Reply::empty(204))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let provider: ProviderId = provider_id(&ctx)?;
    let class = ctx.param("resource_class");
    let command = LedgerCommand::DeleteInventory { provider, class: class.to_owned() };
    send(&ctx, command, PlacementOperation::DeleteInventory(class)).await?;
    Ok(Reply::empty(204))
}
