//! Finds the providers that give the ports of a server their resources.
//!
//! A claim in the ledger has amounts by provider, and does not say for which port each amount is. The providers of each
//! group are found from these amounts. If several choices fit, each of them is right, because they only exchange ports
//! that request the same amounts. A port whose binding already names a provider stays with that provider, if possible.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use chronova_events::ids::{HostId, ProviderId};
use chronova_events::ledger::{Allocation, Ledger};
use chronova_projections::placement::candidates::{
    CandidatesRequest, RequestGroup, ResourceAmounts, TraitFilter, search,
};
use chronova_projections::placement::index::ProviderIndex;

use crate::ports::{PortAllocations, PortProviders, PortRequestGroup, PortResourceRequest};

/// The number of choices after which a search ends. Many ports can have more combinations than a machine can try, if the
/// amounts suffice but the traits or subtrees do not fit.
const MOST_CHOICES: usize = 10_000;

/// The providers of each port's groups. `None`: the allocations do not include all that the ports request, or the search
/// has taken too long.
pub fn providers(
    requests: &[PortResourceRequest],
    allocations: &[Allocation],
    ledger: &Ledger,
) -> Option<PortAllocations> {
    let groups = requests.iter().flat_map(|request| request.groups.iter().map(move |group| (request, group)));
    let amounts = |held: &Allocation| held.resources.iter().cloned().collect();
    let mut search = ProviderSearch {
        ledger,
        groups: groups.collect(),
        room: allocations.iter().map(|held| (held.provider, amounts(held))).collect(),
        chosen: Vec::new(),
        left: MOST_CHOICES,
    };
    (search.has_enough() && search.choose()).then(|| search.found(requests))
}

/// Allocations for the port from the tree of the host, at most `limit` different ones.
pub fn proposals(
    index: &ProviderIndex,
    request: &PortResourceRequest,
    host: HostId,
    limit: usize,
) -> Vec<Vec<Allocation>> {
    let group = |group: &PortRequestGroup| RequestGroup {
        suffix: group.id.clone(),
        resources: group.resources.clone(),
        traits: TraitFilter {
            required: group.traits.iter().map(|name| BTreeSet::from([name.clone()])).collect(),
            ..TraitFilter::default()
        },
        in_tree: Some(ProviderId(host.0)),
        ..RequestGroup::default()
    };
    let same_subtree: BTreeSet<String> = request.same_subtree.iter().cloned().collect();
    let wanted = CandidatesRequest {
        groups: request.groups.iter().map(group).collect(),
        limit: Some(limit),
        same_subtrees: (same_subtree.len() > 1).then_some(same_subtree).into_iter().collect(),
        ..CandidatesRequest::default()
    };
    let allocation = |(provider, resources): (ProviderId, ResourceAmounts)| {
        let resources = resources.iter().map(|(class, amount)| (class.to_string(), *amount)).collect();
        Allocation { provider, resources }
    };
    let found = search(index, &wanted).candidates.into_iter();
    found.map(|candidate| candidate.allocations.into_iter().map(allocation).collect()).collect()
}

/// The amounts that the groups of a port take from its providers.
pub fn share(request: &PortResourceRequest, given: &PortProviders) -> Vec<Allocation> {
    let of = |group: &PortRequestGroup| {
        let resources = group.resources.iter().map(|(class, amount)| (class.clone(), *amount)).collect();
        Some(Allocation { provider: given.of(&group.id)?, resources })
    };
    let groups: Vec<Allocation> = request.groups.iter().filter_map(of).collect();
    sum(&groups)
}

