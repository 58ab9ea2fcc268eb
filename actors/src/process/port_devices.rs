//! The PCI devices that are interfaces of a server: requested by its ports, and claimed in the placement ledger.

use std::sync::Arc;

use chronova_events::ids::{ConsumerId, HostId, InstanceId, PortId, ProviderId};
use chronova_events::instance::{Alive, NicInfo, Placed};
use chronova_events::ledger::Ledger;
use chronova_hypervisor::capability::Needed as _;
use chronova_hypervisor::driver::{Driver, DriverError};
use chronova_hypervisor::guest::{Nic, NicPlug};
use chronova_hypervisor::pci::HostPci;
use chronova_projections::views::Views;

use super::claim_holder::{ClaimHolder, caught_up, server_consumer};
use super::definition::{StepError, StepRun};
use crate::aggregate::CommandError;
use crate::ledger::{CELL, LedgerCommand, LedgerRoot};
use crate::pci::cards;
use crate::pci::ports::{DevicePort, DeviceVnic, PortDevice};
use crate::ports::PortAllocations;

/// The ports that users gave to the server. A server that is being built gets the ports that its user named. Other
/// ports, which are created for a server, need no device and request no resources. Their `vnic_type` is `normal`, and
/// the network service refuses to create such a port with a request for resources.
pub(super) fn of_users(server: &Alive) -> Vec<PortId> {
    match server.building() {
        Some(_) => server.request.networks.listed().iter().filter_map(|nic| nic.port).collect(),
        None => server.nics.iter().filter(|nic| !nic.owned).map(|nic| nic.port).collect(),
    }
}

/// The ports of the server that need devices of its next host.
pub(super) async fn requested(work: &StepRun, server: &Alive) -> Result<Vec<DevicePort>, StepError> {
    of_ports(work, &of_users(server)).await
}

/// The ports among these that need a device of their host.
pub(super) async fn of_ports(work: &StepRun, ports: &[PortId]) -> Result<Vec<DevicePort>, StepError> {
    match ports.is_empty() {
        true => Ok(Vec::new()),
        false => Ok(work.context.networks.device_ports(ports, &work.meta).await?),
    }
}

/// The devices that the server's ports have on the host, with the host's names of them. A host that is down does not
/// report these names. The bindings of ports do without them, and such a host gets no guests.
pub(super) async fn held(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    holder: ClaimHolder,
) -> Result<Vec<PortDevice>, StepError> {
    if of_users(server).is_empty() {
        return Ok(Vec::new());
    }
    caught_up(work).await?;
    let consumer = work.context.views.placement.read(|view| holder.consumer(work, &view.ledger));
    held_by(work, host, &consumer).await
}

/// Like [`held`], for one interface, which the record of the server may lack.
pub(super) async fn held_by_server(work: &StepRun, host: HostId, nic: &NicInfo) -> Result<Vec<PortDevice>, StepError> {
    if nic.owned {
        return Ok(Vec::new());
    }
    caught_up(work).await?;
    held_by(work, host, &server_consumer(work)).await
}

/// The device that a port of the server has on its host.
pub(super) async fn of_port(work: &StepRun, host: HostId, port: PortId) -> Result<Option<PortDevice>, StepError> {
    caught_up(work).await?;
    let held = held_by(work, host, &server_consumer(work)).await?;
    Ok(held.into_iter().find(|device| device.port == port))
}

async fn held_by(work: &StepRun, host: HostId, consumer: &ConsumerId) -> Result<Vec<PortDevice>, StepError> {
    let views = &work.context.views;
    let unnamed = claimed(views, host, consumer, None);
    if unnamed.is_empty() || !work.host_answers(host)? {
        return Ok(unnamed);
    }
    named(views, &work.driver(host)?, host, consumer).await
}

/// The claimed devices, with the host's names of them.
async fn named(
    views: &Views,
    driver: &Arc<dyn Driver>,
    host: HostId,
    consumer: &ConsumerId,
) -> Result<Vec<PortDevice>, StepError> {
    let found = driver.capabilities().await.map_err(StepError::again)?;
    Ok(claimed(views, host, consumer, Some(&found.pci)))
}

/// The devices by the placement ledger. `found`: the host's own description of its devices.
fn claimed(views: &Views, host: HostId, consumer: &ConsumerId, found: Option<&HostPci>) -> Vec<PortDevice> {
    views.placement.read(|view| of_consumer(&view.ledger, host, consumer, found))
}

fn of_consumer(ledger: &Ledger, host: HostId, consumer: &ConsumerId, found: Option<&HostPci>) -> Vec<PortDevice> {
    let provider = ProviderId(host.0);
    let held = ledger.pci_claims.of(consumer).filter(|(on, _)| *on == provider);
    let Some(((_, devices), known)) = held.zip(ledger.pci.get(&provider)) else { return Vec::new() };
    let all = devices.iter().filter_map(|held| PortDevice::of(held, known.device(held.address)?, found));
    all.collect()
}

/// The devices of the server's ports at one end of its move, or on its only host.
pub(super) async fn at(work: &StepRun, server: &Alive, placed: &Placed) -> Result<Vec<PortDevice>, StepError> {
    held(work, placed.host, server, ClaimHolder::at(server, placed)).await
}

