//! A request for allocation candidates: groups of resources, traits and aggregates.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use uuid::Uuid;

/// The traits that a provider must have (one of each set) and those that it must not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraitFilter {
    pub required: Vec<BTreeSet<String>>,
    pub forbidden: BTreeSet<String>,
}

impl TraitFilter {
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.forbidden.is_empty()
    }

    pub fn admits(&self, traits: &BTreeSet<String>) -> bool {
        self.forbidden.is_disjoint(traits) && self.required.iter().all(|any| !any.is_disjoint(traits))
    }
}

/// The aggregates that a provider must be in (one of each set), and those that it must not be in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AggregateFilter {
    pub member_of: Vec<BTreeSet<Uuid>>,
    pub forbidden: BTreeSet<Uuid>,
}

/// One group of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestGroup {
    /// Empty for the group that several providers may serve together.
    pub suffix: String,
    pub resources: BTreeMap<String, u64>,
    pub traits: TraitFilter,
    pub aggregates: AggregateFilter,
    /// If set, only providers in the tree of this provider may serve.
    pub in_tree: Option<ProviderId>,
}

/// A request for allocation candidates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidatesRequest {
    pub groups: Vec<RequestGroup>,
    pub limit: Option<usize>,
    /// Whether each group with a suffix gets a provider of its own.
    pub isolate: bool,
    /// The traits that the tree's root must have, and those that it must not have.
    pub root_traits: TraitFilter,
    /// Sets of suffixes. One of the providers that serve such a set must be an ancestor of all others.
    pub same_subtrees: Vec<BTreeSet<String>>,
    /// Whether a candidate uses at most one provider of a tree, as before microversion 1.29.
    pub flat: bool,
}
