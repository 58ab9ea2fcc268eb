//! State in the memory of one operating-system process. Only the leader may have this state, because the members of a
//! cluster do not share it.
//!
//! The first sentences of each file say what must not run in two members at once. All state here is in memory, and a
//! crash loses it. The next leader continues from the log. A promise that must survive a crash is an event instead.
//!
//! Three kinds of state are elsewhere. The gateway of the leader keeps the actors. [`crate::hosts::fleet`] keeps the
//! last answers of the hosts, because only the leader asks hosts. Each member has its own bounds against its clients:
//! rates of requests, open feeds and consoles, password hashing.

pub mod batches;
pub mod disk_claims;
pub mod host_gate;
pub mod host_numbers;
pub mod host_turns;
pub mod image_holds;
pub mod known_digests;
pub mod lockouts;
pub mod migration_queues;
pub mod name_turns;
pub mod passwords;
pub mod pending_claims;
pub mod project_turns;
pub mod running_processes;
pub mod server_numbers;
pub mod suspect_servers;
pub mod touched_networks;
pub mod waiting_requests;

pub use disk_claims::DiskClaims;
pub use host_gate::HostGate;
pub use image_holds::ImageHolds;
pub use migration_queues::MigrationQueues;
pub use passwords::OneTimePasswords;
pub use server_numbers::ServerNumbers;
pub use suspect_servers::SuspectServers;
pub use waiting_requests::{CreateRequests, ServerRequests};
