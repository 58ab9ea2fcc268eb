//! Repairs the state that a crash may have left between two appends that belong together.
//!
//! Reconcilers take no input, are idempotent, and run at start-up and on a period. Each has a pure `plan`. Those of an
//! embedded service are in its own folder; [`table`] lists all.

pub mod context;
pub(crate) mod devices;
pub mod image_cache;
pub mod interfaces;
pub mod leftovers;
pub mod options;
pub mod overdue;
pub mod placement;
pub mod quota;
pub mod reclaim;
pub mod reconciler;
pub mod run_counts;
pub(crate) mod runner;
pub mod server_groups;
pub mod shelved;
pub mod table;
pub mod unconfirmed_moves;
