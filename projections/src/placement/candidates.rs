//! Which providers could take a request: `GET /allocation_candidates`.
//!
//! A request has groups. What the group without a suffix asks for may come from several providers of one tree, or from
//! providers that share with the tree through an aggregate; what a group with a suffix asks for comes from one provider.
//! Every answer is anchored in one tree. The rules are Placement's (API reference, "Allocation candidates" and the
//! documents on provider trees and granular requests).
//!
//! The search is a proposal: the ledger's `decide` has the last word when the answer is claimed.

use std::collections::{BTreeMap, BTreeSet};

use chronova_events::ids::ProviderId;
use chronova_events::ledger::{Ledger, Provider};
use uuid::Uuid;

use super::trees::Trees;

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
        self.forbidden.is_disjoint(traits) && self.is_satisfied_by(traits)
    }

    fn is_satisfied_by(&self, traits: &BTreeSet<String>) -> bool {
        self.required.iter().all(|any| !any.is_disjoint(traits))
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
pub struct Group {
    /// Empty for the group that several providers may serve together.
    pub suffix: String,
    pub resources: BTreeMap<String, u64>,
    pub traits: TraitFilter,
    pub aggregates: AggregateFilter,
    /// Only from the tree of this provider.
    pub in_tree: Option<ProviderId>,
}

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    pub groups: Vec<Group>,
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

/// One way to serve the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub allocations: BTreeMap<ProviderId, BTreeMap<String, u64>>,
    /// Which providers serve which group.
    pub mappings: BTreeMap<String, BTreeSet<ProviderId>>,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    pub candidates: Vec<Candidate>,
    /// The providers that the answer describes: all of the trees that the candidates use.
    pub providers: BTreeSet<ProviderId>,
}

/// How one group can be served from one tree: (provider, class, amount), and the providers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    amounts: BTreeMap<(ProviderId, String), u64>,
    providers: BTreeSet<ProviderId>,
}

/// By anchor: the root of the tree that an answer belongs to.
type Parts = BTreeMap<ProviderId, BTreeSet<Part>>;

/// By anchor: the providers that have room.
type ByAnchor<'a> = BTreeMap<ProviderId, Vec<&'a Provider>>;

/// All ways to serve `request`, at most as many as it wants.
pub fn search(ledger: &Ledger, request: &Request) -> Found {
    let trees = Trees::of(ledger);
    let search = Search { trees: &trees, request };
    let mut parts: Vec<(&Group, Parts)> = Vec::new();
    for group in &request.groups {
        let found = if group.suffix.is_empty() { search.served_by_trees(group) } else { search.served_by_one(group) };
        if found.is_empty() {
            return Found::default();
        }
        parts.push((group, found));
    }
    let candidates = search.merge(&parts);
    search.describe(candidates)
}

struct Search<'a> {
    trees: &'a Trees<'a>,
    request: &'a Request,
}

