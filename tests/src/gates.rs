//! A wrapper of drivers. The wrapper stops with its control plane, so that no call of a crashed control plane reaches a
//! host. It also lets a test pause calls, before their work or between their work and their answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::envelope::Timestamp;
use chronova_events::ids::{HostId, ImageId, InstanceId, NetworkId};
use chronova_hypervisor::capability::consoles::{ConsoleAddress, Screen, SerialLine};
use chronova_hypervisor::capability::device_locations::GuestDevice;
use chronova_hypervisor::capability::disk_transfer::DiskFile;
use chronova_hypervisor::capability::image_cache::CachedImage;
use chronova_hypervisor::capability::live_migration::{
    ForceComplete, GuestMigrationState, MigrationAddressing, MigrationData, MigrationPlan, MigrationUris,
};
use chronova_hypervisor::capability::owner_mark::HostOwner;
use chronova_hypervisor::capability::storage_cleanup::Leftover;
use chronova_hypervisor::capability::volume_store::{PoolStatus, PoolVolume, VolumeContent};
use chronova_hypervisor::capability::{
    Consoles, DeviceLocations, DiskSnapshots, DiskTransfer, EmulatedTpm, GuestAgent, GuestDefinitions, ImageCache,
    InterfaceAttachment, LiveMigration, Needed as _, OwnerMark, Redefinition, SharedStorage, StorageCleanup,
    Suspension, Troubleshooting, VirtualNetworks, VolumeAttachment, VolumeStore,
};
use chronova_hypervisor::driver::{ByteStream, Driver, DriverError, DriverResult, ImageSource, SignalStream, StopMode};
use chronova_hypervisor::found::FoundGuest;
use chronova_hypervisor::guest::{
    Diagnostics, DiskCopy, FilterSpec, GuestSpec, GuestStatus, HostCapabilities, HostUsage, ImageFormat, ImageRef,
    NetworkSpec, Nic, Quiesce, Renew, VolumeDisk,
};
use chronova_hypervisor::tpm::{TpmPassphrase, TpmState, TpmVersion};
use futures::StreamExt;
use tokio::sync::watch;
use uuid::Uuid;

/// Pauses driver calls of every host: the point `spawn` is before the work, `spawn:answer` after it. Also records some
/// arguments of the calls.
#[derive(Debug, Default)]
pub struct Brakes {
    held: watch::Sender<BTreeSet<&'static str>>,
    waiting: Mutex<BTreeMap<&'static str, usize>>,
    notes: Mutex<Notes>,
}

/// The recorded arguments of calls to the hosts.
#[derive(Debug, Default)]
struct Notes {
    migration_plans: Vec<MigrationPlan>,
    /// The last definition of each guest.
    guests: BTreeMap<InstanceId, GuestSpec>,
    stops: Vec<StopMode>,
    /// The disks that were attached to existing guests.
    disks: Vec<(InstanceId, VolumeDisk)>,
}

impl Brakes {
    fn note(&self, what: impl FnOnce(&mut Notes)) {
        what(&mut self.notes.lock().unwrap());
    }

    /// The plans of the live migrations, in order.
    pub fn migration_plans(&self) -> Vec<MigrationPlan> {
        self.notes.lock().unwrap().migration_plans.clone()
    }

    /// The last definition of the guest.
    pub fn guest(&self, instance: InstanceId) -> Option<GuestSpec> {
        self.notes.lock().unwrap().guests.get(&instance).cloned()
    }

    /// The disks that were attached to existing guests.
    pub fn disks(&self) -> Vec<(InstanceId, VolumeDisk)> {
        self.notes.lock().unwrap().disks.clone()
    }

    /// The modes of the stops since the last call of this function.
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

    /// The number of calls that are paused at `point`.
    pub fn count(&self, point: &'static str) -> usize {
        self.waiting.lock().unwrap().get(point).copied().unwrap_or(0)
    }

