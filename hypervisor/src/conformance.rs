//! One suite that checks every driver, on the simulated fleet and on real hosts.
//!
//! The suite uses only the public interface. If no check fails, it leaves only the cached image, one owner mark and the
//! driver's storage pools on the host.

mod agent;
mod copies;
mod definitions;
mod image_cache;
mod moves;
mod owner_mark;
mod tpm;
mod volumes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronova_events::ids::{ImageId, InstanceId, PortId};
use futures::StreamExt as _;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use crate::capability::Needed as _;
use crate::capability::consoles::Screen;
use crate::capability::device_locations::DeviceKind;
use crate::driver::{ByteStream, Driver, DriverError, DriverResult, HostSignal, ImageSource, SignalStream, StopMode};
use crate::guest::{
    FilterRule, FilterSpec, GuestSpec, ImageFormat, ImageRef, NetworkSpec, Nic, NicPlug, PowerState, Renew, RescueDisk,
    RescuePlace, Reservation, RootDisk, VolumeDisk,
};
use crate::pinning::Pinning;

/// The guest, image and network that the suite uses on a host.
#[derive(Debug, Clone)]
pub struct Fixture {
    pub image: ImageRef,
    pub content: Bytes,
    pub network: NetworkSpec,
    /// The guest's address in the network.
    pub address: String,
    /// The guest's complete config drive.
    pub config_drive: Bytes,
    /// The line that the guest writes to its console after booting.
    pub ready: String,
    pub memory_mib: u64,
    /// How long a boot, or a shutdown by the guest itself, may take.
    pub patience: Duration,
    /// Whether the host supports packet filters.
    pub filters: bool,
    /// Two existing volumes of the same size on the host, if it has any.
    pub volumes: Option<[VolumeDisk; 2]>,
}

#[derive(Debug, Error)]
#[error("{check}: {found}")]
pub struct ConformanceViolation {
    pub check: &'static str,
    pub found: String,
}

/// A driver that runs the suite must offer every optional part.
impl From<DriverError> for ConformanceViolation {
    fn from(error: DriverError) -> Self {
        violation("every optional part is offered", error)
    }
}

type CheckOutcome = Result<(), ConformanceViolation>;

fn violation(check: &'static str, found: impl fmt::Display) -> ConformanceViolation {
    ConformanceViolation { check, found: found.to_string() }
}

fn require(check: &'static str, holds: bool, found: impl fmt::Debug) -> CheckOutcome {
    if holds { Ok(()) } else { Err(violation(check, format!("{found:?}"))) }
}

trait Checked<T> {
    fn check(self, check: &'static str) -> Result<T, ConformanceViolation>;
}

impl<T> Checked<T> for DriverResult<T> {
    fn check(self, check: &'static str) -> Result<T, ConformanceViolation> {
        self.map_err(|error| violation(check, error))
    }
}

fn is_gone<T: fmt::Debug>(check: &'static str, result: &DriverResult<T>) -> CheckOutcome {
    require(check, matches!(result, Err(DriverError::NoSuchGuest(_))), result)
}

/// Runs the suite.
pub async fn run(driver: Arc<dyn Driver>, fixture: Fixture) -> CheckOutcome {
    let trial = Trial { driver, fixture };
    trial.host().await?;
    trial.absent_guest().await?;
    trial.image().await?;
    trial.idle_image().await?;
    trial.volumes().await?;
    trial.surroundings().await?;
    let guest = trial.guest();
    trial.passphrases(&guest).await?;
    trial.owner().await?;
    let mut signals = trial.connected().await?;
    trial.spawn(&guest).await?;
    trial.definitions(&guest).await?;
    trial.used_image(guest.instance).await?;
    trial.diagnostics(&guest).await?;
    trial.interfaces(&guest).await?;
    trial.standstill(&guest, &mut signals).await?;
    trial.agent(guest.instance).await?;
    trial.copies(guest.instance).await?;
    trial.set_aside(guest.instance).await?;
    trial.shapes(&guest).await?;
    trial.moves(&guest).await?;
    trial.power(guest.instance, &mut signals).await?;
    trial.disks(guest.instance).await?;
    trial.destroy(&guest, signals).await?;
    trial.clean_up().await
}

/// An image source that counts how often it was opened.
struct CountingSource {
    content: Bytes,
    opened: AtomicU32,
}

#[async_trait]
impl ImageSource for CountingSource {
    async fn open(&self, _: &ImageRef) -> DriverResult<ByteStream> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        let chunks: Vec<_> = self.content.chunks(64 * 1024).map(|chunk| Ok(self.content.slice_ref(chunk))).collect();
        Ok(Box::pin(futures::stream::iter(chunks)))
    }
}

