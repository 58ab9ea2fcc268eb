//! The providers of physical devices that have mediated devices, for example of GPUs with virtual GPUs.
//!
//! Traits of these providers are the operator's: they steer flavors to GPUs. A report never changes them.

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{
    Inventory, InventoryLine, InventoryReplaced, Ledger, LedgerEvent, Provider, ProviderCreated, ProviderDeleted,
    ResourceClassCreated,
};

use super::decision::{LedgerDecision, LedgerReject};
use crate::mdev::{MdevInventory, VGPU, parent_in, provider_name, provider_of, provider_prefix};

/// Records the inventories of a host's physical devices. The events follow those that create the host's own provider.
pub(super) fn reported(
    state: &Ledger,
    host: ProviderId,
    hostname: &str,
    found: Option<&[MdevInventory]>,
) -> LedgerDecision {
    let Some(found) = found else { return Ok(vec![]) };
    let mut events: Vec<LedgerEvent> = Vec::new();
    let mut classes: Vec<&str> = Vec::new();
    for line in found {
        let name = provider_name(hostname, line.parent);
        let known = known_as(state, host, line, &name)?;
        if known.is_none() && line.total == 0 {
            continue;
        }
        if !state.knows_class(&line.class) && !classes.contains(&line.class.as_str()) {
            events.push(ResourceClassCreated { name: line.class.clone() }.into());
            classes.push(&line.class);
        }
        let provider = known.map_or_else(|| provider_of(host, line.parent), |known| known.id);
        if known.is_none() {
            events.push(ProviderCreated { provider, name, parent: Some(host) }.into());
        }
        events.extend(replaced(provider, known, Some(line)));
    }
    let is_reported = |known: &&Provider| found.iter().any(|line| parent_in(&known.name) == Some(line.parent));
    let prefix = provider_prefix(hostname);
    let own = state.named_from(&prefix).filter(|known| known.parent == Some(host));
    for gone in own.filter(|known| parent_in(&known.name).is_some() && !is_reported(known)) {
        match gone.inventories.values().all(|line| line.used == 0) {
            true => events.push(ProviderDeleted { provider: gone.id }.into()),
            false => events.extend(replaced(gone.id, Some(gone), None)),
        }
    }
    Ok(events)
}

/// Finds the provider that the device already has: by its name, or else by its derived id. The name comes first,
/// because Nova may have created the provider with another id before the host was adopted.
fn known_as<'a>(
    state: &'a Ledger,
    host: ProviderId,
    line: &MdevInventory,
    name: &str,
) -> Result<Option<&'a Provider>, LedgerReject> {
    let Some(named) = state.named(name) else {
        return Ok(state.providers.get(&provider_of(host, line.parent)).map(|known| &**known));
    };
    let known = state.providers.get(&named).map(|known| &**known);
    match known.is_none_or(|known| known.parent == Some(host)) {
        true => Ok(known),
        false => Err(LedgerReject::NameTaken(name.to_owned())),
    }
}

/// The new inventories of a device's provider, if they change. If the device is gone or no longer offers the class, the
/// inventory shrinks to the amount in use. Keeps the reserved amount that a client of Placement set, up to the new
/// total.
fn replaced(provider: ProviderId, known: Option<&Provider>, line: Option<&MdevInventory>) -> Option<LedgerEvent> {
    let before: Vec<Inventory> =
        known.into_iter().flat_map(|known| known.inventories.values()).map(inventory).collect();
    let used = |class: &str| known.and_then(|known| known.inventories.get(class)).map_or(0, |line| line.used);
    let mut inventories: Vec<Inventory> = Vec::new();
    for old in before.iter().filter(|old| line.is_none_or(|line| line.class != old.class)) {
        // The other classes of a device that is still there stay, because `provider.yaml` or a client of Placement may
        // have added them.
        let is_gone = line.is_none() || old.class == VGPU;
        match used(&old.class) {
            _ if !is_gone => inventories.push(old.clone()),
            0 => {}
            total => inventories.push(Inventory { total, max_unit: total, reserved: 0, ..old.clone() }),
        }
    }
    if let Some(line) = line {
        let (had, used) = (before.iter().find(|old| old.class == line.class), used(&line.class));
        let new = |total: u64, reserved: u64| Inventory {
            class: line.class.clone(),
            total,
            reserved,
            min_unit: 1,
            max_unit: total,
            step_size: 1,
            allocation_ratio: 1.0,
        };
        match line.total {
            0 if used == 0 => {}
            0 => inventories.push(new(used, 0)),
            total => inventories.push(new(total, had.map_or(0, |had| had.reserved.min(total)))),
        }
    }
    inventories.sort_by(|a, b| a.class.cmp(&b.class));
    (inventories != before).then(|| InventoryReplaced { provider, inventories }.into())
}

