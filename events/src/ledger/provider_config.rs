//! The custom inventories and traits that `provider.yaml` adds to the providers of a host. The ledger keeps the names
//! of these additions, so that Chronova can remove an addition when its entry is gone.

use serde::{Deserialize, Serialize};

use super::LedgerEvent;
use crate::ids::ProviderId;

/// The additions of `provider.yaml` to the providers of a host are now these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderConfigApplied {
    /// The host's provider.
    pub host: ProviderId,
    /// Sorted by provider. A provider without additions is left out.
    pub additions: Vec<ProviderAdditions>,
}

/// The names of the inventories and traits that `provider.yaml` adds to a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderAdditions {
    pub provider: ProviderId,
    /// Sorted. A class in use stays here after its entry is gone, until its last allocation ends.
    pub classes: Vec<String>,
    /// Sorted.
    pub traits: Vec<String>,
}

pub(super) fn sample() -> LedgerEvent {
    let id = |n| ProviderId(uuid::Uuid::from_u128(n));
    let (classes, traits) = (vec!["CUSTOM_LICENCE".into()], vec!["CUSTOM_FAST".into()]);
    let additions = vec![ProviderAdditions { provider: id(1), classes, traits }];
    ProviderConfigApplied { host: id(1), additions }.into()
}
