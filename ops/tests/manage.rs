//! `nova-manage`, `nova-status` and `nova-policy`: the exit code of each sub-command, and the outputs that scripts read.
//! The commands run under Nova's names, as links to the program, against a running control plane.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_debug_implementations, unreachable_pub)]

mod cloud;

use std::os::unix::fs::symlink;
use std::process::Command;

use cloud::{Client, Cloud, Furniture};
use serde_json::{Value, json};

const CELL0: &str = "00000000-0000-0000-0000-000000000000";
const CELL1: &str = "c3110001-0000-4000-8000-000000000001";
const NOBODY: &str = "7c0f2d52-3f3a-4a1e-9d57-3b3a6f1f9a11";

/// A control plane with two simulated hosts, and the links of Nova's names.
struct ManagedCloud {
    cloud: Cloud,
    furniture: Option<Furniture>,
}

impl ManagedCloud {
    /// Starts nothing.
    fn stopped() -> Self {
        let cloud = Cloud::new("sim://2");
        cloud.configure("[volume]\nshared = true\n");
        for name in ["nova-manage", "nova-status", "nova-policy"] {
            symlink(env!("CARGO_BIN_EXE_chronova"), cloud.folder.path().join(name)).unwrap();
        }
        Self { cloud, furniture: None }
    }

    fn running() -> Self {
        let mut site = Self::stopped();
        site.cloud.start();
        site.furniture = Some(site.cloud.furnish());
        let both = |cloud: &mut Cloud| {
            let hosts = cloud.client().get("/chronova/v1/hosts").unwrap().body;
            hosts["hosts"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(|host| host["up"] == true))
        };
        site.cloud.wait("both hosts are up", both);
        site
    }

    fn client(&self) -> Client {
        self.cloud.client()
    }

