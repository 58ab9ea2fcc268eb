//! PCI devices: hosts report them, and guests get some of them.
//!
//! The ledger assigns free devices in the append that records the claim. So two guests never get the same device. With
//! `[pci] report_in_placement` the same append allocates the devices from their providers.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::{ConsumerId, PortId, ProviderId};
use chronova_events::ledger::{
    Allocation, AllocationsReplaced, Claimed, HeldPciDevice, HostPciDevice, HostPciReplaced, Inventory,
    InventoryReplaced, Ledger, LedgerEvent, PciDevicesClaimed, ProviderCreated, ProviderDeleted, ResourceClassCreated,
    TraitCreated, TraitsReplaced,
};
use chronova_events::pci::PciAddress;

use super::amounts::{allocations_of, amounts_of};
use super::commands::{GuestClaim, ReportedPci};
use super::decision::{LedgerDecision, LedgerReject};
use crate::pci::alias::PciRequest;
use crate::pci::assign::FreePci;
use crate::pci::host::{provider_name, root_of};

/// The free devices of a host, without those that other guests in the same command get.
pub(super) fn free<'a>(state: &'a Ledger, host: ProviderId, others: &[PciDevicesClaimed]) -> Option<FreePci<'a>> {
    let beside = others.iter().filter(|other| other.provider == host).flat_map(|other| &other.devices);
    FreePci::of(state, host, beside)
}

/// The devices that a guest gets. `cells`: the host's cells on which the guest's NUMA nodes are.
pub(super) fn claim(
    consumer: &ConsumerId,
    guest: &GuestClaim,
    free: Option<&FreePci<'_>>,
    cells: &[u32],
) -> Result<Option<PciDevicesClaimed>, LedgerReject> {
    if guest.devices.is_empty() {
        return Ok(None);
    }
    let host = guest.host;
    let refused = |reason: String| LedgerReject::NoDevices { host, reason };
    let free = free.ok_or_else(|| refused("the host offers no PCI devices".to_owned()))?;
    let devices = free.assign(&guest.devices, cells).map_err(refused)?;
    Ok(Some(PciDevicesClaimed { consumer: consumer.clone(), provider: host, devices }))
}

/// One more device, for a port of a server that has its host already. It is near the guest's NUMA nodes, as the port's
/// policy says.
pub(super) fn claim_for_port(
    state: &Ledger,
    server: ConsumerId,
    host: ProviderId,
    request: &PciRequest,
) -> LedgerDecision {
    let refused = |reason: &str| LedgerReject::NoDevices { host, reason: reason.to_owned() };
    let mut devices = match state.pci_claims.of(&server) {
        None => Vec::new(),
        Some((on, held)) if on == host => held.to_vec(),
        Some(_) => return Err(refused("the server has devices of another host")),
    };
    if devices.iter().any(|held| held.alias == request.alias) {
        return Ok(vec![]);
    }
    let has_host = state
        .consumers
        .get(&server)
        .is_some_and(|known| known.claim.allocations.iter().any(|held| held.provider == host));
    if !has_host {
        return Err(refused("the server has no allocation on the host"));
    }
    let free = free(state, host, &[]).ok_or_else(|| refused("the host offers no PCI devices"))?;
    let fitting = state.fitting(&server).filter(|fitting| fitting.host == host);
    let near: Vec<u32> = fitting.iter().flat_map(|fitting| fitting.cells.iter()).map(|cell| cell.cell).collect();
    devices.extend(free.assign(std::slice::from_ref(request), &near).map_err(|reason| refused(&reason))?);
    Ok(with_these(state, server, host, devices))
}

pub(super) fn release_of_port(state: &Ledger, server: ConsumerId, port: PortId) -> Vec<LedgerEvent> {
    let Some((host, held)) = state.pci_claims.of(&server) else { return vec![] };
    let left: Vec<HeldPciDevice> = held.iter().filter(|device| device.port() != Some(port)).cloned().collect();
    if left.len() == held.len() {
        return vec![];
    }
    with_these(state, server, host, left)
}

/// From now on, the server has these devices and their allocations.
fn with_these(state: &Ledger, server: ConsumerId, host: ProviderId, devices: Vec<HeldPciDevice>) -> Vec<LedgerEvent> {
    let mut events = Vec::new();
    if let Some(known) = state.consumers.get(&server) {
        let bare = Claimed { allocations: without_devices(state, &known.claim), ..known.claim.clone() };
        let claim = with_devices(bare, &devices);
        // `with_devices` sorts, so only a difference in amounts is a change.
        if amounts_of(&claim.allocations) != amounts_of(&known.claim.allocations) {
            events.push(AllocationsReplaced { claims: vec![claim], released: vec![] }.into());
        }
    }
    events.push(PciDevicesClaimed { consumer: server, provider: host, devices }.into());
    events
}

