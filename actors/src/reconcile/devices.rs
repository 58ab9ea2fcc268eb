//! Compares the volumes and interfaces of a host's guests with those of their servers when the host is back.
//!
//! A host may die while a device is attached or detached. Then the control plane cannot find out whether the change was
//! made, and keeps the server's recorded devices. The host agent corrects the guest's devices before the host counts as
//! up, and before another guest can get a volume. It ends unfinished copies of swaps, detaches devices that the server
//! does not have, and attaches missing ones.
//!
//! If another generation of the log drove the hosts ([`crate::hosts::doubt`]), it may have attached and detached
//! devices. A volume that the guest lacks may then be attached to another server, and two guests must not write to it.
//! So the agent changes no device of a server that the other generation may have changed, and only logs the differences
//! in volumes. The differences stay until a hard reboot gives the guest the devices in the log.
//!
//! A guest that could not be corrected stays suspect until it is correct. A live migration takes a guest's devices to
//! another host. So the suspicion follows the server, and the destination compares every guest that has arrived.
//!
//! Devices that a process works on wait for the next comparison. The agent reads the guest before it reads the server.
//! Otherwise a process could detach a device between the two, and the agent would take the device for a missing one.
//!
//! After a start, every server of the cloud is compared. Loading all their actors would occupy the log for long, and
//! nearly all guests are right. So the agent compares a guest with the read model first. The read model shows a moment
//! that is past: a process may have detached a device since, and another server may have the volume. So if a guest
//! differs, the agent asks the server's actor, once before the correction and again before each change of a device.
//!
//! The corrections record no events: after a crash, the control plane compares every host again.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::envelope::Meta;
use chronova_events::ids::{HostId, InstanceId};
use chronova_events::instance::{Alive, Instance, NicInfo, Phase};
use chronova_hypervisor::driver::{Driver, DriverError, DriverResult};

use crate::hosts::context::HostContext;
use crate::instance::InstanceRoot;
use crate::process::disks::volume_disk;
use crate::process::{guest, port_devices};

/// Makes all servers on the host suspect. Returns false if the read models lag, so that the agent tries again.
pub(crate) async fn suspect_all(context: &HostContext, host: HostId) -> bool {
    if !context.views.wait_for(context.log.head(), context.options.resync).await {
        return false;
    }
    let servers: Vec<InstanceId> =
        context.views.servers.read(|servers| servers.on_host(host).map(|row| row.id).collect());
    context.fleet.suspects.add(host, servers);
    true
}

/// Corrects the devices of the suspect guests on a host. Guests that are not correct afterwards stay suspect, so that
/// the agent compares them again.
pub(crate) async fn put_right(context: &HostContext, host: HostId, driver: &Arc<dyn Driver>) {
    for id in context.fleet.suspects.take(host) {
        let row = context.views.servers.read(|servers| servers.get(id).cloned());
        if row.is_some_and(|row| row.instance.alive().is_some_and(is_suspended)) {
            context.fleet.suspects.add(host, [id]);
            continue;
        }
        match compare(context, host, driver, id).await {
            Ok(DeviceComparison::Right | DeviceComparison::Elsewhere(None)) => {}
            Ok(DeviceComparison::Suspect) => context.fleet.suspects.add(host, [id]),
            Ok(DeviceComparison::Elsewhere(Some(other))) => {
                context.fleet.suspects.add(other, [id]);
                if let Some(member) = context.fleet.member(other) {
                    member.resync.notify_one();
                }
            }
            Err(error) => {
                tracing::debug!(%host, server = %id, %error, "correcting the devices of a guest failed, retrying");
                context.fleet.suspects.add(host, [id]);
            }
        }
    }
}

/// The result of a comparison.
enum DeviceComparison {
    Right,
    /// The guest was corrected just now, or cannot be compared or corrected yet.
    Suspect,
    /// The server is on another host, or on none.
    Elsewhere(Option<HostId>),
}

impl DeviceComparison {
    fn of(right: bool) -> Self {
        if right { Self::Right } else { Self::Suspect }
    }
}

/// The devices of a guest; `None` if the host cannot attach devices of that kind.
struct FoundDevices {
    /// The keys of the volumes.
    volumes: Option<BTreeSet<String>>,
    /// The MAC addresses of the interfaces.
    interfaces: Option<Vec<String>>,
}

impl FoundDevices {
    /// Whether the devices are those of the server. A whole card may be missing here although the guest has it.
    fn are_of(&self, server: &Alive) -> bool {
        let volumes = self.volumes.as_ref().is_none_or(|found| *found == volumes_of(server));
        let interfaces = self.interfaces.as_ref().is_none_or(|found| {
            server.nics.iter().all(|nic| found.contains(&nic.mac.to_ascii_lowercase()))
                && found.iter().all(|mac| has_interface(server, mac))
        });
        volumes && interfaces
    }
}

