//! Application credentials: what they pass on, what ends them, and the requests that their access rules permit.

use std::sync::Arc;

use chronova_actors::services::embedded::identity::MOST_CREDENTIALS;
use chronova_events::access::AccessEvent;
use chronova_events::registry::NounEvent as _;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::EventStore as _;
use chronova_events::store::memory::MemoryStore;
use serde_json::{Value, json};

use super::world::{Answer, World, id_of, request};

const TOKENS: &str = "/identity/v3/auth/tokens";
const ME: &str = "/identity/v3/auth/projects";

fn all(user: &str) -> String {
    format!("/identity/v3/users/{user}/application_credentials")
}

fn rules(user: &str) -> String {
    format!("/identity/v3/users/{user}/access_rules")
}

/// A user `alice` with roles `member` and `reader` on project `alice`, and the user's token.
struct Alice {
    world: World,
    admin: String,
    project: String,
    user: String,
    token: String,
}

impl Alice {
    async fn new() -> Self {
        Self::of(World::new().await).await
    }

    async fn of(world: World) -> Self {
        let admin = world.admin().await;
        let (project, user, token) = world.tenant("alice", "member").await;
        Self { world, admin, project, user, token }
    }

    async fn ask(&self, by: &str, fields: Value) -> Answer {
        let body = json!({"application_credential": fields});
        self.world.call(by, "POST", &all(&self.user), Some(body)).await
    }

    async fn make(&self, fields: Value) -> Value {
        self.ask(&self.token, fields).await.expect(201)["application_credential"].clone()
    }

    /// The token of a new credential with these fields.
    async fn made_token(&self, fields: Value) -> String {
        token_of(&self.log_in(&self.make(fields).await).await)
    }

    async fn log_in(&self, credential: &Value) -> Answer {
        send_log_in(&self.world, json!({"id": credential["id"], "secret": credential["secret"]})).await
    }

    async fn status(&self, token: &str, method: &str, path: &str) -> u16 {
        self.world.call(token, method, path, None).await.status
    }
}

async fn send_log_in(world: &World, proof: Value) -> Answer {
    let identity = json!({"methods": ["application_credential"], "application_credential": proof});
    world.call("", "POST", TOKENS, Some(json!({"auth": {"identity": identity}}))).await
}

#[track_caller]
fn token_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.header("X-Subject-Token").to_owned()
}

#[actix_web::test]
async fn a_credential_is_made_shown_listed_and_deleted_and_its_secret_is_shown_once() {
    let alice = Alice::new().await;
    let fields = json!({"name": "backup", "description": "nightly", "secret": "s3cret", "roles": [{"name": "reader"}]});
    let made = alice.make(fields).await;
    assert_eq!(
        (&made["secret"], &made["unrestricted"], &made["expires_at"]),
        (&json!("s3cret"), &json!(false), &Value::Null)
    );
    assert_eq!((made["project_id"].as_str(), made["user_id"].as_str()), (Some(&*alice.project), Some(&*alice.user)));
    assert_eq!(made["roles"].as_array().unwrap().len(), 1);
    assert!(made.get("access_rules").is_none());
    let one = format!("{}/{}", all(&alice.user), id_of(&made));
    let shown = alice.world.call(&alice.token, "GET", &one, None).await.expect(200);
    let mut without = made.clone();
    without.as_object_mut().unwrap().remove("secret");
    assert_eq!(shown["application_credential"], without);
    let listed = alice.world.call(&alice.token, "GET", &all(&alice.user), None).await.expect(200);
    assert_eq!(listed["application_credentials"], json!([without]));
    let none = alice.world.call(&alice.token, "GET", &format!("{}?name=x", all(&alice.user)), None).await.expect(200);
    assert_eq!(none["application_credentials"], json!([]));
    // Without a secret and roles, the secret is generated, and the roles are those of the token.
    let other = alice.make(json!({"name": "other"})).await;
    assert_eq!(other["secret"].as_str().unwrap().len(), 86);
    assert_eq!(other["roles"].as_array().unwrap().len(), 2);
    for recorded in alice.world.store.read_all(chronova_events::envelope::Position::START, usize::MAX).await.unwrap() {
        for secret in ["s3cret", other["secret"].as_str().unwrap()] {
            let held = recorded.data.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!held, "{} holds a secret", recorded.kind);
        }
    }
    alice.world.call(&alice.token, "DELETE", &one, None).await.expect(204);
    alice.world.call(&alice.token, "GET", &one, None).await.expect(404);
    let missing = alice.world.call(&alice.token, "DELETE", &one, None).await.expect(404);
    assert_eq!(missing["error"]["message"], format!("Could not find Application Credential: {}.", id_of(&made)));
}

