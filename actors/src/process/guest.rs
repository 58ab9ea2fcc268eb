//! Steps on a guest and its host that several processes share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, InstanceId, PortId};
use chronova_events::instance::{Alive, ImageSnapshot, NicInfo, OngoingTask, Phase, Placed};
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::{ByteStream, BytesAlone, Driver, DriverError, DriverResult, ImageSource, StopMode};
use chronova_hypervisor::guest::{GuestSpec, ImageFormat, ImageRef, Renew, RescueDisk, RescuePlace, RootDisk};
use tokio::time::Instant;

use super::claim_holder::{ClaimHolder, LAG};
use super::config_drive;
use super::definition::{StepError, StepRun};
use super::disks::volumes;
use super::machine;
use super::moving::MovingServer;
use super::pinned;
use super::port_devices;
use super::tpm;
use crate::coordination::host_turns::HostTurn;
use crate::instance::disks;
use crate::pci::ports::PortDevice;
use crate::ports::{ImageService, NetworkService, PlugState, PortError};

/// Prepares the host for a guest whose image the server has used before. Caches the image, and creates networks and
/// filters.
pub(super) async fn prepare(work: &StepRun, host: HostId, server: &Alive) -> Result<(), StepError> {
    let source: Arc<dyn ImageSource> = Arc::new(PortImageSource::new(&work.context.images, &work.meta));
    futures::try_join!(cache_image(work, host, server, source), connect(work, host, server)).map(drop)
}

/// Like [`prepare`]. If the image service does not give the image, the cache of the host `from` does.
pub(super) async fn prepare_from(work: &StepRun, from: HostId, host: HostId, server: &Alive) -> Result<(), StepError> {
    futures::try_join!(fetch_image(work, from, host, server), connect(work, host, server)).map(drop)
}

/// Caches only the image; see [`prepare_from`].
pub(super) async fn fetch_image(work: &StepRun, from: HostId, host: HostId, server: &Alive) -> Result<(), StepError> {
    let first = PortImageSource::new(&work.context.images, &work.meta);
    let source: Arc<dyn ImageSource> = match work.context.fleet.driver(from) {
        Some(driver) => Arc::new(FallbackImageSource { first, driver }),
        None => Arc::new(first),
    };
    cache_image(work, host, server, source).await
}

async fn cache_image(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    source: Arc<dyn ImageSource>,
) -> Result<(), StepError> {
    match server.root_image() {
        Some(image) => ensure_image(work, host, &image_ref(image), alone_if_passing(server, image, source)).await,
        None => Ok(()),
    }
}

/// The source of an image for the server.
pub(super) fn source_for(work: &StepRun, server: &Alive, image: &ImageSnapshot) -> Arc<dyn ImageSource> {
    let source: Arc<dyn ImageSource> = Arc::new(PortImageSource::new(&work.context.images, &work.meta));
    alone_if_passing(server, image, source)
}

/// The image of a shelve is deleted after the unshelve. So no disk may share its content with that image.
fn alone_if_passing(server: &Alive, image: &ImageSnapshot, source: Arc<dyn ImageSource>) -> Arc<dyn ImageSource> {
    match server.root.as_ref().is_some_and(|root| root.id == image.id) {
        true => Arc::new(BytesAlone(source)),
        false => source,
    }
}

/// Caches an image on the host, and holds it there until the process has ended.
async fn ensure_image(
    work: &StepRun,
    host: HostId,
    image: &ImageRef,
    source: Arc<dyn ImageSource>,
) -> Result<(), StepError> {
    let driver = work.driver(host)?;
    work.context.image_holds.hold(work.running.process, host, &image.checksum).await;
    driver.ensure_image(image, source).await?;
    Ok(())
}

/// Creates networks and filters on the host, or restarts them if something on the host has stopped them.
pub(super) async fn connect(work: &StepRun, host: HostId, server: &Alive) -> Result<(), StepError> {
    let driver = work.driver(host)?;
    let realisation = work.context.networks.realise(&server.nics).await?;
    let networks = async {
        for network in &realisation.networks {
            driver.networks().needed()?.ensure_network(network).await?;
        }
        Ok::<(), DriverError>(())
    };
    let filters = async {
        for filter in &realisation.filters {
            driver.networks().needed()?.ensure_filter(filter).await?;
        }
        Ok(())
    };
    futures::try_join!(networks, filters)?;
    Ok(())
}

