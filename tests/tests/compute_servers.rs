//! Servers through the API: their life cycle, refusals with their messages, and lists.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "compute_servers/action_types.rs"]
mod action_types;
#[path = "compute_servers/live.rs"]
mod live;

#[path = "compute_servers/moves.rs"]
mod moves;

#[path = "compute_servers/evacuation.rs"]
mod evacuation;

#[path = "compute_servers/moved_disks.rs"]
mod moved_disks;

#[path = "compute_servers/drain.rs"]
mod drain;

#[path = "compute_servers/forecasts.rs"]
mod forecasts;

#[path = "compute_servers/zones.rs"]
mod zones;

#[path = "compute_servers/image_signatures.rs"]
mod image_signatures;
#[path = "compute_servers/server_settings.rs"]
mod server_settings;
#[path = "compute_servers/unique_names.rs"]
mod unique_names;

#[path = "compute_servers/pci.rs"]
mod pci;
#[path = "compute_servers/persistent_memory.rs"]
mod persistent_memory;
#[path = "compute_servers/port_resources.rs"]
mod port_resources;
#[path = "compute_servers/topologies.rs"]
mod topologies;

#[path = "compute_servers/encryption.rs"]
mod encryption;
#[path = "compute_servers/hardware.rs"]
mod hardware;

#[path = "compute_servers/catalogue.rs"]
mod catalogue;
#[path = "compute_servers/every_version.rs"]
mod every_version;

use chronova_tests::compute_api::{ADMIN, Api, IMAGE, NETWORK};
use serde_json::{Value, json};

const USER: &str = "alice:web";

async fn post(api: &Api, version: &str, server: Value) -> (u16, String) {
    let answer = api.call("POST", "/servers", version, USER, Some(json!({"server": server}))).await;
    (answer.status, answer.message().to_owned())
}

