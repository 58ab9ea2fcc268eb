//! The terms under which an event is found, and the terms that a query needs.
//!
//! A term is a hash of a property of the event. Different properties can have the same term, because every found event
//! is compared with the query itself.
//!
//! Only the columns of an event that are stored in clear text, and the unsealed part of its payload, become terms. The
//! index never opens a seal, so an erasure has nothing to remove from it. A sealed address has no term of its own. One
//! term marks all events with a sealed address.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::access::AccessEvent;
use crate::envelope::{Cause, Recorded, Timestamp};
use crate::registry::NounEvent as _;
use crate::sealed;
use crate::store::criteria::{Criteria, matches};

/// A hash of a property. The four highest bits say what it is a property of, so related terms are neighbours.
pub(super) type Term = u64;

/// The most UUIDs in one payload that get terms of their own.
const MOST_THINGS: usize = 64;
/// The largest number of terms that one filter may look up in a part of the index. A filter with more terms searches
/// the log itself.
const MOST_TERMS: usize = 2_000;
/// [`EventProperty::StreamStart`] has the stream's category and this many bytes of its key, a quarter of a UUID.
const START: usize = 8;

/// The property of an event that a term hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventProperty {
    Category = 0,
    Kind = 1,
    /// The beginning of the stream's name: the category and a few characters of the key.
    StreamStart = 2,
    User = 3,
    Project = 4,
    Request = 5,
    Correlation = 6,
    Address = 7,
    /// The payload may have a sealed address.
    SealedAddress = 8,
    /// The UUID of the stream, or a UUID in the payload.
    Thing = 9,
    /// The payload has more UUIDs than [`MOST_THINGS`].
    ManyThings = 10,
}

impl EventProperty {
    pub(super) fn term(self, value: &[u8]) -> Term {
        let hash = blake3::hash(value);
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        (u64::from_le_bytes(first) >> 4) | ((self as u64) << 60)
    }
}

/// Adds the terms of an event to `terms`.
pub(super) fn of_event(recorded: &Recorded, terms: &mut BTreeSet<Term>) {
    let meta = &*recorded.meta;
    let (name, category) = (recorded.stream.as_str().as_bytes(), recorded.stream.category());
    terms.insert(EventProperty::Category.term(category.as_bytes()));
    terms.insert(EventProperty::Kind.term(recorded.kind.as_bytes()));
    terms.insert(EventProperty::StreamStart.term(&name[..name.len().min(category.len() + 1 + START)]));
    terms.insert(EventProperty::Correlation.term(meta.correlation.as_bytes()));
    if let Some(request) = &meta.request_id {
        terms.insert(EventProperty::Request.term(plain_request(request.as_str()).as_bytes()));
    }
    let mut sourced = false;
    if let Cause::User { user, project, source, .. } = &meta.cause {
        terms.insert(EventProperty::User.term(user.as_str().as_bytes()));
        if let Some(project) = project {
            terms.insert(EventProperty::Project.term(project.as_str().as_bytes()));
        }
        sourced = source.is_some();
        if let Some(address) = source.as_ref().and_then(|source| source.address.as_ref()) {
            terms.insert(EventProperty::Address.term(address.as_bytes()));
        }
    }
    if category == AccessEvent::NOUN && !sourced {
        terms.insert(EventProperty::SealedAddress.term(b""));
    }
    let mut things = BTreeSet::new();
    if !uuids(sealed::clear_part(recorded.codec, &recorded.data), &mut things) {
        things.clear();
        terms.insert(EventProperty::ManyThings.term(b""));
    }
    things.extend(recorded.stream.key().parse::<Uuid>());
    terms.extend(things.iter().map(|thing| EventProperty::Thing.term(thing.as_bytes())));
}

fn plain_request(id: &str) -> &str {
    id.strip_prefix("req-").unwrap_or(id)
}

