//! The dispatcher from the outside: the precedence of errors, the headers of answers, the context of handlers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::unused_async)]

use std::sync::Arc;

use actix_web::body::MessageBody;
use actix_web::dev::ServiceResponse;
use actix_web::test::{self, TestRequest};
use async_trait::async_trait;
use chronova_actors::ports::PortError;
use chronova_actors::ports::identity::{
    AccessRule, IdentityProvider, TokenError, TokenOwner, TokenQuestion, TokenScope,
};
use chronova_events::ids::{ProjectId, RequestId, UserId};
use chronova_web::auth::Authentication;
use chronova_web::config::{CorsConfig, WebConfig};
use chronova_web::metrics::HttpMetrics;
use chronova_web::microversion::COMPUTE;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::route::{Method, Route, action, get, gone, post, put};
use chronova_web::schema::{Schema, many, name, non_negative_integer, object, opt, query, req, string};
use chronova_web::service::Service;
use chronova_web::tables::Routers;
use chronova_web::{App, Ctx, Fault, PolicyTarget, Reply, handler, server};
use futures::StreamExt;
use serde_json::{Value, json};

async fn index(ctx: Ctx) -> Result<Reply, Fault> {
    Ok(Reply::ok(json!({
        "version": ctx.version.to_string(),
        "query": ctx.query.as_lists(),
        "self": ctx.links.to_self("things", "1"),
        "admin": ctx.caller().is_admin,
    })))
}

async fn show(ctx: Ctx) -> Result<Reply, Fault> {
    if ctx.param("id") == "careless" {
        return Ok(Reply::empty(200));
    }
    let target = PolicyTarget::owned(&ProjectId::new("other"), &UserId::new("somebody"));
    let permit = ctx.authorize(&target)?;
    Ok(Reply::ok(json!({"id": ctx.param("id"), "rule": permit.rule()})))
}

async fn create(ctx: Ctx) -> Result<Reply, Fault> {
    let permit = ctx.permit()?;
    let meta = chronova_web::dispatch::meta(&permit);
    assert_eq!(meta.request_id.as_ref().unwrap().as_str(), ctx.request_id());
    Ok(Reply::json(202, ctx.body["thing"].clone()).header("Location", ctx.links.to_self("things", "1")))
}

async fn start(ctx: Ctx) -> Result<Reply, Fault> {
    ctx.authorize(&ctx.own_target())?;
    Ok(Reply::empty(202))
}

async fn upload(mut ctx: Ctx) -> Result<Reply, Fault> {
    let mut stream = ctx.take_payload_send(2);
    let mut length = 0;
    while let Some(chunk) = stream.next().await {
        length += chunk.map_err(Fault::internal)?.len();
    }
    Ok(Reply::ok(json!({"length": length})))
}

async fn panics(_: Ctx) -> Result<Reply, Fault> {
    panic!("a handler with a mistake")
}

async fn fails(_: Ctx) -> Result<Reply, Fault> {
    Err(Fault::internal("the password of the database is wrong"))
}

fn create_body() -> Schema {
    object([req("thing", object([req("name", name()), opt("colour", string()).since(2, 19)]))])
}

fn index_query() -> Schema {
    query([many("limit", non_negative_integer()), many("name", string())]).strict_since(2, 75)
}

const THINGS: &[Route] = &[
    get("things.index", "/things", handler!(index)).query(index_query),
    post("things.create", "/things", handler!(create)).policy("os_compute_api:servers:create").body(create_body),
    get("things.show", "/things/{id}", handler!(show)).policy_on_target("os_compute_api:servers:show"),
    action("things.start", "/things/{id}/action", "os-start", handler!(start))
        .policy_on_target("os_compute_api:servers:start"),
    action("things.old", "/things/{id}/action", "old", handler!(start))
        .policy_on_target("os_compute_api:servers:start")
        .until(2, 5),
    get("things.new", "/new-things", handler!(index)).since(2, 50),
    gone("cells.index", Method::Get, "/os-cells", 410),
    get("things.panic", "/panic", handler!(panics)),
    get("things.fail", "/fail", handler!(fails)),
];
const PROVIDERS: &[Route] = &[
    get("providers.index", "/resource_providers", handler!(index)).policy("placement:resource_providers:list"),
    post("classes.create", "/resource_classes", handler!(index)).since(1, 2).any_body(),
];
const IMAGES: &[Route] = &[put("images.upload", "/images/{id}/file", handler!(upload)).raw_body()];
const TOKENS: &[Route] = &[post("tokens.create", "/auth/tokens", handler!(index)).public().any_body()];