#[actix_rt::test]
async fn a_servers_life() {
    let api = Api::start().await;
    let body = json!({"server": Api::wish("web 1")});
    let made = api.call("POST", "/servers", "2.1", USER, Some(body)).await;
    assert_eq!(made.status, 202);
    let keys: Vec<&String> = made.body["server"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"]);
    let id = made.body["server"]["id"].as_str().unwrap().to_owned();
    let path = format!("/servers/{id}");
    assert!(made.location.unwrap().ends_with(&path));
    api.life.settled().await;
    let shown = api.get(&path, "2.100").await["server"].take();
    assert_eq!((&shown["status"], &shown["OS-EXT-STS:power_state"]), (&json!("ACTIVE"), &json!(1)));
    assert_eq!(shown["OS-EXT-SRV-ATTR:hostname"], "web-1");
    assert_eq!(shown["OS-EXT-SRV-ATTR:instance_name"], "instance-00000001");
    assert_eq!(shown["hostId"].as_str().unwrap().len(), 56);
    assert_eq!(shown["flavor"]["original_name"], "m1.1");

    // Power actions: allowed states, and refusals with Nova's messages.
    let act = async |body: Value| api.call("POST", &format!("{path}/action"), "2.1", USER, Some(body)).await;
    let refused = act(json!({"os-start": null})).await;
    let words = format!("Cannot 'start' instance {id} while it is in vm_state active");
    assert_eq!((refused.status, refused.message()), (409, words.as_str()));
    for (body, status) in [
        (json!({"os-stop": null}), "SHUTOFF"),
        (json!({"os-start": null}), "ACTIVE"),
        (json!({"reboot": {"type": "HARD"}}), "ACTIVE"),
        (json!({"reboot": {"type": "SOFT"}}), "ACTIVE"),
        (json!({"pause": null}), "PAUSED"),
        (json!({"unpause": null}), "ACTIVE"),
        (json!({"suspend": null}), "SUSPENDED"),
        (json!({"resume": null}), "ACTIVE"),
    ] {
        let answer = act(body.clone()).await;
        assert_eq!(answer.status, 202, "{body}: {:?}", answer.body);
        api.life.settled().await;
        assert_eq!(api.get(&path, "2.1").await["server"]["status"], status, "{body}");
    }
    assert_eq!(act(json!({"reboot": {"type": "SOFTER"}})).await.status, 400);
    let console = act(json!({"os-getConsoleOutput": {"length": 5}})).await;
    assert!(console.status == 200 && console.body["output"].is_string(), "{console:?}");

    // The log of actions, newest first.
    let actions = api.get(&format!("{path}/os-instance-actions"), "2.58").await;
    let names: Vec<&str> =
        actions["instanceActions"].as_array().unwrap().iter().map(|a| a["action"].as_str().unwrap()).collect();
    let expected = ["resume", "suspend", "unpause", "pause", "reboot", "reboot", "start", "stop", "create"];
    assert_eq!(names, expected);

    // The owner cannot delete a locked server.
    assert_eq!(act(json!({"lock": null})).await.status, 202);
    let refused = api.call("DELETE", &path, "2.1", USER, None).await;
    assert_eq!((refused.status, refused.message()), (409, format!("Instance {id} is locked").as_str()));
    assert_eq!(act(json!({"unlock": null})).await.status, 202);
    assert_eq!(api.call("DELETE", &path, "2.1", USER, None).await.status, 204);
    api.life.settled().await;
    let gone = api.call("GET", &path, "2.1", USER, None).await;
    assert_eq!((gone.status, gone.message()), (404, format!("Instance {id} could not be found.").as_str()));
    // From 2.21 on the actions outlive the server.
    assert_eq!(api.call("GET", &format!("{path}/os-instance-actions"), "2.20", USER, None).await.status, 404);
    assert_eq!(api.call("GET", &format!("{path}/os-instance-actions"), "2.21", USER, None).await.status, 200);
    let deleted = api.get("/servers?deleted=true&all_tenants=1", "2.1").await;
    assert_eq!(deleted["servers"][0]["id"], *id);
    api.world.check().await;
    api.stop().await;
}

#[actix_rt::test]
async fn invalid_create_requests_are_refused_before_anything_is_created() {
    let api = Api::start().await;
    api.flavor("0", 64, 0).await;
    let with = |key: &str, value: Value| {
        let mut request = Api::wish("x");
        request[key] = value;
        request
    };
    let nic = |nic: Value| with("networks", json!([nic]));
    let cases: Vec<(&str, Value, u16, &str)> = vec![
        ("2.1", json!({"name": "x"}), 400, "'flavorRef' is a required property"),
        ("2.1", json!({"imageRef": IMAGE, "flavorRef": "1"}), 400, "'name' is a required property"),
        ("2.36", json!({"name": "x", "imageRef": IMAGE, "flavorRef": "1", "foo": 1}), 400, "('foo' was unexpected)"),
        ("2.37", json!({"name": "x", "imageRef": IMAGE, "flavorRef": "1"}), 400, "'networks' is a required property"),
        ("2.36", with("networks", json!("auto")), 400, "is not of type 'array'"),
        ("2.1", with("name", json!("")), 400, "'' is too short"),
        ("2.1", with("flavorRef", json!("99")), 400, "Flavor 99 could not be found."),
        ("2.1", json!({"name": "x", "flavorRef": "1"}), 400, "Missing imageRef attribute"),
        ("2.1", with("imageRef", json!("")), 400, "Missing imageRef attribute"),
        ("2.1", with("key_name", json!("none")), 400, "Invalid key_name provided."),
        (
            "2.1",
            with("flavorRef", json!("0")),
            403,
            "Only volume-backed servers are allowed for flavors with zero disk.",
        ),
        ("2.1", with("min_count", json!(2)), 0, ""),
        (
            "2.1",
            {
                let mut request = with("min_count", json!(3));
                request["max_count"] = json!(2);
                request
            },
            400,
            "min_count must be <= max_count",
        ),
        ("2.1", with("availability_zone", json!("elsewhere")), 400, "The requested availability zone is not available"),
        (
            "2.1",
            with("availability_zone", json!("nova:sim-1")),
            403,
            "Policy doesn't allow os_compute_api:servers:create:forced_host to be performed.",
        ),
        (
            "2.74",
            with("host", json!("sim-1")),
            403,
            "Policy doesn't allow compute:servers:create:requested_destination to be performed.",
        ),
        ("2.1", nic(json!({})), 400, "Bad networks format: network uuid is not in proper format (None)"),
        ("2.36", nic(json!({"uuid": "net"})), 400, "Bad networks format: network uuid is not in proper format (net)"),
        ("2.1", nic(json!({"port": IMAGE, "fixed_ip": "10.0.0.9"})), 400, "the two cannot be specified together."),
        ("2.1", with("user_data", json!("not base64!")), 400, "is not a 'base64'"),
        (
            "2.1",
            with(
                "block_device_mapping_v2",
                json!([{"source_type": "volume", "destination_type": "volume", "uuid": IMAGE, "boot_index": 0}]),
            ),
            400,
            "Volume 70a599e0-31e7-49b7-b260-868f441e862b could not be found.",
        ),
        ("2.56", with("personality", json!([{"path": "/a", "contents": "YQ=="}])), 0, ""),
        ("2.57", with("personality", json!([])), 400, "('personality' was unexpected)"),
        ("2.51", with("tags", json!(["a"])), 400, "('tags' was unexpected)"),
        ("2.89", with("hostname", json!("h")), 400, "('hostname' was unexpected)"),
    ];
    for (version, request, status, words) in cases.into_iter().filter(|case| case.2 != 0) {
        let (got, message) = post(&api, version, request.clone()).await;
        assert!(got == status && message.contains(words), "{request} at {version}: {got} {message}");
    }
    let none = api.get("/servers?all_tenants=1", "2.1").await;
    assert_eq!(none["servers"], json!([]), "a refused request created a server");
    // Unusual values that are allowed.
    let root = json!([{"source_type": "image", "destination_type": "local", "uuid": IMAGE, "boot_index": 0}]);
    for (version, request) in [
        ("2.1", with("block_device_mapping_v2", root)),
        ("2.56", with("personality", json!([{"path": "/a", "contents": "YQ=="}]))),
        ("2.37", with("networks", json!("none"))),
        ("2.1", with("user_data", json!("IyEvYmluL3No"))),
        ("2.1", with("networks", json!([]))),
    ] {
        let (got, message) = post(&api, version, request.clone()).await;
        assert_eq!(got, 202, "{request} at {version}: {message}");
    }
    api.life.settled().await;
    api.stop().await;
}

#[actix_rt::test]
async fn quota_is_taken_whole_or_in_part() {
    let api = Api::start().await;
    let limits = json!({"quota_set": {"instances": 3}});
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(limits)).await.status, 200);
    let many = |min: u32, max: u32| {
        let mut request = Api::wish("x");
        (request["min_count"], request["max_count"]) = (json!(min), json!(max));
        request
    };
    let (status, message) = post(&api, "2.1", many(4, 5)).await;
    let words = "Quota exceeded for instances: Requested 5, but already used 0 of 3 instances";
    assert_eq!((status, message.as_str()), (403, words));
    // The request gets as many servers as the quota allows.
    assert_eq!(post(&api, "2.1", many(1, 5)).await.0, 202);
    api.life.settled().await;
    let list = api.call("GET", "/servers?sort_key=display_name&sort_dir=asc", "2.1", USER, None).await;
    let names: Vec<&str> =
        list.body["servers"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["x-1", "x-2", "x-3"]);
    let used = api.call("GET", "/limits", "2.1", USER, None).await;
    let absolute = &used.body["limits"]["absolute"];
    assert_eq!((&absolute["totalInstancesUsed"], &absolute["maxTotalInstances"]), (&json!(3), &json!(3)));
    let too_low = json!({"quota_set": {"instances": 2}});
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(too_low)).await.status, 400);
    assert_eq!(api.call("DELETE", "/os-quota-sets/web", "2.1", ADMIN, None).await.status, 202);
    assert_eq!(api.get("/os-quota-sets/web", "2.1").await["quota_set"]["instances"], 10);
    api.stop().await;
}

