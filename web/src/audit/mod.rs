//! The log for people and programs from outside: forms ([`line`], [`cadf`]), a live feed, erasures of personal data.
//!
//! Served under `/chronova/v1`: a namespace of our own, which no client of OpenStack looks at. Everything here needs rights
//! that the policy gives to administrators only, because the log tells of everybody.

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
