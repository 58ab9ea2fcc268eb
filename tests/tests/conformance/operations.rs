//! All operations of the contract in one table: the test in which each operation succeeds, or the reason why it cannot
//! succeed in any test.
//!
//! Other tests check every operation (its versions by `compute_operations`, policy and codes by
//! [`super::policy_matrix`], broken bodies by [`super::bodies`], schemas by `chronova-web`, samples by
//! `compute_samples`). This test checks that none is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use chronova_tests::compute_api::{contract, read};

/// The number of operations in the contract, including removed ones.
const OPERATIONS: usize = 265;

/// Operations that cannot succeed in the policy matrix, because its shared resources are in another state. Each names
/// the test in which it succeeds.
const ELSEWHERE: &[(&str, &str)] = &[
    ("aggregates.add_host", "aggregates_and_disabled_hosts_show_in_placement"),
    ("aggregates.remove_host", "aggregates_are_made_changed_and_removed"),
    ("console_auth_tokens.show", "a_vnc_console_is_opened_and_its_token_is_known_to_the_proxy"),
    ("deferred_delete.restore", "deleted_servers_can_be_restored_for_a_while"),
    ("evacuate.evacuate", "a_server_leaves_a_dead_host_and_what_it_left_is_removed_when_that_is_back"),
    ("flavor_access.index", "answers_look_like_the_samples"),
    ("floating_ips.addFloatingIp", "a_server_gets_a_floating_address_and_shows_it"),
    ("floating_ips.create", "a_server_gets_a_floating_address_and_shows_it"),
    ("floating_ips.delete", "a_server_gets_a_floating_address_and_shows_it"),
    ("floating_ips.removeFloatingIp", "a_server_gets_a_floating_address_and_shows_it"),
    ("floating_ips.show", "a_server_gets_a_floating_address_and_shows_it"),
    ("image_metadata.delete", "image_metadata_is_the_images_properties_until_2_38"),
    ("image_metadata.show", "image_metadata_is_the_images_properties_until_2_38"),
    ("keypairs.create", "key_pairs_belong_to_users"),
    ("migrate_server.migrate", "a_cold_migration_goes_to_the_requested_host"),
    ("multinic.addFixedIp", "fixed_addresses_are_added_and_removed_until_2_43"),
    ("multinic.removeFixedIp", "fixed_addresses_are_added_and_removed_until_2_43"),
    ("pause_server.unpause", "a_servers_life"),
    ("remote_consoles.create", "a_vnc_console_is_opened_and_its_token_is_known_to_the_proxy"),
    ("remote_consoles.os-getSPICEConsole", "spice_and_serial_consoles_are_opened_where_they_are_enabled"),
    ("remote_consoles.os-getSerialConsole", "spice_and_serial_consoles_are_opened_where_they_are_enabled"),
    ("rescue.unrescue", "a_rescued_server_runs_from_another_disk"),
    ("security_groups.addSecurityGroup", "a_servers_ports_get_and_lose_groups"),
    ("security_groups.removeSecurityGroup", "a_servers_ports_get_and_lose_groups"),
    ("server_migrations.delete", "a_running_live_migration_is_shown_and_aborted"),
    ("server_migrations.force_complete", "a_running_live_migration_is_forced_to_complete"),
    ("server_migrations.show", "a_running_migration_looks_like_its_samples"),
    ("servers.confirmResize", "a_resize_is_confirmed_and_another_reverted"),
    ("servers.os-start", "a_servers_life"),
    ("servers.resize", "a_resize_is_confirmed_and_another_reverted"),
    ("servers.revertResize", "a_resize_is_confirmed_and_another_reverted"),
    ("services.delete", "a_service_ends_only_without_servers_and_takes_its_traces_along"),
    ("shelve.shelveOffload", "a_shelved_server_that_is_on_its_host_is_only_started"),
    ("shelve.unshelve", "a_shelved_server_comes_back_where_there_is_room"),
    ("snapshots.create", "old_names_of_volumes_snapshots_and_servers"),
    ("snapshots.delete", "old_names_of_volumes_snapshots_and_servers"),
    ("snapshots.show", "old_names_of_volumes_snapshots_and_servers"),
    ("suspend_server.resume", "a_servers_life"),
    ("versionsV21.show", "versions"),
    ("volume_attachments.create", "a_volumes_way_through_a_server"),
    ("volume_attachments.delete", "a_volumes_way_through_a_server"),
    ("volume_attachments.show", "a_volumes_way_through_a_server"),
    ("volume_attachments.update", "a_volumes_way_through_a_server"),
    ("volumes.create", "old_names_of_volumes_snapshots_and_servers"),
    ("volumes.delete", "old_names_of_volumes_snapshots_and_servers"),
    ("volumes.show", "old_names_of_volumes_snapshots_and_servers"),
    ("volumes_boot.confirmResize", "actions_of_servers_under_their_old_name"),
    ("volumes_boot.create", "old_names_of_volumes_snapshots_and_servers"),
    ("volumes_boot.createImage", "images_and_rebuilds_under_their_old_name"),
    ("volumes_boot.os-start", "actions_of_servers_under_their_old_name"),
    ("volumes_boot.reboot", "actions_of_servers_under_their_old_name"),
    ("volumes_boot.rebuild", "images_and_rebuilds_under_their_old_name"),
    ("volumes_boot.resize", "actions_of_servers_under_their_old_name"),
    ("volumes_boot.revertResize", "actions_of_servers_under_their_old_name"),
    ("volumes_boot.update", "actions_of_servers_under_their_old_name"),
];