/// The keys of the server's volumes.
fn volumes_of(server: &Alive) -> BTreeSet<String> {
    let connections = server.disks.iter().filter_map(|disk| disk.device.connection.as_ref());
    connections.map(|connection| connection.disk_key().to_owned()).collect()
}

fn has_interface(server: &Alive, mac: &str) -> bool {
    server.nics.iter().any(|nic| nic.mac.eq_ignore_ascii_case(mac))
}

async fn devices_of(driver: &Arc<dyn Driver>, id: InstanceId) -> DriverResult<FoundDevices> {
    let volumes = match driver.volume_attachment() {
        Some(part) => Some(part.disks(id).await?.into_iter().collect()),
        None => None,
    };
    let interfaces = match driver.interfaces() {
        Some(part) => Some(part.nics(id).await?),
        None => None,
    };
    Ok(FoundDevices { volumes, interfaces })
}

/// Whether no process changes the server's interfaces. The read model has all events up to now.
async fn keeps_interfaces(context: &HostContext, id: InstanceId) -> bool {
    context.views.wait_for(context.log.head(), context.options.resync).await
        && !context.views.processes.read(|processes| processes.change_interfaces_of(id))
}

/// The server, if the guest on this host can be compared with it; otherwise the result of the comparison.
fn comparable(server: Option<&Alive>, host: HostId) -> Result<&Alive, DeviceComparison> {
    let Some(server) = server else { return Err(DeviceComparison::Elsewhere(None)) };
    match server.placement.as_ref().map(|at| at.host) {
        Some(at) if at == host => {}
        elsewhere => return Err(DeviceComparison::Elsewhere(elsewhere)),
    }
    if server.ongoing.is_some() || server.moving.is_some() || has_disks_at_work(server) || is_suspended(server) {
        return Err(DeviceComparison::Suspect);
    }
    if has_its_own_devices(server) { Ok(server) } else { Err(DeviceComparison::Right) }
}

async fn compare(
    context: &HostContext,
    host: HostId,
    driver: &Arc<dyn Driver>,
    id: InstanceId,
) -> DriverResult<DeviceComparison> {
    // The order matters: first the guest, then the processes, then the server. A process that has changed the guest is
    // then still under way, or the server shows its change.
    let found = devices_of(driver, id).await;
    // While a batch is folded, the end of a process may be in one read model and not yet in the other. So the server is
    // read at a later position.
    if !keeps_interfaces(context, id).await || !context.views.wait_for(context.log.head(), context.options.resync).await
    {
        return Ok(DeviceComparison::Suspect);
    }
    let row = context.views.servers.read(|servers| servers.get(id).cloned());
    let server = match comparable(row.as_ref().and_then(|row| row.instance.alive()), host) {
        Ok(server) => server,
        Err(result) => return Ok(result),
    };
    let found = match found {
        // A missing guest gets its server's devices when it is created again.
        Err(DriverError::NoSuchGuest(_)) => return Ok(DeviceComparison::Right),
        found => found?,
    };
    if !context.fleet.doubt().trusts(server.created_at) {
        doubt(host, id, server, &found);
        return Ok(DeviceComparison::Right);
    }
    abandon_swaps(driver, id, server).await?;
    if found.are_of(server) {
        return Ok(DeviceComparison::Right);
    }
    if !keeps_interfaces(context, id).await {
        return Ok(DeviceComparison::Suspect);
    }
    let Ok(now) = context.gateway.look::<InstanceRoot>(&id).await else { return Ok(DeviceComparison::Suspect) };
    let server = match comparable(now.alive(), host) {
        Ok(server) => server,
        Err(result) => return Ok(result),
    };
    let right = compare_volumes(context, host, driver, id, server, &found).await?
        & compare_interfaces(context, host, driver, id, server, &found).await?;
    Ok(DeviceComparison::of(right))
}

/// The server as its actor has it now, if the guest can still be compared with it. Earlier changes of the guest may have
/// taken long, so each change of a device asks again.
async fn server_now(context: &HostContext, host: HostId, id: InstanceId) -> Option<Box<Alive>> {
    if !keeps_interfaces(context, id).await {
        return None;
    }
    let now = context.gateway.look::<InstanceRoot>(&id).await.ok()?;
    comparable(now.alive(), host).ok()?;
    match now {
        Instance::Alive(server) => Some(server),
        Instance::Absent | Instance::Deleted(_) => None,
    }
}

/// Logs the volumes in which the guest differs from a server that another generation may have changed.
fn doubt(host: HostId, id: InstanceId, server: &Alive, found: &FoundDevices) {
    let Some(found) = &found.volumes else { return };
    let known = volumes_of(server);
    if *found != known {
        let (guest, log) = (format!("{found:?}"), format!("{known:?}"));
        tracing::warn!(
            %host, server = %id, guest, log,
            "the volumes of the guest differ from the log, but another copy of the log may have changed them: leaving \
             both alone"
        );
    }
}

