//! Access to the ledger: commands with the route's own permit, and reads of its read model.

use std::sync::Arc;

use chronova_actors::aggregate::Committed;
use chronova_actors::ledger::{CELL, LedgerCommand, LedgerRoot};
use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Ledger, Provider};

use super::reject::{self, PlacementOperation};
use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;

/// Sends a command to the ledger with the route's own permit.
pub(super) async fn send(
    ctx: &Ctx,
    command: LedgerCommand,
    during: PlacementOperation<'_>,
) -> Result<Committed, Fault> {
    dispatch::send::<LedgerRoot>(ctx.dispatch()?, &ctx.permit()?, &CELL, command)
        .await
        .map_err(|error| reject::ledger(error, during))
}

/// Reads the ledger in the read models. `query` runs under their lock, so it must be fast.
pub(super) fn read<R>(ctx: &Ctx, query: impl FnOnce(&Ledger) -> R) -> Result<R, Fault> {
    Ok(ctx.views()?.placement.read(|placement| query(&placement.ledger)))
}

/// The provider that the path names.
pub(super) fn named_provider(ctx: &Ctx) -> Result<Arc<Provider>, Fault> {
    let id = provider_id(ctx)?;
    read(ctx, |ledger| ledger.providers.get(&id).cloned())?.ok_or_else(|| reject::no_provider(id))
}

pub(super) fn provider_id(ctx: &Ctx) -> Result<ProviderId, Fault> {
    ctx.id("uuid", |text| reject::no_provider(text).message)
}