/// Creates and starts the guest.
pub(super) async fn spawn(work: &StepRun, host: HostId, server: &Alive) -> Result<(), StepError> {
    let driver = work.driver(host)?;
    let spec = spec(work, host, server, None).await?;
    let _turn = turn_of(work, host).await;
    tpm::with_passphrase(work, host, server, async { Ok(driver.spawn(&spec).await?) }).await
}

/// Starts a guest that its host has defined.
pub(super) async fn start(work: &StepRun, host: HostId, server: &Alive) -> Result<DriverResult<()>, StepError> {
    let driver = work.driver(host)?;
    tpm::with_passphrase(work, host, server, async { Ok(driver.start(work.instance_id()).await) }).await
}

/// The pause between two checks for a delete during a wait for the network.
const LOOK_FOR_DELETE: Duration = Duration::from_secs(2);
/// The pause before a network service that did not answer is asked again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Waits until the network carries the traffic of a new guest, as Nova waits for `network-vif-plugged`. If a delete
/// comes, the wait ends at the next check.
pub(super) async fn await_network(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    let options = &work.context.options;
    let ports: Vec<PortId> = server.nics.iter().map(|nic| nic.port).collect();
    if ports.is_empty() || options.vif_plugging_timeout.is_zero() {
        return Ok(());
    }
    let end = Instant::now() + options.vif_plugging_timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let (state, is_over) = match work.context.networks.await_plugged(&ports, left.min(LOOK_FOR_DELETE)).await {
            // A network service that does not answer now may still plug the ports in time.
            Err(PortError::Unavailable(reason)) => {
                tracing::debug!(instance = %work.instance_id(), reason, "asking whether ports are plugged failed, retrying");
                tokio::time::sleep(LOOK_AGAIN.min(left)).await;
                (PlugState::NotYet, left.is_zero())
            }
            state => (state?, left <= LOOK_FOR_DELETE),
        };
        match state {
            PlugState::Plugged => return Ok(()),
            PlugState::NotYet if !is_over => {}
            _ if !options.vif_plugging_is_fatal => {
                tracing::warn!(instance = %work.instance_id(), ?state, "the network did not plug the ports of a guest");
                return Ok(());
            }
            _ => return Err(StepError::fatal(500, "Virtual Interface creation failed", format!("{state:?}"))),
        }
        let gone = work.server().await?.is_none_or(|server| matches!(server.ongoing, Some(OngoingTask::Delete { .. })));
        if gone {
            return Ok(());
        }
    }
}

/// Creates the disks of a guest that is not defined on the host.
pub(super) async fn provide(work: &StepRun, host: HostId, server: &Alive) -> Result<(), StepError> {
    let driver = work.driver(host)?;
    let spec = spec(work, host, server, None).await?;
    let _turn = turn_of(work, host).await;
    driver.disk_transfer().needed()?.provide(&spec).await?;
    Ok(())
}

/// Defines the guest with existing disks, and starts it if `on`.
pub(super) async fn install(work: &StepRun, host: HostId, server: &Alive, on: bool) -> Result<(), StepError> {
    let _turn = turn_of(work, host).await;
    install_now(work, host, server, on).await
}

/// Like [`install`], for callers that already hold the permit of [`turn_of`].
pub(super) async fn install_now(work: &StepRun, host: HostId, server: &Alive, on: bool) -> Result<(), StepError> {
    let spec = spec(work, host, server, None).await?;
    install_spec(work, host, server, &spec, on).await
}

async fn install_spec(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    spec: &GuestSpec,
    on: bool,
) -> Result<(), StepError> {
    let driver = work.driver(host)?;
    let transfer = driver.disk_transfer().needed()?;
    match on {
        true => tpm::with_passphrase(work, host, server, async { Ok(transfer.install(spec, true).await?) }).await,
        false => Ok(transfer.install(spec, false).await?),
    }
}

/// Defines the guest at its source as it was before a move, with the processors, memory and devices that the
/// migration has claimed. Starts it if `on`.
pub(super) async fn install_as_before(work: &StepRun, subject: &MovingServer, on: bool) -> Result<(), StepError> {
    let (host, server) = (subject.moving.source.host, subject.with(&subject.moving.old_flavor));
    let _turn = turn_of(work, host).await;
    let spec = spec_of(work, host, &server, None, ClaimHolder::Migration(subject.moving.migration)).await?;
    install_spec(work, host, &server, &spec, on).await
}

