//! The sample answers of the contract fit the schemas of their operations at their versions, and broken variants of them
//! do not.

use std::collections::BTreeSet;
use std::path::Path;

use chronova_web::Microversion;
use chronova_web::answers::AnswerContent;
use chronova_web::route::Route;
use chronova_web::schema::{Dialect, Validator};
use chronova_web::service::Service;
use chronova_web::tables;
use serde_json::{Value, json};

/// Samples with a form that no answer of Chronova has, and the reason.
const OTHER_FORMS: [(&str, &str); 3] = [
    ("v2.69/", "a cell is down, and here all hosts belong to the one cell that answers"),
    ("down-cell", "a cell is down, and here all hosts belong to the one cell that answers"),
    ("images/images-details-get-resp.json", "one of its images has a property without a value"),
];

/// Operations that Chronova always refuses, although the contract has samples of their answers.
const REFUSED: [&str; 9] = [
    "assisted_volume_snapshots.create",
    "baremetal_nodes.index",
    "baremetal_nodes.show",
    "hosts.reboot",
    "hosts.shutdown",
    "hosts.startup",
    "hosts.update",
    "server_shares.create",
    "server_shares.show",
];

/// Placement's samples: the file, its operation and its version.
const PLACEMENT: [(&str, &str, &str); 30] = [
    ("aggregates/get-aggregates.json", "resource_providers_aggregates.list", "1.1"),
    ("aggregates/get-aggregates-1.19.json", "resource_providers_aggregates.list", "1.19"),
    ("aggregates/update-aggregates.json", "resource_providers_aggregates.update", "1.1"),
    ("aggregates/update-aggregates-1.19.json", "resource_providers_aggregates.update", "1.19"),
    ("allocation_candidates/get-allocation_candidates.json", "allocation_candidates.list", "1.10"),
    ("allocation_candidates/get-allocation_candidates-1.12.json", "allocation_candidates.list", "1.12"),
    ("allocation_candidates/get-allocation_candidates-1.17.json", "allocation_candidates.list", "1.17"),
    ("allocation_candidates/get-allocation_candidates-1.29.json", "allocation_candidates.list", "1.29"),
    ("allocation_candidates/get-allocation_candidates-1.34.json", "allocation_candidates.list", "1.34"),
    ("allocations/get-allocations.json", "allocations_one.get", "1.12"),
    ("allocations/get-allocations-1.28.json", "allocations_one.get", "1.28"),
    ("allocations/get-allocations-1.38.json", "allocations_one.get", "1.38"),
    ("inventories/get-inventories.json", "resource_providers_inventories.list", "1.0"),
    ("inventories/get-inventory.json", "resource_providers_inventories_one.get", "1.0"),
    ("inventories/update-inventories.json", "resource_providers_inventories.update", "1.0"),
    ("inventories/update-inventory.json", "resource_providers_inventories_one.update", "1.0"),
    ("resource_classes/get-resource_class.json", "resource_classes_one.get", "1.2"),
    ("resource_classes/get-resource_classes.json", "resource_classes.list", "1.2"),
    ("resource_classes/update-resource_class.json", "resource_classes_one.update", "1.2"),
    (
        "resource_provider_allocations/get-resource_provider_allocations.json",
        "resource_providers_allocations.list",
        "1.0",
    ),
    ("resource_provider_traits/get-resource_provider-traits.json", "resource_providers_traits.list", "1.6"),
    ("resource_provider_traits/update-resource_provider-traits.json", "resource_providers_traits.update", "1.6"),
    ("resource_provider_usages/get-resource_provider_usages.json", "resource_providers_usages.list", "1.0"),
    ("resource_providers/create-resource_provider.json", "resource_providers.create", "1.20"),
    ("resource_providers/get-resource_provider.json", "resource_providers_one.get", "1.14"),
    ("resource_providers/get-resource_providers.json", "resource_providers.list", "1.14"),
    ("resource_providers/update-resource_provider.json", "resource_providers_one.update", "1.14"),
    ("traits/get-traits.json", "traits.list", "1.6"),
    ("usages/get-usages.json", "usages.list", "1.9"),
    ("usages/get-usages-1.38.json", "usages.list", "1.38"),
];

fn route(service: Service, operation: &str, version: Microversion) -> &'static Route {
    let mut routes = tables::of(service).iter().copied().flatten();
    let found = routes.find(|route| route.op == operation && version.within(route.since, route.until));
    found.unwrap_or_else(|| panic!("no operation {operation} at {version}"))
}

/// The validators of an operation's JSON answers.
fn judges(service: Service, operation: &str, version: Microversion) -> Vec<Validator> {
    let described =
        route(service, operation, version).answers.unwrap_or_else(|| panic!("{operation} has no answers"))();
    let schemas = described.at(version).filter_map(|form| match &form.content {
        AnswerContent::Json(schema) => Some(schema.render(version)),
        AnswerContent::Empty | AnswerContent::Other(_) => None,
    });
    schemas.map(|schema| Validator::compile(schema, Dialect::Plain).unwrap()).collect()
}