#[actix_web::test]
async fn a_log_in_gets_the_project_and_the_roles_of_the_credential() {
    let alice = Alice::new().await;
    let made = alice.make(json!({"name": "reads", "roles": [{"name": "reader"}]})).await;
    let answer = alice.log_in(&made).await;
    let token = answer.header("X-Subject-Token").to_owned();
    let shown = answer.expect(201)["token"].clone();
    assert_eq!(shown["methods"], json!(["application_credential"]));
    assert_eq!((&shown["project"]["id"], &shown["user"]["id"]), (&json!(alice.project), &json!(alice.user)));
    assert_eq!(shown["roles"].as_array().unwrap().iter().map(|role| &role["name"]).collect::<Vec<_>>(), ["reader"]);
    assert_eq!(shown["application_credential"], json!({"id": made["id"], "name": "reads", "restricted": true}));
    assert_eq!(alice.status(&token, "GET", "/image/v2/images").await, 200);
    let image = json!({"name": "i", "visibility": "private"});
    assert_eq!(alice.world.call(&token, "POST", "/image/v2/images", Some(image)).await.status, 403);
    // The credential also has the roles that its roles imply.
    let member = alice.make(json!({"name": "changes", "roles": [{"name": "member"}]})).await;
    let roles = alice.log_in(&member).await.expect(201)["token"]["roles"].clone();
    assert_eq!(roles.as_array().unwrap().iter().map(|role| &role["name"]).collect::<Vec<_>>(), ["member", "reader"]);
    // A log-in can also name the credential by its name and its user.
    let secret = &made["secret"];
    let user = json!({"name": "alice", "domain": {"id": "default"}});
    send_log_in(&alice.world, json!({"name": "reads", "user": user, "secret": secret})).await.expect(201);
    let user = json!({"id": alice.user});
    send_log_in(&alice.world, json!({"name": "reads", "user": user, "secret": secret})).await.expect(201);
    send_log_in(&alice.world, json!({"name": "reads", "secret": secret})).await.expect(400);
    send_log_in(&alice.world, json!({"secret": secret})).await.expect(400);
    let (_, bob, _) = alice.world.tenant("bob", "member").await;
    let user = json!({"id": bob});
    send_log_in(&alice.world, json!({"name": "reads", "user": user, "secret": secret})).await.expect(401);
}

#[actix_web::test]
async fn refused_log_ins_do_not_reveal_the_reason() {
    let alice = Alice::new().await;
    let made = alice.make(json!({"name": "a", "secret": "right"})).await;
    let wrong = send_log_in(&alice.world, json!({"id": made["id"], "secret": "wrong"})).await.expect(401);
    let unknown = send_log_in(&alice.world, json!({"id": "nothing", "secret": "right"})).await.expect(401);
    let path = format!("{}/{}", all(&alice.user), id_of(&made));
    alice.world.call(&alice.token, "DELETE", &path, None).await.expect(204);
    let deleted = alice.log_in(&made).await.expect(401);
    assert!(wrong == unknown && wrong == deleted, "{wrong} {unknown} {deleted}");
    let scope = json!({"project": {"id": alice.project}});
    let made = alice.make(json!({"name": "b"})).await;
    let proof = json!({"id": made["id"], "secret": made["secret"]});
    let identity = json!({"methods": ["application_credential"], "application_credential": proof});
    let body = json!({"auth": {"identity": identity, "scope": scope}});
    alice.world.call("", "POST", TOKENS, Some(body)).await.expect(401);
}

