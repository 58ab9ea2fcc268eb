//! The parts of an API that all its operations share: version negotiation, `Accept`, headers for caches, methods that
//! do not exist. Three tests check rules of single operations of Placement: the aggregates of an unknown provider, the
//! texts of aggregates, and who may reshape.
//!
//! Sources: the Placement API reference ("Microversions", "Errors", "Request ID") and its history (1.15:
//! `last-modified` and `cache-control` on every GET with a body), Nova's "Microversions" and its API guide.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix_web::test::{self, TestRequest};
use chronova_events::ids::ProjectId;
use chronova_tests::compute_api::{ADMIN, Api};
use chronova_web::microversion::COMPUTE;
use chronova_web::policy::{Enforcer, Overrides};
use chronova_web::server::configure;
use chronova_web::service::Service;
use chronova_web::{config::PolicyConfig, tables};
use serde_json::{Value, json};

struct Answer {
    status: u16,
    headers: BTreeMap<String, Vec<String>>,
    text: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|all| all.first()).map(String::as_str)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }
}

async fn ask(api: &Api, method: &str, path: &str, headers: &[(&'static str, &str)], body: Option<Value>) -> Answer {
    let configured = configure(Arc::clone(&api.app), Arc::clone(&api.routers), None);
    let service = test::init_service(actix_web::App::new().configure(configured)).await;
    let mut request = TestRequest::with_uri(path).method(method.parse().unwrap());
    for (name, value) in headers {
        request = request.insert_header((*name, *value));
    }
    if let Some(body) = body {
        request = request.set_json(body);
    }
    let response = test::call_service(&service, request.to_request()).await;
    let status = response.status().as_u16();
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in response.headers() {
        headers.entry(name.as_str().to_owned()).or_default().push(value.to_str().unwrap().to_owned());
    }
    let text = String::from_utf8(test::read_body(response).await.to_vec()).unwrap();
    Answer { status, headers, text }
}

const TOKEN: (&str, &str) = ("X-Auth-Token", ADMIN);

/// A version of Placement, for the header.
fn placement(version: &str) -> (&'static str, String) {
    ("OpenStack-API-Version", format!("placement {version}"))
}

#[actix_rt::test]
async fn the_root_of_placement_negotiates_as_every_other_path() {
    let api = Api::start().await;
    for (path, token) in [("/placement/", None), ("/placement", None), ("/placement/resource_providers", Some(TOKEN))] {
        let with = async |version: &str, accept: &str| {
            let (name, value) = placement(version);
            let mut headers = vec![(name, value.as_str()), ("Accept", accept)];
            headers.extend(token);
            ask(&api, "GET", path, &headers, None).await
        };
        for version in ["1.0", "1.14", "1.15", "1.39"] {
            let answer = with(version, "application/json").await;
            assert_eq!(answer.status, 200, "{path} {version}: {}", answer.text);
            assert_eq!(answer.header("openstack-api-version"), Some(format!("placement {version}").as_str()), "{path}");
            assert!(answer.header("vary").unwrap().eq_ignore_ascii_case("openstack-api-version"), "{path}");
            assert!(answer.header("x-openstack-request-id").unwrap().starts_with("req-"), "{path}");
            let fresh = version != "1.0" && version != "1.14";
            assert_eq!(answer.header("cache-control"), fresh.then_some("no-cache"), "{path} {version}");
            assert_eq!(answer.header("last-modified").is_some(), fresh, "{path} {version}");
        }
        assert_eq!(with("latest", "*/*").await.header("openstack-api-version"), Some("placement 1.39"));
        let unknown = with("1.40", "application/json").await;
        assert_eq!((unknown.status, unknown.header("vary").is_some()), (406, true), "{path}");
        let error = &unknown.json()["errors"][0];
        assert_eq!((&error["min_version"], &error["max_version"]), (&json!("1.0"), &json!("1.39")), "{path}");
        assert_eq!((&error["status"], &error["title"]), (&json!(406), &json!("Not Acceptable")), "{path}");
        assert!(error["detail"].as_str().unwrap().contains("Unacceptable version header: 1.40"), "{path}: {error}");
        for bad in ["pizza", "1", "1.x", "1.2.3"] {
            let refused = with(bad, "application/json").await;
            assert_eq!(refused.status, 400, "{path} {bad}: {}", refused.text);
            assert!(refused.text.contains("invalid version string"), "{path} {bad}: {}", refused.text);
        }
        let page = with("1.40", "text/html").await;
        assert_eq!((page.status, page.header("content-type")), (406, Some("text/html; charset=UTF-8")), "{path}");
        assert!(page.text.contains("<title>406 Not Acceptable</title>"), "{path}: {}", page.text);
    }
    let plain = ask(&api, "GET", "/placement/", &[], None).await;
    assert_eq!(
        plain.header("openstack-api-version"),
        Some("placement 1.0"),
        "a request without a version header did not get the oldest version"
    );
    api.stop().await;
}

/// The path of a route with something in the place of each parameter.
fn filled(path: &str) -> String {
    let fill = |segment: &str| {
        if segment.starts_with('{') { "11111111-2222-3333-4444-555555555555" } else { segment }.to_owned()
    };
    path.split('/').map(fill).collect::<Vec<_>>().join("/")
}

#[actix_rt::test]
async fn placement_names_the_methods_that_there_are() {
    let api = Api::start().await;
    let mut methods: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for route in tables::of(Service::Placement).iter().copied().flatten() {
        methods.entry(filled(route.path)).or_default().insert(route.method.as_str());
    }
    assert!(methods.len() > 12, "{methods:?}");
    // The root (the list of versions) is in no route table; it answers GET alone.
    methods.insert("/".to_owned(), BTreeSet::from(["GET"]));
    for (path, there) in &methods {
        for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] {
            if there.contains(method) {
                continue;
            }
            let answer =
                ask(&api, method, &format!("/placement{path}"), &[TOKEN, ("Accept", "application/json")], None).await;
            assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text);
            let allowed: BTreeSet<&str> = answer.header("allow").unwrap_or_default().split(", ").collect();
            assert_eq!(&allowed, there, "{method} {path}");
            if method != "HEAD" {
                assert_eq!(
                    answer.json()["errors"][0]["title"],
                    "Method Not Allowed",
                    "{method} {path}: {}",
                    answer.text
                );
            }
        }
    }
    let unknown = ask(&api, "GET", "/placement/resource_provider", &[TOKEN], None).await;
    assert_eq!(unknown.status, 404);
    let nobody = ask(&api, "PATCH", "/placement/resource_providers", &[], None).await;
    assert_eq!(nobody.status, 401, "a request without a token learned the methods");
    api.stop().await;
}

