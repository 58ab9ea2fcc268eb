//! The default policy: each operation, requested by every kind of user. The results are in
//! `tests/golden/policy-matrix.txt` (`EXPECTORATE=overwrite` writes the file), and are compared with the contract's
//! rules.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use chronova_tests::compute_api::{contract, read};
use serde_json::Value;

use super::rules::{PEOPLE, Person, Rules};
use super::world::{Cloud, Operation, minor, operations};

/// Operations whose answer differs from their own rule, with the reasons.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("migrate_server.os-migrateLive", "the rule is for requests that name a host; this test names none"),
    ("flavors.detail", "the rule decides only whether the caller sees one field"),
    ("flavors.show", "the rule decides only whether the caller sees one field"),
    (
        "volume_attachments.update",
        "the rule allows services, but a service that is no administrator finds no servers of other projects",
    ),
];

/// The user and the project that own the resources in the path: those of `OWNER`, or those of the caller.
fn target(operation: &Operation<'_>, person: &Person) -> (String, String) {
    let (user, project) = person.token.split_once(':').unwrap_or_default();
    let of_owner = [
        "/servers/{",
        "/os-volumes_boot/{",
        "/os-server-groups/{",
        "/os-floating-ips/{",
        "/os-security-groups/{",
        "/os-security-group-rules/{",
        "/os-quota-sets/{",
        "/os-simple-tenant-usage/{",
    ];
    match of_owner.iter().any(|prefix| operation.path().starts_with(prefix)) {
        true => ("owner".to_owned(), "web".to_owned()),
        false => (user.to_owned(), project.to_owned()),
    }
}

/// The contract's status codes for the operation in this version. Every operation may also answer 401, 403, and 400 to
/// an invalid body.
fn codes(operation: &Operation<'_>, version: u32) -> BTreeSet<u16> {
    let code = |code: &Value| u16::try_from(code.as_u64().unwrap()).unwrap();
    let applies = |range: &&Value| {
        let (min, max) = (minor(range["min"].as_str().unwrap()), range["max"].as_str().map_or(u32::MAX, minor));
        (min..=max).contains(&version)
    };
    let ranges = ["success", "errors"].into_iter().flat_map(|key| operation.0[key].as_array().unwrap());
    let mut codes: BTreeSet<u16> =
        ranges.filter(applies).flat_map(|range| range["codes"].as_array().unwrap()).map(code).collect();
    codes.extend(operation.0["errors_documented"].as_array().into_iter().flatten().map(code));
    codes.extend([401, 403]);
    if !operation.0["request_body_schema"].is_null() {
        codes.insert(400);
    }
    codes
}

#[actix_rt::test]
async fn each_role_may_call_what_the_default_policy_allows() {
    let Some(contract) = contract() else { return };
    let rules = Rules::read(&read(&contract.join("policies.json")));
    let mut cloud = Box::pin(Cloud::start(contract.clone())).await;
    let mut matrix =
        String::from("# What each operation answers to whom. 401, 403 and, for things of others, 404 are refusals.\n");
    let names: Vec<String> = PEOPLE.iter().map(|person| format!("{:>7}", person.name)).collect();
    writeln!(matrix, "{:<52} {:>5} {}", "# operation", "at", names.join(" ")).unwrap();
    let mut wrong = Vec::new();
    for operation in &operations(&contract) {
        let operation = Operation(operation);
        let (version, body) = cloud.body(&operation);
        let mut line = format!("{:<52} {:>5}", operation.id(), format!("2.{version}"));
        for person in PEOPLE {
            let path = format!("/compute/v2.1{}", cloud.path(&operation, version).await);
            let at = format!("2.{version}");
            let answer =
                cloud.api.ask_as(operation.method(), &path, &at, person.token, Some(person.roles), body.clone()).await;
            write!(line, " {:>7}", answer.status).unwrap();
            if !codes(&operation, version).contains(&answer.status) {
                wrong.push(format!("{} as {}: {} is not among its codes", operation.id(), person.name, answer.status));
            }
            if let Some(rule) = operation.0["policy"]["rule"].as_str().filter(|_| !operation.removed()) {
                let (user, project) = target(&operation, person);
                let may = !person.token.is_empty() && rules.allow(rule, person, (&user, &project));
                let refused = match answer.status {
                    401 | 403 => true,
                    // A request for another project's server is answered with 404. Subresources, and resources without
                    // an owner, may be missing for other reasons.
                    404 => !may || answer.message().starts_with(&format!("Instance {} could not", cloud.server)),
                    501 => !may,
                    _ => false,
                };
                if may == refused && !EXCEPTIONS.iter().any(|(id, _)| *id == operation.id()) {
                    wrong.push(format!("{} as {}: {} {}", operation.id(), person.name, answer.status, answer.body));
                }
            }
            cloud.repair(&operation, answer.status).await;
        }
        writeln!(matrix, "{}", line.trim_end()).unwrap();
    }
    cloud.api.stop().await;
    assert!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong.join("\n"));
    expectorate::assert_contents("golden/policy-matrix.txt", &matrix);
}
