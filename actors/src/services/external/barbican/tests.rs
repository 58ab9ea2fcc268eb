//! Tests the client on a Barbican that gives right answers, wrong ones, or none.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::time::Duration;

use chronova_events::clock::SystemClock;
use chronova_events::ids::{ProjectId, UserId};

use super::super::http::{CallOptions, ServiceClient, TlsTrust};
use super::super::keystone::{CallingAccounts, KeptUserToken, KeptUserTokens, KeystoneSession, ServicePlace};
use super::super::stub::{StubAnswer, StubService};
use super::*;

const ID: &str = "00000000-0000-0000-0000-000000000007";

fn barbican(stub: &StubService, timeout: Duration) -> Arc<BarbicanSecrets> {
    let calls = |name| CallOptions { name, timeout, retries: 0, tls: TlsTrust::default() };
    let client = ServiceClient::new(calls("keystone")).unwrap();
    let accounts =
        CallingAccounts { own: KeystoneSession::new(stub.account(), client, Arc::new(SystemClock)), vouching: None };
    let place = ServicePlace { endpoints: vec![stub.url.clone()], version: "v1", ..ServicePlace::default() };
    let users = KeptUserTokens::default();
    let user = KeptUserToken { token: UserToken::new("user"), project: None };
    users.keep(&RequestId::new("req-1"), user, std::time::Instant::now());
    BarbicanSecrets::new(CalledService::new(calls("barbican"), place, accounts).unwrap(), Arc::new(users))
}

fn of_request(request: &str) -> Meta {
    Meta { request_id: Some(RequestId::new(request)), ..(*Meta::system("test")).clone() }
}

fn described(change: &Value) -> String {
    let mut shown = json!({"status": "ACTIVE", "secret_type": "certificate", "algorithm": null,
        "content_types": {"default": "application/octet-stream"}});
    shown.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    shown.to_string()
}

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_certificate_is_read_with_the_user_s_token_in_its_content_type() {
    let stub = StubService::beside_keystone(|call| match call.line.ends_with("/payload") {
        true => StubAnswer::Says(200, "PEM".to_owned()),
        false => StubAnswer::Says(200, described(&json!({}))),
    })
    .await;
    let certificates = barbican(&stub, PATIENCE);
    assert_eq!(certificates.certificate(ID, &of_request("req-1")).await.unwrap(), b"PEM");
    let asked: Vec<_> = stub.calls().iter().map(|call| call.line.clone()).collect();
    assert_eq!(asked, [format!("GET /v1/secrets/{ID}"), format!("GET /v1/secrets/{ID}/payload")]);
    for call in stub.calls() {
        assert_eq!(call.header("x-auth-token"), Some("user"));
        assert_eq!(call.header("x-openstack-request-id"), Some("req-1"));
    }
    assert_eq!(stub.calls()[1].header("accept"), Some("application/octet-stream"));
    // Work whose user's token is not known any more.
    assert_eq!(certificates.certificate(ID, &of_request("req-2")).await.unwrap(), b"PEM");
    assert_eq!(stub.calls().last().unwrap().header("x-auth-token"), Some("own"));
}

#[tokio::test]
async fn the_key_of_a_volume_is_its_passphrase_in_hexadecimal_digits() {
    let stub = StubService::beside_keystone(|call| match call.line.ends_with("/payload") {
        true => StubAnswer::Says(200, "\u{0}Key".to_owned()),
        false => StubAnswer::Says(200, described(&json!({"secret_type": "symmetric", "algorithm": "aes"}))),
    })
    .await;
    let secrets = barbican(&stub, PATIENCE);
    assert_eq!(secrets.passphrase(ID, &of_request("req-1")).await.unwrap().expose(), "004b6579");
    assert_eq!(stub.calls()[1].header("x-auth-token"), Some("user"));
    // A key is no certificate, and a certificate is no key.
    let refused = secrets.certificate(ID, &of_request("req-1")).await;
    assert!(matches!(refused, Err(PortError::Invalid(_))), "{refused:?}");
    let stub = StubService::beside_keystone(|_| StubAnswer::Says(200, described(&json!({})))).await;
    let refused = barbican(&stub, PATIENCE).passphrase(ID, &of_request("req-1")).await;
    assert!(matches!(refused, Err(PortError::Invalid(_))), "{refused:?}");
}

fn owner() -> KeyRequester {
    KeyRequester { user: UserId::new("u"), project: ProjectId::new("p") }
}

/// A Barbican that keeps one secret. It answers each deletion with `deletes`.
async fn with_store(deletes: u16) -> StubService {
    let kept = Mutex::new(None::<String>);
    StubService::beside_keystone(move |call| {
        let mut kept = kept.lock().unwrap();
        let reference = json!({"secret_ref": format!("http://barbican/v1/secrets/{ID}")});
        match call.line.split_once(' ').unwrap() {
            ("POST", "/v1/secrets") => {
                let secret: Value = serde_json::from_str(&call.body).unwrap();
                assert_eq!((&secret["secret_type"], &secret["name"]), (&json!("passphrase"), &json!(tpm_name(ID))));
                *kept = secret["payload"].as_str().map(str::to_owned);
                StubAnswer::Says(201, reference.to_string())
            }
            ("GET", path) if path.starts_with("/v1/secrets?name=chronova-tpm-") => {
                let found: Vec<Value> = kept.iter().map(|_| reference.clone()).collect();
                StubAnswer::Says(200, json!({"secrets": found}).to_string())
            }
            ("GET", path) if path.ends_with("/payload") => StubAnswer::Says(200, kept.clone().unwrap()),
            ("GET", _) => StubAnswer::Says(
                200,
                described(&json!({"secret_type": "passphrase", "content_types": {"default": "text/plain"}})),
            ),
            ("DELETE", _) => {
                *kept = None;
                StubAnswer::Says(deletes, String::new())
            }
            other => panic!("the stub does not know this call: {other:?}"),
        }
    })
    .await
}