struct Doorman;

/// Tokens and their owners. `letmein`: a member. `expired`: a member, if a service vouches for the token. `service`: a
/// service. `other`: an administrator without a service's role. `narrow`: a member whose access rules allow only to
/// list and show servers. `narrow service`: a service with these rules. For `away`, Keystone does not answer.
#[async_trait]
impl IdentityProvider for Doorman {
    async fn owner(&self, question: TokenQuestion<'_>) -> Result<Arc<TokenOwner>, TokenError> {
        let mut owner = TokenOwner::unscoped(UserId::new("u"));
        let role = match question.token.expose() {
            "letmein" | "narrow" => "member",
            "expired" if question.allow_expired => "member",
            "service" | "narrow service" => "service",
            "other" => "admin",
            "away" => return Err(TokenError::Unavailable("Keystone sleeps".to_owned())),
            _ => return Err(TokenError::Invalid),
        };
        owner.scope = TokenScope::Project { id: ProjectId::new("p"), name: "p".to_owned(), domain: None };
        owner.roles = vec![role.to_owned(), "reader".to_owned()];
        if question.token.expose().starts_with("narrow") {
            let rule = |path: &str| AccessRule {
                service: "compute".to_owned(),
                method: "GET".to_owned(),
                path: path.to_owned(),
            };
            owner.access_rules = Some(vec![rule("/v2.1/servers"), rule("/v2.1/servers/*")]);
            owner.service_types = Some(vec!["compute".to_owned()]);
        }
        Ok(Arc::new(owner))
    }

    async fn knows_project(&self, _: &ProjectId, _: Option<&RequestId>) -> Result<bool, PortError> {
        Ok(true)
    }
}

fn app(authentication: Authentication) -> Arc<App> {
    app_for(authentication, &["http://valid.example.com"])
}

fn app_for(authentication: Authentication, origins: &[&str]) -> Arc<App> {
    let allowed_origin = origins.iter().map(|origin| (*origin).to_owned()).collect();
    let config = WebConfig { cors: CorsConfig { allowed_origin, ..CorsConfig::default() }, ..WebConfig::default() };
    let policy = Enforcer::new(&config.policy, &Overrides::default()).unwrap();
    let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
    Arc::new(App::new(config, policy, authentication, metrics))
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Status and message of a Nova fault.
    fn fault(&self) -> (u16, String) {
        let body = self.json();
        let (_, inner) = body.as_object().unwrap().iter().next().unwrap();
        assert_eq!(inner["code"], self.status);
        (self.status, inner["message"].as_str().unwrap().to_owned())
    }
}

