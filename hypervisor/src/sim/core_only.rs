//! A driver with the core only: the minimum for a new hypervisor.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;

use crate::driver::{Driver, DriverResult, ImageSource, SignalStream, StopMode};
use crate::guest::{GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef};

/// Passes the calls of the core on, and offers no optional part.
pub struct CoreOnly {
    inner: Arc<dyn Driver>,
    /// Whether the host clones an image where the image service stores it, and then reads no byte.
    clones: bool,
}

impl CoreOnly {
    pub fn around(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Self { inner, clones: false })
    }

    /// A host that clones an image if the image's source names a place.
    pub fn that_clones(inner: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Self { inner, clones: true })
    }
}

impl fmt::Debug for CoreOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreOnly").field("uri", &self.inner.uri()).field("clones", &self.clones).finish()
    }
}

#[async_trait]
impl Driver for CoreOnly {
    fn uri(&self) -> &str {
        self.inner.uri()
    }
    async fn capabilities(&self) -> DriverResult<HostCapabilities> {
        self.inner.capabilities().await
    }
    async fn usage(&self) -> DriverResult<HostUsage> {
        self.inner.usage().await
    }
    fn watch(&self) -> SignalStream {
        self.inner.watch()
    }
    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        self.inner.guest(instance).await
    }
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        self.inner.guests().await
    }
    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()> {
        match self.clones && !source.places(image).await?.is_empty() {
            true => Ok(()),
            false => self.inner.ensure_image(image, source).await,
        }
    }
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        self.inner.spawn(guest).await
    }
    async fn destroy(&self, instance: InstanceId) -> DriverResult<()> {
        self.inner.destroy(instance).await
    }
    async fn start(&self, instance: InstanceId) -> DriverResult<()> {
        self.inner.start(instance).await
    }
    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()> {
        self.inner.stop(instance, mode).await
    }
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()> {
        self.inner.reboot_soft(instance, timeout_seconds).await
    }
    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()> {
        self.inner.reboot_hard(instance).await
    }
}
