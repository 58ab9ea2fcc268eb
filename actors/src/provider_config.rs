//! Custom inventories and traits of hosts, which operators write into files of `[compute] provider_config_location`.
//!
//! Nova documents the files as `provider.yaml`. Its agent reads the files of its own host; here one folder serves all
//! hosts. The configuration reads the files once, at start-up. Each report of a host applies the entries that name the
//! host or a provider below it.

use std::collections::BTreeSet;
use std::fmt;

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Inventory, Ledger};

/// The entries of all files, in the order of the files. No two have the same identification.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProviderConfigs {
    pub entries: Vec<ProviderConfigEntry>,
}

/// One entry of `providers`. It has inventories or traits.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfigEntry {
    /// The file, and the entry's place in it.
    pub source: String,
    pub identification: ProviderIdentification,
    /// Custom classes only, sorted by class, each once.
    pub inventories: Vec<Inventory>,
    /// Custom traits only.
    pub traits: BTreeSet<String>,
}

/// The providers that an entry is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProviderIdentification {
    /// `$COMPUTE_NODE`: the provider of each host that no other entry names.
    ComputeNode,
    Id(ProviderId),
    Name(String),
}

impl fmt::Display for ProviderIdentification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ComputeNode => f.write_str("$COMPUTE_NODE"),
            Self::Id(id) => write!(f, "{id}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl ProviderConfigs {
    /// The entries for the providers in a host's tree, each entry with its provider.
    pub(crate) fn of(&self, ledger: &Ledger, host: ProviderId) -> Vec<(ProviderId, &ProviderConfigEntry)> {
        let named = |entry: &ProviderConfigEntry| match &entry.identification {
            ProviderIdentification::ComputeNode => None,
            ProviderIdentification::Id(id) => Some(*id),
            ProviderIdentification::Name(name) => ledger.named(name),
        };
        let below = |id: &ProviderId| ledger.providers.contains_key(id) && ledger.root_of(*id) == host;
        let mut found: Vec<(ProviderId, &ProviderConfigEntry)> =
            (self.entries.iter()).filter_map(|entry| Some((named(entry).filter(below)?, entry))).collect();
        if found.iter().all(|(provider, _)| *provider != host) {
            let default = self.entries.iter().find(|entry| entry.identification == ProviderIdentification::ComputeNode);
            found.extend(default.map(|entry| (host, entry)));
        }
        found
    }

    /// The entries whose named provider the ledger does not know.
    pub(crate) fn absent<'a>(&'a self, ledger: &'a Ledger) -> impl Iterator<Item = &'a ProviderConfigEntry> {
        self.entries.iter().filter(|entry| match &entry.identification {
            ProviderIdentification::ComputeNode => false,
            ProviderIdentification::Id(id) => !ledger.providers.contains_key(id),
            ProviderIdentification::Name(name) => ledger.named(name).is_none(),
        })
    }
}
