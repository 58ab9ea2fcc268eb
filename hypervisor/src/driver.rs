//! The driver: the interface between the control plane and a hypervisor. Every driver has a small core and optional
//! parts.
//!
//! The core caches images, creates, deletes, starts, stops and reboots guests, and reports the state of a host and its
//! guests. Everything else is an optional part, a trait of [`crate::capability`]. The driver returns itself from the
//! accessor of each part that it offers.
//!
//! Every call is idempotent by its ids: creating an existing guest succeeds, and so does deleting a missing one. Every
//! call has a deadline inside the driver. A call that misses its deadline returns [`DriverError::Timeout`], and its
//! outcome is unknown. The caller then asks for the state (`guest`, `guests`) before it decides.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use chronova_events::ids::InstanceId;
use futures::Stream;

pub use crate::answer::{ByteStream, DriverError, DriverResult};
use crate::capability::{
    Consoles, DeviceLocations, DiskSnapshots, DiskTransfer, EmulatedTpm, GuestAgent, GuestDefinitions, ImageCache,
    InterfaceAttachment, LiveMigration, OwnerMark, Redefinition, SharedStorage, StorageCleanup, Suspension,
    Troubleshooting, VirtualNetworks, VolumeAttachment, VolumeStore,
};
use crate::guest::{GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef, PowerState};

/// The content of images. A driver opens an image for each host that lacks it.
#[async_trait]
pub trait ImageSource: Send + Sync {
    /// A stream of the image's bytes from the start.
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream>;

    /// Where the image service stores the content, as URLs (`rbd://FSID/POOL/IMAGE/SNAPSHOT`). A host whose disks are
    /// in the same storage makes its disks from there, without a transfer and without a look at the bytes. If the list
    /// is empty, the source offers only the bytes.
    async fn places(&self, image: &ImageRef) -> DriverResult<Vec<String>> {
        let _ = image;
        Ok(Vec::new())
    }
}

/// A source that offers only the bytes of images. It serves images whose bytes must be checked, and disks that must not
/// depend on the image.
pub struct BytesAlone(pub Arc<dyn ImageSource>);

impl fmt::Debug for BytesAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BytesAlone").finish_non_exhaustive()
    }
}

#[async_trait]
impl ImageSource for BytesAlone {
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        self.0.open(image).await
    }
}

/// How to stop a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// An ACPI request; after `timeout_seconds` the guest is powered off (Nova's `[DEFAULT] shutdown_timeout`).
    Graceful { timeout_seconds: u32 },
    /// The guest is powered off at once.
    Hard,
}

/// A message that a host sends on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostSignal {
    /// The connection is up (again). The listener must resynchronise.
    Connected,
    /// The connection is lost. The driver reconnects on its own with backoff.
    Disconnected { reason: String },
    /// A guest's power state changed.
    Guest { instance: InstanceId, power: PowerState },
    /// One of our guests is no longer defined on the host. Another program undefined it, or it has left in a live
    /// migration.
    GuestGone { instance: InstanceId },
}

pub type SignalStream = Pin<Box<dyn Stream<Item = HostSignal> + Send>>;

/// One compute host.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// The driver's URI without credentials, for logs.
    fn uri(&self) -> &str;

    async fn capabilities(&self) -> DriverResult<HostCapabilities>;
    async fn usage(&self) -> DriverResult<HostUsage>;
    /// The host's signals from now on. The first is `Connected` or `Disconnected`.
    fn watch(&self) -> SignalStream;

    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus>;
    /// Every guest of ours on the host, running or not.
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>>;

    /// Uploads `image` to the host's cache if the cache lacks the image. Marks the image as used. Concurrent calls for
    /// one checksum upload it once.
    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()>;
    /// Creates the disks and the domain, and starts the domain. Image, networks and filters already exist. A second
    /// call with the same spec completes an interrupted call.
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()>;
    /// Removes domain, disks, copies of disks, config drive and console log. Succeeds if the guest does not exist.
    async fn destroy(&self, instance: InstanceId) -> DriverResult<()>;

    async fn start(&self, instance: InstanceId) -> DriverResult<()>;
    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()>;
    /// Asks the guest to reboot itself. `Failed` if the guest does not react within `timeout_seconds`; `Unsupported` if
    /// the hypervisor cannot ask the guest.
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()>;
    /// Powers the guest off without asking it, and starts it.
    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()>;

    // The optional parts. `None`: the driver does not support the part.

    fn consoles(&self) -> Option<&dyn Consoles> {
        None
    }
    fn device_locations(&self) -> Option<&dyn DeviceLocations> {
        None
    }
    fn disk_transfer(&self) -> Option<&dyn DiskTransfer> {
        None
    }
    fn emulated_tpm(&self) -> Option<&dyn EmulatedTpm> {
        None
    }
    fn guest_agent(&self) -> Option<&dyn GuestAgent> {
        None
    }
    fn guest_definitions(&self) -> Option<&dyn GuestDefinitions> {
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
    fn owner_mark(&self) -> Option<&dyn OwnerMark> {
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