/// Whether the bytes have the version and the variant of a UUID of RFC 9562. Random bytes rarely do.
fn is_formed(bytes: &[u8]) -> bool {
    (0x10..0x90).contains(&bytes[6]) && (0x80..0xc0).contains(&bytes[8])
}

/// Adds each well-formed UUID that `data` contains as bytes or as text. Returns `false` if there are too many.
fn uuids(data: &[u8], found: &mut BTreeSet<Uuid>) -> bool {
    let mut digits = 0;
    for (at, byte) in data.iter().enumerate() {
        if (0x80..0xc0).contains(byte)
            && at >= 8
            && let Some(bytes) = data.get(at - 8..at + 8)
            && is_formed(bytes)
        {
            found.extend(Uuid::from_slice(bytes));
        }
        if *byte == b'-'
            && at >= 8
            && let Some(text) = data.get(at - 8..at + 28)
            && [8, 13, 18, 23].iter().all(|dash| text[*dash] == b'-')
        {
            found.extend(Uuid::try_parse_ascii(text));
        }
        digits = if byte.is_ascii_hexdigit() { digits + 1 } else { 0 };
        if digits >= 32 {
            let text = &data[at - 31..=at];
            if (b'1'..=b'8').contains(&text[12]) && matches!(text[16], b'8' | b'9' | b'a' | b'b') {
                found.extend(Uuid::try_parse_ascii(text));
            }
        }
        if found.len() > MOST_THINGS {
            return false;
        }
    }
    true
}

/// One filter of a query. An event matches only if it has one of the filter's terms.
#[derive(Debug, Clone)]
pub(super) enum IndexFilter {
    Terms(Vec<Term>),
    /// Patterns of kinds.
    Kinds(Vec<String>),
    /// Patterns of streams.
    Streams(Vec<String>),
}

