//! Extra specs, compared with the contract's list of known extra specs, and the policy rules for flavors.

use std::sync::Arc;

use chronova_tests::compute_api::{ADMIN, Api, contract, read};
use chronova_web::compute::{ComputeConfig, ComputeState, CustomExtraSpecs};
use serde_json::{Value, json};

use super::interfaces::is;

/// An example name for this extra spec, and a valid value.
fn example(spec: &Value) -> (String, String) {
    let mut name = spec["name"].as_str().unwrap().to_owned();
    for parameter in spec["parameters"].as_array().unwrap() {
        let filled = match parameter["pattern"].as_str().unwrap() {
            r"\d+" => "7",
            "[A-Z0-9_]+" => "OWN_1",
            r"(:\w+)*" => ":a:b_1",
            ".+" => "anything",
            "([a-zA-Z0-9_-]{1,64})?" => "_G1",
            other => panic!("{other}"),
        };
        name = name.replace(&format!("{{{}}}", parameter["name"].as_str().unwrap()), filled);
    }
    let value = &spec["value"];
    let text = match (value["type"].as_str().unwrap(), &value["enum"], &value["pattern"]) {
        ("boolean", _, _) => "true".to_owned(),
        ("integer", _, _) => value["max"].as_i64().or(value["min"].as_i64()).unwrap_or(-3).to_string(),
        (_, Value::Array(words), _) => words[0].as_str().unwrap().to_owned(),
        (_, _, Value::String(pattern)) if pattern.contains(r"[^:]+:\d+") => "a:1, b:2".to_owned(),
        (_, _, Value::String(pattern)) if pattern.contains("a-zA-Z0-9_") => "PMEM_1,PMEM_2".to_owned(),
        (_, _, Value::String(_)) => "1".to_owned(),
        _ => "anything at all".to_owned(),
    };
    (name, text)
}

/// An invalid value, if there is any.
fn wrong(value: &Value) -> Option<String> {
    match (value["type"].as_str().unwrap(), &value["enum"], &value["pattern"]) {
        ("boolean", _, _) => Some("perhaps".to_owned()),
        ("integer", _, _) => Some(value["min"].as_i64().map_or("many".to_owned(), |min| (min - 1).to_string())),
        (_, Value::Array(_), _) | (_, _, Value::String(_)) => Some("!!".to_owned()),
        _ => None,
    }
}

#[actix_rt::test]
async fn every_known_extra_spec_takes_its_values_and_no_others() {
    let Some(contract) = contract() else { return };
    let specs = read(&contract.join("extra-specs.json"));
    let api = Api::start().await;
    let set = async |version: &str, name: &str, value: &str| {
        api.call("POST", "/flavors/1/os-extra_specs", version, ADMIN, Some(json!({"extra_specs": {name: value}}))).await
    };
    let mut complaints = Vec::new();
    for spec in specs["specs"].as_array().unwrap() {
        let (name, value) = example(spec);
        // Every known name also passes the schema of the body.
        let right = set("2.86", &name, &value).await;
        if right.status != 200 {
            complaints.push(format!("{name}={value}: {} {}", right.status, right.body));
        }
        if let Some(value) = wrong(&spec["value"]) {
            let refused = set("2.86", &name, &value).await;
            if refused.status != 400 || !refused.message().starts_with("Validation failed; ") {
                complaints.push(format!("{name}={value}: {} {}", refused.status, refused.body));
            }
            let before = set("2.85", &name, &value).await;
            if before.status != 200 {
                complaints.push(format!("{name}={value} at 2.85: {} {}", before.status, before.body));
            }
        }
    }
    api.stop().await;
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[actix_rt::test]
async fn extra_specs_are_validated_one_by_one_too() {
    let api = Api::start().await;
    let put = async |version: &str, body: Value| {
        api.call("PUT", "/flavors/1/os-extra_specs/hw:numa_nodes", version, ADMIN, Some(body)).await
    };
    is(
        &put("2.86", json!({"hw:numa_nodes": "foo"})).await,
        400,
        "Validation failed; 'foo' is not a valid integer value.",
    );
    assert_eq!(put("2.86", json!({"hw:numa_nodes": "2"})).await.status, 200);
    is(&put("2.86", json!({"hw:numa_node": "2"})).await, 400, "does not appear to be a valid extra spec.");
    is(&put("2.86", json!({"mine:own": "x"})).await, 400, "Request body and URI mismatch");
    api.stop().await;
}

/// `[chronova] extra_spec_validators` describes the extra specs of an operator's own filters. Until 2.85 nothing is
/// validated, as in Nova.
#[actix_rt::test]
async fn extra_specs_of_the_operator_s_own_are_validated() {
    let mut api = Api::start().await;
    let file = json!([{"name": "acme:rack", "value": {"type": "integer", "min": 1, "max": 40}}]).to_string();
    let extra_specs = Arc::new(CustomExtraSpecs::read(&file).unwrap());
    let config = ComputeConfig { extra_specs, ..ComputeConfig::default() };
    Arc::get_mut(&mut api.app).unwrap().compute = ComputeState::new(config);
    let set = async |version: &str, specs: Value| {
        let body = Some(json!({"extra_specs": specs}));
        api.call("POST", "/flavors/1/os-extra_specs", version, ADMIN, body).await
    };
    for (version, specs, status, message) in [
        ("2.85", json!({"acme:rack": "99"}), 200, ""),
        ("2.86", json!({"acme:rack": "40"}), 200, ""),
        ("2.86", json!({"other:name": "any"}), 200, ""),
        ("2.86", json!({"acme:rack": "99"}), 400, "Validation failed; '99' is greater than the max value of '40'."),
        (
            "2.86",
            json!({"acme:row": "1"}),
            400,
            "Validation failed; extra spec 'acme:row' does not appear to be a valid extra spec.",
        ),
    ] {
        let answer = set(version, specs.clone()).await;
        assert_eq!((answer.status, answer.message()), (status, message), "{version} {specs}");
    }
    api.stop().await;
}

#[actix_rt::test]
async fn the_policy_decides_who_manages_flavors() {
    for (verb, rule) in [("POST", "create"), ("PUT", "update"), ("DELETE", "delete")] {
        let policy = format!("'os_compute_api:os-flavor-manage:{rule}': 'role:member'");
        let api = Api::start_with(&policy, None).await;
        for (method, path, body) in [
            ("POST", "/flavors", Some(json!({"flavor": {"name": "mine", "ram": 1, "vcpus": 1, "disk": 1}}))),
            ("PUT", "/flavors/1", Some(json!({"flavor": {"description": "d"}}))),
            ("DELETE", "/flavors/1", None),
        ] {
            let status = api.call(method, path, "2.55", "alice:web", body).await.status;
            assert_eq!(status != 403, method == verb, "{method} with {policy}: {status}");
        }
        api.stop().await;
    }
}
