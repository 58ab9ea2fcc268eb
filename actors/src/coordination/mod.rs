//! State that is valid only within one operating-system process, so only the leader may have it.
//!
//! Each file begins with what must not run in two members at once. All state here is in memory, and a crash loses it.
//! The next leader continues from the log. A promise that must survive a crash is an event instead.
//!
//! Not here: the actors, of which the gateway of the leader has one for each aggregate; what hosts told last
//! ([`crate::hosts::fleet`]), because only the leader asks them; and bounds that protect one member from its clients
//! (rates of requests, open feeds and consoles, password hashing), because each member has its own.

pub mod batches;
pub mod create_requests;
pub mod disk_claims;
pub mod host_numbers;
pub mod host_turns;
pub mod image_holds;
pub mod lockouts;
pub mod migration_queues;
pub mod passwords;
pub mod pending_claims;
pub mod project_turns;
pub mod running_processes;
pub mod server_numbers;
pub mod touched_networks;

pub use create_requests::CreateRequests;
pub use disk_claims::DiskClaims;
pub use image_holds::ImageHolds;
pub use migration_queues::MigrationQueues;
pub use passwords::OneTimePasswords;
pub use server_numbers::ServerNumbers;
