//! The APIs as OpenAPI 3.1 documents, made of the route tables: `GET /openapi.json?service=compute&version=2.93`.
//!
//! A document holds the operations of one version with the schemas that validate their requests. Routes with the same
//! path and method, such as the actions of servers, become one operation. A request to it may have the body of any of
//! these routes, and may get the answers of any of them. OpenAPI cannot say that an answer may have a body or none, so
//! `x-may-be-empty` marks such an answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::answers::{AnswerContent, AnswerForm, Answers, common_headers, faults};
use crate::as_of;
use crate::fault::title;
use crate::microversion::{self, Microversion};
use crate::query::Query;
use crate::reply::Reply;
use crate::route::{BodySpec, Method, Route, RouteAccess};
use crate::service::Service;
use crate::tables;

/// The document that a query string requests, or the error in the query string.
pub(crate) fn answer(query: &str) -> Reply {
    let refuse = |why: &str| Reply::json(400, json!({"error": why}));
    let Ok(query) = Query::parse(query) else { return refuse("the query string cannot be read") };
    let name = query.last("service").unwrap_or("compute");
    let Some(service) = Service::ALL.into_iter().find(|service| service.name() == name) else {
        return refuse("there is no such service");
    };
    let version = match (query.last("version"), microversion::span(service)) {
        (None | Some("latest"), span) => span.map(|span| span.max),
        (Some(text), Some(span)) => match microversion::strict(text) {
            Some(version) if version.within(span.min, Some(span.max)) => Some(version),
            _ => return refuse("the service has no such version"),
        },
        (Some(_), None) => return refuse("the service has no versions"),
    };
    Reply::bytes(200, "application/json", kept(service, version))
}

/// The documents that were requested since the start: at most one for each version of each service, together less than 50
/// MB. The request needs no token, so it must not cost a new document each time.
static KEPT: Mutex<BTreeMap<(Service, Option<Microversion>), Bytes>> = Mutex::new(BTreeMap::new());

/// The text of the document, which is made at the first request.
fn kept(service: Service, version: Option<Microversion>) -> Bytes {
    let all = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all().get(&(service, version)).cloned();
    known.unwrap_or_else(|| {
        // The lock is free meanwhile. The first of several equal documents is kept.
        let made = Bytes::from(document(service, version).to_string());
        all().entry((service, version)).or_insert(made).clone()
    })
}

/// The service's operations at `version`; services without versions have one document.
pub fn document(service: Service, version: Option<Microversion>) -> Value {
    let asked = version.unwrap_or(Microversion::NONE);
    let mut paths: BTreeMap<&str, BTreeMap<Method, Vec<&Route>>> = BTreeMap::new();
    for route in tables::of(service).iter().copied().flatten() {
        if route.removed.is_none() && asked.within(route.since, route.until) {
            paths.entry(route.path).or_default().entry(route.method).or_default().push(route);
        }
    }
    let shown: Map<String, Value> =
        paths.into_iter().map(|(path, methods)| (plain(path), path_item(service, path, &methods, asked))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": format!("Chronova: {}", service.name()),
            "version": version.map_or_else(|| env!("CARGO_PKG_VERSION").to_owned(), |version| version.to_string()),
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": format!("/{}{}", service.name(), service.api_root())}],
        "paths": shown,
        "components": {
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}},
            "responses": shared_refusals(service, asked),
        },
    })
}

/// Renders `{name*}` (the rest of a path) as `{name}`, because OpenAPI has no pattern for several segments.
fn plain(path: &str) -> String {
    path.replace("*}", "}")
}

fn path_item(service: Service, path: &str, methods: &BTreeMap<Method, Vec<&Route>>, version: Microversion) -> Value {
    let mut item: Map<String, Value> = methods
        .iter()
        .map(|(method, routes)| (method.as_str().to_ascii_lowercase(), operation(service, routes, version)))
        .collect();
    let names: Vec<Value> = path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name.trim_end_matches('*'), "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    if !names.is_empty() {
        item.insert("parameters".to_owned(), Value::Array(names));
    }
    Value::Object(item)
}

fn needs_token(routes: &[&Route]) -> bool {
    !routes.iter().any(|route| matches!(route.access, RouteAccess::Public | RouteAccess::Optional))
}

