//! Every state of a server between two operations. The recorded cloud has three of these states. For the other states,
//! the test changes the rows to the values that Nova writes.

use serde_json::{Value, json};

use super::given::{AdoptedCloud, AdoptedHostDriver, Tables, add, set};

const OLD: &str = "555e52b6-108a-4e4d-801e-af68c8d5923c";
const AT: &str = "2026-11-22 14:00:00";
const IMAGE: &str = "11111111-2222-4333-8444-555555555555";
const MIGRATION: &str = "99999999-2222-4333-8444-555555555555";

fn put(tables: &mut Tables, column: &str, value: Option<&str>) {
    let changed = set(&mut tables.cell, "instances", column, value, |row| row("uuid").as_deref() == Some(OLD));
    assert_eq!(changed, 1, "{column}");
}

fn system(tables: &mut Tables, key: &str, value: &str) {
    let row = [("instance_uuid", OLD), ("key", key), ("value", value), ("created_at", AT), ("deleted", "0")];
    add(&mut tables.cell, "instance_system_metadata", &row);
}

/// Changes the rows as Nova does for an offloaded server. Nova releases the server's allocation.
fn offload(tables: &mut Tables) {
    for column in ["host", "node", "availability_zone"] {
        put(tables, column, None);
    }
    let held = tables.placement.0.get_mut("allocations").unwrap();
    held.rows.retain(|row| !row.contains(&Some(OLD.to_owned())));
}

/// A resize from h2 to h1 that waits to be confirmed: the migration holds the allocation at the source.
fn resize(tables: &mut Tables) {
    put(tables, "vm_state", Some("resized"));
    put(tables, "power_state", Some("1"));
    system(tables, "old_vm_state", "active");
    let flavors = tables.cell.0["instance_extra"].columns.iter().position(|name| name == "flavor").unwrap();
    let extra = tables.cell.0.get_mut("instance_extra").unwrap();
    for row in extra.rows.iter_mut().filter(|row| row.contains(&Some(OLD.to_owned()))) {
        let mut kept: Value = serde_json::from_str(row[flavors].as_ref().unwrap()).unwrap();
        let mut old = kept["cur"].clone();
        old["nova_object.data"]["flavorid"] = json!("2");
        old["nova_object.data"]["name"] = json!("m1.micro");
        old["nova_object.data"]["memory_mb"] = json!(192);
        kept["old"] = old;
        kept["new"] = kept["cur"].clone();
        row[flavors] = Some(kept.to_string());
    }
    let migration = [
        ("id", "1"),
        ("uuid", MIGRATION),
        ("instance_uuid", OLD),
        ("status", "finished"),
        ("migration_type", "resize"),
        ("source_compute", "h2"),
        ("source_node", "h2"),
        ("dest_compute", "h1"),
        ("dest_node", "h1"),
        ("created_at", AT),
        ("updated_at", AT),
        ("deleted", "0"),
    ];
    add(&mut tables.cell, "migrations", &migration);
    let consumer = [
        ("id", "9"),
        ("uuid", MIGRATION),
        ("project_id", "1"),
        ("user_id", "1"),
        ("generation", "1"),
        ("created_at", AT),
    ];
    add(&mut tables.placement, "consumers", &consumer);
    for (class, used) in [("0", "1"), ("1", "192")] {
        let held = [
            ("id", "90"),
            ("consumer_id", MIGRATION),
            ("resource_provider_id", "1"),
            ("resource_class_id", class),
            ("used", used),
            ("created_at", AT),
        ];
        add(&mut tables.placement, "allocations", &held);
    }
}

/// Status, vm_state, power_state.
type Shown = (&'static str, &'static str, u8);
type Change = fn(&mut Tables);