/// Waits for one of the host's build permits (`max_concurrent_builds`).
pub(super) async fn turn_of(work: &StepRun, host: HostId) -> Option<HostTurn> {
    work.context.fleet.member(host)?.turns.build().await
}

/// A graceful shutdown. Its timeout is `os_shutdown_timeout` of the image, or of the root volume's image; otherwise
/// `[DEFAULT] shutdown_timeout`.
pub(super) fn graceful(work: &StepRun, server: &Alive) -> StopMode {
    let properties = server.hardware_image().into_iter().flat_map(|image| image.properties.iter());
    let own =
        properties.into_iter().find(|(key, _)| key == "os_shutdown_timeout").and_then(|(_, text)| text.parse().ok());
    StopMode::Graceful { timeout_seconds: own.unwrap_or(work.context.server_options.shutdown_timeout) }
}

/// Starts a guest that was powered off for a failed operation, if its server is active.
pub(super) async fn start_again(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    let active = matches!(server.phase, Phase::Active { .. });
    let Some(placed) = server.placement.as_ref().filter(|_| active) else { return Ok(()) };
    if !work.host_answers(placed.host)? {
        return Ok(());
    }
    connect(work, placed.host, server).await?;
    match start(work, placed.host, server).await? {
        Ok(()) | Err(DriverError::NoSuchGuest(_) | DriverError::Unreachable(_)) => Ok(()),
        Err(error) => Err(StepError::again(error)),
    }
}

/// Removes the guest again if a delete came while the guest was being created, because the delete found no guest. After
/// a soft delete, the guest is only powered off.
pub(super) async fn yield_to_delete(work: &StepRun, host: HostId) -> Result<(), StepError> {
    match work.server().await? {
        None => destroy(work, host).await,
        Some(server) if matches!(server.ongoing, Some(OngoingTask::Delete { .. })) => destroy(work, host).await,
        Some(server) if is_to_be_off(&server) => {
            work.driver(host)?.stop(work.instance_id(), StopMode::Hard).await?;
            Ok(())
        }
        Some(_) => Ok(()),
    }
}

/// Whether a soft delete is under way or done, and no restore has begun.
fn is_to_be_off(server: &Alive) -> bool {
    match server.ongoing {
        Some(OngoingTask::SoftDelete { .. }) => true,
        Some(OngoingTask::Restore { .. }) => false,
        _ => server.is_soft_deleted(),
    }
}

/// Defines the guest again. If `rescue` is given, the guest gets a rescue disk created from that image.
pub(super) async fn reshape(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    renew: Renew,
    rescue: Option<&ImageSnapshot>,
) -> Result<(), StepError> {
    let driver = work.driver(host)?;
    let spec = spec(work, host, server, rescue).await?;
    let _turn = turn_of(work, host).await;
    let redefinition = driver.redefinition().needed().map_err(StepError::only_here)?;
    let redefined = async { Ok(redefinition.redefine(&spec, renew).await) };
    match tpm::with_passphrase(work, host, server, redefined).await? {
        Ok(()) => yield_to_delete(work, host).await,
        Err(error) if error.is_transient() => Err(StepError::again(error)),
        Err(error) => Err(StepError::only_here(error)),
    }
}

/// Fails while a change of the server's interfaces is under way, so that the step is retried. Otherwise the new guest
/// could keep a detached interface, or lack an attached one. No new changes are accepted meanwhile.
async fn interfaces_at_rest(work: &StepRun, server: &Alive) -> Result<(), StepError> {
    // The interfaces of a server that is being built do not change.
    if server.building().is_some() {
        return Ok(());
    }
    let (views, instance) = (&work.context.views, work.instance_id());
    let shown = views.wait_for(work.context.log.head(), LAG).await;
    match shown && !views.processes.read(|view| view.change_interfaces_of(instance)) {
        true => Ok(()),
        false => Err(StepError::again("an interface is still being attached or detached")),
    }
}

pub(super) async fn spec(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    rescue: Option<&ImageSnapshot>,
) -> Result<GuestSpec, StepError> {
    spec_of(work, host, server, rescue, ClaimHolder::Server).await
}