fn operation(service: Service, routes: &[&Route], version: Microversion) -> Value {
    let ids: Vec<&str> = routes.iter().map(|route| route.op).collect();
    let mut shown = Map::new();
    shown.insert("operationId".to_owned(), json!(ids.join("|")));
    let rules: Vec<&str> = routes.iter().filter_map(|route| route.access.rule()).collect();
    if !rules.is_empty() {
        shown.insert("x-policy".to_owned(), json!(rules));
    }
    if needs_token(routes) {
        shown.insert("security".to_owned(), json!([{"token": []}]));
    }
    let parameters: Vec<Value> = routes.iter().flat_map(|route| parameters(route, version)).collect();
    if !parameters.is_empty() {
        shown.insert("parameters".to_owned(), Value::Array(parameters));
    }
    if let Some(body) = body(routes, version) {
        shown.insert("requestBody".to_owned(), body);
    }
    shown.insert("responses".to_owned(), responses(service, routes, version));
    Value::Object(shown)
}

/// The answers of an operation: the successes by status, and the refusals.
fn responses(service: Service, routes: &[&Route], version: Microversion) -> Value {
    let mut shown = Map::new();
    let described: Vec<Answers> = routes.iter().filter_map(|route| route.answers).map(|answers| answers()).collect();
    let mut by_status: BTreeMap<u16, Vec<&AnswerForm>> = BTreeMap::new();
    for form in described.iter().flat_map(|answers| answers.at(version)) {
        by_status.entry(form.status).or_default().push(form);
    }
    if described.len() < routes.len() {
        shown.insert("2XX".to_owned(), json!({"description": "See the service's API reference."}));
    }
    let dated = routes.iter().any(|route| route.as_of);
    for (status, forms) in by_status {
        shown.insert(status.to_string(), success(service, status, &forms, dated, version));
    }
    for name in refusals(service, routes) {
        shown.insert(name.clone(), json!({"$ref": format!("#/components/responses/refused-{name}")}));
    }
    Value::Object(shown)
}

fn success(service: Service, status: u16, forms: &[&AnswerForm], dated: bool, version: Microversion) -> Value {
    let mut headers = headers_of_all(service);
    for header in forms.iter().flat_map(|form| form.headers(version)) {
        let same = |form: &&AnswerForm| form.headers(version).any(|other| other.name == header.name && other.always);
        headers.insert(header.name.to_owned(), header_shape(forms.iter().all(same)));
    }
    for name in [as_of::AS_OF, as_of::POSITION].into_iter().filter(|_| dated) {
        headers.insert(name.to_owned(), header_shape(false));
    }
    let mut shown = Map::new();
    shown.insert("description".to_owned(), json!(title(status)));
    shown.insert("headers".to_owned(), Value::Object(headers));
    let mut schemas: Vec<Value> = Vec::new();
    let mut content = Map::new();
    for form in forms {
        match &form.content {
            AnswerContent::Empty => {}
            AnswerContent::Json(schema) => schemas.push(schema.render(version)),
            AnswerContent::Other(media_type) => {
                content.insert((*media_type).to_owned(), json!({}));
            }
        }
    }
    schemas.dedup();
    if let Some(schema) = one_of_several("anyOf", schemas) {
        content.insert("application/json".to_owned(), json!({"schema": schema}));
    }
    if !content.is_empty() {
        shown.insert("content".to_owned(), Value::Object(content));
        if forms.iter().any(|form| matches!(form.content, AnswerContent::Empty)) {
            shown.insert("x-may-be-empty".to_owned(), json!(true));
        }
    }
    Value::Object(shown)
}

/// The only schema, or all schemas under `keyword`.
fn one_of_several(keyword: &str, schemas: Vec<Value>) -> Option<Value> {
    match <[Value; 1]>::try_from(schemas) {
        Ok([only]) => Some(only),
        Err(none) if none.is_empty() => None,
        Err(several) => Some(json!({keyword: several})),
    }
}

fn header_shape(always: bool) -> Value {
    json!({"required": always, "schema": {"type": "string"}})
}

fn headers_of_all(service: Service) -> Map<String, Value> {
    common_headers(service).iter().map(|name| ((*name).to_owned(), header_shape(true))).collect()
}

/// The statuses with which an operation refuses, and `default` for all others.
fn refusals(service: Service, routes: &[&Route]) -> Vec<String> {
    let has_body = routes.iter().any(|route| !matches!(route.body, BodySpec::None));
    let changes = routes.iter().any(|route| !matches!(route.method, Method::Get | Method::Head));
    let named = [
        (400, true),
        (401, needs_token(routes)),
        (403, routes.iter().any(|route| route.access.rule().is_some())),
        (404, routes.iter().any(|route| route.path.contains('{'))),
        (406, microversion::span(service).is_some()),
        (409, changes),
        (413, has_body),
        (415, has_body),
        (429, needs_token(routes)),
    ];
    let statuses = named.into_iter().filter(|(_, has)| *has).map(|(status, _)| status.to_string());
    statuses.chain([OTHERS.to_owned()]).collect()
}