/// Wrong secrets are limited as wrong passwords are, and do not lock the user out.
#[actix_web::test]
async fn wrong_secrets_are_limited() {
    let alice = Alice::new().await;
    let made = alice.make(json!({"name": "a"})).await;
    let wrong = json!({"id": made["id"], "secret": "wrong"});
    let mut statuses = Vec::new();
    for _ in 0..40 {
        statuses.push(send_log_in(&alice.world, wrong.clone()).await.status);
    }
    assert_eq!((statuses[0], statuses[39]), (401, 429));
    alice.world.login("alice", "alice", "alice").await.expect(201);
}

#[actix_web::test]
async fn tokens_end_with_their_credential() {
    let alice = Alice::new().await;
    let deleted = alice.make(json!({"name": "deleted"})).await;
    let token = token_of(&alice.log_in(&deleted).await);
    assert_eq!(alice.status(&token, "GET", ME).await, 200);
    let path = format!("{}/{}", all(&alice.user), id_of(&deleted));
    alice.world.call(&alice.token, "DELETE", &path, None).await.expect(204);
    assert_eq!(alice.status(&token, "GET", ME).await, 401);
    // The clock of the test begins at 22:13:20.
    let ends = "2023-11-14T22:30:00.000000";
    let short = alice.make(json!({"name": "short", "expires_at": ends})).await;
    assert_eq!(short["expires_at"], ends);
    let answer = alice.log_in(&short).await;
    let token = answer.header("X-Subject-Token").to_owned();
    assert_eq!(answer.expect(201)["token"]["expires_at"], format!("{ends}Z"));
    assert_eq!(alice.status(&token, "GET", ME).await, 200);
    alice.world.clock.pass(1_200);
    assert_eq!(alice.status(&token, "GET", ME).await, 401);
    alice.log_in(&short).await.expect(401);
    // An expired credential can still be seen and deleted.
    let path = format!("{}/{}", all(&alice.user), id_of(&short));
    alice.world.call(&alice.token, "GET", &path, None).await.expect(200);
    alice.ask(&alice.token, json!({"name": "past", "expires_at": ends})).await.expect(400);
    alice.ask(&alice.token, json!({"name": "never", "expires_at": "soon"})).await.expect(400);
}

#[actix_web::test]
async fn credentials_end_with_the_rights_of_their_user() {
    let alice = Alice::new().await;
    let Alice { world, admin, project, user, .. } = &alice;
    let grant = format!("/identity/v3/projects/{project}/users/{user}/roles/{}", world.role(admin, "member").await);
    let switch = async |enabled: bool| {
        let body = json!({"user": {"enabled": enabled}});
        world.call(admin, "PATCH", &format!("/identity/v3/users/{user}"), Some(body)).await.expect(200);
    };
    let made = async |name: &str| {
        let token = world.token("alice", "alice", "alice").await;
        let made = alice.ask(&token, json!({"name": name})).await.expect(201)["application_credential"].clone();
        alice.log_in(&made).await.expect(201);
        made
    };
    // Unlike a token, a credential does not come back with the role.
    let first = made("first").await;
    world.call(admin, "DELETE", &grant, None).await.expect(204);
    alice.log_in(&first).await.expect(401);
    world.call(admin, "PUT", &grant, None).await.expect(204);
    alice.log_in(&first).await.expect(401);
    // A new password changes nothing, because programs do not use it.
    let second = made("second").await;
    let body = json!({"user": {"password": "alice"}});
    world.call(admin, "PATCH", &format!("/identity/v3/users/{user}"), Some(body)).await.expect(200);
    alice.log_in(&second).await.expect(201);
    switch(false).await;
    alice.log_in(&second).await.expect(401);
    switch(true).await;
    alice.log_in(&second).await.expect(401);
    let third = made("third").await;
    let body = json!({"project": {"enabled": false}});
    world.call(admin, "PATCH", &format!("/identity/v3/projects/{project}"), Some(body)).await.expect(200);
    alice.log_in(&third).await.expect(401);
    world.call(admin, "DELETE", &format!("/identity/v3/users/{user}"), None).await.expect(204);
    alice.log_in(&third).await.expect(401);
    world.call(admin, "GET", &all(user), None).await.expect(404);
}