async fn spec_of(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    rescue: Option<&ImageSnapshot>,
    holder: ClaimHolder,
) -> Result<GuestSpec, StepError> {
    let mut spec = spec_without_files(work, host, server, rescue, holder).await?;
    if server.request.config_drive {
        spec.config_drive = Some(config_drive::content(work, server, &spec.nics).await?);
    }
    Ok(spec)
}

/// The specification for [`Renew::Definition`]. The host keeps the config drive, so its content is not made, and no
/// other service is asked for vendor data.
pub(super) async fn spec_of_definition(work: &StepRun, host: HostId, server: &Alive) -> Result<GuestSpec, StepError> {
    let mut spec = spec_without_files(work, host, server, None, ClaimHolder::Server).await?;
    spec.config_drive = server.request.config_drive.then(Bytes::new);
    Ok(spec)
}

async fn spec_without_files(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    rescue: Option<&ImageSnapshot>,
    holder: ClaimHolder,
) -> Result<GuestSpec, StepError> {
    interfaces_at_rest(work, server).await?;
    let mut realisation = work.context.networks.realise(&server.nics).await?;
    port_devices::give(&port_devices::held(work, host, server, holder).await?, &mut realisation.nics)?;
    let rescue_disk = rescue.map(|image| RescueDisk { image: image_ref(image), stable: place(image) });
    // Without a stable rescue, the guest has the hardware that the rescue image requests.
    let of_rescue = rescue.filter(|_| rescue_disk.as_ref().is_some_and(|disk| disk.stable.is_none()));
    let machine_type = machine::recorded(work, host, server).await?;
    Ok(GuestSpec {
        instance: work.instance_id(),
        domain_name: work.context.server_options.domain_name(work.instance_id(), server.request.number),
        display_name: server.request.name.clone(),
        flavor_name: server.request.flavor.name.clone(),
        project: server.request.project.clone(),
        user: server.request.user.clone(),
        vcpus: server.request.flavor.vcpus,
        memory_mib: server.request.flavor.memory_mib,
        root: server
            .root_image()
            .map(|image| RootDisk { image: image_ref(image), size_gib: server.request.flavor.root_gib }),
        ephemerals_gib: disks::ephemerals(server),
        swap_mib: disks::swap(server),
        volumes: volumes(work.context.volumes.as_ref(), server, &work.meta).await?,
        config_drive: None,
        nics: realisation.nics,
        hardware: match of_rescue {
            Some(image) => hardware(server, Some(image), image_machine(image).or(Some(&machine_type))),
            None => hardware(server, server.hardware_image(), Some(&machine_type)),
        },
        rescue: rescue_disk,
        pinning: pinned::place(work, host, server, holder).await?,
        devices: pinned::devices(work, host, server, holder).await?,
        mdevs: pinned::mdevs(work, host, server, holder).await?,
        tpm_secret: tpm::secret(work, server).await?,
    })
}

fn image_machine(image: &ImageSnapshot) -> Option<&str> {
    image.properties.iter().find(|(name, _)| name == machine::PROPERTY).map(|(_, machine_type)| machine_type.as_str())
}

/// The hardware properties of the image and of the flavor, with the machine type and the required traits. Users can
/// write any property into an image. So only properties with the prefixes of Nova's image properties are used
/// (`nova.objects.image_meta`). Apart from required traits, names with a colon come only from the flavor, because some
/// of them limit the guest's resources.
fn hardware(server: &Alive, image: Option<&ImageSnapshot>, machine_type: Option<&str>) -> Vec<(String, String)> {
    let of_images = |name: &str| {
        !name.contains(':') && name != machine::PROPERTY && ["hw_", "os_", "img_"].iter().any(|of| name.starts_with(of))
    };
    let properties = image.into_iter().flat_map(|image| &image.properties).filter(|(name, _)| of_images(name));
    let shapes = |name: &str| {
        ["hw:", "hw_rng:", "os:", "quota:"].iter().any(|of| name.starts_with(of)) || name == "hide_hypervisor_id"
    };
    let specs = server.request.flavor.extra_specs.iter().filter(|(name, _)| shapes(name));
    let traits = required_traits(server, image);
    let machine = machine_type.map(|machine_type| (machine::PROPERTY.to_owned(), machine_type.to_owned()));
    machine.into_iter().chain(properties.chain(specs).cloned()).chain(traits).collect()
}

