//! Compares answers with the descriptions of their operations: status, headers and the schema of the body.
//!
//! [`Api`](crate::compute_api::Api) compares every answer that a test gets. So the OpenAPI documents stay true for each
//! answer that any test provokes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use actix_web::http::header::HeaderMap;
use chronova_web::Microversion;
use chronova_web::answers::{AnswerContent, AnswerForm, common_headers, faults};
use chronova_web::microversion::{COMPUTE, HEADER, LEGACY_HEADER};
use chronova_web::query::percent_decode;
use chronova_web::route::{Method, Route};
use chronova_web::router::{Operation, RouteMatch};
use chronova_web::schema::{Dialect, Validator};
use chronova_web::service::Service;
use chronova_web::tables::Routers;
use serde_json::Value;

/// An answer with its request.
pub struct AnsweredRequest<'a> {
    pub method: &'a str,
    /// The path with the service's prefix, with or without a query string.
    pub path: &'a str,
    pub asked: Option<&'a Value>,
    pub status: u16,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

/// Checks that the answer is as its operation describes it. Operations without a description may answer anything. A
/// path that is neither an operation's nor a version document's may only be refused. Paths of no service are not
/// checked.
pub fn check(routers: &Routers, answered: &AnsweredRequest<'_>) -> Result<(), String> {
    let path = answered.path.split('?').next().unwrap_or_default();
    let Some((service, below)) = Service::ALL.into_iter().find_map(|service| Some((service, below(service, path)?)))
    else {
        return Ok(());
    };
    let legacy = service == Service::Compute && !below.starts_with("/v2.1");
    let version = version(answered.headers, legacy);
    let told = |wrong: String| format!("{} {path} at {version}: {} {wrong}", answered.method, answered.status);
    if answered.status >= 400 {
        return refusal(service, version, answered).map_err(told);
    }
    if is_version_document(service, below) {
        return Ok(());
    }
    let route = route(routers, service, below, version, answered);
    let route = route.ok_or_else(|| told("is the success of no operation".to_owned()))?;
    success(route, version, answered).map_err(told)?;
    let expected = common_headers(service).iter().filter(|name| !legacy || ![HEADER, LEGACY_HEADER].contains(name));
    present(expected.copied(), answered.headers).map_err(told)
}

/// The path below the prefix of the service.
fn below(service: Service, path: &str) -> Option<&str> {
    let rest = path.strip_prefix('/')?.strip_prefix(service.name())?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Whether the path below the service's prefix is that of a version document, which no operation describes.
fn is_version_document(service: Service, below: &str) -> bool {
    let path = below.trim_end_matches('/');
    match service {
        Service::Compute => matches!(path, "" | "/v2" | "/v2.1"),
        Service::Image => matches!(path, "" | "/versions"),
        Service::Placement | Service::Identity | Service::Network | Service::Volume => {
            path.is_empty() || path == service.api_root()
        }
        Service::Metadata | Service::Chronova => false,
    }
}

/// The version that the answer names. Answers of the legacy API name none.
fn version(headers: &HeaderMap, legacy: bool) -> Microversion {
    let named = headers.get(HEADER).and_then(|value| value.to_str().ok()?.split_once(' ')?.1.split_once('.'));
    match named {
        Some((major, minor)) => Microversion::new(major.parse().unwrap(), minor.parse().unwrap()),
        None if legacy => COMPUTE.min,
        None => Microversion::NONE,
    }
}

fn refusal(service: Service, version: Microversion, answered: &AnsweredRequest<'_>) -> Result<(), String> {
    match is_json(answered) && !answered.body.is_empty() {
        true => {
            let judge = Validator::compile(faults::body(service, answered.status, version), Dialect::Plain).unwrap();
            fits(&judge, answered.body)
        }
        false => Ok(()),
    }
}

fn is_json(answered: &AnsweredRequest<'_>) -> bool {
    media_of(answered).starts_with(b"application/json")
}

fn media_of<'a>(answered: &AnsweredRequest<'a>) -> &'a [u8] {
    answered.headers.get("Content-Type").map_or(&[], |kind| kind.as_bytes())
}

fn fits(judge: &Validator, body: &[u8]) -> Result<(), String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| format!("has no JSON: {error}"))?;
    judge.check(&body).map_err(|wrong| format!("at {:?}: {}", wrong.path, wrong.message))
}

