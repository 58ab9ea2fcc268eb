//! Adopts Placement's custom names, and its resource providers with their inventories, traits and aggregates.

use std::collections::{BTreeMap, BTreeSet};

use chronova_actors::aggregate::AggregateRoot as _;
use chronova_actors::ledger::{CELL, LedgerRoot};
use chronova_events::envelope::{StreamId, Timestamp};
use chronova_events::ids::{HostId, ProviderId};
use chronova_events::ledger::{
    AggregatesReplaced, Inventory, InventoryReplaced, LedgerEvent, ProviderAdopted, ProviderCreated,
    ResourceClassCreated, TraitCreated, TraitsReplaced, standard, unusual_spelling,
};
use uuid::Uuid;

use super::history::HistoryPart;
use super::report::AdoptedThing;
use super::{Adoption, REPAIR_ROW, Unadoptable};
use crate::nova::database::{NovaDatabase, rows, rows_by};
use crate::nova::rows::NovaRow;

/// A resource provider with all that it has.
struct NovaProvider {
    created: ProviderCreated,
    inventories: Vec<Inventory>,
    traits: Vec<String>,
    aggregates: Vec<Uuid>,
    spellings: BTreeMap<Uuid, String>,
    adopted: ProviderAdopted,
}

/// The rows that belong to providers, by the provider's number, and the names that they use.
struct ProviderParts<'a> {
    uuids: BTreeMap<&'a str, &'a str>,
    inventories: BTreeMap<&'a str, Vec<NovaRow<'a>>>,
    traits: BTreeMap<&'a str, Vec<NovaRow<'a>>>,
    aggregates: BTreeMap<&'a str, Vec<NovaRow<'a>>>,
    class_names: BTreeMap<&'a str, &'a str>,
    trait_names: BTreeMap<&'a str, &'a str>,
    aggregate_uuids: BTreeMap<&'a str, &'a str>,
}

/// The name of each numeric id of a table.
pub(super) fn names<'a>(database: &'a dyn NovaDatabase, table: &'a str, column: &str) -> BTreeMap<&'a str, &'a str> {
    rows(database, table).filter_map(|row| Some((row.text("id")?, row.text(column)?))).collect()
}

pub(super) fn stream() -> StreamId {
    LedgerRoot::stream(&CELL)
}

