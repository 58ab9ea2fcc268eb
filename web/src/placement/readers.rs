//! Turns bodies into commands of the ledger.
//!
//! The schemas have validated the bodies before. If a schema does not restrict a key (such as the class of an
//! inventory), the ledger checks it.

use std::collections::BTreeMap;

use chronova_actors::ledger::{ConsumerClaim, SeenGeneration};
use chronova_events::ids::{ConsumerId, ProviderId};
use chronova_events::ledger::{Allocation, Inventory, unusual_spelling};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::reject::nobody_allocates_from;
use super::versions;
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::schema::typed::SentField;
use crate::schema::uuid_of;

/// The project and the user of allocations before 1.8, where a body cannot name them.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// Aggregates of a provider; before 1.19 the list was the whole body.
pub(super) struct AggregatesBody {
    pub(super) aggregates: Vec<Uuid>,
    /// The texts of the UUIDs that are not in the usual form.
    pub(super) spellings: BTreeMap<Uuid, String>,
    /// `None`: the microversion has no generation here.
    pub(super) generation: Option<u64>,
}

impl AggregatesBody {
    pub(super) fn read(ctx: &Ctx) -> Self {
        let with_generation = versions::aggregates_have_generations(ctx.version);
        let list = if with_generation { ctx.body.get("aggregates") } else { Some(&ctx.body) };
        let texts = list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let written: Vec<(Uuid, &str)> = texts.filter_map(|text| Some((uuid_of(text)?, text))).collect();
        Self {
            aggregates: written.iter().map(|(id, _)| *id).collect(),
            spellings: written.iter().filter_map(|(id, text)| unusual_spelling(*id, text)).collect(),
            generation: with_generation.then(|| generation(&ctx.body)),
        }
    }
}

/// A resource class, by its name.
#[derive(Debug, Deserialize)]
pub(super) struct ClassBody {
    pub(super) name: String,
}

/// A new provider, or the change of one.
#[derive(Debug, Deserialize)]
pub(super) struct ProviderBody {
    pub(super) name: String,
    uuid: Option<String>,
    #[serde(default)]
    parent_provider_uuid: SentField<String>,
}

impl ProviderBody {
    /// The id that the client chose.
    pub(super) fn id(&self) -> Option<ProviderId> {
        self.uuid.as_deref().and_then(|text| text.parse().ok())
    }

    /// The parent; `null` means none.
    pub(super) fn parent(&self) -> Option<ProviderId> {
        match &self.parent_provider_uuid {
            SentField::Value(text) => text.parse().ok(),
            SentField::Null | SentField::Nothing => None,
        }
    }

    pub(super) fn mentions_parent(&self) -> bool {
        self.parent_provider_uuid != SentField::Nothing
    }
}

/// The traits of a provider.
pub(super) struct TraitsBody {
    pub(super) traits: Vec<String>,
    pub(super) generation: u64,
}

impl TraitsBody {
    pub(super) fn read(body: &Value) -> Self {
        let traits = body.get("traits").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        Self { traits: traits.map(str::to_owned).collect(), generation: generation(body) }
    }
}

/// The new inventories of a provider.
pub(super) struct InventoriesBody {
    pub(super) generation: u64,
    pub(super) inventories: Vec<Inventory>,
}

impl InventoriesBody {
    pub(super) fn read(body: &Value) -> Self {
        let inventories = body.get("inventories").and_then(Value::as_object).into_iter().flatten();
        Self {
            generation: generation(body),
            inventories: inventories.map(|(class, fields)| inventory(class, fields)).collect(),
        }
    }
}

/// One inventory, of the class that the body names.
pub(super) fn new_inventory(body: &Value) -> Inventory {
    inventory(body.get("resource_class").and_then(Value::as_str).unwrap_or_default(), body)
}

/// Inventories and allocations of several providers. The text beside each inventory is the provider's id as sent.
pub(super) struct ReshapeBody {
    pub(super) inventories: Vec<(String, InventoriesBody)>,
    allocations: Value,
}