/// The route that answered; `None` if no operation has this path, this version and this action.
fn route(
    routers: &Routers,
    service: Service,
    below: &str,
    version: Microversion,
    answered: &AnsweredRequest<'_>,
) -> Option<&'static Route> {
    let roots: &[&str] = if service == Service::Compute { &["/v2.1", "/v2"] } else { &[service.api_root()] };
    let rest = roots.iter().find_map(|root| below.strip_prefix(root))?;
    // The pipeline also decodes the segments before it looks for the operation.
    let segments = rest.split('/').filter(|part| !part.is_empty()).map(percent_decode);
    let path = segments.collect::<Option<Vec<String>>>()?;
    let method = Method::parse(&answered.method.to_ascii_uppercase());
    let without_project = path.get(1..).filter(|_| matches!(service, Service::Compute | Service::Volume));
    let operations = [Some(path.as_slice()), without_project].into_iter().flatten().find_map(|path| {
        match routers.get(service)?.find(method, path) {
            RouteMatch::Operations { operations, .. } => Some(operations),
            RouteMatch::OtherMethods(_) | RouteMatch::Nothing => None,
        }
    })?;
    let action = answered.asked.and_then(Value::as_object).and_then(|body| body.keys().next()).map(String::as_str);
    let is_it = |operation: &&Operation| {
        let route = operation.route;
        version.within(route.since, route.until) && (route.action.is_none() || route.action == action)
    };
    operations.into_iter().find(is_it).map(|operation| operation.route)
}

fn success(route: &'static Route, version: Microversion, answered: &AnsweredRequest<'_>) -> Result<(), String> {
    let Some(describe) = route.answers else { return Ok(()) };
    let described = describe();
    let forms: Vec<&AnswerForm> = described.at(version).filter(|form| form.status == answered.status).collect();
    if forms.is_empty() {
        return Err(format!("is no answer of {}", route.op));
    }
    let without_body = answered.method.eq_ignore_ascii_case("HEAD");
    let form = forms.into_iter().find(|form| without_body || has_media_type(&form.content, answered));
    let form = form.ok_or_else(|| format!("has a body that {} does not have", route.op))?;
    let always = form.headers(version).filter(|header| header.always);
    present(always.map(|header| header.name), answered.headers)?;
    match form.content {
        AnswerContent::Json(_) if !without_body => fits(&judge(route, form, version), answered.body),
        AnswerContent::Json(_) | AnswerContent::Empty | AnswerContent::Other(_) => Ok(()),
    }
}

fn has_media_type(content: &AnswerContent, answered: &AnsweredRequest<'_>) -> bool {
    match content {
        AnswerContent::Empty => answered.body.is_empty(),
        AnswerContent::Json(_) => is_json(answered) && !answered.body.is_empty(),
        AnswerContent::Other(media_type) => media_of(answered).starts_with(media_type.as_bytes()),
    }
}

fn present<'a>(mut names: impl Iterator<Item = &'a str>, headers: &HeaderMap) -> Result<(), String> {
    match names.find(|name| !headers.contains_key(*name)) {
        Some(name) => Err(format!("lacks the header {name}")),
        None => Ok(()),
    }
}