impl Search<'_> {
    fn anchor_is_wanted(&self, root: ProviderId) -> bool {
        let traits = &self.request.root_traits;
        traits.is_empty() || self.trees.provider(root).is_some_and(|root| traits.admits(&root.traits))
    }

    fn is_in_tree(&self, group: &Group, id: ProviderId) -> bool {
        group.in_tree.is_none_or(|wanted| self.trees.root(wanted) == self.trees.root(id))
    }

    /// One provider serves the whole group.
    fn served_by_one(&self, group: &Group) -> Parts {
        let mut parts = Parts::new();
        for provider in self.trees.providers() {
            let fits = group.resources.iter().all(|(class, amount)| has_room(provider, class, *amount));
            if !fits
                || !self.is_in_tree(group, provider.id)
                || !group.traits.admits(&provider.traits)
                || !group.aggregates.includes(provider)
                || group.aggregates.excludes(provider)
            {
                continue;
            }
            let amounts = group.resources.iter().map(|(class, amount)| ((provider.id, class.clone()), *amount));
            let part = Part { amounts: amounts.collect(), providers: BTreeSet::from([provider.id]) };
            let mut anchors = BTreeSet::from([self.trees.root(provider.id)]);
            if self.trees.sharing().contains(&provider.id) {
                anchors.extend(self.trees.anchors(provider));
            }
            for anchor in anchors.into_iter().filter(|anchor| self.anchor_is_wanted(*anchor)) {
                parts.entry(anchor).or_default().insert(part.clone());
            }
        }
        parts
    }

    /// Providers of a tree, and those that share with it, serve the group together.
    fn served_by_trees(&self, group: &Group) -> Parts {
        let by_class: Vec<(&String, u64, ByAnchor<'_>)> = group
            .resources
            .iter()
            .map(|(class, amount)| (class, *amount, self.with_room_by_anchor(group, class, *amount)))
            .collect();
        let Some((_, _, first)) = by_class.first() else { return Parts::new() };
        let mut parts = Parts::new();
        for anchor in first.keys() {
            let choices: Option<Vec<&Vec<&Provider>>> =
                by_class.iter().map(|(_, _, found)| found.get(anchor)).collect();
            let Some(choices) = choices else { continue };
            for chosen in Product::new(choices.iter().map(|choice| choice.len())) {
                let providers: Vec<&Provider> = chosen.iter().zip(&choices).map(|(at, choice)| choice[*at]).collect();
                let traits: BTreeSet<String> = providers.iter().flat_map(|one| one.traits.iter().cloned()).collect();
                if !group.traits.admits(&traits) {
                    continue;
                }
                let amounts = providers
                    .iter()
                    .zip(&by_class)
                    .map(|(provider, (class, amount, _))| ((provider.id, (*class).clone()), *amount))
                    .collect();
                let part = Part { amounts, providers: providers.iter().map(|provider| provider.id).collect() };
                parts.entry(*anchor).or_default().insert(part);
            }
        }
        parts
    }

    fn with_room_by_anchor(&self, group: &Group, class: &str, amount: u64) -> ByAnchor<'_> {
        let mut found = ByAnchor::new();
        for provider in self.trees.providers() {
            if !has_room(provider, class, amount) || !self.is_in_tree(group, provider.id) {
                continue;
            }
            let mut anchors = BTreeSet::from([self.trees.root(provider.id)]);
            // A tree that was asked for by name takes nothing from outside.
            if group.in_tree.is_none()
                && self.trees.sharing().contains(&provider.id)
                && group.aggregates.includes(provider)
            {
                anchors.extend(self.trees.anchors(provider));
            }
            for anchor in anchors {
                if self.anchor_is_wanted(anchor) && self.aggregates_admit(group, provider, anchor) {
                    found.entry(anchor).or_default().push(provider);
                }
            }
        }
        found
    }

    /// A provider counts as a member of what the root of its tree is a member of.
    fn aggregates_admit(&self, group: &Group, provider: &Provider, anchor: ProviderId) -> bool {
        let root = self.trees.provider(anchor);
        let filter = &group.aggregates;
        (filter.includes(provider) || root.is_some_and(|root| filter.includes(root)))
            && !filter.excludes(provider)
            && !root.is_some_and(|root| filter.excludes(root))
    }

    /// One part per group, all in the same tree.
    fn merge(&self, parts: &[(&Group, Parts)]) -> Vec<Candidate> {
        let mut found: BTreeSet<Candidate> = BTreeSet::new();
        let mut ordered = Vec::new();
        let Some((_, first)) = parts.first() else { return ordered };
        for anchor in first.keys() {
            let choices: Option<Vec<(&Group, Vec<&Part>)>> = parts
                .iter()
                .map(|(group, by_anchor)| Some((*group, by_anchor.get(anchor)?.iter().collect())))
                .collect();
            let Some(choices) = choices else { continue };
            for chosen in Product::new(choices.iter().map(|(_, parts)| parts.len())) {
                let chosen: Vec<(&Group, &Part)> =
                    chosen.iter().zip(&choices).map(|(at, (group, parts))| (*group, parts[*at])).collect();
                let Some(candidate) = self.candidate(&chosen) else { continue };
                if found.insert(candidate.clone()) {
                    ordered.push(candidate);
                }
                if self.request.limit.is_some_and(|limit| ordered.len() >= limit) {
                    return ordered;
                }
            }
        }
        ordered
    }

    fn candidate(&self, chosen: &[(&Group, &Part)]) -> Option<Candidate> {
        let mut mappings: BTreeMap<String, BTreeSet<ProviderId>> = BTreeMap::new();
        let mut allocations: BTreeMap<ProviderId, BTreeMap<String, u64>> = BTreeMap::new();
        for (group, part) in chosen {
            mappings.entry(group.suffix.clone()).or_default().extend(&part.providers);
            for ((provider, class), amount) in &part.amounts {
                let total = allocations.entry(*provider).or_default().entry(class.clone()).or_default();
                *total = total.saturating_add(*amount);
            }
        }
        let candidate = Candidate { allocations, mappings };
        let good = self.is_isolated(chosen)
            && self.is_in_subtrees(&candidate)
            && self.fits_together(&candidate)
            && !(self.request.flat && self.uses_a_tree_twice(&candidate));
        good.then_some(candidate)
    }

    fn is_isolated(&self, chosen: &[(&Group, &Part)]) -> bool {
        if !self.request.isolate {
            return true;
        }
        let mut seen = BTreeSet::new();
        chosen
            .iter()
            .filter(|(group, _)| !group.suffix.is_empty())
            .all(|(_, part)| part.providers.iter().all(|provider| seen.insert(*provider)))
    }

    fn is_in_subtrees(&self, candidate: &Candidate) -> bool {
        self.request.same_subtrees.iter().all(|suffixes| {
            let providers: BTreeSet<ProviderId> =
                suffixes.iter().filter_map(|suffix| candidate.mappings.get(suffix)).flatten().copied().collect();
            let mut above = providers.iter().map(|provider| self.trees.ancestors(*provider));
            let Some(first) = above.next() else { return true };
            let common = above.fold(first, |common, next| &common & &next);
            !common.is_disjoint(&providers)
        })
    }

    /// Groups that were looked at one by one may together want more than a provider has.
    fn fits_together(&self, candidate: &Candidate) -> bool {
        candidate.allocations.iter().all(|(id, amounts)| {
            let Some(provider) = self.trees.provider(*id) else { return false };
            amounts.iter().all(|(class, amount)| {
                let line = provider.inventories.get(class);
                line.is_some_and(|line| *amount <= line.free() && *amount <= line.inventory.max_unit)
            })
        })
    }

    fn uses_a_tree_twice(&self, candidate: &Candidate) -> bool {
        let mut roots = BTreeSet::new();
        !candidate.allocations.keys().all(|provider| roots.insert(self.trees.root(*provider)))
    }

    fn describe(&self, candidates: Vec<Candidate>) -> Found {
        let used: BTreeSet<ProviderId> =
            candidates.iter().flat_map(|candidate| candidate.allocations.keys().copied()).collect();
        let providers = if self.request.flat && self.trees.nested() {
            used
        } else {
            let roots: BTreeSet<ProviderId> = used.iter().map(|provider| self.trees.root(*provider)).collect();
            let all = self.trees.providers().map(|provider| provider.id);
            all.filter(|provider| roots.contains(&self.trees.root(*provider))).collect()
        };
        Found { candidates, providers }
    }
}

