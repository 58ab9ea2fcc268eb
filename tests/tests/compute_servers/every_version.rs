//! Walks through all microversions: each of them answers, and a document changes only at the versions in the tables
//! below.
//!
//! Source: the history of the Compute API.

use std::collections::{BTreeMap, BTreeSet};

use chronova_tests::compute_api::{ADMIN, Api};
use serde_json::{Value, json};

use super::USER;

const NEWEST: u32 = 104;

/// The minor version, and the keys of the document that come, go or change with it.
type Differences = &'static [(u32, &'static [&'static str])];

const SERVER: Differences = &[
    (9, &["locked"]),
    (19, &["description"]),
    (26, &["tags"]),
    (47, &["flavor"]),
    (63, &["trusted_image_certificates"]),
    (71, &["server_groups"]),
    (73, &["locked_reason"]),
    (96, &["pinned_availability_zone"]),
    (98, &["image"]),
    (100, &["scheduler_hints"]),
];

/// The further differences for administrators.
const SERVER_OF_ADMINISTRATORS: Differences = &[
    (
        3,
        &[
            "OS-EXT-SRV-ATTR:hostname",
            "OS-EXT-SRV-ATTR:kernel_id",
            "OS-EXT-SRV-ATTR:launch_index",
            "OS-EXT-SRV-ATTR:ramdisk_id",
            "OS-EXT-SRV-ATTR:reservation_id",
            "OS-EXT-SRV-ATTR:root_device_name",
            "OS-EXT-SRV-ATTR:user_data",
        ],
    ),
    (16, &["host_status"]),
];

/// The further differences for users, who see the host name of their guests later than administrators.
const SERVER_OF_USERS: Differences = &[(90, &["OS-EXT-SRV-ATTR:hostname"])];

const FLAVOR: Differences = &[
    (55, &["description"]),
    (61, &["extra_specs"]),
    (75, &["swap"]),
    (102, &["OS-FLV-DISABLED:disabled", "rxtx_factor"]),
];

const GROUP: Differences = &[(13, &["project_id", "user_id"]), (64, &["metadata", "policies", "policy", "rules"])];

const SERVICE: Differences = &[(11, &["forced_down"]), (53, &["id"])];

const HYPERVISOR: Differences = &[
    (28, &["cpu_info"]),
    (53, &["id", "service"]),
    (
        88,
        &[
            "cpu_info",
            "current_workload",
            "disk_available_least",
            "free_disk_gb",
            "free_ram_mb",
            "local_gb",
            "local_gb_used",
            "memory_mb",
            "memory_mb_used",
            "running_vms",
            "uptime",
            "vcpus",
            "vcpus_used",
        ],
    ),
];

const KEY_PAIR: Differences = &[(2, &["type"])];

const AGGREGATE: Differences = &[(41, &["uuid"])];

/// Files that a user injects into a new server. They have quotas until 2.56.
const FILES: Differences = &[(57, &["injected_file_content_bytes", "injected_file_path_bytes", "injected_files"])];

const QUOTA_SET: Differences = &[(36, &["fixed_ips", "floating_ips", "security_group_rules", "security_groups"])];

const QUOTA_CLASS: Differences = &[(
    50,
    &["fixed_ips", "floating_ips", "security_group_rules", "security_groups", "server_group_members", "server_groups"],
)];

const LIMITS: Differences = &[
    (
        36,
        &[
            "maxSecurityGroupRules",
            "maxSecurityGroups",
            "maxTotalFloatingIps",
            "totalFloatingIpsUsed",
            "totalSecurityGroupsUsed",
        ],
    ),
    (39, &["maxImageMeta"]),
    (57, &["maxPersonality", "maxPersonalitySize"]),
];

const INTERFACE: Differences = &[(70, &["tag"])];

const ATTACHMENT: Differences =
    &[(70, &["tag"]), (79, &["delete_on_termination"]), (89, &["attachment_id", "bdm_uuid", "id"])];

/// For administrators, who see the events of an action at every version.
const ACTION: Differences = &[(58, &["updated_at"]), (62, &["events"]), (84, &["events"])];

const MIGRATION: Differences = &[(23, &["migration_type"]), (59, &["uuid"]), (80, &["project_id", "user_id"])];

/// The kinds of values. Unlike the values, they do not change with the time of a request.
fn form(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("string"),
        Value::Array(items) => items.first().map(form).into_iter().collect(),
        Value::Object(keys) => keys.iter().map(|(key, value)| (key.clone(), form(value))).collect(),
    }
}

/// The keys that only one of the documents has, or that have different values.
fn differing(one: &Value, other: &Value) -> BTreeSet<String> {
    let keys = |document: &Value| document.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    keys(one).union(&keys(other)).filter(|key| one.get(key) != other.get(key)).cloned().collect()
}

/// Reads the document at these versions, and returns the differences between each of them and the one before. `pointer`
/// leads to the document in the answer.
async fn walk(
    api: &Api,
    versions: &BTreeSet<u32>,
    token: &str,
    path: &str,
    pointer: &str,
) -> BTreeMap<u32, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let mut before: Option<Value> = None;
    for minor in versions.iter().copied() {
        let answer = api.call("GET", path, &format!("2.{minor}"), token, None).await;
        assert_eq!(answer.status, 200, "{path} at 2.{minor}: {}", answer.body);
        let document = answer.body.pointer(pointer).unwrap_or_else(|| panic!("{pointer} in {}", answer.body));
        // A server at rest does not change, so its values are compared, too.
        let now = if path.starts_with("/servers/") { document.clone() } else { form(document) };
        if let Some(before) = before.replace(now.clone()) {
            let keys = differing(&before, &now);
            if !keys.is_empty() {
                found.insert(minor, keys);
            }
        }
    }
    found
}