/// Operations that never succeed, with the reasons. A Nova that lacks the feature refuses them, too.
const NOWHERE: &[(&str, &str)] = &[
    (
        "assisted_volume_snapshots.create",
        "a call of volume services with volumes as files on hosts (NFS); ours makes its snapshots itself",
    ),
    ("assisted_volume_snapshots.delete", "for the reason of assisted_volume_snapshots.create"),
    ("baremetal_nodes.index", "a proxy to Ironic, which is not there: Nova without `[ironic]` answers 501, too"),
    ("baremetal_nodes.show", "a proxy to Ironic, which is not there: Nova without `[ironic]` answers 501, too"),
    ("baremetal_nodes.create", "Nova itself always answers 400: \"Please use Ironic command node-create\""),
    ("baremetal_nodes.delete", "Nova itself always answers 400: \"Please use Ironic command node-delete\""),
    ("baremetal_nodes.add_interface", "Nova itself always answers 400: \"Please use Ironic command port-create\""),
    ("baremetal_nodes.remove_interface", "Nova itself always answers 400: \"Please use Ironic command port-delete\""),
    ("hosts.reboot", "Nova's libvirt driver does not switch hosts and answers 501, too"),
    ("hosts.shutdown", "Nova's libvirt driver does not switch hosts and answers 501, too"),
    ("hosts.startup", "Nova's libvirt driver does not switch hosts and answers 501, too"),
    ("hosts.update", "Nova's libvirt driver does not switch hosts and answers 501, too"),
    ("server_shares.create", "no share service (Manila) is there, and no host can pass shares on"),
    ("server_shares.delete", "no share service (Manila) is there, and no host can pass shares on"),
    ("server_shares.show", "no share service (Manila) is there, and no host can pass shares on"),
];

/// The tests of the repository, by their names.
fn tests() -> BTreeSet<String> {
    fn collect(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, names);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let names_in = |line: &str| {
                    let rest = line.trim().strip_prefix("async fn ").or_else(|| line.trim().strip_prefix("fn "))?;
                    rest.split_once("()").map(|(name, _)| name.to_owned())
                };
                names.extend(text.lines().filter_map(names_in));
            }
        }
    }
    let (top, mut names) = (Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap(), BTreeSet::new());
    collect(&top.join("tests/tests"), &mut names);
    collect(&top.join("web/tests"), &mut names);
    names
}

/// The answers to each operation in the policy matrix.
fn seen() -> BTreeMap<String, Vec<u16>> {
    let matrix = include_str!("../../golden/policy-matrix.txt");
    let rows = matrix.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut words = line.split_whitespace();
        let id = words.next().unwrap().to_owned();
        (id, words.skip(1).map(|status| status.parse().unwrap()).collect())
    })
    .collect()
}

#[test]
fn every_operation_of_the_contract_is_tested() {
    let Some(contract) = contract() else { return };
    let operations = read(&contract.join("operations.json"));
    let operations = operations["operations"].as_array().unwrap();
    assert_eq!(operations.len(), OPERATIONS, "the contract has another number of operations");
    let (seen, tests) = (seen(), tests());
    let (elsewhere, nowhere): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (ELSEWHERE.iter().copied().collect(), NOWHERE.iter().copied().collect());
    let (mut wrong, mut counts) = (Vec::new(), BTreeMap::<&str, usize>::new());
    for operation in operations {
        let id = operation["id"].as_str().unwrap();
        let succeeds = |status: &u16| {
            let ranges = operation["success"].as_array().unwrap();
            ranges.iter().any(|range| range["codes"].as_array().unwrap().iter().any(|code| code == *status))
        };
        let here = seen.get(id).is_some_and(|statuses| statuses.iter().any(succeeds));
        // An operation that succeeds here needs no other test.
        let how = match (operation["removed"] == true, here, elsewhere.get(id), nowhere.get(id)) {
            (true, _, None, None) if seen.contains_key(id) => "say that they are gone",
            (false, true, ..) => "succeed in the walk",
            (false, false, Some(test), None) if tests.contains(*test) => "succeed in tests of their own",
            (false, false, None, Some(reason)) if !reason.is_empty() => "cannot succeed here, with a reason",
            (.., Some(test), _) if !tests.contains(*test) => {
                wrong.push(format!("{id}: there is no test {test}"));
                continue;
            }
            found => {
                wrong.push(format!("{id}: gone, seen here, elsewhere, nowhere: {found:?}"));
                continue;
            }
        };
        *counts.entry(how).or_default() += 1;
    }
    let covered: usize = counts.values().sum();
    println!("{covered} of {OPERATIONS} operations: {counts:?}");
    assert!(wrong.is_empty(), "{} of {OPERATIONS} operations:\n{}", wrong.len(), wrong.join("\n"));
}