    /// Waits until a call is paused at `point`.
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

/// Passes calls on until `dead` is set. The fuse of the world's log sets it.
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

/// Checks `dead` before and after the call. A call that was running at the crash took effect, but its reply is lost.
macro_rules! gated {
    ($self:ident, $call:ident ( $($arg:expr),* )) => {{
        $self.brakes.pass(stringify!($call)).await;
        $self.check()?;
        let result = $self.inner.$call($($arg),*).await;
        $self.brakes.pass(concat!(stringify!($call), ":answer")).await;
        $self.check()?;
        result
    }};
    ($self:ident, $part:ident, $call:ident ( $($arg:expr),* )) => {{
        $self.brakes.pass(stringify!($call)).await;
        $self.check()?;
        let result = $self.inner.$part().needed()?.$call($($arg),*).await;
        $self.brakes.pass(concat!(stringify!($call), ":answer")).await;
        $self.check()?;
        result
    }};
}

/// Offers an optional part if the wrapped driver offers it.
macro_rules! passed_on {
    ($($accessor:ident: $part:ident),+ $(,)?) => {
        $(fn $accessor(&self) -> Option<&dyn $part> {
            self.inner.$accessor().map(|_| self as &dyn $part)
        })+
    };
}

#[async_trait]
impl DiskTransfer for Gate {
    async fn disk_files(&self, instance: InstanceId) -> DriverResult<Vec<DiskFile>> {
        gated!(self, disk_transfer, disk_files(instance))
    }
    async fn read_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<ByteStream> {
        gated!(self, disk_transfer, read_disk(instance, disk))
    }
    async fn read_image(&self, image: &ImageRef) -> DriverResult<ByteStream> {
        gated!(self, disk_transfer, read_image(image))
    }
    async fn receive_disk(&self, instance: InstanceId, disk: &DiskFile, content: ByteStream) -> DriverResult<()> {
        gated!(self, disk_transfer, receive_disk(instance, disk, content))
    }
    async fn remove_disk(&self, instance: InstanceId, disk: &DiskFile) -> DriverResult<()> {
        gated!(self, disk_transfer, remove_disk(instance, disk))
    }
    async fn provide(&self, guest: &GuestSpec) -> DriverResult<()> {
        gated!(self, disk_transfer, provide(guest))
    }
    async fn install(&self, guest: &GuestSpec, on: bool) -> DriverResult<()> {
        self.brakes.note(|notes| drop(notes.guests.insert(guest.instance, guest.clone())));
        gated!(self, disk_transfer, install(guest, on))
    }
}

#[async_trait]
impl StorageCleanup for Gate {
    async fn orphans(&self) -> DriverResult<Vec<InstanceId>> {
        gated!(self, storage_cleanup, orphans())
    }
    async fn leftovers(&self) -> DriverResult<Vec<Leftover>> {
        gated!(self, storage_cleanup, leftovers())
    }
    async fn remove_torn_image(&self, checksum: &str) -> DriverResult<()> {
        gated!(self, storage_cleanup, remove_torn_image(checksum))
    }
}

#[async_trait]
impl ImageCache for Gate {
    async fn cached_images(&self) -> DriverResult<Vec<CachedImage>> {
        gated!(self, image_cache, cached_images())
    }
    async fn note_idle(&self, checksum: &str, since: Option<Timestamp>) -> DriverResult<()> {
        gated!(self, image_cache, note_idle(checksum, since))
    }
    async fn remove_image(&self, checksum: &str, idle_by: Timestamp) -> DriverResult<bool> {
        gated!(self, image_cache, remove_image(checksum, idle_by))
    }
}

#[async_trait]
impl LiveMigration for Gate {
    async fn migration_data(&self, instance: InstanceId) -> DriverResult<MigrationData> {
        gated!(self, live_migration, migration_data(instance))
    }
    async fn destination_obstacles(&self, migration_data: &MigrationData) -> DriverResult<Vec<String>> {
        gated!(self, live_migration, destination_obstacles(migration_data))
    }
    async fn prepare_destination(&self, guest: &GuestSpec, copied: bool) -> DriverResult<()> {
        gated!(self, live_migration, prepare_destination(guest, copied))
    }
    async fn start_migration(&self, instance: InstanceId, plan: &MigrationPlan) -> DriverResult<()> {
        self.brakes.note(|notes| notes.migration_plans.push(plan.clone()));
        gated!(self, live_migration, start_migration(instance, plan))
    }
    async fn migration_state(&self, instance: InstanceId) -> DriverResult<GuestMigrationState> {
        gated!(self, live_migration, migration_state(instance))
    }
    async fn wait_for_migration(&self, instance: InstanceId, most: Duration) {
        if let Some(inner) = self.inner.live_migration() {
            inner.wait_for_migration(instance, most).await;
        }
    }
    async fn abort_migration(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, live_migration, abort_migration(instance))
    }
    async fn force_complete(&self, instance: InstanceId, how: ForceComplete) -> DriverResult<()> {
        gated!(self, live_migration, force_complete(instance, how))
    }
    async fn set_max_downtime(&self, instance: InstanceId, milliseconds: u64) -> DriverResult<()> {
        gated!(self, live_migration, set_max_downtime(instance, milliseconds))
    }
    async fn tls_obstacle(&self) -> DriverResult<Option<String>> {
        gated!(self, live_migration, tls_obstacle())
    }
    async fn interface_address(&self, name: &str) -> DriverResult<Option<String>> {
        gated!(self, live_migration, interface_address(name))
    }
    fn migration_uris(&self, addressing: &MigrationAddressing<'_>) -> MigrationUris {
        self.inner.live_migration().unwrap().migration_uris(addressing)
    }
    async fn adopt_console(&self, instance: InstanceId, text: Bytes) -> DriverResult<()> {
        gated!(self, live_migration, adopt_console(instance, text))
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
    async fn spawn(&self, guest: &GuestSpec) -> DriverResult<()> {
        self.brakes.note(|notes| drop(notes.guests.insert(guest.instance, guest.clone())));
        gated!(self, spawn(guest))
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
    async fn guest(&self, instance: InstanceId) -> DriverResult<GuestStatus> {
        gated!(self, guest(instance))
    }
    async fn guests(&self) -> DriverResult<Vec<GuestStatus>> {
        gated!(self, guests())
    }

    fn watch(&self) -> SignalStream {
        let dead = Arc::clone(&self.dead);
        Box::pin(self.inner.watch().filter(move |_| {
            let alive = !dead.load(Ordering::SeqCst);
            async move { alive }
        }))
    }

    passed_on! {
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

#[async_trait]
impl Consoles for Gate {
    async fn console_log(&self, instance: InstanceId, max_bytes: usize) -> DriverResult<Bytes> {
        gated!(self, consoles, console_log(instance, max_bytes))
    }
    fn remote_address(&self) -> Option<String> {
        self.inner.consoles().and_then(Consoles::remote_address)
    }
    async fn screen(&self, instance: InstanceId, screen: Screen) -> DriverResult<ConsoleAddress> {
        gated!(self, consoles, screen(instance, screen))
    }
    async fn serial_line(&self, instance: InstanceId) -> DriverResult<SerialLine> {
        gated!(self, consoles, serial_line(instance))
    }
}

#[async_trait]
impl GuestAgent for Gate {
    async fn set_password(&self, instance: InstanceId, user: &str, password: &str) -> DriverResult<()> {
        gated!(self, guest_agent, set_password(instance, user, password))
    }
    async fn freeze(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, guest_agent, freeze(instance))
    }
    async fn thaw(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, guest_agent, thaw(instance))
    }
}

#[async_trait]
impl GuestDefinitions for Gate {
    async fn found_guests(&self) -> DriverResult<Vec<FoundGuest>> {
        gated!(self, guest_definitions, found_guests())
    }
    async fn found_networks(&self) -> DriverResult<Vec<NetworkSpec>> {
        gated!(self, guest_definitions, found_networks())
    }
}

#[async_trait]
impl VolumeStore for Gate {
    async fn volume_pool(&self) -> DriverResult<PoolStatus> {
        gated!(self, volume_store, volume_pool())
    }
    async fn volumes(&self) -> DriverResult<Vec<PoolVolume>> {
        gated!(self, volume_store, volumes())
    }
    async fn create_volume(&self, name: &str, size: u64, content: &VolumeContent) -> DriverResult<()> {
        gated!(self, volume_store, create_volume(name, size, content))
    }
    async fn delete_volume(&self, name: &str) -> DriverResult<()> {
        gated!(self, volume_store, delete_volume(name))
    }
    async fn resize_volume(&self, name: &str, size: u64, user: Option<InstanceId>) -> DriverResult<()> {
        gated!(self, volume_store, resize_volume(name, size, user))
    }
    async fn read_volume(&self, name: &str, user: Option<InstanceId>) -> DriverResult<ByteStream> {
        gated!(self, volume_store, read_volume(name, user))
    }
}

#[async_trait]
impl VirtualNetworks for Gate {
    async fn ensure_network(&self, network: &NetworkSpec) -> DriverResult<()> {
        gated!(self, networks, ensure_network(network))
    }
    async fn remove_network(&self, network: NetworkId) -> DriverResult<()> {
        gated!(self, networks, remove_network(network))
    }
    async fn list_networks(&self) -> DriverResult<BTreeSet<NetworkId>> {
        gated!(self, networks, list_networks())
    }
    async fn ensure_filter(&self, filter: &FilterSpec) -> DriverResult<()> {
        gated!(self, networks, ensure_filter(filter))
    }
    async fn remove_filter(&self, name: &str) -> DriverResult<()> {
        gated!(self, networks, remove_filter(name))
    }
}

#[async_trait]
impl Redefinition for Gate {
    async fn redefine(&self, guest: &GuestSpec, renew: Renew) -> DriverResult<()> {
        self.brakes.note(|notes| drop(notes.guests.insert(guest.instance, guest.clone())));
        gated!(self, redefinition, redefine(guest, renew))
    }
}

#[async_trait]
impl Suspension for Gate {
    async fn pause(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, suspension, pause(instance))
    }
    async fn unpause(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, suspension, unpause(instance))
    }
    async fn suspend(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, suspension, suspend(instance))
    }
    async fn resume(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, suspension, resume(instance))
    }
}

