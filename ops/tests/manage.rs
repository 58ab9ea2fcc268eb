//! `nova-manage`, `nova-status` and `nova-policy`: the exit code of each sub-command, and the outputs that scripts
//! read. The commands run under Nova's names, as links to the program, against a running control plane.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

#[path = "manage/claims.rs"]
mod claims;
#[path = "manage/limits.rs"]
mod limits;
#[path = "manage/servers.rs"]
mod servers;
#[path = "manage/site.rs"]
mod site;
#[path = "manage/tools.rs"]
mod tools;

use std::process::Command;

use serde_json::{Value, json};
use site::{CELL0, CELL1, ManagedCloud, NOBODY};

#[test]
fn categories_and_sub_commands_are_listed() {
    let site = ManagedCloud::stopped();
    for (words, lists) in [("", "cell_v2"), ("db", "archive_deleted_rows"), ("cell_v2", "map_cell0")] {
        let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
        let output = Command::new(site.cloud.folder.path().join("nova-manage")).args(words).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(lists), "{text}");
    }
    let categories = site.manage("bash-completion", 0);
    let expected = "db api_db cell_v2 placement libvirt volume_attachment image_property limits\n";
    assert_eq!(categories, expected);
    assert_eq!(
        site.manage("bash-completion libvirt", 0),
        "get_machine_type update_machine_type list_unset_machine_type\n"
    );
    // The help text names every word with which the shell can complete the line.
    for category in ["", "db"] {
        let mut command = Command::new(site.cloud.folder.path().join("nova-manage"));
        let output = command.args(category.split_whitespace()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        for name in site.manage(format!("bash-completion {category}").trim_end(), 0).split_whitespace() {
            assert!(text.contains(&format!("\n  {name}")), "{name}: {text}");
        }
    }
    assert_eq!(site.manage("version", 0), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    for (words, lists) in [(&[][..], "upgrade"), (&["upgrade"][..], "check")] {
        let output = Command::new(site.cloud.folder.path().join("nova-status")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(lists), "{words:?}");
    }
}

#[test]
fn databases_that_do_not_exist_have_novas_codes() {
    let site = ManagedCloud::stopped();
    for line in [
        "db sync",
        "db sync --local_cell",
        "db sync --database_connection mysql://x",
        "db sync 960aac0e09ea",
        "api_db sync",
        "db version",
        "api_db version",
    ] {
        site.manage(line, 0);
    }
    for line in ["db version", "api_db version"] {
        let version: u32 = site.manage(line, 0).trim().parse().unwrap();
        assert!(version > 0, "{line}");
    }
    site.manage("api_db sync b30f573d3377", 0);
    for line in [
        "db sync 402",
        "api_db sync 67",
        "db ironic_compute_node_move",
        "db archive_deleted_rows --config-dir /nowhere",
        "placement heal_allocations --config-dir /nowhere",
        "placement sync_aggregates --config-dir /nowhere",
    ] {
        site.manage(line, 255);
    }
    assert_eq!(site.manage("db archive_deleted_rows --until-complete --all-cells --purge --task-log --sleep 1", 0), "");
    assert_eq!(site.manage("db archive_deleted_rows --verbose --before 2026-01-31", 0), "Nothing was archived.\n");
    for line in ["db archive_deleted_rows --max_rows -1", "db archive_deleted_rows --max_rows 2147483648"] {
        site.manage(line, 2);
    }
    site.manage("db archive_deleted_rows --before yesterday", 4);
    site.manage("db purge", 1);
    site.manage("db purge --before tomorrow", 2);
    site.manage("db purge --all --all-cells", 3);
    assert!(site.manage("db online_data_migrations", 0).contains("| Migration | Total Needed | Completed |"));
    site.manage("db online_data_migrations --max-count 10", 0);
    for line in ["db online_data_migrations --max-count 0", "db online_data_migrations --max-count many"] {
        site.manage(line, 127);
    }
    // A sub-command about databases says in one sentence why it does nothing.
    let (_, _, said) = site.run("nova-manage", &["db", "sync"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("Chronova has no database to synchronise"), "{said}");
}

#[test]
fn old_events_are_archived_with_novas_codes() {
    let mut site = ManagedCloud::running();
    site.server("web");
    let (code, out, said) = site.run("nova-manage", &["db", "archive_deleted_rows", "--verbose"]);
    assert_eq!((code, out.as_str()), (0, "Nothing was archived.\n"), "{said}");
    assert!(said.contains("a running server moves old events by itself"), "{said}");
    site.cloud.stop();
    assert_eq!(
        site.manage("db archive_deleted_rows --before 2020-01-01 --verbose", 0),
        "Nothing was archived.\n",
        "all events are newer"
    );
    assert_eq!(site.manage("db archive_deleted_rows --max_rows 0", 0), "");
    assert_eq!(site.manage("db archive_deleted_rows --max_rows 7", 1), "");
    let table = site.manage("db archive_deleted_rows --max_rows 5 --verbose", 1);
    assert!(table.contains("| Table  | Number of Rows Archived |") && table.contains("| events |"), "{table}");
    assert!(table.contains(" 5 "), "{table}");
    let archive = site.cloud.data().join("archive");
    assert_eq!(std::fs::read_dir(&archive).unwrap().count(), 4, "two segments, each with a manifest");
    // Automation repeats the command while the code is 1, and stops at 0.
    let told = site.manage("db archive_deleted_rows --until-complete --all-cells --max_rows 50 --verbose", 1);
    let events = told.lines().find_map(|line| line.strip_prefix("| events |")).unwrap_or_else(|| panic!("{told}"));
    let events: usize = events.trim_matches(|digit: char| !digit.is_ascii_digit()).parse().unwrap();
    // A dot for each batch of 50 events. All batches have one segment.
    let dots = ".".repeat(2 + events.div_ceil(50) + 1);
    assert!(told.starts_with(&format!("Archiving{dots}complete\n")), "{told}");
    site.manage("db archive_deleted_rows --until-complete --all-cells", 0);
    assert_eq!(
        site.manage("db archive_deleted_rows --until-complete --verbose", 0),
        "Archiving...complete\nNothing was archived.\n"
    );
    site.manage("db purge --all", 3);
    assert_eq!(std::fs::read_dir(&archive).unwrap().count(), 6, "a purge removed archived events");
    site.cloud.start();
    assert_eq!(site.client().get("/compute/v2.1/servers").unwrap().expect(200).body["servers"][0]["name"], "web");
}

#[test]
fn there_is_one_cell_and_novas_cell0() {
    let site = ManagedCloud::stopped();
    let cells = site.manage("cell_v2 list_cells", 0);
    assert!(
        cells.contains(&format!("| cell0 | {CELL0} |")) && cells.contains(&format!("| cell1 | {CELL1} |")),
        "{cells}"
    );
    for head in ["Name", "UUID", "Transport URL", "Database Connection", "Disabled"] {
        assert!(cells.contains(&format!(" {head} ")), "{head}\n{cells}");
    }
    for (value, of) in [(" none:/// ", "transport"), (" sqlite:///", "database"), (" False ", "disabled")] {
        assert_eq!(cells.matches(value).count(), 2, "{of}\n{cells}");
    }
    site.cloud.replace("[chronova]\n", "[chronova]\nevent_store = postgresql://nova:secret@127.0.0.1/nova\n");
    let masked = site.manage("cell_v2 list_cells", 0);
    assert!(masked.contains("postgresql://nova:****@127.0.0.1/nova") && !masked.contains("secret"), "{masked}");
    assert!(site.manage("cell_v2 list_cells --verbose", 0).contains("postgresql://nova:secret@127.0.0.1/nova"));
    assert_eq!(site.manage("cell_v2 map_cell0", 0), "Cell0 is already setup\n");
    site.manage("cell_v2 map_cell0 --database_connection mysql://x", 0);
    assert_eq!(site.manage("cell_v2 map_cell_and_hosts", 0), "All hosts are already mapped to cell(s).\n");
    site.manage("cell_v2 map_cell_and_hosts --name cell1 --transport-url rabbit://x", 0);
    site.manage(&format!("cell_v2 map_instances --cell_uuid {CELL1} --max-count 5 --reset"), 0);
    site.manage(&format!("cell_v2 map_instances --cell_uuid {CELL1} --max-count 0"), 127);
    site.manage(&format!("cell_v2 map_instances --cell_uuid {NOBODY}"), 255);
    site.manage("cell_v2 discover_hosts", 0);
    site.manage(&format!("cell_v2 discover_hosts --cell_uuid {CELL1}"), 0);
    site.manage("cell_v2 discover_hosts --strict --by-service", 1);
    site.manage(&format!("cell_v2 discover_hosts --cell_uuid {NOBODY}"), 1);
    site.manage("cell_v2 discover_hosts --verbose", 1);
    site.manage(&format!("cell_v2 delete_cell --cell_uuid {NOBODY}"), 1);
    site.manage(&format!("cell_v2 delete_cell --cell_uuid {CELL1}"), 2);
    site.manage(&format!("cell_v2 delete_cell --cell_uuid {CELL1} --force"), 3);
    for (rest, code) in [
        ("--transport-url rabbit://x --database_connection mysql://x", 0),
        ("--name cell1 --enable", 0),
        ("--name north", 2),
        ("--disable", 2),
        // The other cell has these addresses.
        ("--transport-url none:///", 3),
        ("--database_connection postgresql://nova:secret@127.0.0.1/nova", 3),
        ("--disable --enable", 4),
    ] {
        site.manage(&format!("cell_v2 update_cell --cell_uuid {CELL1} {rest}"), code);
    }
    let other = site.manage(&format!("cell_v2 update_cell --cell_uuid {CELL0} --transport-url none:///"), 3);
    assert!(other.contains(&format!("already exists for another cell with uuid {CELL1}")), "{other}");
    site.manage(&format!("cell_v2 update_cell --cell_uuid {CELL0} --disable"), 5);
    site.manage(&format!("cell_v2 update_cell --cell_uuid {NOBODY}"), 1);
    // A sub-command that needs the server says which program to start.
    let (code, _, said) = site.run("nova-manage", &["cell_v2", "list_hosts"]);
    assert_eq!(code, 255);
    assert!(said.contains("start it with `chronova serve`"), "{said}");
}

/// The sub-commands come in the order of Nova's installation guide. Before the first start, `create_cell` succeeds for
/// the one cell.
#[test]
fn a_new_deployment_is_set_up_in_novas_order() {
    let mut site = ManagedCloud::stopped();
    let create = "cell_v2 create_cell --name=cell1 --verbose";
    site.manage("api_db sync", 0);
    site.manage("cell_v2 map_cell0", 0);
    site.manage("db sync", 0);
    assert_eq!(site.manage(create, 0), format!("{CELL1}\n"));
    site.manage("db sync", 0);
    let cells = site.manage("cell_v2 list_cells", 0);
    for (name, id) in [("cell0", CELL0), ("cell1", CELL1)] {
        assert!(cells.contains(&format!("| {name} | {id} |")), "{cells}");
    }
    assert_eq!(cells.matches(" none:/// ").count(), 2, "{cells}");
    // Chronova creates neither a second cell nor a disabled cell.
    site.manage("cell_v2 create_cell --name north", 2);
    site.manage("cell_v2 create_cell --name cell1 --disabled", 2);
    assert_eq!(site.manage("cell_v2 create_cell", 0), "", "only --verbose prints the id");
    site.cloud.start();
    site.manage("cell_v2 discover_hosts", 0);
    assert!(site.manage(create, 2).contains(&format!("The cell cell1 ({CELL1}) exists already")));
}

/// Chronova has no message queue, so these sub-commands need no address of one. They refuse an invalid address.
#[test]
fn a_wrong_address_of_a_message_queue_is_refused() {
    let site = ManagedCloud::stopped();
    for (url, words) in [
        ("nonsense", "Invalid transport URL: No scheme specified\n"),
        ("rabbit://nova:secret@mq:amqp/", "Invalid transport URL: A port is not a number\n"),
    ] {
        for command in ["simple_cell_setup", "map_cell_and_hosts", "create_cell --name cell1"] {
            assert_eq!(site.manage(&format!("cell_v2 {command} --transport-url {url}"), 1), words, "{command}");
        }
    }
    site.cloud.configure("[DEFAULT]\ntransport_url = nonsense\n");
    for command in ["simple_cell_setup", "map_cell_and_hosts", "create_cell"] {
        site.manage(&format!("cell_v2 {command}"), 1);
    }
    site.manage("cell_v2 map_cell_and_hosts --transport-url rabbit://nova:secret@h1:5672,nova:secret@h2:5672/vhost", 0);
}

/// As in Nova, a cloud without hosts is not set up.
#[test]
fn cells_of_a_cloud_without_hosts_are_not_set_up() {
    const NONE: &str = "No hosts found to map to cell, exiting.\n";
    let mut site = ManagedCloud::stopped();
    site.cloud.replace("hypervisors = sim://2\n", "");
    // Only a running server knows the hosts.
    site.manage("cell_v2 simple_cell_setup", 255);
    site.cloud.start();
    assert_eq!(site.manage("cell_v2 simple_cell_setup", 1), format!("Cell0 is already setup\n{NONE}"));
    assert_eq!(site.manage("cell_v2 map_cell_and_hosts --verbose", 0), NONE);
}

#[test]
fn hosts_and_servers_of_the_cell_are_shown() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let hosts = site.manage("cell_v2 list_hosts", 0);
    assert_eq!(hosts.lines().filter(|line| line.contains(CELL1)).count(), 2, "{hosts}");
    let of_hosts = site.client().get("/chronova/v1/hosts").unwrap().expect(200);
    let names: Vec<String> = (0..2).map(|number| of_hosts.text(&format!("/hosts/{number}/name"))).collect();
    let listed = |text: &str| names.iter().filter(|name| text.contains(name.as_str())).count();
    assert_eq!(listed(&hosts), 2, "{hosts}");
    assert_eq!(listed(&site.manage(&format!("cell_v2 list_hosts --cell_uuid {CELL1}"), 0)), 2);
    assert_eq!(listed(&site.manage(&format!("cell_v2 list_hosts --cell_uuid {CELL0}"), 0)), 0);
    site.manage(&format!("cell_v2 list_hosts --cell_uuid {NOBODY}"), 1);
    let found = site.manage("cell_v2 discover_hosts --verbose", 0);
    assert!(found.starts_with("Found 2 cell mappings.\nSkipping cell0 since it does not contain hosts.\n"), "{found}");
    assert_eq!(found.matches("Checking host mapping for compute host '").count(), 2, "{found}");
    for number in 0..2 {
        let text = |key: &str| of_hosts.text(&format!("/hosts/{number}/{key}"));
        assert!(found.contains(&format!("compute host '{}': {}\n", text("name"), text("id"))), "{found}");
    }
    assert!(found.ends_with(&format!("Found 0 unmapped computes in cell: {CELL1}\n")), "{found}");
    assert!(!found.contains("Creating host mapping"), "a mapped host is shown as a new one: {found}");
    // All servers are mapped already. So every run exits with 0, which means that nothing is left for another run.
    site.manage("cell_v2 map_instances", 0);
    for rest in ["", " --max-count 1", " --max-count 1", " --reset"] {
        site.manage(&format!("cell_v2 map_instances --cell_uuid {CELL1}{rest}"), 0);
    }
    // Hosts are mapped when they are registered, so the set-up finds that all of them are mapped to the one cell.
    let mapped = "All hosts are already mapped to cell(s).\n";
    assert_eq!(
        site.manage("cell_v2 simple_cell_setup --transport-url rabbit://x", 0),
        format!("Cell0 is already setup\n{mapped}")
    );
    let shown = site.manage("cell_v2 map_cell_and_hosts --verbose", 0);
    assert_eq!(shown.matches(&format!(" is already mapped to cell {CELL1}\n")).count(), 2, "{shown}");
    assert!(listed(&shown) == 2 && shown.ends_with(mapped), "{shown}");
    // A server that never got a host is in cell0.
    let huge = json!({"flavor": {"name": "huge", "vcpus": 1, "ram": 1 << 30, "disk": 1}});
    let huge = site.client().post("/compute/v2.1/flavors", &huge).unwrap().expect(200).text("/flavor/id");
    let unplaced = site.request("unplaced", &huge);
    site.settle(&unplaced, "ERROR");
    assert_eq!(
        site.manage(&format!("cell_v2 verify_instance --uuid {unplaced}"), 0),
        format!("Instance {unplaced} is in cell: cell0 ({CELL0})\n")
    );
    let verify = |id: &str| format!("cell_v2 verify_instance --uuid {id}");
    assert_eq!(site.manage(&verify(&server), 0), format!("Instance {server} is in cell: cell1 ({CELL1})\n"));
    assert_eq!(site.manage(&format!("{} --quiet", verify(NOBODY)), 1), "");
    let shown = site.client().get(&format!("/compute/v2.1/servers/{server}")).unwrap().body;
    let host = shown["server"]["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned();
    let delete = |cell: &str, host: &str| format!("cell_v2 delete_host --cell_uuid {cell} --host {host}");
    site.manage(&delete(NOBODY, &host), 1);
    site.manage(&delete(CELL1, "nowhere"), 2);
    site.manage(&delete(CELL0, &host), 3);
    site.manage(&delete(CELL1, &host), 4);
    site.client().delete(&format!("/compute/v2.1/servers/{server}")).unwrap().expect(204);
    site.cloud.wait("the server is deleted", |cloud| {
        cloud.client().get(&format!("/compute/v2.1/servers/{server}")).unwrap().status == 404
    });
    site.manage(&verify(&server), 3);
    site.manage(&delete(CELL1, &host), 0);
    assert_eq!(listed(&site.manage("cell_v2 list_hosts", 0)), 1, "the deleted host is listed");
    site.manage(&delete(CELL1, &host), 2);
}

#[test]
fn lost_allocations_are_healed() {
    let mut site = ManagedCloud::running();
    let (one, two) = (site.server("one"), site.server("two"));
    let before = site.allocations(&one)["allocations"].clone();
    let heal = "placement heal_allocations";
    let nothing = site.manage(&format!("{heal} --verbose"), 4);
    assert!(nothing.starts_with("Running batches of 50 until complete\n"), "{nothing}");
    assert!(nothing.contains("is up-to-date. Nothing to be healed."), "{nothing}");
    // With --instance, the count is ignored.
    site.manage(&format!("{heal} --instance {one} --max-count 0"), 4);
    for line in ["--force", "--max-count 0", "--max-count -1", "--max-count many"] {
        site.manage(&format!("{heal} {line}"), 127);
    }
    site.manage(&format!("{heal} --instance {one} --cell {CELL1}"), 127);
    site.manage(&format!("{heal} --instance {NOBODY}"), 127);
    site.manage(&format!("{heal} --cell {NOBODY}"), 127);
    for id in [&one, &two] {
        site.client().delete(&format!("/placement/allocations/{id}")).unwrap().expect(204);
    }
    let shown = site.manage(&format!("{heal} --dry-run --verbose"), 4);
    assert_eq!(shown.matches("[dry-run] Create allocations for instance").count(), 2, "{shown}");
    assert_eq!(site.allocations(&one)["allocations"], json!({}), "the dry run created allocations");
    // The servers of the other cell never had a host.
    let elsewhere = site.manage(&format!("{heal} --verbose --cell {CELL0}"), 4);
    assert!(elsewhere.ends_with("\nProcessed 0 instances.\n"), "{elsewhere}");
    assert_eq!(site.allocations(&one)["allocations"], json!({}), "a server of another cell was healed");
    let first = site.manage(&format!("{heal} --verbose --max-count 1"), 1);
    assert!(first.contains(&format!("Looking for instances in cell: {CELL1}(cell1)\nFound 1 candidate")), "{first}");
    assert!(first.ends_with("Max count reached. Processed 1 instances.\n"), "{first}");
    let healed = site.manage(&format!("{heal} --verbose --skip-port-allocations --cell {CELL1}"), 0);
    assert!(healed.ends_with("Processed 1 instances.\n"), "{healed}");
    let shape = |allocations: &Value| {
        let mut all = allocations.as_object().unwrap().clone();
        all.values_mut().for_each(|held| held.as_object_mut().unwrap().retain(|key, _| key == "resources"));
        all
    };
    let after = site.allocations(&one);
    assert_eq!(
        shape(&after["allocations"]),
        shape(&before),
        "the healed allocations differ from the scheduler's claim"
    );
    assert_eq!((&after["project_id"], &after["consumer_type"]), (&json!("admin"), &json!("INSTANCE")));
    site.manage(heal, 4);
    // A wrong owner in Placement is corrected. Wrong amounts are corrected only with --force.
    let mut theirs = after.clone();
    theirs["project_id"] = json!("somebody");
    site.client().put_at(&format!("/placement/allocations/{one}"), &theirs).unwrap().expect(204);
    assert!(
        site.manage(&format!("{heal} --verbose"), 0)
            .contains(&format!("Successfully updated allocations for instance {one}."))
    );
    let mut less = site.allocations(&one);
    assert_eq!(less["project_id"], "admin");
    for held in less["allocations"].as_object_mut().unwrap().values_mut() {
        *held = json!({"resources": {"MEMORY_MB": 1}});
    }
    site.client().put_at(&format!("/placement/allocations/{one}"), &less).unwrap().expect(204);
    site.manage(&format!("{heal} --instance {one}"), 4);
    site.manage(&format!("{heal} --instance {one} --force"), 0);
    assert_eq!(shape(&site.allocations(&one)["allocations"]), shape(&before));
    // Before 1.8, allocations name neither a project nor a user. Both are filled in.
    let whole = site.allocations(&one);
    let owner = |shown: &Value| (shown["project_id"].clone(), shown["user_id"].clone());
    let old: Vec<Value> = whole["allocations"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(provider, held)| json!({"resource_provider": {"uuid": provider}, "resources": held["resources"]}))
        .collect();
    let path = format!("/placement/allocations/{one}");
    site.client().delete(&path).unwrap().expect(204);
    site.client().put(&path, &json!({"allocations": old})).unwrap().expect(204);
    let (project, user) = owner(&site.allocations(&one));
    assert!(project != whole["project_id"] && user != whole["user_id"], "{project} {user}");
    site.manage(heal, 0);
    assert_eq!(owner(&site.allocations(&one)), owner(&whole));
    // If the host has no room, the ledger refuses the allocations.
    site.client().delete(&format!("/placement/allocations/{two}")).unwrap().expect(204);
    let provider = site.client().get(&format!("/compute/v2.1/servers/{two}")).unwrap().body;
    let host = provider["server"]["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned();
    let found = site.client().get(&format!("/placement/resource_providers?name={host}")).unwrap().expect(200);
    let provider = found.text("/resource_providers/0/uuid");
    let about = |what: &str| {
        let path = format!("/placement/resource_providers/{provider}/{what}");
        site.client().get(&path).unwrap().expect(200).body
    };
    let memory = about("inventories")["inventories"]["MEMORY_MB"].clone();
    let used = about("usages")["usages"]["MEMORY_MB"].as_u64().unwrap();
    let room = memory["total"].as_u64().unwrap() - memory["reserved"].as_u64().unwrap() - used;
    let all = json!({
        "allocations": {provider.clone(): {"resources": {"MEMORY_MB": room - 1}}},
        "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE",
    });
    site.client().put_at(&format!("/placement/allocations/{NOBODY}"), &all).unwrap().expect(204);
    let full = site.manage(heal, 3);
    assert!(full.contains(&format!("Failed to update allocations for consumer {two}.")), "{full}");
    // A deleted server is known, but has nothing to heal.
    site.client().delete(&format!("/compute/v2.1/servers/{two}")).unwrap().expect(204);
    site.cloud.wait("the server is deleted", |cloud| {
        cloud.client().get(&format!("/compute/v2.1/servers/{two}")).unwrap().status == 404
    });
    let deleted = site.manage(&format!("{heal} --verbose --instance {two}"), 4);
    assert!(deleted.ends_with("\nProcessed 0 instances.\n"), "{deleted}");
    site.cloud.stop();
    assert!(site.manage(heal, 3).is_empty(), "the command prints a result without a running server");
}

/// A batch has 50 servers. The server of the second batch is healed, too.
#[test]
fn lost_allocations_are_healed_in_batches() {
    let mut site = ManagedCloud::running();
    let flavor = site.client().get("/compute/v2.1/flavors").unwrap().expect(200).text("/flavors/0/id");
    let ids: Vec<String> = (0..51).map(|number| site.request(&format!("s{number}"), &flavor)).collect();
    site.cloud.wait("all servers are ACTIVE", |cloud| {
        let list = cloud.client().get("/compute/v2.1/servers/detail").unwrap().expect(200).body;
        list["servers"].as_array().unwrap().iter().filter(|server| server["status"] == "ACTIVE").count() == ids.len()
    });
    let lost = [&ids[0], &ids[50]];
    for id in lost {
        site.client().delete(&format!("/placement/allocations/{id}")).unwrap().expect(204);
    }
    let healed = site.manage("placement heal_allocations --verbose", 0);
    let found: Vec<&str> = healed.lines().filter(|line| line.starts_with("Found ")).collect();
    assert_eq!(found, ["Found 50 candidate instances.", "Found 1 candidate instances."]);
    assert!(healed.ends_with("Processed 2 instances.\n"), "{healed}");
    for id in lost {
        assert_ne!(site.allocations(id)["allocations"], json!({}));
    }
}

#[test]
fn orphaned_allocations_are_found_and_deleted() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let provider = site.provider();
    assert_eq!(site.manage("placement audit --verbose", 0), "");
    for option in ["--resource_provider", "--resource-provider"] {
        site.manage(&format!("placement audit {option} {NOBODY}"), 127);
    }
    // A migration has the allocation on the old host until it is confirmed.
    site.act(&server, &json!({"migrate": null}), "VERIFY_RESIZE");
    let known = site.client().get("/placement/resource_providers").unwrap().expect(200).body;
    let held = |provider: &Value| {
        let path = format!("/placement/resource_providers/{}/allocations", provider["uuid"].as_str().unwrap());
        let held = site.client().get(&path).unwrap().expect(200).body["allocations"].clone();
        held.as_object().unwrap().keys().cloned().collect::<Vec<String>>()
    };
    let consumers: Vec<String> = known["resource_providers"].as_array().unwrap().iter().flat_map(held).collect();
    assert!(consumers.len() == 2 && consumers.contains(&server), "{consumers:?}");
    assert_eq!(site.manage("placement audit --verbose", 0), "");
    let theirs = json!({
        "allocations": {provider.clone(): {"resources": {"VCPU": 1}}},
        "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE",
    });
    site.client().put_at(&format!("/placement/allocations/{NOBODY}"), &theirs).unwrap().expect(204);
    let found = site.manage(&format!("placement audit --verbose --resource_provider {provider}"), 3);
    assert!(
        found.contains(&format!(
            "Allocations for consumer UUID {NOBODY} on Resource Provider {provider} can be deleted"
        )),
        "{found}"
    );
    assert!(!found.contains(&server), "{found}");
    assert!(found.ends_with("Processed 1 allocation.\n"), "{found}");
    assert_eq!(site.manage("placement audit", 3), "");
    assert!(site.manage("placement audit --delete --verbose", 4).contains("Deleted allocations for consumer UUID"));
    assert_eq!(site.allocations(NOBODY)["allocations"], json!({}));
    assert_ne!(site.allocations(&server)["allocations"], json!({}), "the server lost its own allocations");
    site.manage("placement audit --delete", 0);
    site.cloud.stop();
    site.manage("placement audit", 1);
}

#[test]
fn host_aggregates_are_mirrored() {
    let mut site = ManagedCloud::running();
    site.manage("placement sync_aggregates", 0);
    let host = site.client().get("/chronova/v1/hosts").unwrap().expect(200).text("/hosts/0/name");
    let aggregate = json!({"aggregate": {"name": "fast"}});
    let made = site.client().post("/compute/v2.1/os-aggregates", &aggregate).unwrap().expect(200);
    let (number, uuid) = (made.body["aggregate"]["id"].clone(), made.text("/aggregate/uuid"));
    let add = json!({"add_host": {"host": host}});
    site.client().post(&format!("/compute/v2.1/os-aggregates/{number}/action"), &add).unwrap().expect(200);
    let said = site.manage("placement sync_aggregates --verbose", 0);
    assert!(said.contains("Processing aggregate: fast\n"), "{said}");
    assert!(
        said.contains(&format!("Successfully added host ({host}) and provider (")) && said.contains(&uuid),
        "{said}"
    );
    site.cloud.stop();
    site.manage("placement sync_aggregates", 2);
}

/// A zone with the name of `default_availability_zone` is allowed, as in Nova, but the log warns of it.
#[test]
fn the_log_warns_of_a_zone_that_has_the_name_of_the_default_zone() {
    const WORDS: &str = "the name of default_availability_zone as its availability zone";
    let mut site = ManagedCloud::running();
    let client = site.client();
    let make = |name: &str, zone: Option<&str>| {
        let aggregate = json!({"aggregate": {"name": name, "availability_zone": zone}});
        let made = client.post("/compute/v2.1/os-aggregates", &aggregate).unwrap().expect(200);
        format!("/compute/v2.1/os-aggregates/{}", made.body["aggregate"]["id"])
    };
    let mut warned = |times: usize| {
        site.cloud.wait(&format!("the log has {times} warnings"), |cloud| cloud.log().matches(WORDS).count() == times);
    };
    let (north, plain) = (make("a", Some("north")), make("b", None));
    warned(0);
    make("c", Some("nova"));
    warned(1);
    let zone = json!({"aggregate": {"availability_zone": "nova"}});
    client.put(&north, &zone).unwrap().expect(200);
    warned(2);
    let metadata = json!({"set_metadata": {"metadata": {"availability_zone": "nova"}}});
    client.post(&format!("{plain}/action"), &metadata).unwrap().expect(200);
    warned(3);
    let other = json!({"set_metadata": {"metadata": {"ssd": "true"}}});
    client.post(&format!("{plain}/action"), &other).unwrap().expect(200);
    warned(3);
}