/// Ends copies of volumes that a process gave up while the host was away.
async fn abandon_swaps(driver: &Arc<dyn Driver>, id: InstanceId, server: &Alive) -> DriverResult<()> {
    let Some(volumes) = driver.volume_attachment() else { return Ok(()) };
    for connection in server.disks.iter().filter_map(|disk| disk.device.connection.as_ref()) {
        volumes.abandon_swap(id, connection.disk_key()).await?;
    }
    Ok(())
}

async fn compare_volumes(
    context: &HostContext,
    host: HostId,
    driver: &Arc<dyn Driver>,
    id: InstanceId,
    server: &Alive,
    found: &FoundDevices,
) -> DriverResult<bool> {
    let (Some(volumes), Some(found)) = (driver.volume_attachment(), &found.volumes) else { return Ok(true) };
    let known = volumes_of(server);
    let mut right = true;
    // A foreign disk may have the device name of a missing disk, so foreign disks are detached first.
    for key in found.difference(&known) {
        right = false;
        if server_now(context, host, id).await.is_some_and(|now| !volumes_of(&now).contains(key)) {
            tracing::warn!(%host, server = %id, volume = key, "detaching a volume that is not the server's");
            volumes.detach_disk(id, key).await?;
        }
    }
    let meta = Meta::system("devices");
    let connected = server.disks.iter().filter_map(|disk| Some((&disk.device, disk.device.connection.as_ref()?)));
    for (device, connection) in connected.filter(|(_, connection)| !found.contains(connection.disk_key())) {
        right = false;
        let Ok(disk) = volume_disk(context.volumes.as_ref(), server, device, connection, &meta).await else { continue };
        let now = server_now(context, host, id).await;
        if now.is_some_and(|now| now.disks.iter().any(|disk| disk.device == *device)) {
            tracing::warn!(%host, server = %id, volume = connection.serial, "attaching a missing volume to a guest");
            volumes.attach_disk(id, &disk).await?;
        }
    }
    Ok(right)
}

async fn compare_interfaces(
    context: &HostContext,
    host: HostId,
    driver: &Arc<dyn Driver>,
    id: InstanceId,
    server: &Alive,
    found: &FoundDevices,
) -> DriverResult<bool> {
    let (Some(interfaces), Some(found)) = (driver.interfaces(), &found.interfaces) else { return Ok(true) };
    let mut right = true;
    let missing: Vec<&NicInfo> =
        server.nics.iter().filter(|nic| !found.contains(&nic.mac.to_ascii_lowercase())).collect();
    // Only a missing interface needs the names of devices, for which the host is asked.
    let devices = match missing.is_empty() {
        true => Vec::new(),
        false => match port_devices::of_server(&context.views, driver, host, id, server).await {
            Ok(devices) => devices,
            Err(error) => {
                tracing::debug!(%host, server = %id, reason = error.fault().details, "devices of ports are unknown, retrying");
                return Ok(false);
            }
        },
    };
    // A whole card is in the guest as a PCI device, not as an interface with the port's MAC address. So it is not
    // missing.
    let is_card = |nic: &NicInfo| devices.iter().any(|device| device.port == nic.port && device.is_whole_card());
    for nic in missing.into_iter().filter(|nic| !is_card(nic)) {
        right = false;
        if server_now(context, host, id).await.is_none_or(|now| !now.nics.contains(nic)) {
            continue;
        }
        tracing::warn!(%host, server = %id, port = %nic.port, "attaching a missing interface to a guest");
        if let Err(error) =
            guest::plug_in(context.networks.as_ref(), driver, id, server, (nic.clone(), devices.as_slice())).await
        {
            tracing::debug!(%host, server = %id, port = %nic.port, reason = error.fault().details, "attaching a missing interface failed, retrying");
        }
    }
    for mac in found.iter().filter(|mac| !has_interface(server, mac)) {
        right = false;
        if server_now(context, host, id).await.is_some_and(|now| !has_interface(&now, mac)) {
            tracing::warn!(%host, server = %id, mac, "detaching an interface that is not the server's");
            interfaces.detach_nic(id, mac).await?;
        }
    }
    Ok(right)
}

fn has_disks_at_work(server: &Alive) -> bool {
    server.disks.iter().any(|disk| disk.work.is_some())
}

/// Whether the server is suspended. Its guest is off, and a resume restores its devices from its saved memory. The
/// agent cannot change these devices, so it compares the guest after the resume.
fn is_suspended(server: &Alive) -> bool {
    matches!(server.phase, Phase::Suspended { .. })
}

/// Whether the guest has the server's devices. The guest of a rescued server has another definition, and gets the
/// server's devices with its own definition. A guest that is off because its server is shelved or can be restored
/// keeps its devices. It also starts with them, so a foreign device must not stay.
fn has_its_own_devices(server: &Alive) -> bool {
    match server.phase {
        Phase::Active { .. } | Phase::Stopped { .. } | Phase::Paused { .. } | Phase::Error { .. } => true,
        Phase::Shelved { .. } | Phase::SoftDeleted { .. } => server.rescue.is_none(),
        _ => false,
    }
}
