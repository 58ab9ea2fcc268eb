//! Compares the answers of the recorded Nova with the answers on the log that `adopt` wrote from its databases.
//!
//! `ops/src/commands/adopt/compare/differences.txt` lists every difference with its reason. The test fails if a
//! difference is not listed, or if a line matches no difference.

use std::collections::{BTreeMap, BTreeSet};

use chronova::commands::adopt::compare::{
    AnswerDifferences as Differences, KnownDifference, compare_answers as compare, known_differences,
};
use chronova::nova::database::{rows, rows_by};
use serde_json::{Map, Value, json};

use super::given::{AdoptedCloud, Tables, recorded};

async fn servers(cloud: &AdoptedCloud, found: &mut Differences) {
    let theirs = recorded("api-servers.json");
    let ours = cloud.compute("/servers/detail?all_tenants=1", "2.93").await;
    compare("servers/detail", &theirs, &ours, found);
    for server in theirs["servers"].as_array().unwrap() {
        let id = server["id"].as_str().unwrap();
        let ours = cloud.compute(&format!("/servers/{id}"), "2.93").await;
        let mut ours = ours["server"].clone();
        // A single server also shows its group, which lists leave out. The test checks the group below.
        let groups = ours.as_object_mut().unwrap().remove("server_groups").unwrap();
        let in_group = recorded("api-server-groups.json")["server_groups"][0].clone();
        let is_member = in_group["members"].as_array().unwrap().contains(&json!(id));
        assert_eq!(groups, if is_member { json!([in_group["id"]]) } else { json!([]) }, "{id}");
        compare("servers/{id}", &json!({"server": server}), &json!({"server": ours}), found);
    }
    // Older versions show the same values.
    for version in
        ["2.1", "2.3", "2.9", "2.16", "2.19", "2.26", "2.38", "2.53", "2.60", "2.65", "2.72", "2.79", "2.87", "2.90"]
    {
        let ours = cloud.compute("/servers/detail?all_tenants=1", version).await;
        for (a, b) in theirs["servers"].as_array().unwrap().iter().zip(ours["servers"].as_array().unwrap()) {
            let common = |one: &Value, other: &Value| -> Value {
                let kept = one.as_object().unwrap().iter().filter(|(key, _)| other.get(key.as_str()).is_some());
                // These versions changed the format: 2.47 embeds the flavor, 2.3 shows `delete_on_termination`.
                let changed = ["flavor", "os-extended-volumes:volumes_attached"];
                let same = kept.filter(|(key, _)| !changed.contains(&key.as_str()));
                Value::Object(same.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>())
            };
            let (theirs, ours) = (json!({"servers": [common(a, b)]}), json!({"servers": [common(b, a)]}));
            compare("servers/detail", &theirs, &ours, found);
        }
    }
}

async fn parts_of_servers(cloud: &AdoptedCloud, found: &mut Differences) {
    for recorded in recorded("api-per-server.json").as_array().unwrap() {
        let id = recorded["server"].as_str().unwrap();
        let ours = cloud.compute(&format!("/servers/{id}/os-instance-actions"), "2.93").await;
        compare("os-instance-actions", &recorded["actions"], &ours, found);
        let ours = cloud.compute(&format!("/servers/{id}/os-volume_attachments"), "2.93").await;
        compare("os-volume_attachments", &recorded["volume_attachments"], &ours, found);
        let ours = cloud.get(&format!("/placement/allocations/{id}"), "1.36").await;
        compare("placement/allocations", &recorded["allocations"], &ours, found);
    }
}

async fn the_rest(cloud: &AdoptedCloud, found: &mut Differences) {
    let ours = cloud.compute("/flavors/detail?is_public=None", "2.93").await;
    compare("flavors/detail", &recorded("api-flavors.json"), &ours, found);
    let ours = cloud.compute("/os-server-groups?all_projects=true", "2.93").await;
    compare("os-server-groups", &recorded("api-server-groups.json"), &ours, found);
    let ours = cloud.compute("/os-hypervisors/detail", "2.93").await;
    let theirs = recorded("api-hypervisors.json");
    compare("os-hypervisors/detail", &theirs, &ours, found);
    let ours = cloud.compute("/os-services", "2.93").await;
    let (theirs, key) = (recorded("api-services.json"), |v: &Value| {
        format!("{}:{}", v["binary"].as_str().unwrap(), v["host"].as_str().unwrap())
    });
    let map = |list: &Value| -> Value {
        list.as_array().unwrap().iter().map(|one| (key(one), one.clone())).collect::<Map<_, _>>().into()
    };
    compare("os-services", &map(&theirs["services"]), &map(&ours["services"]), found);
    let ours = cloud.get("/placement/resource_providers", "1.39").await;
    let theirs = recorded("api-resource-providers.json");
    compare("placement/resource_providers", &theirs, &ours, found);
}

/// Compares the hypervisors of older versions with Nova's rows, because the recording has only the newest version.
async fn older_hypervisors(cloud: &AdoptedCloud, found: &mut Differences) {
    const COLUMNS: [&str; 11] = [
        "vcpus",
        "memory_mb",
        "local_gb",
        "vcpus_used",
        "memory_mb_used",
        "local_gb_used",
        "free_ram_mb",
        "free_disk_gb",
        "current_workload",
        "running_vms",
        "disk_available_least",
    ];
    let nodes = Tables::recorded().cell;
    for minor in [1, 25, 38, 53, 87] {
        let mut theirs = recorded("api-hypervisors.json");
        for one in theirs["hypervisors"].as_array_mut().unwrap() {
            let name = one["hypervisor_hostname"].as_str().unwrap().to_owned();
            let row = rows(&nodes, "compute_nodes").find(|row| row.text("hypervisor_hostname") == Some(&name)).unwrap();
            let number = |column: &str| json!(row.number(column).unwrap().unwrap());
            one.as_object_mut().unwrap().remove("uptime");
            for column in COLUMNS {
                one[column] = number(column);
            }
            let cpu = row.text("cpu_info").unwrap();
            one["cpu_info"] = if minor < 28 { json!(cpu) } else { serde_json::from_str(cpu).unwrap() };
            if minor < 53 {
                one["id"] = number("id");
            }
        }
        let ours = cloud.compute("/os-hypervisors/detail", &format!("2.{minor}")).await;
        compare("os-hypervisors/detail", &theirs, &ours, found);
    }
}

