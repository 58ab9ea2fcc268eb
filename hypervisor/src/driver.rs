//! The interface between deciding and doing.
//!
//! Every call is idempotent under the ids it carries: a guest that already exists as asked is success, a guest that is
//! already gone is success. Every call has a deadline inside the driver; a call that did not come back in time is
//! [`DriverError::Timeout`] and its outcome is unknown, so the caller asks again (`guest`, `guests`) before it decides.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::{ImageId, InstanceId, NetworkId};
use futures::Stream;
use thiserror::Error;

use crate::agent::GuestAgent;
use crate::console::Consoles;
use crate::device::GuestDevice;
use crate::guest::{
    Diagnostics, DiskCopy, FilterSpec, GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef, NetworkSpec, Nic,
    PowerState, Quiesce, Renew, VolumeDisk,
};
use crate::image_cache::ImageCache;
use crate::leftovers::Leftovers;
use crate::live::LiveMoves;
use crate::moves::Moves;
use crate::volume_store::VolumeStore;

#[derive(Debug, Error)]
pub enum DriverError {
    /// The host cannot be reached; nothing is known of what was asked.
    #[error("the host is unreachable: {0}")]
    Unreachable(String),
    /// No answer within the deadline; the outcome is unknown.
    #[error("{call} did not answer within {seconds} s")]
    Timeout { call: &'static str, seconds: u64 },
    #[error("guest {0} is not on this host")]
    NoSuchGuest(InstanceId),
    /// The host cannot do this at all (see [`HostCapabilities`]).
    #[error("not supported by this host: {0}")]
    Unsupported(String),
    /// No room (disk full, out of memory): another host may do.
    #[error("the host has no room: {0}")]
    NoRoom(String),
    /// The image's bytes did not match what was announced, or could not be read.
    #[error("image {image} is unusable: {reason}")]
    BadImage { image: String, reason: String },
    /// The guest was made without an agent inside it.
    #[error("QEMU guest agent is not enabled")]
    NoAgent,
    /// The hypervisor said no.
    #[error("{call} failed: {message}")]
    Failed { call: &'static str, message: String },
}

impl DriverError {
    /// Whether the same call may succeed later without anything being changed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Timeout { .. })
    }
}

pub type DriverResult<T> = Result<T, DriverError>;

/// The content of an image, opened anew for each host that lacks it.
#[async_trait]
pub trait ImageSource: Send + Sync {
    /// A stream of the image's bytes from the start.
    async fn open(&self, image: &ImageRef) -> DriverResult<ByteStream>;
}

pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;

/// How a guest is to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// ACPI request, then pulled after `timeout_seconds` (Nova's `[DEFAULT] shutdown_timeout`).
    Graceful { timeout_seconds: u32 },
    /// Pulled at once.
    Hard,
}

/// What a host tells by itself.
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
pub trait Driver:
    Consoles + GuestAgent + ImageCache + Leftovers + LiveMoves + Moves + VolumeStore + Send + Sync + 'static
{
    /// The URI this driver was made from, without credentials; for logs.
    fn uri(&self) -> &str;

    async fn capabilities(&self) -> DriverResult<HostCapabilities>;
    async fn usage(&self) -> DriverResult<HostUsage>;

    /// Brings `image` into the host's cache unless it is there; it is idle no more. Concurrent calls for one checksum upload
    /// once.
    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()>;
    /// Realises a virtual network (bridge, DHCP reservations) or brings it up to date.
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()>;
    async fn remove_network(&self, network: NetworkId) -> DriverResult<()>;
    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()>;
    async fn remove_filter(&self, name: &str) -> DriverResult<()>;

    /// Creates disks and domain and starts it. Image, networks and filters are there already. A second call with the
    /// same spec finishes what a first began.
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()>;
    /// Gives a guest another definition: pulls it where it runs, makes anew what `renew` says and what it lacks, makes or
    /// removes the rescue disk, and starts it. Made where it is missing. A second call does all of it again.
    async fn reshape(&self, guest: &GuestSpec, renew: Renew) -> DriverResult<()>;
    /// Removes domain, disks, copies of disks, config drive and console log. Gone already is success.
    async fn destroy(&self, instance: InstanceId) -> DriverResult<()>;

    async fn start(&self, instance: InstanceId) -> DriverResult<()>;
    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()>;
    /// Asks the guest to reboot itself; `Unsupported`/`Failed` when it does not react within `timeout_seconds`.
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()>;
    /// Pulls and starts the guest.
    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()>;
    /// Stops the guest's processors; its memory stays. Paused already is success.
    async fn pause(&self, instance: InstanceId) -> DriverResult<()>;
    /// Lets a paused guest go on. Running already is success.
    async fn unpause(&self, instance: InstanceId) -> DriverResult<()>;
    /// Saves the guest's memory on the host's disk and switches it off. Saved already is success.
    async fn suspend(&self, instance: InstanceId) -> DriverResult<()>;
    /// Lets a suspended guest go on from where it was. Running already is success.
    async fn resume(&self, instance: InstanceId) -> DriverResult<()>;

    /// Gives the guest one more interface, now (where it is in memory) and for every later start. Network and filter are on
    /// the host already; `hardware` is the image's, as in [`GuestSpec`]. There already is success.
    async fn attach_nic(&self, instance: InstanceId, nic: &Nic, hardware: &[(String, String)]) -> DriverResult<()>;
    /// Takes the interface with this MAC from the guest. A running guest must let go of it: it is asked again and again, and
    /// `Failed` says that it did not, and has the interface as before. Gone already is success.
    async fn detach_nic(&self, instance: InstanceId, mac: &str) -> DriverResult<()>;

    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus>;
    /// Every guest of ours on the host, running or not.
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>>;
    /// Disk volumes of ours whose guest is not defined: leftovers to be removed.
    async fn orphans(&self) -> DriverResult<Vec<InstanceId>>;

    /// Copies the guest's root disk, as it is at one moment, into one file on the host, named by `copy`. The guest goes on
    /// meanwhile. Copied already is success.
    async fn copy_root(&self, instance: InstanceId, copy: ImageId, quiesce: Quiesce) -> DriverResult<DiskCopy>;
    /// The bytes of a copy that is complete.
    async fn read_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<ByteStream>;
    /// Removes a copy, complete or not. Gone already is success.
    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()>;

    /// Sends the guest a non-maskable interrupt, at which an operating system prepared for it writes a dump and reboots.
    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()>;
    /// What the guest has used so far; `Failed` for one that does not run.
    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics>;

    /// Gives the guest a volume as one more disk: at once if it is on, and whenever it is started. It has it already:
    /// success.
    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()>;
    /// Takes the volume with this serial from the guest. One that is on has to let go of it and is asked more than once;
    /// `Failed` when it keeps it. It does not have it: success.
    async fn detach_disk(&self, instance: InstanceId, serial: &str) -> DriverResult<()>;
    /// Copies what is on the volume `old` to `new`, which is not smaller, and lets the guest, which is on and goes on,
    /// have `new` in its place. It has `new` already: success.
    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()>;
    /// The serials of the volumes that the guest has when it is started next, sorted.
    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>>;
    /// The MAC addresses of the interfaces that the guest has when it is started next, in lower case, sorted.
    async fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>>;
    /// Where the guest finds its interfaces and disks: now, if it is in memory, otherwise when it is started next.
    async fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>>;

    /// The last `max_bytes` of the serial console's log.
    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes>;

    /// What the host tells from now on; begins with `Connected` or `Disconnected`.
    fn watch(&self) -> SignalStream;
}
