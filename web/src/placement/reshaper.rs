//! `/reshaper`: inventories and allocations of several providers at once.

use chronova_actors::ledger::{LedgerCommand, NewInventories};
use chronova_events::ids::ProviderId;

use super::bodies;
use super::ledger::{read, send};
use super::readers::{InventoriesBody, ReshapeBody};
use super::reject::{PlacementOperation, no_provider_to_reshape};
use crate::answers::no_content;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, post};

pub(super) const ROUTES: &[Route] = &[post("reshaper.create", "/reshaper", handler!(reshape))
    .policy("placement:reshaper:reshape")
    .since(1, 30)
    .body(bodies::reshape_body)
    .answers(no_content)];

async fn reshape(ctx: Ctx) -> Result<Reply, Fault> {
    let mut parts = Vec::new();
    let mut body = ReshapeBody::read(&ctx.body);
    for (text, InventoriesBody { generation, inventories }) in body.inventories.drain(..) {
        let provider: ProviderId = text.parse().map_err(|_| no_provider_to_reshape(&text))?;
        if !read(&ctx, |ledger| ledger.providers.contains_key(&provider))? {
            return Err(no_provider_to_reshape(&text));
        }
        parts.push(NewInventories { provider, generation, inventories });
    }
    let claims = body.claims(&ctx)?;
    send(&ctx, LedgerCommand::Reshape { inventories: parts, claims }, PlacementOperation::Reshape).await?;
    Ok(Reply::empty(204))
}