/// The first and the newest version, and the versions right before and at each difference.
fn corners(tables: &[Differences]) -> BTreeSet<u32> {
    let changes = tables.iter().copied().flatten().flat_map(|(minor, _)| [*minor - 1, *minor]);
    changes.chain([1, NEWEST]).collect()
}

fn expected(tables: &[Differences]) -> BTreeMap<u32, BTreeSet<String>> {
    let mut all = BTreeMap::<u32, BTreeSet<String>>::new();
    for (minor, keys) in tables.iter().copied().flatten() {
        all.entry(*minor).or_default().extend(keys.iter().map(|key| (*key).to_owned()));
    }
    all
}

#[actix_rt::test]
async fn each_version_answers_and_changes_only_what_its_history_says() {
    let api = Api::start().await;
    let server = format!("/servers/{}", api.server(USER, Api::wish("walk")).await);
    let group = json!({"server_group": {"name": "walk", "policies": ["anti-affinity"]}});
    let group = api.call("POST", "/os-server-groups", "2.1", ADMIN, Some(group)).await;
    let group = format!("/os-server-groups/{}", group.body["server_group"]["id"].as_str().unwrap());
    for (token, path, pointer, tables) in [
        (ADMIN, server.as_str(), "/server", &[SERVER, SERVER_OF_ADMINISTRATORS][..]),
        (USER, server.as_str(), "/server", &[SERVER, SERVER_OF_USERS][..]),
        (ADMIN, "/flavors/1", "/flavor", &[FLAVOR][..]),
        (ADMIN, group.as_str(), "/server_group", &[GROUP][..]),
        (ADMIN, "/os-services?binary=nova-compute", "/services/0", &[SERVICE][..]),
        (ADMIN, "/os-hypervisors/detail", "/hypervisors/0", &[HYPERVISOR][..]),
    ] {
        // A server is read at every version. For the other documents, the versions right before and at each difference
        // suffice.
        let versions = if path == server { (1..=NEWEST).collect() } else { corners(tables) };
        assert_eq!(walk(&api, &versions, token, path, pointer).await, expected(tables), "{path} for {token}");
    }
    api.stop().await;
}

#[actix_rt::test]
async fn documents_beside_servers_change_at_the_versions_of_their_history_alone() {
    let api = Api::start().await;
    let made = async |path: &str, body: Value| api.call("POST", path, "2.1", ADMIN, Some(body)).await.body;
    made("/os-keypairs", json!({"keypair": {"name": "walk"}})).await;
    let aggregate = made("/os-aggregates", json!({"aggregate": {"name": "walk"}})).await["aggregate"]["id"].take();
    let moved = api.server(USER, Api::wish("moved")).await;
    made(&format!("/servers/{moved}/action"), json!({"migrate": null})).await;
    api.life.settled().await;
    let id = api.server(USER, Api::wish("walk")).await;
    let interfaces = api.get(&format!("/servers/{id}/os-interface"), "2.1").await;
    let port = interfaces["interfaceAttachments"][0]["port_id"].as_str().unwrap();
    let actions = api.get(&format!("/servers/{id}/os-instance-actions"), "2.1").await;
    let request = actions["instanceActions"][0]["request_id"].as_str().unwrap();
    let volume = api.life.data_volume(("web", "alice"), Some(&id), 1).await;
    let attachments = format!("/servers/{id}/os-volume_attachments");
    let wish = json!({"volumeAttachment": {"volumeId": volume.to_string()}});
    assert_eq!(api.call("POST", &attachments, "2.60", USER, Some(wish)).await.status, 200);
    api.life.settled().await;
    let documents: [(String, &str, &[Differences]); 9] = [
        ("/os-keypairs/walk".to_owned(), "/keypair", &[KEY_PAIR]),
        (format!("/os-aggregates/{aggregate}"), "/aggregate", &[AGGREGATE]),
        ("/os-quota-sets/web".to_owned(), "/quota_set", &[QUOTA_SET, FILES]),
        ("/os-quota-class-sets/default".to_owned(), "/quota_class_set", &[QUOTA_CLASS, FILES]),
        ("/limits".to_owned(), "/limits/absolute", &[LIMITS]),
        (format!("/servers/{id}/os-interface/{port}"), "/interfaceAttachment", &[INTERFACE]),
        (format!("{attachments}/{volume}"), "/volumeAttachment", &[ATTACHMENT]),
        (format!("/servers/{id}/os-instance-actions/{request}"), "/instanceAction", &[ACTION]),
        ("/os-migrations".to_owned(), "/migrations/0", &[MIGRATION]),
    ];
    for (path, pointer, tables) in documents {
        assert_eq!(walk(&api, &corners(tables), ADMIN, &path, pointer).await, expected(tables), "{path}");
    }
    api.stop().await;
}

#[actix_rt::test]
async fn versions_beyond_the_first_and_the_newest_are_refused() {
    let api = Api::start().await;
    // The version before the first one, and the one after the newest.
    for version in ["2.0".to_owned(), format!("2.{}", NEWEST + 1)] {
        assert_eq!(api.call("GET", "/flavors", &version, ADMIN, None).await.status, 406, "{version}");
    }
    api.stop().await;
}
