//! What an administrator asks of a guest that misbehaves.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::guest::Diagnostics;

#[async_trait]
pub trait Troubleshooting: Send + Sync {
    /// Sends the guest a non-maskable interrupt, at which an operating system prepared for it writes a dump and reboots.
    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()>;
    /// What the guest has used so far; `Failed` for one that does not run.
    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics>;
}