struct Trial {
    driver: Arc<dyn Driver>,
    fixture: Fixture,
}

impl Trial {
    async fn host(&self) -> CheckOutcome {
        let first = self.driver.capabilities().await.check("capabilities")?;
        let second = self.driver.capabilities().await.check("capabilities again")?;
        require("capabilities are stable", first == second, (&first, &second))?;
        require(
            "the host has processors, memory and a disk",
            first.vcpus > 0 && first.memory_mib > 0 && first.disk_gib > 0,
            &first,
        )?;
        require("traits are sorted", first.traits.is_sorted(), &first.traits)?;
        require("traits have COMPUTE_NODE", first.traits.iter().any(|name| name == "COMPUTE_NODE"), &first.traits)?;
        self.driver.usage().await.check("usage").map(drop)
    }

    async fn absent_guest(&self) -> CheckOutcome {
        let suspension = self.driver.suspension().needed()?;
        let absent = InstanceId::random();
        is_gone("status of an absent guest", &self.driver.guest(absent).await)?;
        is_gone("start of an absent guest", &self.driver.start(absent).await)?;
        is_gone("stop of an absent guest", &self.driver.stop(absent, StopMode::Hard).await)?;
        is_gone("reboot of an absent guest", &self.driver.reboot_hard(absent).await)?;
        is_gone("pause of an absent guest", &suspension.pause(absent).await)?;
        is_gone("end of the pause of an absent guest", &suspension.unpause(absent).await)?;
        is_gone("suspension of an absent guest", &suspension.suspend(absent).await)?;
        is_gone("resumption of an absent guest", &suspension.resume(absent).await)?;
        is_gone("interruption of an absent guest", &self.driver.troubleshooting().needed()?.interrupt(absent).await)?;
        is_gone("diagnostics of an absent guest", &self.driver.troubleshooting().needed()?.diagnostics(absent).await)?;
        is_gone(
            "attachment to an absent guest",
            &self.driver.interfaces().needed()?.attach_nic(absent, &self.nic(), &[]).await,
        )?;
        is_gone(
            "detachment from an absent guest",
            &self.driver.interfaces().needed()?.detach_nic(absent, "fa:16:3e:c0:ff:01").await,
        )?;
        is_gone("VNC address of an absent guest", &self.driver.consoles().needed()?.screen(absent, Screen::Vnc).await)?;
        is_gone("console of an absent guest", &self.driver.consoles().needed()?.console_log(absent, 100).await)?;
        is_gone(
            "password of an absent guest",
            &self.driver.guest_agent().needed()?.set_password(absent, "root", "x").await,
        )?;
        is_gone("freeze of an absent guest", &self.driver.guest_agent().needed()?.freeze(absent).await)?;
        self.driver.guest_agent().needed()?.thaw(absent).await.check("thaw of an absent guest succeeds")?;
        self.driver.destroy(absent).await.check("destroying an absent guest succeeds")
    }

    async fn image(&self) -> CheckOutcome {
        let source = |content: Bytes| Arc::new(CountingSource { content, opened: AtomicU32::new(0) });
        let wrong = ImageRef { checksum: "0".repeat(128), ..self.fixture.image.clone() };
        let result = self.driver.ensure_image(&wrong, source(self.fixture.content.clone())).await;
        require("content of another image is refused", matches!(result, Err(DriverError::BadImage { .. })), &result)?;
        let short = self.fixture.content.slice(..self.fixture.content.len() / 2);
        let result = self.driver.ensure_image(&self.fixture.image, source(short)).await;
        let cached = self.is_cached().await;
        require("refuses truncated content", cached || matches!(result, Err(DriverError::BadImage { .. })), &result)?;

        let good = source(self.fixture.content.clone());
        let ensure = || self.driver.ensure_image(&self.fixture.image, Arc::clone(&good) as Arc<dyn ImageSource>);
        let (one, two) = futures::join!(ensure(), ensure());
        one.check("image upload")?;
        two.check("concurrent image upload")?;
        ensure().await.check("image again")?;
        let opened = good.opened.load(Ordering::SeqCst);
        require("an image is uploaded once", opened <= 1, opened)
    }

