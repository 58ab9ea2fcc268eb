//! The routes of Compute and Placement that are served agree with the contract: path, versions, policy, schemas.
//! Chronova's own routes are left out.

use std::collections::BTreeMap;

use chronova_web::compute::unserved::NOT_YET;
use chronova_web::microversion::{COMPUTE, PLACEMENT, VersionSpan};
use chronova_web::route::{BodySpec, Route, SchemaFn};
use chronova_web::service::Service;
use chronova_web::tables;
use serde_json::{Map, Value};

/// Method, path without the names of its parameters, action.
type Key = (String, String, Option<String>);

fn anonymous(path: &str) -> String {
    path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment }).collect::<Vec<_>>().join("/")
}

fn listed(contract: &std::path::Path, folder: &str) -> BTreeMap<Key, Value> {
    let operations = super::read(&contract.join(folder).join("operations.json"));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    operations["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| ((text(&o["method"]).unwrap(), anonymous(o["path"].as_str().unwrap()), text(&o["action"])), o.clone()))
        .collect()
}

fn routes(service: Service) -> impl Iterator<Item = &'static Route> {
    tables::of(service).iter().copied().flatten()
}

fn check(service: Service, folder: &str, span: VersionSpan) {
    let Some(contract) = super::contract() else { return };
    let listed = listed(&contract, folder);
    let mut wrong = Vec::new();
    let mut served = BTreeMap::<Key, Vec<&'static Route>>::new();
    // The paths of Chronova's own routes have a segment that starts with `chronova:`.
    for route in routes(service).filter(|route| !route.path.contains("/chronova:")) {
        let key = (route.method.as_str().to_owned(), anonymous(route.path), route.action.map(str::to_owned));
        if listed.contains_key(&key) {
            served.entry(key).or_default().push(route);
        } else {
            wrong.push(format!("{route:?}: not in the contract"));
        }
    }
    for (key, routes) in &served {
        let operation = &listed[key];
        let name = format!("{} {} {}", key.0, key.1, key.2.as_deref().unwrap_or_default());
        let first = routes.iter().map(|route| route.since).min().unwrap();
        let min = super::version(operation["min_version"].as_str().unwrap());
        if first.max(span.min) != min {
            wrong.push(format!("{name}: since {first} instead of {min}"));
        }
        let last = routes.iter().map(|route| route.until.unwrap_or(span.max)).max().unwrap();
        let max = operation["max_version"].as_str().map_or(span.max, super::version);
        if last != max {
            wrong.push(format!("{name}: until {last} instead of {max}"));
        }
        let rules: Vec<&str> = [&operation["policy"]["rule"]]
            .into_iter()
            .chain(operation["policy_rules"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect();
        // `os-volumes_boot` is another path of `/servers`. It has the same rules, but the contract does not list them.
        let is_alias = routes.iter().all(|route| route.op.starts_with("volumes_boot."));
        for rule in routes.iter().filter_map(|route| route.access.rule()) {
            let own = is_alias && rule.starts_with("os_compute_api:servers:");
            if !own && !rules.contains(&rule) {
                wrong.push(format!("{name}: policy {rule} instead of {rules:?}"));
            }
        }
        schemas(&contract.join(folder), operation, routes, &name, &mut wrong);
    }
    eprintln!("{folder}: {} of {} operations are served", served.len(), listed.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn schemas(folder: &std::path::Path, operation: &Value, routes: &[&Route], name: &str, wrong: &mut Vec<String>) {
    // Operations that are not implemented read no body.
    if routes.iter().all(|route| NOT_YET.iter().any(|not_yet| not_yet.op == route.op)) {
        return;
    }
    let file = ["request_schema", "request_body_schema", "request_query_schema"]
        .iter()
        .find_map(|field| operation[*field].as_str());
    let Some(file) = file else { return };
    let schemas = super::read(&folder.join(file));
    for what in ["body", "query"] {
        for band in schemas[what].as_array().into_iter().flatten() {
            let min = super::version(band["min"].as_str().unwrap());
            let Some(route) = routes.iter().find(|route| min.within(route.since, route.until)) else { continue };
            let describe: Option<SchemaFn> = match (what, route.body) {
                ("body", BodySpec::Json(schema)) => Some(schema),
                ("body", _) => None,
                _ => route.query,
            };
            // A route needs no schema if the contract's schema constrains no field.
            let Some(describe) = describe else {
                if refuses(&band["schema"]) {
                    wrong.push(format!("{name}: {what} of {min} is not checked"));
                }
                continue;
            };
            for at in [Some(min), band["max"].as_str().map(super::version)].into_iter().flatten() {
                let (ours, theirs) = (normal(&describe().render(at)), normal(&band["schema"]));
                if ours != theirs {
                    wrong.push(format!("{name}: {what} at {at}:\n  ours     {ours}\n  contract {theirs}"));
                }
            }
        }
    }
}

/// Whether the schema of a whole body or query constrains its fields.
fn refuses(schema: &Value) -> bool {
    let properties = schema["properties"].as_object().is_some_and(|map| !map.is_empty());
    properties || schema["required"].is_array() || schema["additionalProperties"] == Value::Bool(false)
}

/// The schema without differences that have no meaning, such as order and titles.
fn normal(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut sorted: BTreeMap<&String, Value> = map
                .iter()
                .filter(|(key, value)| !(*key == "title" && value.is_string()))
                .map(|(k, v)| (k, normal(v)))
                .collect();
            for (key, value) in &mut sorted {
                if let (true, Value::Array(items)) = (matches!(key.as_str(), "required" | "type" | "enum"), value) {
                    items.sort_by_key(Value::to_string);
                }
            }
            // The contract spells out the character class of printable characters. Chronova's schemas name the class.
            if let Some(Value::String(pattern)) = sorted.get_mut(&"pattern".to_owned())
                && (pattern.len() > 300 || pattern.contains(r"\p{C}"))
            {
                "printable".clone_into(pattern);
            }
            // Empty `properties` mean the same as none.
            sorted.retain(|key, value| !(*key == "properties" && value.as_object().is_some_and(Map::is_empty)));
            Value::Object(sorted.into_iter().map(|(k, v)| (k.clone(), v)).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        // A number of 39 digits may differ in its last bit after parsing.
        Value::Number(number) if number.as_f64().is_some_and(|n| n > 1e30) => Value::from("huge"),
        other => other.clone(),
    }
}

#[test]
fn compute_routes_agree() {
    check(Service::Compute, "compute", COMPUTE);
}

#[test]
fn placement_routes_agree() {
    check(Service::Placement, "placement", PLACEMENT);
}

#[test]
fn every_rule_of_a_route_exists() {
    for service in Service::ALL {
        for route in routes(service) {
            let Some(rule) = route.access.rule() else { continue };
            let known = chronova_web::policy::defaults::of(service).iter().copied().flatten().any(|d| d.name == rule);
            assert!(known, "{route:?} names the unknown rule {rule}");
        }
    }
}
