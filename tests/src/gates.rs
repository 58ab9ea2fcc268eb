//! A driver that dies with its control plane: what a crashed world still has under way reaches no host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::{InstanceId, NetworkId};
use chronova_hypervisor::driver::{Driver, DriverError, DriverResult, ImageSource, SignalStream, StopMode};
use chronova_hypervisor::guest::{
    FilterSpec, GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef, NetworkSpec,
};
use futures::StreamExt;

/// Passes calls on until `dead`, which is the fuse of the world's log.
pub struct Gate {
    inner: Arc<dyn Driver>,
    dead: Arc<AtomicBool>,
}

impl Gate {
    pub fn around(inner: Arc<dyn Driver>, dead: Arc<AtomicBool>) -> Arc<dyn Driver> {
        Arc::new(Self { inner, dead })
    }

    fn check(&self) -> DriverResult<()> {
        match self.dead.load(Ordering::SeqCst) {
            true => Err(DriverError::Unreachable("the control plane has crashed".to_owned())),
            false => Ok(()),
        }
    }
}

/// Before and after: a call that was under way at the crash did its work, but nobody learns of it.
macro_rules! gated {
    ($self:ident, $call:expr) => {{
        $self.check()?;
        let result = $call.await;
        $self.check()?;
        result
    }};
}

#[async_trait]
impl Driver for Gate {
    fn uri(&self) -> &str {
        self.inner.uri()
    }
    async fn capabilities(&self) -> DriverResult<HostCapabilities> {
        gated!(self, self.inner.capabilities())
    }
    async fn usage(&self) -> DriverResult<HostUsage> {
        gated!(self, self.inner.usage())
    }
    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()> {
        gated!(self, self.inner.ensure_image(image, source))
    }
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()> {
        gated!(self, self.inner.ensure_network(network))
    }
    async fn remove_network(&self, network: NetworkId) -> DriverResult<()> {
        gated!(self, self.inner.remove_network(network))
    }
    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()> {
        gated!(self, self.inner.ensure_filter(filter))
    }
    async fn remove_filter(&self, name: &str) -> DriverResult<()> {
        gated!(self, self.inner.remove_filter(name))
    }
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        gated!(self, self.inner.spawn(guest))
    }
    async fn destroy(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, self.inner.destroy(instance))
    }
    async fn start(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, self.inner.start(instance))
    }
    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()> {
        gated!(self, self.inner.stop(instance, mode))
    }
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()> {
        gated!(self, self.inner.reboot_soft(instance, timeout_seconds))
    }
    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, self.inner.reboot_hard(instance))
    }
    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        gated!(self, self.inner.guest(instance))
    }
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        gated!(self, self.inner.guests())
    }
    async fn orphans(&self) -> DriverResult<Vec<InstanceId>> {
        gated!(self, self.inner.orphans())
    }
    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes> {
        gated!(self, self.inner.console_log(instance, max_bytes))
    }
    fn watch(&self) -> SignalStream {
        let dead = Arc::clone(&self.dead);
        Box::pin(self.inner.watch().filter(move |_| {
            let alive = !dead.load(Ordering::SeqCst);
            async move { alive }
        }))
    }
}
