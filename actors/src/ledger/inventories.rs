//! The inventories of providers.

use std::collections::BTreeMap;

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Inventory, InventoryReplaced, Ledger, Provider};

use super::commands::Reserve;
use super::decision::{LedgerDecision, LedgerReject, provider};

pub(super) fn set(
    state: &Ledger,
    id: ProviderId,
    generation: Option<u64>,
    inventories: Vec<Inventory>,
    reserve: Reserve,
) -> LedgerDecision {
    let known = provider(state, id, generation)?;
    for inventory in &inventories {
        check_reserved(id, inventory, reserve)?;
    }
    check_classes(state, &inventories)?;
    replace(known, inventories)
}

pub(super) fn add(state: &Ledger, id: ProviderId, inventory: Inventory, reserve: Reserve) -> LedgerDecision {
    let known = provider(state, id, None)?;
    check_reserved(id, &inventory, reserve)?;
    check_classes(state, std::slice::from_ref(&inventory))?;
    if known.inventories.contains_key(&inventory.class) {
        return Err(LedgerReject::InventoryExists { provider: id, class: inventory.class });
    }
    let mut all = current(known);
    all.insert(inventory.class.clone(), inventory);
    replace(known, all.into_values())
}

pub(super) fn update(
    state: &Ledger,
    id: ProviderId,
    generation: u64,
    inventory: Inventory,
    reserve: Reserve,
) -> LedgerDecision {
    let known = provider(state, id, Some(generation))?;
    check_reserved(id, &inventory, reserve)?;
    check_classes(state, std::slice::from_ref(&inventory))?;
    if !known.inventories.contains_key(&inventory.class) {
        return Err(LedgerReject::NoInventory { class: inventory.class });
    }
    let mut all = current(known);
    all.insert(inventory.class.clone(), inventory);
    replace(known, all.into_values())
}

pub(super) fn delete(state: &Ledger, id: ProviderId, class: &str) -> LedgerDecision {
    let known = provider(state, id, None)?;
    if !state.knows_class(class) {
        return Err(LedgerReject::NoSuchClass(class.to_owned()));
    }
    let mut all = current(known);
    if all.remove(class).is_none() {
        return Err(LedgerReject::NoInventory { class: class.to_owned() });
    }
    replace(known, all.into_values())
}

pub(super) fn current(provider: &Provider) -> BTreeMap<String, Inventory> {
    provider.inventories.iter().map(|(class, line)| (class.clone(), line.inventory.clone())).collect()
}

pub(super) fn check_classes(state: &Ledger, inventories: &[Inventory]) -> Result<(), LedgerReject> {
    match inventories.iter().find(|inventory| !state.knows_class(&inventory.class)) {
        Some(unknown) => Err(LedgerReject::NoSuchClass(unknown.class.clone())),
        None => Ok(()),
    }
}

/// The event that replaces the provider's inventories with `inventories`. A class in use cannot be removed. It may
/// shrink below its use, but then nothing more of it can be allocated.
pub(super) fn replace(known: &Provider, inventories: impl IntoIterator<Item = Inventory>) -> LedgerDecision {
    let new: BTreeMap<String, Inventory> =
        inventories.into_iter().map(|inventory| (inventory.class.clone(), inventory)).collect();
    let gone = known.inventories.iter().filter(|(class, line)| line.used > 0 && !new.contains_key(*class));
    let mut classes: Vec<&str> = gone.map(|(class, _)| class.as_str()).collect();
    if !classes.is_empty() {
        // Placement orders classes by their numeric ids.
        classes.sort_by_key(|class| super::names::rank(class));
        return Err(LedgerReject::InventoryInUse { provider: known.id, classes: classes.join(", ") });
    }
    Ok(vec![InventoryReplaced { provider: known.id, inventories: new.into_values().collect() }.into()])
}

fn check_reserved(id: ProviderId, inventory: &Inventory, reserve: Reserve) -> Result<(), LedgerReject> {
    let too_much = match reserve {
        Reserve::All => inventory.reserved > inventory.total,
        // This also refuses a capacity that the ratio rounds to zero.
        Reserve::Less => inventory.capacity() == 0,
    };
    if too_much {
        return Err(LedgerReject::ReservedTooMuch { provider: id, class: inventory.class.clone(), reserve });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ledger::LedgerCommand::{self, *};
    use crate::ledger::decide::decide;
    use crate::ledger::decide::tests::{claim, given, host};

    fn id() -> ProviderId {
        ProviderId(uuid::Uuid::from_u128(1))
    }

    fn inventory(class: &str, total: u64, reserved: u64) -> Inventory {
        Inventory {
            class: class.into(),
            total,
            reserved,
            min_unit: 1,
            max_unit: 100,
            step_size: 1,
            allocation_ratio: 1.0,
        }
    }

    fn set(generation: u64, inventories: Vec<Inventory>) -> LedgerCommand {
        SetInventories { provider: id(), generation: Some(generation), inventories, reserve: Reserve::Less }
    }

    #[test]
    fn a_class_in_use_cannot_be_removed_but_may_shrink() {
        let state = given([host(4), claim("a", 4)]);
        let generation = state.providers[&id()].generation;
        let gone = decide(&state, set(generation, vec![inventory("DISK_GB", 5, 0)]));
        assert_eq!(gone.unwrap_err(), LedgerReject::InventoryInUse { provider: id(), classes: "VCPU".into() });
        assert!(decide(&state, set(generation, vec![inventory("VCPU", 1, 0)])).is_ok());
        assert!(decide(&state, DeleteInventory { provider: id(), class: "VCPU".into() }).is_err());
    }

    #[test]
    fn all_of_an_inventory_may_be_reserved_only_from_1_26_on() {
        let state = given([host(4)]);
        let add = |reserve| AddInventory { provider: id(), inventory: inventory("DISK_GB", 5, 5), reserve };
        assert!(matches!(decide(&state, add(Reserve::Less)), Err(LedgerReject::ReservedTooMuch { .. })));
        assert!(decide(&state, add(Reserve::All)).is_ok());
    }

    #[test]
    fn generations_and_classes_are_checked() {
        let state = given([host(4)]);
        assert!(matches!(decide(&state, set(9, vec![])), Err(LedgerReject::ProviderChanged { .. })));
        let unknown = decide(&state, set(1, vec![inventory("CUSTOM_GOLD", 1, 0)]));
        assert_eq!(unknown.unwrap_err(), LedgerReject::NoSuchClass("CUSTOM_GOLD".into()));
        let again = AddInventory { provider: id(), inventory: inventory("VCPU", 1, 0), reserve: Reserve::Less };
        assert!(matches!(decide(&state, again), Err(LedgerReject::InventoryExists { .. })));
        let absent = UpdateInventory {
            provider: id(),
            generation: 1,
            inventory: inventory("DISK_GB", 1, 0),
            reserve: Reserve::Less,
        };
        assert!(matches!(decide(&state, absent), Err(LedgerReject::NoInventory { .. })));
    }
}
