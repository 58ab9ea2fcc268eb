//! The allocations of consumers, as clients of the Placement API set them.
//!
//! All consumers of one command change together. Their old allocations are released first, so that amounts can move
//! between them in a full provider.

use std::collections::BTreeMap;

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::ledger::{AllocationsReplaced, Claimed, Ledger, LedgerEvent, Released};

use super::commands::{ConsumerClaim, NewInventories, SeenGeneration};
use super::decision::{LedgerDecision, LedgerReject, provider};
use super::inventories;

/// Amounts by provider and resource class.
type AmountsByProvider<'a> = BTreeMap<(ProviderId, &'a str), u64>;

pub(super) fn allocate(state: &Ledger, claims: Vec<ConsumerClaim>) -> LedgerDecision {
    for claim in &claims {
        check_generation(state, claim)?;
    }
    for held in claims.iter().flat_map(|claim| &claim.allocations) {
        provider(state, held.provider, None)?;
    }
    for (class, _) in claims.iter().flat_map(|claim| &claim.allocations).flat_map(|held| &held.resources) {
        if !state.knows_class(class) {
            return Err(LedgerReject::NoSuchClass(class.clone()));
        }
    }
    check_capacity(state, &claims)?;
    let (takers, givers): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| !claim.allocations.is_empty());
    let released: Vec<ConsumerId> =
        givers.into_iter().map(|giver| giver.consumer).filter(|giver| state.consumers.contains_key(giver)).collect();
    let mut claims: Vec<Claimed> = takers.into_iter().map(|taker| claimed(state, taker)).collect();
    if claims.is_empty() && released.is_empty() {
        return Ok(vec![]);
    }
    if released.is_empty()
        && claims.len() == 1
        && let Some(only) = claims.pop()
    {
        return Ok(vec![only.into()]);
    }
    Ok(vec![AllocationsReplaced { claims, released }.into()])
}

fn claimed(state: &Ledger, claim: ConsumerClaim) -> Claimed {
    let kept = state.consumers.get(&claim.consumer).and_then(|known| known.claim.consumer_type.clone());
    Claimed {
        consumer: claim.consumer,
        project: claim.project,
        user: claim.user,
        consumer_type: claim.consumer_type.or(kept),
        allocations: claim.allocations,
    }
}

pub(super) fn deallocate(state: &Ledger, consumer: ConsumerId) -> LedgerDecision {
    if !state.consumers.contains_key(&consumer) {
        return Err(LedgerReject::HoldsNothing(consumer));
    }
    Ok(vec![Released { consumer }.into()])
}

/// Every provider first gets its new inventories beside its old ones. Then the allocations move, and then the old
/// inventories are removed. So no step allocates more than the capacity.
pub(super) fn reshape(state: &Ledger, new: Vec<NewInventories>, claims: Vec<ConsumerClaim>) -> LedgerDecision {
    let mut scratch = state.clone();
    let mut events = Vec::new();
    let mut record = |scratch: &mut Ledger, decided: Vec<LedgerEvent>| {
        for event in decided {
            scratch.evolve(&event, Timestamp(0));
            events.push(event);
        }
    };
    for part in &new {
        let known = provider(state, part.provider, Some(part.generation))?;
        inventories::check_classes(state, &part.inventories)?;
        if part.inventories.is_empty() {
            continue;
        }
        let mut both = inventories::current(known);
        both.extend(part.inventories.iter().map(|inventory| (inventory.class.clone(), inventory.clone())));
        let widened = inventories::replace(known, both.into_values())?;
        record(&mut scratch, widened);
    }
    let moved = allocate(&scratch, claims)?;
    record(&mut scratch, moved);
    for part in new {
        let known = provider(&scratch, part.provider, None)?;
        let narrowed = inventories::replace(known, part.inventories)?;
        record(&mut scratch, narrowed);
    }
    Ok(events)
}

fn check_generation(state: &Ledger, claim: &ConsumerClaim) -> Result<(), LedgerReject> {
    let SeenGeneration::Said(seen) = claim.generation else { return Ok(()) };
    let actual = state.consumers.get(&claim.consumer).map(|known| known.generation);
    if actual == seen { Ok(()) } else { Err(LedgerReject::ConsumerChanged { actual, seen }) }
}

fn check_capacity(state: &Ledger, claims: &[ConsumerClaim]) -> Result<(), LedgerReject> {
    let held = claims.iter().filter_map(|claim| state.consumers.get(&claim.consumer));
    let returned = sum(held.flat_map(|consumer| &consumer.claim.allocations));
    let wanted = sum(claims.iter().flat_map(|claim| &claim.allocations));
    for one in claims.iter().flat_map(|claim| &claim.allocations) {
        let known = provider(state, one.provider, None)?;
        for (class, amount) in &one.resources {
            let provider = one.provider;
            let class_of = || class.clone();
            let Some(line) = known.inventories.get(class) else {
                return Err(LedgerReject::NothingToAllocate { provider, class: class_of() });
            };
            let units = &line.inventory;
            if *amount < units.min_unit || *amount > units.max_unit || !amount.is_multiple_of(units.step_size.max(1)) {
                return Err(LedgerReject::UnitsViolated { provider, class: class_of() });
            }
            let key = (provider, class.as_str());
            let others = line.used.saturating_sub(returned.get(&key).copied().unwrap_or(0));
            let after = others.saturating_add(wanted.get(&key).copied().unwrap_or(0));
            // A provider whose inventory has shrunk may stay overcommitted, but its usage may not grow.
            if after > units.capacity() && after > line.used {
                return Err(LedgerReject::CapacityExceeded { provider, class: class_of() });
            }
        }
    }
    Ok(())
}