#[actix_web::test]
async fn a_credential_has_no_other_roles_than_its_makers_token() {
    let alice = Alice::new().await;
    for role in
        [json!({"name": "admin"}), json!({"id": alice.world.role(&alice.admin, "admin").await}), json!({"name": "x"})]
    {
        let refused = alice.ask(&alice.token, json!({"name": "a", "roles": [role]})).await.expect(400);
        let message = "Invalid application credential: Cannot create an application credential with unassigned role";
        assert_eq!(refused["error"]["message"], message);
    }
    // The maker's token counts, not the maker's other rights.
    let reader = alice.made_token(json!({"name": "reads", "roles": [{"name": "reader"}], "unrestricted": true})).await;
    alice.ask(&reader, json!({"name": "more", "roles": [{"name": "member"}]})).await.expect(400);
    let more = alice.ask(&reader, json!({"name": "more"})).await.expect(201);
    assert_eq!(more["application_credential"]["roles"].as_array().unwrap().len(), 1);
}

#[actix_web::test]
async fn only_unrestricted_credentials_manage_credentials() {
    let alice = Alice::new().await;
    let made = alice.make(json!({"name": "restricted"})).await;
    let restricted = token_of(&alice.log_in(&made).await);
    let refused = alice.ask(&restricted, json!({"name": "child"})).await.expect(403);
    let text = refused["error"]["message"].as_str().unwrap().to_owned();
    assert!(text.contains("Using method 'application_credential' is not allowed"), "{text}");
    let path = format!("{}/{}", all(&alice.user), id_of(&made));
    assert_eq!(alice.status(&restricted, "DELETE", &path).await, 403);
    assert_eq!(alice.status(&restricted, "GET", &path).await, 200);
    // A token that is issued in exchange for that token is as restricted, and has no other scope.
    let world = &alice.world;
    let again = |scope: Option<Value>| {
        let mut auth = json!({"identity": {"methods": ["token"], "token": {"id": restricted}}});
        if let Some(scope) = scope {
            auth["scope"] = scope;
        }
        let body = json!({"auth": auth});
        async move { world.call("", "POST", TOKENS, Some(body)).await }
    };
    let second = token_of(&again(None).await);
    alice.ask(&second, json!({"name": "child"})).await.expect(403);
    again(Some(json!({"project": {"id": alice.project}}))).await.expect(201);
    let service = json!({"project": {"name": "service", "domain": {"id": "default"}}});
    for scope in [json!({"system": {"all": true}}), json!({"unscoped": {}}), service] {
        again(Some(scope)).await.expect(401);
    }
    let free = alice.made_token(json!({"name": "free", "unrestricted": true})).await;
    alice.ask(&free, json!({"name": "child"})).await.expect(201);
    assert_eq!(alice.status(&free, "DELETE", &path).await, 204);
    assert_eq!(alice.status(&restricted, "GET", ME).await, 401, "the token outlives its credential");
    assert_eq!(alice.status(&second, "GET", ME).await, 401, "the token's token outlives the credential");
}

