//! A simulated fleet behind the interface of the driver.
//!
//! `sim://N?...` has N hosts with stable identities, and seeded latency and faults. Guests boot, react to ACPI and
//! write a console. Hosts die and revive. [`SimFleet`] has the machines, which survive a control plane inside a test
//! process. With a state directory the machines also survive the process, because a change is in the file before its
//! call returns. [`SimHost`] is the driver of one machine.
//!
//! Invariants: no call spawns a task. Without latency and faults, a call waits only for an image's content, or for a
//! guest that boots, ignores its power button or migrates. The same seed and the same calls give the same outcomes. A
//! spawn needs its image, networks and filters, as on a real host.

mod agent;
mod console;
mod core_only;
mod definitions;
mod devices;
mod disk_transfer;
mod emulated_tpm;
mod faults;
mod fleet;
mod guest;
mod guest_definitions;
mod image_caches;
mod journal;
mod live_migration;
mod machine;
mod mdevs;
mod owner_mark;
mod parts;
mod passed_devices;
mod passed_mdevs;
mod pci;
mod qcow2;
mod storage_cleanup;
mod surroundings;
mod uri;
mod volumes;
mod work;

pub use core_only::CoreOnly;
pub use faults::{DriverCall, Effect, FaultPlan, FaultRule, FaultTrigger};
pub use fleet::SimFleet;
pub use journal::JournalError;
pub use live_migration::SharedDiskBreach;
pub use machine::SimGuest;
pub use mdevs::SimMdevs;
pub use pci::SimPci;
pub use uri::{SimUri, SimUriError};

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::InstanceId;
use futures::{StreamExt as _, stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::sleep;
use tracing::Instrument as _;
use tracing::field::Empty;

use self::machine::SimMachine;
use crate::capability::{
    Consoles, DeviceLocations, DiskSnapshots, DiskTransfer, EmulatedTpm, GuestAgent, GuestDefinitions, ImageCache,
    InterfaceAttachment, LiveMigration, OwnerMark, Redefinition, SharedStorage, StorageCleanup, Suspension,
    Troubleshooting, VirtualNetworks, VolumeAttachment, VolumeStore, offers,
};
use crate::driver::{Driver, DriverError, DriverResult, HostSignal, ImageSource, SignalStream, StopMode};
use crate::guest::{GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef};

/// The time in seconds that the error of a lost reply reports.
const LOST_AFTER: u64 = 60;

/// The driver for one simulated host.
pub struct SimHost {
    fleet: Arc<SimFleet>,
    index: usize,
    uri: String,
    /// Whether the control plane that owns this driver is dead. If so, none of its calls reaches the host.
    severed: Option<Arc<AtomicBool>>,
}

impl fmt::Debug for SimHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimHost").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl SimHost {
    pub fn new(fleet: Arc<SimFleet>, index: usize) -> Self {
        let uri = format!("sim://{}", fleet.hostname(index));
        Self { fleet, index, uri, severed: None }
    }

    fn require_life(&self) -> DriverResult<()> {
        match &self.severed {
            Some(severed) if severed.load(Ordering::SeqCst) => {
                Err(DriverError::Unreachable("the control plane is dead".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Performs one call in a span for traces.
    async fn perform<T>(
        &self,
        call: DriverCall,
        work: impl FnOnce(&mut SimMachine) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let (name, host) = (call.name(), self.uri.as_str());
        let span = tracing::info_span!(target: "spans", "hypervisor", call = name, host, error = Empty);
        let answer = self.answer(call, work).instrument(span.clone()).await;
        answer.inspect_err(|error| {
            span.record("error", tracing::field::display(error));
        })
    }

    /// Answers one call: counts it, delays it, and applies a fault if one is due.
    async fn answer<T>(
        &self,
        call: DriverCall,
        work: impl FnOnce(&mut SimMachine) -> DriverResult<T>,
    ) -> DriverResult<T> {
        self.fleet.advance();
        self.require_life()?;
        let (delay, fault) = self.fleet.machine(self.index).begin(call)?;
        if !delay.is_zero() {
            sleep(delay).await;
            self.require_life()?;
        }
        let mut machine = self.fleet.machine(self.index);
        machine.require_alive()?;
        let name = call.name();
        match fault {
            None | Some(Effect::Slow) => work(&mut machine),
            Some(Effect::Refuse) => Err(DriverError::Failed { call: name, message: "simulated fault".to_owned() }),
            Some(Effect::NoAgent) => Err(DriverError::NoAgent),
            Some(Effect::NoRoom) => Err(DriverError::NoRoom("simulated".to_owned())),
            Some(Effect::LoseReply) => {
                work(&mut machine).and(Err(DriverError::Timeout { call: name, seconds: LOST_AFTER }))
            }
            Some(Effect::Tear) => {
                machine.tear_next(call);
                work(&mut machine)
            }
            Some(Effect::DieBefore) => Err(machine.die()),
            Some(Effect::DieAfter) => work(&mut machine).and_then(|_| Err(machine.die())),
        }
    }

    /// Waits until a booting guest notices its power button, at most `limit`. Returns whether it notices.
    async fn until_booted(&self, instance: InstanceId, limit: Duration) -> DriverResult<bool> {
        let left = self.fleet.machine(self.index).until_attentive(instance)?;
        match left {
            Some(left) if left.is_zero() => Ok(true),
            Some(left) => {
                sleep(left.min(limit)).await;
                Ok(left <= limit)
            }
            None => {
                sleep(limit).await;
                Ok(false)
            }
        }
    }
}

#[async_trait]
impl Driver for SimHost {
    fn uri(&self) -> &str {
        &self.uri
    }

    async fn capabilities(&self) -> DriverResult<HostCapabilities> {
        self.perform(DriverCall::Capabilities, |machine| Ok(machine.capabilities())).await
    }

    async fn usage(&self) -> DriverResult<HostUsage> {
        self.perform(DriverCall::Usage, |machine| Ok(machine.usage())).await
    }

    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()> {
        let gate = self.fleet.machine(self.index).image_gate();
        let _one_at_a_time = gate.lock().await;
        let there = self.perform(DriverCall::EnsureImage, |machine| {
            machine.note_idle(&image.checksum, None)?;
            Ok(machine.has_image(image))
        });
        if there.await? {
            return self.echo(|machine| machine.note_idle(&image.checksum, None));
        }
        let content = receive(image, source).await?;
        self.require_life()?;
        self.fleet.machine(self.index).keep_image(image, content.clone())?;
        self.echo(|machine| machine.place_image(image, content.clone()))
    }

    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        self.fleet.touch(self.index, DriverCall::Spawn, guest.instance, true);
        self.perform(DriverCall::Spawn, |machine| machine.spawn(guest)).await
    }

    async fn destroy(&self, instance: InstanceId) -> DriverResult<()> {
        self.fleet.touch(self.index, DriverCall::Destroy, instance, false);
        self.perform(DriverCall::Destroy, |machine| machine.destroy(instance)).await
    }

    async fn start(&self, instance: InstanceId) -> DriverResult<()> {
        self.fleet.touch(self.index, DriverCall::Start, instance, true);
        self.perform(DriverCall::Start, |machine| machine.start(instance)).await
    }

    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()> {
        if let StopMode::Graceful { timeout_seconds } = mode {
            // Whether or not the guest reacts in this time, the call below powers it off.
            self.until_booted(instance, Duration::from_secs(timeout_seconds.into())).await?;
        }
        self.perform(DriverCall::Stop, |machine| machine.power_off(instance)).await
    }

    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()> {
        let reacts = self.until_booted(instance, Duration::from_secs(timeout_seconds.into())).await?;
        self.perform(DriverCall::RebootSoft, |machine| {
            if reacts {
                machine.reboot(instance)
            } else {
                let message = format!("the guest did not react within {timeout_seconds} s");
                Err(DriverError::Failed { call: "soft reboot", message })
            }
        })
        .await
    }

    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()> {
        self.perform(DriverCall::RebootHard, |machine| machine.reboot(instance)).await
    }

    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        self.perform(DriverCall::Guest, |machine| machine.status(instance)).await
    }

    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        self.perform(DriverCall::Guests, |machine| Ok(machine.statuses())).await
    }

    fn watch(&self) -> SignalStream {
        let (first, receiver) = self.fleet.machine(self.index).listen();
        Box::pin(stream::unfold((Some(first), receiver), |(first, mut receiver)| async move {
            if let Some(signal) = first {
                return Some((signal, (None, receiver)));
            }
            match receiver.recv().await {
                Ok(signal) => Some((signal, (None, receiver))),
                // Signals were missed, so the listener must resynchronise.
                Err(RecvError::Lagged(_)) => Some((HostSignal::Connected, (None, receiver))),
                Err(RecvError::Closed) => None,
            }
        }))
    }

    offers! {
        consoles: Consoles,
        device_locations: DeviceLocations,
        disk_transfer: DiskTransfer,
        emulated_tpm: EmulatedTpm,
        guest_agent: GuestAgent,
        guest_definitions: GuestDefinitions,
        image_cache: ImageCache,
        interfaces: InterfaceAttachment,
        live_migration: LiveMigration,
        networks: VirtualNetworks,
        owner_mark: OwnerMark,
        redefinition: Redefinition,
        shared_storage: SharedStorage,
        snapshots: DiskSnapshots,
        storage_cleanup: StorageCleanup,
        suspension: Suspension,
        troubleshooting: Troubleshooting,
        volume_attachment: VolumeAttachment,
        volume_store: VolumeStore,
    }
}

/// Images of at most this many bytes can be read again in this process.
const SMALL_IMAGE: usize = 1 << 20;

async fn receive(image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<Bytes> {
    let bad = |reason: String| DriverError::BadImage { image: image.id.to_string(), reason };
    let mut check = crate::checksum::RunningDigest::new(&image.checksum);
    let mut content = source.open(image).await?;
    let mut size = 0_u64;
    let mut kept = Vec::new();
    while let Some(chunk) = content.next().await {
        let chunk = chunk
            .map_err(|error| DriverError::ImageUnread { image: image.id.to_string(), reason: error.to_string() })?;
        size += chunk.len() as u64;
        check.update(&chunk);
        if kept.len() + chunk.len() <= SMALL_IMAGE {
            kept.extend_from_slice(&chunk);
        }
    }
    if size != image.size {
        return Err(bad(format!("{size} bytes arrived instead of {}", image.size)));
    }
    if check.finish() != image.checksum {
        return Err(bad("its content does not match its checksum".to_owned()));
    }
    Ok(kept.into())
}

#[cfg(test)]
mod tests;
