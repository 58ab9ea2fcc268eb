//! Unified limits: the defaults of resources, and the limits of projects and domains.

use serde_json::{Value, json};

use super::world::{PASSWORD, World, id_of};

const REGISTERED: &str = "/identity/v3/registered_limits";
const LIMITS: &str = "/identity/v3/limits";

/// The id of a service of the catalogue.
async fn service(world: &World, admin: &str, name: &str) -> String {
    let found = world.call(admin, "GET", "/identity/v3/services", None).await.expect(200);
    id_of(found["services"].as_array().unwrap().iter().find(|service| service["name"] == name).unwrap())
}

/// The administrator's token for the default domain. As in Keystone, limits are not changed in such a scope.
async fn token_of_domain(world: &World, admin: &str) -> String {
    let users = world.call(admin, "GET", "/identity/v3/users?name=admin", None).await.expect(200);
    let (user, role) = (id_of(&users["users"][0]), world.role(admin, "admin").await);
    let grant = format!("/identity/v3/domains/default/users/{user}/roles/{role}");
    world.call(admin, "PUT", &grant, None).await.expect(204);
    let identity = json!({"methods": ["password"], "password": {"user": {"id": user, "password": PASSWORD}}});
    let body = json!({"auth": {"identity": identity, "scope": {"domain": {"id": "default"}}}});
    let answer = world.call("", "POST", "/identity/v3/auth/tokens", Some(body)).await;
    assert_eq!(answer.status, 201);
    answer.header("X-Subject-Token").to_owned()
}

fn names(listed: &Value, key: &str) -> Vec<String> {
    listed[key].as_array().unwrap().iter().map(|one| one["resource_name"].as_str().unwrap().to_owned()).collect()
}

#[actix_web::test]
async fn defaults_are_registered_together_or_not_at_all() {
    let world = World::new().await;
    let admin = world.admin().await;
    let nova = service(&world, &admin, "nova").await;
    let one = |name: &str, limit: i64| json!({"service_id": nova, "resource_name": name, "default_limit": limit});
    let post = async |all: Value| world.call(&admin, "POST", REGISTERED, Some(json!({"registered_limits": all}))).await;
    let made = post(json!([one("servers", 10), one("class:VCPU", -1)])).await.expect(201);
    assert_eq!(names(&made, "registered_limits"), ["servers", "class:VCPU"]);
    assert_eq!(made["registered_limits"][0]["region_id"], Value::Null);
    post(json!([one("class:MEMORY_MB", 1), one("servers", 1)])).await.expect(409);
    post(json!([one("a", 1), one("a", 2)])).await.expect(409);
    for wrong in [json!([]), json!([one("a", -2)]), json!([{"resource_name": "a", "default_limit": 1}])] {
        post(wrong).await.expect(400);
    }
    let elsewhere = json!([{"service_id": "none", "resource_name": "a", "default_limit": 1}]);
    post(elsewhere).await.expect(400);
    let region = json!([{"service_id": nova, "region_id": "none", "resource_name": "a", "default_limit": 1}]);
    post(region).await.expect(400);
    let filtered = world.call(&admin, "GET", &format!("{REGISTERED}?resource_name=servers"), None).await.expect(200);
    assert_eq!(names(&filtered, "registered_limits"), ["servers"]);
    let path = format!("{REGISTERED}/{}", id_of(&made["registered_limits"][0]));
    let change = json!({"registered_limit": {"default_limit": 7, "description": "guests"}});
    let changed = world.call(&admin, "PATCH", &path, Some(change)).await.expect(200);
    assert_eq!(
        (&changed["registered_limit"]["default_limit"], &changed["registered_limit"]["description"]),
        (&json!(7), &json!("guests"))
    );
    world.call(&admin, "DELETE", &path, None).await.expect(204);
    world.call(&admin, "GET", &path, None).await.expect(404);
    let left = world.call(&admin, "GET", REGISTERED, None).await.expect(200);
    assert_eq!(names(&left, "registered_limits"), ["class:VCPU"]);
}