#[actix_web::test]
async fn nobody_reaches_the_credentials_of_another_user() {
    let alice = Alice::new().await;
    let rule = json!({"service": "compute", "method": "GET", "path": "/v2.1/servers"});
    let made = alice.make(json!({"name": "a", "access_rules": [rule]})).await;
    let (_, mallory, token) = alice.world.tenant("mallory", "member").await;
    let (id, rule) = (id_of(&made), id_of(&made["access_rules"][0]));
    for (method, path) in [
        ("GET", all(&alice.user)),
        ("GET", format!("{}/{id}", all(&alice.user))),
        ("DELETE", format!("{}/{id}", all(&alice.user))),
        ("GET", rules(&alice.user)),
        ("GET", format!("{}/{rule}", rules(&alice.user))),
        ("DELETE", format!("{}/{rule}", rules(&alice.user))),
    ] {
        assert_eq!(alice.status(&token, method, &path).await, 403, "{method} {path}");
    }
    // In paths of another user, the ids name nothing, not even for the administrator.
    for (method, path) in [
        ("GET", format!("{}/{id}", all(&mallory))),
        ("DELETE", format!("{}/{id}", all(&mallory))),
        ("GET", format!("{}/{rule}", rules(&mallory))),
        ("DELETE", format!("{}/{rule}", rules(&mallory))),
    ] {
        assert_eq!(alice.status(&token, method, &path).await, 404, "{method} {path}");
    }
    assert_eq!(alice.status(&alice.admin, "DELETE", &format!("{}/{id}", all(&mallory))).await, 404);
    let body = |fields: Value| Some(json!({"application_credential": fields}));
    let theirs = body(json!({"name": "b", "access_rules": [{"id": rule}]}));
    alice.world.call(&token, "POST", &all(&mallory), theirs).await.expect(404);
    alice.world.call(&token, "POST", &all(&alice.user), body(json!({"name": "b"}))).await.expect(403);
    let by_admin = alice.world.call(&alice.admin, "POST", &all(&alice.user), body(json!({"name": "b"}))).await;
    by_admin.expect(403);
    // An administrator sees and deletes the credentials of others, without their secrets.
    let seen = alice.world.call(&alice.admin, "GET", &format!("{}/{id}", all(&alice.user)), None).await.expect(200);
    assert!(seen["application_credential"].get("secret").is_none());
    assert_eq!(alice.status(&alice.admin, "DELETE", &format!("{}/{id}", all(&alice.user))).await, 204);
}

#[actix_web::test]
async fn names_are_unique_for_a_user_and_the_number_is_limited() {
    let alice = Alice::new().await;
    alice.make(json!({"name": "0"})).await;
    alice.ask(&alice.token, json!({"name": "0"})).await.expect(409);
    for wrong in
        [json!({}), json!({"name": ""}), json!({"name": "x", "roles": [{}]}), json!({"name": "x", "unrestricted": 7})]
    {
        alice.ask(&alice.token, wrong).await.expect(400);
    }
    for number in 1..MOST_CREDENTIALS {
        alice.make(json!({"name": number.to_string()})).await;
    }
    let refused = alice.ask(&alice.token, json!({"name": "one more"})).await.expect(403);
    assert!(refused["error"]["message"].as_str().unwrap().contains(&format!("maximum of {MOST_CREDENTIALS}")));
}