#[actix_rt::test]
async fn a_body_in_the_form_of_another_version_is_refused_before_the_provider_is_looked_up() {
    let api = Api::start().await;
    let path = "/placement/resource_providers/11111111-2222-3333-4444-555555555555/aggregates";
    let group = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
    let old = json!([group]);
    let new = json!({"aggregates": [group], "resource_provider_generation": 0});
    for (version, body, status) in
        [("1.18", &old, 404), ("1.19", &new, 404), ("1.39", &new, 404), ("1.18", &new, 400), ("1.19", &old, 400)]
    {
        let (name, value) = placement(version);
        let answer = ask(&api, "PUT", path, &[TOKEN, (name, value.as_str())], Some(body.clone())).await;
        assert_eq!(answer.status, status, "{version} {body}: {}", answer.text);
    }
    api.stop().await;
}

/// Clients write the UUID of an aggregate in several ways, the SDK without dashes, and look for the text that they wrote.
#[actix_rt::test]
async fn aggregates_are_shown_as_they_were_written() {
    let api = Api::start().await;
    let send = async |version: &str, method: &str, path: &str, body: Option<Value>| {
        let (name, value) = placement(version);
        let answer = ask(&api, method, &format!("/placement{path}"), &[TOKEN, (name, value.as_str())], body).await;
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text);
        answer.json()
    };
    let shelf = send("1.20", "POST", "/resource_providers", Some(json!({"name": "shelf"}))).await["uuid"].clone();
    let path = format!("/resource_providers/{}/aggregates", shelf.as_str().unwrap());
    let (dashed, bare) = ("01234567-89ab-cdef-0123-456789abcdef", "0123456789abcdef0123456789abcdef");
    let written = json!([bare, "AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee", "ffffffff-bbbb-cccc-dddd-eeeeeeeeeeee"]);
    let body = json!({"aggregates": written, "resource_provider_generation": 0});
    assert_eq!(send("1.19", "PUT", &path, Some(body)).await["aggregates"], written);
    for version in ["1.1", "1.19", "1.39"] {
        assert_eq!(send(version, "GET", &path, None).await["aggregates"], written, "{version}");
    }
    for text in [bare, dashed] {
        for (condition, is_found) in
            [(text.to_owned(), true), (format!("in:{text}"), true), (format!("!{text}"), false)]
        {
            let found = send("1.32", "GET", &format!("/resource_providers?member_of={condition}"), None).await;
            let found = found["resource_providers"].as_array().unwrap().iter().any(|one| one["uuid"] == shelf);
            assert_eq!(found, is_found, "{condition}");
        }
    }
    assert_eq!(send("1.18", "PUT", &path, Some(json!([dashed]))).await["aggregates"], json!([dashed]));
    assert_eq!(send("1.18", "PUT", &path, Some(json!([bare]))).await["aggregates"], json!([bare]));
    api.stop().await;
}

