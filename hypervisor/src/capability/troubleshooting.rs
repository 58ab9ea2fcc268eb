//! Helps an administrator with a guest that misbehaves: interrupts it, and measures it.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::guest::Diagnostics;

#[async_trait]
pub trait Troubleshooting: Send + Sync {
    /// Sends the guest a non-maskable interrupt, at which an operating system prepared for it writes a dump and reboots.
    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()>;
    /// The guest's use of resources so far; `Failed` for a guest that is off.
    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics>;
}