#[actix_web::test]
async fn access_rules_are_enforced_on_every_service() {
    let alice = Alice::new().await;
    let rule = |service: &str, method: &str, path: &str| json!({"service": service, "method": method, "path": path});
    let fields = json!({"name": "narrow", "access_rules": [
        rule("image", "GET", "/v2/images"),
        rule("image", "GET", "/v2/images/{image_id}"),
        rule("network", "GET", "/v2.0/**"),
        rule("compute", "GET", "/v2.1/flavors/*/os-extra_specs"),
        rule("block-storage", "GET", "/v3/*/types"),
        rule("identity", "GET", "/v3/auth/projects"),
    ]});
    let token = alice.made_token(fields).await;
    let nothing = "11111111-2222-3333-4444-555555555555";
    for (method, path, permitted) in [
        ("GET", "/image/v2/images".to_owned(), true),
        ("GET", "/image/v2/images?limit=1".to_owned(), true),
        // A rule names a path as the client wrote it. Other spellings of the same route do not fit.
        ("GET", "/image/v2/images/".to_owned(), false),
        ("GET", "/image/v2//images".to_owned(), false),
        ("GET", "/image/v2/%69mages".to_owned(), false),
        ("GET", format!("/image/v2/images/{nothing}/../../images"), false),
        ("HEAD", "/image/v2/images".to_owned(), false),
        ("GET", "/compute/v2/flavors/1/os-extra_specs".to_owned(), false),
        ("GET", format!("/compute/v2.1/{}/flavors/1/os-extra_specs", alice.project), false),
        ("GET", format!("/image/v2/images/{nothing}"), true),
        ("GET", format!("/image/v2/images/{nothing}/members"), false),
        ("POST", "/image/v2/images".to_owned(), false),
        ("DELETE", format!("/image/v2/images/{nothing}"), false),
        ("GET", "/network/v2.0/networks".to_owned(), true),
        ("GET", format!("/network/v2.0/ports/{nothing}"), true),
        ("GET", "/compute/v2.1/flavors/1/os-extra_specs".to_owned(), true),
        ("GET", "/compute/v2.1/flavors".to_owned(), false),
        ("GET", "/compute/v2.1/servers".to_owned(), false),
        ("GET", format!("/volume/v3/{}/types", alice.project), true),
        ("GET", format!("/volume/v3/{}/volumes", alice.project), false),
        ("GET", "/placement/resource_providers".to_owned(), false),
        ("GET", "/chronova/v1/events".to_owned(), false),
        ("GET", ME.to_owned(), true),
        ("GET", all(&alice.user), false),
    ] {
        let status = alice.status(&token, method, &path).await;
        assert_eq!(status != 401, permitted, "{method} {path}: {status}");
    }
    // A path that climbs out of a pattern reaches no other route.
    for path in ["/network/v2.0/../../identity/v3/users", "/network/v2.0/%2e%2e/%2e%2e/identity/v3/users"] {
        assert_eq!(alice.status(&token, "GET", path).await, 404, "{path}");
    }
    // A token that is issued in exchange for this token does not get around the rules.
    let again = json!({"auth": {"identity": {"methods": ["token"], "token": {"id": token}}}});
    let again = token_of(&alice.world.call("", "POST", TOKENS, Some(again)).await);
    assert_eq!(alice.status(&again, "GET", "/compute/v2.1/servers").await, 401);
    assert_eq!(alice.status(&again, "GET", "/image/v2/images").await, 200);
    // As in Keystone, an empty list is like no list.
    let all = alice.make(json!({"name": "all", "access_rules": []})).await;
    assert!(all.get("access_rules").is_none());
    let all = token_of(&alice.log_in(&all).await);
    assert_ne!(alice.status(&all, "GET", "/compute/v2.1/flavors").await, 401);
}

#[actix_web::test]
async fn a_service_that_does_not_check_access_rules_does_not_see_their_tokens() {
    let alice = Alice::new().await;
    let rule = json!({"service": "image", "method": "GET", "path": "/v2/images"});
    let token = alice.made_token(json!({"name": "narrow", "access_rules": [rule]})).await;
    let ask = || request(&alice.admin, "GET", TOKENS).insert_header(("X-Subject-Token", token.as_str()));
    alice.world.send(ask()).await.expect(404);
    for version in ["", "0.9", "yes", "NaN"] {
        alice.world.send(ask().insert_header(("OpenStack-Identity-Access-Rules", version))).await.expect(404);
    }
    let seen = alice.world.send(ask().insert_header(("OpenStack-Identity-Access-Rules", "1.0"))).await.expect(200);
    assert_eq!(seen["token"]["application_credential"]["access_rules"][0]["path"], "/v2/images");
}

