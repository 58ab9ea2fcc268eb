//! Attacks of one project on another, on the operator or on itself. `docs/security.md` names the test of each
//! vulnerability.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod scopes;
mod servers;
mod volumes;

use chronova_tests::compute_api::Answer;
use serde_json::{Value, json};

/// The victim.
const OWNER: &str = "owner:web";
/// The attacker.
const STRANGER: &str = "eve:elsewhere";

#[track_caller]
fn is(answer: &Answer, status: u16, words: &str) {
    assert!(answer.status == status && answer.message().contains(words), "{} {}", answer.status, answer.body);
}

/// Sends a request to the volume service.
async fn volume_api(
    api: &chronova_tests::compute_api::Api,
    token: &str,
    method: &str,
    path: &str,
    body: Value,
) -> Answer {
    let body = Some(body).filter(|body| !body.is_null());
    api.ask(method, &format!("/volume/v3{path}"), "2.1, volume 3.59", token, body).await
}

/// Creates a volume and waits until it is available. Returns its id.
async fn volume(api: &chronova_tests::compute_api::Api, token: &str) -> String {
    let made = volume_api(api, token, "POST", "/volumes", json!({"volume": {"size": 1}})).await;
    assert_eq!(made.status, 202, "{}", made.body);
    api.life.settled().await;
    made.body["volume"]["id"].as_str().unwrap().to_owned()
}