/// The event that moves the devices of `from` to `to`. `to` loses its own devices, even if `from` has none. `None` if
/// neither `from` nor `to` has devices.
pub(super) fn handed_over(state: &Ledger, from: &ConsumerId, to: ConsumerId) -> Option<LedgerEvent> {
    let theirs = state.pci_claims.of(from).map(|(provider, devices)| (provider, devices.to_vec()));
    let none = || state.pci_claims.of(&to).map(|(provider, _)| (provider, Vec::new()));
    let (provider, devices) = theirs.or_else(none)?;
    Some(PciDevicesClaimed { consumer: to, provider, devices }.into())
}

/// The claim with the allocations of these devices.
pub(super) fn with_devices(claim: Claimed, devices: &[HeldPciDevice]) -> Claimed {
    let mut amounts = amounts_of(&claim.allocations);
    for (provider, class) in devices.iter().filter_map(|device| device.tracked.as_ref()) {
        *amounts.entry(*provider).or_default().entry(class.clone()).or_default() += 1;
    }
    Claimed { allocations: allocations_of(amounts), ..claim }
}

/// The consumer's allocations, less those of its devices.
pub(super) fn without_devices(state: &Ledger, claim: &Claimed) -> Vec<Allocation> {
    let devices = state.pci_claims.of(&claim.consumer).map(|(_, devices)| devices.as_slice()).unwrap_or_default();
    if devices.iter().all(|device| device.tracked.is_none()) {
        return claim.allocations.clone();
    }
    let mut amounts = amounts_of(&claim.allocations);
    for (provider, class) in devices.iter().filter_map(|device| device.tracked.as_ref()) {
        if let Some(amount) = amounts.get_mut(provider).and_then(|of| of.get_mut(class)) {
            *amount = amount.saturating_sub(1);
        }
    }
    allocations_of(amounts)
}

// ----------------------------------------------------------------------------------------------- the report of a host

/// Records the devices of a host, and their providers. The events follow those that create the host's own provider.
pub(super) fn reported(state: &Ledger, host: ProviderId, name: &str, report: ReportedPci) -> LedgerDecision {
    let Some(mut found) = report.devices else { return Ok(vec![]) };
    let known = state.pci.get(&host);
    let was_tracked = known.is_some_and(|known| known.devices.iter().any(|device| device.provider.is_some()));
    if was_tracked && !report.tracked {
        return Err(LedgerReject::DevicesStayReported(name.to_owned()));
    }
    keep_held(state, host, &mut found)?;
    // A client of Placement, or the failed removal of a host, may have removed a card's provider.
    let mut tracked = found.devices.iter().filter_map(|device| Some((device.provider?, &device.class)));
    let is_intact =
        tracked.all(|(id, class)| state.providers.get(&id).is_some_and(|known| known.inventories.contains_key(class)));
    if is_intact && known.map_or(found.devices.is_empty(), |known| **known == found) {
        return Ok(vec![]);
    }
    if !was_tracked && !report.tracked {
        return Ok(vec![found.into()]);
    }
    let mut change = PciChange { scratch: state.clone(), events: Vec::new() };
    let cards = cards(name, &found.devices);
    for card in cards.values() {
        change.widen(host, card)?;
    }
    change.move_allocations(host, &found);
    let before: BTreeMap<ProviderId, String> = known
        .into_iter()
        .flat_map(|known| &known.devices)
        .filter_map(|device| Some((device.provider?, device.class.clone())))
        .collect();
    for (provider, class) in before {
        change.narrow(provider, &class, cards.get(&provider));
    }
    change.record(found);
    Ok(change.events)
}

/// Adds the devices that guests still have although the host no longer reports them. No other guest gets these devices.
fn keep_held(state: &Ledger, host: ProviderId, found: &mut HostPciReplaced) -> Result<(), LedgerReject> {
    let Some(known) = state.pci.get(&host) else { return Ok(()) };
    let held: BTreeSet<PciAddress> =
        state.pci_claims.on(host).flat_map(|(_, devices)| devices).map(|device| device.address).collect();
    let gone = |device: &&HostPciDevice| held.contains(&device.address) && found.device(device.address).is_none();
    // All devices of a card have the same class.
    let of_card = |device: &HostPciDevice| {
        found.devices.iter().find(|other| other.provider.is_some() && other.provider == device.provider)
    };
    let kept: Vec<HostPciDevice> = (known.devices.iter().filter(gone))
        .map(|device| {
            let card = of_card(device).unwrap_or(device);
            let (class, traits) = (card.class.clone(), card.traits.clone());
            HostPciDevice { offered: false, class, traits, ..device.clone() }
        })
        .collect();
    for device in &kept {
        let same_card =
            |other: &&HostPciDevice| other.parent == Some(device.address) || device.parent == Some(other.address);
        if let Some(offered) = found.devices.iter().find(same_card).filter(|other| other.provider.is_some()) {
            return Err(LedgerReject::DependentDevice { offered: offered.address, held: device.address });
        }
    }
    found.devices.extend(kept);
    found.devices.sort_by_key(|device| device.address);
    Ok(())
}