/// The amounts of all these allocations, sorted by provider and class.
pub fn sum<'a>(allocations: impl IntoIterator<Item = &'a Allocation>) -> Vec<Allocation> {
    let mut amounts: BTreeMap<ProviderId, BTreeMap<String, u64>> = BTreeMap::new();
    for held in allocations {
        let of = amounts.entry(held.provider).or_default();
        for (class, amount) in &held.resources {
            let sum = of.entry(class.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }
    let allocation = |(provider, resources): (ProviderId, BTreeMap<String, u64>)| {
        let resources = resources.into_iter().collect();
        Allocation { provider, resources }
    };
    amounts.into_iter().map(allocation).collect()
}

struct ProviderSearch<'a> {
    ledger: &'a Ledger,
    groups: Vec<(&'a PortResourceRequest, &'a PortRequestGroup)>,
    /// The amounts that no group has taken yet.
    room: BTreeMap<ProviderId, BTreeMap<String, u64>>,
    /// The chosen providers of the first groups.
    chosen: Vec<ProviderId>,
    /// The number of further choices that the search may make.
    left: usize,
}

impl ProviderSearch<'_> {
    /// Whether all providers together have enough of each class. Otherwise the search would try all combinations.
    fn has_enough(&self) -> bool {
        let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
        for (class, amount) in self.groups.iter().flat_map(|(_, group)| &group.resources) {
            let sum = wanted.entry(class.as_str()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        let room = |class: &str| {
            let held = self.room.values().filter_map(|held| held.get(class));
            held.fold(0_u64, |sum, amount| sum.saturating_add(*amount))
        };
        wanted.iter().all(|(class, amount)| room(class) >= *amount)
    }

    /// Chooses a provider for each further group. Returns `false` if that is impossible.
    fn choose(&mut self) -> bool {
        let Some((request, group)) = self.groups.get(self.chosen.len()).copied() else { return self.keeps_subtrees() };
        let bound = request.bound_to.as_ref().and_then(|bound| bound.of(&group.id));
        let mut candidates: Vec<ProviderId> = self.room.keys().copied().collect();
        candidates.sort_by_key(|provider| Some(*provider) != bound);
        for provider in candidates {
            if !self.serves(provider, group) {
                continue;
            }
            let Some(left) = self.left.checked_sub(1) else { return false };
            self.left = left;
            self.change(provider, group, |room, amount| room - amount);
            self.chosen.push(provider);
            if self.choose() {
                return true;
            }
            self.chosen.pop();
            self.change(provider, group, |room, amount| room + amount);
        }
        false
    }

    fn serves(&self, provider: ProviderId, group: &PortRequestGroup) -> bool {
        let Some(room) = self.room.get(&provider) else { return false };
        let has_room = group.resources.iter().all(|(class, amount)| room.get(class).is_some_and(|left| left >= amount));
        let known = self.ledger.providers.get(&provider);
        has_room && known.is_some_and(|known| group.traits.iter().all(|name| known.traits.contains(name)))
    }

    fn change(&mut self, provider: ProviderId, group: &PortRequestGroup, with: fn(u64, u64) -> u64) {
        let Some(room) = self.room.get_mut(&provider) else { return };
        for (class, amount) in &group.resources {
            if let Some(left) = room.get_mut(class) {
                *left = with(*left, *amount);
            }
        }
    }

    /// Whether one of the providers of each set of groups is an ancestor of the others, as Placement requires.
    fn keeps_subtrees(&self) -> bool {
        let all = self.groups.iter().zip(&self.chosen);
        let mut sets: BTreeMap<_, BTreeSet<ProviderId>> = BTreeMap::new();
        for ((request, _), provider) in all.filter(|((request, group), _)| request.same_subtree.contains(&group.id)) {
            sets.entry(request.port).or_default().insert(*provider);
        }
        sets.values().all(|providers| {
            let mut above = providers.iter().map(|provider| self.with_ancestors(*provider));
            let Some(first) = above.next() else { return true };
            let common = above.fold(first, |common, next| &common & &next);
            !common.is_disjoint(providers)
        })
    }

    fn with_ancestors(&self, provider: ProviderId) -> BTreeSet<ProviderId> {
        let parent = |id: &ProviderId| self.ledger.providers.get(id).and_then(|known| known.parent);
        successors(Some(provider), parent).take(self.ledger.providers.len()).collect()
    }

    fn found(&self, requests: &[PortResourceRequest]) -> PortAllocations {
        let mut chosen = self.chosen.iter().copied();
        let of = |request: &PortResourceRequest| {
            let groups: BTreeMap<String, ProviderId> =
                request.groups.iter().map(|group| group.id.clone()).zip(chosen.by_ref()).collect();
            let one = groups.values().next().copied().filter(|_| !request.has_groups);
            (request.port, one.map_or(PortProviders::OfGroups(groups), PortProviders::One))
        };
        requests.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use chronova_events::envelope::Timestamp;
    use chronova_events::fold::Fold;
    use chronova_events::ids::PortId;
    use chronova_events::ledger::{LedgerEvent, ProviderCreated, TraitsReplaced};
    use uuid::Uuid;

    const BANDWIDTH: &str = "NET_BW_EGR_KILOBIT_PER_SEC";
    const PACKETS: &str = "NET_PACKET_RATE_KILOPACKET_PER_SEC";

    fn provider(n: u128) -> ProviderId {
        ProviderId(Uuid::from_u128(n))
    }

    fn port(n: u128) -> PortId {
        PortId(Uuid::from_u128(n))
    }

    /// A host (1) with an agent (2), below which are two bridges: 3 on the physical network A, and 4 on B. Another agent
    /// (5) has no bridge.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        let tree =
            [(1, None, ""), (2, Some(1), ""), (3, Some(2), "CUSTOM_A"), (4, Some(2), "CUSTOM_B"), (5, Some(1), "")];
        for (id, parent, name) in tree {
            let created =
                ProviderCreated { provider: provider(id), name: id.to_string(), parent: parent.map(provider) };
            let traits = TraitsReplaced { provider: provider(id), traits: vec![name.to_owned()] };
            for event in [LedgerEvent::from(created), traits.into()] {
                ledger.evolve(&event, Timestamp(0));
            }
        }
        ledger
    }

    fn held(all: &[(u128, &str, u64)]) -> Vec<Allocation> {
        let one = |(id, class, amount): &(u128, &str, u64)| Allocation {
            provider: provider(*id),
            resources: vec![((*class).to_owned(), *amount)],
        };
        all.iter().map(one).collect()
    }

    fn group(id: &str, class: &str, amount: u64, traits: &[&str]) -> PortRequestGroup {
        PortRequestGroup {
            id: id.to_owned(),
            resources: [(class.to_owned(), amount)].into(),
            traits: traits.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn request(n: u128, groups: Vec<PortRequestGroup>) -> PortResourceRequest {
        PortResourceRequest { port: port(n), groups, same_subtree: vec![], has_groups: false, bound_to: None }
    }

    #[test]
    fn each_port_gets_a_provider_of_its_network() {
        let claimed = held(&[(1, "VCPU", 1), (3, BANDWIDTH, 1000), (4, BANDWIDTH, 1000)]);
        let both = [
            request(1, vec![group("1", BANDWIDTH, 1000, &["CUSTOM_B"])]),
            request(2, vec![group("2", BANDWIDTH, 1000, &["CUSTOM_A"])]),
        ];
        let found = providers(&both, &claimed, &ledger()).unwrap();
        assert_eq!(found[&port(1)], PortProviders::One(provider(4)));
        assert_eq!(found[&port(2)], PortProviders::One(provider(3)));
        let more = held(&[(3, BANDWIDTH, 1000), (4, BANDWIDTH, 500)]);
        assert_eq!(providers(&both, &more, &ledger()), None, "the claim lacks a part");
        assert_eq!(providers(&[], &[], &ledger()), Some(PortAllocations::new()));
    }

    /// The first choice that fits one group may leave no provider for another.
    #[test]
    fn amounts_are_divided_exactly() {
        let claimed = held(&[(3, BANDWIDTH, 1000), (4, BANDWIDTH, 3000)]);
        let ports = [
            request(1, vec![group("1", BANDWIDTH, 1000, &[])]),
            request(2, vec![group("2", BANDWIDTH, 2000, &[])]),
            request(3, vec![group("3", BANDWIDTH, 1000, &[])]),
        ];
        let found = providers(&ports, &claimed, &ledger()).unwrap();
        let on = |id| found.values().filter(|given| **given == PortProviders::One(provider(id))).count();
        assert_eq!((on(3), on(4)), (1, 2));
        assert_eq!(found[&port(2)], PortProviders::One(provider(4)));
    }

    /// The amounts suffice for 40 ports on two bridges. Another port has no bridge of its network.
    #[test]
    fn a_search_without_a_result_ends() {
        let claimed = held(&[(3, BANDWIDTH, 1000), (4, BANDWIDTH, 1000)]);
        let any = |n| request(n, vec![group("1", BANDWIDTH, 1, &[])]);
        let mut ports: Vec<PortResourceRequest> = (1..=40).map(any).collect();
        assert_eq!(providers(&ports, &claimed, &ledger()).unwrap().len(), 40);
        ports.push(request(41, vec![group("1", BANDWIDTH, 1, &["CUSTOM_C"])]));
        assert_eq!(providers(&ports, &claimed, &ledger()), None);
    }

    #[test]
    fn amounts_beyond_the_largest_number_do_not_wrap() {
        let largest = held(&[(3, BANDWIDTH, u64::MAX), (4, BANDWIDTH, u64::MAX)]);
        let ports = [(1, "CUSTOM_A"), (2, "CUSTOM_B")]
            .map(|(n, bridge)| request(n, vec![group("1", BANDWIDTH, u64::MAX, &[bridge])]));
        assert_eq!(providers(&ports, &largest, &ledger()).unwrap()[&port(2)], PortProviders::One(provider(4)));
        let both = sum(largest.iter().chain(&largest));
        assert_eq!(both, largest);
    }

    #[test]
    fn a_bound_port_stays_with_its_provider() {
        let claimed = held(&[(3, BANDWIDTH, 1000), (4, BANDWIDTH, 1000)]);
        let bound = |id| PortResourceRequest {
            bound_to: Some(PortProviders::One(provider(id))),
            ..request(1, vec![group("1", BANDWIDTH, 1000, &[])])
        };
        for id in [3, 4] {
            assert_eq!(
                providers(&[bound(id)], &claimed, &ledger()).unwrap()[&port(1)],
                PortProviders::One(provider(id))
            );
        }
        let elsewhere = providers(&[bound(99)], &claimed, &ledger()).unwrap();
        assert_eq!(elsewhere[&port(1)], PortProviders::One(provider(3)), "the provider of another host");
    }

    #[test]
    fn the_groups_of_a_port_are_in_one_subtree() {
        let groups = vec![group("bandwidth", BANDWIDTH, 1000, &["CUSTOM_A"]), group("packets", PACKETS, 10, &[])];
        let both = PortResourceRequest {
            same_subtree: vec!["bandwidth".to_owned(), "packets".to_owned()],
            has_groups: true,
            ..request(1, groups)
        };
        let claimed = held(&[(2, PACKETS, 10), (3, BANDWIDTH, 1000), (5, PACKETS, 10)]);
        let found = providers(std::slice::from_ref(&both), &claimed, &ledger()).unwrap();
        let expected = [("bandwidth".to_owned(), provider(3)), ("packets".to_owned(), provider(2))];
        assert_eq!(found[&port(1)], PortProviders::OfGroups(expected.into()));
        let apart = held(&[(3, BANDWIDTH, 1000), (5, PACKETS, 10)]);
        assert_eq!(
            providers(std::slice::from_ref(&both), &apart, &ledger()),
            None,
            "another agent has the packet rate"
        );
        let shares = share(&both, &found[&port(1)]);
        assert_eq!(shares, held(&[(2, PACKETS, 10), (3, BANDWIDTH, 1000)]));
    }
}