/// A sample: its name, the validators of its operation's answers, and its body.
struct AnswerSample {
    name: String,
    judges: Vec<Validator>,
    body: Value,
}

impl AnswerSample {
    /// The first violation, if no answer of the operation may look like `body`.
    fn refusal(&self, body: &Value) -> Option<String> {
        let found: Vec<_> = self.judges.iter().map(|judge| judge.check(body)).collect();
        if found.iter().any(Result::is_ok) {
            return None;
        }
        let first = found.into_iter().find_map(Result::err).unwrap();
        Some(format!("{:?}: {}", first.path, first.message))
    }
}

fn of_compute(contract: &Path) -> Vec<AnswerSample> {
    let folder = contract.join("compute");
    let map = super::read(&folder.join("api-samples-map.json"));
    let (mut samples, mut refused) = (Vec::new(), BTreeSet::new());
    for (name, entry) in map["samples"].as_object().unwrap() {
        let Some(operation) = entry["operation"].as_str().filter(|operation| *operation != "versionsV21.show") else {
            continue;
        };
        let other_form = OTHER_FORMS.iter().any(|(part, _)| name.contains(part));
        if entry["kind"] != "response" || entry["removed"] == true || other_form {
            continue;
        }
        let version = super::version(entry["version"].as_str().unwrap());
        // Since 2.53 the list of hypervisors also takes a pattern for names, and can show the servers.
        let moved =
            ["hypervisors.search", "hypervisors.servers"].contains(&operation) && version >= super::version("2.53");
        let judges = judges(Service::Compute, if moved { "hypervisors.index" } else { operation }, version);
        if judges.is_empty() {
            refused.insert(operation.to_owned());
            continue;
        }
        samples.push(AnswerSample {
            name: name.clone(),
            judges,
            body: super::read(&folder.join("api-samples").join(name)),
        });
    }
    assert_eq!(refused, BTreeSet::from(REFUSED.map(str::to_owned)), "the operations with samples but without a body");
    assert!(samples.len() > 400, "only {} samples were found", samples.len());
    samples
}

fn of_placement(contract: &Path) -> Vec<AnswerSample> {
    let folder = contract.join("placement/api-samples");
    let sample = |(name, operation, version): (&str, &str, &str)| AnswerSample {
        name: name.to_owned(),
        judges: judges(Service::Placement, operation, super::version(version)),
        body: super::read(&folder.join(name)),
    };
    PLACEMENT.into_iter().map(sample).collect()
}

fn samples(contract: &Path) -> impl Iterator<Item = AnswerSample> + use<> {
    of_compute(contract).into_iter().chain(of_placement(contract))
}

#[test]
fn every_sample_fits_the_schema_of_its_operation() {
    let Some(contract) = super::contract() else { return };
    let wrong: Vec<String> = samples(&contract)
        .filter_map(|sample| Some(format!("{}: {}", sample.name, sample.refusal(&sample.body)?)))
        .collect();
    assert!(wrong.is_empty(), "{} samples do not fit:\n{}", wrong.len(), wrong.join("\n"));
}

/// The value with one more key, or one more item, that is `true`; once for each object and each list in it.
fn broken(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Object(map) => {
            let mut more = map.clone();
            more.insert("surprise".to_owned(), json!(true));
            all.push(Value::Object(more));
            for (key, item) in map {
                for change in broken(item) {
                    let mut changed = map.clone();
                    changed.insert(key.clone(), change);
                    all.push(Value::Object(changed));
                }
            }
        }
        Value::Array(items) => {
            let mut more = items.clone();
            more.push(json!(true));
            all.push(Value::Array(more));
            for (index, item) in items.iter().enumerate() {
                for change in broken(item) {
                    let mut changed = items.clone();
                    changed[index] = change;
                    all.push(Value::Array(changed));
                }
            }
        }
        _ => {}
    }
    all
}

/// A key that the schema does not name, or an item of another type, is refused wherever it is.
#[test]
fn a_sample_with_something_more_is_refused() {
    let Some(contract) = super::contract() else { return };
    let mut judged = 0;
    for sample in samples(&contract) {
        for variant in broken(&sample.body) {
            assert!(sample.refusal(&variant).is_some(), "{}: {variant}", sample.name);
            judged += 1;
        }
    }
    assert!(judged > 3000, "only {judged} variants");
}

/// The validators of answers accept and refuse the same bodies as an independent validator.
#[test]
fn another_validator_agrees_about_answers() {
    let Some(contract) = super::contract() else { return };
    for sample in samples(&contract) {
        for ours in &sample.judges {
            let judge = jsonschema::options().with_draft(jsonschema::Draft::Draft202012).build(ours.schema()).unwrap();
            for candidate in broken(&sample.body).iter().chain([&sample.body]) {
                let violation = ours.check(candidate).err();
                assert_eq!(
                    judge.is_valid(candidate),
                    violation.is_none(),
                    "{}: {candidate} {violation:?}",
                    sample.name
                );
            }
        }
    }
}
