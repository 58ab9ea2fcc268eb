//! The placement ledger: the only place where capacity is claimed.
//!
//! One stream per cell, because one claim may span providers and consumers and must be atomic. Inventories, traits and
//! allocations live here; a claim that does not fit is refused in `decide` and so never recorded.

mod cells;
mod payloads;
pub mod standard;
mod standard_traits;
mod state;

pub use cells::{FittedCell, GuestFitted, HostCell, HostCellsReplaced, HostPages};
pub use payloads::*;
pub use state::{Consumer, Fitting, InventoryLine, Ledger, Provider};

noun! {
    /// What can happen to capacity.
    LedgerEvent = "ledger" {
        /// A provider of resources appeared.
        ProviderCreated = "provider_created" @ 1,
        /// A provider got another name or parent.
        ProviderChanged = "provider_changed" @ 1,
        /// A provider is gone.
        ProviderDeleted = "provider_deleted" @ 1,
        /// What a provider has is now this.
        InventoryReplaced = "inventory_replaced" @ 1,
        /// What a provider can do is now this.
        TraitsReplaced = "traits_replaced" @ 1,
        /// The aggregates of a provider are now these.
        AggregatesReplaced = "aggregates_replaced" @ 1,
        /// What a consumer holds is now this.
        Claimed = "claimed" @ 1,
        /// A consumer holds nothing any more.
        Released = "released" @ 1,
        /// What several consumers hold changed at once, or one gave up everything and its providers are to notice.
        AllocationsReplaced = "allocations_replaced" @ 1,
        /// A resource class of one's own was made.
        ResourceClassCreated = "resource_class_created" @ 1,
        /// A resource class of one's own was removed.
        ResourceClassDeleted = "resource_class_deleted" @ 1,
        /// A resource class of one's own has another name.
        ResourceClassRenamed = "resource_class_renamed" @ 1,
        /// A trait of one's own was made.
        TraitCreated = "trait_created" @ 1,
        /// A trait of one's own was removed.
        TraitDeleted = "trait_deleted" @ 1,
        /// A consumer holds what it holds as a member of a server group.
        GroupMemberPlaced = "group_member_placed" @ 1,
        /// The NUMA cells of a host are now these.
        HostCellsReplaced = "host_cells_replaced" @ 1,
        /// A consumer has processors and memory of a host's NUMA cells.
        GuestFitted = "guest_fitted" @ 1,
    }
}
