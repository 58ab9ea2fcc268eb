//! Diagnostics of guests, and interrupts sent to them.

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use super::host::LibvirtDriver;
use super::{counters, domain};
use crate::capability::Troubleshooting;
use crate::driver::DriverResult;
use crate::guest::Diagnostics;

#[async_trait]
impl Troubleshooting for LibvirtDriver {
    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()> {
        self.call("interrupt", move |connect, _| counters::interrupt(&domain::require(connect, instance)?)).await
    }

    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics> {
        self.ask("diagnostics", move |connect, _| counters::diagnostics(&domain::require(connect, instance)?)).await
    }
}