#[actix_web::test]
async fn a_project_sees_its_own_limits_and_sets_none() {
    let world = World::new().await;
    let admin = world.admin().await;
    let nova = service(&world, &admin, "nova").await;
    let (alice, _, of_alice) = world.tenant("alice", "member").await;
    let (bob, _, of_bob) = world.tenant("bob", "member").await;
    let limit = |name: &str, holder: Value| {
        let mut limit = json!({"service_id": nova, "resource_name": name, "resource_limit": 5});
        limit.as_object_mut().unwrap().extend(holder.as_object().unwrap().clone());
        json!({"limits": [limit]})
    };
    let post = async |by: &str, body: Value| world.call(by, "POST", LIMITS, Some(body)).await;
    // A limit needs a registered limit of its resource.
    post(&admin, limit("servers", json!({"project_id": alice}))).await.expect(403);
    let registered =
        json!({"registered_limits": [{"service_id": nova, "resource_name": "servers", "default_limit": 10}]});
    let registered = world.call(&admin, "POST", REGISTERED, Some(registered)).await.expect(201);
    let made = post(&admin, limit("servers", json!({"project_id": alice}))).await.expect(201);
    post(&admin, limit("servers", json!({"project_id": alice}))).await.expect(409);
    post(&admin, limit("servers", json!({"project_id": "nobody"}))).await.expect(404);
    post(&admin, limit("servers", json!({}))).await.expect(400);
    post(&admin, limit("servers", json!({"project_id": alice, "domain_id": "default"}))).await.expect(400);
    post(&admin, limit("servers", json!({"domain_id": "default"}))).await.expect(201);
    let path = format!("{LIMITS}/{}", id_of(&made["limits"][0]));
    world.call(&of_alice, "GET", &path, None).await.expect(200);
    world.call(&of_bob, "GET", &path, None).await.expect(403);
    world.call(&of_bob, "GET", &format!("{LIMITS}/unknown"), None).await.expect(403);
    world.call(&admin, "GET", &format!("{LIMITS}/unknown"), None).await.expect(404);
    let count = async |token: &str, query: &str| {
        let listed = world.call(token, "GET", &format!("{LIMITS}{query}"), None).await.expect(200);
        listed["limits"].as_array().unwrap().len()
    };
    assert_eq!((count(&of_alice, "").await, count(&of_bob, "").await, count(&admin, "").await), (1, 0, 2));
    assert_eq!(count(&of_bob, &format!("?project_id={alice}")).await, 0);
    let system = world.token("admin", PASSWORD, "system").await;
    assert_eq!((count(&system, "").await, count(&admin, &format!("?project_id={alice}")).await), (2, 1));
    let of_domain = token_of_domain(&world, &admin).await;
    for by in [&of_alice, &of_bob, &of_domain] {
        post(by, limit("servers", json!({"project_id": bob}))).await.expect(403);
        let change = json!({"limit": {"resource_limit": 500}});
        world.call(by, "PATCH", &path, Some(change)).await.expect(403);
        world.call(by, "DELETE", &path, None).await.expect(403);
    }
    let change = json!({"limit": {"resource_limit": 6}});
    assert_eq!(world.call(&admin, "PATCH", &path, Some(change)).await.expect(200)["limit"]["resource_limit"], 6);
    // A default with limits stays. The limits of a project end with the project.
    let default = format!("{REGISTERED}/{}", id_of(&registered["registered_limits"][0]));
    world.call(&admin, "DELETE", &default, None).await.expect(403);
    world.call(&admin, "DELETE", &format!("/identity/v3/projects/{alice}"), None).await.expect(204);
    assert_eq!(count(&admin, "").await, 1);
    let model = world.call(&of_bob, "GET", &format!("{LIMITS}/model"), None).await.expect(200);
    assert_eq!(model["model"]["name"], "flat");
}