/// The part of a query that the index can answer.
#[derive(Debug, Clone)]
pub(super) struct IndexPlan {
    /// The filters that usually leave the fewest events come first.
    pub filters: Vec<IndexFilter>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl IndexPlan {
    /// `None` if the index cannot narrow the query.
    pub(super) fn of(criteria: &Criteria) -> Option<Self> {
        let terms = |property: EventProperty, values: &[String]| -> Vec<Term> {
            values.iter().map(|value| property.term(value.as_bytes())).collect()
        };
        let requests = criteria.request_ids.iter().flat_map(|id| [plain_request(id), id]);
        let correlations = criteria.correlations.iter().map(|id| EventProperty::Correlation.term(id.as_bytes()));
        let servers = things(&criteria.servers).map(|mut terms| {
            terms.extend(correlations);
            terms
        });
        let mut addresses = terms(EventProperty::Address, &criteria.addresses);
        if !addresses.is_empty() {
            addresses.push(EventProperty::SealedAddress.term(b""));
        }
        let exact = [
            Some(requests.map(|id| EventProperty::Request.term(id.as_bytes())).collect()),
            servers,
            things(&criteria.hosts),
            Some(addresses),
            Some(terms(EventProperty::User, &criteria.users)),
            Some(terms(EventProperty::Project, &criteria.projects)),
        ];
        let usable = |terms: &Vec<Term>| !terms.is_empty() && terms.len() <= MOST_TERMS;
        let mut filters: Vec<_> = exact.into_iter().flatten().filter(usable).map(IndexFilter::Terms).collect();
        if !criteria.kinds.is_empty() {
            filters.push(IndexFilter::Kinds(criteria.kinds.clone()));
        }
        if !criteria.streams.is_empty() && criteria.streams.iter().all(|pattern| !literal(pattern).is_empty()) {
            filters.push(IndexFilter::Streams(criteria.streams.clone()));
        }
        let plan = Self { filters, since: criteria.since, until: criteria.until };
        (!plan.filters.is_empty() || plan.since.is_some() || plan.until.is_some()).then_some(plan)
    }
}

impl IndexFilter {
    /// The terms to look up in a part of the index that has events of these kinds and categories. Sorted.
    pub(super) fn terms(&self, kinds: &[String], categories: &[String]) -> Vec<Term> {
        let mut terms = match self {
            Self::Terms(terms) => terms.clone(),
            Self::Kinds(patterns) => {
                let wanted = |kind: &&String| patterns.iter().any(|pattern| matches(pattern, kind));
                kinds.iter().filter(wanted).map(|kind| EventProperty::Kind.term(kind.as_bytes())).collect()
            }
            Self::Streams(patterns) => patterns.iter().flat_map(|pattern| of_stream(pattern, categories)).collect(),
        };
        terms.sort_unstable();
        terms.dedup();
        terms
    }
}

/// The terms of these UUIDs; no terms if there are no UUIDs. `None` if the index cannot find all UUIDs.
fn things(ids: &[Uuid]) -> Option<Vec<Term>> {
    if !ids.iter().all(|id| is_formed(id.as_bytes())) {
        return None;
    }
    let mut terms: Vec<Term> = ids.iter().map(|id| EventProperty::Thing.term(id.as_bytes())).collect();
    if !terms.is_empty() {
        terms.push(EventProperty::ManyThings.term(b""));
    }
    Some(terms)
}

/// The part of a pattern before its first wildcard.
fn literal(pattern: &str) -> &str {
    pattern.split(['*', '?']).next().unwrap_or_default()
}

/// The terms of the streams that may match `pattern`.
fn of_stream(pattern: &str, categories: &[String]) -> Vec<Term> {
    let literal = literal(pattern);
    let Some((category, key)) = literal.split_once('-') else {
        let begins = categories.iter().filter(|category| category.starts_with(literal));
        return begins.map(|category| EventProperty::Category.term(category.as_bytes())).collect();
    };
    if key.len() < START {
        return vec![EventProperty::Category.term(category.as_bytes())];
    }
    vec![EventProperty::StreamStart.term(&literal.as_bytes()[..category.len() + 1 + START])]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::envelope::{Meta, NewEvent, Position, StreamId};
    use crate::registry::{Event, samples};
    use crate::store::memory::MemoryStore;
    use crate::store::{EventStore, Expected};

    #[tokio::test]
    async fn a_sealed_address_has_no_term() {
        let store = MemoryStore::new();
        let of = |event: &Event| AccessEvent::of(event)?.client()?.address.clone();
        let accesses: Vec<_> = samples().into_iter().filter_map(|event| Some((of(&event)?, event))).collect();
        assert!(!accesses.is_empty());
        for (address, event) in accesses {
            let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
            let at = store.append(&StreamId::new("access", "user-1"), Expected::Any, vec![new]).await.unwrap();
            let recorded = store.read_all(Position(at.position.0 - 1), 1).await.unwrap().remove(0);
            let mut terms = BTreeSet::new();
            of_event(&recorded, &mut terms);
            assert!(!terms.contains(&EventProperty::Address.term(address.as_bytes())));
            assert!(terms.contains(&EventProperty::SealedAddress.term(b"")));
        }
    }

    #[test]
    fn uuids_are_found_as_bytes_and_as_text() {
        let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, b"x");
        for text in [id.as_bytes().to_vec(), id.to_string().into_bytes(), id.simple().to_string().into_bytes()] {
            for (before, after) in [("", ""), ("ab", "cd"), ("-", "-"), ("\u{e9}", "\u{e9}")] {
                let data = [before.as_bytes(), &text, after.as_bytes()].concat();
                let mut found = BTreeSet::new();
                assert!(uuids(&data, &mut found) && found.contains(&id), "{data:?}");
            }
        }
        let many: Vec<u8> = (0..100_u8).flat_map(|n| Uuid::new_v5(&id, &[n]).into_bytes()).collect();
        assert!(!uuids(&many, &mut BTreeSet::new()));
    }
}
