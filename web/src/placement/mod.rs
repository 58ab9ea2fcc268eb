//! The Placement API: resource providers, inventories, traits, allocations and candidates.
//!
//! One file per resource; each has a table, and this list of tables is all that the dispatcher knows. Reads come from the
//! placement view, changes go to the ledger as commands whose `decide` has the last word; [`reject`] puts its refusals into
//! Placement's words. Candidates are searched for in `chronova_projections::placement::candidates`, which the scheduler
//! can use too.

mod aggregates;
mod allocations;
mod answers;
mod bodies;
mod candidates;
mod classes;
mod filters;
mod inventories;
mod providers;
mod reject;
mod reshaper;
mod traits;
mod usages;
mod versions;
mod views;

use std::sync::Arc;

use chronova_actors::aggregate::Committed;
use chronova_actors::ledger::{CELL, LedgerAggregate, LedgerCommand};
use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Ledger, Provider};

use crate::ctx::Ctx;
use crate::dispatch;
use crate::fault::Fault;
use crate::route::Route;
use reject::During;

/// The tables of all resources.
pub const ROUTES: &[&[Route]] = &[
    providers::ROUTES,
    inventories::ROUTES,
    aggregates::ROUTES,
    traits::ROUTES,
    classes::ROUTES,
    usages::ROUTES,
    allocations::ROUTES,
    candidates::ROUTES,
    reshaper::ROUTES,
];

/// Has the ledger decide, with the route's own permit.
async fn send(ctx: &Ctx, command: LedgerCommand, during: During<'_>) -> Result<Committed, Fault> {
    dispatch::send::<LedgerAggregate>(ctx.house()?, &ctx.permit()?, &CELL, command)
        .await
        .map_err(|error| reject::ledger(error, during))
}

/// Looks at the ledger as the read models know it. Nothing slow belongs into `look`.
fn look<R>(ctx: &Ctx, look: impl FnOnce(&Ledger) -> R) -> Result<R, Fault> {
    Ok(ctx.views()?.placement.read(|placement| look(&placement.ledger)))
}

/// The provider that the path names.
fn named_provider(ctx: &Ctx) -> Result<Arc<Provider>, Fault> {
    let id = provider_id(ctx)?;
    look(ctx, |ledger| ledger.providers.get(&id).cloned())?.ok_or_else(|| reject::no_provider(id))
}

fn provider_id(ctx: &Ctx) -> Result<ProviderId, Fault> {
    ctx.id("uuid", |text| reject::no_provider(text).message)
}