async fn send_to(app: Arc<App>, only: Option<Service>, request: TestRequest) -> Answer {
    let routers = Arc::new(Routers::of(&[
        (Service::Compute, &[THINGS]),
        (Service::Placement, &[PROVIDERS]),
        (Service::Image, &[IMAGES]),
        (Service::Identity, &[TOKENS]),
    ]));
    routers.compile_all().unwrap();
    let service = test::init_service(actix_web::App::new().configure(server::configure(app, routers, only))).await;
    let response: ServiceResponse<_> = test::call_service(&service, request.to_request()).await;
    let status = response.status().as_u16();
    let headers = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
        .collect();
    let bytes = actix_web::body::to_bytes(response.into_body().boxed()).await.unwrap();
    Answer { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

async fn send(request: TestRequest) -> Answer {
    send_to(app(Authentication::NoAuth), None, request).await
}

fn compute(method: &str, path: &str) -> TestRequest {
    let method = actix_web::http::Method::from_bytes(method.as_bytes()).unwrap();
    TestRequest::with_uri(&format!("/compute/v2.1{path}"))
        .method(method)
        .insert_header(("Host", "cloud:8080"))
        .insert_header(("X-Auth-Token", "u:p"))
}

fn at(request: TestRequest, version: &str) -> TestRequest {
    request.insert_header(("OpenStack-API-Version", format!("compute {version}")))
}

#[actix_web::test]
async fn a_plain_request() {
    let answer = send(at(compute("GET", "/things?limit=3&limit=4&odd=1"), "2.74")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({
            "version": "2.74", "query": {"limit": ["3", "4"]},
            "self": "http://cloud:8080/compute/v2.1/things/1", "admin": false,
        })
    );
    assert_eq!(answer.header("OpenStack-API-Version"), Some("compute 2.74"));
    assert_eq!(answer.header("X-OpenStack-Nova-API-Version"), Some("2.74"));
    assert_eq!(answer.headers.iter().filter(|(name, _)| name == "vary").count(), 2);
    assert!(answer.header("x-openstack-request-id").unwrap().starts_with("req-"));
    assert_eq!(answer.header("x-compute-request-id"), answer.header("x-openstack-request-id"));
    // Every answer of Compute has both headers of the request id, at every version and also if it is a refusal. The
    // other services have only the first one.
    for (path, version, status) in
        [("/things", "2.1", 200), ("/things", "2.45", 200), ("/nothing", "2.46", 404), ("/things", "2.999", 406)]
    {
        let answer = send(at(compute("GET", path), version)).await;
        assert_eq!(answer.status, status, "{path} at {version}");
        let id = answer.header("x-openstack-request-id");
        assert!(id.is_some_and(|id| id.starts_with("req-")), "{path} at {version}: {id:?}");
        assert_eq!(answer.header("x-compute-request-id"), id, "{path} at {version}");
    }
}

#[actix_web::test]
async fn the_project_in_the_path() {
    let answer = send(compute("GET", "/p/things")).await;
    assert_eq!(answer.json()["self"], "http://cloud:8080/compute/v2.1/p/things/1");
    let (status, message) = send(compute("GET", "/q/things")).await.fault();
    assert_eq!(status, 400);
    assert_eq!(message, "Malformed request URL: URL's project_id 'q' doesn't match Context's project_id 'p'");
}

#[actix_web::test]
async fn without_a_token() {
    let request = TestRequest::with_uri("/compute/v2.1/things");
    let answer = send(request).await;
    assert_eq!(answer.status, 401);
    assert!(answer.header("WWW-Authenticate").unwrap().starts_with("Keystone uri="));
    assert!(answer.header("x-openstack-request-id").is_some());
    // Without a token, an unknown path is 401, too.
    assert_eq!(send(TestRequest::with_uri("/compute/v2.1/nothing")).await.status, 401);
    assert_eq!(send(TestRequest::post().uri("/identity/v3/auth/tokens").set_payload("{}")).await.status, 200);
}

#[actix_web::test]
async fn real_tokens() {
    let ask = |token: &'static str| {
        let request = TestRequest::with_uri("/compute/v2.1/things").insert_header(("X-Auth-Token", token));
        send_to(app(Authentication::Tokens(Arc::new(Doorman))), None, request)
    };
    assert_eq!(ask("letmein").await.status, 200);
    assert_eq!(ask("guess").await.status, 401);
    let away = ask("away").await;
    assert_eq!(away.fault(), (503, "The Keystone service is temporarily unavailable.".to_owned()));
}

/// A request with a user's token and a service's.
async fn vouched(token: &'static str, service: &'static str) -> u16 {
    let request = TestRequest::with_uri("/compute/v2.1/things")
        .insert_header(("X-Auth-Token", token))
        .insert_header(("X-Service-Token", service));
    send_to(app(Authentication::Tokens(Arc::new(Doorman))), None, request).await.status
}

#[actix_web::test]
async fn a_service_vouches_for_an_expired_token() {
    assert_eq!(vouched("expired", "service").await, 200);
    assert_eq!(vouched("guess", "service").await, 401, "a forged token was accepted because a service vouched for it");
    assert_eq!(vouched("letmein", "service").await, 200);
    for (token, service) in [("expired", "other"), ("letmein", "other"), ("letmein", "guess"), ("expired", "")] {
        assert_eq!(vouched(token, service).await, 401, "{token} {service}");
    }
    assert_eq!(vouched("letmein", "away").await, 503);
    assert_eq!(vouched("narrow", "service").await, 200, "a service passes on what the user asked another service for");
    assert_eq!(vouched("narrow service", "narrow service").await, 401, "a token vouched for itself against its rules");
}

#[actix_web::test]
async fn a_token_with_access_rules_is_good_for_what_they_name() {
    let ask = |method: &str, path: &str| {
        let method = actix_web::http::Method::from_bytes(method.as_bytes()).unwrap();
        let request = TestRequest::with_uri(path).method(method).insert_header(("X-Auth-Token", "narrow"));
        send_to(app(Authentication::Tokens(Arc::new(Doorman))), None, request)
    };
    assert_eq!(ask("GET", "/compute/v2.1/servers").await.status, 404, "permitted, but without a route here");
    assert_eq!(ask("GET", "/compute/v2.1/servers/1").await.status, 404);
    for (method, path) in [
        ("GET", "/compute/v2.1/things"),
        ("DELETE", "/compute/v2.1/servers/1"),
        ("GET", "/compute/v2.1/servers/1/ips"),
        ("GET", "/placement/resource_providers"),
    ] {
        assert_eq!(ask(method, path).await.status, 401, "{method} {path}");
    }
}

#[actix_web::test]
async fn a_moved_api_names_its_new_address() {
    let there = "http://keystone:5000/v3".to_owned();
    let app = || {
        let app = Arc::into_inner(app(Authentication::NoAuth)).unwrap();
        Arc::new(app.with_elsewhere(Service::Identity, there.clone()))
    };
    for path in ["/identity", "/identity/v3", "/identity/v3/auth/tokens", "/identity/v3/users"] {
        let answer = send_to(app(), None, TestRequest::with_uri(path)).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text.contains("http://keystone:5000/v3"), "{path}: {}", answer.text);
    }
    let index = send_to(app(), None, TestRequest::with_uri("/").insert_header(("Host", "c"))).await.json();
    assert_eq!(index["services"]["identity"], "http://keystone:5000/v3");
    assert_eq!(index["services"]["compute"], "http://c/compute");
}

