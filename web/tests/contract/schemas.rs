//! Compares our validator with an independent validator. Both must agree about the contract's samples and about
//! variants of them, by schemas without formats. Our validator with Nova's rules must accept the samples.

use chronova_web::schema::{Dialect, Validator};
use serde_json::{Value, json};

/// The samples that are shortened in the API reference itself.
const SHORTENED: [&str; 4] = [
    "os-keypairs/v2.92/keypairs-post-req.json",
    "os-server-external-events/event-create-req.json",
    "servers/v2.90/server-create-req.json",
    "servers/v2.94/server-create-req.json",
];

fn files(contract: &std::path::Path) -> Vec<(String, Value)> {
    let mut files = Vec::new();
    for folder in ["compute", "placement"] {
        for entry in std::fs::read_dir(contract.join(folder).join("request-schemas")).unwrap() {
            let path = entry.unwrap().path();
            files.push((format!("{folder}/{}", path.file_stem().unwrap().to_string_lossy()), super::read(&path)));
        }
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
}

fn bands(file: &Value) -> impl Iterator<Item = &Value> {
    ["body", "query", "path_name"].into_iter().flat_map(|kind| file[kind].as_array().into_iter().flatten())
}

#[test]
fn every_schema_compiles() {
    let Some(contract) = super::contract() else { return };
    for (name, file) in files(&contract) {
        for band in bands(&file) {
            let compiled = Validator::compile(band["schema"].clone(), Dialect::Nova);
            assert!(compiled.is_ok(), "{name} at {}: {:?}", band["min"], compiled.err());
        }
    }
}

/// The samples of requests: file, body schema at the sample's version, and body.
fn samples(contract: &std::path::Path) -> Vec<(String, Value, Value)> {
    let compute = contract.join("compute");
    let map = super::read(&compute.join("api-samples-map.json"));
    let mut samples = Vec::new();
    for (sample, entry) in map["samples"].as_object().unwrap() {
        let Some(operation) = entry["operation"].as_str() else { continue };
        if entry["kind"] != "request" || SHORTENED.contains(&sample.as_str()) {
            continue;
        }
        let path = compute.join("request-schemas").join(format!("{operation}.json"));
        if !path.exists() {
            continue;
        }
        let wanted = super::version(entry["version"].as_str().unwrap());
        let file = super::read(&path);
        let band = file["body"].as_array().into_iter().flatten().find(|band| {
            let max = band["max"].as_str().map(super::version);
            wanted.within(super::version(band["min"].as_str().unwrap()), max)
        });
        if let Some(band) = band {
            let body = super::read(&compute.join("api-samples").join(sample));
            samples.push((sample.clone(), band["schema"].clone(), body));
        }
    }
    samples
}

#[test]
fn samples_are_accepted() {
    let Some(contract) = super::contract() else { return };
    let samples = samples(&contract);
    assert!(samples.len() > 50, "only {} samples were found", samples.len());
    for (name, schema, body) in samples {
        let validator = Validator::compile(schema, Dialect::Nova).unwrap();
        if let Err(violation) = validator.check(&body) {
            panic!("{name}: {}", violation.message);
        }
    }
}

/// Variants of the value, with one change each. Some of them are still valid.
fn broken(value: &Value) -> Vec<Value> {
    let mut all: Vec<Value> =
        [json!(null), json!(""), json!(7), json!(-3.5), json!(true), json!([]), json!({}), json!("x".repeat(300))]
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
            if let Some(first) = items.first() {
                all.push(json!([first, first]));
            }
        }
        _ => {}
    }
    all
}

#[test]
fn another_validator_agrees() {
    let Some(contract) = super::contract() else { return };
    let mut compared = 0;
    for (name, schema, body) in samples(&contract) {
        // Nova differs from JSON Schema on purpose in formats and in numbers as strings. Without these, both validators
        // must agree.
        let schema = without_formats(&schema);
        let judge = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(&schema).unwrap();
        let ours = Validator::compile(schema.clone(), Dialect::Plain).unwrap();
        for candidate in std::iter::once(body.clone()).chain(broken(&body)) {
            let violation = ours.check(&candidate).err();
            assert_eq!(judge.is_valid(&candidate), violation.is_none(), "{name}: {candidate} {violation:?}");
            compared += 1;
        }
    }
    eprintln!("{compared} bodies were judged alike");
    assert!(compared > 1000, "only {compared} bodies");
}

fn without_formats(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !(*key == "format" && value.is_string()))
                .map(|(key, value)| (key.clone(), without_formats(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_formats).collect()),
        other => other.clone(),
    }
}
