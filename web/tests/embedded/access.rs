//! The records of access: log-ins, tokens and refused requests, and the bounds on them.

use std::sync::Arc;

use chronova_events::access::{AccessClient, AccessEvent, AccessSort, LeftOutCount, LeftOutOf};
use chronova_events::envelope::{Cause, Position, Recorded};
use chronova_events::ids::ProjectId;
use chronova_events::registry::NounEvent as _;
use chronova_events::sealed::keys::KeyRing;
use chronova_events::store::EventStore as _;
use chronova_events::store::criteria::Criteria;
use chronova_events::store::memory::MemoryStore;
use chronova_web::access::budget::AccessRates;
use chronova_web::config::WebConfig;
use serde_json::{Value, json};

use super::world::{PASSWORD, World, request};

/// The records after `position`.
async fn records(world: &World, position: Position) -> Vec<Arc<Recorded>> {
    if let Some(access) = world.app.access_log() {
        access.flush().await;
    }
    let all = world.store.read_all(position, usize::MAX).await.unwrap();
    all.into_iter().filter(|recorded| recorded.stream.category() == "access").collect()
}

async fn head(world: &World) -> Position {
    records(world, Position::START).await;
    world.store.head()
}

fn told(recorded: &Recorded) -> &AccessEvent {
    AccessEvent::of(recorded.event().unwrap()).unwrap()
}

fn by_password(user: &str, password: &str) -> Value {
    let user = json!({"name": user, "domain": {"id": "default"}, "password": password});
    json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}})
}

/// Logs in with the address and the `User-Agent` of a client, and returns the status and the token.
async fn login(world: &World, body: Value) -> (u16, String) {
    let asked = request("", "POST", "/identity/v3/auth/tokens").set_json(body);
    let asked = asked.peer_addr("198.51.100.7:1".parse().unwrap()).insert_header(("User-Agent", "keystoneauth1"));
    let answer = world.send(asked).await;
    (answer.status, answer.header("X-Subject-Token").to_owned())
}

#[actix_web::test]
async fn log_ins_and_tokens_are_recorded_with_user_and_client() {
    let store = MemoryStore::with_keys(Some(KeyRing::in_memory().unwrap()));
    let world = World::on(store, tempfile::tempdir().unwrap()).await;
    let (_, user, _) = world.tenant("alice", "member").await;
    let begin = head(&world).await;
    let (status, token) = login(&world, by_password("alice", "alice")).await;
    assert_eq!(status, 201);
    assert_eq!(login(&world, by_password("alice", "wrong")).await.0, 401);
    assert_eq!(login(&world, by_password("my secret password", "wrong")).await.0, 401);
    let again = json!({"auth": {"identity": {"methods": ["token"], "token": {"id": token}}}});
    assert_eq!(login(&world, again).await.0, 201);
    assert_eq!(login(&world, json!({"auth": {"identity": {"methods": ["password"]}}})).await.0, 400);
    let mut found = records(&world, begin).await;
    found.sort_by_key(|recorded| recorded.recorded_at);
    let kinds: Vec<&str> = found.iter().map(|recorded| &*recorded.kind).collect();
    assert_eq!(kinds, ["access.logged_in", "access.login_failed", "access.login_failed", "access.token_issued"]);
    let client = AccessClient { address: Some("198.51.100.7".into()), agent: Some("keystoneauth1".into()) };
    for recorded in &found {
        assert_eq!(told(recorded).client(), Some(&client));
        assert!(recorded.meta.request_id.is_some());
    }
    let by = |recorded: &Recorded| match &recorded.meta.cause {
        Cause::User { user, .. } => Some(user.to_string()),
        _ => None,
    };
    assert_eq!(
        found.iter().map(|one| by(one)).collect::<Vec<_>>(),
        [Some(user.clone()), Some(user.clone()), None, Some(user.clone())]
    );
    let (AccessEvent::LoggedIn(first), AccessEvent::TokenIssued(second)) = (told(&found[0]), told(&found[3])) else {
        panic!("{found:?}")
    };
    assert_eq!(first.token.audit_ids[0], second.token.audit_ids[1], "the second token does not lead to the first");
    let holds = |recorded: &Recorded, text: &str| recorded.data.windows(text.len()).any(|part| part == text.as_bytes());
    for recorded in &found {
        assert!(!holds(recorded, "my secret"), "a name that nobody has is recorded");
        let sealed = by(recorded).is_none() || !holds(recorded, "198.51.100.7");
        assert!(sealed, "the address of a user's client is in clear text");
        let without = recorded.without_personal().unwrap();
        let shown = AccessEvent::of(without.event().unwrap()).unwrap().client().unwrap().address.clone();
        assert_eq!(shown.is_none(), by(recorded).is_some());
    }
    let from = |address: &str| Criteria { addresses: vec![address.to_owned()], ..Criteria::default() };
    let of_address = world.store.search(begin, 99, &from("198.51.100.7")).await.unwrap().events.len();
    assert_eq!((of_address, world.store.search(begin, 99, &from("198.51.100")).await.unwrap().events.len()), (4, 0));
}