/// The traits that any group of resources of flavor and image requires. By these traits, the driver chooses the model
/// of the guest's CPU.
fn required_traits(server: &Alive, image: Option<&ImageSnapshot>) -> Vec<(String, String)> {
    let of_image = image.into_iter().flat_map(|image| &image.properties);
    let all = of_image.chain(&server.request.flavor.extra_specs).filter(|(_, value)| value == "required");
    let named = all.filter_map(|(key, value)| {
        let (group, name) = key.split_once(':')?;
        group.starts_with("trait").then(|| (format!("trait:{name}"), value.clone()))
    });
    named.collect()
}

/// Nova's `check_hw_rescue_props`: `hw_rescue_device` or `hw_rescue_bus` requests a stable rescue, in which the devices
/// stay as they are.
fn place(image: &ImageSnapshot) -> Option<RescuePlace> {
    let property = |name: &str| image.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let (device, bus) = (property("hw_rescue_device"), property("hw_rescue_bus"));
    (device.is_some() || bus.is_some()).then(|| RescuePlace { cdrom: device.as_deref() == Some("cdrom"), bus })
}

/// Creates an interface's network and filter on the host, and attaches the interface to the guest.
pub(super) async fn plug(work: &StepRun, host: HostId, server: &Alive, nic: NicInfo) -> Result<(), StepError> {
    let devices = port_devices::held_by_server(work, host, &nic).await?;
    plug_in(work.context.networks.as_ref(), &work.driver(host)?, work.instance_id(), server, (nic, devices.as_slice()))
        .await
}

/// Like [`plug`], for callers without a process.
pub(crate) async fn plug_in(
    networks: &dyn NetworkService,
    driver: &Arc<dyn Driver>,
    instance: InstanceId,
    server: &Alive,
    (nic, devices): (NicInfo, &[PortDevice]),
) -> Result<(), StepError> {
    let mut realisation = networks.realise(&[nic]).await?;
    port_devices::give(devices, &mut realisation.nics)?;
    for network in &realisation.networks {
        driver.networks().needed()?.ensure_network(network).await.map_err(soon)?;
    }
    for filter in &realisation.filters {
        driver.networks().needed()?.ensure_filter(filter).await.map_err(soon)?;
    }
    let hardware = hardware(server, server.hardware_image(), server.machine_type());
    for nic in &realisation.nics {
        driver.interfaces().needed()?.attach_nic(instance, nic, &hardware).await.map_err(soon)?;
    }
    Ok(())
}

/// Gives the guest the interfaces that are devices of its host. Does nothing if the guest is gone, or if the host does
/// not answer: the host's agent attaches what the guest lacks when the host is back.
pub(super) async fn plug_devices(work: &StepRun, placed: &Placed, server: &Alive) -> Result<(), StepError> {
    let devices = port_devices::at(work, server, placed).await?;
    if devices.is_empty() || !work.host_answers(placed.host)? {
        return Ok(());
    }
    let driver = work.driver(placed.host)?;
    let Some(interfaces) = driver.interfaces() else { return Ok(()) };
    match interfaces.nics(work.instance_id()).await {
        Ok(_) => {}
        Err(DriverError::NoSuchGuest(_)) => return Ok(()),
        Err(error) => return Err(StepError::again(error)),
    }
    for nic in server.nics.iter().filter(|nic| devices.iter().any(|device| device.port == nic.port)) {
        let nic = (nic.clone(), devices.as_slice());
        let plugged = plug_in(work.context.networks.as_ref(), &driver, work.instance_id(), server, nic).await;
        plugged.map_err(StepError::persist)?;
    }
    Ok(())
}

/// Like [`plug_devices`], for a process that took the devices from the guest. A refusal does not hold the process up:
/// the host's agent attaches what the guest lacks. The agent also does so if another operation owns the guest now.
pub(super) async fn restore_devices(work: &StepRun, placed: &Placed, server: &Alive) -> Result<(), StepError> {
    // A host that has not answered since start-up answers soon, or is recorded as down.
    work.host_answers(placed.host)?;
    let process = work.running.process;
    let plugged = match server.ongoing.is_none_or(|ongoing| ongoing.process() == process) {
        true => plug_devices(work, placed, server).await,
        false => Err(StepError::again("another operation owns the guest")),
    };
    if let Err(error) = plugged {
        leave_to_agent(work, placed.host, &error);
    }
    Ok(())
}

