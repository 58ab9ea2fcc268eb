//! Attacks on the embedded identity and image services and on the HTTP application. `docs/security.md` names most of
//! these tests, each with the vulnerability that it covers.

use std::net::SocketAddr;

use actix_web::test::TestRequest;
use chronova_actors::ports::{ImageDraft, ImageService as _, PortError};
use chronova_events::clock::Clock as _;
use chronova_events::envelope::Meta;
use chronova_events::ids::{ImageId, InstanceId, ProjectId};
use chronova_web::config::WebConfig;
use serde_json::{Value, json};

use super::world::{Answer, PASSWORD, World, request};

#[actix_web::test]
async fn headers_of_clients_do_not_change_the_addresses_in_the_index() {
    let world = World::new().await;
    for (header, value) in [
        ("X-Forwarded-Host", "evil.example"),
        ("Forwarded", "host=evil.example;proto=https"),
        ("X-Forwarded-Proto", "evil.example"),
    ] {
        for path in ["/", "/compute/", "/identity/v3", "/image/versions"] {
            let asked = TestRequest::with_uri(path).insert_header((header, value));
            let asked = asked.peer_addr("198.51.100.7:1".parse().unwrap());
            let answer = world.send(asked).await;
            let text = String::from_utf8(answer.bytes).unwrap();
            assert!(text.contains("http://cloud:8080/") && !text.contains("evil"), "{header} {path}: {text}");
        }
    }
}

#[actix_web::test]
async fn users_of_a_disabled_domain_cannot_change_their_password() {
    let world = World::new().await;
    let admin = world.admin().await;
    let make = |path: &'static str, body| world.call(&admin, "POST", path, Some(body));
    let domain =
        make("/identity/v3/domains", json!({"domain": {"name": "d"}})).await.expect(201)["domain"]["id"].clone();
    let user = json!({"user": {"name": "dora", "password": "old", "domain_id": domain}});
    let user = make("/identity/v3/users", user).await.expect(201)["user"]["id"].clone();
    let (domain, user) = (domain.as_str().unwrap(), user.as_str().unwrap());
    let switch = async |on: bool| {
        let body = json!({"domain": {"enabled": on}});
        world.call(&admin, "PATCH", &format!("/identity/v3/domains/{domain}"), Some(body)).await.expect(200);
    };
    let change = async |from: &str, to: &str| {
        let body = json!({"user": {"original_password": from, "password": to}});
        world.call("", "POST", &format!("/identity/v3/users/{user}/password"), Some(body)).await.status
    };
    switch(false).await;
    assert_eq!(change("old", "new").await, 401);
    switch(true).await;
    assert_eq!(change("new", "newer").await, 401, "the refused change set the new password");
    assert_eq!(change("old", "new").await, 204);
}

/// Logs in as `user` from an address.
async fn login_from(world: &World, address: &str, user: &str, password: &str) -> Answer {
    let user = json!({"name": user, "domain": {"id": "default"}, "password": password});
    let auth = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}});
    let mut asked = request("", "POST", "/identity/v3/auth/tokens").set_json(auth);
    if !address.is_empty() {
        asked = asked.peer_addr(SocketAddr::new(address.parse().unwrap(), 1));
    }
    world.send(asked).await
}

#[actix_web::test]
async fn wrong_passwords_are_limited_by_user_name_and_by_address() {
    let world = World::new().await;
    world.tenant("alice", "member").await;
    world.tenant("bob", "member").await;
    let last = |answers: &[Answer]| (answers.first().unwrap().status, answers.last().unwrap().status);
    let mut answers = Vec::new();
    for n in 0..60 {
        answers.push(login_from(&world, &format!("198.51.100.{n}"), "alice", "wrong").await);
    }
    assert_eq!(last(&answers), (401, 429), "one user name from many addresses");
    let refusal = answers.pop().unwrap();
    assert!(refusal.header("Retry-After").parse::<u64>().unwrap() > 0 && refusal.json()["error"]["code"] == 429);
    assert_eq!(login_from(&world, "203.0.113.1", "bob", "bob").await.status, 201, "another user was throttled, too");
    let mut answers = Vec::new();
    for n in 0..60 {
        answers.push(login_from(&world, "192.0.2.9", &format!("nobody{n}"), "wrong").await);
    }
    assert_eq!(last(&answers), (401, 429), "many user names from one address");
    assert_eq!(login_from(&world, "192.0.2.10", "bob", "bob").await.status, 201);
    let mut answers = Vec::new();
    for n in 0..60 {
        answers.push(login_from(&world, &format!("2001:db8::{n:x}"), &format!("nobody{n}"), "wrong").await);
    }
    assert_eq!(last(&answers), (401, 429), "many user names from one IPv6 network");
}

