//! Payloads of the events of the ledger.

use serde::{Deserialize, Serialize};

use super::LedgerEvent;
use crate::envelope::Timestamp;
use crate::ids::{ConsumerId, ProjectId, ProviderId, ServerGroupId, UserId};
use crate::registry::OlderForm;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderCreated {
    pub provider: ProviderId,
    pub name: String,
    pub parent: Option<ProviderId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderChanged {
    pub provider: ProviderId,
    pub name: String,
    pub parent: Option<ProviderId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderDeleted {
    pub provider: ProviderId,
}

/// The inventory of one resource class. Units are those of the class (VCPU: one, MEMORY_MB: MiB, DISK_GB: GiB).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// For example `VCPU` or `CUSTOM_GOLD`.
    pub class: String,
    pub total: u64,
    pub reserved: u64,
    pub min_unit: u64,
    pub max_unit: u64,
    pub step_size: u64,
    pub allocation_ratio: f64,
}

impl Inventory {
    /// The amount that may be allocated: `(total - reserved) * allocation_ratio`, rounded down.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // ratios are small, totals below 2^53
    pub fn capacity(&self) -> u64 {
        (self.total.saturating_sub(self.reserved) as f64 * self.allocation_ratio) as u64
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InventoryReplaced {
    pub provider: ProviderId,
    /// Sorted by class.
    pub inventories: Vec<Inventory>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraitsReplaced {
    pub provider: ProviderId,
    /// The names of the traits, sorted.
    pub traits: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AggregatesReplaced {
    pub provider: ProviderId,
    /// The UUIDs of the aggregates, sorted.
    pub aggregates: Vec<uuid::Uuid>,
    /// Set for requests of Placement 1.19 and later: such a change of the aggregates raises the provider's generation.
    pub bumps_generation: bool,
    /// The texts of the UUIDs that the client did not write in the usual form (see [`unusual_spelling`]), sorted by UUID.
    pub spellings: Vec<(uuid::Uuid, String)>,
}

/// The text of a UUID if it differs from the usual form: lower case, with dashes. Placement shows aggregates as the
/// client wrote them.
pub fn unusual_spelling(id: uuid::Uuid, text: &str) -> Option<(uuid::Uuid, String)> {
    (text != id.to_string()).then(|| (id, text.to_owned()))
}

/// The older version, without spellings. Chronova writes it only while a member does not know the newest version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AggregatesReplacedV1 {
    pub provider: ProviderId,
    pub aggregates: Vec<uuid::Uuid>,
    pub bumps_generation: bool,
}

impl From<AggregatesReplacedV1> for AggregatesReplaced {
    fn from(old: AggregatesReplacedV1) -> Self {
        let AggregatesReplacedV1 { provider, aggregates, bumps_generation } = old;
        Self { provider, aggregates, bumps_generation, spellings: vec![] }
    }
}

impl OlderForm<AggregatesReplaced> for AggregatesReplacedV1 {
    fn of(newest: &AggregatesReplaced) -> Option<Self> {
        let AggregatesReplaced { provider, aggregates, bumps_generation, spellings } = newest.clone();
        spellings.is_empty().then_some(Self { provider, aggregates, bumps_generation })
    }
}

/// A consumer's allocation from one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    pub provider: ProviderId,
    /// Class and amount, sorted by class.
    pub resources: Vec<(String, u64)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claimed {
    pub consumer: ConsumerId,
    pub project: ProjectId,
    pub user: UserId,
    /// For example `INSTANCE` or `MIGRATION`. `None` if no claim of the consumer has given a type, as below Placement
    /// 1.38. Placement then shows `unknown`.
    pub consumer_type: Option<String>,
    /// All allocations of the consumer from now on, sorted by provider.
    pub allocations: Vec<Allocation>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Released {
    pub consumer: ConsumerId,
}

/// One change of several consumers. It raises the generation of each provider that a claim uses, or that a released
/// consumer used, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllocationsReplaced {
    pub claims: Vec<Claimed>,
    pub released: Vec<ConsumerId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceClassCreated {
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceClassDeleted {
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceClassRenamed {
    pub from: String,
    pub to: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraitCreated {
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraitDeleted {
    pub name: String,
}

/// A member of a server group got its allocations on a host. The group's policy counts the member until the member
/// releases these allocations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupMemberPlaced {
    pub group: ServerGroupId,
    pub consumer: ConsumerId,
    /// The host's provider.
    pub provider: ProviderId,
}

/// A provider was taken over from another control plane. It keeps the generation and the times that clients saw there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderAdopted {
    pub provider: ProviderId,
    pub generation: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A consumer was taken over from another control plane. It keeps the generation and the times that clients saw there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsumerAdopted {
    pub consumer: ConsumerId,
    pub generation: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// One example of each event.
pub fn samples() -> Vec<LedgerEvent> {
    let uuid = uuid::Uuid::from_u128;
    let provider = ProviderId(uuid(1));
    let consumer = ConsumerId::new("00000000-0000-0000-0000-000000000002");
    let inventory = Inventory {
        class: "VCPU".into(),
        total: 8,
        reserved: 1,
        min_unit: 1,
        max_unit: 8,
        step_size: 1,
        allocation_ratio: 4.0,
    };
    let claimed = Claimed {
        consumer: consumer.clone(),
        project: ProjectId::new("p"),
        user: UserId::new("u"),
        consumer_type: Some("INSTANCE".into()),
        allocations: vec![Allocation { provider, resources: vec![("VCPU".into(), 2)] }],
    };
    let mut all: Vec<LedgerEvent> = vec![
        ProviderCreated { provider, name: "h1".into(), parent: None }.into(),
        ProviderChanged { provider, name: "h1".into(), parent: Some(ProviderId(uuid(3))) }.into(),
        ProviderDeleted { provider }.into(),
        InventoryReplaced { provider, inventories: vec![inventory] }.into(),
        TraitsReplaced { provider, traits: vec!["COMPUTE_NODE".into()] }.into(),
        AggregatesReplaced {
            provider,
            aggregates: vec![uuid(4)],
            bumps_generation: true,
            spellings: vec![(uuid(4), "00000000000000000000000000000004".into())],
        }
        .into(),
        claimed.clone().into(),
        Released { consumer: consumer.clone() }.into(),
        AllocationsReplaced { claims: vec![claimed], released: vec![consumer.clone()] }.into(),
        ResourceClassCreated { name: "CUSTOM_GOLD".into() }.into(),
        ResourceClassDeleted { name: "CUSTOM_GOLD".into() }.into(),
        ResourceClassRenamed { from: "CUSTOM_GOLD".into(), to: "CUSTOM_SILVER".into() }.into(),
        TraitCreated { name: "CUSTOM_FAST".into() }.into(),
        TraitDeleted { name: "CUSTOM_FAST".into() }.into(),
        GroupMemberPlaced { group: ServerGroupId(uuid(5)), consumer: consumer.clone(), provider }.into(),
    ];
    all.extend(super::cells::samples());
    all.extend(super::pci::samples());
    let (created_at, updated_at) = (Timestamp(1_760_000_000_000_000), Timestamp(1_760_000_001_000_000));
    all.push(ProviderAdopted { provider, generation: 12, created_at, updated_at }.into());
    all.push(ConsumerAdopted { consumer, generation: 3, created_at, updated_at }.into());
    all.push(super::provider_config::sample());
    all
}