#[actix_web::test]
async fn versions() {
    assert_eq!(send(at(compute("GET", "/new-things"), "2.50")).await.status, 200);
    let (status, message) = send(at(compute("GET", "/new-things"), "2.49")).await.fault();
    assert_eq!((status, message.as_str()), (404, "API version '2.49' is not supported on this method."));
    let (status, message) = send(at(compute("GET", "/things"), "2.999")).await.fault();
    assert_eq!(status, 406);
    let bounds = format!("Minimum is {} and maximum is {}.", COMPUTE.min, COMPUTE.max);
    assert_eq!(message, format!("Version 2.999 is not supported by the API. {bounds}"));
    assert_eq!(send(at(compute("GET", "/things"), "two")).await.fault().0, 400);
    let legacy = TestRequest::with_uri("/compute/v2/things").insert_header(("X-Auth-Token", "u:p"));
    let answer = send(at(legacy, "2.50")).await;
    assert_eq!((answer.json()["version"].as_str(), answer.header("OpenStack-API-Version")), (Some("2.1"), None));
}

#[actix_web::test]
async fn queries_are_strict_from_2_75() {
    assert_eq!(send(at(compute("GET", "/things?odd=1"), "2.75")).await.fault().0, 400);
    let (status, message) = send(compute("GET", "/things?limit=x")).await.fault();
    assert_eq!(status, 400);
    assert_eq!(message, "Invalid input for query parameters limit. Value: x. 'x' does not match '^[0-9]*$'");
}

#[actix_web::test]
async fn bodies() {
    let answer = send(compute("POST", "/things").set_json(json!({"thing": {"name": "a"}}))).await;
    assert_eq!(answer.status, 202);
    assert_eq!(answer.header("Location"), Some("http://cloud:8080/compute/v2.1/things/1"));
    let colour = json!({"thing": {"name": "a", "colour": "red"}});
    assert_eq!(send(at(compute("POST", "/things").set_json(&colour), "2.18")).await.fault().0, 400);
    assert_eq!(send(at(compute("POST", "/things").set_json(&colour), "2.19")).await.status, 202);
    let (status, message) = send(compute("POST", "/things").set_payload("{")).await.fault();
    assert_eq!((status, message.as_str()), (400, "Malformed request body"));
    // As in Nova since its removal of XML, a body in XML is refused.
    let xml = compute("POST", "/things").insert_header(("Content-Type", "application/xml"));
    assert_eq!(send(xml.set_payload("<thing/>")).await.fault().0, 415);
    assert_eq!(send(compute("POST", "/things")).await.fault().0, 400);
    let long = format!("{{\"thing\": {{\"name\": \"{}\"}}}}", "x".repeat(120_000));
    assert_eq!(send(compute("POST", "/things").set_payload(long)).await.status, 413);
}

