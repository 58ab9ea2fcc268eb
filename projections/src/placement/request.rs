//! A request for allocation candidates: groups of resources, traits and aggregates.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::Provider;
use uuid::Uuid;

/// Traits that must be there (one of each set) and traits that must not.
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

/// Aggregates of which a provider must be a member (of one of each set), and of which it must not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AggregateFilter {
    pub member_of: Vec<BTreeSet<Uuid>>,
    pub forbidden: BTreeSet<Uuid>,
}

impl AggregateFilter {
    pub fn includes(&self, provider: &Provider) -> bool {
        self.member_of.iter().all(|any| !any.is_disjoint(&provider.aggregates))
    }

    pub fn excludes(&self, provider: &Provider) -> bool {
        !self.forbidden.is_disjoint(&provider.aggregates)
    }
}

/// One group of what is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestGroup {
    /// Empty for the group that several providers may serve together.
    pub suffix: String,
    pub resources: BTreeMap<String, u64>,
    pub traits: TraitFilter,
    pub aggregates: AggregateFilter,
    /// Only from the tree of this provider.
    pub in_tree: Option<ProviderId>,
}

/// A request for allocation candidates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidatesRequest {
    pub groups: Vec<RequestGroup>,
    pub limit: Option<usize>,
    /// Groups with suffixes each get a provider of their own.
    pub isolate: bool,
    /// About the root of the tree.
    pub root_traits: TraitFilter,
    /// Suffixes whose providers must stand under one of themselves.
    pub same_subtrees: Vec<BTreeSet<String>>,
    /// Before 1.29 an answer uses at most one provider of a tree.
    pub flat: bool,
}