/// The devices that share a provider.
struct PciCard {
    provider: ProviderId,
    name: String,
    class: String,
    traits: Vec<String>,
    count: u64,
}

fn cards(hostname: &str, devices: &[HostPciDevice]) -> BTreeMap<ProviderId, PciCard> {
    let mut cards = BTreeMap::new();
    for device in devices {
        let Some(provider) = device.provider else { continue };
        let new = || PciCard {
            provider,
            name: provider_name(hostname, root_of(device)),
            class: device.class.clone(),
            traits: device.traits.clone(),
            count: 0,
        };
        cards.entry(provider).or_insert_with(new).count += 1;
    }
    cards
}

/// The events that a report has led to so far, and the ledger after these events.
struct PciChange {
    scratch: Ledger,
    events: Vec<LedgerEvent>,
}

impl PciChange {
    fn record(&mut self, event: impl Into<LedgerEvent>) {
        let event = event.into();
        self.scratch.evolve(&event, Timestamp(0));
        self.events.push(event);
    }

    /// Ensures that the provider exists and has the class. Its former classes stay. Keeps the reserved amount that a
    /// client of Placement set, up to the new total.
    fn widen(&mut self, host: ProviderId, card: &PciCard) -> Result<(), LedgerReject> {
        let provider = card.provider;
        if !self.scratch.knows_class(&card.class) {
            self.record(ResourceClassCreated { name: card.class.clone() });
        }
        for name in card.traits.iter().filter(|name| !self.scratch.knows_trait(name)).cloned().collect::<Vec<_>>() {
            self.record(TraitCreated { name });
        }
        if !self.scratch.providers.contains_key(&provider) {
            if self.scratch.named(&card.name).is_some() {
                return Err(LedgerReject::NameTaken(card.name.clone()));
            }
            self.record(ProviderCreated { provider, name: card.name.clone(), parent: Some(host) });
        }
        let Some(known) = self.scratch.providers.get(&provider) else { return Ok(()) };
        let had = known.inventories.get(&card.class).map(|line| line.inventory.clone());
        let new = Inventory {
            class: card.class.clone(),
            total: card.count,
            reserved: had.as_ref().map_or(0, |had| had.reserved.min(card.count)),
            min_unit: 1,
            max_unit: card.count,
            step_size: 1,
            allocation_ratio: 1.0,
        };
        // `provider.yaml` may add traits to a device's provider.
        let mut traits = super::provider_config::traits_of(&self.scratch, host, provider);
        traits.extend(card.traits.iter().cloned());
        let has_traits = known.traits == traits;
        if had.as_ref() != Some(&new) {
            let others = known.inventories.values().map(|line| line.inventory.clone());
            let mut inventories: Vec<Inventory> = others.filter(|line| line.class != new.class).collect();
            inventories.push(new);
            inventories.sort_by(|a, b| a.class.cmp(&b.class));
            self.record(InventoryReplaced { provider, inventories });
        }
        if !has_traits {
            self.record(TraitsReplaced { provider, traits: traits.into_iter().collect() });
        }
        Ok(())
    }

    /// Moves the allocations of guests to the providers and classes that their devices have now.
    fn move_allocations(&mut self, host: ProviderId, found: &HostPciReplaced) {
        let holders: Vec<(ConsumerId, Vec<HeldPciDevice>)> =
            self.scratch.pci_claims.on(host).map(|(consumer, devices)| (consumer.clone(), devices.to_vec())).collect();
        for (consumer, held) in holders {
            let now = |device: &HeldPciDevice| {
                let known = found.device(device.address)?;
                Some((known.provider?, known.class.clone()))
            };
            let devices: Vec<HeldPciDevice> =
                held.iter().map(|device| HeldPciDevice { tracked: now(device), ..device.clone() }).collect();
            let Some(known) = self.scratch.consumers.get(&consumer).filter(|_| devices != held) else { continue };
            let bare = Claimed { allocations: without_devices(&self.scratch, &known.claim), ..known.claim.clone() };
            let claims = vec![with_devices(bare, &devices)];
            self.record(AllocationsReplaced { claims, released: vec![] });
            self.record(PciDevicesClaimed { consumer, provider: host, devices });
        }
    }

    /// Removes the provider's former class, or the provider itself if its card is gone. Neither is removed while
    /// amounts of it are allocated.
    fn narrow(&mut self, provider: ProviderId, class: &str, card: Option<&PciCard>) {
        let Some(known) = self.scratch.providers.get(&provider) else { return };
        let used = known.inventories.get(class).is_some_and(|line| line.used > 0);
        match card {
            Some(card) if card.class != class && !used => {
                let inventories = known.inventories.values().map(|line| line.inventory.clone());
                let inventories = inventories.filter(|line| line.class != class).collect();
                self.record(InventoryReplaced { provider, inventories });
            }
            None if known.inventories.values().all(|line| line.used == 0) => self.record(ProviderDeleted { provider }),
            _ => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