#[actix_web::test]
async fn actions() {
    let act = |body: Value| send(at(compute("POST", "/things/1/action").set_json(body), "2.6"));
    assert_eq!(act(json!({"os-start": null})).await.status, 202);
    let unknown = act(json!({"explode": null})).await.fault();
    assert_eq!(unknown, (400, "There is no such action: explode".to_owned()));
    assert_eq!(act(json!({"os-start": null, "b": 1})).await.fault(), (400, "Malformed request body".to_owned()));
    assert_eq!(act(json!([])).await.fault().0, 400);
    assert_eq!(act(json!({"old": null})).await.fault().0, 404);
}

#[actix_web::test]
async fn policy() {
    let reader = compute("POST", "/things").insert_header(("X-Roles", "reader"));
    let (status, message) = send(reader.set_json(json!({"thing": {"name": "a"}}))).await.fault();
    assert_eq!(status, 403);
    assert_eq!(message, "Policy doesn't allow os_compute_api:servers:create to be performed.");
    // The target belongs to another project. A member may not access it, an administrator may.
    assert_eq!(send(compute("GET", "/things/1")).await.fault().0, 403);
    let admin = compute("GET", "/things/1").insert_header(("X-Roles", "admin"));
    assert_eq!(send(admin).await.json(), json!({"id": "1", "rule": "os_compute_api:servers:show"}));
    // The dispatcher refuses the answer of a handler that did not check its rule.
    assert_eq!(send(compute("GET", "/things/careless")).await.fault().0, 500);
}

#[actix_web::test]
async fn unknown_paths_and_methods_are_refused() {
    let nothing = send(compute("GET", "/nothing")).await.fault();
    assert_eq!(nothing, (404, "The resource could not be found.".to_owned()));
    assert_eq!(send(compute("PUT", "/things")).await.fault().0, 404);
    assert_eq!(send(compute("GET", "/os-cells")).await.fault().0, 410);
    let placement = |method: &str, path: &str| {
        TestRequest::with_uri(&format!("/placement{path}"))
            .method(actix_web::http::Method::from_bytes(method.as_bytes()).unwrap())
            .insert_header(("X-Auth-Token", "admin"))
    };
    let answer = send(placement("PUT", "/resource_providers")).await;
    assert_eq!((answer.status, answer.header("Allow")), (405, Some("GET")));
    let options = send(placement("OPTIONS", "/")).await;
    assert_eq!((options.status, options.header("Access-Control-Allow-Origin")), (200, None));
    let closed = send_to(app_for(Authentication::NoAuth, &[]), None, placement("OPTIONS", "/")).await;
    assert_eq!(closed.status, 405);
    // Placement checks the version before the media type.
    let wrong = |version: &'static str| {
        placement("POST", "/resource_classes")
            .insert_header(("OpenStack-API-Version", version))
            .insert_header(("Content-Type", "text/plain"))
            .set_payload("data")
    };
    assert_eq!(send(wrong("placement 1.1")).await.status, 404);
    assert_eq!(send(wrong("placement 1.2")).await.status, 415);
    let range =
        send(placement("GET", "/resource_providers").insert_header(("OpenStack-API-Version", "placement 0.9"))).await;
    assert_eq!(range.json()["errors"][0]["max_version"], "1.39");
    let user = placement("GET", "/resource_providers").insert_header(("X-Roles", "reader"));
    assert_eq!(send(user).await.json()["errors"][0]["status"], 403);
}

#[actix_web::test]
async fn a_failed_or_panicking_handler_does_not_show_its_cause() {
    for path in ["/fail", "/panic"] {
        let answer = send(compute("GET", path)).await;
        assert_eq!(answer.status, 500);
        assert!(answer.text.contains("computeFault") && !answer.text.contains("password"), "{}", answer.text);
    }
}

#[actix_web::test]
async fn uploads_are_not_limited() {
    let request = TestRequest::put()
        .uri("/image/v2/images/1/file")
        .insert_header(("X-Auth-Token", "u:p"))
        .set_payload(vec![0_u8; 1_000_000]);
    assert_eq!(send(request).await.json()["length"], 1_000_000);
}

