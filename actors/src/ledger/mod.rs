//! The placement ledger: the only place where capacity is claimed.
//!
//! Two kinds of callers. The processes, host agents and reconcilers of this program use [`LedgerCommand::Report`], the
//! commands of `mirror`, `Claim` and `Release`, which can be repeated without harm. Clients of the Placement API use
//! the rest, with the API's own rules (generations as optimistic locks, inventories in use, capacity). Their files are
//! named after the resources.

mod allocations;
pub mod cells;
mod claims;
pub mod decide;
mod inventories;
mod mirror;
mod moves;
mod names;
mod providers;

use std::sync::Arc;

use chronova_events::envelope::StreamId;
use chronova_events::ids::{ConsumerId, ProjectId, ProviderId, ServerGroupId, UserId};
use chronova_events::ledger::{Allocation, Claimed, Inventory, Ledger, LedgerEvent};
use thiserror::Error;

use crate::aggregate::AggregateRoot;
use crate::topology::GuestNumaTopology;
use crate::topology::host::HostNumaCells;

/// The events of a decision, or the refusal.
type LedgerDecision = Result<Vec<LedgerEvent>, LedgerReject>;

/// The cell of a ledger. So far there is one Nova cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LedgerCell(pub u32);

/// The only cell.
pub const CELL: LedgerCell = LedgerCell(1);

#[derive(Debug, Clone, Copy)]
pub enum LedgerRoot {}

#[derive(Debug, Clone)]
pub enum LedgerCommand {
    /// Ensures that a compute host's provider exists, with this inventory and these standard traits. Traits and classes
    /// that others set stay. The allocation ratios are initial values of new classes only.
    Report {
        provider: ProviderId,
        name: String,
        inventories: Vec<Inventory>,
        traits: Vec<String>,
        /// Its NUMA cells.
        cells: HostNumaCells,
    },
    /// Adds and removes traits of a host's provider, and keeps its others; no such provider is success.
    AdjustTraits {
        provider: ProviderId,
        add: Vec<String>,
        remove: Vec<String>,
    },
    /// Adds and removes aggregates of a host's provider, and keeps its others; no such provider is success.
    AdjustAggregates {
        provider: ProviderId,
        add: Vec<uuid::Uuid>,
        remove: Vec<uuid::Uuid>,
    },
    /// Sets the allocation ratios by class that the configuration enforces.
    ImposeRatios {
        provider: ProviderId,
        ratios: Vec<(String, f64)>,
    },
    /// Claims capacity for a consumer without allocations; repeating the same claim is harmless.
    Claim(Claimed),
    /// The same for servers that are placed together, within their groups' policies; all of them or none.
    ClaimAll {
        claims: Vec<ServerClaim>,
    },
    /// Releases all allocations of the consumer; none is success.
    Release {
        consumer: ConsumerId,
    },
    /// Moves the server's allocations to its migration, so that it can claim its destination.
    SetAside {
        server: ConsumerId,
        migration: ConsumerId,
    },
    /// Moves the migration's allocations on this host back to its server, and releases what the server holds now.
    TakeBack {
        server: ConsumerId,
        migration: ConsumerId,
        host: ProviderId,
    },