    /// Runs a tool by its link; returns exit code, standard output and standard error.
    fn run(&self, name: &str, words: &[&str]) -> (i32, String, String) {
        let folder = self.cloud.folder.path();
        let mut command = Command::new(folder.join(name));
        command
            .args(words)
            .arg("--config-file")
            .arg(folder.join("chronova.conf"))
            .arg("--data-dir")
            .arg(self.cloud.data());
        command.args(["--url", &format!("http://{}", self.cloud.address())]);
        for variable in ["OS_ROLES", "OS_USER_ID", "OS_TENANT_ID", "OS_CACERT"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    #[track_caller]
    fn manage(&self, line: &str, code: i32) -> String {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let (found, out, err) = self.run("nova-manage", &words);
        assert_eq!(found, code, "nova-manage {line}\n{out}{err}");
        out
    }

    fn server(&mut self, name: &str) -> String {
        let furniture = self.furniture.clone().unwrap();
        let wish = json!({"server": {
            "name": name, "imageRef": furniture.image, "flavorRef": furniture.flavor,
            "networks": [{"uuid": furniture.network}],
        }});
        let id = self.client().post("/compute/v2.1/servers", &wish).unwrap().expect(202).text("/server/id");
        self.settle(&id, "ACTIVE");
        id
    }

    fn settle(&mut self, id: &str, status: &str) {
        let path = format!("/compute/v2.1/servers/{id}");
        self.cloud.wait(&format!("the server is {status}"), |cloud| {
            let server = cloud.client().get(&path).unwrap().body["server"].clone();
            server["status"] == status && server["OS-EXT-STS:task_state"].is_null()
        });
    }

    fn act(&mut self, id: &str, body: &Value, status: &str) {
        self.client().post(&format!("/compute/v2.1/servers/{id}/action"), body).unwrap().expect(202);
        self.settle(id, status);
    }

    fn allocations(&self, consumer: &str) -> Value {
        self.client().get(&format!("/placement/allocations/{consumer}")).unwrap().expect(200).body
    }

    fn provider(&self) -> String {
        self.client().get("/placement/resource_providers").unwrap().expect(200).text("/resource_providers/0/uuid")
    }
}

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
    assert_eq!(site.manage("version", 0), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    let upgrades = Command::new(site.cloud.folder.path().join("nova-status")).arg("upgrade").output().unwrap();
    assert_eq!(upgrades.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&upgrades.stderr).contains("check"));
}

#[test]
fn databases_that_do_not_exist_have_novas_codes() {
    let site = ManagedCloud::stopped();
    for line in
        ["db sync", "db sync --local_cell", "db sync 960aac0e09ea", "api_db sync", "db version", "api_db version"]
    {
        site.manage(line, 0);
    }
    let version: u32 = site.manage("db version", 0).trim().parse().unwrap();
    assert!(version > 0);
    for line in ["db sync 402", "api_db sync 67", "db ironic_compute_node_move"] {
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
    // Each says so in one sentence.
    let (_, _, said) = site.run("nova-manage", &["db", "sync"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("Chronova has no database to synchronise"), "{said}");
}

#[test]
fn there_is_one_cell_and_novas_cell0() {
    let site = ManagedCloud::stopped();
    let cells = site.manage("cell_v2 list_cells", 0);
    assert!(
        cells.contains(&format!("| cell0 | {CELL0} |")) && cells.contains(&format!("| cell1 | {CELL1} |")),
        "{cells}"
    );
    assert!(cells.contains("none:///"), "{cells}");
    site.cloud.replace("[chronova]\n", "[chronova]\nevent_store = postgresql://nova:secret@127.0.0.1/nova\n");
    assert!(site.manage("cell_v2 list_cells", 0).contains("postgresql://nova:****@127.0.0.1/nova"));
    assert!(site.manage("cell_v2 list_cells --verbose", 0).contains("postgresql://nova:secret@127.0.0.1/nova"));
    site.manage("cell_v2 map_cell0 --database_connection mysql://x", 0);
    site.manage("cell_v2 simple_cell_setup --transport-url rabbit://x", 0);
    assert_eq!(
        site.manage("cell_v2 map_cell_and_hosts --verbose", 0),
        format!("All hosts are already mapped to cell(s).\n{CELL1}\n")
    );
    site.manage(&format!("cell_v2 map_instances --cell_uuid {CELL1} --max-count 5 --reset"), 0);
    site.manage(&format!("cell_v2 map_instances --cell_uuid {CELL1} --max-count 0"), 127);
    site.manage(&format!("cell_v2 map_instances --cell_uuid {NOBODY}"), 255);
    site.manage("cell_v2 create_cell --name=cell1 --verbose", 2);
    site.manage("cell_v2 discover_hosts", 0);
    site.manage("cell_v2 discover_hosts --strict --by-service", 1);
    site.manage(&format!("cell_v2 delete_cell --cell_uuid {NOBODY}"), 1);
    site.manage(&format!("cell_v2 delete_cell --cell_uuid {CELL1}"), 2);
    site.manage(&format!("cell_v2 delete_cell --cell_uuid {CELL1} --force"), 3);
    for (rest, code) in [
        ("--transport-url rabbit://x --database_connection mysql://x", 0),
        ("--name cell1 --enable", 0),
        ("--name north", 2),
        ("--disable", 2),
        ("--disable --enable", 4),
    ] {
        site.manage(&format!("cell_v2 update_cell --cell_uuid {CELL1} {rest}"), code);
    }
    site.manage(&format!("cell_v2 update_cell --cell_uuid {CELL0} --disable"), 5);
    site.manage(&format!("cell_v2 update_cell --cell_uuid {NOBODY}"), 1);
    // A sub-command that needs the server says which program to start.
    let (code, _, said) = site.run("nova-manage", &["cell_v2", "list_hosts"]);
    assert_eq!(code, 255);
    assert!(said.contains("start it with `chronova serve`"), "{said}");
}

#[test]
fn hosts_and_servers_of_the_cell_are_shown() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let hosts = site.manage("cell_v2 list_hosts", 0);
    assert_eq!(hosts.lines().filter(|line| line.contains(CELL1)).count(), 2, "{hosts}");
    assert_eq!(site.manage(&format!("cell_v2 list_hosts --cell_uuid {CELL0}"), 0).matches(CELL1).count(), 0);
    site.manage(&format!("cell_v2 list_hosts --cell_uuid {NOBODY}"), 1);
    let found = site.manage("cell_v2 discover_hosts --verbose", 0);
    assert!(found.starts_with("Found 2 cell mappings.\nSkipping cell0 since it does not contain hosts.\n"), "{found}");
    assert_eq!(found.matches("Checking host mapping for compute host '").count(), 2, "{found}");
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
}

#[test]
fn lost_allocations_are_healed() {
    let mut site = ManagedCloud::running();
    let (one, two) = (site.server("one"), site.server("two"));
    let before = site.allocations(&one)["allocations"].clone();
    let heal = "placement heal_allocations";
    assert!(site.manage(&format!("{heal} --verbose"), 4).contains("is up-to-date. Nothing to be healed."));
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
    assert_eq!(site.allocations(&one)["allocations"], json!({}), "a dry run changes nothing");
    site.manage(&format!("{heal} --max-count 1"), 1);
    let healed = site.manage(&format!("{heal} --verbose --skip-port-allocations --cell {CELL1}"), 0);
    assert!(healed.ends_with("Processed 1 instances.\n"), "{healed}");
    let shape = |allocations: &Value| {
        let mut all = allocations.as_object().unwrap().clone();
        all.values_mut().for_each(|held| held.as_object_mut().unwrap().retain(|key, _| key == "resources"));
        all
    };
    let after = site.allocations(&one);
    assert_eq!(shape(&after["allocations"]), shape(&before), "the same as the scheduler claimed");
    assert_eq!((&after["project_id"], &after["consumer_type"]), (&json!("admin"), &json!("INSTANCE")));
    site.manage(heal, 4);
    // Another owner in Placement is put right; forced, the amounts are, too.
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
    // A host without room: the ledger refuses.
    site.client().delete(&format!("/placement/allocations/{two}")).unwrap().expect(204);
    let provider = site.client().get(&format!("/compute/v2.1/servers/{two}")).unwrap().body;
    let host = provider["server"]["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned();
    let found = site.client().get(&format!("/placement/resource_providers?name={host}")).unwrap().expect(200);
    let inventories = site
        .client()
        .get(&format!("/placement/resource_providers/{}/inventories", found.text("/resource_providers/0/uuid")));
    let room = inventories.unwrap().expect(200).body["inventories"]["MEMORY_MB"]["total"].as_u64().unwrap();
    let all = json!({
        "allocations": {found.text("/resource_providers/0/uuid"): {"resources": {"MEMORY_MB": room - 600}}},
        "project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE",
    });
    site.client().put_at(&format!("/placement/allocations/{NOBODY}"), &all).unwrap().expect(204);
    site.cloud.stop();
    assert!(site.manage(heal, 3).is_empty(), "a server that does not answer is a failure of Placement");
}

#[test]
fn orphaned_allocations_are_found_and_deleted() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let provider = site.provider();
    assert_eq!(site.manage("placement audit --verbose", 0), "");
    site.manage(&format!("placement audit --resource_provider {NOBODY}"), 127);
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
    assert_ne!(site.allocations(&server)["allocations"], json!({}), "the server keeps its own");
    site.manage("placement audit --delete", 0);
    // A consumer without resources of servers is another service's.
    site.client().put("/placement/resource_classes/CUSTOM_GOLD", &json!({})).unwrap();
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

#[test]
fn volume_attachments_are_shown() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let volume = json!({"volume": {"size": 1, "name": "data"}});
    let volume = site.client().post("/volume/v3/admin/volumes", &volume).unwrap().expect(202).text("/volume/id");
    site.cloud.wait("the volume is there", |cloud| {
        cloud.client().get(&format!("/volume/v3/admin/volumes/{volume}")).unwrap().body["volume"]["status"]
            == "available"
    });
    let show = |server: &str, volume: &str, rest: &str| format!("volume_attachment show {server} {volume} {rest}");
    site.manage(&show(&server, &volume, ""), 3);
    site.manage(&show(NOBODY, &volume, ""), 2);
    let attach = json!({"volumeAttachment": {"volumeId": volume}});
    site.client().post(&format!("/compute/v2.1/servers/{server}/os-volume_attachments"), &attach).unwrap().expect(200);
    site.cloud.wait("the volume is attached", |cloud| {
        cloud.client().get(&format!("/volume/v3/admin/volumes/{volume}")).unwrap().body["volume"]["status"] == "in-use"
    });
    let shown: Value = serde_json::from_str(&site.manage(&show(&server, &volume, "--json"), 0)).unwrap();
    assert_eq!((&shown["volume_id"], &shown["instance_uuid"]), (&json!(volume), &json!(server)));
    let connection: Value =
        serde_json::from_str(&site.manage(&show(&server, &volume, "--json --connection_info"), 0)).unwrap();
    assert_eq!(connection["serial"], json!(volume));
    assert_eq!(shown["connection_info"], connection);
    let table = site.manage(&show(&server, &volume, "--connection_info"), 0);
    assert!(table.contains("| Property ") && table.contains("| serial "), "{table}");
    let host = site.client().get("/chronova/v1/hosts").unwrap().expect(200).text("/hosts/0/name");
    let connector = site.manage(&format!("volume_attachment get_connector --json --host {host}"), 0);
    assert_eq!(serde_json::from_str::<Value>(&connector).unwrap()["host"], json!(host));
    assert!(site.manage(&format!("volume_attachment get_connector --host {host}"), 0).contains("| multipath"));
    site.manage("volume_attachment get_connector --host nowhere", 1);
}

#[test]
fn image_properties_are_shown_and_set() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let show = |id: &str, name: &str| format!("image_property show {id} {name}");
    let set = |id: &str, rest: &str| format!("image_property set {id} {rest}");
    site.manage(&show(NOBODY, "hw_disk_bus"), 2);
    assert_eq!(
        site.manage(&show(&server, "hw_disk_bus"), 3),
        format!("Image property hw_disk_bus not found for instance {server}.\n")
    );
    site.manage(&set(NOBODY, "--property hw_disk_bus=scsi"), 2);
    let active = site.manage(&set(&server, "--property hw_disk_bus=scsi"), 3);
    assert!(active.contains("while it is in vm_state active"), "{active}");
    site.act(&server, &json!({"os-stop": null}), "SHUTOFF");
    site.manage(&set(&server, "--property hw_disk_bus"), 4);
    site.manage(&set(&server, "--property hw_disk_buss=scsi"), 5);
    site.manage(&set(&server, "--property hw_disk_bus=nvme"), 6);
    site.manage(&show(&server, "hw_disk_bus"), 3);
    site.manage(&set(&server, "--property hw_disk_bus=scsi --property hw_cdrom_bus=sata"), 0);
    assert_eq!(site.manage(&show(&server, "hw_disk_bus"), 0), "scsi\n");
    assert_eq!(site.manage(&show(&server, "hw_cdrom_bus"), 0), "sata\n");
    site.act(&server, &json!({"os-start": null}), "ACTIVE");
    site.cloud.stop();
    site.manage(&show(&server, "hw_disk_bus"), 1);
}

#[test]
fn machine_types_are_shown_and_changed() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    site.manage(&format!("libvirt get_machine_type {NOBODY}"), 2);
    let machine = site.manage(&format!("libvirt get_machine_type {server}"), 0);
    assert!(!machine.trim().is_empty());
    assert_eq!(site.manage("libvirt list_unset_machine_type", 0), "No instances found without hw_machine_type set.\n");
    site.manage(&format!("libvirt list_unset_machine_type --cell-uuid {NOBODY}"), 2);
    let update = |id: &str, rest: &str| format!("libvirt update_machine_type {id} {rest}");
    site.manage(&update(NOBODY, "pc"), 2);
    site.manage(&update(&server, "wonder"), 5);
    site.manage(&update(&server, machine.trim()), 3);
    site.act(&server, &json!({"os-stop": null}), "SHUTOFF");
    site.manage(&update(&server, "virt-7.2"), 4);
    let said = site.manage(&update(&server, "virt-7.2 --force"), 0);
    assert!(said.contains(&format!("machine type to virt-7.2 (previously {})", machine.trim())), "{said}");
    assert_eq!(site.manage(&format!("libvirt get_machine_type {server}"), 0), "virt-7.2\n");
    site.manage(&update(&server, "virt-7.0"), 4);
    site.manage(&update(&server, "virt-8.0"), 0);
    site.cloud.stop();
    site.manage(&format!("libvirt get_machine_type {server}"), 1);
}

