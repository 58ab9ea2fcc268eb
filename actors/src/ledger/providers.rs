//! Resource providers: their names, trees, traits and aggregates.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{
    AggregatesReplaced, Ledger, ProviderChanged, ProviderCreated, ProviderDeleted, TraitsReplaced,
};

use super::commands::ParentChange;
use super::decision::{LedgerDecision, LedgerReject, provider};

pub(super) fn create(state: &Ledger, id: ProviderId, name: String, parent: Option<ProviderId>) -> LedgerDecision {
    if parent == Some(id) {
        return Err(LedgerReject::OwnParent);
    }
    if let Some(missing) = parent.filter(|parent| !state.providers.contains_key(parent)) {
        return Err(LedgerReject::NoSuchParent(missing));
    }
    if state.providers.contains_key(&id) {
        return Err(LedgerReject::ProviderExists(id));
    }
    if state.named(&name).is_some() {
        return Err(LedgerReject::NameTaken(name));
    }
    Ok(vec![ProviderCreated { provider: id, name, parent }.into()])
}

pub(super) fn update(state: &Ledger, id: ProviderId, name: String, change: ParentChange) -> LedgerDecision {
    let known = provider(state, id, None)?;
    let parent = match change {
        ParentChange::Keep => known.parent,
        ParentChange::Give(parent) | ParentChange::Move(parent) => parent,
    };
    let may_move = matches!(change, ParentChange::Move(_));
    if let Some(new) = parent.filter(|_| change != ParentChange::Keep) {
        if !state.providers.contains_key(&new) {
            return Err(LedgerReject::NoSuchParent(new));
        }
        if known.parent.is_some_and(|old| old != new) && !may_move {
            return Err(LedgerReject::Reparenting);
        }
        if state.is_below(new, id) {
            return Err(LedgerReject::Loop);
        }
    }
    if parent.is_none() && known.parent.is_some() && !may_move {
        return Err(LedgerReject::Unparenting);
    }
    if state.named(&name).is_some_and(|other| other != id) {
        return Err(LedgerReject::NameTaken(name));
    }
    if known.name == name && known.parent == parent {
        return Ok(vec![]);
    }
    Ok(vec![ProviderChanged { provider: id, name, parent }.into()])
}

pub(super) fn delete(state: &Ledger, id: ProviderId) -> LedgerDecision {
    let known = provider(state, id, None)?;
    if state.providers.values().any(|other| other.parent == Some(id)) {
        return Err(LedgerReject::HasChildren);
    }
    if known.inventories.values().any(|line| line.used > 0) {
        return Err(LedgerReject::ProviderInUse);
    }
    Ok(vec![ProviderDeleted { provider: id }.into()])
}

