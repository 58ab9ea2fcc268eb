//! Every operation of the contract is routed, exists exactly in its versions, and is served or removed as in Nova.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use chronova_tests::compute_api::{ADMIN, Api, contract, read};
use chronova_web::compute::unserved::NOT_YET;
use serde_json::{Value, json};

fn uncovered() -> BTreeSet<String> {
    include_str!("../uncovered-operations.txt").lines().map(str::to_owned).collect()
}

#[test]
fn the_list_of_unserved_operations_only_shrinks() {
    let listed = uncovered();
    let unserved: BTreeSet<String> = NOT_YET.iter().map(|route| route.op.to_owned()).collect();
    assert_eq!(listed, unserved, "tests/uncovered-operations.txt differs from compute::unserved::NOT_YET");
    assert!(listed.is_empty(), "operations that are not served: {listed:?}");
}

/// A path with a value for each parameter.
fn filled(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn before(version: &str) -> Option<String> {
    let minor: u32 = version.strip_prefix("2.")?.parse().ok()?;
    (minor > 1).then(|| format!("2.{}", minor - 1))
}

fn after(version: &str) -> Option<String> {
    let minor: u32 = version.strip_prefix("2.")?.parse().ok()?;
    (minor < 104).then(|| format!("2.{}", minor + 1))
}

#[actix_rt::test]
async fn operations_exist_in_their_versions_only() {
    let Some(contract) = contract() else { return };
    let operations = read(&contract.join("operations.json"));
    let api = Api::start().await;
    let mut wrong = Vec::new();
    for operation in operations["operations"].as_array().unwrap() {
        let id = operation["id"].as_str().unwrap();
        if id.starts_with("versionsV21") {
            continue;
        }
        let method = operation["method"].as_str().unwrap();
        let path = filled(operation["path"].as_str().unwrap());
        let body = operation["action"]
            .as_str()
            .map(|action| json!({action: null}))
            .or_else(|| matches!(method, "POST" | "PUT").then(|| json!({})));
        let min = operation["min_version"].as_str().unwrap();
        let max = operation["max_version"].as_str();
        let ask = async |version: &str| api.call(method, &path, version, ADMIN, body.clone()).await;
        for outside in [before(min), max.and_then(after)].into_iter().flatten() {
            let answer = ask(&outside).await;
            if answer.status != 404 {
                wrong.push(format!("{id} at {outside}, outside its versions: {} {}", answer.status, answer.body));
            }
        }
        let answer = ask(min).await;
        let nothing = "The resource could not be found.";
        // An unknown extension gets 404 with the same message.
        let worded_so = id == "extension_info.show";
        if !worded_so && (answer.status == 405 || (answer.status == 404 && answer.message() == nothing)) {
            wrong.push(format!("{id} at {min} is not routed"));
        }
        if operation["removed"] == true {
            let codes = &operation["errors"][0]["codes"];
            if !codes.as_array().unwrap().contains(&Value::from(answer.status)) {
                wrong.push(format!("{id} is removed and answers {} instead of {codes}", answer.status));
            }
        }
        let listed = uncovered().contains(id);
        if listed != (answer.status == 501 && answer.message().ends_with("is not implemented by this release.")) {
            wrong.push(format!("{id} answers {} {}", answer.status, answer.body));
        }
    }
    let anonymous = api.call("GET", "/servers", "2.1", "", None).await;
    assert_eq!(anonymous.status, 401);
    api.stop().await;
    assert!(wrong.is_empty(), "{} operations:\n{}", wrong.len(), wrong.join("\n"));
}
