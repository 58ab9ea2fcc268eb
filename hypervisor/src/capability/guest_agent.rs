//! Requests to the agent inside a guest.
//!
//! The image property `hw_qemu_guest_agent` says whether the guest has a channel for an agent. Whether an agent answers
//! there depends on the software in the guest. So callers do not check first; the call fails instead.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;

/// The agents of one host's guests. Each call fails with [`NoAgent`](crate::driver::DriverError::NoAgent) if the guest
/// has no channel for an agent.
#[async_trait]
pub trait GuestAgent: Send + Sync {
    /// Sets a user's password. `Unsupported` if no agent answers.
    async fn set_password(&self, instance: InstanceId, user: &str, password: &str) -> DriverResult<()>;
    /// Flushes and freezes the guest's file systems until [`thaw`](Self::thaw). Succeeds if they are already frozen.
    async fn freeze(&self, instance: InstanceId) -> DriverResult<()>;
    /// Thaws the file systems. Succeeds if the guest is off or gone, because then nothing is frozen.
    async fn thaw(&self, instance: InstanceId) -> DriverResult<()>;
}
