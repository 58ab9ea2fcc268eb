//! A driver that dies with its control plane: what a crashed world still has under way reaches no host. And one whose calls
//! a test can hold up, before their work or between work and answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{HostId, ImageId, InstanceId, NetworkId};
use chronova_hypervisor::agent::GuestAgent;
use chronova_hypervisor::console::{ConsoleAddress, Consoles, Screen, SerialLine};
use chronova_hypervisor::device::GuestDevice;
use chronova_hypervisor::driver::{ByteStream, Driver, DriverError, DriverResult, ImageSource, SignalStream, StopMode};
use chronova_hypervisor::guest::{
    Diagnostics, DiskCopy, FilterSpec, GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageRef, NetworkSpec, Nic,
    Quiesce, Renew, VolumeDisk,
};
use chronova_hypervisor::image_cache::{CachedImage, ImageCache};
use chronova_hypervisor::leftovers::{Leftover, Leftovers};
use chronova_hypervisor::live::{Entrance, Hasten, Journey, LiveMoves, Luggage, Standing, Way};
use chronova_hypervisor::moves::{DiskFile, Moves};
use chronova_hypervisor::volume_store::{PoolStatus, PoolVolume, VolumeContent, VolumeStore};
use futures::StreamExt;
use tokio::sync::watch;

/// Holds up driver calls of every host: `spawn` before its work, `spawn:answer` after it. And notes what the hosts were
/// told of guests.
#[derive(Debug, Default)]
pub struct Brakes {
    held: watch::Sender<BTreeSet<&'static str>>,
    waiting: Mutex<BTreeMap<&'static str, usize>>,
    notes: Mutex<Notes>,
}

/// What hosts were told, in the order of the calls.
#[derive(Debug, Default)]
struct Notes {
    journeys: Vec<Journey>,
    /// The last definition of each guest.
    guests: BTreeMap<InstanceId, GuestSpec>,
    stops: Vec<StopMode>,
    /// Plugged into guests that are there.
    disks: Vec<(InstanceId, VolumeDisk)>,
}

impl Brakes {
    fn note(&self, what: impl FnOnce(&mut Notes)) {
        what(&mut self.notes.lock().unwrap());
    }

    /// How guests were sent on their way.
    pub fn journeys(&self) -> Vec<Journey> {
        self.notes.lock().unwrap().journeys.clone()
    }

    /// How the guest was defined last.
    pub fn guest(&self, instance: InstanceId) -> Option<GuestSpec> {
        self.notes.lock().unwrap().guests.get(&instance).cloned()
    }

    /// The disks that guests got after they were made.
    pub fn disks(&self) -> Vec<(InstanceId, VolumeDisk)> {
        self.notes.lock().unwrap().disks.clone()
    }

    /// How guests were switched off since this was asked last.
    pub fn take_stops(&self) -> Vec<StopMode> {
        std::mem::take(&mut self.notes.lock().unwrap().stops)
    }

    pub fn hold(&self, point: &'static str) {
        self.held.send_modify(|held| {
            held.insert(point);
        });
    }

    pub fn release(&self, point: &'static str) {
        self.held.send_modify(|held| {
            held.remove(point);
        });
    }

    /// How many calls are held up at `point`.
    pub fn count(&self, point: &'static str) -> usize {
        self.waiting.lock().unwrap().get(point).copied().unwrap_or(0)
    }

