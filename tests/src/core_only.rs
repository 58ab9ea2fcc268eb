//! A driver with the core only: the minimum for a new hypervisor.

use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use chronova_hypervisor::driver::{Driver, DriverResult, ImageSource, SignalStream, StopMode};
use chronova_hypervisor::guest::{GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef};

/// Passes the calls of the core on, and offers no optional part.
pub struct CoreOnly(Arc<dyn Driver>);

impl CoreOnly {
    pub fn around(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Self(inner))
    }
}

#[async_trait]
impl Driver for CoreOnly {
    fn uri(&self) -> &str {
        self.0.uri()
    }
    async fn capabilities(&self) -> DriverResult<HostCapabilities> {
        self.0.capabilities().await
    }
    async fn usage(&self) -> DriverResult<HostUsage> {
        self.0.usage().await
    }
    fn watch(&self) -> SignalStream {
        self.0.watch()
    }
    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        self.0.guest(instance).await
    }
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        self.0.guests().await
    }
    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()> {
        self.0.ensure_image(image, source).await
    }
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        self.0.spawn(guest).await
    }
    async fn destroy(&self, instance: InstanceId) -> DriverResult<()> {
        self.0.destroy(instance).await
    }
    async fn start(&self, instance: InstanceId) -> DriverResult<()> {
        self.0.start(instance).await
    }
    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()> {
        self.0.stop(instance, mode).await
    }
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()> {
        self.0.reboot_soft(instance, timeout_seconds).await
    }
    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()> {
        self.0.reboot_hard(instance).await
    }
}
