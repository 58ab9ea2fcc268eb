//! Quotas under races, and the quota class that holds the defaults.

use std::sync::Arc;

use chronova_tests::compute_api::{ADMIN, Api};
use chronova_web::compute::{ComputeConfig, ComputeState};
use futures::future::join_all;
use serde_json::{Value, json};

use super::interfaces::{USER, is};

/// 64 concurrent clients with a quota of 10 get exactly ten servers in each round.
#[actix_rt::test]
async fn concurrent_requests_never_exceed_the_quota() {
    let rounds = if std::env::var_os("CHRONOVA_SOAK").is_some() { 1_000 } else { 5 };
    let api = Api::start().await;
    // The servers are so small that the quota is reached before any host is full.
    api.flavor("small", 64, 1).await;
    for round in 0..rounds {
        // Each round has its own project, because the servers of the last round still hold quota while they are
        // deleted.
        let user = format!("alice:race-{round}");
        let mut request = Api::wish("one");
        request["flavorRef"] = json!("small");
        let body = json!({"server": request});
        let ask = || api.call("POST", "/servers", "2.1", &user, Some(body.clone()));
        let answers = join_all((0..64).map(|_| ask())).await;
        let made: Vec<String> = answers
            .iter()
            .filter(|answer| answer.status == 202)
            .map(|answer| answer.body["server"]["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(made.len(), 10, "round {round}");
        for refused in answers.iter().filter(|answer| answer.status != 202) {
            is(refused, 403, "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances");
        }
        api.life.settled().await;
        for id in made {
            assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.1", &user, None).await.status, 204);
        }
        api.life.settled().await;
    }
    api.world.check().await;
    api.stop().await;
}

/// Nova's `NoopQuotaDriver`: nothing is limited, and every limit is shown as -1, even if projects and classes have
/// limits.
#[actix_rt::test]
async fn without_a_driver_of_quotas_nothing_is_limited() {
    let mut api = Api::start().await;
    let put = async |api: &Api, path: &str, body: Value| api.call("PUT", path, "2.57", ADMIN, Some(body)).await.status;
    let own = json!({"quota_set": {"instances": 0, "key_pairs": 0}});
    assert_eq!(put(&api, "/os-quota-sets/web", own).await, 200);
    let class = json!({"quota_class_set": {"cores": 0}});
    assert_eq!(put(&api, "/os-quota-class-sets/default", class).await, 200);
    let make = async |api: &Api| {
        let body = json!({"server": Api::wish("one")});
        api.call("POST", "/servers", "2.1", USER, Some(body)).await.status
    };
    assert_eq!(make(&api).await, 403);
    let config = ComputeConfig { enforces_quota: false, ..ComputeConfig::default() };
    Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config);
    assert_eq!(make(&api).await, 202);
    let key = Some(json!({"keypair": {"name": "k"}}));
    assert_eq!(api.call("POST", "/os-keypairs", "2.1", USER, key).await.status, 200);
    let shown = api.get("/os-quota-sets/web", "2.57").await["quota_set"].take();
    let limits: Vec<&Value> = shown.as_object().unwrap().values().filter(|value| value.is_number()).collect();
    assert!(limits.len() > 5 && limits.iter().all(|limit| **limit == json!(-1)), "{shown}");
    let class = api.get("/os-quota-class-sets/default", "2.57").await["quota_class_set"]["cores"].take();
    assert_eq!(class, json!(-1));
    let absolute = api.get("/limits?tenant_id=web", "2.57").await["limits"]["absolute"].take();
    assert_eq!((&absolute["maxTotalInstances"], &absolute["totalInstancesUsed"]), (&json!(-1), &json!(1)));
    api.life.settled().await;
    api.stop().await;
}

#[actix_rt::test]
async fn the_default_class_is_what_projects_without_limits_have() {
    let api = Api::start().await;
    let set = async |class: &str, version: &str, limits: Value| {
        let body = Some(json!({"quota_class_set": limits}));
        api.call("PUT", &format!("/os-quota-class-sets/{class}"), version, ADMIN, body).await
    };
    let done = set("default", "2.1", json!({"instances": "1", "floating_ips": 7})).await;
    assert_eq!(done.status, 200, "{:?}", done.body);
    let shown = &done.body["quota_class_set"];
    assert_eq!((&shown["instances"], &shown["floating_ips"], &shown["cores"]), (&json!(1), &json!(7), &json!(20)));
    assert!(shown.get("id").is_none() && shown.get("server_groups").is_none(), "{shown}");
    is(&set("default", "2.50", json!({"floating_ips": 7})).await, 400, "Additional properties are not allowed");
    is(&set("default", "2.57", json!({"injected_files": 7})).await, 400, "Additional properties are not allowed");
    is(&set("default", "2.1", json!({"instances": -2})).await, 400, "instances");
    is(&set("default", "2.1", json!({"cars": 1})).await, 400, "Additional properties are not allowed");
    let body = Some(json!({"quota_class_set": {}}));
    let user = api.call("PUT", "/os-quota-class-sets/default", "2.1", USER, body).await;
    is(&user, 403, "os_compute_api:os-quota-class-sets:update");

    // The default class applies to every project without a limit of its own.
    let defaults = api.get("/os-quota-sets/web/defaults", "2.57").await;
    assert_eq!(defaults["quota_set"]["instances"], 1);
    assert_eq!(api.get("/limits?tenant_id=web", "2.57").await["limits"]["absolute"]["maxTotalInstances"], 1);
    api.server(USER, Api::wish("one")).await;
    let make = async || api.call("POST", "/servers", "2.1", USER, Some(json!({"server": Api::wish("two")}))).await;
    is(&make().await, 403, "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances");
    let own = Some(json!({"quota_set": {"instances": 2}}));
    assert_eq!(api.call("PUT", "/os-quota-sets/web", "2.57", ADMIN, own).await.status, 200);
    assert_eq!(make().await.status, 202);
    // Other classes are stored and have no effect.
    assert_eq!(set("gold", "2.57", json!({"instances": 50})).await.body["quota_class_set"]["instances"], 50);
    assert_eq!(api.get("/os-quota-class-sets/gold", "2.57").await["quota_class_set"]["id"], "gold");
    let deleted = api.call("DELETE", "/os-quota-class-sets/default", "2.57", ADMIN, None).await;
    assert_eq!(deleted.status, 404, "a class is deleted");
    assert_eq!(api.get("/os-quota-sets/other/defaults", "2.57").await["quota_set"]["instances"], 1);
    api.life.settled().await;
    api.stop().await;
}

#[actix_rt::test]
async fn quotas_of_networks_end_with_their_last_version() {
    let api = Api::start().await;
    let networks = ["fixed_ips", "floating_ips", "networks", "security_group_rules", "security_groups"];
    for (path, top, without) in
        [("/os-quota-sets/web", "quota_set", "2.36"), ("/os-quota-class-sets/default", "quota_class_set", "2.50")]
    {
        let shown = api.get(path, without).await[top].take();
        for name in networks {
            assert!(shown.get(name).is_none(), "{name} at {without}: {shown}");
            let set = api.call("PUT", path, without, ADMIN, Some(json!({top: {name: 5}}))).await;
            is(&set, 400, "Additional properties are not allowed");
        }
        for name in ["cores", "instances", "ram", "key_pairs", "metadata_items", "server_groups"] {
            assert!(shown[name].is_i64(), "{name} at {without}: {shown}");
        }
    }
    api.stop().await;
}

/// Unified limits ended the limits of single users. A request that names a user is about the project.
#[actix_rt::test]
async fn a_quota_is_the_projects_even_if_a_request_names_a_user() {
    let api = Api::start().await;
    let limits = json!({"quota_set": {"instances": 1}});
    let set = api.call("PUT", "/os-quota-sets/web?user_id=alice", "2.1", ADMIN, Some(limits)).await;
    assert_eq!(set.status, 200, "{:?}", set.body);
    api.server("bob:web", Api::wish("of-another-user")).await;
    for query in ["", "?user_id=alice", "?user_id=bob"] {
        let shown = api.get(&format!("/os-quota-sets/web/detail{query}"), "2.1").await["quota_set"]["instances"].take();
        assert_eq!((&shown["limit"], &shown["in_use"]), (&json!(1), &json!(1)), "{query}");
    }
    let body = Some(json!({"server": Api::wish("one-more")}));
    let refused = api.call("POST", "/servers", "2.1", USER, body).await;
    is(&refused, 403, "Quota exceeded for instances: Requested 1, but already used 1 of 1 instances");
    api.stop().await;
}