/// The refusals that no status of [`REFUSED`] names.
const OTHERS: &str = "default";
const REFUSED: [u16; 9] = [400, 401, 403, 404, 406, 409, 413, 415, 429];

/// The refusals by status. Many operations share them.
fn shared_refusals(service: Service, version: Microversion) -> Value {
    let shown = |status: u16, description: &str| {
        let schema = faults::body(service, status, version);
        let mut content = Map::from_iter([("application/json".to_owned(), json!({"schema": schema}))]);
        if faults::may_be_page(service) && status != 401 {
            content.insert("text/html".to_owned(), json!({}));
            content.insert("text/plain".to_owned(), json!({}));
        }
        json!({"description": description, "content": content})
    };
    let mut all: Map<String, Value> =
        REFUSED.into_iter().map(|status| (format!("refused-{status}"), shown(status, title(status)))).collect();
    all.insert(format!("refused-{OTHERS}"), shown(500, "Another refusal."));
    Value::Object(all)
}

/// The query parameters of an operation. The schema of a query describes an object of lists, one per parameter. No such
/// schema has `as_of`, because `as_of` is taken out of the query before the schema sees the query.
fn parameters(route: &Route, version: Microversion) -> Vec<Value> {
    let schema = route.query.map(|schema| schema().render(version)).unwrap_or_default();
    let one = |(name, schema): (&String, &Value)| {
        let schema = schema.get("items").cloned().unwrap_or_else(|| json!({}));
        json!({"name": name, "in": "query", "required": false, "schema": schema})
    };
    let own = schema["properties"].as_object().into_iter().flatten().map(one);
    own.chain(route.as_of.then(as_of::parameter)).collect()
}

