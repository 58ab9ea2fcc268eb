//! Repairs the state that a crash may have left between two appends that belong together.
//!
//! Reconcilers take no input, are idempotent, and run at start-up and on a period. Each has a pure `plan`.

pub mod context;
pub(crate) mod devices;
pub mod filters;
pub mod floating_ips;
pub mod image_cache;
pub mod interfaces;
pub mod leftovers;
pub mod networks;
pub mod options;
pub mod placement;
pub mod quota;
pub mod reclaim;
pub mod reconciler;
pub mod run_counts;
mod runner;
pub mod server_groups;
pub mod shelved;
pub mod table;
pub mod unconfirmed_moves;
pub mod volumes;