fn inventory(line: &InventoryLine) -> Inventory {
    line.inventory.clone()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ledger::LedgerCommand::{self, ClaimAll, SetTraits};
    use crate::ledger::decide::decide;
    use crate::ledger::decide::tests::{given, host};
    use crate::ledger::{ReportedPci, ServerClaim};
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::ConsumerId;
    use chronova_events::ledger::{Allocation, Claimed};
    use chronova_events::pci::PciAddress;

    fn id() -> ProviderId {
        ProviderId(uuid::Uuid::from_u128(1))
    }

    fn gpu() -> PciAddress {
        "0000:85:00.0".parse().unwrap()
    }

    fn report(lines: &[(&str, u64)]) -> LedgerCommand {
        let line =
            |(class, total): &(&str, u64)| MdevInventory { parent: gpu(), class: (*class).to_owned(), total: *total };
        let LedgerCommand::Report { provider, name, inventories, traits, cells, .. } = host(8) else { unreachable!() };
        let pci = ReportedPci { mdevs: Some(lines.iter().map(line).collect()), ..ReportedPci::default() };
        LedgerCommand::Report { provider, name, inventories, traits, cells, pci }
    }

    fn claim(consumer: &str, class: &str, amount: u64) -> LedgerCommand {
        let take = |provider, class: &str, amount| Allocation { provider, resources: vec![(class.to_owned(), amount)] };
        let mut allocations = vec![take(id(), "VCPU", 1), take(provider_of(id(), gpu()), class, amount)];
        allocations.sort_by_key(|allocation| allocation.provider);
        let claim = Claimed {
            consumer: ConsumerId::new(consumer),
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            allocations,
        };
        ClaimAll { claims: vec![ServerClaim { claim, group: None, guest: None }] }
    }

    /// The inventories of the GPU's provider: class, total, reserved and used. `None` without a provider.
    fn lines(state: &Ledger) -> Option<Vec<(String, u64, u64, u64)>> {
        let provider = state.providers.get(&provider_of(id(), gpu()))?;
        let line = |line: &InventoryLine| {
            let inventory = &line.inventory;
            (inventory.class.clone(), inventory.total, inventory.reserved, line.used)
        };
        Some(provider.inventories.values().map(line).collect())
    }

    fn of(class: &str, total: u64, reserved: u64, used: u64) -> (String, u64, u64, u64) {
        (class.to_owned(), total, reserved, used)
    }

    #[test]
    fn a_gpu_is_a_provider_below_its_host() {
        let state = given([report(&[("VGPU", 4)])]);
        let provider = &state.providers[&provider_of(id(), gpu())];
        assert_eq!((provider.name.as_str(), provider.parent), ("h1_pci_0000_85_00_0", Some(id())));
        assert_eq!(lines(&state), Some(vec![of("VGPU", 4, 0, 0)]));
        assert_eq!(decide(&state, report(&[("VGPU", 4)])), Ok(vec![]), "an unchanged report records nothing");
        let custom = given([report(&[("CUSTOM_NIC", 4)])]);
        assert!(custom.knows_class("CUSTOM_NIC"));
        assert_eq!(lines(&given([report(&[("VGPU", 0)])])), None, "a GPU of another type");
        assert_eq!(lines(&given([report(&[("VGPU", 4)]), report(&[])])), None, "the GPU is gone");
    }

    #[test]
    fn a_claim_takes_devices_of_one_gpu() {
        let state = given([report(&[("VGPU", 4)]), claim("a", "VGPU", 3)]);
        assert_eq!(lines(&state), Some(vec![of("VGPU", 4, 0, 3)]));
        assert!(matches!(decide(&state, claim("b", "VGPU", 2)), Err(LedgerReject::DoesNotFit { .. })));
        assert!(decide(&state, claim("b", "VGPU", 1)).is_ok());
    }

    /// Nova recommends fresh hosts for another type, because the old devices stay.
    #[test]
    fn nothing_more_is_allocated_of_a_type_that_is_gone() {
        let used = || [report(&[("VGPU", 4)]), claim("a", "VGPU", 1)];
        for now in [report(&[]), report(&[("VGPU", 0)])] {
            let state = given(used().into_iter().chain([now.clone()]));
            assert_eq!(lines(&state), Some(vec![of("VGPU", 1, 0, 1)]));
            assert!(matches!(decide(&state, claim("b", "VGPU", 1)), Err(LedgerReject::DoesNotFit { .. })));
            assert_eq!(decide(&state, now), Ok(vec![]), "an unchanged report records nothing");
        }
        let other = given(used().into_iter().chain([report(&[("CUSTOM_NIC", 2)])]));
        assert_eq!(lines(&other), Some(vec![of("CUSTOM_NIC", 2, 0, 0), of("VGPU", 1, 0, 1)]));
        let back = given(used().into_iter().chain([report(&[("VGPU", 0)]), report(&[("VGPU", 4)])]));
        assert!(decide(&back, claim("b", "VGPU", 1)).is_ok());
    }

    #[test]
    fn traits_of_a_gpu_stay() {
        let provider = provider_of(id(), gpu());
        let name = "CUSTOM_NVIDIA_11".to_owned();
        let traits = SetTraits { provider, generation: None, traits: vec![name.clone()] };
        let create = LedgerCommand::CreateTrait { name: name.clone() };
        let state = given([report(&[("VGPU", 4)]), create, traits, report(&[("VGPU", 2)])]);
        assert!(state.providers[&provider].traits.contains(&name));
        assert_eq!(lines(&state), Some(vec![of("VGPU", 2, 0, 0)]));
    }

    /// Nova chose the id of the provider.
    #[test]
    fn a_provider_that_nova_created_stays() {
        let nova = ProviderId(uuid::Uuid::from_u128(77));
        let create = |parent| {
            let name = "h1_pci_0000_85_00_0".to_owned();
            LedgerCommand::CreateProvider { provider: nova, name, parent }
        };
        let state = given([host(8), create(Some(id())), report(&[("VGPU", 4)])]);
        assert_eq!(state.providers[&nova].inventories["VGPU"].inventory.total, 4);
        assert_eq!(lines(&state), None);
        let mut foreign = given([host(8)]);
        for event in decide(&foreign, create(None)).unwrap() {
            foreign.evolve(&event, Timestamp(1));
        }
        assert!(matches!(decide(&foreign, report(&[("VGPU", 4)])), Err(LedgerReject::NameTaken(_))));
    }
}