#[async_trait]
impl InterfaceAttachment for Gate {
    async fn attach_nic(&self, instance: InstanceId, nic: &Nic, hardware: &[(String, String)]) -> DriverResult<()> {
        gated!(self, interfaces, attach_nic(instance, nic, hardware))
    }
    async fn detach_nic(&self, instance: InstanceId, mac: &str) -> DriverResult<()> {
        gated!(self, interfaces, detach_nic(instance, mac))
    }
    async fn nics(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        gated!(self, interfaces, nics(instance))
    }
}

#[async_trait]
impl VolumeAttachment for Gate {
    async fn attach_disk(&self, instance: InstanceId, disk: &VolumeDisk) -> DriverResult<()> {
        self.brakes.note(|notes| notes.disks.push((instance, disk.clone())));
        gated!(self, volume_attachment, attach_disk(instance, disk))
    }
    async fn detach_disk(&self, instance: InstanceId, serial: &str) -> DriverResult<()> {
        gated!(self, volume_attachment, detach_disk(instance, serial))
    }
    async fn swap_disk(&self, instance: InstanceId, old: &str, new: &VolumeDisk) -> DriverResult<()> {
        gated!(self, volume_attachment, swap_disk(instance, old, new))
    }
    async fn abandon_swap(&self, instance: InstanceId, old: &str) -> DriverResult<()> {
        gated!(self, volume_attachment, abandon_swap(instance, old))
    }
    async fn resize_disk(&self, instance: InstanceId, serial: &str, size: u64) -> DriverResult<()> {
        gated!(self, volume_attachment, resize_disk(instance, serial, size))
    }
    async fn disks(&self, instance: InstanceId) -> DriverResult<Vec<String>> {
        gated!(self, volume_attachment, disks(instance))
    }
}

