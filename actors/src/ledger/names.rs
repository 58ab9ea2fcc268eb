//! Custom resource classes and traits.

use chronova_events::ledger::standard::{self, is_standard_class, is_standard_trait};
use chronova_events::ledger::{
    Ledger, LedgerEvent, ResourceClassCreated, ResourceClassDeleted, ResourceClassRenamed, TraitCreated, TraitDeleted,
};

use super::decision::{LedgerDecision, LedgerReject};

/// The sort key of a class: standard classes come first, in Placement's order, and custom classes follow by name.
pub(super) fn rank(class: &str) -> (usize, String) {
    let place = standard::CLASSES.iter().position(|known| *known == class);
    (place.unwrap_or(usize::MAX), class.to_owned())
}

pub(super) fn create_class(state: &Ledger, name: String) -> LedgerDecision {
    if state.knows_class(&name) {
        return Err(LedgerReject::ClassExists(name));
    }
    Ok(vec![ResourceClassCreated { name }.into()])
}

pub(super) fn rename_class(state: &Ledger, from: String, to: String) -> LedgerDecision {
    if !state.knows_class(&from) {
        return Err(LedgerReject::NoSuchClass(from));
    }
    if is_standard_class(&from) {
        return Err(LedgerReject::StandardClass(from));
    }
    if from == to {
        return Ok(vec![]);
    }
    if state.knows_class(&to) {
        return Err(LedgerReject::ClassExists(to));
    }
    Ok(vec![ResourceClassRenamed { from, to }.into()])
}

pub(super) fn delete_class(state: &Ledger, name: String) -> LedgerDecision {
    if is_standard_class(&name) {
        return Err(LedgerReject::StandardClass(name));
    }
    if !state.classes.contains(&name) {
        return Err(LedgerReject::NoSuchClass(name));
    }
    if state.providers.values().any(|provider| provider.inventories.contains_key(&name)) {
        return Err(LedgerReject::ClassInUse(name));
    }
    Ok(vec![ResourceClassDeleted { name }.into()])
}

pub(super) fn create_trait(state: &Ledger, name: String) -> Vec<LedgerEvent> {
    if state.knows_trait(&name) { vec![] } else { vec![TraitCreated { name }.into()] }
}

pub(super) fn delete_trait(state: &Ledger, name: String) -> LedgerDecision {
    if is_standard_trait(&name) {
        return Err(LedgerReject::StandardTrait(name));
    }
    if !state.traits.contains(&name) {
        return Err(LedgerReject::NoSuchTraits(name));
    }
    if state.providers.values().any(|provider| provider.traits.contains(&name)) {
        return Err(LedgerReject::TraitInUse(name));
    }
    Ok(vec![TraitDeleted { name }.into()])
}