fn sum<'a>(allocations: impl Iterator<Item = &'a chronova_events::ledger::Allocation>) -> AmountsByProvider<'a> {
    let mut amounts = AmountsByProvider::new();
    for allocation in allocations {
        for (class, amount) in &allocation.resources {
            let total = amounts.entry((allocation.provider, class.as_str())).or_default();
            *total = total.saturating_add(*amount);
        }
    }
    amounts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ledger::LedgerCommand::{self, *};
    use crate::ledger::decide::decide;
    use crate::ledger::decide::tests::{given, host};
    use chronova_events::ledger::{Allocation, Inventory};

    fn id(n: u128) -> ProviderId {
        ProviderId(uuid::Uuid::from_u128(n))
    }

    fn wants(consumer: &str, generation: Option<u64>, class: &str, amount: u64) -> ConsumerClaim {
        let allocation = Allocation { provider: id(1), resources: vec![(class.into(), amount)] };
        ConsumerClaim {
            consumer: consumer.into(),
            project: "p".into(),
            user: "u".into(),
            consumer_type: None,
            generation: SeenGeneration::Said(generation),
            allocations: if amount == 0 { vec![] } else { vec![allocation] },
        }
    }

    fn one(claim: ConsumerClaim) -> LedgerCommand {
        Allocate { claims: vec![claim] }
    }

    #[test]
    fn consumers_are_locked_by_their_generation() {
        let state = given([host(4), one(wants("a", None, "VCPU", 2))]);
        let stale = decide(&state, one(wants("a", None, "VCPU", 1))).unwrap_err();
        assert_eq!(stale, LedgerReject::ConsumerChanged { actual: Some(1), seen: None });
        let ahead = decide(&state, one(wants("b", Some(5), "VCPU", 1))).unwrap_err();
        assert_eq!(ahead, LedgerReject::ConsumerChanged { actual: None, seen: Some(5) });
        assert!(decide(&state, one(wants("a", Some(1), "VCPU", 1))).is_ok());
    }

    #[test]
    fn amounts_move_between_consumers_of_a_full_provider() {
        // 4 CPUs at a ratio of 2 give a capacity of 8.
        let full = given([host(4), one(wants("a", None, "VCPU", 4)), one(wants("b", None, "VCPU", 4))]);
        let refused = decide(&full, one(wants("c", None, "VCPU", 4))).unwrap_err();
        assert!(matches!(refused, LedgerReject::CapacityExceeded { .. }));
        let claims = vec![wants("a", Some(1), "VCPU", 0), wants("c", None, "VCPU", 4)];
        let events = decide(&full, Allocate { claims }).unwrap();
        let [LedgerEvent::AllocationsReplaced(replaced)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((replaced.claims.len(), replaced.released.len()), (1, 1));
        let mut after = full.clone();
        after.evolve(&events[0], Timestamp(1));
        let (before, after) = (&full.providers[&id(1)], &after.providers[&id(1)]);
        assert_eq!((after.inventories["VCPU"].used, after.generation), (8, before.generation + 1));
    }

    #[test]
    fn two_claims_in_one_command_count_together() {
        let claims = vec![wants("a", None, "VCPU", 4), wants("b", None, "VCPU", 4), wants("c", None, "VCPU", 4)];
        let refused = decide(&given([host(4)]), Allocate { claims }).unwrap_err();
        assert!(matches!(refused, LedgerReject::CapacityExceeded { .. }));
    }

    #[test]
    fn an_overfull_provider_may_become_less_full() {
        let state = given([host(4), one(wants("a", None, "VCPU", 4)), one(wants("b", None, "VCPU", 4)), host(1)]);
        // The inventory's max_unit is 1 now.
        assert!(decide(&state, one(wants("a", Some(1), "VCPU", 1))).is_ok());
        assert!(decide(&state, one(wants("c", None, "VCPU", 1))).is_err());
    }

    #[test]
    fn units_and_classes_are_checked() {
        let state = given([host(4)]);
        let refused = |class, amount| decide(&state, one(wants("a", None, class, amount))).unwrap_err();
        assert_eq!(refused("VCPU", 5), LedgerReject::UnitsViolated { provider: id(1), class: "VCPU".into() });
        assert_eq!(refused("DISK_GB", 1), LedgerReject::NothingToAllocate { provider: id(1), class: "DISK_GB".into() });
        assert_eq!(refused("CUSTOM_X", 1), LedgerReject::NoSuchClass("CUSTOM_X".into()));
    }

    #[test]
    fn a_reshape_moves_allocations_with_the_inventory() {
        let child = CreateProvider { provider: id(2), name: "numa0".into(), parent: Some(id(1)) };
        let state = given([host(4), one(wants("a", None, "VCPU", 2)), child]);
        let vcpu = state.providers[&id(1)].inventories["VCPU"].inventory.clone();
        let part = |n, inventories: Vec<Inventory>| NewInventories {
            provider: id(n),
            generation: state.providers[&id(n)].generation,
            inventories,
        };
        let mut moved = wants("a", Some(1), "VCPU", 2);
        moved.allocations[0].provider = id(2);
        let inventories = vec![part(1, vec![]), part(2, vec![vcpu])];
        let reshaped = Reshape { inventories: inventories.clone(), claims: vec![moved] };
        let mut after = state.clone();
        for event in decide(&state, reshaped).unwrap() {
            after.evolve(&event, Timestamp(1));
        }
        assert!(after.providers[&id(1)].inventories.is_empty());
        assert_eq!(after.providers[&id(2)].inventories["VCPU"].used, 2);
        let left_behind = decide(&state, Reshape { inventories, claims: vec![] }).unwrap_err();
        assert!(matches!(left_behind, LedgerReject::InventoryInUse { .. }));
    }
}
