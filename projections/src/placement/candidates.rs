//! Searches for providers that could serve a request: `GET /allocation_candidates`.
//!
//! A request has groups. The group without a suffix may be served by several providers of one tree, and by providers
//! that share with the tree through an aggregate. A group with a suffix is served by one provider. Every candidate is
//! anchored in one tree. The rules are Placement's (API reference, "Allocation candidates", and the documents on
//! provider trees and granular requests).
//!
//! First the search intersects sets of the index ([`plan`]). This leaves the trees that may serve every group. Then it
//! searches one tree after the other ([`combine`]) until it has the requested number of candidates. So a request with
//! few possible providers, or with a small limit, costs little in any cloud.
//!
//! The result is only a proposal. When a candidate is claimed, the ledger's `decide` has the last word.

mod combine;
mod plan;

use std::sync::Arc;

use chronova_events::ids::ProviderId;
use chronova_events::ledger::Provider;

use super::index::{ProviderIndex, ProviderStock};
pub use super::request::{AggregateFilter, CandidatesRequest, RequestGroup, TraitFilter};
use crate::slots::Slots;

/// The limit on candidates. No client can use more, and a wide tree can have astronomically many combinations.
const MOST: usize = 100_000;

/// Resource classes and amounts, sorted by class. Candidates share them, because most candidates of a request have the
/// same amounts.
pub type ResourceAmounts = Arc<[(Arc<str>, u64)]>;

/// One way to serve the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidate {
    /// The amounts to take from each provider, sorted by provider.
    pub allocations: Vec<(ProviderId, ResourceAmounts)>,
    /// The providers of each group, sorted by suffix and then by id.
    pub mappings: Vec<(Arc<str>, Vec<ProviderId>)>,
}

/// A provider that the answer describes.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSummary {
    pub provider: Arc<Provider>,
    /// The capacity and the usage of its classes.
    pub stock: ProviderStock,
    pub root: ProviderId,
}

/// The answer of `GET /allocation_candidates`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AllocationCandidates {
    pub candidates: Vec<Candidate>,
    /// All providers of the trees that the candidates use, tree by tree. Before microversion 1.29, only the providers
    /// that the candidates use.
    pub providers: Vec<ProviderSummary>,
}

/// Finds the ways to serve `request`, at most as many as the request asks for.
pub fn search(index: &ProviderIndex, request: &CandidatesRequest) -> AllocationCandidates {
    let Some(plan) = plan::SearchPlan::of(index, request) else { return AllocationCandidates::default() };
    let candidates = combine::all(&plan, request.limit.unwrap_or(MOST).min(MOST));
    let providers = describe(index, request, &candidates);
    AllocationCandidates { candidates, providers }
}

