//! Pauses guests in memory, or suspends them to disk.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;

#[async_trait]
pub trait Suspension: Send + Sync {
    /// Stops the guest's CPUs; its memory stays. Succeeds if the guest is already paused.
    async fn pause(&self, instance: InstanceId) -> DriverResult<()>;
    /// Continues a paused guest. Succeeds if the guest already runs.
    async fn unpause(&self, instance: InstanceId) -> DriverResult<()>;
    /// Saves the guest's memory on the host's disk and switches the guest off. Succeeds if the memory is already saved.
    async fn suspend(&self, instance: InstanceId) -> DriverResult<()>;
    /// Continues a suspended guest with its saved memory. Succeeds if the guest already runs.
    async fn resume(&self, instance: InstanceId) -> DriverResult<()>;
}
