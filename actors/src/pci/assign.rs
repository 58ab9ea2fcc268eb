//! Chooses the devices of a host that a guest gets.
//!
//! A device is free if no guest has it. While a guest has a physical function, its virtual functions are not free.
//! While a guest has one of the virtual functions, the physical function is not free.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{HeldPciDevice, HostPciDevice, HostPciReplaced, InventoryLine, Ledger, PciDeviceType};
use chronova_events::pci::PciAddress;

use super::alias::{PciNumaPolicy, PciRequest};

/// The free devices of a host.
#[derive(Debug, Clone)]
pub struct FreePci<'a> {
    host: &'a HostPciReplaced,
    free: Vec<&'a HostPciDevice>,
    /// The number of devices that Placement has left, by provider. Clients of Placement may reserve some.
    room: BTreeMap<ProviderId, u64>,
}

impl<'a> FreePci<'a> {
    /// The free devices of a host; `None` if the ledger has no record of its devices. `beside`: devices that other
    /// guests get although the ledger may not have them yet.
    pub fn of<'b>(
        ledger: &'a Ledger,
        host: ProviderId,
        beside: impl Iterator<Item = &'b HeldPciDevice>,
    ) -> Option<Self> {
        let known = ledger.pci.get(&host)?;
        let mut taken: BTreeSet<PciAddress> =
            ledger.pci_claims.on(host).flat_map(|(_, devices)| devices).map(|device| device.address).collect();
        let mut room: BTreeMap<ProviderId, u64> = BTreeMap::new();
        for device in &known.devices {
            let Some(provider) = device.provider else { continue };
            room.entry(provider).or_insert_with(|| {
                let line = ledger.providers.get(&provider).and_then(|known| known.inventories.get(&device.class));
                line.map_or(0, InventoryLine::free)
            });
        }
        for device in beside {
            // The ledger may already have the claim of this device. Then the device is already counted.
            if taken.insert(device.address)
                && let Some(left) = device.tracked.as_ref().and_then(|(provider, _)| room.get_mut(provider))
            {
                *left = left.saturating_sub(1);
            }
        }
        let mut blocked = taken.clone();
        for device in &known.devices {
            match device.parent {
                Some(parent) if taken.contains(&parent) => blocked.insert(device.address),
                Some(parent) if taken.contains(&device.address) => blocked.insert(parent),
                _ => false,
            };
        }
        let is_free = |device: &&HostPciDevice| device.offered && !blocked.contains(&device.address);
        Some(Self { host: known, free: known.devices.iter().filter(is_free).collect(), room })
    }

    /// The free devices that a flavor can request.
    fn of_flavors(&self) -> impl Iterator<Item = &'a HostPciDevice> {
        let is_for_flavors = |device: &&'a HostPciDevice| !device.remote_managed && device.kind != PciDeviceType::Vdpa;
        self.free.iter().copied().filter(is_for_flavors)
    }

    /// The number of free devices that a flavor can request.
    pub fn count(&self) -> usize {
        self.of_flavors().count()
    }

    /// The number of free devices that a flavor can request, on each NUMA cell.
    pub fn on_cells(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for cell in self.of_flavors().filter_map(|device| device.cell) {
            *counts.entry(cell).or_default() += 1;
        }
        counts
    }

    /// The devices for these requests, in their order. `cells`: the cells of the guest's NUMA nodes; empty for a guest
    /// without nodes.
    ///
    /// # Errors
    /// The request that cannot be met, with the numbers.
    pub fn assign(&self, requests: &[PciRequest], cells: &[u32]) -> Result<Vec<HeldPciDevice>, String> {
        let sockets = self.sockets_of(cells);
        let candidates: Vec<Vec<&HostPciDevice>> =
            requests.iter().map(|request| self.candidates(request, cells, &sockets)).collect();
        // The request with the least choice comes first, so that others do not take its devices.
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|at| candidates[*at].len());
        let mut room = self.room.clone();
        let mut taken: BTreeSet<PciAddress> = BTreeSet::new();
        let mut parents: BTreeSet<PciAddress> = BTreeSet::new();
        let mut chosen: Vec<Vec<HeldPciDevice>> = vec![Vec::new(); requests.len()];
        for at in order {
            let request = &requests[at];
            for device in &candidates[at] {
                if chosen[at].len() == request.count as usize {
                    break;
                }
                let clashes = taken.contains(&device.address)
                    || parents.contains(&device.address)
                    || device.parent.is_some_and(|parent| taken.contains(&parent));
                let left = device.provider.map(|provider| room.entry(provider).or_default());
                if clashes || left.as_ref().is_some_and(|left| **left == 0) {
                    continue;
                }
                if let Some(left) = left {
                    *left -= 1;
                }
                taken.insert(device.address);
                parents.extend(device.parent);
                chosen[at].push(HeldPciDevice {
                    address: device.address,
                    alias: request.alias.clone(),
                    tracked: device.provider.map(|provider| (provider, device.class.clone())),
                });
            }
            let (wants, free) = (request.count, chosen[at].len());
            if free < wants as usize {
                let near = if cells.is_empty() { "" } else { " near the guest's NUMA nodes" };
                return Err(format!("PCI devices: wants {wants} {}, free {free}{near}", request.words()));
            }
        }
        Ok(chosen.into_iter().flatten().collect())
    }

    fn sockets_of(&self, cells: &[u32]) -> BTreeSet<u32> {
        self.host.sockets.iter().filter(|(cell, _)| cells.contains(cell)).map(|(_, socket)| *socket).collect()
    }

    /// The free devices that meet the request, best first. Devices near the guest come first, and then devices whose
    /// cell the host does not report. Among equals, devices that ports could use come last.
    fn candidates(&self, request: &PciRequest, cells: &[u32], sockets: &BTreeSet<u32>) -> Vec<&'a HostPciDevice> {
        let is_near = |device: &HostPciDevice| device.cell.is_some_and(|cell| cells.contains(&cell));
        let on_socket = |device: &HostPciDevice| {
            let socket = self.host.sockets.iter().find(|(cell, _)| Some(*cell) == device.cell);
            socket.is_some_and(|(_, socket)| sockets.contains(socket))
        };
        let is_placed = |device: &HostPciDevice| {
            cells.is_empty()
                || match request.policy {
                    PciNumaPolicy::Required => is_near(device),
                    PciNumaPolicy::Legacy => device.cell.is_none() || is_near(device),
                    PciNumaPolicy::Preferred => true,
                    PciNumaPolicy::Socket => on_socket(device),
                }
        };
        let mut all: Vec<&HostPciDevice> =
            self.free.iter().copied().filter(|device| request.admits(device) && is_placed(device)).collect();
        all.sort_by_key(|device| {
            (Reverse(is_near(device)), device.cell.is_some(), device.network.is_some(), device.address)
        });
        all
    }
}