    /// Waits until a call is held up at `point`.
    pub async fn reached(&self, point: &'static str) {
        while self.waiting.lock().unwrap().get(point).is_none_or(|count| *count == 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn pass(&self, point: &'static str) {
        let mut held = self.held.subscribe();
        if !held.borrow().contains(point) {
            return;
        }
        *self.waiting.lock().unwrap().entry(point).or_default() += 1;
        let _ = held.wait_for(|held| !held.contains(point)).await;
        *self.waiting.lock().unwrap().entry(point).or_default() -= 1;
    }
}

/// Passes calls on until `dead`, which is the fuse of the world's log.
pub struct Gate {
    inner: Arc<dyn Driver>,
    dead: Arc<AtomicBool>,
    brakes: Arc<Brakes>,
}

impl Gate {
    pub fn around(inner: Arc<dyn Driver>, dead: Arc<AtomicBool>, brakes: Arc<Brakes>) -> Arc<dyn Driver> {
        Arc::new(Self { inner, dead, brakes })
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
    ($self:ident, $call:ident ( $($arg:expr),* )) => {{
        $self.brakes.pass(stringify!($call)).await;
        $self.check()?;
        let result = $self.inner.$call($($arg),*).await;
        $self.brakes.pass(concat!(stringify!($call), ":answer")).await;
        $self.check()?;
        result
    }};
}

#[async_trait]
impl Moves for Gate {
    async fn disk_files(&self, instance: InstanceId) -> DriverResult<Vec<DiskFile>> {
        gated!(self, disk_files(instance))
    }
    async fn read_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<ByteStream> {
        gated!(self, read_disk(instance, disk))
    }
    async fn read_image(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        gated!(self, read_image(image))
    }
    async fn receive_disk(&self, instance: InstanceId, disk: &DiskFile, content: ByteStream) -> DriverResult<()> {
        gated!(self, receive_disk(instance, disk, content))
    }
    async fn remove_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        gated!(self, remove_disk(instance, disk))
    }
    async fn provide(&self, guest: &GuestSpec) -> DriverResult<()> {
        gated!(self, provide(guest))
    }
    async fn install(&self, guest: &GuestSpec, on: bool) -> DriverResult<()> {
        self.brakes.note(|notes| drop(notes.guests.insert(guest.instance, guest.clone())));
        gated!(self, install(guest, on))
    }
}

#[async_trait]
impl Leftovers for Gate {
    async fn leftovers(&self) -> DriverResult<Vec<Leftover>> {
        gated!(self, leftovers())
    }
    async fn remove_torn_image(&self, checksum: &str) -> DriverResult<()> {
        gated!(self, remove_torn_image(checksum))
    }
}

#[async_trait]
impl ImageCache for Gate {
    async fn cached_images(&self) -> DriverResult<Vec<CachedImage>> {
        gated!(self, cached_images())
    }
    async fn note_idle(&self, checksum: &str, since: Option<Timestamp>) -> DriverResult<()> {
        gated!(self, note_idle(checksum, since))
    }
    async fn remove_image(&self, checksum: &str, idle_by: Timestamp) -> DriverResult<bool> {
        gated!(self, remove_image(checksum, idle_by))
    }
}

#[async_trait]
impl LiveMoves for Gate {
    async fn luggage(&self, instance: InstanceId) -> DriverResult<Luggage> {
        gated!(self, luggage(instance))
    }
    async fn obstacles(&self, luggage: &Luggage) -> DriverResult<Vec<String>> {
        gated!(self, obstacles(luggage))
    }
    async fn sharers(&self) -> DriverResult<BTreeSet<HostId>> {
        gated!(self, sharers())
    }
    async fn await_guest(&self, guest: &GuestSpec, copied: bool) -> DriverResult<()> {
        gated!(self, await_guest(guest, copied))
    }
    async fn depart(&self, instance: InstanceId, journey: &Journey) -> DriverResult<()> {
        self.brakes.note(|notes| notes.journeys.push(journey.clone()));
        gated!(self, depart(instance, journey))
    }
    async fn standing(&self, instance: InstanceId) -> DriverResult<Standing> {
        gated!(self, standing(instance))
    }
    async fn until_departed(&self, instance: InstanceId, most: Duration) {
        self.inner.until_departed(instance, most).await;
    }
    async fn call_back(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, call_back(instance))
    }
    async fn hasten(&self, instance: InstanceId, how: Hasten) -> DriverResult<()> {
        gated!(self, hasten(instance, how))
    }
    async fn allow_downtime(&self, instance: InstanceId, milliseconds: u64) -> DriverResult<()> {
        gated!(self, allow_downtime(instance, milliseconds))
    }
    async fn forget(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, forget(instance))
    }
    async fn unfit_for_tls(&self) -> DriverResult<Option<String>> {
        gated!(self, unfit_for_tls())
    }
    async fn interface_address(&self, name: &str) -> DriverResult<Option<String>> {
        gated!(self, interface_address(name))
    }
    fn remote_address(&self) -> Option<String> {
        self.inner.remote_address()
    }
    fn way(&self, entrance: &Entrance<'_>) -> Way {
        self.inner.way(entrance)
    }
    async fn adopt_console(&self, instance: InstanceId, text: Bytes) -> DriverResult<()> {
        gated!(self, adopt_console(instance, text))
    }
}

