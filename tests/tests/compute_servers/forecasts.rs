//! Forecasts, which change nothing: the host that a server would get, and the plan of a drain. Also tests which callers
//! may ask for them.

use std::collections::BTreeSet;

use chronova_events::store::EventStore as _;
use chronova_tests::compute_api::{ADMIN, Api};
use chronova_tests::services::NO_IMAGE;
use chronova_tests::world::World;
use serde_json::{Value, json};

const USER: &str = "alice:web";

async fn ask(api: &Api, method: &str, path: &str, who: &str, body: Option<Value>) -> (u16, Value) {
    let answer = api.ask(method, &format!("/chronova/v1{path}"), "2.1", who, body).await;
    (answer.status, answer.body)
}

async fn what_if(api: &Api, request: Value) -> (u16, Value) {
    ask(api, "POST", "/scheduler/what-if", ADMIN, Some(json!({"what_if": request}))).await
}

#[actix_rt::test]
async fn a_question_places_servers_one_after_the_other_and_claims_nothing() {
    let api = Api::start_of(World::new(2), "", None).await;
    let request = Api::wish("real");
    let flavor = request["flavorRef"].as_str().unwrap().to_owned();
    let head = api.world.log.head();
    let (status, body) = what_if(&api, json!({"flavor": flavor, "count": 2})).await;
    assert_eq!(status, 200, "{body}");
    let decisions = body["decisions"].as_array().unwrap();
    let hosts: BTreeSet<&str> = decisions.iter().filter_map(|one| one["chosen"].as_str()).collect();
    assert_eq!((decisions.len(), hosts.len()), (2, 2), "the second forecast ignores the first one: {body}");
    let checks = decisions[0]["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["name"] == "ComputeFilter" && check["left"] == 2), "{body}");
    // Equal hosts get no weight. After the first server, the hosts differ for the second server.
    assert!(decisions[1]["weighed"][0]["weighers"].as_array().is_some_and(|parts| !parts.is_empty()), "{body}");
    assert_eq!(api.world.log.head(), head, "the forecast is in the log");
    // The real server goes where the forecast says.
    let id = api.server(ADMIN, request).await;
    let server = api.get(&format!("/servers/{id}"), "2.100").await;
    assert_eq!(server["server"]["OS-EXT-SRV-ATTR:host"], decisions[0]["chosen"]);
    // If no host fits, the forecast names the missing resource and ends with that server.
    let specs = json!({"resources:CUSTOM_GOLD": "1"});
    let (_, body) = what_if(&api, json!({"flavor": flavor, "count": 5, "extra_specs": specs})).await;
    assert_eq!(body["decisions"].as_array().map(Vec::len), Some(1), "{body}");
    assert!(body["decisions"][0]["lacks"].is_string() && body["decisions"][0]["chosen"].is_null(), "{body}");
    api.life.stop().await;
}

#[actix_rt::test]
async fn wrong_questions_and_callers_without_the_right_are_refused() {
    let api = Api::start_of(World::new(1), "", None).await;
    let flavor = Api::wish("x")["flavorRef"].clone();
    let wrong = [
        json!({"flavor": "none such"}),
        json!({"flavor": flavor, "count": 0}),
        json!({"flavor": flavor, "count": 201}),
        json!({"flavor": flavor, "hosts": 3}),
        json!({"flavor": flavor, "image": NO_IMAGE.to_string()}),
        json!({}),
    ];
    for request in wrong {
        let (status, body) = what_if(&api, request.clone()).await;
        assert_eq!(status, 400, "{request}: {body}");
    }
    assert_eq!(ask(&api, "POST", "/scheduler/what-if", ADMIN, Some(json!({"x": 1}))).await.0, 400);
    let body = json!({"what_if": {"flavor": flavor}});
    assert_eq!(ask(&api, "POST", "/scheduler/what-if", USER, Some(body)).await.0, 403);
    let host = api.world.fleet.hostname(0);
    assert_eq!(ask(&api, "GET", &format!("/hosts/{host}/drain/plan"), USER, None).await.0, 403);
    assert_eq!(ask(&api, "GET", "/hosts/nowhere/drain/plan", ADMIN, None).await.0, 404);
    api.life.stop().await;
}

#[actix_rt::test]
async fn the_plan_of_a_drain_names_where_each_server_goes_and_why_one_stays() {
    let api = Api::start_of(World::new(2), "", None).await;
    let (host, other) = (api.world.fleet.hostname(0), api.world.fleet.hostname(1));
    let mut ids = Vec::new();
    for name in ["runs", "off", "asleep"] {
        let mut request = Api::wish(name);
        request["host"] = json!(host);
        ids.push(api.server(ADMIN, request).await);
    }
    for (id, action) in [(&ids[1], "os-stop"), (&ids[2], "suspend")] {
        let path = format!("/servers/{id}/action");
        assert_eq!(api.call("POST", &path, "2.100", ADMIN, Some(json!({action: null}))).await.status, 202);
        api.life.settled().await;
    }
    let head = api.world.log.head();
    let (status, body) = ask(&api, "GET", &format!("/hosts/{host}/drain/plan"), ADMIN, None).await;
    assert_eq!(status, 200, "{body}");
    let servers = body["plan"]["servers"].as_array().unwrap();
    let of = |name: &str| servers.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!((&of("runs")["how"], &of("runs")["to"]), (&json!("live"), &json!(other)), "{body}");
    assert_eq!((&of("off")["how"], &of("off")["to"]), (&json!("cold"), &json!(other)), "{body}");
    assert_eq!(of("asleep")["how"], "stays");
    assert!(of("asleep")["reason"].as_str().unwrap().contains("suspended"), "{body}");
    assert_eq!(api.world.log.head(), head, "the forecast is in the log");
    api.life.stop().await;
}

#[actix_rt::test]
async fn a_caller_learns_which_rules_hold() {
    let api = Api::start_of(World::new(1), "", None).await;
    let path = "/permissions?rule=os_compute_api:servers:start&rule=chronova:events:list&rule=none:such";
    let (_, admin) = ask(&api, "GET", path, ADMIN, None).await;
    let expected =
        |may: bool| json!({"chronova:events:list": may, "none:such": false, "os_compute_api:servers:start": true});
    assert_eq!(admin["permissions"], expected(true));
    assert_eq!(ask(&api, "GET", path, USER, None).await.1["permissions"], expected(false));
    let many = "rule=x&".repeat(129);
    assert_eq!(ask(&api, "GET", &format!("/permissions?{many}"), ADMIN, None).await.0, 400);
    api.life.stop().await;
}