impl ReshapeBody {
    pub(super) fn read(body: &Value) -> Self {
        let inventories = body.get("inventories").and_then(Value::as_object).into_iter().flatten();
        Self {
            inventories: inventories.map(|(provider, body)| (provider.clone(), InventoriesBody::read(body))).collect(),
            allocations: body.get("allocations").cloned().unwrap_or_default(),
        }
    }

    pub(super) fn claims(&self, ctx: &Ctx) -> Result<Vec<ConsumerClaim>, Fault> {
        claims(ctx, &self.allocations)
    }
}

/// The generation that the client has seen. A number that no generation can have becomes a generation that no provider
/// has, so the request conflicts.
pub(super) fn generation(body: &Value) -> u64 {
    number(&body["resource_provider_generation"]).unwrap_or(u64::MAX)
}

/// A number; `4.0` counts as an integer in JSON.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // integers below 2^53
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64))
}

/// One inventory, with Placement's defaults for missing keys.
pub(super) fn inventory(class: &str, body: &Value) -> Inventory {
    const MAX_INT: u64 = 0x7FFF_FFFF;
    let field = |name: &str, default| number(&body[name]).unwrap_or(default);
    Inventory {
        class: class.to_owned(),
        total: field("total", 0),
        reserved: field("reserved", 0),
        min_unit: field("min_unit", 1),
        max_unit: field("max_unit", MAX_INT),
        step_size: field("step_size", 1),
        allocation_ratio: body["allocation_ratio"].as_f64().unwrap_or(1.0),
    }
}

/// The claims of a body that lists allocations by consumer.
pub(super) fn claims(ctx: &Ctx, body: &Value) -> Result<Vec<ConsumerClaim>, Fault> {
    body.as_object().into_iter().flatten().map(|(consumer, body)| claim(ctx, consumer, body)).collect()
}

pub(super) fn claim(ctx: &Ctx, consumer: &str, body: &Value) -> Result<ConsumerClaim, Fault> {
    let generation = if versions::has_consumer_generations(ctx.version) {
        let said = &body["consumer_generation"];
        SeenGeneration::Said((!said.is_null()).then(|| number(said).unwrap_or(u64::MAX)))
    } else {
        SeenGeneration::Unsaid
    };
    let text = |key: &str| body[key].as_str().unwrap_or(NOBODY);
    Ok(ConsumerClaim {
        consumer: ConsumerId::new(consumer),
        project: text("project_id").into(),
        user: text("user_id").into(),
        consumer_type: body["consumer_type"].as_str().map(str::to_owned),
        generation,
        allocations: allocations(ctx, &body["allocations"])?,
    })
}

/// Reads allocations: a list before 1.12, an object by provider from then on.
fn allocations(ctx: &Ctx, body: &Value) -> Result<Vec<Allocation>, Fault> {
    let mut by_provider: BTreeMap<ProviderId, Vec<(String, u64)>> = BTreeMap::new();
    let mut add = |provider: &str, resources: &Value| {
        let id = provider.parse().map_err(|_| nobody_allocates_from(provider))?;
        let mut amounts: Vec<(String, u64)> = resources
            .as_object()
            .into_iter()
            .flatten()
            .map(|(class, amount)| (class.clone(), number(amount).unwrap_or(u64::MAX)))
            .collect();
        amounts.sort();
        by_provider.insert(id, amounts);
        Ok::<(), Fault>(())
    };
    if versions::allocations_by_provider(ctx.version) {
        for (provider, allocation) in body.as_object().into_iter().flatten() {
            add(provider, &allocation["resources"])?;
        }
    } else {
        for allocation in body.as_array().into_iter().flatten() {
            add(allocation["resource_provider"]["uuid"].as_str().unwrap_or_default(), &allocation["resources"])?;
        }
    }
    Ok(by_provider.into_iter().map(|(provider, resources)| Allocation { provider, resources }).collect())
}
