//! Log-in, tokens, and the effect of revoked rights on tokens.

use chronova_actors::ports::UserToken;
use chronova_actors::ports::identity::{IdentityProvider as _, TokenQuestion};
use chronova_web::auth::TokenClaim;
use serde_json::{Value, json};

use super::world::{PASSWORD, World, id_of, request};

const ME: &str = "/identity/v3/auth/projects";

#[actix_web::test]
async fn a_project_token_has_its_user_project_roles_and_catalogue() {
    let world = World::new().await;
    let answer = world.login("admin", PASSWORD, "admin").await;
    assert!(!answer.header("X-Subject-Token").is_empty());
    assert_eq!(answer.header("Vary"), "X-Auth-Token");
    let token = answer.expect(201)["token"].clone();
    assert_eq!(token["methods"], json!(["password"]));
    assert_eq!((token["user"]["name"].as_str(), token["project"]["name"].as_str()), (Some("admin"), Some("admin")));
    let roles: Vec<&str> =
        token["roles"].as_array().unwrap().iter().map(|role| role["name"].as_str().unwrap()).collect();
    assert_eq!(roles, ["admin", "manager", "member", "reader"]);
    let types: Vec<&str> = token["catalog"].as_array().unwrap().iter().map(|s| s["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["block-storage", "compute", "identity", "image", "network", "placement", "volumev3"]);
    assert_eq!(token["catalog"][1]["endpoints"][0]["url"], "http://cloud:8080/compute/v2.1");
    assert!(token["expires_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(token["audit_ids"][0].as_str().unwrap().len(), 22);
}

#[actix_web::test]
async fn scopes() {
    let world = World::new().await;
    let system = world.login("admin", PASSWORD, "system").await.expect(201);
    assert_eq!(system["token"]["system"], json!({"all": true}));
    let unscoped = world.login("admin", PASSWORD, "").await.expect(201);
    assert!(unscoped["token"].get("roles").is_none() && unscoped["token"].get("catalog").is_none());
    world.login("admin", PASSWORD, "service").await.expect(401);
    world.login("admin", PASSWORD, "nowhere").await.expect(401);
    let unscoped = world.token("admin", PASSWORD, "").await;
    let projects = world.call(&unscoped, "GET", ME, None).await.expect(200);
    assert_eq!(projects["projects"].as_array().unwrap().len(), 1);
    // A log-in with a token issues another token, which expires no later and belongs to the same chain.
    let scope = json!({"project": {"id": projects["projects"][0]["id"]}});
    let body = json!({"auth": {"identity": {"methods": ["token"], "token": {"id": unscoped}}, "scope": scope}});
    let scoped = world.call("", "POST", "/identity/v3/auth/tokens", Some(body)).await.expect(201);
    assert_eq!(scoped["token"]["methods"], json!(["password", "token"]));
    assert_eq!(scoped["token"]["audit_ids"].as_array().unwrap().len(), 2);
}

#[actix_web::test]
async fn failed_logins_do_not_reveal_the_reason() {
    let world = World::new().await;
    let messages: Vec<Value> = vec![
        world.login("admin", "wrong", "admin").await.expect(401),
        world.login("nobody", PASSWORD, "admin").await.expect(401),
        world.login("admin", &"x".repeat(5_000), "admin").await.expect(401),
    ];
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    let send = |body| world.call("", "POST", "/identity/v3/auth/tokens", Some(body));
    send(json!({})).await.expect(400);
    send(json!({"auth": {"identity": {"methods": ["password"]}}})).await.expect(400);
    send(json!({"auth": {"identity": {"methods": [], "password": {}}}})).await.expect(400);
    send(json!({"auth": {"identity": {"methods": []}}})).await.expect(401);
    send(json!({"auth": {"identity": {"methods": ["magic"]}}})).await.expect(401);
    let user = json!({"name": "admin", "password": PASSWORD});
    send(json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}})).await.expect(400);
    for token in ["", "forged", "AAAA"] {
        let refused = world.call(token, "GET", ME, None).await.expect(401);
        assert_eq!(refused["error"]["title"], "Unauthorized");
    }
}

#[actix_web::test]
async fn tokens_end_with_time_and_with_rights() {
    let world = World::new().await;
    let admin = world.admin().await;
    let (project, user, token) = world.tenant("alice", "member").await;
    let alive = |token: String| {
        let app = world.app.clone();
        async move {
            let request = request(&token, "GET", "/").to_http_request();
            let rules = &app.config.service_tokens;
            let claim = TokenClaim { headers: request.headers(), asked: None, request: None, rules };
            app.authentication.caller(&claim).await.is_ok()
        }
    };
    assert!(alive(token.clone()).await);
    // The token is invalid while the role is removed, and valid again when the role is back.
    let role = world.role(&admin, "member").await;
    let grant = format!("/identity/v3/projects/{project}/users/{user}/roles/{role}");
    world.call(&admin, "DELETE", &grant, None).await.expect(204);
    assert!(!alive(token.clone()).await);
    world.call(&admin, "PUT", &grant, None).await.expect(204);
    assert!(alive(token.clone()).await);
    // The tokens of a disabled project are invalid, and valid again when the project is enabled.
    let switch = |path: String, key: &'static str, enabled: bool| {
        let body = json!({key: {"enabled": enabled}});
        let (world, admin) = (&world, admin.clone());
        async move { world.call(&admin, "PATCH", &path, Some(body)).await.expect(200) }
    };
    switch(format!("/identity/v3/projects/{project}"), "project", false).await;
    assert!(!alive(token.clone()).await);
    switch(format!("/identity/v3/projects/{project}"), "project", true).await;
    assert!(alive(token.clone()).await);
    // The tokens of a disabled user stay invalid after the user is enabled again.
    switch(format!("/identity/v3/users/{user}"), "user", false).await;
    assert!(!alive(token.clone()).await);
    world.login("alice", "alice", "alice").await.expect(401);
    switch(format!("/identity/v3/users/{user}"), "user", true).await;
    assert!(!alive(token.clone()).await);
    // Tokens from before a change of the password are invalid.
    let token = world.token("alice", "alice", "alice").await;
    let change = json!({"user": {"original_password": "wrong", "password": "new"}});
    let path = format!("/identity/v3/users/{user}/password");
    world.call(&token, "POST", &path, Some(change)).await.expect(401);
    let change = json!({"user": {"original_password": "alice", "password": "new"}});
    world.call(&token, "POST", &path, Some(change)).await.expect(204);
    assert!(!alive(token).await);
    // A token expires an hour after the log-in.
    let token = world.token("alice", "new", "alice").await;
    world.clock.pass(3_500);
    assert!(alive(token.clone()).await);
    world.clock.pass(100);
    assert!(!alive(token).await);
}

