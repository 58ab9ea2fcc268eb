//! The allocations of a server that moves: its migration holds the old ones, and the server holds the new ones.
//!
//! Each change is one append, so no crash can lose or double the allocations. For a guest with dedicated processors, a
//! part of a NUMA cell or PCI devices, the same append has further events. Nova's conductor swaps allocations in the
//! same way (`migrate.replace_allocation_with_migration`, `revert_allocation_for_migration`).

use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::ledger::{
    Allocation, AllocationsReplaced, Claimed, GroupMemberPlaced, Ledger, LedgerEvent, Released,
};

use super::amounts::{allocations_of, amounts_of};
use super::{cells, pci};

/// Moves the allocations of `server` to `migration`. Nothing changes if this was already done, or if the server has no
/// allocations.
pub(super) fn set_aside(state: &Ledger, server: ConsumerId, migration: ConsumerId) -> Vec<LedgerEvent> {
    let (Some(held), false) = (state.consumers.get(&server), state.consumers.contains_key(&migration)) else {
        return vec![];
    };
    let kind = Some("MIGRATION".to_owned());
    let claim = Claimed { consumer: migration.clone(), consumer_type: kind, ..held.claim.clone() };
    let devices = pci::handed_over(state, &server, migration.clone());
    let fitted = cells::handed_over(state, &server, migration);
    let mut events = vec![AllocationsReplaced { claims: vec![claim], released: vec![server] }.into()];
    events.extend(fitted.into_iter().chain(devices));
    events
}

/// Moves the allocations of `migration` back to `server`, and releases the server's present ones. A repetition changes
/// nothing.
///
/// A member of a server group is then on its old host again. This is no new placement, so the ledger does not check the
/// group's policy.
pub(super) fn take_back(
    state: &Ledger,
    server: &ConsumerId,
    migration: ConsumerId,
    host: ProviderId,
) -> Vec<LedgerEvent> {
    let Some(aside) = state.consumers.get(&migration) else { return vec![] };
    let claim = Claimed { consumer: server.clone(), consumer_type: Some("INSTANCE".to_owned()), ..aside.claim.clone() };
    let fitted = cells::handed_over(state, &migration, server.clone());
    let devices = pci::handed_over(state, &migration, server.clone());
    let mut events = vec![AllocationsReplaced { claims: vec![claim], released: vec![migration] }.into()];
    if let Some(group) = state.member_of.get(server) {
        events.push(GroupMemberPlaced { group: *group, consumer: server.clone(), provider: host }.into());
    }
    events.extend(fitted.into_iter().chain(devices));
    events
}

/// Moves `allocations` from the server to `part`, so that they can be released apart from the server's other ones.
pub(super) fn set_part_aside(
    state: &Ledger,
    server: &ConsumerId,
    part: ConsumerId,
    allocations: Vec<Allocation>,
) -> Vec<LedgerEvent> {
    let (Some(held), false) = (state.consumers.get(server), state.consumers.contains_key(&part)) else {
        return vec![];
    };
    let mut amounts = amounts_of(&held.claim.allocations);
    for moved in &allocations {
        for (class, amount) in &moved.resources {
            let left = amounts.get_mut(&moved.provider).and_then(|of| of.get_mut(class));
            match left.and_then(|left| left.checked_sub(*amount).map(|rest| (left, rest))) {
                Some((left, rest)) => *left = rest,
                None => return vec![],
            }
        }
    }
    let rest = Claimed { allocations: allocations_of(amounts), ..held.claim.clone() };
    let aside = Claimed { consumer: part, allocations, ..held.claim.clone() };
    vec![AllocationsReplaced { claims: vec![rest, aside], released: vec![] }.into()]
}

/// Moves the allocations of `part` to the server. A repetition changes nothing.
pub(super) fn join_part(state: &Ledger, server: &ConsumerId, part: ConsumerId) -> Vec<LedgerEvent> {
    let Some(aside) = state.consumers.get(&part) else { return vec![] };
    let Some(held) = state.consumers.get(server) else { return vec![Released { consumer: part }.into()] };
    let amounts = amounts_of(held.claim.allocations.iter().chain(&aside.claim.allocations));
    let all = Claimed { allocations: allocations_of(amounts), ..held.claim.clone() };
    vec![AllocationsReplaced { claims: vec![all], released: vec![part] }.into()]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ledger::LedgerCommand::{JoinPart, SetAside, SetPartAside, TakeBack};
    use crate::ledger::decide::decide;
    use crate::ledger::decide::tests::{claim, given, host};
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;

    #[test]
    fn a_move_holds_both_hosts_until_it_ends() {
        let (server, migration) = (ConsumerId::new("s"), ConsumerId::new("m"));
        let provider = ProviderId(uuid::Uuid::from_u128(1));
        let aside = SetAside { server: server.clone(), migration: migration.clone() };
        let back = TakeBack { server: server.clone(), migration: migration.clone(), host: provider };
        let mut state = given([host(4), claim("s", 2), aside.clone(), claim("s", 3)]);
        let used = |state: &Ledger| state.providers[&provider].inventories["VCPU"].used;
        assert_eq!(used(&state), 5);
        assert_eq!(decide(&state, aside).unwrap(), vec![], "repeated");
        assert_eq!(state.consumers[&migration].claim.consumer_type.as_deref(), Some("MIGRATION"));
        for event in decide(&state, back.clone()).unwrap() {
            state.evolve(&event, Timestamp(1));
        }
        assert_eq!(used(&state), 2);
        assert!(!state.consumers.contains_key(&migration));
        assert_eq!(decide(&state, back).unwrap(), vec![], "repeated");
    }

    #[test]
    fn a_part_of_a_claim_can_be_set_aside() {
        let (server, part) = (ConsumerId::new("s"), ConsumerId::new("p"));
        let provider = ProviderId(uuid::Uuid::from_u128(1));
        let aside = |amount| {
            let allocations = vec![Allocation { provider, resources: vec![("VCPU".to_owned(), amount)] }];
            SetPartAside { server: server.clone(), part: part.clone(), allocations }
        };
        let join = || JoinPart { server: server.clone(), part: part.clone() };
        let amount = |state: &Ledger, consumer: &ConsumerId| {
            state.consumers.get(consumer).map(|held| held.claim.allocations[0].resources[0].1)
        };
        let mut state = given([host(4), claim("s", 3), aside(2)]);
        let amounts = |state: &Ledger| (amount(state, &server), amount(state, &part));
        assert_eq!(amounts(&state), (Some(1), Some(2)));
        assert_eq!(decide(&state, aside(2)).unwrap(), vec![], "repeated");
        assert_eq!(decide(&given([host(4), claim("s", 3)]), aside(4)).unwrap(), vec![], "more than the server has");
        for event in decide(&state, join()).unwrap() {
            state.evolve(&event, Timestamp(1));
        }
        assert_eq!(amounts(&state), (Some(3), None));
        assert_eq!(state.providers[&provider].inventories["VCPU"].used, 3);
        assert_eq!(decide(&state, join()).unwrap(), vec![], "repeated");
        let alone = given([host(4), claim("p", 2)]);
        let released = decide(&alone, join()).unwrap();
        assert_eq!(released, vec![LedgerEvent::from(Released { consumer: part.clone() })], "the server is gone");
    }
}