type JudgeKey = (&'static str, Microversion, u16);

thread_local! {
    static JUDGES: RefCell<BTreeMap<JudgeKey, Rc<Validator>>> = RefCell::default();
}

/// The validator of an answer. A test may get the same answer thousands of times, so validators are kept.
fn judge(route: &'static Route, form: &AnswerForm, version: Microversion) -> Rc<Validator> {
    let compile = || {
        let schema = match &form.content {
            AnswerContent::Json(schema) => schema.render(version),
            AnswerContent::Empty | AnswerContent::Other(_) => Value::Bool(true),
        };
        Rc::new(Validator::compile(schema, Dialect::Plain).unwrap())
    };
    JUDGES.with_borrow_mut(|judges| Rc::clone(judges.entry((route.op, version, form.status)).or_insert_with(compile)))
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(more: &[(&'static str, &'static str)]) -> HeaderMap {
        let all = [
            ("Content-Type", "application/json"),
            ("x-openstack-request-id", "req-1"),
            ("x-compute-request-id", "req-1"),
            (HEADER, "compute 2.79"),
            (LEGACY_HEADER, "2.79"),
            ("Vary", HEADER),
        ];
        let pairs = all.iter().chain(more);
        pairs.map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::from_static(value))).collect()
    }

    fn judged(method: &str, path: &str, status: u16, headers: &HeaderMap, body: &Value) -> Result<(), String> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answered = AnsweredRequest { method, path, asked: None, status, headers, body: &body };
        check(&Routers::all(), &answered)
    }

    #[test]
    fn only_described_answers_pass() {
        let (path, plain) = ("/compute/v2.1/servers/x/tags", headers(&[]));
        let tags = |body: Value| judged("GET", path, 200, &plain, &body);
        assert_eq!(tags(json!({"tags": ["a"]})), Ok(()));
        assert!(tags(json!({"tags": [1]})).unwrap_err().contains("not of type"));
        assert!(tags(json!({"tags": [], "more": 1})).unwrap_err().contains("Additional properties"));
        assert!(tags(json!({})).unwrap_err().contains("required"));
        assert!(tags(Value::Null).unwrap_err().contains("has a body that server_tags.index does not have"));
        assert!(
            judged("GET", path, 202, &plain, &Value::Null).unwrap_err().contains("is no answer of server_tags.index")
        );
        let project = judged("GET", "/compute/v2.1/p/servers/x/tags?a=b", 200, &plain, &json!({"tags": 1}));
        assert!(project.is_err());
    }

    #[test]
    fn encoded_paths_are_compared_too() {
        let plain = headers(&[]);
        let tags = |body: &Value| judged("GET", "/compute/v2.1/servers/a%20b/t%61gs", 200, &plain, body);
        assert_eq!(tags(&json!({"tags": ["a"]})), Ok(()));
        assert!(tags(&json!({"tags": [1]})).unwrap_err().contains("not of type"));
        // An encoded slash is a part of its segment.
        let other = judged("GET", "/compute/v2.1/servers/x%2Ftags", 200, &plain, &json!({"tags": ["a"]}));
        assert!(other.unwrap_err().contains("200 at []"), "another operation than servers.show has answered");
    }

    #[test]
    fn no_success_comes_from_nowhere() {
        let plain = headers(&[]);
        for (method, path) in [
            ("GET", "/compute/v2.1/nothing/here/at/all"),
            ("DELETE", "/compute/v2.1/servers"),
            ("POST", "/compute/v2.1/servers/x/action"),
            ("GET", "/compute/v2.1/servers/%ff"),
            ("GET", "/image/v2"),
            ("GET", "/chronova/v1"),
        ] {
            let wrong = judged(method, path, 200, &plain, &json!({})).unwrap_err();
            assert!(wrong.contains("is the success of no operation"), "{wrong}");
            assert!(judged(method, path, 404, &plain, &Value::Null).is_ok(), "{path} may be refused");
        }
        for path in ["/compute", "/compute/v2.1/", "/placement/", "/identity/v3", "/image/versions", "/volume/v3"] {
            assert_eq!(judged("GET", path, 200, &plain, &json!({"versions": []})), Ok(()), "{path}");
        }
        assert_eq!(judged("GET", "/healthz", 200, &plain, &json!({})), Ok(()), "no service has this path");
    }

    /// The bodies of all services are compared, with and without a project in the path or a version in the answer.
    #[test]
    fn no_service_is_left_out() {
        for (path, version) in [
            ("/compute/v2/servers", None),
            ("/compute/v2.1/p/servers", Some("compute 2.79")),
            ("/placement/traits", Some("placement 1.39")),
            ("/identity/v3/roles", None),
            ("/image/v2/images", None),
            ("/network/v2.0/ports", None),
            ("/volume/v3/volumes", Some("volume 3.59")),
            ("/volume/v3/p/volumes", Some("volume 3.59")),
            ("/chronova/v1/hosts", None),
        ] {
            let mut named = headers(&[("Last-Modified", "now"), ("Cache-Control", "no-cache")]);
            named.remove(HEADER);
            if let Some(version) = version {
                named.insert(HeaderName::try_from(HEADER).unwrap(), HeaderValue::from_static(version));
            }
            let wrong = judged("GET", path, 200, &named, &json!({"surprise": true})).unwrap_err();
            assert!(wrong.contains("200 at []"), "{wrong}");
        }
    }

    #[test]
    fn promised_headers_are_needed() {
        let path = "/compute/v2.1/servers/x/tags/a";
        let added = |headers: &HeaderMap| judged("PUT", path, 201, headers, &Value::Null);
        assert_eq!(added(&headers(&[("Location", "http://h/")])), Ok(()));
        assert!(added(&headers(&[])).unwrap_err().contains("Location"));
        let mut nameless = headers(&[("Location", "http://h/")]);
        nameless.remove("x-openstack-request-id");
        assert!(added(&nameless).unwrap_err().contains("x-openstack-request-id"));
    }

    #[test]
    fn refusals_have_the_form_of_their_service() {
        let (path, plain) = ("/compute/v2.1/servers/x/tags", headers(&[]));
        let refused = |body: &Value| judged("GET", path, 404, &plain, body);
        assert_eq!(refused(&json!({"itemNotFound": {"code": 404, "message": "no"}})), Ok(()));
        assert!(refused(&json!({"error": "no"})).is_err());
    }
}