#[tokio::test]
async fn the_passphrase_of_a_tpm_is_stored_once_and_read_and_deleted_in_the_name_of_the_user() {
    let stub = with_store(204).await;
    let (secrets, work, id) = (barbican(&stub, PATIENCE), of_request("req-1"), ID.parse().unwrap());
    let reference = secrets.store(id, SecretPayload::new("first"), &owner(), &work).await.unwrap();
    let again = secrets.store(id, SecretPayload::new("second"), &owner(), &work).await.unwrap();
    assert_eq!((reference.as_str(), again.as_str(), stub.count("POST ")), (ID, ID, 1));
    assert_eq!(secrets.read(&reference, &owner(), &work).await.unwrap().expose(), "first");
    for _ in 0..2 {
        secrets.delete(&reference, &work).await.unwrap();
    }
    assert_eq!(stub.count("DELETE "), 1);
    let gone = secrets.read(&reference, &owner(), &work).await;
    assert!(matches!(gone, Err(PortError::NotFound(_))), "{gone:?}");
    assert!(stub.calls().iter().all(|call| call.header("x-auth-token") == Some("user")));
}

/// A restart loses the tokens of users. The owner of a server would not find a passphrase in Chronova's own project.
#[tokio::test]
async fn no_passphrase_of_a_tpm_is_in_the_project_of_chronova_s_own_account() {
    let stub = with_store(204).await;
    let (secrets, work) = (barbican(&stub, PATIENCE), of_request("req-2"));
    let refused = secrets.store(ID.parse().unwrap(), SecretPayload::new("first"), &owner(), &work).await;
    assert!(matches!(refused, Err(PortError::Forbidden(_))), "{refused:?}");
    let refused = secrets.read(ID, &owner(), &work).await;
    assert!(matches!(refused, Err(PortError::Forbidden(_))), "{refused:?}");
    secrets.delete(ID, &work).await.unwrap();
    assert_eq!(stub.calls().len(), 0);
}

/// A server is deleted even if its user may not delete the secret.
#[tokio::test]
async fn a_passphrase_that_may_not_be_deleted_stays() {
    let stub = with_store(403).await;
    let (secrets, work) = (barbican(&stub, PATIENCE), of_request("req-1"));
    secrets.store(ID.parse().unwrap(), SecretPayload::new("first"), &owner(), &work).await.unwrap();
    secrets.delete(ID, &work).await.unwrap();
    assert_eq!(stub.count(&format!("DELETE /v1/secrets/{ID}")), 1);
}

#[tokio::test]
async fn an_id_that_is_no_uuid_reaches_no_address() {
    let stub = StubService::beside_keystone(|_| StubAnswer::Says(200, described(&json!({})))).await;
    for id in ["", "../orders", "a?b", "00000000-0000-0000-0000-000000000007/payload"] {
        let refused = barbican(&stub, PATIENCE).certificate(id, &of_request("req-1")).await;
        assert!(matches!(refused, Err(PortError::NotFound(_))), "{id}: {refused:?}");
    }
    assert_eq!(stub.calls().len(), 0);
}

#[tokio::test]
async fn nonsense_of_barbican_s_is_no_certificate() {
    type Fits = fn(&PortError) -> bool;
    let unavailable: Fits = |error| matches!(error, PortError::Unavailable(_));
    let invalid: Fits = |error| matches!(error, PortError::Invalid(_));
    let forbidden: Fits = |error| matches!(error, PortError::Forbidden(_));
    let missing: Fits = |error| matches!(error, PortError::NotFound(_));
    for (status, body, fits) in [
        (404, String::new(), missing),
        (401, String::new(), forbidden),
        (403, String::new(), forbidden),
        (500, String::new(), unavailable),
        (503, String::new(), unavailable),
        (301, String::new(), unavailable),
        (200, "[]".to_owned(), unavailable),
        (200, described(&json!({"secret_type": "opaque"})), invalid),
        (200, described(&json!({"content_types": null})), invalid),
        (200, described(&json!({"content_types": {}})), unavailable),
    ] {
        let shown = body.clone();
        let stub = StubService::beside_keystone(move |_| StubAnswer::Says(status, body.clone())).await;
        let refused = barbican(&stub, PATIENCE).certificate(ID, &of_request("req-1")).await.unwrap_err();
        assert!(fits(&refused), "{status} {shown}: {refused:?}");
    }
    for payload in [String::new(), "x".repeat(LONGEST + 1)] {
        let stub = StubService::beside_keystone(move |call| match call.line.ends_with("/payload") {
            true => StubAnswer::Says(200, payload.clone()),
            false => StubAnswer::Says(200, described(&json!({}))),
        })
        .await;
        let refused = barbican(&stub, PATIENCE).certificate(ID, &of_request("req-1")).await;
        assert!(matches!(refused, Err(PortError::Invalid(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn a_barbican_that_hangs_ends_with_the_timeout() {
    let stub = StubService::beside_keystone(|_| StubAnswer::Silence).await;
    let refused = barbican(&stub, Duration::from_millis(200)).certificate(ID, &of_request("req-1")).await;
    assert!(matches!(refused, Err(PortError::Unavailable(_))), "{refused:?}");
}
