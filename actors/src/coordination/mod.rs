//! State that holds only within one operating-system process, so only the leader may keep it.
//!
//! Each file opens with one sentence on what must not run twice. All of it is in memory: a crash forgets it, and the log
//! tells the next leader how to go on. A promise that must survive a crash is an event instead.

pub mod disk_claims;
pub mod image_holds;
pub mod lockouts;
pub mod migration_queues;
pub mod passwords;
pub mod pending_claims;
pub mod server_numbers;
pub mod waiting_requests;

pub use disk_claims::DiskClaims;
pub use image_holds::ImageHolds;
pub use migration_queues::MigrationQueues;
pub use passwords::OneTimePasswords;
pub use server_numbers::ServerNumbers;
pub use waiting_requests::{CreateRequests, ServerRequests};
