//! Repairs differences between the present and the intended state, for example after a crash between two appends that
//! belong together.
//!
//! Reconcilers take no input and are idempotent. They run at start-up, on a period, or when an event wakes them. Each
//! has a pure `plan`. The reconcilers of an embedded service are in the service's folder; [`table`] lists all
//! reconcilers.

pub mod context;
pub mod copies;
pub(crate) mod devices;
pub mod image_cache;
pub mod interfaces;
pub mod leftovers;
pub mod machine_types;
pub mod options;
pub mod orphaned_claims;
pub mod overdue_reboots;
pub mod overdue_rescues;
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
