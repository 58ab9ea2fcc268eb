#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use chronova_events::envelope::Timestamp;
use chronova_events::fold::Fold;
use chronova_events::ids::ConsumerId;
use chronova_events::ledger::{Allocation, Claimed};
use uuid::Uuid;

use super::*;
use crate::ledger::LedgerCommand::{self, ApplyProviderConfig, ClaimAll, CreateProvider, Release, SetTraits};
use crate::ledger::decide::decide;
use crate::ledger::decide::tests::{given, host};
use crate::ledger::pci::tests::{FUNCTIONS, PARENT, card, report};
use crate::ledger::{Reserve, ServerClaim};
use crate::provider_config::ProviderIdentification::{self, ComputeNode, Id, Name};

fn id(n: u128) -> ProviderId {
    ProviderId(Uuid::from_u128(n))
}

fn inventory(class: &str, total: u64) -> Inventory {
    let (class, max_unit) = (class.to_owned(), 100);
    Inventory { class, total, reserved: 0, min_unit: 1, max_unit, step_size: 1, allocation_ratio: 1.0 }
}

fn entry(identification: ProviderIdentification, classes: &[&str], traits: &[&str]) -> ProviderConfigEntry {
    ProviderConfigEntry {
        source: format!("{identification}.yaml providers[0]"),
        identification,
        inventories: classes.iter().map(|class| inventory(class, 4)).collect(),
        traits: traits.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn apply(entries: Vec<ProviderConfigEntry>) -> LedgerCommand {
    ApplyProviderConfig { host: id(1), configs: Arc::new(ProviderConfigs { entries }) }
}

fn then(mut state: Ledger, commands: impl IntoIterator<Item = LedgerCommand>) -> Ledger {
    for command in commands {
        for event in decide(&state, command).unwrap() {
            state.evolve(&event, Timestamp(0));
        }
    }
    state
}

/// The classes and the traits of a provider.
fn shown(state: &Ledger, provider: ProviderId) -> (Vec<&str>, Vec<&str>) {
    let known = &state.providers[&provider];
    (known.inventories.keys().map(String::as_str).collect(), known.traits.iter().map(String::as_str).collect())
}

#[test]
fn a_hosts_report_keeps_what_provider_configs_add() {
    let both = || apply(vec![entry(Name("h1".into()), &["CUSTOM_LICENCE"], &["CUSTOM_FAST"])]);
    let state = given([host(4), both()]);
    assert_eq!(shown(&state, id(1)), (vec!["CUSTOM_LICENCE", "VCPU"], vec!["CUSTOM_FAST"]));
    assert!(state.knows_class("CUSTOM_LICENCE") && state.knows_trait("CUSTOM_FAST"));
    assert_eq!(decide(&state, both()).unwrap(), vec![], "an unchanged file records nothing");
    let state = then(state, [host(8)]);
    assert_eq!(shown(&state, id(1)), (vec!["CUSTOM_LICENCE", "VCPU"], vec!["CUSTOM_FAST"]));
    // A client of Placement takes the trait away; the next report of the host brings it back.
    let taken = SetTraits { provider: id(1), generation: None, traits: vec![] };
    let state = then(state, [taken, host(8), both()]);
    assert_eq!(shown(&state, id(1)).1, ["CUSTOM_FAST"]);
}

#[test]
fn what_an_entry_added_goes_with_the_entry() {
    let before = entry(Id(id(1)), &["CUSTOM_LICENCE", "CUSTOM_SLOT"], &["CUSTOM_FAST", "CUSTOM_QUIET"]);
    let theirs = SetTraits { provider: id(1), generation: None, traits: vec!["HW_CPU_X86_AVX".into()] };
    let state = given([host(4), theirs, apply(vec![before])]);
    let state = then(state, [apply(vec![entry(Id(id(1)), &["CUSTOM_SLOT"], &["CUSTOM_QUIET"])])]);
    assert_eq!(shown(&state, id(1)), (vec!["CUSTOM_SLOT", "VCPU"], vec!["CUSTOM_QUIET", "HW_CPU_X86_AVX"]));
    let state = then(state, [apply(vec![])]);
    assert_eq!(shown(&state, id(1)), (vec!["VCPU"], vec!["HW_CPU_X86_AVX"]), "the client's trait stays");
    assert_eq!(decide(&state, apply(vec![])).unwrap(), vec![]);
    assert_eq!(state.configured[&id(1)].additions, vec![]);
}

#[test]
fn a_class_in_use_stays_until_its_last_allocation_ends() {
    let claimed = Claimed {
        consumer: ConsumerId::new("a"),
        project: chronova_events::ids::ProjectId::new("p"),
        user: chronova_events::ids::UserId::new("u"),
        consumer_type: None,
        allocations: vec![Allocation { provider: id(1), resources: vec![("CUSTOM_SLOT".into(), 2)] }],
    };
    let claim = |consumer: &str| {
        let claim = Claimed { consumer: ConsumerId::new(consumer), ..claimed.clone() };
        ClaimAll { claims: vec![ServerClaim { claim, group: None, guest: None }] }
    };
    let state = given([host(4), apply(vec![entry(ComputeNode, &["CUSTOM_SLOT"], &[])]), claim("a"), apply(vec![])]);
    assert_eq!(shown(&state, id(1)).0, ["CUSTOM_SLOT", "VCPU"]);
    assert!(decide(&state, claim("b")).is_err(), "nothing more is allocated");
    assert_eq!(decide(&state, apply(vec![])).unwrap(), vec![]);
    let state = then(state, [Release { consumer: ConsumerId::new("a") }, apply(vec![])]);
    assert_eq!(shown(&state, id(1)).0, ["VCPU"]);
}

#[test]
fn compute_node_means_hosts_that_no_other_entry_names() {
    let all = || entry(ComputeNode, &[], &["CUSTOM_ALL"]);
    let traits = |entries| {
        shown(&given([host(4), apply(entries)]), id(1)).1.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(traits(vec![all()]), ["CUSTOM_ALL"]);
    assert_eq!(traits(vec![all(), entry(Name("h2".into()), &[], &["CUSTOM_OTHER"])]), ["CUSTOM_ALL"]);
    assert_eq!(traits(vec![all(), entry(Name("h1".into()), &[], &["CUSTOM_ONE"])]), ["CUSTOM_ONE"]);
    assert_eq!(traits(vec![entry(Id(id(1)), &[], &["CUSTOM_ONE"]), all()]), ["CUSTOM_ONE"]);
}

#[test]
fn only_the_hosts_own_tree_gets_additions() {
    let make =
        |n, parent: Option<u128>| CreateProvider { provider: id(n), name: format!("p{n}"), parent: parent.map(id) };
    let entries = vec![
        entry(Name("p2".into()), &["CUSTOM_SLOT"], &[]),
        entry(Id(id(3)), &[], &["CUSTOM_ELSEWHERE"]),
        entry(Name("p9".into()), &[], &["CUSTOM_NOWHERE"]),
    ];
    let state = given([host(4), make(2, Some(1)), make(3, None), apply(entries)]);
    assert_eq!(shown(&state, id(2)).0, ["CUSTOM_SLOT"]);
    assert_eq!(shown(&state, id(3)), (vec![], vec![]), "another tree is another host's");
    assert!(!state.knows_trait("CUSTOM_NOWHERE"));
    let unknown = ApplyProviderConfig { host: id(7), configs: Arc::default() };
    assert_eq!(decide(&state, unknown).unwrap(), vec![]);
}

#[test]
fn devices_that_came_after_an_entry_keep_their_class_without_it() {
    let class = "CUSTOM_PCI_8086_10ED";
    let state = given([report(&[PARENT], true), apply(vec![entry(Id(card()), &[class, "CUSTOM_SLOT"], &[])])]);
    let state = then(state, [report(&[FUNCTIONS], true)]);
    assert_eq!(state.providers[&card()].inventories[class].inventory.total, 3, "the functions");
    let state = then(state, [apply(vec![])]);
    assert_eq!(shown(&state, card()).0, [class]);
    assert_eq!(state.providers[&card()].inventories[class].inventory.total, 3);
    assert_eq!(state.configured[&id(1)].additions, vec![]);
}

#[test]
fn a_provider_that_two_entries_name_and_classes_of_devices_are_refused() {
    let twice = apply(vec![entry(Name("h1".into()), &[], &["CUSTOM_A"]), entry(Id(id(1)), &[], &["CUSTOM_B"])]);
    let refused = decide(&given([host(4)]), twice).unwrap_err().to_string();
    assert!(refused.contains("h1.yaml providers[0] and ") && refused.ends_with("take one out"), "{refused}");

    let state = given([report(&[FUNCTIONS], true)]);
    let clash = apply(vec![entry(Id(card()), &["CUSTOM_PCI_8086_10ED"], &[])]);
    let refused = decide(&state, clash).unwrap_err().to_string();
    assert!(refused.contains("CUSTOM_PCI_8086_10ED") && refused.contains(".yaml providers[0]"), "{refused}");
    // A report of the devices keeps the additions to their provider.
    let free = || apply(vec![entry(Id(card()), &["CUSTOM_SLOT"], &["CUSTOM_FAST"])]);
    let state = then(state, [free()]);
    assert_eq!(decide(&state, report(&[FUNCTIONS], true)).unwrap(), vec![]);
    assert_eq!(shown(&state, card()), (vec!["CUSTOM_PCI_8086_10ED", "CUSTOM_SLOT"], vec!["CUSTOM_FAST"]));
}

#[test]
fn an_entry_takes_over_what_a_client_of_placement_has_set() {
    let class = LedgerCommand::CreateClass { name: "CUSTOM_SLOT".into() };
    let theirs = Inventory { reserved: 3, min_unit: 2, step_size: 2, ..inventory("CUSTOM_SLOT", 9) };
    let add = LedgerCommand::AddInventory { provider: id(1), inventory: theirs, reserve: Reserve::All };
    let state = given([host(4), class, add, apply(vec![entry(ComputeNode, &["CUSTOM_SLOT"], &[])])]);
    let now = &state.providers[&id(1)].inventories["CUSTOM_SLOT"].inventory;
    assert_eq!(*now, inventory("CUSTOM_SLOT", 4), "a value of the client is preserved");
}