#[test]
fn limits_are_not_migrated() {
    let site = ManagedCloud::stopped();
    site.manage("limits migrate_to_unified_limits --verbose --quiet", 1);
    assert!(site.manage("limits migrate_to_unified_limits", 1).starts_with("Chronova reads no limits from Keystone"));
    assert_eq!(site.manage("limits migrate_to_unified_limits --quiet", 1), "");
}

#[test]
fn an_upgrade_check_is_a_table_and_an_exit_code() {
    let mut site = ManagedCloud::stopped();
    let check = |site: &ManagedCloud| site.run("nova-status", &["upgrade", "check"]);
    let (code, table, _) = check(&site);
    assert_eq!(code, 2, "{table}");
    assert!(
        table.contains("| Check: Placement API") && table.contains("Placement API does not seem to be running."),
        "{table}"
    );
    site.cloud.start();
    let (code, table, _) = check(&site);
    assert_eq!(code, 0, "{table}");
    assert!(table.starts_with("+-") && table.contains("| Upgrade Check Results"), "{table}");
    for name in [
        "Cells v2",
        "Placement API",
        "Cinder API",
        "Policy File JSON to YAML Migration",
        "Older than N-1 computes",
        "hw_machine_type unset",
        "Service User Token Configuration",
        "Event Log",
    ] {
        assert!(table.contains(&format!("| Check: {name} ")), "{name}\n{table}");
    }
    assert_eq!(table.matches("Result: Success").count(), 8, "{table}");
    let policy = site.cloud.folder.path().join("policy.json");
    std::fs::write(&policy, "{\"os_compute_api:servers:index\": \"role:admin\"}").unwrap();
    site.cloud.configure(&format!("[oslo_policy]\npolicy_file = {}\n", policy.display()));
    let (code, table, _) = check(&site);
    assert_eq!(code, 2, "{table}");
    assert!(table.contains("is JSON-formatted"), "{table}");
    let broken = site.run("nova-status", &["upgrade", "check", "--config-file", "/nowhere.conf"]);
    assert_eq!(broken.0, 255);
}

