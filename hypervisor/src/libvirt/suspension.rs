//! Pauses, suspends and resumes guests.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use super::host::LibvirtDriver;
use super::{domain, managed_save};
use crate::capability::Suspension;
use crate::driver::DriverResult;

/// The factor by which saving and restoring a guest's memory may take longer than other calls.
const SAVE_FACTOR: u32 = 5;

#[async_trait]
impl Suspension for LibvirtDriver {
    async fn pause(&self, instance: InstanceId) -> DriverResult<()> {
        self.change("pause", instance, self.options.call_deadline, move |connect, _| {
            managed_save::pause(&domain::require(connect, instance)?)
        })
        .await
    }

    async fn unpause(&self, instance: InstanceId) -> DriverResult<()> {
        self.change("unpause", instance, self.options.call_deadline, move |connect, _| {
            managed_save::unpause(&domain::require(connect, instance)?)
        })
        .await
    }

    async fn suspend(&self, instance: InstanceId) -> DriverResult<()> {
        // The guest's whole memory is written to the host's disk.
        let deadline = self.options.call_deadline * SAVE_FACTOR;
        self.change("suspend", instance, deadline, move |connect, _| {
            managed_save::suspend(&domain::require(connect, instance)?)
        })
        .await
    }

    async fn resume(&self, instance: InstanceId) -> DriverResult<()> {
        let deadline = self.options.call_deadline * SAVE_FACTOR;
        self.change("resume", instance, deadline, move |connect, _| {
            managed_save::resume(&domain::require(connect, instance)?)
        })
        .await
    }
}