    /// Whether an earlier run left the image in the cache. If so, the driver need not read the image's content.
    async fn is_cached(&self) -> bool {
        let unused = Arc::new(CountingSource { content: Bytes::new(), opened: AtomicU32::new(0) });
        let result = self.driver.ensure_image(&self.fixture.image, Arc::clone(&unused) as Arc<dyn ImageSource>).await;
        result.is_ok() && unused.opened.load(Ordering::SeqCst) == 0
    }

    fn port() -> PortId {
        PortId(uuid::Uuid::from_u128(0xc0f0_0000_0000_0000_0000_0000_0000_0001))
    }

    fn mac() -> String {
        "fa:16:3e:c0:ff:01".to_owned()
    }
    fn filter(&self) -> FilterSpec {
        let rule =
            |ingress, ipv6| FilterRule { ingress, ipv6, protocol: None, port_min: None, port_max: None, remote: None };
        FilterSpec {
            name: format!("chronova-conformance-{}", &self.fixture.network.network.hex()[..8]),
            port: Self::port(),
            mac: Self::mac(),
            ips: vec![self.fixture.address.clone()],
            groups: Vec::new(),
            rules: vec![rule(false, false), rule(false, true)],
        }
    }

    async fn surroundings(&self) -> CheckOutcome {
        let networks = self.driver.networks().needed()?;
        let empty = NetworkSpec { reservations: Vec::new(), ..self.fixture.network.clone() };
        networks.ensure_network(&empty).await.check("network")?;
        networks.ensure_network(&empty).await.check("network again")?;
        let one = self.network();
        networks.ensure_network(&one).await.check("network with a reservation")?;
        let mut two = one.clone();
        two.reservations.push(Reservation {
            mac: "fa:16:3e:c0:ff:02".to_owned(),
            ip: one.reservations[0].ip.clone() + "0",
            hostname: "other".to_owned(),
        });
        networks.ensure_network(&two).await.check("network with another reservation")?;
        networks.ensure_network(&one).await.check("network with one reservation less")?;
        let listed = networks.list_networks().await.check("list of networks")?;
        require("a network is listed", listed.contains(&one.network), &listed)?;
        if !self.fixture.filters {
            return Ok(());
        }
        let mut filter = self.filter();
        networks.ensure_filter(&filter).await.check("filter")?;
        networks.ensure_filter(&filter).await.check("filter again")?;
        filter.rules.pop();
        networks.ensure_filter(&filter).await.check("filter changed")
    }

    fn network(&self) -> NetworkSpec {
        let ip = self.fixture.address.clone();
        let reservations = vec![Reservation { mac: Self::mac(), ip, hostname: "conformance".to_owned() }];
        NetworkSpec { reservations, ..self.fixture.network.clone() }
    }

    fn nic(&self) -> Nic {
        Nic {
            port: Self::port(),
            network: self.fixture.network.network,
            mac: Self::mac(),
            mtu: self.fixture.network.mtu,
            filter: self.fixture.filters.then(|| self.filter().name),
            tap: "tapc0f00000-00".to_owned(),
            plug: NicPlug::Network,
        }
    }

    fn guest(&self) -> GuestSpec {
        GuestSpec {
            instance: InstanceId::random(),
            domain_name: "instance-c0f00001".to_owned(),
            display_name: "conformance & <friends>".to_owned(),
            flavor_name: "tiny".to_owned(),
            project: "conformance".into(),
            user: "conformance".into(),
            vcpus: 1,
            memory_mib: self.fixture.memory_mib,
            root: Some(RootDisk { image: self.fixture.image.clone(), size_gib: 1 }),
            ephemerals_gib: vec![1],
            swap_mib: 16,
            volumes: vec![],
            nics: vec![self.nic()],
            config_drive: Some(self.fixture.config_drive.clone()),
            hardware: Vec::new(),
            rescue: None,
            pinning: Pinning::default(),
            devices: vec![],
            mdevs: vec![],
            tpm_secret: None,
        }
    }

