//! The Placement API: resource providers, inventories, traits, allocations and candidates.
//!
//! One file per resource; each has a table, and this list of tables is all that the dispatcher knows. Reads come from
//! the placement view. Changes go to the ledger as commands, whose `decide` has the last word. [`reject`] puts its
//! refusals into Placement's words. Candidates are searched for in `chronova_projections::placement::candidates`, which
//! the scheduler can use too.

mod aggregates;
mod allocations;
mod bodies;
mod candidates;
mod classes;
mod filters;
mod inventories;
mod ledger;
mod providers;
mod readers;
mod reject;
mod replies;
mod reshaper;
mod traits;
mod usages;
mod versions;
mod views;

use crate::route::Route;

pub(crate) use versions::has_cache_headers;

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
