//! `[DEFAULT] osapi_compute_unique_server_name_scope`: host names that no two servers have.

use chronova_actors::server_options::NameScope;
use chronova_tests::compute_api::{ADMIN, Answer, Api};
use chronova_tests::world::World;
use serde_json::{Value, json};

const OWNER: &str = "u:p";
const OTHER: &str = "u:q";
/// Nova's message.
const EXISTS: &str = "Instance web already exists.";

async fn api(scope: NameScope) -> Api {
    let mut world = World::new(2);
    world.options.servers.name_scope = scope;
    Api::start_of(world, "", None).await
}

async fn create(api: &Api, token: &str, more: Value) -> Answer {
    let mut wish = Api::wish("web");
    wish.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.call("POST", "/servers", "2.93", token, Some(json!({"server": wish}))).await
}

#[track_caller]
fn is_taken(answer: &Answer, message: &str) {
    assert_eq!((answer.status, &answer.body["conflictingRequest"]["message"]), (409, &json!(message)));
}

async fn count(api: &Api) -> usize {
    api.get("/servers?all_tenants=1", "2.1").await["servers"].as_array().unwrap().len()
}

#[actix_rt::test]
async fn a_name_is_taken_once_in_its_scope() {
    for (scope, same, other) in
        [(NameScope::Unbound, 202, 202), (NameScope::Project, 409, 202), (NameScope::Global, 409, 409)]
    {
        let api = api(scope).await;
        let first = create(&api, OWNER, json!({})).await;
        assert_eq!(first.status, 202, "{}", first.body);
        let second = create(&api, OWNER, json!({"name": "WEB"})).await;
        assert_eq!(second.status, same, "{scope:?}");
        if same == 409 {
            is_taken(&second, EXISTS);
        }
        assert_eq!(create(&api, OTHER, json!({})).await.status, other, "{scope:?}");
        assert_eq!(count(&api).await, 1 + [same, other].iter().filter(|status| **status == 202).count());
        api.life.settled().await;
        api.stop().await;
    }
}

/// Each request waits until the read models show the server of the request before it.
#[actix_rt::test]
async fn of_requests_at_once_one_gets_the_name() {
    let api = api(NameScope::Project).await;
    let answers = futures::future::join_all((0..16).map(|_| create(&api, OWNER, json!({})))).await;
    let made = answers.iter().filter(|answer| answer.status == 202).count();
    assert_eq!((made, count(&api).await), (1, 1));
    answers.iter().filter(|answer| answer.status != 202).for_each(|answer| is_taken(answer, EXISTS));
    api.life.settled().await;
    api.stop().await;
}

#[actix_rt::test]
async fn names_of_one_request_are_checked_together_and_a_deleted_server_frees_its_name() {
    let api = api(NameScope::Project).await;
    let both = json!({"min_count": 2, "max_count": 2});
    assert_eq!(create(&api, OWNER, json!({"name": "web-2"})).await.status, 202);
    is_taken(&create(&api, OWNER, both.clone()).await, "Instance web-2 already exists.");
    assert_eq!(count(&api).await, 1, "the refused request created a server");
    let id = api.get("/servers?all_tenants=1", "2.1").await["servers"][0]["id"].as_str().unwrap().to_owned();
    api.life.settled().await;
    assert_eq!(api.call("DELETE", &format!("/servers/{id}"), "2.1", ADMIN, None).await.status, 204);
    api.life.settled().await;
    assert_eq!(create(&api, OWNER, both).await.status, 202);
    api.life.settled().await;
    api.stop().await;
}

#[actix_rt::test]
async fn a_changed_host_name_must_be_free() {
    let api = api(NameScope::Project).await;
    assert_eq!(create(&api, OWNER, json!({})).await.status, 202);
    let other = create(&api, OWNER, json!({"name": "db"})).await;
    let path = format!("/servers/{}", other.body["server"]["id"].as_str().unwrap());
    let rename = async |name: &str| {
        let body = Some(json!({"server": {"hostname": name}}));
        api.call("PUT", &path, "2.93", OWNER, body).await
    };
    is_taken(&rename("Web").await, EXISTS);
    assert_eq!(rename("db").await.status, 200, "a server cannot keep its own name");
    assert_eq!(rename("cache").await.status, 200);
    assert_eq!(create(&api, OWNER, json!({"name": "db"})).await.status, 202, "the old name is still taken");
    api.life.settled().await;
    api.stop().await;
}