/// A list that is filtered by another project's private flavor is empty, even if the query has an unknown marker. A
/// list that is filtered by an unknown flavor is empty, too.
async fn private_flavors_do_not_exist_for_others(api: &Api) {
    let flavor = json!({"name": "private", "id": "private", "ram": 64, "vcpus": 1, "disk": 1,
        "os-flavor-access:is_public": false});
    let made = api.call("POST", "/flavors", "2.1", ADMIN, Some(json!({"flavor": flavor}))).await;
    assert_eq!(made.status, 200, "{:?}", made.body);
    let list = async |token: &str, flavor: &str| {
        let marker = "00000000-0000-4000-8000-000000000000";
        api.call("GET", &format!("/servers?flavor={flavor}&marker={marker}"), "2.1", token, None).await.status
    };
    assert_eq!(list(USER, "1").await, 400, "an unknown marker was accepted");
    assert_eq!((list(USER, "nonsense").await, list(USER, "private").await), (200, 200));
    assert_eq!(list(ADMIN, "private").await, 400, "an unknown marker was accepted for an administrator");
}

/// Nova's clients read page after page. The last server of a page may be deleted before they ask for the next page.
async fn deleted_servers_are_markers(api: &Api) {
    let token = "carol:pages";
    let (older, marker) = (api.server(token, Api::wish("b")).await, api.server(token, Api::wish("c")).await);
    let newer = api.server(token, Api::wish("a")).await;
    assert_eq!(api.call("DELETE", &format!("/servers/{marker}"), "2.1", token, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(api.call("GET", &format!("/servers/{marker}"), "2.1", token, None).await.status, 404);
    let after = async |query: &str| {
        let page = api.call("GET", &format!("/servers?marker={marker}{query}"), "2.1", token, None).await;
        assert_eq!(page.status, 200, "{query}: {:?}", page.body);
        let servers = page.body["servers"].as_array().unwrap().clone();
        servers.into_iter().map(|server| server["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(after("").await, [older.as_str()]);
    assert_eq!(after("&name=.").await, [older.as_str()]);
    assert_eq!(after("&sort_key=created_at&sort_dir=asc").await, [newer.as_str()]);
    assert!(after("&sort_key=display_name&sort_dir=asc").await.is_empty());
    let foreign = api.call("GET", &format!("/servers?marker={marker}"), "2.1", USER, None).await;
    assert_eq!(foreign.status, 400, "another project's deleted server was accepted");
}

#[actix_rt::test]
async fn lists_are_filtered_sorted_and_paged() {
    let api = Api::start().await;
    let mut ids = Vec::new();
    for name in ["web-1", "web-2", "db-1"] {
        ids.push(api.server(USER, Api::wish(name)).await);
    }
    let foreign = api.server("bob:other", Api::wish("web-3")).await;
    let names = async |token: &str, version: &str, query: &str| -> Vec<String> {
        let answer = api.call("GET", &format!("/servers{query}"), version, token, None).await;
        assert_eq!(answer.status, 200, "{query}: {:?}", answer.body);
        let servers = answer.body["servers"].as_array().unwrap().clone();
        servers.iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(USER, "2.1", "").await, ["db-1", "web-2", "web-1"], "newest first");
    assert_eq!(names(USER, "2.1", "?name=web").await, ["web-2", "web-1"]);
    assert_eq!(names(USER, "2.1", "?name=WEB-[2]$").await, ["web-2"]);
    assert_eq!(names(USER, "2.1", "?status=active").await.len(), 3);
    assert_eq!(names(USER, "2.1", "?status=nonsense").await.len(), 0);
    assert_eq!(names(USER, "2.1", "?flavor=nonsense").await.len(), 0);
    assert_eq!(names(USER, "2.1", "?flavor=1&image=nonsense").await.len(), 0);
    private_flavors_do_not_exist_for_others(&api).await;
    assert_eq!(names(USER, "2.1", "?ip=10.0.0").await.len(), 3);
    assert_eq!(names(USER, "2.1", "?sort_key=display_name&sort_dir=desc").await, ["web-2", "web-1", "db-1"]);
    assert_eq!(names(USER, "2.1", "?host=nowhere").await.len(), 3, "a user's filter by host had an effect");
    assert_eq!(names("admin:web", "2.1", "?host=nowhere").await.len(), 0);
    assert_eq!(names(ADMIN, "2.1", "").await.len(), 0, "an administrator's list shows other projects");
    assert_eq!(names(ADMIN, "2.1", "?all_tenants=1").await.len(), 4);
    assert_eq!(names(ADMIN, "2.1", "?all_tenants=1&project_id=other").await, ["web-3"]);
    assert_eq!(api.call("GET", "/servers?all_tenants=1", "2.1", USER, None).await.status, 403);
    assert_eq!(api.call("GET", "/servers?status=deleted", "2.1", USER, None).await.status, 403);
    assert_eq!(api.call("GET", "/servers?changes-since=nonsense", "2.1", USER, None).await.status, 400);
    assert_eq!(names(USER, "2.37", "?status=nonsense").await, Vec::<String>::new());
    // Nova itself fails for administrators until 2.37.
    assert_eq!(names(ADMIN, "2.37", "?status=nonsense&all_tenants=1").await, Vec::<String>::new());
    let refused = api.call("GET", "/servers?status=nonsense", "2.38", USER, None).await;
    assert_eq!((refused.status, refused.message()), (400, "Invalid status value"));
    assert_eq!(api.call("GET", "/servers?status=nonsense", "2.38", ADMIN, None).await.status, 400);
    assert_eq!(api.call("GET", "/servers?foo=1", "2.74", USER, None).await.status, 200);
    assert_eq!(api.call("GET", "/servers?foo=1", "2.75", USER, None).await.status, 400);

    let page = api.call("GET", "/servers?limit=2", "2.1", USER, None).await.body;
    let next = page["servers_links"][0]["href"].as_str().unwrap().to_owned();
    assert!(next.ends_with(&format!("/compute/v2.1/servers?limit=2&marker={}", ids[1])), "{next}");
    assert_eq!(names(USER, "2.1", &format!("?limit=2&marker={}", ids[1])).await, ["web-1"]);
    let lost = api.call("GET", &format!("/servers?marker={foreign}"), "2.1", USER, None).await;
    assert_eq!((lost.status, lost.message()), (400, format!("marker [{foreign}] not found").as_str()));

    deleted_servers_are_markers(&api).await;

    // Tags and metadata.
    let put = async |path: String, version: &str, body: Value| api.call("PUT", &path, version, USER, Some(body)).await;
    let tagged = put(format!("/servers/{}/tags", ids[0]), "2.26", json!({"tags": ["blue", "new"]})).await;
    assert_eq!(tagged.status, 200);
    assert_eq!(put(format!("/servers/{}/tags/blue", ids[1]), "2.26", Value::Null).await.status, 201);
    assert_eq!(put(format!("/servers/{}/tags/blue", ids[1]), "2.26", Value::Null).await.status, 204);
    assert_eq!(names(USER, "2.26", "?tags=blue,new").await, ["web-1"]);
    assert_eq!(names(USER, "2.26", "?tags-any=blue,new").await, ["web-2", "web-1"]);
    assert_eq!(names(USER, "2.26", "?not-tags-any=blue,new").await, ["db-1"]);
    let path = format!("/servers/{}/metadata", ids[0]);
    assert_eq!(put(path.clone(), "2.1", json!({"metadata": {"a": "1", "b": "2"}})).await.status, 200);
    let merged = api.call("POST", &path, "2.1", USER, Some(json!({"metadata": {"b": "3"}}))).await;
    assert_eq!(merged.body, json!({"metadata": {"a": "1", "b": "3"}}));
    assert_eq!(put(format!("{path}/c"), "2.1", json!({"meta": {"d": "1"}})).await.status, 400);
    assert_eq!(api.call("DELETE", &format!("{path}/a"), "2.1", USER, None).await.status, 204);
    assert_eq!(api.call("DELETE", &format!("{path}/a"), "2.1", USER, None).await.status, 404);
    // Concurrent writers do not overwrite each other's items.
    let write = async |n: u8| {
        let meta = put(format!("{path}/at-once-{n}"), "2.1", json!({"meta": {format!("at-once-{n}"): "1"}})).await;
        let tag = put(format!("/servers/{}/tags/at-once-{n}", ids[0]), "2.26", Value::Null).await;
        (meta.status, tag.status)
    };
    assert_eq!(futures::future::join_all((0..20).map(write)).await, [(200, 201); 20]);
    let shown = api.get(&format!("/servers/{}", ids[0]), "2.26").await;
    assert_eq!(shown["server"]["metadata"].as_object().map(serde_json::Map::len), Some(21));
    assert_eq!(shown["server"]["tags"].as_array().map(Vec::len), Some(22));

    // Other projects do not see the server.
    for (method, path) in [("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/ips"), ("GET", "/os-interface")] {
        let body = (method == "PUT").then(|| json!({"server": {"name": "mine"}}));
        let answer = api.call(method, &format!("/servers/{foreign}{path}"), "2.1", USER, body).await;
        assert_eq!(answer.status, 404, "{method} {path}");
    }
    api.stop().await;
}

#[actix_rt::test]
async fn changes_show_at_once() {
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("a")).await;
    let path = format!("/servers/{id}");
    let change = json!({"server": {"name": "b", "description": "d", "accessIPv4": "192.0.2.1"}});
    assert_eq!(
        api.call("PUT", &path, "2.18", USER, Some(change.clone())).await.status,
        400,
        "2.18 takes a description"
    );
    let changed = api.call("PUT", &path, "2.19", USER, Some(change)).await;
    assert_eq!(changed.status, 200, "{:?}", changed.body);
    let server = &changed.body["server"];
    assert_eq!(
        (&server["name"], &server["description"], &server["accessIPv4"]),
        (&json!("b"), &json!("d"), &json!("192.0.2.1"))
    );
    assert!(server.get("OS-EXT-STS:vm_state").is_none(), "the answer has a field of 2.75");
    let whole = api.call("PUT", &path, "2.75", USER, Some(json!({"server": {"name": "c"}}))).await;
    assert_eq!(whole.body["server"]["OS-EXT-STS:vm_state"], "active");
    let forced = json!({"name": "f", "imageRef": IMAGE, "flavorRef": "1", "networks": [{"uuid": NETWORK}], "availability_zone": "nova:nowhere"});
    let refused = api.call("POST", "/servers", "2.1", ADMIN, Some(json!({"server": forced}))).await;
    assert_eq!((refused.status, refused.message()), (400, "Compute host nowhere could not be found."));
    let unknown = api.call("POST", &format!("{path}/action"), "2.1", USER, Some(json!({"dance": null}))).await;
    assert_eq!((unknown.status, unknown.message()), (400, "There is no such action: dance"));
    api.stop().await;
}