fn has_room(provider: &Provider, class: &str, amount: u64) -> bool {
    provider.inventories.get(class).is_some_and(|line| line.admits(amount))
}

/// All ways to choose one of each, as indexes; the last varies fastest.
struct Product {
    lengths: Vec<usize>,
    next: Option<Vec<usize>>,
}

impl Product {
    fn new(lengths: impl Iterator<Item = usize>) -> Self {
        let lengths: Vec<usize> = lengths.collect();
        let next = lengths.iter().all(|length| *length > 0).then(|| vec![0; lengths.len()]);
        Self { lengths, next }
    }
}

impl Iterator for Product {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let current = self.next.clone()?;
        let at = self.next.as_mut()?;
        let mut carried = true;
        for (index, length) in at.iter_mut().zip(&self.lengths).rev() {
            *index += 1;
            if *index < *length {
                carried = false;
                break;
            }
            *index = 0;
        }
        if carried {
            self.next = None;
        }
        Some(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ledger::{
        AggregatesReplaced, Inventory, InventoryReplaced, LedgerEvent, ProviderCreated, TraitsReplaced,
    };

    fn id(n: u128) -> ProviderId {
        ProviderId(Uuid::from_u128(n))
    }

    fn provider(
        n: u128,
        parent: Option<u128>,
        has: &[(&str, u64)],
        traits: &[&str],
        aggregate: u128,
    ) -> Vec<LedgerEvent> {
        let inventory = |(class, total): &(&str, u64)| Inventory {
            class: (*class).into(),
            total: *total,
            reserved: 0,
            min_unit: 1,
            max_unit: *total,
            step_size: 1,
            allocation_ratio: 1.0,
        };
        vec![
            ProviderCreated { provider: id(n), name: n.to_string(), parent: parent.map(id) }.into(),
            InventoryReplaced { provider: id(n), inventories: has.iter().map(inventory).collect() }.into(),
            TraitsReplaced { provider: id(n), traits: traits.iter().map(ToString::to_string).collect() }.into(),
            AggregatesReplaced {
                provider: id(n),
                aggregates: vec![Uuid::from_u128(aggregate)],
                bumps_generation: true,
            }
            .into(),
        ]
    }

    /// Two hosts without disk, of which the first has two network cards, and a disk that both share.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        let all = [
            provider(1, None, &[("VCPU", 4)], &["HW_CPU_X86_AVX"], 90),
            provider(2, None, &[("VCPU", 8)], &[], 90),
            provider(11, Some(1), &[("SRIOV_NET_VF", 2)], &["CUSTOM_LEFT"], 91),
            provider(12, Some(1), &[("SRIOV_NET_VF", 2)], &["CUSTOM_RIGHT"], 91),
            provider(3, None, &[("DISK_GB", 100)], &["MISC_SHARES_VIA_AGGREGATE"], 90),
        ];
        for event in all.iter().flatten() {
            ledger.evolve(event, Timestamp(0));
        }
        ledger
    }

    fn group(suffix: &str, resources: &[(&str, u64)]) -> Group {
        let resources = resources.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect();
        Group { suffix: suffix.into(), resources, ..Group::default() }
    }

    fn used(request: &Request) -> Vec<Vec<u128>> {
        let found = search(&ledger(), request);
        found.candidates.iter().map(|one| one.allocations.keys().map(|id| id.0.as_u128()).collect()).collect()
    }

    #[test]
    fn a_shared_disk_serves_every_tree_in_its_aggregate() {
        let request = Request { groups: vec![group("", &[("VCPU", 2), ("DISK_GB", 10)])], ..Request::default() };
        assert_eq!(used(&request), [vec![1, 3], vec![2, 3]]);
        let mut avx = request.clone();
        avx.groups[0].traits.required = vec![BTreeSet::from(["HW_CPU_X86_AVX".to_owned()])];
        assert_eq!(used(&avx), [[1, 3]]);
        let mut here = request;
        here.groups[0].in_tree = Some(id(1));
        assert!(used(&here).is_empty());
    }

    #[test]
    fn groups_with_suffixes_come_from_one_provider_each() {
        let groups =
            vec![group("", &[("VCPU", 1)]), group("A", &[("SRIOV_NET_VF", 1)]), group("B", &[("SRIOV_NET_VF", 1)])];
        let request = Request { groups, ..Request::default() };
        assert_eq!(used(&request).len(), 4);
        let isolated = Request { isolate: true, ..request.clone() };
        assert_eq!(used(&isolated), [[1, 11, 12], [1, 11, 12]]);
        assert!(used(&Request { flat: true, ..request.clone() }).is_empty());
        assert_eq!(used(&Request { limit: Some(1), ..request.clone() }).len(), 1);
        let subtree = BTreeSet::from(["A".to_owned(), "B".to_owned()]);
        assert_eq!(used(&Request { same_subtrees: vec![subtree], ..request }), [[1, 11], [1, 12]]);
    }

    #[test]
    fn groups_together_fit_too() {
        let groups = vec![group("A", &[("SRIOV_NET_VF", 2)]), group("B", &[("SRIOV_NET_VF", 1)])];
        assert_eq!(used(&Request { groups, ..Request::default() }), [[11, 12], [11, 12]]);
    }

    #[test]
    fn answers_describe_whole_trees() {
        let request = Request { groups: vec![group("A", &[("SRIOV_NET_VF", 2)])], ..Request::default() };
        assert_eq!(search(&ledger(), &request).providers, BTreeSet::from([id(1), id(11), id(12)]));
        let root = TraitFilter { required: vec![BTreeSet::from(["CUSTOM_NONE".to_owned()])], ..TraitFilter::default() };
        assert_eq!(search(&ledger(), &Request { root_traits: root, ..request }), Found::default());
    }
}