#[test]
fn rules_are_judged_as_nova_policy_judges_them() {
    let mut site = ManagedCloud::running();
    let server = site.server("web");
    let policy = |rest: &[&str]| {
        let words: Vec<&str> = ["policy", "check"].iter().chain(rest).copied().collect();
        site.run("nova-policy", &words)
    };
    let user = ["--os-roles", "reader", "--os-user-id", "u", "--os-tenant-id", "p"];
    let with = |rest: &[&'static str]| user.iter().chain(rest).copied().collect::<Vec<&str>>();
    let (code, own, _) = policy(&with(&["--api-name", "os_compute_api:servers:show"]));
    assert_eq!((code, own.lines().next()), (0, Some("os_compute_api:servers:show")));
    let (code, text, _) = policy(&with(&["--api-name", "os_compute_api:servers:create"]));
    assert_eq!((code, text.as_str()), (1, "No rules matched or allowed\n"));
    let (code, _, _) = policy(&with(&["--api-name", "os_compute_api:servers:show", "--target", "project_id=q"]));
    assert_eq!(code, 1);
    let (code, _, said) = policy(&with(&["--target", "colour=blue"]));
    assert_eq!(code, 1);
    assert!(said.contains("colour"), "{said}");
    // A server overrides the other attributes; it belongs to another project here.
    let target = format!("instance_id={server}");
    let mut words = with(&["--api-name", "os_compute_api:servers:show", "--target", "project_id=p"]);
    words.push(&target);
    assert_eq!(policy(&words).0, 1);
    let mine = ["--os-roles", "reader", "--os-user-id", "admin", "--os-tenant-id", "admin"];
    let mut words: Vec<&str> =
        mine.into_iter().chain(["--api-name", "os_compute_api:servers:show", "--target"]).collect();
    words.push(&target);
    assert_eq!(policy(&words).0, 0);
}

#[test]
fn options_stand_anywhere_and_later_files_win() {
    let site = ManagedCloud::stopped();
    let folder = site.cloud.folder.path();
    let more = folder.join("more");
    std::fs::create_dir(&more).unwrap();
    std::fs::write(more.join("20.conf"), "[chronova]\nevent_store = postgresql://nova:two@db/nova\n").unwrap();
    std::fs::write(more.join("10.conf"), "[chronova]\nevent_store = postgresql://nova:one@db/nova\n").unwrap();
    std::fs::write(more.join("30.txt"), "[chronova]\nevent_store = postgresql://nova:no@db/nova\n").unwrap();
    let log = folder.join("manage.log");
    let log = log.to_str().unwrap();
    let more = more.to_str().unwrap();
    let (code, out, err) = site.run(
        "nova-manage",
        &["-d", "--config-dir", more, "cell_v2", "--log-file", log, "list_cells", "--verbose", "--nouse-json"],
    );
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("postgresql://nova:two@db/nova"), "{out}");
    let (code, _, err) = site.run("nova-manage", &["cell_v2", "list_hosts", "--log-file", log]);
    assert_eq!(code, 255, "{err}");
    let logged = std::fs::read_to_string(log).unwrap();
    assert!(logged.contains("the sub-command failed"), "{logged}");
    let (code, _, err) = site.run("nova-manage", &["cell_v2", "list_cells", "--config-dir", "/nowhere"]);
    assert_eq!(code, 255, "{err}");
}