#[async_trait]
impl DeviceLocations for Gate {
    async fn devices(&self, instance: InstanceId) -> DriverResult<Vec<GuestDevice>> {
        gated!(self, device_locations, devices(instance))
    }
}

#[async_trait]
impl DiskSnapshots for Gate {
    async fn copy_root(
        &self,
        instance: InstanceId,
        copy: ImageId,
        format: ImageFormat,
        quiesce: Quiesce,
    ) -> DriverResult<DiskCopy> {
        gated!(self, snapshots, copy_root(instance, copy, format, quiesce))
    }
    async fn read_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<ByteStream> {
        gated!(self, snapshots, read_copy(instance, copy))
    }
    async fn remove_copy(&self, instance: InstanceId, copy: ImageId) -> DriverResult<()> {
        gated!(self, snapshots, remove_copy(instance, copy))
    }
}

#[async_trait]
impl Troubleshooting for Gate {
    async fn interrupt(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, troubleshooting, interrupt(instance))
    }
    async fn diagnostics(&self, instance: InstanceId) -> DriverResult<Diagnostics> {
        gated!(self, troubleshooting, diagnostics(instance))
    }
}

#[async_trait]
impl SharedStorage for Gate {
    async fn storage_sharers(&self) -> DriverResult<BTreeSet<HostId>> {
        gated!(self, shared_storage, storage_sharers())
    }
    async fn undefine(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, shared_storage, undefine(instance))
    }
}

#[async_trait]
impl OwnerMark for Gate {
    async fn owner_of(&self, installation: Uuid) -> DriverResult<Option<HostOwner>> {
        gated!(self, owner_mark, owner_of(installation))
    }
    async fn remember(&self, owner: HostOwner) -> DriverResult<()> {
        gated!(self, owner_mark, remember(owner))
    }
}

#[async_trait]
impl EmulatedTpm for Gate {
    async fn hold_passphrase(&self, passphrase: &TpmPassphrase) -> DriverResult<()> {
        gated!(self, emulated_tpm, hold_passphrase(passphrase))
    }
    async fn drop_passphrase(&self, instance: InstanceId) -> DriverResult<()> {
        gated!(self, emulated_tpm, drop_passphrase(instance))
    }
    async fn tpm_state(&self, instance: InstanceId, version: TpmVersion) -> DriverResult<Option<TpmState>> {
        gated!(self, emulated_tpm, tpm_state(instance, version))
    }
    async fn receive_tpm_state(&self, instance: InstanceId, state: &TpmState) -> DriverResult<()> {
        gated!(self, emulated_tpm, receive_tpm_state(instance, state))
    }
}
