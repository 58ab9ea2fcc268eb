//! Storage that several hosts share.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chronova_events::ids::{HostId, InstanceId};

use crate::driver::DriverResult;

#[async_trait]
pub trait SharedStorage: Send + Sync {
    /// The hosts that use the same storage as this host, this one included.
    async fn storage_sharers(&self) -> DriverResult<BTreeSet<HostId>>;
    /// Whether hosts with the same disks also have the same other files (console logs, image cache). Makes no call to the
    /// host.
    fn shares_files(&self) -> bool {
        true
    }
    /// Removes the guest's definition and keeps its disks, because another host uses them, too. A guest that is on is
    /// left alone.
    async fn undefine(&self, instance: InstanceId) -> DriverResult<()>;
}
