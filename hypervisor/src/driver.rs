//! The interface between deciding and doing: a small core that every driver has, and optional parts.
//!
//! The core builds, deletes, starts, stops and reboots guests, and tells how a host and its guests are. Everything else
//! is an optional part, a trait of [`crate::capability`]; the driver returns itself from the accessor of a part that it
//! offers.
//!
//! Every call is idempotent under the ids it carries: a guest that already exists as asked is success, a guest that is
//! already gone is success. Every call has a deadline inside the driver; a call that did not come back in time is
//! [`DriverError::Timeout`] and its outcome is unknown, so the caller asks again (`guest`, `guests`) before it decides.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use futures::Stream;

pub use crate::answer::{ByteStream, DriverError, DriverResult};
use crate::capability::{
    Consoles, DeviceLocations, DiskSnapshots, DiskTransfer, GuestAgent, ImageCache, InterfaceAttachment, LiveMigration,
    Redefinition, SharedStorage, StorageCleanup, Suspension, Troubleshooting, VirtualNetworks, VolumeAttachment,
    VolumeStore,
};
use crate::guest::{GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef, PowerState};

/// The content of an image, opened for each host that lacks it.
#[async_trait]
pub trait ImageSource: Send + Sync {
    /// A stream of the image's bytes from the start.
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream>;
}

/// The way to stop a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// ACPI request, then pulled after `timeout_seconds` (Nova's `[DEFAULT] shutdown_timeout`).
    Graceful { timeout_seconds: u32 },
    /// Pulled at once.
    Hard,
}

/// A message that a host sends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostSignal {
    /// The connection is up (again): resynchronise.
    Connected,
    /// The connection is gone; the driver reconnects by itself with backoff.
    Disconnected { reason: String },
    /// A guest's power state changed.
    Guest { instance: InstanceId, power: PowerState },
    /// A guest of ours was undefined behind our back.
    GuestGone { instance: InstanceId },
}

pub type SignalStream = Pin<Box<dyn Stream<Item = HostSignal> + Send>>;

/// One compute host.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// The URI this driver was made from, without credentials; for logs.
    fn uri(&self) -> &str;

    async fn capabilities(&self) -> DriverResult<HostCapabilities>;
    async fn usage(&self) -> DriverResult<HostUsage>;
    /// The host's signals from now on; the first is `Connected` or `Disconnected`.
    fn watch(&self) -> SignalStream;

    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus>;
    /// Every guest of ours on the host, running or not.
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>>;

    /// Brings `image` into the host's cache unless it is there, and marks it as used. Concurrent calls for one checksum
    /// upload once.
    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()>;
    /// Creates disks and domain and starts it. Image, networks and filters are there already. A second call with the
    /// same spec finishes what a first began.
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()>;
    /// Removes domain, disks, copies of disks, config drive and console log. Gone already is success.
    async fn destroy(&self, instance: InstanceId) -> DriverResult<()>;

    async fn start(&self, instance: InstanceId) -> DriverResult<()>;
    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()>;
    /// Asks the guest to reboot itself; `Unsupported`/`Failed` when it does not react within `timeout_seconds`.
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()>;
    /// Switches the guest off without asking it, and starts it.
    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()>;

    // The optional parts: `None` where the driver does not know how.

    fn consoles(&self) -> Option<&dyn Consoles> {
        None
    }
    fn device_locations(&self) -> Option<&dyn DeviceLocations> {
        None
    }
    fn disk_transfer(&self) -> Option<&dyn DiskTransfer> {
        None
    }
    fn guest_agent(&self) -> Option<&dyn GuestAgent> {
        None
    }
    fn image_cache(&self) -> Option<&dyn ImageCache> {
        None
    }
    fn interfaces(&self) -> Option<&dyn InterfaceAttachment> {
        None
    }
    fn live_migration(&self) -> Option<&dyn LiveMigration> {
        None
    }
    fn networks(&self) -> Option<&dyn VirtualNetworks> {
        None
    }
    fn redefinition(&self) -> Option<&dyn Redefinition> {
        None
    }
    fn shared_storage(&self) -> Option<&dyn SharedStorage> {
        None
    }
    fn snapshots(&self) -> Option<&dyn DiskSnapshots> {
        None
    }
    fn storage_cleanup(&self) -> Option<&dyn StorageCleanup> {
        None
    }
    fn suspension(&self) -> Option<&dyn Suspension> {
        None
    }
    fn troubleshooting(&self) -> Option<&dyn Troubleshooting> {
        None
    }
    fn volume_attachment(&self) -> Option<&dyn VolumeAttachment> {
        None
    }
    fn volume_store(&self) -> Option<&dyn VolumeStore> {
        None
    }
}