/// Describes all providers of the candidates' trees. Before microversion 1.29, describes only the providers that the
/// candidates use.
fn describe(index: &ProviderIndex, request: &CandidatesRequest, candidates: &[Candidate]) -> Vec<ProviderSummary> {
    let used: Slots =
        candidates.iter().flat_map(|one| &one.allocations).filter_map(|(id, _)| index.slot(*id)).collect();
    let mut previous = ProviderStock::from([]);
    let described = |slot| {
        let (provider, root) = (index.provider(slot)?, index.id(index.root_of(slot))?);
        let stock = index.stock(slot, &previous)?;
        if !Arc::ptr_eq(&previous, &stock) {
            previous = Arc::clone(&stock);
        }
        Some(ProviderSummary { provider: Arc::clone(provider), stock, root })
    };
    if request.flat && !index.children().is_empty() {
        return used.iter().filter_map(described).collect();
    }
    let roots: Slots = used.iter().map(|slot| index.root_of(slot)).collect();
    roots.iter().flat_map(|root| index.tree(root)).filter_map(described).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Placement;
    use super::*;
    use std::collections::BTreeSet;

    use uuid::Uuid;

    use chronova_events::envelope::Timestamp;
    use chronova_events::ids::{ConsumerId, ProjectId, UserId};
    use chronova_events::ledger::{
        AggregatesReplaced, Allocation, Claimed, Inventory, InventoryReplaced, LedgerEvent, ProviderCreated,
        TraitsReplaced,
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
                spellings: vec![],
            }
            .into(),
        ]
    }

    /// Two hosts without disk, and a disk provider that both share. The first host has two network cards.
    fn placement() -> Placement {
        let mut placement = Placement::default();
        let all = [
            provider(1, None, &[("VCPU", 4)], &["HW_CPU_X86_AVX"], 90),
            provider(2, None, &[("VCPU", 8)], &[], 90),
            provider(11, Some(1), &[("SRIOV_NET_VF", 2)], &["CUSTOM_LEFT"], 91),
            provider(12, Some(1), &[("SRIOV_NET_VF", 2)], &["CUSTOM_RIGHT"], 91),
            provider(3, None, &[("DISK_GB", 100)], &["MISC_SHARES_VIA_AGGREGATE"], 90),
        ];
        for event in all.iter().flatten() {
            placement.take_in(event, Timestamp(0));
        }
        placement
    }

    fn group(suffix: &str, resources: &[(&str, u64)]) -> RequestGroup {
        let resources = resources.iter().map(|(class, amount)| ((*class).to_owned(), *amount)).collect();
        RequestGroup { suffix: suffix.into(), resources, ..RequestGroup::default() }
    }

    fn used(request: &CandidatesRequest) -> Vec<Vec<u128>> {
        let found = search(&placement().index, request);
        found.candidates.iter().map(|one| one.allocations.iter().map(|(id, _)| id.0.as_u128()).collect()).collect()
    }

    fn described(found: &AllocationCandidates) -> BTreeSet<ProviderId> {
        found.providers.iter().map(|summary| summary.provider.id).collect()
    }

    #[test]
    fn a_shared_disk_serves_every_tree_in_its_aggregate() {
        let request = CandidatesRequest {
            groups: vec![group("", &[("VCPU", 2), ("DISK_GB", 10)])],
            ..CandidatesRequest::default()
        };
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
        let request = CandidatesRequest { groups, ..CandidatesRequest::default() };
        assert_eq!(used(&request).len(), 4);
        let isolated = CandidatesRequest { isolate: true, ..request.clone() };
        assert_eq!(used(&isolated), [[1, 11, 12], [1, 11, 12]]);
        assert!(used(&CandidatesRequest { flat: true, ..request.clone() }).is_empty());
        assert_eq!(used(&CandidatesRequest { limit: Some(1), ..request.clone() }).len(), 1);
        let subtree = BTreeSet::from(["A".to_owned(), "B".to_owned()]);
        assert_eq!(used(&CandidatesRequest { same_subtrees: vec![subtree], ..request }), [[1, 11], [1, 12]]);
    }

    #[test]
    fn groups_must_fit_together() {
        let groups = vec![group("A", &[("SRIOV_NET_VF", 2)]), group("B", &[("SRIOV_NET_VF", 1)])];
        assert_eq!(used(&CandidatesRequest { groups, ..CandidatesRequest::default() }), [[11, 12], [11, 12]]);
    }

    #[test]
    fn equal_providers_share_their_stock_until_one_is_used() {
        let mut placement = Placement::default();
        for event in (1..=3).flat_map(|n| provider(n, None, &[("VCPU", 4)], &[], 90)) {
            placement.take_in(&event, Timestamp(0));
        }
        let request = CandidatesRequest { groups: vec![group("", &[("VCPU", 1)])], ..CandidatesRequest::default() };
        let stocks = |placement: &Placement| -> Vec<ProviderStock> {
            search(&placement.index, &request).providers.into_iter().map(|summary| summary.stock).collect()
        };
        let before = stocks(&placement);
        assert_eq!(before.len(), 3);
        assert!(before.iter().all(|stock| Arc::ptr_eq(stock, &before[0])));
        assert_eq!((before[0][0].capacity, before[0][0].used), (4, 0));
        let claim = Claimed {
            consumer: ConsumerId::new("server"),
            project: ProjectId::new("demo"),
            user: UserId::new("ann"),
            consumer_type: None,
            allocations: vec![Allocation { provider: id(2), resources: vec![("VCPU".into(), 3)] }],
        };
        placement.take_in(&claim.into(), Timestamp(0));
        assert_eq!(stocks(&placement).iter().map(|stock| stock[0].used).collect::<Vec<_>>(), [0, 3, 0]);
    }

    #[test]
    fn answers_describe_whole_trees() {
        let request =
            CandidatesRequest { groups: vec![group("A", &[("SRIOV_NET_VF", 2)])], ..CandidatesRequest::default() };
        assert_eq!(described(&search(&placement().index, &request)), BTreeSet::from([id(1), id(11), id(12)]));
        let root = TraitFilter { required: vec![BTreeSet::from(["CUSTOM_NONE".to_owned()])], ..TraitFilter::default() };
        assert_eq!(
            search(&placement().index, &CandidatesRequest { root_traits: root, ..request }),
            AllocationCandidates::default()
        );
    }
}
