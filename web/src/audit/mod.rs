//! The audit API: events in several forms ([`line`], [`cadf`]), a live feed, erasures of personal data.
//!
//! It is served under `/chronova/v1`, a namespace of our own that no client of OpenStack uses. The policy gives all
//! rights here to administrators only, because the log has everybody's data.

pub mod cadf;
mod erasures;
mod events;
pub mod feed;
mod filters;
pub mod line;
pub mod open_feeds;

use crate::route::Route;

/// The log, for auditors.
pub const EVENTS: &[Route] = events::ROUTES;
/// Erasures of personal data.
pub const ERASURES: &[Route] = erasures::ROUTES;