#[test]
fn a_project_administrator_reshapes_under_the_old_defaults_only() {
    use chronova_web::auth::Caller;
    use chronova_web::policy::PolicyTarget;
    let caller = |role: &str| {
        let mut caller = Caller::anonymous();
        caller.project = Some(ProjectId::new("p"));
        caller.roles = vec![role.to_owned()];
        caller
    };
    for (new_only, role, may) in [
        (true, "service", true),
        (true, "admin", false),
        (false, "service", true),
        (false, "admin", true),
        (false, "member", false),
    ] {
        let config = PolicyConfig { enforce_new_defaults: new_only, ..PolicyConfig::default() };
        let enforcer = Enforcer::new(&config, &Overrides::default()).unwrap();
        let (rule, target) = ("placement:reshaper:reshape", PolicyTarget::default());
        assert_eq!(enforcer.allows(Service::Placement, rule, &caller(role), &target), may, "{new_only} {role}");
    }
}

#[actix_rt::test]
async fn the_root_of_compute_says_its_version_in_both_headers() {
    let api = Api::start().await;
    for path in ["/compute/v2.1", "/compute/v2.1/"] {
        let plain = ask(&api, "GET", path, &[], None).await;
        assert_eq!(plain.status, 200, "{path}");
        assert_eq!(plain.header("openstack-api-version"), Some("compute 2.1"), "{path}");
        assert_eq!(plain.header("x-openstack-nova-api-version"), Some("2.1"), "{path}");
        let newest = ask(&api, "GET", path, &[("OpenStack-API-Version", "compute latest")], None).await;
        let max = COMPUTE.max.to_string();
        assert_eq!(newest.header("openstack-api-version"), Some(format!("compute {max}").as_str()), "{path}");
        assert_eq!(newest.header("x-openstack-nova-api-version"), Some(max.as_str()), "{path}");
        let vary: BTreeSet<String> = newest.headers["vary"].iter().map(|value| value.to_lowercase()).collect();
        assert!(vary.contains("openstack-api-version") && vary.contains("x-openstack-nova-api-version"), "{vary:?}");
        let unknown = ask(&api, "GET", path, &[("X-OpenStack-Nova-API-Version", "2.999")], None).await;
        assert_eq!(unknown.status, 406, "{path}");
        let bad = ask(&api, "GET", path, &[("OpenStack-API-Version", "compute two")], None).await;
        assert_eq!(bad.status, 400, "{path}");
    }
    let root = ask(&api, "GET", "/compute/", &[("OpenStack-API-Version", "compute 2.999")], None).await;
    assert_eq!(root.status, 200, "the list of versions at /compute/ heeds the version header");
    api.stop().await;
}