const CASES: &[(Shown, Change)] = &[
    (("PAUSED", "paused", 3), |tables| {
        put(tables, "vm_state", Some("paused"));
        put(tables, "power_state", Some("3"));
    }),
    (("SUSPENDED", "suspended", 4), |tables| put(tables, "vm_state", Some("suspended"))),
    (("RESCUE", "rescued", 1), |tables| {
        put(tables, "vm_state", Some("rescued"));
        put(tables, "power_state", Some("1"));
        system(tables, "rescue_image_ref", IMAGE);
    }),
    (("SHELVED", "shelved", 4), |tables| {
        put(tables, "vm_state", Some("shelved"));
        system(tables, "shelved_image_id", IMAGE);
        system(tables, "shelved_at", "2026-11-22T14:00:00Z");
    }),
    (("SHELVED_OFFLOADED", "shelved_offloaded", 4), |tables| {
        put(tables, "vm_state", Some("shelved_offloaded"));
        system(tables, "shelved_image_id", IMAGE);
        offload(tables);
    }),
    (("SOFT_DELETED", "soft-delete", 4), |tables| {
        put(tables, "vm_state", Some("soft-delete"));
        put(tables, "deleted_at", Some(AT));
    }),
    (("ERROR", "error", 4), |tables| put(tables, "vm_state", Some("error"))),
    (("VERIFY_RESIZE", "resized", 1), resize),
];

async fn adopted(change: impl Fn(&mut Tables)) -> AdoptedCloud {
    let mut tables = Tables::recorded();
    change(&mut tables);
    let (report, history) = tables.judge();
    assert!(report.is_clear(), "{}", report.json());
    AdoptedCloud::on(history, vec![AdoptedHostDriver::silent("h1"), AdoptedHostDriver::silent("h2")]).await
}

#[actix_rt::test]
async fn a_server_is_adopted_in_every_state_between_operations() {
    for ((status, vm_state, power), change) in CASES {
        let cloud = adopted(change).await;
        let shown = cloud.compute(&format!("/servers/{OLD}"), "2.93").await["server"].clone();
        assert_eq!(shown["status"], *status, "{shown}");
        assert_eq!(shown["OS-EXT-STS:vm_state"], *vm_state);
        assert_eq!(shown["OS-EXT-STS:power_state"], *power, "{status}");
        assert_eq!(shown["OS-EXT-STS:task_state"], Value::Null);
        assert_eq!(shown["created"], "2026-11-22T13:14:57Z", "{status}");
        assert_eq!(shown["OS-SRV-USG:launched_at"], "2026-11-22T13:15:12.000000", "{status}");
        let host = if *status == "SHELVED_OFFLOADED" { Value::Null } else { json!("h1") };
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], host, "{status}");
        let limits = cloud.compute("/limits?tenant_id=ee02ffde8ef44b7db84c30d757f084dc", "2.93").await;
        let used = if *status == "SOFT_DELETED" { 3 } else { 4 };
        assert_eq!(limits["limits"]["absolute"]["totalInstancesUsed"], used, "{status}");
        cloud.stop().await;
    }
}

#[actix_rt::test]
async fn a_resize_that_waits_keeps_its_migration_and_what_that_holds() {
    let cloud = adopted(resize).await;
    let held = cloud.get(&format!("/placement/allocations/{MIGRATION}"), "1.36").await;
    let source = "f5c502ad-8e91-4963-bdd0-d3ff5a0b3afc";
    assert_eq!(held["allocations"][source]["resources"], json!({"VCPU": 1, "MEMORY_MB": 192}), "{held}");
    let view = std::sync::Arc::clone(&cloud.leader.contexts.steps.views);
    let moving = view.servers.read(|servers| {
        let row = servers.get(OLD.parse::<uuid::Uuid>().map(chronova_events::ids::InstanceId).unwrap()).unwrap();
        row.instance.alive().unwrap().moving.clone().unwrap()
    });
    assert_eq!(moving.migration.to_string(), MIGRATION);
    assert_eq!((moving.old_flavor.name.as_str(), moving.new_flavor.name.as_str()), ("m1.micro", "m1.nano"));
    assert_eq!((moving.source.hostname.as_str(), moving.was_active), ("h2", true));
    let listed = cloud.compute("/os-migrations", "2.93").await["migrations"].clone();
    assert_eq!((&listed[0]["id"], &listed[0]["uuid"]), (&json!(1), &json!(MIGRATION)), "{listed}");
    assert_eq!((&listed[0]["status"], &listed[0]["migration_type"]), (&json!("finished"), &json!("resize")));
    assert_eq!((&listed[0]["source_compute"], &listed[0]["dest_compute"]), (&json!("h2"), &json!("h1")));
    assert_eq!(listed[0]["created_at"], "2026-11-22T14:00:00.000000");
    cloud.stop().await;
}

