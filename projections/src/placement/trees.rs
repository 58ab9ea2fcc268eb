//! How providers hang together: trees, and what is shared through aggregates.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::standard::SHARES;
use chronova_events::ledger::{Ledger, Provider};
use uuid::Uuid;

/// Worked out once per search, because every question of a search needs it.
#[derive(Debug)]
pub struct Trees<'a> {
    ledger: &'a Ledger,
    roots: BTreeMap<ProviderId, ProviderId>,
    /// Providers of trees that have members of an aggregate.
    roots_by_aggregate: BTreeMap<Uuid, BTreeSet<ProviderId>>,
    sharing: BTreeSet<ProviderId>,
    nested: bool,
}

impl<'a> Trees<'a> {
    pub fn of(ledger: &'a Ledger) -> Self {
        let mut roots = BTreeMap::new();
        let mut roots_by_aggregate: BTreeMap<Uuid, BTreeSet<ProviderId>> = BTreeMap::new();
        let mut sharing = BTreeSet::new();
        for (id, provider) in &ledger.providers {
            let root = if provider.parent.is_none() { *id } else { ledger.root_of(*id) };
            roots.insert(*id, root);
            for aggregate in &provider.aggregates {
                roots_by_aggregate.entry(*aggregate).or_default().insert(root);
            }
            if provider.traits.contains(SHARES) {
                sharing.insert(*id);
            }
        }
        let nested = ledger.providers.values().any(|provider| provider.parent.is_some());
        Self { ledger, roots, roots_by_aggregate, sharing, nested }
    }

    pub fn provider(&self, id: ProviderId) -> Option<&'a Provider> {
        self.ledger.providers.get(&id).map(|provider| &**provider)
    }

    pub fn providers(&self) -> impl Iterator<Item = &'a Provider> + use<'a> {
        self.ledger.providers.values().map(|provider| &**provider)
    }

    pub fn root(&self, id: ProviderId) -> ProviderId {
        self.roots.get(&id).copied().unwrap_or(id)
    }

    /// Whether any provider has a parent.
    pub fn nested(&self) -> bool {
        self.nested
    }

    pub fn sharing(&self) -> &BTreeSet<ProviderId> {
        &self.sharing
    }

    /// The trees that may use a sharing provider: those with a member in one of its aggregates. Empty for a provider in
    /// no aggregate.
    pub fn anchors(&self, provider: &Provider) -> BTreeSet<ProviderId> {
        provider
            .aggregates
            .iter()
            .filter_map(|aggregate| self.roots_by_aggregate.get(aggregate))
            .flatten()
            .copied()
            .collect()
    }

    /// The provider and everything above it.
    pub fn ancestors(&self, id: ProviderId) -> BTreeSet<ProviderId> {
        let mut found = BTreeSet::new();
        let mut at = Some(id);
        while let Some(id) = at.filter(|id| found.insert(*id)) {
            at = self.provider(id).and_then(|provider| provider.parent);
        }
        found
    }
}
