//! Answers about the past of users, roles and images.

use chronova_events::envelope::Position;
use chronova_events::store::EventStore as _;
use serde_json::json;

use super::world::{Answer, PASSWORD, World, id_of};

async fn at(world: &World, token: &str, path: &str, moment: Position) -> Answer {
    world.call(token, "GET", &format!("{path}?as_of={moment}"), None).await
}

/// The caller's present rights decide: by default, users do not even see their own past.
#[actix_web::test]
async fn only_administrators_see_the_past_and_it_has_no_passwords() {
    let world = World::new().await;
    let admin = world.admin().await;
    let before = world.store.head();
    let (project, user, token) = world.tenant("alice", "member").await;
    let image = json!({"name": "old", "visibility": "private"});
    let image = id_of(&world.call(&token, "POST", "/image/v2/images", Some(image)).await.expect(201));
    let then = world.store.head();
    let (of_user, of_image) = (format!("/identity/v3/users/{user}"), format!("/image/v2/images/{image}"));
    for path in [&of_user, &of_image] {
        world.call(&token, "GET", path, None).await.expect(200);
        at(&world, &token, path, then).await.expect(403);
    }
    let grants = format!("/identity/v3/projects/{project}/users/{user}/roles");
    let role = world.role(&admin, "member").await;
    world.call(&token, "DELETE", &of_image, None).await.expect(204);
    world.call(&admin, "PATCH", &of_user, Some(json!({"user": {"name": "renamed"}}))).await.expect(200);
    world.call(&admin, "DELETE", &format!("{grants}/{role}"), None).await.expect(204);

    let shown = at(&world, &admin, &of_user, then).await;
    assert_eq!(shown.header("X-Chronova-As-Of"), then.to_string());
    let shown = shown.expect(200);
    assert_eq!((&shown["user"]["name"], shown["user"].get("password")), (&json!("alice"), None));
    let system = world.token("admin", PASSWORD, "system").await;
    assert_eq!(at(&world, &system, &of_user, then).await.expect(200)["user"]["name"], "alice");
    assert_eq!(at(&world, &admin, &grants, then).await.expect(200)["roles"][0]["name"], "member");
    assert_eq!(world.call(&admin, "GET", &grants, None).await.expect(200)["roles"], json!([]));
    assert_eq!(at(&world, &admin, &of_image, then).await.expect(200)["status"], "queued");
    world.call(&admin, "GET", &of_image, None).await.expect(404);
    for path in [&of_user, &of_image] {
        at(&world, &admin, path, before).await.expect(404);
    }
}