/// Lets the host's agent attach the interfaces that the guest lacks ([`crate::reconcile::devices`]).
pub(super) fn leave_to_agent(work: &StepRun, host: HostId, error: &StepError) {
    let (server, reason) = (work.instance_id(), error.fault().details);
    tracing::warn!(%server, reason, "plugging in an interface failed, the host's agent retries");
    work.context.fleet.suspects.add(host, [server]);
}

/// Maps an error of the driver. A host that does not answer may answer soon, so the step is retried.
fn soon(error: DriverError) -> StepError {
    match error.is_transient() {
        true => StepError::again(error),
        false => error.into(),
    }
}

/// Removes the packet filters of interfaces that no guest on the host has any more. A failure is ignored, because a
/// leftover filter does no harm. The next guest with the port takes the filter over.
pub(super) async fn forget_filters(work: &StepRun, host: HostId, nics: &[NicInfo]) {
    let Ok(driver) = work.driver(host) else { return };
    let Some(networks) = driver.networks() else { return };
    for filter in work.context.networks.realise(nics).await.unwrap_or_default().filters {
        let _ = networks.remove_filter(&filter.name).await;
    }
}

/// Removes the guest. If the host does not answer, the step succeeds nevertheless. The host's agent removes the
/// leftovers when the host is back (see [`crate::hosts::plan`]).
pub(super) async fn destroy(work: &StepRun, host: HostId) -> Result<(), StepError> {
    if !work.host_answers(host)? {
        return Ok(());
    }
    let driver = work.driver(host)?;
    match driver.destroy(work.instance_id()).await {
        Ok(()) | Err(DriverError::NoSuchGuest(_)) => {}
        Err(DriverError::Unreachable(_)) => return Ok(()),
        Err(error) => return Err(StepError::again(error)),
    }
    if let Some(server) = work.server().await? {
        forget_filters(work, host, &server.nics).await;
    }
    Ok(())
}

/// Converts the image service's name of a disk format into the driver's type.
pub(super) fn image_format(word: &str) -> ImageFormat {
    match word {
        "qcow2" => ImageFormat::Qcow2,
        "iso" => ImageFormat::Iso,
        _ => ImageFormat::Raw,
    }
}

pub(crate) fn image_ref(image: &ImageSnapshot) -> ImageRef {
    ImageRef {
        id: image.id,
        checksum: image.checksum.clone(),
        format: image_format(&image.format),
        size: image.size,
        virtual_size: image.virtual_size,
    }
}

/// Adapts the port of the image service to the drivers. `work` names the request for which the images are read.
pub(crate) struct PortImageSource {
    images: Arc<dyn ImageService>,
    work: Arc<Meta>,
}

impl PortImageSource {
    pub(crate) fn new(images: &Arc<dyn ImageService>, work: &Arc<Meta>) -> Self {
        Self { images: Arc::clone(images), work: Arc::clone(work) }
    }
}

#[async_trait::async_trait]
impl ImageSource for PortImageSource {
    async fn open(&self, image: &ImageRef) -> Result<ByteStream, DriverError> {
        self.images.open_as(image, &self.work).await
    }

    async fn places(&self, image: &ImageRef) -> DriverResult<Vec<String>> {
        self.images.places_as(image, &self.work).await
    }
}

/// Reads an image from the image service, or, if that fails, from a host's cache.
struct FallbackImageSource {
    first: PortImageSource,
    driver: Arc<dyn Driver>,
}

#[async_trait::async_trait]
impl ImageSource for FallbackImageSource {
    async fn open(&self, image: &ImageRef) -> Result<ByteStream, DriverError> {
        match self.first.open(image).await {
            Ok(content) => Ok(content),
            Err(error) => match self.driver.disk_transfer() {
                Some(transfer) => transfer.read_image(image).await.map_err(|_| error),
                None => Err(error),
            },
        }
    }

    async fn places(&self, image: &ImageRef) -> DriverResult<Vec<String>> {
        self.first.places(image).await
    }
}
