//! Tests the scheduler hook: the question, the answers, and their effect on a decision.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::scheduler::hook::HookQuestion;
use crate::scheduler::hook_answers::HookAnswers;

fn ids(hosts: &[u128]) -> Vec<HostId> {
    hosts.iter().map(|n| host_id(*n)).collect()
}

fn id(n: u128) -> String {
    host_id(n).to_string()
}

/// The request with these answers about the first three hosts.
fn answered(hosts: &Value) -> RequestSpec {
    let answers = HookAnswers::read(json!({"hosts": hosts}), &ids(&[1, 2, 3])).unwrap();
    RequestSpec { hook: Some(Arc::new(answers)), ..small() }
}

#[test]
fn the_hook_refuses_hosts_and_its_reason_is_on_record() {
    let cell = Cell::three();
    let refused = answered(&json!([{"id": id(1), "passes": false, "reason": "a\nrack\nis down"}, {"id": id(2)}]));
    assert_eq!(cell.fitting(&refused), ["h2", "h3"], "a host without an answer passes");
    let decision = cell.decide(&refused);
    let check = decision.reasons.checks.iter().find(|check| check.name == "SchedulerHookFilter").unwrap();
    assert_eq!((check.left, check.refused[0].reason.as_str()), (2, "a rack is down"));
    let none = answered(&json!((1..=3).map(|n| json!({"id": id(n), "passes": false})).collect::<Vec<_>>()));
    let message = cell.decide(&none).reasons.message();
    assert!(message.ends_with("the scheduler hook refuses the hosts that are suitable."), "{message}");
    // A forced host skips the hook's filter, as it skips the enabled filters.
    let forced = RequestSpec { forced_host: Some("h1".to_owned()), ..refused };
    assert_eq!(cell.names(&forced), ["h1"]);
    // Without answers, the filter does not run.
    let plain = cell.decide(&small());
    assert!(plain.reasons.checks.iter().all(|check| check.name != "SchedulerHookFilter"));
}

#[test]
fn a_host_that_the_hook_does_not_know_is_refused() {
    let mut cell = Cell::three();
    cell.host(4, 8, 4096, 100);
    assert_eq!(cell.fitting(&answered(&json!([]))), ["h1", "h2", "h3"]);
    assert_eq!(
        cell.pass("SchedulerHookFilter", &answered(&json!([]))).1,
        "the scheduler hook was not asked about this host"
    );
    let missing = RequestSpec { hook: Some(Arc::new(HookAnswers::Missing)), ..small() };
    assert_eq!(cell.names(&missing), Vec::<String>::new());
    let message = cell.decide(&missing).reasons.message();
    assert!(message.ends_with("the scheduler hook gave no valid answer."), "{message}");
}

#[test]
fn the_hook_weighs_hosts_and_the_scheduler_normalises() {
    let mut cell = Cell::three();
    cell.options.max_attempts = 3;
    let weights = answered(&json!([{"id": id(1), "weight": -5}, {"id": id(3), "weight": 20.0}]));
    assert_eq!(cell.names(&weights), ["h3", "h2", "h1"]);
    let best = cell.decide(&weights).reasons.weighed[0].clone();
    let part = best.parts.iter().find(|part| part.weigher == "SchedulerHookWeigher").unwrap();
    assert!((part.value - 20.0).abs() < f64::EPSILON && (part.weight - 1.0).abs() < f64::EPSILON, "{part:?}");
    // The range of these weights is beyond the largest number.
    let extreme = answered(&json!([{"id": id(1), "weight": -1e308}, {"id": id(3), "weight": 1e308}]));
    assert_eq!(cell.names(&extreme), ["h3", "h2", "h1"]);
    assert!(cell.decide(&extreme).reasons.weighed.iter().all(|host| host.weight.is_finite()));
    cell.options.multipliers.hook = -1.0;
    assert_eq!(cell.names(&weights), ["h1", "h2", "h3"]);
}

#[test]
fn one_question_has_all_suitable_hosts_best_first() {
    let mut cell = Cell::default();
    cell.host(1, 8, 2048, 100).host(2, 8, 4096, 100).host(3, 1, 4096, 100);
    cell.use_up(2, "VCPU", 1);
    cell.aggregate(&[2], &[("availability_zone", "north"), ("rack", "7")]);
    cell.options.max_attempts = 1;
    let request = specs(&[("acme:rack", "7")]);
    let question = HookQuestion::of(cell.sources(), &request, 5, &cell.options).unwrap();
    let document = question.document();
    assert_eq!(document["version"], 1);
    assert_eq!(document["request"]["servers"], 5);
    assert_eq!(document["request"]["flavor"]["extra_specs"], json!({"acme:rack": "7"}));
    assert_eq!(document["request"]["flavor"]["ram"], 1024);
    let hosts = document["hosts"].as_array().unwrap();
    let names: Vec<&str> = hosts.iter().map(|host| host["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["h2", "h1"], "h3 has too few CPUs");
    assert_eq!(hosts[0]["id"], id(2));
    assert_eq!(hosts[0]["vcpus"], json!({"total": 8, "used": 1}));
    assert_eq!(hosts[0]["availability_zone"], "north");
    assert_eq!(hosts[0]["aggregates"][0]["metadata"]["rack"], "7");
    assert_eq!(hosts[1]["availability_zone"], "nova");
    cell.options.hook.max_hosts = 1;
    let question = HookQuestion::of(cell.sources(), &request, 5, &cell.options).unwrap();
    assert_eq!(question.document()["hosts"].as_array().unwrap().len(), 1, "the question is bounded");
    let large = super::request(flavor(99, 512, 1));
    assert!(HookQuestion::of(cell.sources(), &large, 1, &cell.options).is_none(), "there is nothing to ask");
}

#[test]
fn answers_of_another_form_are_refused() {
    let read = |answer: Value| HookAnswers::read(answer, &ids(&[1]));
    for wrong in [
        json!([]),
        json!({}),
        json!({"hosts": {}}),
        json!({"hosts": [{"passes": true}]}),
        json!({"hosts": [{"id": "h1"}]}),
        json!({"hosts": [{"id": id(1), "passes": "yes"}]}),
        json!({"hosts": [{"id": id(1), "weight": "much"}]}),
    ] {
        let error = read(wrong.clone()).unwrap_err();
        assert!(error.contains("documented form"), "{wrong}: {error}");
    }
    let more = read(json!({"hosts": [{"id": id(9), "weight": 1}], "more": 1})).unwrap();
    assert_eq!(more.refusal(host_id(1)), None);
    assert!(more.refusal(host_id(9)).is_some(), "a host that was not in the question is passed over");
    let long = json!({"hosts": [{"id": id(1), "passes": false, "reason": "x".repeat(5_000)}]});
    assert_eq!(read(long).unwrap().refusal(host_id(1)).map(str::len), Some(200), "a reason is bounded");
}
