//! Every policy rule of the contract has the listed default. Chronova has other rules only in its own namespace.

use std::collections::BTreeMap;

use chronova_web::policy::defaults::{self, RuleDefault};
use chronova_web::service::Service;
use serde_json::{Value, json};

fn ours(service: Service) -> BTreeMap<&'static str, &'static RuleDefault> {
    defaults::of(service).iter().copied().flatten().map(|rule| (rule.name, rule)).collect()
}

fn as_contract(rule: &RuleDefault) -> Value {
    let scope: Vec<&str> = rule.scopes.iter().map(|scope| scope.name()).collect();
    json!({
        "check": rule.check,
        "scope": if scope.is_empty() { Value::Null } else { json!(scope) },
        "deprecated_rule": rule.deprecated.map(|(name, check)| json!({"name": name, "check": check})),
    })
}

fn compare(service: Service, folder: &str) {
    let Some(contract) = super::contract() else { return };
    let listed = super::read(&contract.join(folder).join("policies.json"));
    let ours = ours(service);
    let mut wrong = Vec::new();
    let mut names = Vec::new();
    for rule in listed["rules"].as_array().unwrap() {
        let name = rule["name"].as_str().unwrap();
        names.push(name.to_owned());
        let expected = json!({
            "check": rule["check"], "scope": rule["scope"], "deprecated_rule": rule["deprecated_rule"],
        });
        match ours.get(name) {
            None => wrong.push(format!("{name}: missing")),
            Some(rule) if as_contract(rule) != expected => {
                wrong.push(format!("{name}: {} instead of {expected}", as_contract(rule)));
            }
            Some(_) => {}
        }
    }
    wrong.extend(
        ours.keys()
            // Chronova's own rules have a separate namespace.
            .filter(|name| !name.contains(":chronova:"))
            .filter(|name| !names.iter().any(|known| known == *name))
            .map(|name| format!("{name}: unknown")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn compute_rules_have_their_defaults() {
    compare(Service::Compute, "compute");
}

#[test]
fn placement_rules_have_their_defaults() {
    compare(Service::Placement, "placement");
}
