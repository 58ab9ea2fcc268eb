//! The additions of `provider.yaml` to the providers of a host.
//!
//! The ledger records which classes and traits an entry has added. When the entry is gone, the ledger removes them. It
//! keeps classes and traits that only Placement's clients have set. An entry takes over a class or a trait that a
//! client has set, because the providers of an adopted cloud already have what the files name.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{
    Inventory, InventoryReplaced, Ledger, LedgerEvent, Provider, ProviderAdditions, ProviderConfigApplied,
    ResourceClassCreated, TraitCreated, TraitsReplaced,
};

use super::decision::{LedgerDecision, LedgerReject};
use super::inventories;
use crate::provider_config::{ProviderConfigEntry, ProviderConfigs};

/// The events that give the host's providers what the entries add. They take away what only earlier entries added,
/// except a class in use. The list is empty if nothing must change.
pub fn applied(state: &Ledger, host: ProviderId, configs: &ProviderConfigs) -> LedgerDecision {
    let mut wanted: BTreeMap<ProviderId, &ProviderConfigEntry> = BTreeMap::new();
    for (provider, entry) in configs.of(state, host) {
        if let Some(other) = wanted.insert(provider, entry) {
            let sources = [other.source.clone(), entry.source.clone()];
            return Err(LedgerReject::ProviderConfiguredTwice { provider, sources });
        }
        refuse_clash(state, host, provider, entry)?;
    }
    let had = state.configured.get(&host).map(|applied| applied.additions.as_slice()).unwrap_or_default();
    let mut events = names(state, wanted.values().copied());
    let mut additions = Vec::new();
    let providers: BTreeSet<ProviderId> =
        wanted.keys().copied().chain(had.iter().map(|former| former.provider)).collect();
    for provider in providers {
        let Some(known) = state.providers.get(&provider) else { continue };
        let former = had.iter().find(|former| former.provider == provider);
        let former = former.map(|former| without_devices(state, host, former)).unwrap_or_default();
        let change = ProviderConfigChange { known, former, entry: wanted.get(&provider).copied() };
        additions.extend(change.record(&mut events));
    }
    if additions != had {
        events.push(ProviderConfigApplied { host, additions }.into());
    }
    Ok(events)
}

/// The traits that `provider.yaml` adds to a provider of the host.
pub(super) fn traits_of(state: &Ledger, host: ProviderId, provider: ProviderId) -> BTreeSet<String> {
    let applied = state.configured.get(&host).into_iter().flat_map(|applied| &applied.additions);
    applied.filter(|additions| additions.provider == provider).flat_map(|additions| additions.traits.clone()).collect()
}

/// Refuses a class or a trait that the host's PCI devices have in this provider.
fn refuse_clash(
    state: &Ledger,
    host: ProviderId,
    provider: ProviderId,
    entry: &ProviderConfigEntry,
) -> Result<(), LedgerReject> {
    let devices = state.pci.get(&host).into_iter().flat_map(|known| &known.devices);
    for device in devices.filter(|device| device.provider == Some(provider)) {
        let class = entry.inventories.iter().find(|inventory| inventory.class == device.class);
        let owned = class.map(|inventory| &inventory.class);
        if let Some(name) = owned.or_else(|| device.traits.iter().find(|name| entry.traits.contains(*name))) {
            let (name, entry) = (name.clone(), entry.source.clone());
            return Err(LedgerReject::OwnedByDriver { name, entry });
        }
    }
    Ok(())
}

/// The classes and traits that an entry has added to a provider, without those that PCI devices have in this provider.
/// The host may have reported a device after the entry was applied.
fn without_devices(state: &Ledger, host: ProviderId, former: &ProviderAdditions) -> FormerAdditions {
    let known = state.pci.get(&host).into_iter().flat_map(|known| &known.devices);
    let devices: Vec<_> = known.filter(|device| device.provider == Some(former.provider)).collect();
    let class_is_free = |class: &&String| devices.iter().all(|device| device.class != **class);
    let trait_is_free = |name: &&String| devices.iter().all(|device| !device.traits.contains(*name));
    FormerAdditions {
        classes: former.classes.iter().filter(class_is_free).cloned().collect(),
        traits: former.traits.iter().filter(trait_is_free).cloned().collect(),
    }
}

/// The classes and traits that the last entry gave to a provider, without those of PCI devices.
#[derive(Default)]
struct FormerAdditions {
    classes: Vec<String>,
    traits: Vec<String>,
}

/// The events that create the classes and traits which the entries name and the ledger does not know.
fn names<'a>(state: &Ledger, entries: impl Iterator<Item = &'a ProviderConfigEntry>) -> Vec<LedgerEvent> {
    let (mut classes, mut traits) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries {
        classes.extend(entry.inventories.iter().map(|inventory| &inventory.class));
        traits.extend(&entry.traits);
    }
    let classes = classes.into_iter().filter(|name| !state.knows_class(name)).cloned();
    let traits = traits.into_iter().filter(|name| !state.knows_trait(name)).cloned();
    let created = classes.map(|name| ResourceClassCreated { name }.into());
    created.chain(traits.map(|name| TraitCreated { name }.into())).collect()
}

/// One provider, the additions of `provider.yaml` so far, and the entry that applies now.
struct ProviderConfigChange<'a> {
    known: &'a Provider,
    former: FormerAdditions,
    entry: Option<&'a ProviderConfigEntry>,
}

impl ProviderConfigChange<'_> {
    /// Adds the events of this provider. Returns its additions from now on.
    fn record(&self, events: &mut Vec<LedgerEvent>) -> Option<ProviderAdditions> {
        let provider = self.known.id;
        let before = inventories::current(self.known);
        let (after, classes) = self.inventories(before.clone());
        if after != before {
            events.push(InventoryReplaced { provider, inventories: after.into_values().collect() }.into());
        }
        let wanted = self.entry.map(|entry| entry.traits.clone()).unwrap_or_default();
        let mut traits = self.known.traits.clone();
        traits.retain(|name| wanted.contains(name) || !self.former.traits.contains(name));
        traits.extend(wanted.iter().cloned());
        if traits != self.known.traits {
            events.push(TraitsReplaced { provider, traits: traits.into_iter().collect() }.into());
        }
        let (classes, traits): (Vec<String>, Vec<String>) =
            (classes.into_iter().collect(), wanted.into_iter().collect());
        let adds = !classes.is_empty() || !traits.is_empty();
        adds.then_some(ProviderAdditions { provider, classes, traits })
    }

    /// The inventories from now on, and the classes among them that `provider.yaml` has added. If the entry of a class
    /// is gone but the class is in use, the class stays. Then nothing more of it can be allocated.
    fn inventories(&self, mut all: BTreeMap<String, Inventory>) -> (BTreeMap<String, Inventory>, BTreeSet<String>) {
        let mut added = BTreeSet::new();
        for class in &self.former.classes {
            let used = self.known.inventories.get(class).is_some_and(|line| line.used > 0);
            match all.get_mut(class) {
                Some(inventory) if used => {
                    inventory.reserved = inventory.total;
                    added.insert(class.clone());
                }
                _ => drop(all.remove(class)),
            }
        }
        for inventory in self.entry.into_iter().flat_map(|entry| &entry.inventories) {
            added.insert(inventory.class.clone());
            all.insert(inventory.class.clone(), inventory.clone());
        }
        (all, added)
    }
}

#[cfg(test)]
mod tests;
