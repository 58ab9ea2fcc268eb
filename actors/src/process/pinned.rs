//! The CPUs, NUMA cells, PCI devices and mediated devices that a new guest gets on its host, as claimed in the placement
//! ledger.

use std::collections::BTreeSet;

use chronova_events::ids::{HostId, ProviderId};
use chronova_events::instance::Alive;
use chronova_events::ledger::HeldPciDevice;
use chronova_hypervisor::driver::DriverError;
use chronova_hypervisor::mdev::GuestMdev;
use chronova_hypervisor::pci::PassedDevice;
use chronova_hypervisor::pinning::Pinning;

use super::claim_holder::{ClaimHolder, caught_up, migration_consumer, server_consumer};
use super::definition::{StepError, StepRun};
use super::moving::MovingServer;
use crate::instance::unsupported::HostBoundHardware;
use crate::mdev;
use crate::topology::{self, GuestNumaTopology, pinning::pinning};

/// The NUMA topology that the server requests. The API did not always check topologies, so an old server may request an
/// impossible one. The CPUs of such a server float.
fn asked(server: &Alive) -> Option<GuestNumaTopology> {
    topology::ask(&server.request.flavor, server.hardware_image()).ok().flatten()
}

/// The guest's CPUs and memory on the host.
///
/// # Errors
/// The ledger has assigned no NUMA cells to a guest that requests a topology, or the read models lag behind the log.
pub(super) async fn place(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    holder: ClaimHolder,
) -> Result<Pinning, StepError> {
    let provider = ProviderId(host.0);
    let asked = asked(server);
    if asked.is_some() {
        caught_up(work).await?;
    }
    work.context.views.placement.read(|view| {
        let ledger = &view.ledger;
        let cells = ledger.cells.get(&provider).map(|cells| &**cells);
        let Some(topology) = asked else { return Ok(pinning(cells, &[], None, &BTreeSet::new())) };
        let consumer = holder.consumer(work, ledger);
        match ledger.fitting(&consumer).filter(|fitting| fitting.host == provider) {
            Some(fitting) => Ok(pinning(cells, &fitting.cells, topology.emulator, &topology.realtime)),
            None => {
                let message = "The guest has no processors and memory of its own on its host.";
                Err(StepError::fatal(500, message, format!("{consumer} holds none of {provider}")))
            }
        }
    })
}

/// The PCI devices that the guest gets on the host because of its flavor.
///
/// # Errors
/// The ledger has assigned no devices to a guest whose flavor requests some, or the read models lag behind the log.
pub(super) async fn devices(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    holder: ClaimHolder,
) -> Result<Vec<PassedDevice>, StepError> {
    if !HostBoundHardware::PciDevices.is_had_by(server) {
        return Ok(Vec::new());
    }
    caught_up(work).await?;
    let provider = ProviderId(host.0);
    work.context.views.placement.read(|view| {
        let ledger = &view.ledger;
        let consumer = holder.consumer(work, ledger);
        let held = ledger.pci_claims.of(&consumer).filter(|(on, _)| *on == provider);
        let known = ledger.pci.get(&provider);
        let passed = |device: &HeldPciDevice| {
            let known = known.and_then(|known| known.device(device.address));
            PassedDevice { address: device.address, managed: known.is_none_or(|known| known.managed) }
        };
        match held {
            // The devices of ports are interfaces of the guest.
            Some((_, devices)) => Ok(devices.iter().filter(|device| device.port().is_none()).map(passed).collect()),
            None => {
                let message = "The guest has no PCI devices of its own on its host.";
                Err(StepError::fatal(500, message, format!("{consumer} holds none of {provider}")))
            }
        }
    })
}

/// The mediated devices that the guest gets on the host.
///
/// # Errors
/// The host does not offer the claimed devices any more, or the read models lag behind the log.
pub(super) async fn mdevs(
    work: &StepRun,
    host: HostId,
    server: &Alive,
    holder: ClaimHolder,
) -> Result<Vec<GuestMdev>, StepError> {
    let options = &work.context.server_options.mdevs;
    if !options.are_wanted_by(server) {
        return Ok(Vec::new());
    }
    caught_up(work).await?;
    work.context.views.placement.read(|view| {
        let ledger = &view.ledger;
        let held = ledger.consumers.get(&holder.consumer(work, ledger));
        let allocations = held.map(|held| held.claim.allocations.as_slice()).unwrap_or_default();
        let devices = mdev::devices(work.instance_id(), allocations, ProviderId(host.0), ledger, options);
        // Another host may offer the devices.
        devices.map_err(|message| StepError::from(DriverError::Failed { call: "mediated devices", message }))
    })
}

/// The page size of the guest's memory, if the server requests one. A live migration cannot change it.
pub(super) async fn page_kib(work: &StepRun, subject: &MovingServer) -> Result<Option<u64>, StepError> {
    if asked(&subject.server).is_none_or(|topology| topology.pages.is_none()) {
        return Ok(None);
    }
    caught_up(work).await?;
    let holders = [migration_consumer(subject.moving.migration), server_consumer(work)];
    Ok(work.context.views.placement.read(|view| {
        let fitting = holders.iter().find_map(|holder| view.ledger.fitting(holder))?;
        fitting.cells.first()?.page_kib
    }))
}
