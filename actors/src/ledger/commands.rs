//! The commands of the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use chronova_events::ids::{ConsumerId, PortId, ProjectId, ProviderId, ServerGroupId, UserId};
use chronova_events::ledger::{Allocation, Claimed, HostPciReplaced, Inventory};

use crate::mdev::MdevInventory;
use crate::pci::alias::PciRequest;
use crate::provider_config::ProviderConfigs;
use crate::topology::GuestNumaTopology;
use crate::topology::host::HostNumaCells;

#[derive(Debug, Clone)]
pub enum LedgerCommand {
    /// Ensures that a compute host's provider exists, with this inventory and these standard traits. Traits and classes
    /// that others set stay. The allocation ratios are initial values of new classes only.
    Report {
        provider: ProviderId,
        name: String,
        inventories: Vec<Inventory>,
        traits: Vec<String>,
        /// The NUMA cells of the host.
        cells: HostNumaCells,
        pci: ReportedPci,
    },
    /// Does `command` if the provider exists, and nothing otherwise. So a late report of a host that was removed does
    /// not create its provider again.
    IfKnown {
        provider: ProviderId,
        command: Box<LedgerCommand>,
    },
    /// Gives the providers of a host the custom inventories and traits of `provider.yaml`, and takes away those of earlier
    /// entries. Ignores an unknown host.
    ApplyProviderConfig {
        host: ProviderId,
        configs: Arc<ProviderConfigs>,
    },
    /// Adds and removes traits of a host's provider, and keeps its other traits. Ignores an unknown provider.
    AdjustTraits {
        provider: ProviderId,
        add: Vec<String>,
        remove: Vec<String>,
    },
    /// Adds and removes aggregates of a host's provider, and keeps its other aggregates. Ignores an unknown provider.
    AdjustAggregates {
        provider: ProviderId,
        add: Vec<uuid::Uuid>,
        remove: Vec<uuid::Uuid>,
    },
    /// Sets the allocation ratios that the configuration enforces, by class.
    ImposeRatios {
        provider: ProviderId,
        ratios: Vec<(String, f64)>,
    },
    /// Claims capacity for servers that have no allocations yet, within the policies of their groups. All servers get
    /// their claims, or none does. Repeating the same claims is harmless.
    ClaimAll {
        claims: Vec<ServerClaim>,
    },
    /// Releases all allocations of the consumer. Succeeds if the consumer has no allocations.
    Release {
        consumer: ConsumerId,
    },
    /// Moves the server's allocations to its migration, so that the server can claim its destination.
    SetAside {
        server: ConsumerId,
        migration: ConsumerId,
    },
    /// Moves all allocations of the migration back to its server, and releases what the server holds now. The server is
    /// on `host` again.
    TakeBack {
        server: ConsumerId,
        migration: ConsumerId,
        host: ProviderId,
    },
    /// Gives the server one more PCI device of the host on which it has an allocation, for a port that is attached to
    /// it. Nothing changes if the port has its device.
    ClaimForPort {
        server: ConsumerId,
        host: ProviderId,
        request: Box<PciRequest>,
    },
    /// Takes the port's PCI device from the server. Succeeds if the server has no such device.
    ReleaseOfPort {
        server: ConsumerId,
        port: PortId,
    },
    /// Moves a part of the server's allocations to the consumer `part`. Nothing changes if `part` has allocations
    /// already, or if the server does not have all of `allocations`.
    SetPartAside {
        server: ConsumerId,
        part: ConsumerId,
        allocations: Vec<Allocation>,
    },
    /// Adds the allocations of `part` to those of the server. If the server has none, releases those of `part`.
    JoinPart {
        server: ConsumerId,
        part: ConsumerId,
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
    /// Replaces the inventories. `generation` is the provider's generation that the client has seen.
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
        /// The texts of the UUIDs that are not in the usual form.
        spellings: BTreeMap<uuid::Uuid, String>,
    },
    /// Replaces the allocations of all the consumers, or of none.
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
    /// The parent stays.
    Keep,
    /// A provider may get a first parent, but not another one (before 1.37).
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

/// The PCI devices of a host that guests may get.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportedPci {
    /// `None`: the report leaves the devices as they are.
    pub devices: Option<HostPciReplaced>,
    /// `[pci] report_in_placement`.
    pub tracked: bool,
    /// The physical devices with mediated devices. `None`: the report leaves them as they are.
    pub mdevs: Option<Vec<MdevInventory>>,
}

/// The claim of one server, with the rule of its server group and its request for NUMA cells and PCI devices.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerClaim {
    pub claim: Claimed,
    pub group: Option<GroupRule>,
    pub guest: Option<GuestClaim>,
}

/// The guest's request for NUMA cells and PCI devices of its host.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestClaim {
    /// The provider of the host.
    pub host: ProviderId,
    pub topology: Option<Arc<GuestNumaTopology>>,
    pub devices: Vec<PciRequest>,
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
    /// All members on one host.
    Together,
    /// At most this many members on one host.
    AtMost(u32),
}

/// The new allocations of one consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerClaim {
    pub consumer: ConsumerId,
    pub project: ProjectId,
    pub user: UserId,
    /// `None` keeps the present type (before 1.38).
    pub consumer_type: Option<String>,
    pub generation: SeenGeneration,
    /// Sorted by provider and class. An empty list removes all allocations.
    pub allocations: Vec<Allocation>,
}

/// The generation of a consumer that the client has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenGeneration {
    /// The client did not have to send a generation (before 1.28).
    Unsaid,
    /// The generation that the client has sent; `None` means that the consumer is new.
    Said(Option<u64>),
}

/// A provider's part in a reshape.
#[derive(Debug, Clone, PartialEq)]
pub struct NewInventories {
    pub provider: ProviderId,
    pub generation: u64,
    pub inventories: Vec<Inventory>,
}
