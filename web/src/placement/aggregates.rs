//! `/resource_providers/{uuid}/aggregates`

use chronova_actors::ledger::LedgerCommand;
use serde_json::json;

use super::ledger::{named_provider, provider_id, read, send};
use super::readers::AggregatesBody;
use super::reject::PlacementOperation;
use super::{answers, bodies, replies, versions};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get, put};

const PATH: &str = "/resource_providers/{uuid}/aggregates";

pub(super) const ROUTES: &[Route] = &[
    get("resource_providers_aggregates.list", PATH, handler!(list))
        .policy("placement:resource_providers:aggregates:list")
        .since(1, 1)
        .answers(answers::aggregates)
        .as_of(),
    put("resource_providers_aggregates.update", PATH, handler!(set))
        .policy("placement:resource_providers:aggregates:update")
        .since(1, 1)
        .body(bodies::aggregates_body)
        .answers(answers::aggregates),
];

async fn list(ctx: Ctx) -> Result<Reply, Fault> {
    replies::check_accept(&ctx)?;
    shown(&ctx)
}

fn shown(ctx: &Ctx) -> Result<Reply, Fault> {
    let provider = named_provider(ctx)?;
    let mut body = json!({"aggregates": read(ctx, |ledger| ledger.written_aggregates(&provider))?});
    if versions::aggregates_have_generations(ctx.version) {
        body["resource_provider_generation"] = json!(provider.generation);
    }
    replies::show(ctx, body, None)
}

async fn set(ctx: Ctx) -> Result<Reply, Fault> {
    let provider = provider_id(&ctx)?;
    let AggregatesBody { aggregates, spellings, generation } = AggregatesBody::read(&ctx);
    let command = LedgerCommand::SetAggregates { provider, generation, aggregates, spellings };
    send(&ctx, command, PlacementOperation::Other).await?;
    shown(&ctx)
}