#[actix_web::test]
async fn tokens_can_be_looked_at_and_given_back() {
    let world = World::new().await;
    let admin = world.admin().await;
    let (_, user, token) = world.tenant("alice", "reader").await;
    let (_, _, other) = world.tenant("bob", "member").await;
    let about = |method: &'static str, by: &str, subject: &str| {
        let request = request(by, method, "/identity/v3/auth/tokens").insert_header(("X-Subject-Token", subject));
        world.send(request)
    };
    let seen = about("GET", &admin, &token).await.expect(200);
    assert_eq!(seen["token"]["user"]["id"], Value::from(user));
    about("HEAD", &token, &token).await.expect(200);
    about("GET", &other, &token).await.expect(403);
    about("GET", &other, "forged").await.expect(403);
    about("GET", &admin, "forged").await.expect(404);
    about("DELETE", &other, &token).await.expect(403);
    about("DELETE", &token, &token).await.expect(204);
    about("GET", &admin, &token).await.expect(404);
    world.call(&token, "GET", ME, None).await.expect(401);
    let identity = world.app.identity().unwrap();
    let token = UserToken::new(other);
    let question = TokenQuestion { token: &token, allow_expired: false, request: None };
    assert!(identity.owner(question).await.is_ok());
}

async fn id_of_administrator(world: &World, admin: &str) -> String {
    let found = world.call(admin, "GET", "/identity/v3/users?name=admin", None).await.expect(200);
    id_of(&found["users"][0])
}

