//! The Placement API: resource providers, inventories, traits, allocations and candidates.
//!
//! Each resource has a file with a route table. The dispatcher knows only [`ROUTES`], the list of these tables. Reads
//! come from the placement view. Changes go to the ledger as commands, and the ledger's `decide` accepts or refuses
//! them. [`reject`] maps the ledger's refusals to Placement's messages. The search for candidates is in
//! `chronova_projections::placement::candidates`, which the scheduler uses, too.

mod aggregates;
mod allocations;
mod answers;
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
