//! Ports that request resources: the providers below hosts that may serve them together.

use super::*;
use crate::scheduler::request::tests::{TWO_GROUPS, port_group, port_with};

const BANDWIDTH: &str = "NET_BW_EGR_KILOBIT_PER_SEC";
const PACKETS: &str = "NET_PACKET_RATE_KILOPACKET_PER_SEC";

/// Adds a provider below a host or another provider.
fn below(cell: &mut Cell, n: u128, parent: ProviderId, class: &str, total: u64, name: &str) -> ProviderId {
    let provider = ProviderId(Uuid::from_u128(n));
    cell.ledger(ProviderCreated { provider, name: format!("provider-{n}"), parent: Some(parent) });
    cell.ledger(InventoryReplaced { provider, inventories: vec![line(class, total)] });
    cell.ledger(TraitsReplaced { provider, traits: vec![name.to_owned()] });
    provider
}

fn host(n: u128) -> ProviderId {
    ProviderId(host_id(n).0)
}

/// A host with one large bridge, and a host with two small ones.
#[test]
fn ports_share_a_provider_unless_the_policy_isolates_them() {
    let mut cell = Cell::three();
    below(&mut cell, 101, host(1), BANDWIDTH, 2000, "CUSTOM_A");
    below(&mut cell, 201, host(2), BANDWIDTH, 1000, "CUSTOM_A");
    below(&mut cell, 202, host(2), BANDWIDTH, 1000, "CUSTOM_A");
    let ports = ["p1", "p2"].map(|id| port_with(vec![port_group(id, BANDWIDTH, 1000, "CUSTOM_A")])).to_vec();
    let of = |policy: &[(&str, &str)]| RequestSpec { port_requests: ports.clone(), ..specs(policy) };
    assert_eq!(cell.fitting(&of(&[])), ["h1", "h2"], "without a policy of the flavor");
    assert_eq!(cell.fitting(&of(&[("group_policy", "none")])), ["h1", "h2"]);
    assert_eq!(cell.fitting(&of(&[("group_policy", "isolate")])), ["h2"]);
    let decision = cell.decide(&of(&[("group_policy", "isolate")]));
    let bridges = [201, 202].map(|n| ProviderId(Uuid::from_u128(n)));
    let used = |provider| decision.ranked[0].allocations.iter().any(|held| held.provider == provider);
    assert!(bridges.into_iter().all(used), "{:?}", decision.ranked);
    let elsewhere = vec![port_with(vec![port_group("p1", BANDWIDTH, 1000, "CUSTOM_B")])];
    let decision = cell.decide(&RequestSpec { port_requests: elsewhere, ..small() });
    assert!(decision.ranked.is_empty(), "no bridge is on the port's physical network");
    assert_eq!(decision.reasons.lacks.as_deref(), Some("no suitable host has the requested resources free"));
}

/// The numbered groups of a flavor: virtual functions with bandwidth, on cards with traits. The first host has one large
/// card, the second one two small ones, and the third one two cards that lack a trait.
#[test]
fn groups_of_a_flavor_come_from_different_cards_if_the_policy_isolates_them() {
    const BYTES: &str = "CUSTOM_NET_EGRESS_BYTES_SEC";
    let mut cell = Cell::three();
    let (network, fast) = ("CUSTOM_PHYSNET_NET1", "HW_NIC_ACCEL_SSL");
    for (n, at, functions, bytes, traits) in [
        (101, 1, 2, 3000, &[network, fast][..]),
        (201, 2, 1, 2000, &[network, fast][..]),
        (202, 2, 1, 2000, &[network, fast][..]),
        (301, 3, 1, 2000, &[network][..]),
        (302, 3, 1, 2000, &[network][..]),
    ] {
        let provider = below(&mut cell, n, host(at), BYTES, bytes, network);
        let inventories = vec![line(BYTES, bytes), line("SRIOV_NET_VF", functions)];
        cell.ledger(InventoryReplaced { provider, inventories });
        let traits = traits.iter().map(|name| (*name).to_owned()).collect();
        cell.ledger(TraitsReplaced { provider, traits });
    }
    let of = |policy| {
        let more = [("trait2:CUSTOM_PHYSNET_NET1", "required"), ("group_policy", policy)];
        specs(&TWO_GROUPS.into_iter().chain(more).collect::<Vec<_>>())
    };
    assert_eq!(cell.fitting(&of("none")), ["h1", "h2"]);
    assert_eq!(cell.fitting(&of("isolate")), ["h2"]);
    let decision = cell.decide(&of("isolate"));
    let given = |n: u128, class: &str| {
        let provider = ProviderId(Uuid::from_u128(n));
        let held = decision.ranked[0].allocations.iter().find(|held| held.provider == provider).unwrap();
        held.resources.iter().find(|(name, _)| name == class).map(|(_, amount)| *amount)
    };
    let amounts = [201, 202].map(|n| (given(n, "SRIOV_NET_VF").unwrap(), given(n, BYTES).unwrap()));
    assert!(amounts == [(1, 1000), (1, 2000)] || amounts == [(1, 2000), (1, 1000)], "{amounts:?}");
}

/// The first host has both resources, but of two agents.
#[test]
fn the_groups_of_one_port_come_from_one_agent() {
    let mut cell = Cell::three();
    let agents = [(1, 101), (2, 201)].map(|(at, n)| below(&mut cell, n, host(at), PACKETS, 10, "CUSTOM_AGENT"));
    below(&mut cell, 102, host(1), BANDWIDTH, 1000, "CUSTOM_A");
    below(&mut cell, 202, agents[1], BANDWIDTH, 1000, "CUSTOM_A");
    let groups = vec![port_group("a", BANDWIDTH, 1000, "CUSTOM_A"), port_group("b", PACKETS, 10, "CUSTOM_AGENT")];
    let one = port_with(groups.clone());
    assert_eq!(cell.fitting(&RequestSpec { port_requests: vec![one.clone()], ..small() }), ["h2"]);
    // Its groups come from two providers, so the policy restricts them no further.
    let isolated = specs(&[("group_policy", "isolate")]);
    assert_eq!(cell.fitting(&RequestSpec { port_requests: vec![one], ..isolated }), ["h2"]);
    let apart = groups.into_iter().map(|group| port_with(vec![group])).collect();
    assert_eq!(cell.fitting(&RequestSpec { port_requests: apart, ..small() }), ["h1", "h2"]);
}

#[test]
fn pending_claims_on_providers_below_hosts_count() {
    let mut cell = Cell::three();
    let bridges = [1, 2].map(|at| below(&mut cell, 100 + at, host(at), BANDWIDTH, 1000, "CUSTOM_A"));
    let wanted =
        RequestSpec { port_requests: vec![port_with(vec![port_group("p1", BANDWIDTH, 1000, "CUSTOM_A")])], ..small() };
    assert_eq!(cell.fitting(&wanted), ["h1", "h2"]);
    let elsewhere = vec![Allocation { provider: bridges[0], resources: vec![(BANDWIDTH.to_owned(), 1000)] }];
    let entry = cell.pending.add(PendingClaim { elsewhere, ..pending(vec![]) });
    assert_eq!(cell.fitting(&wanted), ["h2"]);
    // The second host has eight CPUs, and the server needs two.
    cell.pending.add(PendingClaim { slot: 1, resources: vec![("VCPU".into(), 7)], ..pending(vec![]) });
    assert_eq!(cell.fitting(&wanted), Vec::<String>::new());
    cell.pending.remove(entry);
    assert_eq!(cell.fitting(&wanted), ["h1"]);
}