#[actix_web::test]
async fn right_passwords_are_not_limited() {
    let world = World::new().await;
    for _ in 0..100 {
        assert_eq!(login_from(&world, "192.0.2.9", "admin", PASSWORD).await.status, 201);
    }
}

#[actix_web::test]
async fn a_repeated_method_of_a_login_is_checked_once() {
    let world = World::new().await;
    let user = json!({"name": "admin", "domain": {"id": "default"}, "password": PASSWORD});
    let auth = json!({"auth": {"identity": {"methods": vec!["password"; 5_000], "password": {"user": user}}}});
    let before = world.clock.now();
    let answer = world.call("", "POST", "/identity/v3/auth/tokens", Some(auth)).await.expect(201);
    // The clock advances by a millisecond at each reading, and each check of a password reads it.
    let readings = (world.clock.now().0 - before.0) / 1_000;
    assert!(readings < 1_000, "the clock was read {readings} times");
    assert_eq!(answer["token"]["methods"], json!(["password"]));
}

#[actix_web::test]
async fn a_wrong_original_password_is_a_failed_login() {
    let world = World::new().await;
    let (_, user, _) = world.tenant("alice", "member").await;
    let mut statuses = Vec::new();
    for _ in 0..60 {
        let body = json!({"user": {"original_password": "wrong", "password": "new"}});
        statuses.push(world.call("", "POST", &format!("/identity/v3/users/{user}/password"), Some(body)).await.status);
    }
    assert_eq!((statuses[0], statuses[59]), (401, 429));
}

#[actix_web::test]
async fn tokens_without_a_project_have_a_rate_as_well() {
    let config = WebConfig { rate_limit: 0.001, rate_limit_burst: 5, ..WebConfig::default() };
    let world = World::with(config).await;
    world.tenant("alice", "member").await;
    let token = world.token("alice", "alice", "").await;
    let ask = async |token: &str| world.call(token, "GET", "/identity/v3/auth/projects", None).await.status;
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(ask(&token).await);
    }
    assert_eq!((statuses[0], statuses[9]), (200, 429), "{statuses:?}");
    // Alice's tokens share one bucket. A project-scoped token uses the project's bucket.
    let again = world.token("alice", "alice", "").await;
    assert_eq!(ask(&again).await, 429);
    assert_eq!(ask(&world.token("alice", "alice", "alice").await).await, 200);
}

#[actix_web::test]
async fn properties_of_images_are_bounded_together() {
    let world = World::new().await;
    let (_, _, token) = world.tenant("alice", "member").await;
    let body = json!({"name": "i", "a": "x".repeat(40_000)});
    let image = world.call(&token, "POST", "/image/v2/images", Some(body)).await.expect(201)["id"].clone();
    let image = format!("/image/v2/images/{}", image.as_str().unwrap());
    let patch = async |operations: Value| {
        let asked = request(&token, "PATCH", &image)
            .set_payload(operations.to_string())
            .insert_header(("Content-Type", "application/openstack-images-v2.1-json-patch"));
        world.send(asked).await
    };
    let more = patch(json!([{"op": "add", "path": "/b", "value": "x".repeat(40_000)}])).await;
    more.expect(413);
    patch(json!([{"op": "replace", "path": "/a", "value": "y"}])).await.expect(200);
    patch(json!([{"op": "add", "path": "/b", "value": "x".repeat(40_000)}])).await.expect(200);
    let body = json!({"name": "i", "a": "x".repeat(40_000), "b": "x".repeat(40_000)});
    world.call(&token, "POST", "/image/v2/images", Some(body)).await.expect(413);
}

