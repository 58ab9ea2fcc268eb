//! The audit API: events in several forms ([`line`], [`cadf`]), a live feed, erasures of personal data.
//!
//! The audit API is served under `/chronova/v1`, a separate namespace that no OpenStack client uses. The log has the
//! data of all projects. So by default only administrators and readers with system scope may read it, and only
//! administrators may erase. The feed in [`changes`] is the exception: it tells a project which of the project's own
//! servers have changed.

mod answers;
pub mod cadf;
mod changes;
mod erasures;
mod events;
pub mod feed;
mod filters;
pub mod line;
pub mod open_feeds;
pub mod syslog;

use crate::route::Route;

/// The routes of the log, for auditors.
pub const EVENTS: &[Route] = events::ROUTES;
/// The feed of a project's own servers.
pub const CHANGES: &[Route] = changes::ROUTES;
/// The routes of erasures of personal data.
pub const ERASURES: &[Route] = erasures::ROUTES;