#[actix_web::test]
async fn policy_and_keystones_errors() {
    let world = World::new().await;
    let admin = world.admin().await;
    let (project, user, token) = world.tenant("alice", "member").await;
    for (method, path) in [
        ("GET", "/identity/v3/users".to_owned()),
        ("GET", "/identity/v3/projects".to_owned()),
        ("POST", "/identity/v3/projects".to_owned()),
        ("GET", "/identity/v3/role_assignments".to_owned()),
        ("DELETE", format!("/identity/v3/users/{user}")),
        ("PATCH", format!("/identity/v3/projects/{project}")),
    ] {
        let body = matches!(method, "POST" | "PATCH").then(|| json!({"project": {"name": "x"}}));
        let refused = world.call(&token, method, &path, body).await.expect(403);
        assert_eq!(refused["error"]["code"], 403, "{method} {path}");
    }
    world.call(&token, "GET", &format!("/identity/v3/users/{user}"), None).await.expect(200);
    world.call(&token, "GET", &format!("/identity/v3/projects/{project}"), None).await.expect(200);
    let again = json!({"project": {"name": "alice"}});
    world.call(&admin, "POST", "/identity/v3/projects", Some(again)).await.expect(409);
    let nameless = json!({"user": {"password": "x"}});
    world.call(&admin, "POST", "/identity/v3/users", Some(nameless)).await.expect(400);
    world.call(&admin, "POST", "/identity/v3/users", Some(json!({"user": {"name": 7}}))).await.expect(400);
    let missing = world.call(&admin, "GET", "/identity/v3/users/nobody", None).await.expect(404);
    assert_eq!(missing["error"]["message"], "Could not find user: nobody.");
    let credentials = |user: &str| format!("/identity/v3/users/{user}/application_credentials");
    let own = world.call(&token, "GET", &credentials(&user), None).await.expect(200);
    assert_eq!(own["application_credentials"], json!([]));
    let root = id_of_administrator(&world, &admin).await;
    world.call(&token, "GET", &credentials(&root), None).await.expect(403);
    world.call(&admin, "GET", &credentials("nobody"), None).await.expect(404);
    world.call(&admin, "DELETE", "/identity/v3/domains/default", None).await.expect(403);
    world.call(&admin, "GET", "/identity/v3/nothing", None).await.expect(404);
}

#[actix_web::test]
async fn lists_filter_and_nothing_shows_a_password() {
    let world = World::new().await;
    let admin = world.admin().await;
    let body =
        json!({"user": {"name": "carol", "password": "hunter2", "email": "c@example.org", "domain_id": "default"}});
    let made = world.call(&admin, "POST", "/identity/v3/users", Some(body)).await.expect(201);
    assert_eq!(made["user"]["email"], "c@example.org");
    let list = world.call(&admin, "GET", "/identity/v3/users?name=carol", None).await;
    assert!(!String::from_utf8_lossy(&list.bytes).contains("argon2") && !format!("{made}").contains("hunter2"));
    assert_eq!(list.json()["users"].as_array().unwrap().len(), 1);
    let path = format!("/identity/v3/users/{}", id_of(&made["user"]));
    let changed = json!({"user": {"email": null, "default_project_id": null, "name": "caro"}});
    let changed = world.call(&admin, "PATCH", &path, Some(changed)).await.expect(200);
    assert!(changed["user"].get("email").is_none() && changed["user"]["name"] == "caro");
    let all = world.call(&admin, "GET", "/identity/v3/role_assignments?effective&include_names", None).await;
    let all = all.expect(200)["role_assignments"].clone();
    assert_eq!(all.as_array().unwrap().len(), 8, "four roles on the project, four on the system");
}