    async fn connected(&self) -> Result<SignalStream, ConformanceViolation> {
        let mut signals = self.driver.watch();
        let first = timeout(self.fixture.patience, signals.next()).await.ok().flatten();
        require("the first signal is Connected", first == Some(HostSignal::Connected), first)?;
        Ok(signals)
    }

    async fn spawn(&self, guest: &GuestSpec) -> CheckOutcome {
        let (one, two) = futures::join!(self.driver.spawn(guest), self.driver.spawn(guest));
        one.check("spawn")?;
        two.check("concurrent spawn of the same guest")?;
        self.driver.spawn(guest).await.check("spawn again")?;
        self.is(guest.instance, "spawned guest runs", PowerState::Running).await?;
        let listed = self.driver.guests().await.check("guests")?;
        let seen: Vec<_> = listed.iter().filter(|status| status.instance == guest.instance).collect();
        require("a guest is listed once", seen.len() == 1, &listed)?;
        require("a listed guest has its name", seen[0].domain_name == guest.domain_name, &seen)?;
        let orphans = self.driver.storage_cleanup().needed()?.orphans().await.check("orphans")?;
        require("an existing guest is not listed as an orphan", !orphans.contains(&guest.instance), &orphans)?;
        self.ready(guest.instance).await?;
        let short = self.driver.consoles().needed()?.console_log(guest.instance, 7).await.check("console log")?;
        require("the console log has the requested length", short.len() == 7, &short)
    }

    async fn is(&self, instance: InstanceId, check: &'static str, power: PowerState) -> CheckOutcome {
        let status = self.driver.guest(instance).await.check(check)?;
        require(check, status.power == power, &status)
    }

    async fn ready(&self, instance: InstanceId) -> CheckOutcome {
        self.boots(instance, 1).await
    }

    async fn boot_count(&self, instance: InstanceId) -> Result<usize, ConformanceViolation> {
        let log = self.driver.consoles().needed()?.console_log(instance, 65_536).await.check("console log")?;
        Ok(String::from_utf8_lossy(&log).matches(&self.fixture.ready).count())
    }