#[actix_web::test]
async fn equal_access_rules_are_shared_and_rules_in_use_stay() {
    let alice = Alice::new().await;
    let rule = json!({"service": "compute", "method": "GET", "path": "/v2.1/servers"});
    let first = alice.make(json!({"name": "first", "access_rules": [rule, rule]})).await;
    assert_eq!(first["access_rules"].as_array().unwrap().len(), 1);
    let id = id_of(&first["access_rules"][0]);
    let second = alice.make(json!({"name": "second", "access_rules": [{"id": id}, rule]})).await;
    assert_eq!(second["access_rules"], first["access_rules"]);
    let listed = alice.world.call(&alice.token, "GET", &rules(&alice.user), None).await.expect(200);
    assert_eq!(listed["access_rules"].as_array().unwrap().len(), 1);
    let path = format!("{}/{id}", rules(&alice.user));
    assert_eq!(alice.world.call(&alice.token, "GET", &path, None).await.expect(200)["access_rule"]["id"], id);
    for credential in [&first, &second] {
        alice.world.call(&alice.token, "DELETE", &path, None).await.expect(403);
        let one = format!("{}/{}", all(&alice.user), id_of(credential));
        alice.world.call(&alice.token, "DELETE", &one, None).await.expect(204);
    }
    alice.world.call(&alice.token, "DELETE", &path, None).await.expect(204);
    alice.world.call(&alice.token, "GET", &path, None).await.expect(404);
    let method = json!({"service": "compute", "method": "TRACE", "path": "/v2.1/servers"});
    let relative = json!({"service": "compute", "method": "GET", "path": "v2.1/servers"});
    for wrong in [json!({"service": "compute"}), json!({}), method, relative] {
        alice.ask(&alice.token, json!({"name": "third", "access_rules": [wrong]})).await.expect(400);
    }
}

/// After a crash, the state is folded from the log again. Credentials and their ends are the same.
#[actix_web::test]
async fn credentials_survive_a_crash_and_so_do_their_ends() {
    let alice = Alice::new().await;
    let rule = json!({"service": "image", "method": "GET", "path": "/v2/images"});
    let kept = alice.make(json!({"name": "kept", "access_rules": [rule]})).await;
    let token = token_of(&alice.log_in(&kept).await);
    let gone = alice.make(json!({"name": "gone"})).await;
    let path = format!("{}/{}", all(&alice.user), id_of(&gone));
    alice.world.call(&alice.token, "DELETE", &path, None).await.expect(204);
    let (_, bob, of_bob) = alice.world.tenant("bob", "member").await;
    let body = json!({"application_credential": {"name": "bob's"}});
    let lost = alice.world.call(&of_bob, "POST", &all(&bob), Some(body)).await.expect(201);
    alice.world.call(&alice.admin, "DELETE", &format!("/identity/v3/users/{bob}"), None).await.expect(204);
    let before = alice.world.call(&alice.token, "GET", &all(&alice.user), None).await.expect(200);

    let Alice { world, admin, project, user, token: own } = alice;
    let store = Arc::clone(&world.store);
    let folder = world.end().await;
    let world = World::on(store, folder).await;
    // The clock of the new process begins again. It must be past the moment at which the tokens were issued.
    world.clock.pass(60);
    let alice = Alice { world, admin, project, user, token: own };
    assert_eq!(alice.world.call(&alice.token, "GET", &all(&alice.user), None).await.expect(200), before);
    assert_eq!(alice.status(&token, "GET", "/image/v2/images").await, 200);
    assert_eq!(alice.status(&token, "GET", "/compute/v2.1/servers").await, 401);
    alice.log_in(&kept).await.expect(201);
    alice.log_in(&gone).await.expect(401);
    alice.log_in(&lost["application_credential"]).await.expect(401);
}

