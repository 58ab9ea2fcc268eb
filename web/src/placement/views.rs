//! The views of resources, at each microversion.

pub(super) mod candidates;

use std::sync::Arc;

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Allocation, Consumer, InventoryLine, Provider};
use serde_json::{Map, Value, json};

use crate::fields::{FieldTable, field};
use crate::microversion::Microversion;
use crate::schema::shape;

/// A provider with the parts of the answer that are not in its row.
#[derive(Debug)]
pub(super) struct ProviderView {
    pub provider: Arc<Provider>,
    pub root: ProviderId,
    /// The path of the provider, without the host.
    pub url: String,
}

/// The subresources of a provider, in the order in which microversions add their links.
const LINKS: [&str; 5] = ["inventories", "usages", "aggregates", "traits", "allocations"];

pub(super) static PROVIDER: FieldTable<ProviderView> = FieldTable::new(&[
    field("uuid", shape::uuid, |view: &ProviderView| json!(view.provider.id.to_string())),
    field("name", shape::string, |view: &ProviderView| json!(view.provider.name)),
    field("generation", shape::integer, |view: &ProviderView| json!(view.provider.generation)),
    field("links", shape::links, |view: &ProviderView| links(view, 2)).until(1, 0),
    field("links", shape::links, |view: &ProviderView| links(view, 3)).since(1, 1).until(1, 5),
    field("links", shape::links, |view: &ProviderView| links(view, 4)).since(1, 6).until(1, 10),
    field("links", shape::links, |view: &ProviderView| links(view, 5)).since(1, 11),
    field("parent_provider_uuid", shape::uuid_or_null, |view: &ProviderView| {
        json!(view.provider.parent.map(|id| id.to_string()))
    })
    .since(1, 14),
    field("root_provider_uuid", shape::uuid, |view: &ProviderView| json!(view.root.to_string())).since(1, 14),
]);

fn links(view: &ProviderView, count: usize) -> Value {
    let mut links = vec![json!({"rel": "self", "href": view.url})];
    links.extend(LINKS[..count].iter().map(|rel| json!({"rel": rel, "href": format!("{}/{rel}", view.url)})));
    Value::Array(links)
}

pub(super) fn inventory(line: &InventoryLine) -> Value {
    let has = &line.inventory;
    json!({
        "total": has.total,
        "reserved": has.reserved,
        "min_unit": has.min_unit,
        "max_unit": has.max_unit,
        "step_size": has.step_size,
        "allocation_ratio": has.allocation_ratio,
    })
}

pub(super) fn inventories(provider: &Provider) -> Value {
    let by_class: Map<String, Value> =
        provider.inventories.iter().map(|(class, line)| (class.clone(), inventory(line))).collect();
    json!({"resource_provider_generation": provider.generation, "inventories": by_class})
}

/// The attributes of a consumer in the answer, in addition to its allocations.
#[derive(Debug)]
pub(super) struct ConsumerView {
    pub consumer: Arc<Consumer>,
}

pub(super) static CONSUMER: FieldTable<ConsumerView> = FieldTable::new(&[
    field("project_id", shape::string, |view: &ConsumerView| json!(view.consumer.claim.project.as_str())).since(1, 12),
    field("user_id", shape::string, |view: &ConsumerView| json!(view.consumer.claim.user.as_str())).since(1, 12),
    field("consumer_generation", shape::integer, |view: &ConsumerView| json!(view.consumer.generation)).since(1, 28),
    field("consumer_type", shape::string, |view: &ConsumerView| {
        json!(consumer_type(view.consumer.claim.consumer_type.as_deref()))
    })
    .since(1, 38),
]);

/// The attributes of a consumer in a provider's list of allocations, in addition to its resources.
pub(super) static HOLDER: FieldTable<ConsumerView> =
    FieldTable::new(&[field("consumer_generation", shape::integer, |view: &ConsumerView| {
        json!(view.consumer.generation)
    })
    .since(1, 28)]);

/// The type of a consumer; `unknown` for consumers that were created without one.
pub(super) fn consumer_type(known: Option<&str>) -> &str {
    known.unwrap_or("unknown")
}

/// One consumer's allocations by provider; `generations` are those of the providers.
pub(super) fn holdings(held: &[Allocation], generations: &[u64]) -> Value {
    let pairs = held.iter().zip(generations).map(|(held, generation)| {
        (held.provider.to_string(), json!({"resources": amounts(&held.resources), "generation": generation}))
    });
    Value::Object(pairs.collect())
}

/// One consumer in the list of a provider's allocations.
pub(super) fn holder(consumer: Arc<Consumer>, provider: ProviderId, version: Microversion) -> (String, Value) {
    let claim = &consumer.claim;
    let held = claim.allocations.iter().filter(|held| held.provider == provider).flat_map(|held| &held.resources);
    let resources: Map<String, Value> = held.map(|(class, amount)| (class.clone(), json!(amount))).collect();
    let id = claim.consumer.to_string();
    let mut entry = Map::from_iter([("resources".to_owned(), Value::Object(resources))]);
    entry.extend(HOLDER.render_map(&ConsumerView { consumer }, version));
    (id, Value::Object(entry))
}

fn amounts(resources: &[(String, u64)]) -> Value {
    Value::Object(resources.iter().map(|(class, amount)| (class.clone(), json!(amount))).collect())
}
