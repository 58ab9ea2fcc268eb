//! Requests to the agent inside a guest.
//!
//! Whether there is one is the guest's own matter: its image says whether it was made with a way to one
//! (`hw_qemu_guest_agent`), and what runs inside whether somebody answers there. So nobody asks before; the driver tells.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;

/// One compute host. In every call: [`NoAgent`](crate::driver::DriverError::NoAgent) where the guest was made without one.
#[async_trait]
pub trait GuestAgent: Send + Sync {
    /// Sets a user's password; `Unsupported` where no agent answers.
    async fn set_password(&self, instance: InstanceId, user: &str, password: &str) -> DriverResult<()>;
    /// Has everything written out and holds the guest's file systems still, until [`thaw`](Self::thaw). Still already is
    /// success.
    async fn freeze(&self, instance: InstanceId) -> DriverResult<()>;
    /// Lets the file systems go on. A guest that is off or gone holds nothing still: success.
    async fn thaw(&self, instance: InstanceId) -> DriverResult<()>;
}