pub(super) fn adopt(adoption: &mut Adoption<'_>) {
    custom_names(adoption);
    let database = adoption.placement();
    let parts = ProviderParts {
        uuids: names(database, "resource_providers", "uuid"),
        inventories: rows_by(database, "inventories", "resource_provider_id"),
        traits: rows_by(database, "resource_provider_traits", "resource_provider_id"),
        aggregates: rows_by(database, "resource_provider_aggregates", "resource_provider_id"),
        class_names: names(database, "resource_classes", "name"),
        trait_names: names(database, "traits", "name"),
        aggregate_uuids: names(database, "placement_aggregates", "uuid"),
    };
    let mut waiting: Vec<NovaProvider> = Vec::new();
    let mut known = BTreeSet::new();
    for row in rows(database, "resource_providers") {
        let id = row.text("uuid").unwrap_or("?");
        adoption.report.see(AdoptedThing::Provider, id, row.text("name").unwrap_or_default());
        if adoption.report.leaves_out(AdoptedThing::Provider, id) {
            continue;
        }
        match provider(&row, &parts) {
            Ok(provider) if !known.insert(provider.created.provider) => {
                adoption.report.obstacle(AdoptedThing::Provider, id, "its UUID occurs twice", REPAIR_ROW);
            }
            Ok(provider) => waiting.push(provider),
            Err(error) => adoption.report.obstacle(AdoptedThing::Provider, id, error.reason, error.way_out),
        }
    }
    hosts_without_provider(adoption, &known);
    // A parent comes before its children, because a child's event names its parent.
    let mut done: BTreeSet<ProviderId> = BTreeSet::new();
    while !waiting.is_empty() {
        let fit = |provider: &NovaProvider| provider.created.parent.is_none_or(|parent| done.contains(&parent));
        let (ready, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(fit);
        waiting = rest;
        if ready.is_empty() {
            for provider in std::mem::take(&mut waiting) {
                let id = provider.created.provider.to_string();
                let reason = "its parent is not adopted, or the provider is its own parent";
                adoption.report.obstacle(AdoptedThing::Provider, &id, reason, REPAIR_ROW);
            }
        }
        for provider in ready {
            done.insert(provider.created.provider);
            record(adoption, provider);
        }
    }
}

/// Adopts the classes and traits that are not among the standard ones.
fn custom_names(adoption: &mut Adoption<'_>) {
    let (database, meta) = (adoption.placement(), adoption.meta.clone());
    for row in rows(database, "resource_classes") {
        let (Some(name), Ok(at)) = (row.words("name"), row.created_at()) else { continue };
        if !standard::is_standard_class(name) {
            let created = ResourceClassCreated { name: name.to_owned() };
            adoption.history.push(HistoryPart::Providers, stream(), at, &meta, LedgerEvent::from(created));
        }
    }
    for row in rows(database, "traits") {
        let (Some(name), Ok(at)) = (row.words("name"), row.created_at()) else { continue };
        if !standard::is_standard_trait(name) {
            let created = TraitCreated { name: name.to_owned() };
            adoption.history.push(HistoryPart::Providers, stream(), at, &meta, LedgerEvent::from(created));
        }
    }
}

fn provider(row: &NovaRow<'_>, parts: &ProviderParts<'_>) -> Result<NovaProvider, Unadoptable> {
    let id = ProviderId(row.required_uuid("uuid")?);
    let number = row.required("id")?;
    let parent = match row.words("parent_provider_id") {
        None => None,
        Some(parent) => {
            let uuid = parts.uuids.get(parent).and_then(|uuid| uuid.parse().ok());
            Some(uuid.ok_or_else(|| row.wrong("parent_provider_id", "the number of a provider"))?)
        }
    };
    let of = |by: &BTreeMap<&str, Vec<NovaRow<'_>>>| by.get(number).map(Vec::len).unwrap_or_default();
    let mut inventories = Vec::with_capacity(of(&parts.inventories));
    for row in parts.inventories.get(number).into_iter().flatten() {
        inventories.push(inventory(row, parts)?);
    }
    inventories.sort_by(|one, other| one.class.cmp(&other.class));
    let mut traits = BTreeSet::new();
    for row in parts.traits.get(number).into_iter().flatten() {
        let name = row.text("trait_id").and_then(|number| parts.trait_names.get(number));
        traits.insert((*name.ok_or_else(|| row.wrong("trait_id", "the number of a trait"))?).to_owned());
    }
    let (mut aggregates, mut spellings) = (BTreeSet::new(), BTreeMap::new());
    for row in parts.aggregates.get(number).into_iter().flatten() {
        let text = row.text("aggregate_id").and_then(|number| parts.aggregate_uuids.get(number).copied());
        let written = text.and_then(|text| Some((text.parse().ok()?, text)));
        let (uuid, text) = written.ok_or_else(|| row.wrong("aggregate_id", "the number of an aggregate"))?;
        aggregates.insert(uuid);
        spellings.extend(unusual_spelling(uuid, text));
    }
    let created_at = row.created_at()?;
    Ok(NovaProvider {
        created: ProviderCreated { provider: id, name: row.required("name")?.to_owned(), parent },
        inventories,
        traits: traits.into_iter().collect(),
        aggregates: aggregates.into_iter().collect(),
        spellings,
        adopted: ProviderAdopted {
            provider: id,
            generation: row.count("generation")?.unwrap_or(0),
            created_at,
            updated_at: row.updated_at()?,
        },
    })
}

fn inventory(row: &NovaRow<'_>, parts: &ProviderParts<'_>) -> Result<Inventory, Unadoptable> {
    let class = row.text("resource_class_id").and_then(|number| parts.class_names.get(number));
    let amount = |column| row.small(column).map(u64::from);
    Ok(Inventory {
        class: (*class.ok_or_else(|| row.wrong("resource_class_id", "the number of a resource class"))?).to_owned(),
        total: amount("total")?,
        reserved: amount("reserved")?,
        min_unit: amount("min_unit")?,
        max_unit: amount("max_unit")?,
        step_size: amount("step_size")?,
        allocation_ratio: row.real("allocation_ratio")?.filter(|ratio| *ratio >= 0.0).unwrap_or(1.0),
    })
}

/// Reports hosts without a provider: the scheduler finds a host by its provider.
fn hosts_without_provider(adoption: &mut Adoption<'_>, known: &BTreeSet<ProviderId>) {
    let without: Vec<String> = adoption
        .hosts
        .all()
        .filter(|host| !known.contains(&ProviderId(host.id.0)))
        .map(|host| host.hostname.clone())
        .collect();
    for name in without {
        let way_out = "start nova-compute once, so that it creates the provider, or leave the host out";
        adoption.report.obstacle(AdoptedThing::Host, &name, "Placement has no provider with its UUID", way_out);
    }
}

fn record(adoption: &mut Adoption<'_>, found: NovaProvider) {
    let NovaProvider { created, inventories, traits, aggregates, spellings, adopted } = found;
    let (provider, at, meta) = (created.provider, adopted.created_at, adoption.meta.clone());
    if !adoption.hosts.has(HostId(provider.0)) && created.parent.is_none() {
        let reason = "it is not a compute host: another service has to keep it";
        adoption.report.note(AdoptedThing::Provider, &provider.to_string(), reason);
    }
    let mut push = |at: Timestamp, event: LedgerEvent| {
        adoption.history.push(HistoryPart::Providers, stream(), at, &meta, event);
    };
    push(at, created.into());
    if !inventories.is_empty() {
        push(at, InventoryReplaced { provider, inventories }.into());
    }
    if !traits.is_empty() {
        push(at, TraitsReplaced { provider, traits }.into());
    }
    if !aggregates.is_empty() {
        let spellings = spellings.into_iter().collect();
        push(at, AggregatesReplaced { provider, aggregates, bumps_generation: false, spellings }.into());
    }
    adoption.adopted_providers.push(adopted);
}
