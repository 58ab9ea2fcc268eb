//! Finds leftovers on simulated machines. No machine has an incomplete image: an upload either completes or leaves
//! nothing.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use super::SimHost;
use super::faults::DriverCall;
use super::machine::SimMachine;
use crate::capability::storage_cleanup::{Leftover, StorageCleanup};
use crate::driver::DriverResult;

#[async_trait]
impl StorageCleanup for SimHost {
    async fn orphans(&self) -> DriverResult<Vec<InstanceId>> {
        self.perform(DriverCall::Orphans, |machine| Ok(machine.orphans())).await
    }

    async fn leftovers(&self) -> DriverResult<Vec<Leftover>> {
        // With shared storage, each host sees the disks that any host has set aside.
        let kept = if self.fleet.has_shared_storage() { self.fleet.kept() } else { Vec::new() };
        self.perform(DriverCall::Leftovers, |machine| {
            let copies = machine.copies().iter();
            let mut all: Vec<_> =
                copies.map(|(instance, copy)| Leftover::Copy { instance: *instance, copy: *copy }).collect();
            let kept = machine.kept.iter().chain(&kept).copied();
            all.extend(kept.map(|instance| Leftover::Kept { instance, suffix: SimMachine::kept_file().suffix }));
            all.sort();
            all.dedup();
            Ok(all)
        })
        .await
    }

    async fn remove_torn_image(&self, _: &str) -> DriverResult<()> {
        Ok(())
    }
}