#[actix_rt::test]
async fn a_deleted_server_is_shown_to_those_who_may_see_it() {
    let cloud = adopted(|tables| {
        for (column, value) in [("vm_state", "deleted"), ("deleted", "3"), ("deleted_at", AT), ("terminated_at", AT)] {
            put(tables, column, Some(value));
        }
        let held = tables.placement.0.get_mut("allocations").unwrap();
        held.rows.retain(|row| !row.contains(&Some(OLD.to_owned())));
    })
    .await;
    let (status, _) = cloud.ask("GET", &format!("/compute/v2.1/servers/{OLD}"), "2.93", None).await;
    assert_eq!(status, 404);
    let listed = cloud.compute("/servers/detail?all_tenants=1&deleted=True", "2.93").await;
    let shown = &listed["servers"][0];
    assert_eq!((&shown["id"], &shown["status"]), (&json!(OLD), &json!("DELETED")), "{listed}");
    assert_eq!(shown["OS-SRV-USG:terminated_at"], "2026-11-22T14:00:00.000000");
    let actions = cloud.compute(&format!("/servers/{OLD}/os-instance-actions"), "2.93").await;
    assert_eq!(actions["instanceActions"].as_array().unwrap().len(), 2);
    cloud.stop().await;
}

/// Adopts aggregates, quotas, access to flavors and other data that the recorded cloud lacks.
#[actix_rt::test]
async fn aggregates_zones_quotas_and_access_are_adopted() {
    let cloud = adopted(|tables| {
        let aggregate = [("id", "7"), ("uuid", IMAGE), ("name", "fast"), ("created_at", AT)];
        add(&mut tables.api, "aggregates", &aggregate);
        let zone = [("id", "1"), ("aggregate_id", "7"), ("key", "availability_zone"), ("value", "north")];
        add(&mut tables.api, "aggregate_metadata", &zone);
        add(&mut tables.api, "aggregate_hosts", &[("id", "1"), ("aggregate_id", "7"), ("host", "h1")]);
        let limit =
            [("id", "1"), ("project_id", "p7"), ("resource", "cores"), ("hard_limit", "77"), ("created_at", AT)];
        add(&mut tables.api, "quotas", &limit);
        let class =
            [("id", "1"), ("class_name", "default"), ("resource", "ram"), ("hard_limit", "-1"), ("created_at", AT)];
        add(&mut tables.api, "quota_classes", &class);
        set(&mut tables.api, "flavors", "is_public", Some("0"), |row| row("flavorid").as_deref() == Some("2"));
        add(&mut tables.api, "flavor_projects", &[("id", "1"), ("flavor_id", "2"), ("project_id", "p7")]);
        set(&mut tables.cell, "services", "disabled", Some("1"), |row| row("host").as_deref() == Some("h2"));
        set(&mut tables.cell, "services", "disabled_reason", Some("repair"), |row| {
            row("host").as_deref() == Some("h2")
        });
    })
    .await;
    let shown = cloud.compute("/os-aggregates/7", "2.93").await["aggregate"].clone();
    assert_eq!((&shown["uuid"], &shown["name"], &shown["hosts"]), (&json!(IMAGE), &json!("fast"), &json!(["h1"])));
    assert_eq!((&shown["availability_zone"], &shown["updated_at"]), (&json!("north"), &Value::Null));
    assert_eq!(shown["created_at"], "2026-11-22T14:00:00.000000");
    let zones = cloud.compute("/os-availability-zone", "2.93").await.to_string();
    assert!(zones.contains("north"), "{zones}");
    let quota = cloud.compute("/os-quota-sets/p7", "2.93").await["quota_set"].clone();
    assert_eq!((&quota["cores"], &quota["ram"]), (&json!(77), &json!(-1)), "{quota}");
    let access = cloud.compute("/flavors/2/os-flavor-access", "2.93").await;
    assert_eq!(access["flavor_access"][0]["tenant_id"], "p7");
    let services = cloud.compute("/os-services?binary=nova-compute&host=h2", "2.93").await;
    assert_eq!(services["services"][0]["disabled_reason"], "repair", "{services}");
    cloud.stop().await;
}