    CreateProvider {
        provider: ProviderId,
        name: String,
        parent: Option<ProviderId>,
    },
    UpdateProvider {
        provider: ProviderId,
        name: String,
        parent: ParentChange,
    },
    DeleteProvider {
        provider: ProviderId,
    },
    /// Replaces the inventories. `generation`: the one that the client has seen.
    SetInventories {
        provider: ProviderId,
        generation: Option<u64>,
        inventories: Vec<Inventory>,
        reserve: Reserve,
    },
    AddInventory {
        provider: ProviderId,
        inventory: Inventory,
        reserve: Reserve,
    },
    UpdateInventory {
        provider: ProviderId,
        generation: u64,
        inventory: Inventory,
        reserve: Reserve,
    },
    DeleteInventory {
        provider: ProviderId,
        class: String,
    },
    SetTraits {
        provider: ProviderId,
        generation: Option<u64>,
        traits: Vec<String>,
    },
    /// Without `generation` (before 1.19) the change does not raise the provider's generation.
    SetAggregates {
        provider: ProviderId,
        generation: Option<u64>,
        aggregates: Vec<uuid::Uuid>,
    },
    /// Replaces the consumers' allocations; all of them or none.
    Allocate {
        claims: Vec<ConsumerClaim>,
    },
    /// Like `Release`, but the consumer must have allocations.
    Deallocate {
        consumer: ConsumerId,
    },
    /// Changes inventories and allocations at once, so that allocations can move with the inventory.
    Reshape {
        inventories: Vec<NewInventories>,
        claims: Vec<ConsumerClaim>,
    },
    CreateClass {
        name: String,
    },
    RenameClass {
        from: String,
        to: String,
    },
    DeleteClass {
        name: String,
    },
    CreateTrait {
        name: String,
    },
    DeleteTrait {
        name: String,
    },
}

/// The parent in an update of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentChange {
    /// Nothing.
    Keep,
    /// A first parent may be given, another one not (before 1.37).
    Give(Option<ProviderId>),
    /// Any change that creates no loop.
    Move(Option<ProviderId>),
}

/// Whether all of an inventory may be reserved (from 1.26 on).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    Less,
    All,
}

/// The claim of one server, and the rule of its server group.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerClaim {
    pub claim: Claimed,
    pub group: Option<GroupRule>,
    pub guest: Option<GuestClaim>,
}

/// The guest's demand on the NUMA cells of its host.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestClaim {
    /// The provider of the host.
    pub host: ProviderId,
    pub topology: Arc<GuestNumaTopology>,
    /// `[compute] packing_host_numa_cells_allocation_strategy`.
    pub packs: bool,
}

/// The part of a server group's policy that a claim must keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupRule {
    pub group: ServerGroupId,
    /// The provider of the host.
    pub host: ProviderId,
    pub policy: GroupPolicy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupPolicy {
    /// All on one host.
    Together,
    /// At most so many on one host.
    AtMost(u32),
}

/// The allocations that one consumer shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerClaim {
    pub consumer: ConsumerId,
    pub project: ProjectId,
    pub user: UserId,
    /// `None` leaves it as it is (before 1.38).
    pub consumer_type: Option<String>,
    pub generation: SeenGeneration,
    /// Sorted by provider, and within by class. Empty: nothing.
    pub allocations: Vec<Allocation>,
}

/// The generation of a consumer that the client has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenGeneration {
    /// The client did not have to name one (before 1.28).
    Unsaid,
    /// `None`: the consumer is new.
    Said(Option<u64>),
}

/// A provider's part in a reshape.
#[derive(Debug, Clone, PartialEq)]
pub struct NewInventories {
    pub provider: ProviderId,
    pub generation: u64,
    pub inventories: Vec<Inventory>,
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
    #[error("consumer {0} holds something else already")]
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
    #[error("more of {class} is reserved on provider {provider} than may be")]
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
    #[error("consumer {0} holds nothing")]
    HoldsNothing(ConsumerId),
    #[error("the policy of server group {group} does not admit another member on {host}")]
    GroupPolicyBroken { group: ServerGroupId, host: ProviderId },
    #[error("the guest does not fit on the NUMA cells of {host}: {reason}")]
    CellsDoNotFit { host: ProviderId, reason: String },
}

impl AggregateRoot for LedgerRoot {
    type Id = LedgerCell;
    type State = Ledger;
    type Command = LedgerCommand;
    type Reject = LedgerReject;
    const SNAPSHOT_EVERY: u64 = 20_000;

    fn stream(cell: &LedgerCell) -> StreamId {
        StreamId::new("ledger", format!("cell{}", cell.0))
    }

    fn decide(state: &Ledger, command: LedgerCommand) -> Result<Vec<LedgerEvent>, LedgerReject> {
        decide::decide(state, command)
    }
}
