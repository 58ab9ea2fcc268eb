//! The answer to a search for candidates, written straight to bytes.
//!
//! A thousand candidates have megabytes of text. Building a tree of JSON values first would take longer than the
//! search. The tables list the keys of candidates and of summaries by microversion, like the field tables of other
//! views.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use chronova_events::ids::ProviderId;
use chronova_events::ledger::Provider;
use chronova_projections::placement::candidates::{AllocationCandidates, Candidate, ProviderSummary, ResourceAmounts};
use chronova_projections::placement::index::ProviderStock;

use crate::microversion::Microversion;
use crate::schema::{Schema, array, object, object_of, req, shape};

/// A key, the schema of its value, the versions that have it, and the function that writes its value.
pub(in crate::placement) struct VersionedKey<V> {
    name: &'static str,
    shape: fn() -> Schema,
    since: Microversion,
    until: Option<Microversion>,
    write: fn(&V, &mut CandidatesWriter<'_>),
}

const fn written<V>(
    name: &'static str,
    shape: fn() -> Schema,
    write: fn(&V, &mut CandidatesWriter<'_>),
) -> VersionedKey<V> {
    VersionedKey { name, shape, since: Microversion::NONE, until: None, write }
}

/// The schema of the objects that a table writes.
pub(in crate::placement) fn shape_of<V>(table: &[VersionedKey<V>]) -> Schema {
    let property = |key: &VersionedKey<V>| req(key.name, (key.shape)()).within(key.since, key.until);
    object_of(table.iter().map(property).collect())
}

impl<V> VersionedKey<V> {
    const fn since(self, major: u16, minor: u16) -> Self {
        Self { since: Microversion::new(major, minor), ..self }
    }

    const fn until(self, major: u16, minor: u16) -> Self {
        Self { until: Some(Microversion::new(major, minor)), ..self }
    }
}

fn amounts_shape() -> Schema {
    shape::map_of(shape::integer())
}

/// The allocations until 1.11.
fn listed_allocations() -> Schema {
    let provider = object([req("uuid", shape::uuid())]);
    array(object([req("resource_provider", provider), req("resources", amounts_shape())]))
}

fn keyed_allocations() -> Schema {
    shape::map_of(object([req("resources", amounts_shape())]))
}

fn mappings_shape() -> Schema {
    shape::map_of(array(shape::uuid()))
}

fn capacities() -> Schema {
    shape::map_of(object([req("capacity", shape::integer()), req("used", shape::integer())]))
}

/// The keys of a candidate.
pub(in crate::placement) static CANDIDATE: &[VersionedKey<Candidate>] = &[
    written("allocations", listed_allocations, as_list).until(1, 11),
    written("allocations", keyed_allocations, by_provider).since(1, 12),
    written("mappings", mappings_shape, mappings).since(1, 34),
];

/// The keys of a provider's summary.
pub(in crate::placement) static SUMMARY: &[VersionedKey<ProviderSummary>] = &[
    // Before 1.27 a summary shows only the requested classes.
    written("resources", capacities, |described: &ProviderSummary, page| resources(described, page, true)).until(1, 26),
    written("resources", capacities, |described: &ProviderSummary, page| resources(described, page, false))
        .since(1, 27),
    written("traits", shape::strings, |described: &ProviderSummary, page| page.traits(&described.provider))
        .since(1, 17),
    written("parent_provider_uuid", shape::uuid_or_null, |described: &ProviderSummary, page| {
        match described.provider.parent {
            Some(parent) => page.id(parent),
            None => page.raw("null"),
        }
    })
    .since(1, 29),
    written("root_provider_uuid", shape::uuid, |described: &ProviderSummary, page| page.id(described.root))
        .since(1, 29),
];

/// Writes the body of the answer. `asked` has the resource classes of the request.
pub(in crate::placement) fn body(
    found: &AllocationCandidates,
    asked: &BTreeSet<String>,
    version: Microversion,
) -> Vec<u8> {
    let size = found.candidates.len() * 256 + found.providers.len() * 1024;
    let mut page = CandidatesWriter { bytes: Vec::with_capacity(size + 64), asked, last: LastTexts::default() };
    let candidate = plan(CANDIDATE, version);
    let summary = plan(SUMMARY, version);
    page.raw("{\"allocation_requests\":");
    page.list(&found.candidates, |one, page| page.fields(&candidate, one));
    page.raw(",\"provider_summaries\":{");
    for (at, described) in found.providers.iter().enumerate() {
        page.key_id(at, described.provider.id);
        page.fields(&summary, described);
    }
    page.raw("}}");
    page.bytes
}

fn plan<V>(table: &'static [VersionedKey<V>], version: Microversion) -> Vec<&'static VersionedKey<V>> {
    table.iter().filter(|field| version.within(field.since, field.until)).collect()
}

fn as_list(candidate: &Candidate, page: &mut CandidatesWriter<'_>) {
    page.list(&candidate.allocations, |(provider, amounts), page| {
        page.raw("{\"resource_provider\":{\"uuid\":");
        page.id(*provider);
        page.raw("},\"resources\":");
        page.amounts(amounts);
        page.raw("}");
    });
}

fn by_provider(candidate: &Candidate, page: &mut CandidatesWriter<'_>) {
    page.raw("{");
    for (at, (provider, amounts)) in candidate.allocations.iter().enumerate() {
        page.key_id(at, *provider);
        page.raw("{\"resources\":");
        page.amounts(amounts);
        page.raw("}");
    }
    page.raw("}");
}

fn mappings(candidate: &Candidate, page: &mut CandidatesWriter<'_>) {
    page.raw("{");
    for (at, (suffix, providers)) in candidate.mappings.iter().enumerate() {
        page.key(at, suffix);
        page.list(providers, |provider, page| page.id(*provider));
    }
    page.raw("}");
}

fn resources(described: &ProviderSummary, page: &mut CandidatesWriter<'_>, only_asked: bool) {
    // Equal hosts mostly share one stock in memory. Then the pointers are equal, and nothing else is compared.
    let is_same = |last: &ProviderStock| Arc::ptr_eq(last, &described.stock) || *last == described.stock;
    if let Some(range) = page.last.resources.as_ref().and_then(|(last, range)| is_same(last).then(|| range.clone())) {
        return page.bytes.extend_from_within(range);
    }
    let begin = page.bytes.len();
    page.raw("{");
    let asked = page.asked;
    let classes = described.stock.iter().filter(|stocked| !only_asked || asked.contains(&stocked.class));
    for (at, stocked) in classes.enumerate() {
        page.key(at, &stocked.class);
        page.raw("{\"capacity\":");
        page.number(stocked.capacity);
        page.raw(",\"used\":");
        page.number(stocked.used);
        page.raw("}");
    }
    page.raw("}");
    page.last.resources = Some((Arc::clone(&described.stock), begin..page.bytes.len()));
}

/// The text that was written so far.
struct CandidatesWriter<'a> {
    bytes: Vec<u8>,
    asked: &'a BTreeSet<String>,
    last: LastTexts,
}

/// For each kind of text, the place of the text that was written last. Hosts with equal inventories have equal texts,
/// so the writer copies the last text.
#[derive(Default)]
struct LastTexts {
    /// The place of the digits of the last id. A provider's id is written several times in a row.
    id: Option<(ProviderId, usize)>,
    amounts: Option<(ResourceAmounts, Range<usize>)>,
    resources: Option<(ProviderStock, Range<usize>)>,
    traits: Option<(Arc<Provider>, Range<usize>)>,
}

impl CandidatesWriter<'_> {
    fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn text(&mut self, text: &str) {
        if text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\') {
            return self.plain(text);
        }
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.bytes, text);
    }

    /// Text that needs no escapes.
    fn plain(&mut self, text: &str) {
        self.bytes.push(b'"');
        self.raw(text);
        self.bytes.push(b'"');
    }

    fn number(&mut self, number: u64) {
        let _ = write!(self.bytes, "{number}");
    }

    fn id(&mut self, id: ProviderId) {
        const LENGTH: usize = uuid::fmt::Hyphenated::LENGTH;
        self.bytes.push(b'"');
        let begin = self.bytes.len();
        if let Some((_, at)) = self.last.id.filter(|(last, _)| *last == id) {
            self.bytes.extend_from_within(at..at + LENGTH);
        } else {
            let mut digits = [0; LENGTH];
            let text = id.0.hyphenated().encode_lower(&mut digits);
            self.bytes.extend_from_slice(text.as_bytes());
        }
        self.last.id = Some((id, begin));
        self.bytes.push(b'"');
    }

    /// The key of an object's entry number `at` (from 0), with the comma before it.
    fn key(&mut self, at: usize, key: &str) {
        self.comma(at);
        self.text(key);
        self.raw(":");
    }

    fn key_id(&mut self, at: usize, id: ProviderId) {
        self.comma(at);
        self.id(id);
        self.raw(":");
    }

    fn comma(&mut self, at: usize) {
        if at > 0 {
            self.raw(",");
        }
    }

    fn list<T>(&mut self, items: &[T], write: impl Fn(&T, &mut Self)) {
        self.raw("[");
        for (at, item) in items.iter().enumerate() {
            self.comma(at);
            write(item, self);
        }
        self.raw("]");
    }

    fn fields<V>(&mut self, plan: &[&VersionedKey<V>], value: &V) {
        self.raw("{");
        for (at, field) in plan.iter().enumerate() {
            self.comma(at);
            self.plain(field.name);
            self.raw(":");
            (field.write)(value, self);
        }
        self.raw("}");
    }

    fn amounts(&mut self, amounts: &ResourceAmounts) {
        let last = self.last.amounts.as_ref().filter(|(last, _)| Arc::ptr_eq(last, amounts));
        if let Some((_, range)) = last {
            return self.bytes.extend_from_within(range.clone());
        }
        let begin = self.bytes.len();
        self.raw("{");
        for (at, (class, amount)) in amounts.iter().enumerate() {
            self.key(at, class);
            self.number(*amount);
        }
        self.raw("}");
        self.last.amounts = Some((Arc::clone(amounts), begin..self.bytes.len()));
    }

    fn traits(&mut self, provider: &Arc<Provider>) {
        if let Some((last, range)) = &self.last.traits
            && last.traits == provider.traits
        {
            self.bytes.extend_from_within(range.clone());
            return;
        }
        let begin = self.bytes.len();
        self.raw("[");
        for (at, name) in provider.traits.iter().enumerate() {
            self.comma(at);
            self.text(name);
        }
        self.raw("]");
        self.last.traits = Some((Arc::clone(provider), begin..self.bytes.len()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::envelope::Timestamp;
    use chronova_events::ledger::{Inventory, InventoryReplaced, ProviderCreated, TraitsReplaced};
    use chronova_projections::placement::Placement;
    use chronova_projections::placement::candidates::{CandidatesRequest, RequestGroup, search};
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::microversion::v;

    fn id(n: u128) -> ProviderId {
        ProviderId(Uuid::from_u128(n))
    }

    fn answer(version: Microversion) -> Value {
        let mut placement = Placement::default();
        let inventory = |class: &str| Inventory {
            class: class.into(),
            total: 8,
            reserved: 0,
            min_unit: 1,
            max_unit: 8,
            step_size: 1,
            allocation_ratio: 2.0,
        };
        let traits = |of, names: &[&str]| TraitsReplaced {
            provider: id(of),
            traits: names.iter().map(ToString::to_string).collect(),
        };
        for n in 1..=3 {
            let inventories = vec![inventory("CUSTOM_\"X"), inventory("VCPU")];
            placement
                .take_in(&ProviderCreated { provider: id(n), name: n.to_string(), parent: None }.into(), Timestamp(0));
            placement.take_in(&InventoryReplaced { provider: id(n), inventories }.into(), Timestamp(0));
        }
        placement.take_in(&traits(1, &["A", "B"]).into(), Timestamp(0));
        placement.take_in(&traits(2, &["A", "B"]).into(), Timestamp(0));
        let group = RequestGroup { resources: [("VCPU".to_owned(), 3)].into(), ..RequestGroup::default() };
        let found =
            search(&placement.index, &CandidatesRequest { groups: vec![group], ..CandidatesRequest::default() });
        let asked = BTreeSet::from(["VCPU".to_owned()]);
        serde_json::from_slice(&body(&found, &asked, version)).unwrap()
    }

    #[test]
    fn each_version_has_its_form() {
        let one = id(1).to_string();
        let old = answer(v(1, 10));
        let listed = json!({"allocations": [{"resource_provider": {"uuid": one}, "resources": {"VCPU": 3}}]});
        assert_eq!(old["allocation_requests"][0], listed);
        assert_eq!(old["provider_summaries"][&one], json!({"resources": {"VCPU": {"capacity": 16, "used": 0}}}));
        let new = answer(v(1, 39));
        let by_provider = json!({"allocations": {&one: {"resources": {"VCPU": 3}}}, "mappings": {"": [&one]}});
        assert_eq!(new["allocation_requests"][0], by_provider);
        let room = json!({"capacity": 16, "used": 0});
        let summary = json!({
            "resources": {"CUSTOM_\"X": &room, "VCPU": &room},
            "traits": ["A", "B"],
            "parent_provider_uuid": null,
            "root_provider_uuid": &one,
        });
        assert_eq!(new["provider_summaries"][&one], summary);
        assert_eq!(new["provider_summaries"][id(2).to_string()]["traits"], json!(["A", "B"]));
        assert_eq!(new["provider_summaries"][id(3).to_string()]["traits"], json!([]));
        assert_eq!(new["allocation_requests"].as_array().map(Vec::len), Some(3));
    }
}