#[async_trait]
impl Driver for Gate {
    fn uri(&self) -> &str {
        self.inner.uri()
    }
    async fn capabilities(&self) -> DriverResult<HostCapabilities> {
        gated!(self, capabilities())
    }
    async fn usage(&self) -> DriverResult<HostUsage> {
        gated!(self, usage())
    }
    async fn ensure_image(&self, image: &ImageRef, source: Arc<dyn ImageSource>) -> DriverResult<()> {
        gated!(self, ensure_image(image, source))
    }
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()> {
        gated!(self, ensure_network(network))
    }
    async fn remove_network(&self, network: NetworkId) -> DriverResult<()> {
        gated!(self, remove_network(network))
    }
    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()> {
        gated!(self, ensure_filter(filter))
    }
    async fn remove_filter(&self, name: &str) -> DriverResult<()> {
        gated!(self, remove_filter(name))
    }
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        self.brakes.note(|notes| drop(notes.guests.insert(guest.instance, guest.clone())));
        gated!(self, spawn(guest))
    }
    async fn reshape(&self, guest: &GuestSpec, renew: Renew) -> DriverResult<()> {
        self.brakes.note(|notes| drop(notes.guests.insert(guest.instance, guest.clone())));
        gated!(self, reshape(guest, renew))
    }
    async fn copy_root(&self, instance: InstanceId, copy: ImageId, quiesce: Quiesce) -> DriverResult<DiskCopy> {
        gated!(self, copy_root(instance, copy, quiesce))
    }
    async fn read_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<ByteStream> {
        gated!(self, read_copy(instance, copy))
    }
    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        gated!(self, remove_copy(instance, copy))
    }
    async fn destroy(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, destroy(instance))
    }
    async fn start(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, start(instance))
    }
    async fn stop(&self, instance: InstanceId, mode: StopMode) -> DriverResult<()> {
        self.brakes.note(|notes| notes.stops.push(mode));
        gated!(self, stop(instance, mode))
    }
    async fn reboot_soft(&self, instance: InstanceId, timeout_seconds: u32) -> DriverResult<()> {
        gated!(self, reboot_soft(instance, timeout_seconds))
    }
    async fn reboot_hard(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, reboot_hard(instance))
    }
    async fn pause(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, pause(instance))
    }
    async fn unpause(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, unpause(instance))
    }
    async fn suspend(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, suspend(instance))
    }
    async fn resume(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, resume(instance))
    }
    async fn attach_nic(&self, instance: InstanceId, nic: &Nic, hardware: &[(String, String)]) -> DriverResult<()> {
        gated!(self, attach_nic(instance, nic, hardware))
    }
    async fn detach_nic(&self, instance: InstanceId, mac: &str) -> DriverResult<()> {
        gated!(self, detach_nic(instance, mac))
    }
    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        gated!(self, guest(instance))
    }
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        gated!(self, guests())
    }
    async fn orphans(&self) -> DriverResult<Vec<InstanceId>> {
        gated!(self, orphans())
    }
    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, interrupt(instance))
    }
    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics> {
        gated!(self, diagnostics(instance))
    }
    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()> {
        self.brakes.note(|notes| notes.disks.push((instance, disk.clone())));
        gated!(self, attach_disk(instance, disk))
    }
    async fn detach_disk(&self, instance: InstanceId, serial: &str) -> DriverResult<()> {
        gated!(self, detach_disk(instance, serial))
    }
    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()> {
        gated!(self, swap_disk(instance, old, new))
    }
    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        gated!(self, disks(instance))
    }

    async fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        gated!(self, nics(instance))
    }
    async fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>> {
        gated!(self, devices(instance))
    }
    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes> {
        gated!(self, console_log(instance, max_bytes))
    }
    fn watch(&self) -> SignalStream {
        let dead = Arc::clone(&self.dead);
        Box::pin(self.inner.watch().filter(move |_| {
            let alive = !dead.load(Ordering::SeqCst);
            async move { alive }
        }))
    }
}

#[async_trait]
impl Consoles for Gate {
    async fn screen(&self, instance: InstanceId, screen: Screen) -> DriverResult<ConsoleAddress> {
        gated!(self, screen(instance, screen))
    }
    async fn serial_line(&self, instance: InstanceId) -> DriverResult<SerialLine> {
        gated!(self, serial_line(instance))
    }
}

#[async_trait]
impl GuestAgent for Gate {
    async fn set_password(&self, instance: InstanceId, user: &str, password: &str) -> DriverResult<()> {
        gated!(self, set_password(instance, user, password))
    }
    async fn freeze(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, freeze(instance))
    }
    async fn thaw(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, thaw(instance))
    }
}

#[async_trait]
impl VolumeStore for Gate {
    async fn volume_pool(&self) -> DriverResult<PoolStatus> {
        gated!(self, volume_pool())
    }
    async fn volumes(&self) -> DriverResult<Vec<PoolVolume>> {
        gated!(self, volumes())
    }
    async fn create_volume(&self, name: &str, size: u64, content: &VolumeContent) -> DriverResult<()> {
        gated!(self, create_volume(name, size, content))
    }
    async fn delete_volume(&self, name: &str) -> DriverResult<()> {
        gated!(self, delete_volume(name))
    }
    async fn resize_volume(&self, name: &str, size: u64, user: Option<InstanceId>) -> DriverResult<()> {
        gated!(self, resize_volume(name, size, user))
    }
    async fn read_volume(&self, name: &str, user: Option<InstanceId>) -> DriverResult<ByteStream> {
        gated!(self, read_volume(name, user))
    }
}
