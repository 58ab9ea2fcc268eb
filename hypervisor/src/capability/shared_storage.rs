//! Storage that several hosts see as their own.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::{HostId, InstanceId};

use crate::driver::DriverResult;

#[async_trait]
pub trait SharedStorage: Send + Sync {
    /// The hosts that see this host's storage as their own, this one included.
    async fn storage_sharers(&self) -> DriverResult<BTreeSet<HostId>>;
    /// Removes the guest's definition and keeps its disks, because another host has them too. A guest that is on is not
    /// touched.
    async fn undefine(&self, instance: InstanceId) -> DriverResult<()>;
}