#[actix_web::test]
async fn the_properties_of_an_image_are_as_many_as_the_operator_allows() {
    let world = World::with_images(9, 2).await;
    let (_, _, token) = world.tenant("alice", "member").await;
    let make = async |body: Value| world.call(&token, "POST", "/image/v2/images", Some(body)).await;
    let refused = make(json!({"name": "i", "a": "1", "b": "2", "c": "3"})).await;
    let text = String::from_utf8_lossy(&refused.bytes).into_owned();
    assert!(text.contains("The limit has been exceeded on the number of allowed image properties: 2."), "{text}");
    refused.expect(413);
    let image = make(json!({"name": "i", "a": "1", "b": "2"})).await.expect(201)["id"].as_str().unwrap().to_owned();
    let change = async |change: Value| {
        let asked = TestRequest::patch()
            .uri(&format!("/image/v2/images/{image}"))
            .insert_header(("X-Auth-Token", token.as_str()))
            .insert_header(("Content-Type", "application/openstack-images-v2.1-json-patch"))
            .set_payload(json!([change]).to_string());
        world.send(asked).await.status
    };
    assert_eq!(change(json!({"op": "add", "path": "/c", "value": "3"})).await, 413);
    assert_eq!(change(json!({"op": "replace", "path": "/b", "value": "3"})).await, 200);
}

#[actix_web::test]
async fn the_images_of_a_project_are_limited() {
    let world = World::with_images(3, 128).await;
    let (_, _, token) = world.tenant("alice", "member").await;
    let (_, _, other) = world.tenant("bob", "member").await;
    let make = async |token: &str| {
        world.call(token, "POST", "/image/v2/images", Some(json!({"name": "i", "visibility": "private"}))).await
    };
    let all: Vec<Answer> = futures::future::join_all((0..8).map(|_| make(&token))).await;
    let mut statuses: Vec<u16> = all.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 201, 413, 413, 413, 413, 413], "parallel requests, limit three");
    let refused = all.iter().find(|answer| answer.status == 413).unwrap();
    let refusal = String::from_utf8_lossy(&refused.bytes).into_owned();
    assert!(refusal.contains("The project has reached its limit of 3 images."), "{refusal}");
    assert_eq!(make(&other).await.status, 201, "another project was limited, too");
    let one = all.iter().find(|answer| answer.status == 201).unwrap().json()["id"].as_str().unwrap().to_owned();
    world.call(&token, "DELETE", &format!("/image/v2/images/{one}"), None).await.expect(204);
    assert_eq!(make(&token).await.status, 201);
    // Images that the Compute API creates from servers use the same quota.
    let owner = all.iter().find_map(|answer| answer.json()["owner"].as_str().map(ProjectId::new)).unwrap();
    let draft = ImageDraft {
        image: ImageId::random(),
        name: "snapshot".to_owned(),
        owner,
        format: "qcow2".to_owned(),
        min_disk_gib: 0,
        min_memory_mib: 0,
        properties: vec![],
    };
    let made = world.images.create(draft, Meta::system("test")).await;
    assert!(matches!(made, Err(PortError::Forbidden(_))), "{made:?}");
}

#[actix_web::test]
async fn backups_are_those_of_one_owner() {
    let world = World::new().await;
    let server = InstanceId::random();
    let make = async |owner: &str| {
        let image = ImageId::random();
        let says =
            [("instance_uuid", server.to_string()), ("image_type", "backup".into()), ("backup_type", "daily".into())];
        let draft = ImageDraft {
            image,
            name: "b".to_owned(),
            owner: ProjectId::new(owner),
            format: "raw".to_owned(),
            min_disk_gib: 0,
            min_memory_mib: 0,
            properties: says.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        };
        world.images.create(draft, Meta::system("test")).await.unwrap();
        let bytes = futures::stream::iter([Ok(bytes::Bytes::from_static(b"bytes"))]);
        world.images.upload(image, Box::pin(bytes), Meta::system("test")).await.unwrap();
        image
    };
    let own = [make("web").await, make("web").await];
    let strange = make("elsewhere").await;
    assert_eq!(world.images.backups(own[1], server, "daily").await.unwrap(), [own[1], own[0]]);
    assert_eq!(world.images.backups(strange, server, "daily").await.unwrap(), [strange]);
    assert_eq!(world.images.backups(ImageId::random(), server, "daily").await.unwrap(), []);
}