#[actix_web::test]
async fn refused_requests_are_recorded_and_misses_are_not() {
    let world = World::new().await;
    let (project, user, token) = world.tenant("alice", "member").await;
    let admin = world.admin().await;
    let hidden = json!({"name": "hidden", "visibility": "private"});
    let hidden = world.call(&admin, "POST", "/image/v2/images", Some(hidden)).await.expect(201);
    let hidden = hidden["id"].as_str().unwrap();
    let begin = head(&world).await;
    let ask = async |path: &str| world.call(&token, "GET", path, None).await.status;
    assert_eq!(ask("/identity/v3/users").await, 403);
    assert_eq!(ask(&format!("/image/v2/images/{hidden}")).await, 404);
    assert_eq!(ask("/image/v2/images/11111111-2222-3333-4444-555555555555").await, 404);
    // The last part of this path is a secret, not an id.
    assert_eq!(ask("/compute/v2.1/os-console-auth-tokens/11111111-2222-3333-4444-555555555555").await, 403);
    assert_eq!(ask("/image/v2/nothing").await, 404);
    assert_eq!(ask("/image/v2/images").await, 200);
    assert_eq!(world.call("", "GET", "/image/v2/images", None).await.status, 401);
    let found = records(&world, begin).await;
    let refusals: Vec<_> = found
        .iter()
        .map(|recorded| match told(recorded) {
            AccessEvent::RequestRefused(refused) => (refused.service.as_str(), refused.status, refused.ids.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(refusals, [("identity", 403, 0), ("image", 404, 1), ("compute", 403, 0)]);
    for recorded in &found {
        let Cause::User { user: by, project: within, roles, .. } = &recorded.meta.cause else { panic!("{recorded:?}") };
        assert_eq!((by.as_str(), within.as_ref().map(ProjectId::as_str)), (user.as_str(), Some(project.as_str())));
        assert_eq!(recorded.stream.as_str(), format!("access-user-{user}"));
        assert!(roles.contains(&"member".to_owned()));
    }
}

/// Nothing is hidden from administrators. A question about a time at which a resource did not exist yet is a miss,
/// although the resource exists now.
#[actix_web::test]
async fn questions_about_a_time_before_a_resource_are_no_refusals() {
    let world = World::new().await;
    let (_, _, token) = world.tenant("alice", "member").await;
    let admin = world.admin().await;
    let before = head(&world).await;
    let image = json!({"name": "new", "visibility": "private"});
    let image = world.call(&token, "POST", "/image/v2/images", Some(image)).await.expect(201);
    let path = format!("/image/v2/images/{}", image["id"].as_str().unwrap());
    world.call(&admin, "GET", &path, None).await.expect(200);
    world.call(&admin, "GET", &format!("{path}?as_of={before}"), None).await.expect(404);
    world.call(&token, "GET", &format!("{path}?as_of={before}"), None).await.expect(403);
    let found = records(&world, before).await;
    let statuses: Vec<u16> = found
        .iter()
        .map(|recorded| match told(recorded) {
            AccessEvent::RequestRefused(refused) => refused.status,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(statuses, [403]);
}

/// The log records a project's refused requests only up to a rate, and then the number of those that it left out.
#[actix_web::test]
async fn refusals_of_a_project_are_bounded_and_the_rest_is_counted() {
    let rates = AccessRates { on: true, of_one: 5, of_all: 100 };
    let world = World::with(WebConfig { access: rates, ..WebConfig::default() }).await;
    let (project, _, token) = world.tenant("alice", "member").await;
    let begin = head(&world).await;
    for _ in 0..60 {
        assert_eq!(world.call(&token, "GET", "/identity/v3/users", None).await.status, 403);
    }
    assert_eq!(login(&world, by_password("admin", PASSWORD)).await.0, 201);
    let found = records(&world, begin).await;
    let count = |kind: &str| found.iter().filter(|recorded| &*recorded.kind == kind).count();
    assert_eq!(count("access.logged_in"), 1, "refusals push out log-ins");
    // The rate admits another record every 12 seconds, so a slow run records more than five.
    let written = count("access.request_refused");
    assert!((5..10).contains(&written), "{written}");
    let Some(AccessEvent::RecordsLeftOut(left_out)) = found.last().map(|recorded| told(recorded)) else {
        panic!("{found:?}")
    };
    let number = 60 - written as u64;
    let of = LeftOutOf::Project(ProjectId::new(project));
    assert_eq!(left_out.counts, [LeftOutCount { sort: AccessSort::Refusal, of, number }]);
    assert_eq!(left_out.total, number);
}

/// The log has no record of a guess beyond the rate of failed log-ins, only the number of such guesses.
#[actix_web::test]
async fn log_ins_above_the_rate_are_only_counted() {
    let world = World::new().await;
    let begin = head(&world).await;
    let mut statuses = Vec::new();
    for _ in 0..60 {
        statuses.push(login(&world, by_password("nobody", "wrong")).await.0);
    }
    let number = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert!(number(401) > 0 && number(429) > 0 && number(401) + number(429) == 60, "{statuses:?}");
    let found = records(&world, begin).await;
    assert_eq!(found.iter().filter(|recorded| &*recorded.kind == "access.login_failed").count(), number(401));
    let counted = found.iter().find_map(|recorded| match told(recorded) {
        AccessEvent::RecordsLeftOut(left_out) => Some(left_out),
        _ => None,
    });
    let of = LeftOutOf::Network("198.51.100.7".into());
    let counts = [LeftOutCount { sort: AccessSort::FailedLogin, of, number: number(429) as u64 }];
    assert_eq!(counted.map(|left_out| left_out.counts.as_slice()), Some(counts.as_slice()));
}

#[actix_web::test]
async fn records_can_be_switched_off() {
    let rates = AccessRates { on: false, ..AccessRates::default() };
    let world = World::with(WebConfig { access: rates, ..WebConfig::default() }).await;
    let (_, _, token) = world.tenant("alice", "member").await;
    assert_eq!(world.call(&token, "GET", "/identity/v3/users", None).await.status, 403);
    assert!(records(&world, Position::START).await.is_empty());
}
