//! The outcome of a decision of the ledger.

use std::sync::Arc;

use chronova_events::ids::{ConsumerId, ProviderId, ServerGroupId};
use chronova_events::ledger::{Ledger, LedgerEvent, Provider};
use chronova_events::pci::PciAddress;
use thiserror::Error;

use super::commands::Reserve;

/// The events of a decision, or the refusal.
pub(super) type LedgerDecision = Result<Vec<LedgerEvent>, LedgerReject>;

/// The provider, if its generation is the one that the client has seen.
pub(super) fn provider(state: &Ledger, id: ProviderId, seen: Option<u64>) -> Result<&Arc<Provider>, LedgerReject> {
    let provider = state.providers.get(&id).ok_or(LedgerReject::NoSuchProvider(id))?;
    match seen {
        Some(seen) if seen != provider.generation => {
            Err(LedgerReject::ProviderChanged { provider: id, actual: provider.generation, seen })
        }
        _ => Ok(provider),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LedgerReject {
    #[error("resource provider {0} does not exist")]
    NoSuchProvider(ProviderId),
    #[error("resource provider name {0} is taken")]
    NameTaken(String),
    #[error("resource provider {0} exists already")]
    ProviderExists(ProviderId),
    #[error("provider {provider} has no room for {amount} of {class}")]
    DoesNotFit { provider: ProviderId, class: String, amount: u64 },
    #[error("consumer {0} has other allocations already")]
    HoldsOther(ConsumerId),
    #[error("a provider cannot be its own parent")]
    OwnParent,
    #[error("parent provider {0} does not exist")]
    NoSuchParent(ProviderId),
    #[error("a provider cannot get another parent")]
    Reparenting,
    #[error("a provider cannot lose its parent")]
    Unparenting,
    #[error("the tree would have a loop")]
    Loop,
    #[error("the provider has children")]
    HasChildren,
    #[error("the provider has allocations")]
    ProviderInUse,
    #[error("provider {provider} is at generation {actual}, not {seen}")]
    ProviderChanged { provider: ProviderId, actual: u64, seen: u64 },
    #[error("inventory of {classes} on provider {provider} is in use")]
    InventoryInUse { provider: ProviderId, classes: String },
    #[error("provider {provider} has an inventory of {class} already")]
    InventoryExists { provider: ProviderId, class: String },
    #[error("there is no inventory of {class}")]
    NoInventory { class: String },
    #[error("the reserved amount of {class} on provider {provider} exceeds its total")]
    ReservedTooMuch { provider: ProviderId, class: String, reserve: Reserve },
    #[error("resource class {0} does not exist")]
    NoSuchClass(String),
    #[error("resource class {0} exists already")]
    ClassExists(String),
    #[error("resource class {0} is a standard one")]
    StandardClass(String),
    #[error("resource class {0} is in use")]
    ClassInUse(String),
    #[error("traits {0} do not exist")]
    NoSuchTraits(String),
    #[error("trait {0} is a standard one")]
    StandardTrait(String),
    #[error("trait {0} is in use")]
    TraitInUse(String),
    #[error("the consumer is not at the generation that the client has seen")]
    ConsumerChanged { actual: Option<u64>, seen: Option<u64> },
    #[error("provider {provider} has no inventory of {class} to allocate from")]
    NothingToAllocate { provider: ProviderId, class: String },
    #[error("the amount of {class} breaks the unit rules of provider {provider}")]
    UnitsViolated { provider: ProviderId, class: String },
    #[error("provider {provider} has no capacity left for that much {class}")]
    CapacityExceeded { provider: ProviderId, class: String },
    #[error("consumer {0} has no allocations")]
    HoldsNothing(ConsumerId),
    #[error("the policy of server group {group} does not admit another member on {host}")]
    GroupPolicyBroken { group: ServerGroupId, host: ProviderId },
    #[error("the guest does not fit on the NUMA cells of {host}: {reason}")]
    CellsDoNotFit { host: ProviderId, reason: String },
    #[error("{host} has no PCI devices for the guest: {reason}")]
    NoDevices { host: ProviderId, reason: String },
    #[error("[pci] report_in_placement was on for {0}, and cannot be turned off")]
    DevicesStayReported(String),
    #[error(
        "provider {provider} is named by two entries of [compute] provider_config_location, {} and {}: take one out",
        .sources[0], .sources[1]
    )]
    ProviderConfiguredTwice { provider: ProviderId, sources: [String; 2] },
    #[error("{entry}: {name} is a class or a trait of the host's PCI devices: take it out of the file")]
    OwnedByDriver { name: String, entry: String },
    #[error(
        "[pci] device_spec now names {offered}, but a guest still has {held} of the same card: name {held} until the \
         guest is gone"
    )]
    DependentDevice { offered: PciAddress, held: PciAddress },
}
