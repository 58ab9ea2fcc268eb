//! Flavors, key pairs, hypervisors and services through the API: rights, and refusals with their messages.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use chronova_events::envelope::Position;
use chronova_events::store::EventStore as _;
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use serde_json::{Value, json};

const USER: &str = "alice:web";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0bTWZyLQGKlW5yQmNzFq9hJ1mX5x0yQ1V2kT3dYv3x me@home";

fn is(answer: &Answer, status: u16, words: &str) {
    assert!(answer.status == status && answer.message().contains(words), "{} {}", answer.status, answer.body);
}

#[actix_rt::test]
async fn flavors_and_who_may_use_them() {
    let api = Api::start().await;
    let make = async |who: &str, flavor: Value| {
        api.call("POST", "/flavors", "2.55", who, Some(json!({"flavor": flavor}))).await
    };
    let small = json!({"name": "small", "ram": 64, "vcpus": 1, "disk": 0, "id": "s"});
    is(&make(USER, small.clone()).await, 403, "os_compute_api:os-flavor-manage:create");
    assert_eq!(make(ADMIN, small.clone()).await.status, 200);
    is(&make(ADMIN, small).await, 409, "Flavor with ID s already exists.");
    is(
        &make(ADMIN, json!({"name": "small", "ram": 1, "vcpus": 1, "disk": 0})).await,
        409,
        "Flavor with name small already exists.",
    );
    is(&make(ADMIN, json!({"name": "x", "ram": 0, "vcpus": 1, "disk": 0})).await, 400, "less than the minimum of 1");
    let hidden =
        json!({"name": "hidden", "ram": "256", "vcpus": 1, "disk": 5, "id": "h", "os-flavor-access:is_public": false});
    assert_eq!(make(ADMIN, hidden).await.status, 200);

    let ids = async |who: &str, query: &str| -> Vec<String> {
        let list = api.call("GET", &format!("/flavors{query}"), "2.1", who, None).await;
        assert_eq!(list.status, 200, "{query}: {}", list.body);
        list.body["flavors"].as_array().unwrap().iter().map(|f| f["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(USER, "").await, ["1", "s"]);
    assert_eq!(
        ids(USER, "?is_public=false").await,
        ["1", "s"],
        "a user's query for private flavors must list the public ones"
    );
    assert_eq!(ids(ADMIN, "?is_public=none").await, ["1", "h", "s"]);
    assert_eq!(ids(ADMIN, "?is_public=false").await, ["h"]);
    assert_eq!(ids(USER, "?minRam=100").await, ["1"]);
    assert_eq!(ids(USER, "?minDisk=1").await, ["1"]);
    assert_eq!(ids(USER, "?sort_key=memory_mb").await, ["s", "1"]);
    assert_eq!(ids(USER, "?limit=1&marker=1").await, ["s"]);
    is(&api.call("GET", "/flavors?marker=zz", "2.1", USER, None).await, 400, "marker [zz] not found");
    is(&api.call("GET", "/flavors/h", "2.1", USER, None).await, 404, "Flavor h could not be found.");

    let act = async |version: &str, id: &str, body: Value| {
        api.call("POST", &format!("/flavors/{id}/action"), version, ADMIN, Some(body)).await
    };
    let grant = json!({"addTenantAccess": {"tenant": "web"}});
    assert_eq!(
        act("2.1", "h", grant.clone()).await.body,
        json!({"flavor_access": [{"flavor_id": "h", "tenant_id": "web"}]})
    );
    is(
        &act("2.1", "h", grant.clone()).await,
        409,
        "Flavor access already exists for flavor h and project web combination.",
    );
    is(&act("2.7", "s", grant).await, 409, "Can not add access to a public flavor.");
    assert_eq!(ids(USER, "").await, ["1", "h", "s"]);
    assert_eq!(act("2.1", "h", json!({"removeTenantAccess": {"tenant": "web"}})).await.status, 200);
    is(&act("2.1", "h", json!({"removeTenantAccess": {"tenant": "web"}})).await, 404, "not found");

    let specs = json!({"extra_specs": {"hw:cpu_policy": "shared"}});
    assert_eq!(api.call("POST", "/flavors/s/os-extra_specs", "2.1", ADMIN, Some(specs)).await.status, 200);
    is(&api.call("PUT", "/flavors/s/os-extra_specs/a", "2.1", ADMIN, Some(json!({"b": "1"}))).await, 400, "mismatch");
    is(
        &api.call("GET", "/flavors/s/os-extra_specs/zz", "2.1", USER, None).await,
        404,
        "has no extra specs with key zz",
    );
    assert_eq!(api.get("/flavors/s", "2.61").await["flavor"]["extra_specs"]["hw:cpu_policy"], "shared");
    assert_eq!(api.call("DELETE", "/flavors/s", "2.1", ADMIN, None).await.status, 202);
    is(&api.call("DELETE", "/flavors/s", "2.1", ADMIN, None).await, 404, "Flavor s could not be found.");
    api.stop().await;
}

#[actix_rt::test]
async fn key_pairs_belong_to_users() {
    let api = Api::start().await;
    let make = async |version: &str, who: &str, keypair: Value| {
        api.call("POST", "/os-keypairs", version, who, Some(json!({"keypair": keypair}))).await
    };
    let mine = make("2.2", USER, json!({"name": "mine", "public_key": KEY})).await;
    assert_eq!((mine.status, &mine.body["keypair"]["user_id"]), (201, &json!("alice")));
    is(&make("2.2", USER, json!({"name": "mine", "public_key": KEY})).await, 409, "Key pair 'mine' already exists.");
    is(&make("2.2", USER, json!({"name": "bad", "public_key": "ssh-rsa x"})).await, 400, "Keypair data is invalid");
    is(&make("2.92", USER, json!({"name": "x"})).await, 400, "'public_key' is a required property");
    let made = make("2.91", USER, json!({"name": "made"})).await;
    let private = made.body["keypair"]["private_key"].as_str().unwrap();
    assert!(private.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----"), "{private}");
    // The log does not have the private half. The private half is in the second to last line of the base64 text.
    let lines: Vec<&str> = private.lines().filter(|line| !line.starts_with("-----")).collect();
    let secret = lines[lines.len() - 2];
    let events = api.world.log.read_all(Position::START, 100_000).await.unwrap();
    assert_eq!(events.iter().filter(|recorded| recorded.kind.starts_with("keypair.")).count(), 2);
    for recorded in events {
        let event = format!("{:?}", recorded.event().unwrap());
        assert!(!event.contains(secret), "position {} has the private key", recorded.position);
    }
    // No later answer shows the private half.
    assert!(!api.get("/os-keypairs/made?user_id=alice", "2.10").await.to_string().contains("PRIVATE"));
    let names = async |path: &str, version: &str, who: &str| -> Vec<String> {
        let list = api.call("GET", path, version, who, None).await;
        assert_eq!(list.status, 200, "{}", list.body);
        list.body["keypairs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|k| k["keypair"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("/os-keypairs", "2.1", USER).await, ["made", "mine"]);
    assert_eq!(names("/os-keypairs?limit=1&marker=made", "2.35", USER).await, ["mine"]);
    assert_eq!(names("/os-keypairs?user_id=alice", "2.10", ADMIN).await.len(), 2);
    assert_eq!(names("/os-keypairs", "2.10", ADMIN).await.len(), 0);
    assert_eq!(api.call("GET", "/os-keypairs?user_id=alice", "2.10", "bob:web", None).await.status, 403);
    is(&api.call("GET", "/os-keypairs/mine", "2.1", "bob:web", None).await, 404, "Keypair mine not found for user bob");
    assert_eq!(api.call("DELETE", "/os-keypairs/mine", "2.1", USER, None).await.status, 202);
    assert_eq!(api.call("DELETE", "/os-keypairs/made", "2.2", USER, None).await.status, 204);
    is(&api.call("DELETE", "/os-keypairs/made", "2.2", USER, None).await, 404, "Keypair made not found for user alice");
    let limit = json!({"quota_set": {"key_pairs": 0}});
    api.call("PUT", "/os-quota-sets/web", "2.1", ADMIN, Some(limit)).await;
    is(&make("2.2", USER, json!({"name": "y", "public_key": KEY})).await, 403, "Quota exceeded, too many key pairs.");
    api.stop().await;
}

#[actix_rt::test]
async fn hosts_are_disabled_and_forced_down() {
    let api = Api::start().await;
    let services = api.get("/os-services?binary=nova-compute", "2.53").await;
    let id = services["services"][0]["id"].as_str().unwrap().to_owned();
    let put = async |body: Value| api.call("PUT", &format!("/os-services/{id}"), "2.53", ADMIN, Some(body)).await;
    is(&put(json!({})).await, 400, "No updates were requested.");
    is(&put(json!({"disabled_reason": "x", "status": "enabled"})).await, 400, "requires that status is 'disabled'");
    let disabled = put(json!({"status": "disabled", "disabled_reason": "repair"})).await;
    assert_eq!(disabled.body["service"]["disabled_reason"], "repair");
    let forced = put(json!({"forced_down": true})).await;
    assert_eq!(forced.body["service"]["state"], "down");
    let hypervisor = api.get(&format!("/os-hypervisors/{id}"), "2.53").await["hypervisor"].take();
    assert_eq!((&hypervisor["state"], &hypervisor["status"]), (&json!("down"), &json!("disabled")));
    assert_eq!(hypervisor["service"]["disabled_reason"], "repair");
    assert_eq!(put(json!({"forced_down": false, "status": "enabled"})).await.body["service"]["state"], "up");
    let old = json!({"host": "nowhere", "binary": "nova-compute"});
    is(
        &api.call("PUT", "/os-services/disable", "2.1", ADMIN, Some(old)).await,
        404,
        "Could not find binary nova-compute on host nowhere.",
    );
    is(&api.call("GET", "/os-hypervisors/17", "2.1", ADMIN, None).await, 404, "Compute host 17 could not be found.");
    is(&api.call("GET", "/os-hypervisors/17", "2.53", ADMIN, None).await, 400, "Invalid uuid 17");
    is(
        &api.call("GET", "/os-hypervisors/nothing/search", "2.1", ADMIN, None).await,
        404,
        "No hypervisor matching 'nothing' could be found.",
    );
    is(&api.call("GET", "/os-hypervisors", "2.1", USER, None).await, 403, "os_compute_api:os-hypervisors:list");

    // A server uses the resources of its flavor.
    let before = api.get("/os-hypervisors/statistics", "2.1").await["hypervisor_statistics"].take();
    let id = api.server(USER, Api::wish("x")).await;
    // As in Nova, `running_vms` counts the servers on the hosts, running or not.
    let stop = Some(json!({"os-stop": null}));
    assert_eq!(api.call("POST", &format!("/servers/{id}/action"), "2.1", USER, stop).await.status, 202);
    api.life.settled().await;
    let after = api.get("/os-hypervisors/statistics", "2.1").await["hypervisor_statistics"].take();
    let grown = |key: &str| after[key].as_u64().unwrap() - before[key].as_u64().unwrap();
    assert_eq!(
        (grown("vcpus_used"), grown("memory_mb_used"), grown("local_gb_used"), grown("running_vms")),
        (1, 512, 1, 1)
    );
    assert_eq!(after["count"], 2);
    api.stop().await;
}

/// Users do not see cells: no answer shows one, and no filter takes one.
#[actix_rt::test]
async fn no_answer_shows_a_cell_and_no_filter_takes_one() {
    /// Finds the names in a JSON value that contain `cell`. It skips `cpu_info`, whose cells are NUMA cells.
    fn names(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (name, value) in map.iter().filter(|(name, _)| *name != "cpu_info") {
                    found.extend(name.contains("cell").then(|| name.clone()));
                    names(value, found);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| names(value, found)),
            _ => {}
        }
    }
    let api = Api::start().await;
    let id = api.server(USER, Api::wish("one")).await;
    let aggregate = json!({"aggregate": {"name": "a"}});
    assert_eq!(api.call("POST", "/os-aggregates", "2.1", ADMIN, Some(aggregate)).await.status, 200);
    let server = format!("/servers/{id}");
    let actions = format!("{server}/os-instance-actions");
    for version in ["2.1", "2.53", "2.93"] {
        for path in [
            "/servers?all_tenants=1",
            "/servers/detail?all_tenants=1",
            &server,
            &actions,
            "/os-services",
            "/os-hypervisors/detail",
            "/os-aggregates",
            "/os-availability-zone/detail",
            "/os-migrations",
            "/flavors/detail",
            "/limits",
        ] {
            let mut found = Vec::new();
            names(&api.get(path, version).await, &mut found);
            assert_eq!(found, Vec::<String>::new(), "{path} at {version}");
        }
    }
    // Unknown filters are ignored until 2.74, and refused from 2.75 on.
    let listed = async |version: &str, query: &str| {
        let answer = api.call("GET", &format!("/servers?{query}"), version, USER, None).await;
        (answer.status, answer.body["servers"].as_array().map(Vec::len))
    };
    for query in ["cell_name=elsewhere", "cell=elsewhere", "cell_uuid=00000000-0000-0000-0000-000000000000"] {
        assert_eq!(listed("2.1", query).await, (200, Some(1)), "{query}");
    }
    assert_eq!(listed("2.75", "cell=elsewhere").await.0, 400);
    api.stop().await;
}