fn body(routes: &[&Route], version: Microversion) -> Option<Value> {
    let schemas: Vec<Value> = routes
        .iter()
        .filter_map(|route| match route.body {
            BodySpec::Json(schema) => Some(schema().render(version)),
            BodySpec::AnyJson => Some(json!({})),
            BodySpec::None | BodySpec::Raw => None,
        })
        .collect();
    if routes.iter().any(|route| matches!(route.body, BodySpec::Raw)) {
        return Some(json!({"content": {"application/octet-stream": {}}}));
    }
    one_of_several("oneOf", schemas).map(|schema| json!({"content": {"application/json": {"schema": schema}}}))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::microversion::v;
    use crate::reply::ReplyBody;

    #[test]
    fn every_service_has_a_document_with_unique_operations() {
        for service in Service::ALL {
            let version = microversion::span(service).map(|span| span.max);
            let document = document(service, version);
            let mut seen = std::collections::BTreeSet::new();
            for (path, item) in document["paths"].as_object().unwrap() {
                let declared: Vec<&str> =
                    item["parameters"].as_array().into_iter().flatten().map(|p| p["name"].as_str().unwrap()).collect();
                let named: Vec<&str> = path.split('/').filter_map(|s| s.strip_prefix('{')?.strip_suffix('}')).collect();
                assert_eq!(declared, named, "{path}");
                for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
                    assert!(seen.insert((path.clone(), method.clone())));
                    assert!(operation["operationId"].as_str().is_some_and(|id| !id.is_empty()), "{method} {path}");
                }
            }
            if matches!(service, Service::Compute | Service::Placement | Service::Network) {
                assert!(seen.len() > 25, "{service:?}: {}", seen.len());
            }
        }
    }

    #[test]
    fn a_document_holds_the_operations_of_its_version() {
        let at = |minor| document(Service::Compute, Some(v(2, minor)));
        let attach = |document: &Value| {
            let path = &document["paths"]["/servers/{server_id}/os-interface"]["post"];
            path["requestBody"]["content"]["application/json"]["schema"]["properties"]["interfaceAttachment"].clone()
        };
        assert!(attach(&at(48))["properties"].get("tag").is_none());
        assert!(attach(&at(49))["properties"].get("tag").is_some());
        assert!(at(5)["paths"].get("/servers/{server_id}/remote-consoles").is_none());
        assert!(at(6)["paths"].get("/servers/{server_id}/remote-consoles").is_some());
        let keys = &at(35)["paths"]["/os-keypairs"]["get"]["parameters"];
        let names: Vec<&str> = keys.as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["user_id", "limit", "marker", "as_of"]);
        let actions = &at(1)["paths"]["/servers/{id}/action"]["post"]["requestBody"]["content"]["application/json"];
        assert!(actions["schema"]["oneOf"].as_array().unwrap().len() > 10);
    }

    #[test]
    fn a_document_describes_the_answers_of_its_version() {
        let at = |minor| document(Service::Compute, Some(v(2, minor)));
        let server = |document: &Value| {
            let answers = &document["paths"]["/servers/{id}"]["get"]["responses"];
            answers["200"]["content"]["application/json"]["schema"]["properties"]["server"].clone()
        };
        assert_eq!(server(&at(8))["properties"].get("locked"), None);
        assert_eq!(server(&at(9))["properties"]["locked"], json!({"type": "boolean"}));
        assert!(server(&at(9))["required"].as_array().unwrap().contains(&json!("locked")));
        let newest = at(104);
        let create = &newest["paths"]["/servers"]["post"]["responses"];
        let header = |name: &str| create["202"]["headers"][name]["required"].clone();
        assert_eq!([header("Location"), header("OpenStack-API-Version")], [json!(false), json!(true)]);
        assert_eq!(create["404"], Value::Null);
        assert_eq!(create["409"]["$ref"], "#/components/responses/refused-409");
        let refused = &newest["components"]["responses"]["refused-404"]["content"]["application/json"]["schema"];
        assert_eq!(refused["properties"]["itemNotFound"]["required"], json!(["code", "message"]));
        let actions = &newest["paths"]["/servers/{id}/action"]["post"]["responses"];
        assert_eq!(actions["202"]["x-may-be-empty"], true);
        assert!(actions["202"]["content"]["application/json"]["schema"]["anyOf"].is_array());
        let placement = |minor| document(Service::Placement, Some(v(1, minor)))["paths"]["/resource_providers"].clone();
        let statuses = |path: &Value| {
            let answers = path["post"]["responses"].as_object().unwrap().keys();
            answers.filter(|status| status.starts_with('2')).cloned().collect::<Vec<_>>()
        };
        assert_eq!((statuses(&placement(19)), statuses(&placement(20))), (vec!["201".into()], vec!["200".into()]));
    }

    /// Every operation has answers, and every reference to a shared answer leads to that answer.
    #[test]
    fn no_answer_is_left_open() {
        for service in Service::ALL {
            let document = document(service, microversion::span(service).map(|span| span.max));
            let refused = &document["components"]["responses"];
            for (path, item) in document["paths"].as_object().unwrap() {
                for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| *key != "parameters") {
                    let answers = operation["responses"].as_object().unwrap();
                    assert!(answers.contains_key("default"), "{method} {path}");
                    for (status, answer) in answers {
                        let shown = match answer["$ref"].as_str() {
                            Some(reference) => &refused[reference.rsplit('/').next().unwrap()],
                            None => answer,
                        };
                        assert!(shown["description"].is_string(), "{method} {path} {status}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_operation_that_takes_as_of_says_so() {
        for service in Service::ALL {
            let version = microversion::span(service).map(|span| span.max);
            let (document, asked) = (document(service, version), version.unwrap_or(Microversion::NONE));
            let present = |route: &&Route| route.removed.is_none() && asked.within(route.since, route.until);
            for route in tables::of(service).iter().copied().flatten().filter(present) {
                let operation = &document["paths"][plain(route.path)][route.method.as_str().to_ascii_lowercase()];
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let told = parameters.filter(|parameter| parameter["name"] == "as_of").count();
                assert_eq!(told, usize::from(route.as_of), "{route:?}");
            }
        }
        let list = &document(Service::Compute, Some(v(2, 1)))["paths"]["/servers"]["get"]["parameters"];
        assert!(list.as_array().unwrap().iter().any(|parameter| parameter["name"] == "as_of"));
    }

    #[test]
    fn unknown_services_and_versions_are_refused() {
        for (query, status) in [
            ("", 200),
            ("service=placement&version=1.0", 200),
            ("version=latest", 200),
            ("version=2.999", 400),
            ("version=x", 400),
            ("service=nothing", 400),
            ("service=image&version=2.1", 400),
        ] {
            let reply = answer(query);
            assert_eq!(reply.status, status, "{query}");
            let is_json = match reply.body {
                ReplyBody::Json(_) => true,
                ReplyBody::Bytes { content_type, .. } => content_type == "application/json",
                _ => false,
            };
            assert!(is_json, "{query}");
        }
    }

    #[test]
    fn a_document_is_made_once() {
        let text = |query: &str| match answer(query).body {
            ReplyBody::Bytes { bytes, .. } => bytes,
            other => panic!("{other:?}"),
        };
        let first = text("service=volume&version=3.59");
        assert_eq!(first.as_ptr(), text("version=3.59&service=volume").as_ptr());
        let other = text("service=volume&version=3.58");
        assert_ne!(first, other, "another version has the same document");
        let read: Value = serde_json::from_slice(&other).unwrap();
        assert_eq!(read, document(Service::Volume, Some(v(3, 58))));
        assert_eq!(text("service=volume&version=latest"), text("service=volume"));
    }
}
