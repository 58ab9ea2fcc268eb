//! Bodies that the schema rejects get 400 and Nova's fault, and have no effect. The test runs at each version that
//! changes a schema.
//!
//! The bodies are the contract's samples, broken in every place: a value of another type, a missing key, an unknown
//! key, a text too long, a number out of range. An independent validator decides which of them are invalid.

use std::collections::BTreeSet;

use chronova_events::envelope::Cause;
use chronova_events::store::EventStore as _;
use chronova_tests::compute_api::{ADMIN, contract, read};
use serde_json::{Value, json};

use super::world::{Cloud, Operation, minor, operations};

/// Operations with another check before the schema, and why.
const EXCEPTIONS: &[(&str, &str)] = &[];

fn uncovered() -> BTreeSet<&'static str> {
    include_str!("../../uncovered-operations.txt").lines().collect()
}

/// Variants of the value, with one change each.
fn broken(value: &Value) -> Vec<Value> {
    let mut all: Vec<Value> =
        [json!(null), json!(""), json!(-7), json!(2.5), json!(true), json!([]), json!({}), json!("x".repeat(70_000))]
            .into();
    match value {
        Value::Object(map) => {
            for (key, item) in map {
                let mut without = map.clone();
                without.remove(key);
                all.push(Value::Object(without));
                for change in broken(item) {
                    let mut with = map.clone();
                    with.insert(key.clone(), change);
                    all.push(Value::Object(with));
                }
            }
            let mut with = map.clone();
            with.insert("surprise".to_owned(), json!("!"));
            all.push(Value::Object(with));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for change in broken(item) {
                    let mut with = items.clone();
                    with[index] = change;
                    all.push(Value::Array(with));
                }
            }
        }
        _ => {}
    }
    all
}

/// The schema without formats, because Nova's formats differ from those of the other validator.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !(*key == "format" && value.is_string()))
                .map(|(key, value)| (key.clone(), plain(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        other => other.clone(),
    }
}

#[actix_rt::test]
async fn bodies_that_violate_their_schema_are_refused() {
    let Some(contract) = contract() else { return };
    let cloud = Box::pin(Cloud::start(contract.clone())).await;
    let uncovered = uncovered();
    let soak = std::env::var_os("CHRONOVA_SOAK").is_some();
    let (mut wrong, mut sent) = (Vec::new(), 0);
    for operation in &operations(&contract) {
        let operation = Operation(operation);
        let Some(file) = operation.0["request_body_schema"].as_str() else { continue };
        let left_out = EXCEPTIONS.iter().any(|(id, _)| *id == operation.id()) || uncovered.contains(operation.id());
        if operation.removed() || left_out {
            continue;
        }
        for band in read(&contract.join(file))["body"].as_array().into_iter().flatten() {
            let version = minor(band["min"].as_str().unwrap()).max(operation.min());
            if version > operation.max() {
                continue;
            }
            let judge = jsonschema::options()
                .with_draft(jsonschema::Draft::Draft202012)
                .build(&plain(&band["schema"]))
                .unwrap();
            let path = cloud.path(&operation, version).await;
            let sample = cloud.sample(&operation, version);
            let mut bodies: Vec<Value> = broken(&sample).into_iter().filter(|body| !judge.is_valid(body)).collect();
            // The router finds an action by its key, before its body is validated.
            if let Some(action) = operation.action() {
                bodies.retain(|body| body.as_object().is_some_and(|map| map.len() == 1 && map.contains_key(action)));
            }
            // Takes every nth body, so that each part of the list is sampled; a long run tries all bodies.
            let step = if soak { 1 } else { bodies.len() / 24 + 1 };
            let before = cloud.api.world.log.head();
            for body in bodies.into_iter().step_by(step) {
                let answer =
                    cloud.api.call(operation.method(), &path, &format!("2.{version}"), ADMIN, Some(body.clone())).await;
                sent += 1;
                let fault = &answer.body["badRequest"];
                if answer.status != 400 || fault["code"] != 400 || !fault["message"].is_string() {
                    let body: String = body.to_string().chars().take(200).collect();
                    wrong.push(format!(
                        "{} at 2.{version}: {body} gets {} {}",
                        operation.id(),
                        answer.status,
                        answer.body
                    ));
                }
            }
            // Processes and hosts may write at any time, in their own names.
            let written = cloud.api.world.log.read_all(before, usize::MAX).await.unwrap();
            for event in written.iter().filter(|event| matches!(event.meta.cause, Cause::User { .. })) {
                wrong.push(format!("{} at 2.{version}: a refused body wrote {}", operation.id(), event.kind));
            }
        }
    }
    cloud.api.stop().await;
    eprintln!("{sent} bodies were sent");
    assert!(wrong.is_empty(), "{} of {sent} bodies:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sent > 1000, "only {sent} bodies");
}

/// Sends query strings that the schemas reject: an unknown key, and each known key with a wrong value. A schema may
/// allow unknown keys; the test then does not send one.
#[actix_rt::test]
async fn query_strings_are_held_to_their_schemas() {
    let Some(contract) = contract() else { return };
    let cloud = Box::pin(Cloud::start(contract.clone())).await;
    let uncovered = uncovered();
    let (mut wrong, mut sent) = (Vec::new(), 0);
    for operation in &operations(&contract) {
        let operation = Operation(operation);
        let Some(file) = operation.0["request_query_schema"].as_str() else { continue };
        if operation.removed() || uncovered.contains(operation.id()) || operation.method() != "GET" {
            continue;
        }
        for band in read(&contract.join(file))["query"].as_array().into_iter().flatten() {
            let version = minor(band["min"].as_str().unwrap()).max(operation.min());
            if version > operation.max() {
                continue;
            }
            let path = cloud.path(&operation, version).await;
            let schema = &band["schema"];
            let judge = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&plain(schema)).unwrap();
            let mut queries = vec![("surprise".to_owned(), "1".to_owned())];
            for key in schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key) {
                for value in ["-1", "x", "", "1.5"] {
                    queries.push((key.clone(), value.to_owned()));
                }
            }
            for (key, value) in queries {
                let asked = json!({key.as_str(): [value]});
                // The test sends only values that are invalid in any format, because Nova accepts numbers in texts.
                let number = schema["properties"][&key]["items"]["type"].is_array();
                if judge.is_valid(&asked) || number {
                    continue;
                }
                let path = format!("{path}?{key}={value}");
                let answer = cloud.api.call("GET", &path, &format!("2.{version}"), ADMIN, None).await;
                sent += 1;
                if answer.status != 400 || answer.body["badRequest"]["code"] != 400 {
                    wrong.push(format!(
                        "{} at 2.{version}: {path} gets {} {}",
                        operation.id(),
                        answer.status,
                        answer.body
                    ));
                }
            }
        }
    }
    cloud.api.stop().await;
    eprintln!("{sent} query strings were sent");
    assert!(wrong.is_empty(), "{} of {sent}:\n{}", wrong.len(), wrong.join("\n"));
}