#[actix_web::test]
async fn discovery_needs_no_token() {
    let root = send(TestRequest::with_uri("/compute/").insert_header(("Host", "h"))).await;
    assert_eq!(root.status, 200);
    assert_eq!(root.json()["versions"][1]["links"][0]["href"], "http://h/compute/v2.1/");
    let own = TestRequest::with_uri("/").insert_header(("Host", "h:8774"));
    let own = send_to(app(Authentication::NoAuth), Some(Service::Compute), own).await;
    assert_eq!(own.json()["versions"][1]["links"][0]["href"], "http://h:8774/v2.1/");
    assert_eq!(send(TestRequest::with_uri("/identity/v3")).await.json()["version"]["status"], "stable");
    assert_eq!(send(TestRequest::with_uri("/")).await.json()["name"], "chronova");
    assert_eq!(send(TestRequest::with_uri("/healthz")).await.status, 200);
    assert_eq!(send(TestRequest::with_uri("/elsewhere")).await.status, 404);
}

#[actix_web::test]
async fn metrics_count_by_operation() {
    let app = app(Authentication::NoAuth);
    send_to(Arc::clone(&app), None, compute("GET", "/things")).await;
    let text = send_to(app, None, TestRequest::with_uri("/metrics")).await.text;
    assert!(text.contains("operation=\"things.index\",service=\"compute\",status=\"200\"} 1"), "{text}");
}

#[actix_web::test]
async fn cross_origin() {
    let options = || {
        compute("OPTIONS", "/things")
            .insert_header(("Origin", "http://valid.example.com"))
            .insert_header(("Access-Control-Request-Method", "GET"))
    };
    let answer = send(options()).await;
    assert_eq!((answer.status, answer.header("Access-Control-Allow-Origin")), (200, Some("http://valid.example.com")));
    let get = send(compute("GET", "/things").insert_header(("Origin", "http://valid.example.com"))).await;
    assert_eq!(get.header("Access-Control-Allow-Origin"), Some("http://valid.example.com"));
}

#[actix_web::test]
async fn the_rate_limit_refuses_only_the_project_that_exceeds_it() {
    let config = WebConfig { rate_limit: 0.001, rate_limit_burst: 2, ..WebConfig::default() };
    let policy = Enforcer::new(&config.policy, &Overrides::default()).unwrap();
    let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
    let app = Arc::new(App::new(config, policy, Authentication::NoAuth, metrics));
    let routers = Arc::new(Routers::of(&[(Service::Compute, &[THINGS])]));
    let configured = server::configure(app, routers, None);
    let service = test::init_service(actix_web::App::new().configure(configured)).await;
    let ask = async |token: &str| {
        let request = TestRequest::with_uri("/compute/v2.1/things").insert_header(("X-Auth-Token", token));
        let answer = test::call_service(&service, request.to_request()).await;
        let wait = answer.headers().get("Retry-After").and_then(|value| value.to_str().ok()).map(str::to_owned);
        (answer.status().as_u16(), wait)
    };
    for (token, status) in [("alice:web", 200), ("bob:web", 200), ("alice:web", 429), ("eve:other", 200)] {
        assert_eq!(ask(token).await.0, status, "{token}");
    }
    assert!(ask("alice:web").await.1.is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 900));
    for _ in 0..5 {
        assert_eq!(ask("admin:web").await.0, 200, "an administrator was throttled");
    }
}

#[actix_web::test]
async fn the_apis_describe_themselves() {
    let config = WebConfig::default();
    let policy = Enforcer::new(&config.policy, &Overrides::default()).unwrap();
    let metrics = HttpMetrics::new(prometheus::Registry::new()).unwrap();
    let app = Arc::new(App::new(config, policy, Authentication::NoAuth, metrics));
    let configured = server::configure(app, Arc::new(Routers::of(&[])), None);
    let service = test::init_service(actix_web::App::new().configure(configured)).await;
    for (path, status) in [("/openapi.json", 200), ("/openapi.json?version=2.6", 200), ("/openapi.json?version=3", 400)]
    {
        let answer = test::call_service(&service, TestRequest::with_uri(path).to_request()).await;
        assert_eq!(answer.status().as_u16(), status, "{path}");
        let body: Value = test::read_body_json(answer).await;
        assert!(status != 200 || body["openapi"] == "3.1.0", "{path}");
    }
}
