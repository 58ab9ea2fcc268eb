//! Guests that stand still: paused in memory, or suspended to disk.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::DriverResult;

#[async_trait]
pub trait Suspension: Send + Sync {
    /// Stops the guest's processors; its memory stays. Paused already is success.
    async fn pause(&self, instance: InstanceId) -> DriverResult<()>;
    /// Lets a paused guest go on. Running already is success.
    async fn unpause(&self, instance: InstanceId) -> DriverResult<()>;
    /// Saves the guest's memory on the host's disk and switches it off. Saved already is success.
    async fn suspend(&self, instance: InstanceId) -> DriverResult<()>;
    /// Lets a suspended guest go on from where it was. Running already is success.
    async fn resume(&self, instance: InstanceId) -> DriverResult<()>;
}