#[actix_rt::test]
async fn the_answers_are_those_of_nova_but_for_the_listed_differences() {
    let cloud = AdoptedCloud::start().await;
    let mut found = Differences::new();
    servers(&cloud, &mut found).await;
    parts_of_servers(&cloud, &mut found).await;
    the_rest(&cloud, &mut found).await;
    older_hypervisors(&cloud, &mut found).await;
    cloud.stop().await;
    let known = known_differences();
    let explains = |line: &KnownDifference, place: &(String, String)| line.explains(&place.0, &place.1);
    let unexplained: Vec<String> = found
        .iter()
        .filter(|(place, _)| !known.iter().any(|line| explains(line, place)))
        .map(|((request, path), example)| format!("{request} | {path} | {example}"))
        .collect();
    assert!(unexplained.is_empty(), "{} unexplained differences:\n{}", unexplained.len(), unexplained.join("\n"));
    let idle: Vec<_> = known.iter().filter(|line| !found.keys().any(|place| explains(line, place))).collect();
    assert!(idle.is_empty(), "lines without a difference: {idle:?}");
    println!("{} differences, all explained", found.len());
}

/// Compares inventories and traits with the rows of Placement's database, because the recording has no answers with
/// them.
#[actix_rt::test]
async fn inventories_and_traits_are_those_of_placement() {
    let cloud = AdoptedCloud::start().await;
    let tables = Tables::recorded().placement;
    let classes = chronova::nova::database::rows(&tables, "resource_classes")
        .map(|row| (row.text("id").unwrap(), row.text("name").unwrap()))
        .collect::<BTreeMap<_, _>>();
    let names = rows(&tables, "traits")
        .map(|row| (row.text("id").unwrap(), row.text("name").unwrap()))
        .collect::<BTreeMap<_, _>>();
    let inventories = rows_by(&tables, "inventories", "resource_provider_id");
    let traits = rows_by(&tables, "resource_provider_traits", "resource_provider_id");
    let mut seen = 0;
    for provider in rows(&tables, "resource_providers") {
        let (id, number) = (provider.text("uuid").unwrap(), provider.text("id").unwrap());
        let generation = provider.number("generation").unwrap().unwrap();
        let ours = cloud.get(&format!("/placement/resource_providers/{id}/inventories"), "1.39").await;
        let mut theirs = Map::new();
        for row in &inventories[number] {
            let count = |column: &str| row.number(column).unwrap().unwrap();
            let shown = json!({
                "total": count("total"), "reserved": count("reserved"), "min_unit": count("min_unit"),
                "max_unit": count("max_unit"), "step_size": count("step_size"),
                "allocation_ratio": row.real("allocation_ratio").unwrap().unwrap(),
            });
            theirs.insert(classes[row.text("resource_class_id").unwrap()].to_owned(), shown);
        }
        let mut found = Differences::new();
        let theirs = json!({"resource_provider_generation": generation, "inventories": theirs});
        compare("inventories", &theirs, &ours, &mut found);
        assert!(found.is_empty(), "{found:?}");
        let ours = cloud.get(&format!("/placement/resource_providers/{id}/traits"), "1.39").await;
        let shown: BTreeSet<&str> =
            ours["traits"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        let theirs: BTreeSet<&str> = traits[number].iter().map(|row| names[row.text("trait_id").unwrap()]).collect();
        assert_eq!(shown, theirs);
        assert_eq!(ours["resource_provider_generation"], generation);
        seen += shown.len();
    }
    assert!(seen > 50, "{seen}");
    cloud.stop().await;
}

/// The recording has no answers with key pairs or with the events of actions.
#[actix_rt::test]
async fn key_pairs_and_the_events_of_actions_are_those_of_the_rows() {
    let cloud = AdoptedCloud::start().await;
    let tables = Tables::recorded();
    let user = rows(&tables.api, "key_pairs").next().unwrap();
    let shown = cloud.compute(&format!("/os-keypairs/k1?user_id={}", user.text("user_id").unwrap()), "2.93").await;
    let keypair = &shown["keypair"];
    for column in ["name", "fingerprint", "public_key", "type", "user_id"] {
        assert_eq!(keypair[column], json!(user.text(column)), "{column}");
    }
    assert_eq!(keypair["created_at"], "2026-11-22T13:14:08.000000");
    let action = rows(&tables.cell, "instance_actions").find(|row| row.text("action") == Some("stop")).unwrap();
    let (server, request) = (action.text("instance_uuid").unwrap(), action.text("request_id").unwrap());
    let shown = cloud.compute(&format!("/servers/{server}/os-instance-actions/{request}"), "2.93").await;
    let events = &shown["instanceAction"]["events"];
    assert_eq!(events.as_array().unwrap().len(), 1, "{events}");
    assert_eq!(events[0]["event"], "compute_stop_instance");
    assert_eq!((&events[0]["result"], &events[0]["host"]), (&json!("Success"), &json!("h1")));
    assert_eq!(events[0]["finish_time"], "2026-11-22T13:15:39.000000");
    cloud.stop().await;
}
