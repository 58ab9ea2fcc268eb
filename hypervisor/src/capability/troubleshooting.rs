//! Helps an administrator with a faulty guest: interrupts it, and reads its counters.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;
use crate::guest::Diagnostics;

#[async_trait]
pub trait Troubleshooting: Send + Sync {
    /// Sends the guest a non-maskable interrupt. An operating system that is prepared for it writes a dump and reboots.
    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()>;
    /// The resources that the guest has used so far. `Failed` if the guest is off.
    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics>;
}