/// As in Placement, the generation is checked before the names.
pub(super) fn set_traits(state: &Ledger, id: ProviderId, seen: Option<u64>, traits: Vec<String>) -> LedgerDecision {
    let known = provider(state, id, seen)?;
    let traits: BTreeSet<String> = traits.into_iter().collect();
    let missing: Vec<&str> = traits.iter().filter(|name| !state.knows_trait(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(LedgerReject::NoSuchTraits(missing.join(", ")));
    }
    if traits == known.traits {
        return Ok(vec![]);
    }
    Ok(vec![TraitsReplaced { provider: id, traits: traits.into_iter().collect() }.into()])
}

pub(super) fn set_aggregates(
    state: &Ledger,
    id: ProviderId,
    seen: Option<u64>,
    aggregates: Vec<uuid::Uuid>,
    spellings: BTreeMap<uuid::Uuid, String>,
) -> LedgerDecision {
    let known = provider(state, id, seen)?;
    let aggregates: BTreeSet<uuid::Uuid> = aggregates.into_iter().collect();
    let as_written = state.spellings.get(&id).map_or_else(|| spellings.is_empty(), |had| **had == spellings);
    // With a generation, the command raises the provider's generation even if nothing changes, as in Placement.
    if seen.is_none() && aggregates == known.aggregates && as_written {
        return Ok(vec![]);
    }
    let (aggregates, spellings) = (aggregates.into_iter().collect(), spellings.into_iter().collect());
    Ok(vec![AggregatesReplaced { provider: id, aggregates, bumps_generation: seen.is_some(), spellings }.into()])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ledger::LedgerCommand::{self, *};
    use crate::ledger::decide::decide;
    use crate::ledger::decide::tests::given;

    fn id(n: u128) -> ProviderId {
        ProviderId(uuid::Uuid::from_u128(n))
    }

    fn tree() -> Vec<LedgerCommand> {
        let make =
            |n, parent: Option<u128>| CreateProvider { provider: id(n), name: format!("p{n}"), parent: parent.map(id) };
        vec![make(1, None), make(2, Some(1)), make(3, Some(2)), make(4, None)]
    }

    fn refused(command: LedgerCommand) -> LedgerReject {
        decide(&given(tree()), command).unwrap_err()
    }

    #[test]
    fn names_and_ids_are_unique() {
        let create = |n, name: &str| CreateProvider { provider: id(n), name: name.into(), parent: None };
        assert_eq!(refused(create(9, "p1")), LedgerReject::NameTaken("p1".into()));
        assert_eq!(refused(create(1, "new")), LedgerReject::ProviderExists(id(1)));
        let update = UpdateProvider { provider: id(2), name: "p1".into(), parent: ParentChange::Keep };
        assert_eq!(refused(update), LedgerReject::NameTaken("p1".into()));
    }

    #[test]
    fn trees_have_no_loops_and_parents_change_only_when_allowed() {
        let update = |n, parent| UpdateProvider { provider: id(n), name: format!("p{n}"), parent };
        assert_eq!(refused(update(1, ParentChange::Move(Some(id(3))))), LedgerReject::Loop);
        assert_eq!(refused(update(2, ParentChange::Give(Some(id(4))))), LedgerReject::Reparenting);
        assert_eq!(refused(update(2, ParentChange::Give(None))), LedgerReject::Unparenting);
        assert_eq!(refused(update(4, ParentChange::Give(Some(id(8))))), LedgerReject::NoSuchParent(id(8)));
        let mut moved = tree();
        moved.push(update(2, ParentChange::Move(Some(id(4)))));
        assert_eq!(given(moved).root_of(id(3)), id(4));
    }

    #[test]
    fn parents_and_providers_in_use_stay() {
        assert_eq!(refused(DeleteProvider { provider: id(1) }), LedgerReject::HasChildren);
        let without = given(tree().into_iter().chain([DeleteProvider { provider: id(3) }]));
        assert!(!without.providers.contains_key(&id(3)));
    }

    #[test]
    fn aggregates_keep_the_texts_of_the_latest_request() {
        const BARE: &str = "00000000000000000000000000000007";
        let aggregate = uuid::Uuid::from_u128(7);
        let set = |text: Option<&str>| {
            let spellings = text.map(|text| (aggregate, text.to_owned())).into_iter().collect();
            SetAggregates { provider: id(1), generation: None, aggregates: vec![aggregate], spellings }
        };
        let shown = |state: &Ledger| state.written_aggregates(&state.providers[&id(1)]);
        let bare = given(tree().into_iter().chain([set(Some(BARE))]));
        assert_eq!(shown(&bare), [BARE]);
        assert_eq!(decide(&bare, set(Some(BARE))).unwrap(), vec![]);
        let usual = given(tree().into_iter().chain([set(Some(BARE)), set(None)]));
        assert_eq!(shown(&usual), [aggregate.to_string()]);
        assert!(usual.spellings.is_empty());
    }

    #[test]
    fn traits_are_checked_after_the_generation() {
        let set = |generation, name: &str| SetTraits { provider: id(1), generation, traits: vec![name.into()] };
        assert!(matches!(refused(set(Some(7), "CUSTOM_X")), LedgerReject::ProviderChanged { actual: 0, seen: 7, .. }));
        assert_eq!(refused(set(Some(0), "CUSTOM_X")), LedgerReject::NoSuchTraits("CUSTOM_X".into()));
        let commands = [CreateTrait { name: "CUSTOM_X".into() }, set(Some(0), "CUSTOM_X")];
        let state = given(tree().into_iter().chain(commands));
        assert_eq!(state.providers[&id(1)].generation, 1);
        assert_eq!(decide(&state, set(Some(1), "CUSTOM_X")).unwrap(), vec![]);
    }
}