#[actix_web::test]
async fn log_ins_are_recorded_with_their_credential() {
    let store = MemoryStore::with_keys(Some(KeyRing::in_memory().unwrap()));
    let alice = Alice::of(World::on(store, tempfile::tempdir().unwrap()).await).await;
    let made = alice.make(json!({"name": "Zanzibar"})).await;
    let log = alice.world.app.access_log().unwrap();
    log.flush().await;
    let begin = alice.world.store.head();
    alice.log_in(&made).await.expect(201);
    send_log_in(&alice.world, json!({"id": made["id"], "secret": "wrong"})).await.expect(401);
    send_log_in(&alice.world, json!({"id": "my secret", "secret": "wrong"})).await.expect(401);
    log.flush().await;
    let mut found = alice.world.store.read_all(begin, usize::MAX).await.unwrap();
    found.retain(|recorded| recorded.stream.category() == "access");
    found.sort_by_key(|recorded| recorded.recorded_at);
    let told: Vec<&AccessEvent> =
        found.iter().filter_map(|recorded| AccessEvent::of(recorded.event().unwrap())).collect();
    let id = id_of(&made);
    let [
        AccessEvent::LoggedInWithCredential(login),
        AccessEvent::CredentialLoginFailed(wrong),
        AccessEvent::CredentialLoginFailed(unknown),
    ] = told.as_slice()
    else {
        panic!("{told:?}")
    };
    assert_eq!((login.credential.as_str(), login.token.user.as_str()), (&*id, &*alice.user));
    assert_eq!((wrong.credential.as_ref().unwrap().as_str(), wrong.status), (&*id, 401));
    assert_eq!(wrong.user.as_ref().unwrap().as_str(), alice.user);
    assert_eq!((&unknown.credential, &unknown.user), (&None, &None));
    // The name is the user's own word, so the user's key seals it.
    let all = alice.world.store.read_all(chronova_events::envelope::Position::START, usize::MAX).await.unwrap();
    let holds = |recorded: &chronova_events::envelope::Recorded, text: &str| {
        recorded.data.windows(text.len()).any(|part| part == text.as_bytes())
    };
    assert!(all.iter().all(|recorded| !holds(recorded, "Zanzibar") && !holds(recorded, "my secret")));
}

/// A part of the request without its method must not hide whose password was tried.
#[actix_web::test]
async fn a_failed_log_in_is_recorded_by_its_methods() {
    let store = MemoryStore::with_keys(Some(KeyRing::in_memory().unwrap()));
    let alice = Alice::of(World::on(store, tempfile::tempdir().unwrap()).await).await;
    let made = alice.make(json!({"name": "a"})).await;
    let log = alice.world.app.access_log().unwrap();
    for (methods, expected) in [
        (json!(["password"]), vec!["access.login_failed"]),
        (json!(["application_credential"]), vec!["access.credential_login_failed"]),
        (json!(["application_credential", "password"]), vec!["access.credential_login_failed", "access.login_failed"]),
    ] {
        log.flush().await;
        let begin = alice.world.store.head();
        let identity = json!({
            "methods": methods,
            "password": {"user": {"id": alice.user, "password": "wrong"}},
            "application_credential": {"id": made["id"], "secret": "wrong"},
        });
        let body = json!({"auth": {"identity": identity}});
        alice.world.call("", "POST", TOKENS, Some(body)).await.expect(401);
        log.flush().await;
        let mut found = alice.world.store.read_all(begin, usize::MAX).await.unwrap();
        found.retain(|recorded| recorded.stream.category() == "access");
        let mut kinds: Vec<&str> = found.iter().map(|recorded| &*recorded.kind).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, expected, "{methods}");
        for recorded in &found {
            let user = AccessEvent::of(recorded.event().unwrap()).unwrap().user();
            assert_eq!(user.unwrap().as_str(), alice.user, "{methods}");
        }
    }
}
