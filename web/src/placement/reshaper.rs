//! `/reshaper`: inventories and allocations of several providers at once.

use chronova_actors::ledger::{LedgerCommand, NewInventories};
use chronova_events::ids::ProviderId;

use super::ledger::{look, send};
use super::reject::{During, no_provider_to_reshape};
use super::{allocations, bodies, inventories};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, post};

pub(super) const ROUTES: &[Route] = &[post("reshaper.create", "/reshaper", handler!(reshape))
    .policy("placement:reshaper:reshape")
    .since(1, 30)
    .body(bodies::reshape_body)];

async fn reshape(ctx: Ctx) -> Result<Reply, Fault> {
    let mut parts = Vec::new();
    for (text, body) in ctx.body["inventories"].as_object().into_iter().flatten() {
        let provider: ProviderId = text.parse().map_err(|_| no_provider_to_reshape(text))?;
        if !look(&ctx, |ledger| ledger.providers.contains_key(&provider))? {
            return Err(no_provider_to_reshape(text));
        }
        parts.push(NewInventories {
            provider,
            generation: inventories::generation(body),
            inventories: inventories::inventories(&body["inventories"]),
        });
    }
    let claims = allocations::claims(&ctx, &ctx.body["allocations"])?;
    send(&ctx, LedgerCommand::Reshape { inventories: parts, claims }, During::Reshape).await?;
    Ok(Reply::empty(204))
}
