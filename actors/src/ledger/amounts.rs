//! The amounts of allocations, by provider and resource class.

use std::collections::BTreeMap;

use chronova_events::ids::ProviderId;
use chronova_events::ledger::Allocation;

pub(super) type AmountsOfProviders = BTreeMap<ProviderId, BTreeMap<String, u64>>;

/// The sums of the allocations.
pub(super) fn amounts_of<'a>(allocations: impl IntoIterator<Item = &'a Allocation>) -> AmountsOfProviders {
    let mut amounts = AmountsOfProviders::new();
    for held in allocations {
        let of = amounts.entry(held.provider).or_default();
        for (class, amount) in &held.resources {
            *of.entry(class.clone()).or_default() += amount;
        }
    }
    amounts
}

/// The allocations with these amounts, sorted. Nothing is allocated of a class whose amount is zero.
pub(super) fn allocations_of(amounts: AmountsOfProviders) -> Vec<Allocation> {
    let all = amounts.into_iter().map(|(provider, resources)| Allocation {
        provider,
        resources: resources.into_iter().filter(|(_, amount)| *amount > 0).collect(),
    });
    all.filter(|allocation| !allocation.resources.is_empty()).collect()
}