/// Gives the interfaces their devices.
///
/// # Errors
/// The ledger has assigned no device to an interface that needs one.
pub(super) fn give(devices: &[PortDevice], nics: &mut [Nic]) -> Result<(), StepError> {
    for nic in nics {
        if let Some(device) = devices.iter().find(|device| device.port == nic.port) {
            device.give_to(&mut nic.plug);
        }
        if let NicPlug::Device(plugged) = &nic.plug
            && plugged.device.is_none()
        {
            let message = "An interface of the guest has no PCI device of its own on its host.";
            return Err(StepError::fatal(500, message, format!("port {} holds no device", nic.port)));
        }
    }
    Ok(())
}

/// The devices of a server's ports on its host, for callers without a process. Only for a host that answers.
pub(crate) async fn of_server(
    views: &Views,
    driver: &Arc<dyn Driver>,
    host: HostId,
    instance: InstanceId,
    server: &Alive,
) -> Result<Vec<PortDevice>, StepError> {
    if of_users(server).is_empty() {
        return Ok(Vec::new());
    }
    let consumer = ConsumerId::new(instance.to_string());
    match claimed(views, host, &consumer, None).is_empty() {
        true => Ok(Vec::new()),
        false => named(views, driver, host, &consumer).await,
    }
}

/// The interfaces of a guest that are devices of its host.
pub(super) struct DeviceInterfaces {
    ports: Vec<PortId>,
    /// Whether one of them is a whole card. A whole card cannot be plugged into an existing guest, nor unplugged.
    pub(super) has_whole_card: bool,
}

/// The interfaces of the guest at one end of its move, or on its only host. A user may have changed `vnic_type` of a
/// port since it got its device, so the claims say which interfaces these are. A server that Nova built has no such
/// claims.
pub(super) async fn in_guest(work: &StepRun, server: &Alive, placed: &Placed) -> Result<DeviceInterfaces, StepError> {
    let held = at(work, server, placed).await?;
    if held.is_empty() {
        let asked = requested(work, server).await?;
        let ports = asked.iter().map(|port| port.port).collect();
        return Ok(DeviceInterfaces { ports, has_whole_card: ask_for_card(&asked) });
    }
    let ports = held.iter().map(|device| device.port).collect();
    Ok(DeviceInterfaces { ports, has_whole_card: held.iter().any(PortDevice::is_whole_card) })
}

/// Whether the interface is a whole card.
pub(super) async fn is_whole_card(work: &StepRun, host: HostId, nic: &NicInfo) -> Result<bool, StepError> {
    if nic.owned {
        return Ok(false);
    }
    match of_port(work, host, nic.port).await? {
        Some(device) => Ok(device.is_whole_card()),
        None => Ok(ask_for_card(&of_ports(work, &[nic.port]).await?)),
    }
}

fn ask_for_card(ports: &[DevicePort]) -> bool {
    ports.iter().any(|port| port.vnic == DeviceVnic::DirectPhysical)
}

/// Takes these interfaces from the guest.
pub(super) async fn unplug(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    devices: &DeviceInterfaces,
) -> Result<(), StepError> {
    for nic in server.nics.iter().filter(|nic| devices.ports.contains(&nic.port)) {
        match work.driver(host)?.interfaces().needed()?.detach_nic(work.instance_id(), &nic.mac).await {
            Ok(()) | Err(DriverError::NoSuchGuest(_)) => {}
            Err(error) if error.is_transient() => return Err(StepError::again(error)),
            Err(error) => {
                let message = format!("Failed to detach network adapter device from {}", work.instance_id());
                return Err(StepError::fatal(500, &message, error));
            }
        }
    }
    Ok(())
}

/// Claims a device for a port that is attached to the server. `given`: the providers of the port's resources. If one of
/// them is a card, the device is of that card.
pub(super) async fn claim(
    work: &StepRun,
    server: &Alive,
    host: HostId,
    wanted: &DevicePort,
    given: &PortAllocations,
) -> Result<(), StepError> {
    let (port, ports) = (wanted.port, std::slice::from_ref(wanted));
    let options = work.context.scheduler.options();
    let (flavor, image) = (&server.request.flavor, server.hardware_image());
    let asked = options.pci_aliases.of_server(flavor, image, ports);
    let mut asked = asked.map_err(|reason| StepError::fatal(400, &reason, ""))?;
    let cards = work.context.fleet.member(host).map(|member| member.cards()).unwrap_or_default();
    let cards = work.context.views.placement.read(|view| cards::of_ports(given, &view.ledger, &cards));
    cards::restrict(&mut asked, &cards);
    if ask_for_card(ports) {
        let message =
            format!("Port {port} has binding:vnic_type direct-physical, which an existing server cannot get.");
        return Err(StepError::fatal(400, &message, ""));
    }
    for request in asked.into_iter().filter(|request| request.port.is_some()) {
        let server = server_consumer(work);
        let command = LedgerCommand::ClaimForPort { server, host: ProviderId(host.0), request: Box::new(request) };
        match work.context.gateway.send::<LedgerRoot>(&CELL, command, work.meta.clone()).await {
            Ok(_) => {}
            Err(CommandError::Rejected(reject)) => {
                let message = format!("Failed to claim PCI device for port {port} of instance {}.", work.instance_id());
                return Err(StepError::fatal(400, &message, reject));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Releases the port's device, if it has one.
pub(super) async fn release(work: &StepRun, port: PortId) -> Result<(), StepError> {
    let server = server_consumer(work);
    let command = LedgerCommand::ReleaseOfPort { server, port };
    work.context.gateway.send::<LedgerRoot>(&CELL, command, work.meta.clone()).await?;
    Ok(())
}
