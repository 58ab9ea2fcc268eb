//! The traits, aggregates and ratios that Chronova sets on the providers of its hosts. All commands are idempotent.
//! They keep the traits and aggregates that clients of Placement have set. An imposed ratio replaces any other ratio.

use std::collections::BTreeSet;
use std::sync::Arc;

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{
    AggregatesReplaced, Inventory, InventoryReplaced, Ledger, LedgerEvent, Provider, TraitsReplaced,
};
use uuid::Uuid;

/// The provider of a host. `None` if the ledger does not know the host. Then there is nothing to change.
fn known(state: &Ledger, provider: ProviderId) -> Option<&Arc<Provider>> {
    state.providers.get(&provider)
}

fn adjusted<T: Ord + Clone>(had: &BTreeSet<T>, add: Vec<T>, remove: &[T]) -> Option<Vec<T>> {
    let mut has = had.clone();
    has.retain(|one| !remove.contains(one));
    has.extend(add);
    (has != *had).then(|| has.into_iter().collect())
}

pub(super) fn adjust_traits(
    state: &Ledger,
    provider: ProviderId,
    add: Vec<String>,
    remove: &[String],
) -> Vec<LedgerEvent> {
    let changed = known(state, provider).and_then(|known| adjusted(&known.traits, add, remove));
    changed.map(|traits| TraitsReplaced { provider, traits }.into()).into_iter().collect()
}

/// Raises the provider's generation, because Nova sends a generation with such requests.
pub(super) fn adjust_aggregates(
    state: &Ledger,
    provider: ProviderId,
    add: Vec<Uuid>,
    remove: &[Uuid],
) -> Vec<LedgerEvent> {
    let changed = known(state, provider).and_then(|known| adjusted(&known.aggregates, add, remove));
    let Some(aggregates) = changed else { return vec![] };
    let had = state.spellings.get(&provider).into_iter().flat_map(|had| had.iter());
    let kept = had.filter(|(aggregate, _)| aggregates.contains(aggregate));
    let spellings = kept.map(|(aggregate, text)| (*aggregate, text.clone())).collect();
    vec![AggregatesReplaced { provider, aggregates, bumps_generation: true, spellings }.into()]
}

/// Sets the allocation ratios of classes that the provider has.
pub(super) fn impose_ratios(state: &Ledger, provider: ProviderId, ratios: &[(String, f64)]) -> Vec<LedgerEvent> {
    let Some(known) = known(state, provider) else { return vec![] };
    let imposed = |inventory: &Inventory| {
        let ratio = ratios.iter().find(|(class, _)| *class == inventory.class).map(|(_, ratio)| *ratio);
        Inventory { allocation_ratio: ratio.unwrap_or(inventory.allocation_ratio), ..inventory.clone() }
    };
    let had: Vec<&Inventory> = known.inventories.values().map(|line| &line.inventory).collect();
    let inventories: Vec<Inventory> = had.iter().map(|inventory| imposed(inventory)).collect();
    match had.iter().zip(&inventories).all(|(had, has)| *had == has) {
        true => vec![],
        false => vec![InventoryReplaced { provider, inventories }.into()],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::ledger::LedgerCommand::{self, *};
    use crate::ledger::decide::decide;
    use crate::ledger::decide::tests::{given, host};
    use crate::ledger::{LedgerReject, Reserve};

    fn id() -> ProviderId {
        ProviderId(Uuid::from_u128(1))
    }

    fn traits(add: &[&str], remove: &[&str]) -> LedgerCommand {
        let texts = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        AdjustTraits { provider: id(), add: texts(add), remove: texts(remove) }
    }

    fn aggregates(add: &[u128], remove: &[u128]) -> LedgerCommand {
        let ids = |list: &[u128]| list.iter().map(|one| Uuid::from_u128(*one)).collect();
        AdjustAggregates { provider: id(), add: ids(add), remove: ids(remove) }
    }

    #[test]
    fn entries_of_placements_clients_stay() {
        let theirs = SetTraits { provider: id(), generation: None, traits: vec!["HW_CPU_X86_AVX".into()] };
        let state = given([host(4), theirs, traits(&["COMPUTE_STATUS_DISABLED"], &[])]);
        let has = |state: &Ledger| state.providers[&id()].traits.iter().cloned().collect::<Vec<_>>();
        assert_eq!(has(&state), ["COMPUTE_STATUS_DISABLED", "HW_CPU_X86_AVX"]);
        assert_eq!(decide(&state, traits(&["COMPUTE_STATUS_DISABLED"], &["COMPUTE_NODE"])).unwrap(), vec![]);
        let spellings = BTreeMap::from([(Uuid::from_u128(9), "{9}".to_owned())]);
        let (provider, generation) = (id(), None);
        let theirs =
            SetAggregates { provider, generation, aggregates: vec![Uuid::from_u128(9)], spellings: spellings.clone() };
        let state = given([host(4), theirs, aggregates(&[1, 2], &[]), aggregates(&[], &[1])]);
        assert_eq!(*state.spellings[&id()], spellings, "the spelling of another client's aggregate must stay");
        let has: Vec<u128> = state.providers[&id()].aggregates.iter().map(Uuid::as_u128).collect();
        assert_eq!(has, [2, 9]);
        assert_eq!(decide(&state, aggregates(&[2], &[1])).unwrap(), vec![]);
    }

    #[test]
    fn unknown_hosts_are_not_changed() {
        let empty = Ledger::default();
        for command in [traits(&["COMPUTE_NODE"], &[]), aggregates(&[1], &[])] {
            assert_eq!(decide(&empty, command).unwrap(), vec![]);
        }
    }

    #[test]
    fn only_an_imposed_ratio_replaces_a_ratio_that_was_set() {
        let ratio = |state: &Ledger| state.providers[&id()].inventories["VCPU"].inventory.allocation_ratio;
        let state = given([host(4)]);
        assert!((ratio(&state) - 2.0).abs() < f64::EPSILON, "a new host begins with the initial ratio");
        let mut theirs = state.providers[&id()].inventories["VCPU"].inventory.clone();
        theirs.allocation_ratio = 7.0;
        let set = || -> Result<LedgerCommand, LedgerReject> {
            let (provider, inventory) = (id(), theirs.clone());
            let generation = state.providers[&id()].generation;
            Ok(UpdateInventory { provider, generation, inventory, reserve: Reserve::All })
        };
        let kept = given([host(4), set().unwrap(), host(8)]);
        assert!((ratio(&kept) - 7.0).abs() < f64::EPSILON);
        assert_eq!(kept.providers[&id()].inventories["VCPU"].inventory.total, 8);
        let impose = || ImposeRatios { provider: id(), ratios: vec![("VCPU".into(), 3.0), ("DISK_GB".into(), 1.0)] };
        let imposed = given([host(4), set().unwrap(), impose()]);
        assert!((ratio(&imposed) - 3.0).abs() < f64::EPSILON);
        assert_eq!(decide(&imposed, impose()).unwrap(), vec![]);
    }
}