    /// Waits until the guest has written its `ready` line `count` times.
    async fn boots(&self, instance: InstanceId, count: usize) -> CheckOutcome {
        let end = Instant::now() + self.fixture.patience;
        loop {
            let log = self.driver.consoles().needed()?.console_log(instance, 65_536).await.check("console log")?;
            let text = String::from_utf8_lossy(&log);
            if text.matches(&self.fixture.ready).count() >= count {
                return Ok(());
            }
            require("the guest's console log shows that it is ready", Instant::now() < end, &text)?;
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn power(&self, instance: InstanceId, signals: &mut SignalStream) -> CheckOutcome {
        use PowerState::{Running, Shutdown};
        let driver = &self.driver;
        driver.start(instance).await.check("start of a running guest")?;
        let seconds = u32::try_from(self.fixture.patience.as_secs()).unwrap_or(u32::MAX);
        let graceful = StopMode::Graceful { timeout_seconds: seconds };
        driver.stop(instance, graceful).await.check("graceful stop")?;
        self.is(instance, "stopped guest is off", Shutdown).await?;
        self.hears(signals, HostSignal::Guest { instance, power: Shutdown }).await?;
        driver.stop(instance, graceful).await.check("graceful stop of a stopped guest")?;
        driver.stop(instance, StopMode::Hard).await.check("hard stop of a stopped guest")?;
        driver.start(instance).await.check("start")?;
        self.is(instance, "started guest runs", Running).await?;
        self.hears(signals, HostSignal::Guest { instance, power: Running }).await?;
        driver.stop(instance, StopMode::Hard).await.check("hard stop")?;
        self.is(instance, "guest is off after a hard stop", Shutdown).await?;
        driver.reboot_hard(instance).await.check("hard reboot of a stopped guest")?;
        self.is(instance, "hard reboot starts a stopped guest", Running).await?;
        driver.reboot_hard(instance).await.check("hard reboot")?;
        self.is(instance, "guest runs after a hard reboot", Running).await?;
        driver.reboot_soft(instance, seconds).await.check("soft reboot")?;
        self.is(instance, "guest runs after a soft reboot", Running).await
    }

    /// Attaches and detaches volumes while the guest is on and while it is off. A restarted guest must still have its
    /// volumes.
    async fn disks(&self, instance: InstanceId) -> CheckOutcome {
        let Some([one, two]) = &self.fixture.volumes else { return Ok(()) };
        let driver = &self.driver;
        let volumes = driver.volume_attachment().needed()?;
        let has = async |check: &'static str, wanted: &[&str]| {
            let found = volumes.disks(instance).await.check(check)?;
            require(check, found == wanted, &found)
        };
        let absent = InstanceId::random();
        is_gone("a disk for an absent guest", &volumes.attach_disk(absent, one).await)?;
        is_gone("a disk from an absent guest", &volumes.detach_disk(absent, &one.serial).await)?;
        volumes.detach_disk(instance, &one.serial).await.check("detachment of a disk that is not attached")?;
        volumes.attach_disk(instance, one).await.check("attachment to a running guest")?;
        volumes.attach_disk(instance, one).await.check("attachment again")?;
        has("a running guest has the attached disk", &[&one.serial]).await?;
        let before = self.boot_count(instance).await?;
        driver.reboot_hard(instance).await.check("hard reboot with a disk")?;
        self.boots(instance, before + 1).await?;
        has("the guest has the attached disk after a reboot", &[&one.serial]).await?;
        volumes.swap_disk(instance, &one.serial, two).await.check("swap of a disk")?;
        has("the guest has the other disk after a swap", &[&two.serial]).await?;
        volumes.resize_disk(instance, &two.serial, 1 << 30).await.check("resize to the same size, or a larger size")?;
        volumes.swap_disk(instance, &one.serial, two).await.check("swap of a disk again")?;
        volumes.abandon_swap(instance, &two.serial).await.check("end of a swap that does not run")?;
        volumes.detach_disk(instance, &two.serial).await.check("detachment from a running guest")?;
        volumes.detach_disk(instance, &two.serial).await.check("detachment again")?;
        has("a running guest has no detached disk", &[]).await?;
        driver.stop(instance, StopMode::Hard).await.check("stop")?;
        volumes.attach_disk(instance, one).await.check("attachment to a stopped guest")?;
        has("a stopped guest has the disk", &[&one.serial]).await?;
        let swap = volumes.swap_disk(instance, &one.serial, two).await;
        require("a swap of a stopped guest's disk is refused", matches!(swap, Err(DriverError::Failed { .. })), &swap)?;
        volumes.detach_disk(instance, &one.serial).await.check("detachment from a stopped guest")?;
        has("a stopped guest has no detached disk", &[]).await?;
        driver.start(instance).await.check("start without the disk")
    }

    async fn diagnostics(&self, guest: &GuestSpec) -> CheckOutcome {
        let found = self.driver.troubleshooting().needed()?.diagnostics(guest.instance).await.check("diagnostics")?;
        require("the diagnostics show the guest's memory", found.memory_max_kib == guest.memory_mib * 1024, &found)?;
        require("each processor has a CPU time", found.cpu_nanoseconds.len() == guest.vcpus as usize, &found)?;
        require("the diagnostics show disks", !found.disks.is_empty(), &found)?;
        require("the hypervisor is kvm or qemu", ["kvm", "qemu"].contains(&found.hypervisor.as_str()), &found)
    }

    /// Attaches an interface to a running guest and detaches it.
    async fn interfaces(&self, guest: &GuestSpec) -> CheckOutcome {
        let (driver, instance) = (&self.driver, guest.instance);
        let interfaces = driver.interfaces().needed()?;
        let more = Nic {
            port: PortId(uuid::Uuid::from_u128(0xc0f0_0000_0000_0000_0000_0000_0000_0002)),
            mac: "fa:16:3e:c0:ff:02".to_owned(),
            filter: None,
            tap: "tapc0f00000-01".to_owned(),
            ..self.nic()
        };
        let has = async || {
            let found = driver.troubleshooting().needed()?.diagnostics(instance).await.check("diagnostics")?;
            Ok::<bool, ConformanceViolation>(found.nics.iter().any(|nic| nic.mac.eq_ignore_ascii_case(&more.mac)))
        };
        interfaces.attach_nic(instance, &more, &guest.hardware).await.check("attachment of an interface")?;
        interfaces.attach_nic(instance, &more, &guest.hardware).await.check("attachment again")?;
        let found = interfaces.nics(instance).await.check("interfaces")?;
        require("the guest's definition has the attached interface", found.contains(&more.mac), &found)?;
        require("a running guest has the attached interface", has().await?, &more)?;
        let devices = driver.device_locations().needed()?.devices(instance).await.check("devices")?;
        let kind = DeviceKind::Nic { mac: more.mac.to_ascii_lowercase() };
        let place = devices.iter().find(|device| device.kind == kind).and_then(|device| device.address.clone());
        require("the attached interface has a device address", place.is_some(), &devices)?;
        driver.reboot_hard(instance).await.check("hard reboot")?;
        require("the guest has the attached interface after a hard reboot", has().await?, &more)?;
        self.boots(instance, 2).await?;
        interfaces.detach_nic(instance, &more.mac).await.check("detachment of an interface")?;
        interfaces.detach_nic(instance, &more.mac).await.check("detachment again")?;
        let found = interfaces.nics(instance).await.check("interfaces")?;
        require("the guest's definition has no detached interface", !found.contains(&more.mac), &found)?;
        require("a running guest has no detached interface", !has().await?, &more)?;
        let console = driver.consoles().needed()?.screen(instance, Screen::Vnc).await.check("VNC address")?;
        require("a running guest's console has an address", !console.host.is_empty() && console.port > 0, &console)
    }

    /// Pauses and suspends the guest, which must continue where it stopped.
    async fn standstill(&self, guest: &GuestSpec, signals: &mut SignalStream) -> CheckOutcome {
        use PowerState::{Paused, Running, Shutdown};
        let (driver, instance) = (&self.driver, guest.instance);
        let suspension = driver.suspension().needed()?;
        suspension.unpause(instance).await.check("unpause of a running guest")?;
        suspension.pause(instance).await.check("pause")?;
        self.is(instance, "a paused guest is paused", Paused).await?;
        self.hears(signals, HostSignal::Guest { instance, power: Paused }).await?;
        suspension.pause(instance).await.check("pause of a paused guest")?;
        suspension.unpause(instance).await.check("unpause")?;
        self.is(instance, "an unpaused guest runs", Running).await?;
        self.hears(signals, HostSignal::Guest { instance, power: Running }).await?;
        suspension.resume(instance).await.check("resumption of a running guest")?;
        suspension.suspend(instance).await.check("suspension")?;
        self.is(instance, "a suspended guest is off", Shutdown).await?;
        self.hears(signals, HostSignal::Guest { instance, power: Shutdown }).await?;
        suspension.suspend(instance).await.check("suspension of a suspended guest")?;
        let pause = suspension.pause(instance).await;
        require("a guest that is off is not paused", matches!(pause, Err(DriverError::Failed { .. })), &pause)?;
        suspension.resume(instance).await.check("resumption")?;
        self.is(instance, "a resumed guest runs", Running).await?;
        self.hears(signals, HostSignal::Guest { instance, power: Running }).await?;
        require("a resumed guest continues and does not boot", self.boot_count(instance).await? == 2, instance)?;
        suspension.suspend(instance).await.check("second suspension")?;
        driver.redefinition().needed()?.redefine(guest, Renew::AtStart).await.check("start of a suspended guest")?;
        require("a start keeps a guest's memory", self.boot_count(instance).await? == 2, instance)?;
        suspension.suspend(instance).await.check("third suspension")?;
        driver.reboot_hard(instance).await.check("hard reboot of a suspended guest")?;
        self.is(instance, "the guest runs", Running).await?;
        self.boots(instance, 3).await?;
        suspension.pause(instance).await.check("second pause")?;
        driver.reboot_hard(instance).await.check("hard reboot of a paused guest")?;
        self.is(instance, "the guest runs again", Running).await?;
        self.boots(instance, 4).await?;
        driver.stop(instance, StopMode::Hard).await.check("stop")?;
        let suspend = suspension.suspend(instance).await;
        let found = driver.troubleshooting().needed()?.diagnostics(instance).await;
        require("a guest that is off has no diagnostics", matches!(found, Err(DriverError::Failed { .. })), &found)?;
        let interrupt = driver.troubleshooting().needed()?.interrupt(instance).await;
        require("a guest that is off is not interrupted", interrupt.is_err(), &interrupt)?;
        require("a guest that is off is not suspended", matches!(suspend, Err(DriverError::Failed { .. })), &suspend)?;
        driver.start(instance).await.check("start")
    }

    /// Redefines the guest: first with a rescue disk, then with its own disk again, and last with new disks.
    async fn shapes(&self, guest: &GuestSpec) -> CheckOutcome {
        let (driver, instance) = (&self.driver, guest.instance);
        let redefinition = driver.redefinition().needed()?;
        for stable in [None, Some(RescuePlace { cdrom: false, bus: None })] {
            let rescue = Some(RescueDisk { image: self.fixture.image.clone(), stable });
            let rescued = GuestSpec { rescue, ..guest.clone() };
            redefinition.redefine(&rescued, Renew::Nothing).await.check("rescue")?;
            self.is(instance, "a rescued guest runs", PowerState::Running).await?;
            redefinition.redefine(&rescued, Renew::Nothing).await.check("rescue again")?;
            redefinition.redefine(guest, Renew::Nothing).await.check("end of a rescue")?;
            self.is(instance, "a guest runs from its own disk after a rescue", PowerState::Running).await?;
        }
        for renew in [Renew::AtStart, Renew::Definition, Renew::Root, Renew::All] {
            redefinition.redefine(guest, renew).await.check("new definition or disks")?;
            self.is(instance, "a guest with a new definition or new disks runs", PowerState::Running).await?;
        }
        let listed = driver.guests().await.check("guests")?;
        let seen = listed.iter().filter(|status| status.instance == instance).count();
        require("a redefined guest is listed once", seen == 1, &listed)
    }

    async fn hears(&self, signals: &mut SignalStream, wanted: HostSignal) -> CheckOutcome {
        let heard = timeout(self.fixture.patience, async {
            while let Some(signal) = signals.next().await {
                if signal == wanted {
                    return true;
                }
            }
            false
        });
        require("the driver sends a signal about a change of the guest", heard.await == Ok(true), &wanted)
    }

    async fn destroy(&self, guest: &GuestSpec, mut signals: SignalStream) -> CheckOutcome {
        let instance = guest.instance;
        let (one, two) = futures::join!(self.driver.destroy(instance), self.driver.destroy(instance));
        one.check("destroy")?;
        two.check("concurrent destroy")?;
        self.driver.destroy(instance).await.check("destroy again")?;
        is_gone("a destroyed guest is gone", &self.driver.guest(instance).await)?;
        is_gone("its console log is gone", &self.driver.consoles().needed()?.console_log(instance, 100).await)?;
        let listed = self.driver.guests().await.check("guests")?;
        require("a destroyed guest is not listed", listed.iter().all(|status| status.instance != instance), &listed)?;
        let orphans = self.driver.storage_cleanup().needed()?.orphans().await.check("orphans")?;
        require("a destroyed guest leaves no orphans", !orphans.contains(&instance), &orphans)?;
        self.driver.spawn(guest).await.check("spawn after destroy")?;
        self.driver.destroy(instance).await.check("last destroy")?;
        let gone = HostSignal::GuestGone { instance };
        let signalled = timeout(Duration::from_millis(300), async {
            while let Some(signal) = signals.next().await {
                if signal == gone {
                    return true;
                }
            }
            false
        });
        require("a destroy by Chronova sends no signal", signalled.await != Ok(true), &gone)
    }

    async fn clean_up(&self) -> CheckOutcome {
        let networks = self.driver.networks().needed()?;
        let network = self.fixture.network.network;
        if self.fixture.filters {
            let name = self.filter().name;
            networks.remove_filter(&name).await.check("filter removal")?;
            networks.remove_filter(&name).await.check("filter removal again")?;
        }
        networks.remove_network(network).await.check("network removal")?;
        networks.remove_network(network).await.check("network removal again")?;
        let listed = networks.list_networks().await.check("list of networks")?;
        require("a removed network is not listed", !listed.contains(&network), &listed)
    }
}

/// A small fake image with a correct checksum, for hosts that do not check the content.
pub fn pretended_image() -> (ImageRef, Bytes) {
    image_of(Bytes::from(vec![7_u8; 200_000]))
}

fn image_of(content: Bytes) -> (ImageRef, Bytes) {
    use sha2::{Digest as _, Sha512};
    let checksum = crate::checksum::hex(&Sha512::digest(&content));
    let size = content.len() as u64;
    let id = ImageId(uuid::Uuid::from_u128(7));
    (ImageRef { id, checksum, format: ImageFormat::Raw, size, virtual_size: size }, content)
}
