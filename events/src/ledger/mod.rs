//! The placement ledger: the only place where capacity is claimed.
//!
//! There is one stream per Nova cell, because one claim may span providers and consumers and must be atomic.
//! Inventories, traits and allocations live here. `decide` refuses a claim that does not fit, so no event records such
//! a claim.

mod cells;
mod payloads;
mod pci;
mod provider_config;
pub mod standard;
mod standard_traits;
mod state;

pub use cells::{FittedNumaCell, GuestFitted, HostCellsReplaced, HostNumaCell, HostPages};
pub use payloads::*;
pub use pci::{HeldPciDevice, HostPciDevice, HostPciReplaced, PciClaims, PciDeviceType, PciDevicesClaimed};
pub use provider_config::{ProviderAdditions, ProviderConfigApplied};
pub use state::{Consumer, InventoryLine, Ledger, NumaFitting, Provider};

noun! {
    /// Events of the placement ledger.
    LedgerEvent = "ledger" {
        /// A resource provider was created.
        ProviderCreated = "provider_created" @ 1,
        /// A provider got another name or parent.
        ProviderChanged = "provider_changed" @ 1,
        /// A provider was deleted.
        ProviderDeleted = "provider_deleted" @ 1,
        /// The inventory of a provider is now this.
        InventoryReplaced = "inventory_replaced" @ 1,
        /// The traits of a provider are now these.
        TraitsReplaced = "traits_replaced" @ 1,
        /// The aggregates of a provider are now these.
        AggregatesReplaced = "aggregates_replaced" @ 2 from { 1 => AggregatesReplacedV1 } else { 1 => AggregatesReplacedV1 },
        /// The allocations of a consumer are now these.
        Claimed = "claimed" @ 1,
        /// A consumer has no allocations any more.
        Released = "released" @ 1,
        /// Allocations of consumers were set or released in one step, which raises the generations of their providers.
        AllocationsReplaced = "allocations_replaced" @ 1,
        /// A custom resource class was created.
        ResourceClassCreated = "resource_class_created" @ 1,
        /// A custom resource class was removed.
        ResourceClassDeleted = "resource_class_deleted" @ 1,
        /// A custom resource class has another name.
        ResourceClassRenamed = "resource_class_renamed" @ 1,
        /// A custom trait was created.
        TraitCreated = "trait_created" @ 1,
        /// A custom trait was removed.
        TraitDeleted = "trait_deleted" @ 1,
        /// A member of a server group got its allocations on a host.
        GroupMemberPlaced = "group_member_placed" @ 1,
        /// The NUMA cells of a host are now these.
        HostCellsReplaced = "host_cells_replaced" @ 1,
        /// A consumer got processors and memory of a host's NUMA cells.
        GuestFitted = "guest_fitted" @ 1,
        /// A provider of another control plane was taken over.
        ProviderAdopted = "provider_adopted" @ 1,
        /// A consumer of another control plane was taken over.
        ConsumerAdopted = "consumer_adopted" @ 1,
        /// The PCI devices of a host that guests may get are now these.
        HostPciReplaced = "host_pci_replaced" @ 1,
        /// A consumer got PCI devices of a host.
        PciDevicesClaimed = "pci_devices_claimed" @ 1,
        /// The custom inventories and traits that provider.yaml adds to a host are now these.
        ProviderConfigApplied = "provider_config_applied" @ 1,
    }
}
