//! The APIs as OpenAPI 3.1 documents, made of the route tables: `GET /openapi.json?service=compute&version=2.93`.
//!
//! A document holds the operations of one version with the schemas that validate their requests. Routes with the same
//! path and method, such as the actions of servers, become one operation. Its body is the body of any of these routes.
//! The document does not describe the answers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::as_of;
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
    Reply::ok(document(service, version))
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
        paths.into_iter().map(|(path, methods)| (plain(path), path_item(path, &methods, asked))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": format!("Chronova: {}", service.name()),
            "version": version.map_or_else(|| env!("CARGO_PKG_VERSION").to_owned(), |version| version.to_string()),
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": format!("/{}{}", service.name(), service.api_root())}],
        "paths": shown,
        "components": {"securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}}},
    })
}

/// Renders `{name*}` (the rest of a path) as `{name}`, because OpenAPI has no pattern for several segments.
fn plain(path: &str) -> String {
    path.replace("*}", "}")
}

fn path_item(path: &str, methods: &BTreeMap<Method, Vec<&Route>>, version: Microversion) -> Value {
    let mut item: Map<String, Value> = methods
        .iter()
        .map(|(method, routes)| (method.as_str().to_ascii_lowercase(), operation(routes, version)))
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

fn operation(routes: &[&Route], version: Microversion) -> Value {
    let ids: Vec<&str> = routes.iter().map(|route| route.op).collect();
    let mut shown = Map::new();
    shown.insert("operationId".to_owned(), json!(ids.join("|")));
    let rules: Vec<&str> = routes.iter().filter_map(|route| route.access.rule()).collect();
    if !rules.is_empty() {
        shown.insert("x-policy".to_owned(), json!(rules));
    }
    if !routes.iter().any(|route| matches!(route.access, RouteAccess::Public | RouteAccess::Optional)) {
        shown.insert("security".to_owned(), json!([{"token": []}]));
    }
    let parameters: Vec<Value> = routes.iter().flat_map(|route| parameters(route, version)).collect();
    if !parameters.is_empty() {
        shown.insert("parameters".to_owned(), Value::Array(parameters));
    }
    if let Some(body) = body(routes, version) {
        shown.insert("requestBody".to_owned(), body);
    }
    shown.insert("responses".to_owned(), json!({"default": {"description": "See the service's API reference."}}));
    Value::Object(shown)
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
    let schema = match <[Value; 1]>::try_from(schemas) {
        Ok([only]) => only,
        Err(none) if none.is_empty() => return None,
        Err(several) => json!({"oneOf": several}),
    };
    Some(json!({"content": {"application/json": {"schema": schema}}}))
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
        assert_eq!(names, ["user_id", "limit", "marker"]);
        let actions = &at(1)["paths"]["/servers/{id}/action"]["post"]["requestBody"]["content"]["application/json"];
        assert!(actions["schema"]["oneOf"].as_array().unwrap().len() > 10);
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
            assert!(matches!(reply.body, ReplyBody::Json(_)));
        }
    }
}
