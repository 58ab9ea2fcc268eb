//! `/allocations` and `/resource_providers/{uuid}/allocations`

use std::sync::Arc;

use chronova_actors::ledger::LedgerCommand;
use chronova_events::ids::ConsumerId;
use chronova_events::ledger::{Allocation, Consumer};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::ledger::{named_provider, read, send};
use super::reject::PlacementOperation;
use super::views::{self, CONSUMER, ConsumerView};
use super::{answers, bodies, readers, replies};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, delete, get, post, put};

const ONE: &str = "/allocations/{consumer_uuid}";

pub(super) const ROUTES: &[Route] = &[
    post("allocations.create", "/allocations", handler!(manage))
        .policy("placement:allocations:manage")
        .since(1, 13)
        .body(bodies::allocations_manage_body)
        .answers(no_content),
    get("allocations_one.get", ONE, handler!(show))
        .policy("placement:allocations:list")
        .as_of()
        .answers(answers::allocations),
    put("allocations_one.update", ONE, handler!(set))
        .policy("placement:allocations:update")
        .body(bodies::allocations_set_body)
        .answers(no_content),
    delete("allocations_one.delete", ONE, handler!(remove)).policy("placement:allocations:delete").answers(no_content),
    get("resource_providers_allocations.list", "/resource_providers/{uuid}/allocations", handler!(of_provider))
        .policy("placement:resource_providers:allocations:list")
        .as_of()
        .answers(answers::allocations_of_provider),
];

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let id = ConsumerId::new(ctx.param("consumer_uuid"));
    let found = read(&ctx, |ledger| {
        let consumer = Arc::clone(ledger.consumers.get(&id)?);
        let generation = |held: &Allocation| ledger.providers.get(&held.provider).map_or(0, |known| known.generation);
        let generations: Vec<u64> = consumer.claim.allocations.iter().map(generation).collect();
        Some((consumer, generations))
    })?;
    // The ledger stores no consumer without allocations, so the answer for such a consumer is an empty object.
    let Some((consumer, generations)) = found else { return replies::show(&ctx, json!({"allocations": {}}), None) };
    let allocations = views::holdings(&consumer.claim.allocations, &generations);
    let modified = Some(consumer.updated_at);
    let mut body = Map::from_iter([("allocations".to_owned(), allocations)]);
    body.extend(CONSUMER.render_map(&ConsumerView { consumer }, ctx.version));
    replies::show(&ctx, Value::Object(body), modified)
}

async fn of_provider(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    let provider = named_provider(&ctx)?;
    let holds = |consumer: &Consumer| consumer.claim.allocations.iter().any(|held| held.provider == provider.id);
    let holders: Vec<Arc<Consumer>> =
        read(&ctx, |ledger| ledger.consumers.values().filter(|consumer| holds(consumer)).cloned().collect())?;
    let modified = holders.iter().map(|consumer| consumer.updated_at).max();
    let shown = holders.into_iter().map(|consumer| views::holder(consumer, provider.id, ctx.version));
    let allocations: Map<String, Value> = shown.collect();
    let body = json!({"allocations": allocations, "resource_provider_generation": provider.generation});
    replies::show(&ctx, body, modified)
}

async fn set(ctx: Ctx) -> Result<Reply, Fault> {
    let text = ctx.param("consumer_uuid");
    let consumer: Uuid = text.parse().map_err(|_| Fault::bad_request(format!("Malformed consumer_uuid: {text}")))?;
    let consumer = consumer.to_string();
    let claims = vec![readers::claim(&ctx, &consumer, &ctx.body)?];
    send(&ctx, LedgerCommand::Allocate { claims }, PlacementOperation::Allocate(Some(&consumer))).await?;
    Ok(Reply::empty(204))
}

async fn manage(ctx: Ctx) -> Result<Reply, Fault> {
    let claims = readers::claims(&ctx, &ctx.body)?;
    send(&ctx, LedgerCommand::Allocate { claims }, PlacementOperation::Allocate(None)).await?;
    Ok(Reply::empty(204))
}

async fn remove(ctx: Ctx) -> Result<Reply, Fault> {
    let consumer = ConsumerId::new(ctx.param("consumer_uuid"));
    send(&ctx, LedgerCommand::Deallocate { consumer }, PlacementOperation::Other).await?;
    Ok(Reply::empty(204))
}
