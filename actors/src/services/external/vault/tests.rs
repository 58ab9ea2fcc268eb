//! Tests the client on a Vault that gives right answers, wrong ones, or none.

#![allow(clippy::unwrap_used)]

use chronova_events::ids::{ProjectId, UserId};
use serde_json::Value;

use super::super::http::{CallOptions, TlsTrust};
use super::super::stub::{StubAnswer, StubCall, StubService};
use super::*;

/// castellan's ids have no dashes.
const ID: &str = "00000000000040008000000000000007";
/// `PEM` in hexadecimal digits.
const VALUE: &str = "50454d";
const PATIENCE: Duration = Duration::from_secs(30);

fn store(stub: &StubService) -> VaultStore {
    let url = format!("{}/", stub.url);
    VaultStore { url, mountpoint: "secret".to_owned(), path: None, has_versions: true, namespace: None }
}

fn with_token() -> VaultLogin {
    VaultLogin::Token(UserToken::new("root"))
}

fn with_role() -> VaultLogin {
    VaultLogin::Role { role: UserToken::new("nova"), secret: Some(UserToken::new("s3cret")) }
}

fn vault(store: VaultStore, login: VaultLogin, timeout: Duration) -> Arc<VaultSecrets> {
    let calls = CallOptions { name: "vault", timeout, retries: 0, tls: TlsTrust::default() };
    VaultSecrets::new(ServiceClient::new(calls).unwrap(), store, login)
}

fn certificate(value: &str) -> Value {
    json!({"type": "certificate", "value": value, "algorithm": null, "bit_length": null, "name": null, "created": 1})
}

fn versioned(record: &Value) -> StubAnswer {
    StubAnswer::Says(200, json!({"data": {"data": record, "metadata": {"version": 1}}}).to_string())
}

async fn read(vault: &VaultSecrets, id: &str) -> Result<Vec<u8>, PortError> {
    vault.certificate(id, &Meta::system("test")).await
}

#[tokio::test]
async fn a_certificate_in_castellan_s_form_is_read_from_both_kinds_of_stores() {
    let stub = StubService::start(|call, _| match call.line.contains("/data/") {
        true => versioned(&certificate(VALUE)),
        false => StubAnswer::Says(200, json!({"data": certificate(VALUE)}).to_string()),
    })
    .await;
    let plain = VaultStore {
        mountpoint: "/keys/".to_owned(),
        path: Some("cloud/nova/".to_owned()),
        has_versions: false,
        namespace: Some("ours".to_owned()),
        ..store(&stub)
    };
    let nested = VaultStore { path: Some("cloud".to_owned()), ..store(&stub) };
    for (store, line, namespace) in [
        (store(&stub), format!("GET /v1/secret/data/{ID}"), None),
        (nested, format!("GET /v1/secret/data/cloud/{ID}"), None),
        (plain, format!("GET /v1/keys/cloud/nova/{ID}"), Some("ours")),
    ] {
        assert_eq!(read(&vault(store, with_token(), PATIENCE), ID).await.unwrap(), b"PEM", "{line}");
        let call = stub.calls().last().unwrap().clone();
        assert_eq!((call.line.as_str(), call.header("x-vault-token")), (line.as_str(), Some("root")));
        assert_eq!(call.header("x-vault-namespace"), namespace);
    }
}

/// A Vault whose log-ins give the tokens `t0`, `t1`... for `life` seconds. It does not accept the token `t0` any more.
async fn of_roles(life: u64) -> StubService {
    let logins = std::sync::atomic::AtomicUsize::new(0);
    StubService::start(move |call: &StubCall, _| match call.line.as_str() {
        "POST /v1/auth/approle/login" => {
            let number = logins.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let auth = json!({"client_token": format!("t{number}"), "lease_duration": life});
            StubAnswer::Says(200, json!({"auth": auth}).to_string())
        }
        _ if call.header("x-vault-token") == Some("t0") => StubAnswer::Says(403, "{}".to_owned()),
        _ => versioned(&certificate(VALUE)),
    })
    .await
}

#[tokio::test]
async fn a_role_logs_in_once_and_again_after_its_token_is_revoked() {
    let stub = of_roles(3600).await;
    let keeper = vault(store(&stub), with_role(), PATIENCE);
    for _ in 0..2 {
        assert_eq!(read(&keeper, ID).await.unwrap(), b"PEM");
    }
    let login = stub.calls()[0].clone();
    assert_eq!(serde_json::from_str::<Value>(&login.body).unwrap(), json!({"role_id": "nova", "secret_id": "s3cret"}));
    let asked: Vec<_> = stub.calls().iter().map(|call| call.header("x-vault-token").map(str::to_owned)).collect();
    let token = |token: &str| Some(token.to_owned());
    assert_eq!(asked, [None, token("t0"), None, token("t1"), token("t1")]);
}

#[tokio::test]
async fn a_role_logs_in_again_before_its_token_expires() {
    for (life, logins) in [(BEFORE_ITS_END.as_secs(), 4), (0, 2), (3600, 2)] {
        let stub = of_roles(life).await;
        let keeper = vault(store(&stub), with_role(), PATIENCE);
        // The first read logs in twice, because the first token is revoked.
        for _ in 0..3 {
            read(&keeper, ID).await.unwrap();
        }
        assert_eq!(stub.count("POST /v1/auth/approle/login"), logins, "{life} s");
    }
}

#[tokio::test]
async fn the_key_of_a_volume_in_vault_is_its_passphrase() {
    let stub = StubService::start(|_, _| versioned(&json!({"type": "symmetric", "value": "004B6579"}))).await;
    let keeper = vault(store(&stub), with_token(), PATIENCE);
    let passphrase = keeper.passphrase(ID, &Meta::system("test")).await.unwrap();
    assert_eq!(passphrase.expose(), "004b6579");
}

/// A Vault that keeps one secret.
async fn with_one_secret() -> StubService {
    let kept = std::sync::Mutex::new(None::<Value>);
    StubService::start(move |call, _| {
        let mut kept = kept.lock().unwrap();
        match call.line.split_once(' ').unwrap() {
            ("GET", _) => match kept.as_ref() {
                Some(record) => versioned(record),
                None => StubAnswer::Says(404, json!({"errors": []}).to_string()),
            },
            ("POST", _) => {
                let mut body: Value = serde_json::from_str(&call.body).unwrap();
                assert_eq!(body["options"]["cas"], 0, "no secret is written over");
                *kept = Some(body["data"].take());
                StubAnswer::Says(200, "{}".to_owned())
            }
            _ => {
                *kept = None;
                StubAnswer::Says(204, String::new())
            }
        }
    })
    .await
}

#[tokio::test]
async fn the_passphrase_of_a_tpm_in_vault_is_for_its_project_alone() {
    let of = |project: &str| KeyRequester { user: UserId::new("u"), project: ProjectId::new(project) };
    let stub = with_one_secret().await;
    let (keeper, work) = (vault(store(&stub), with_token(), PATIENCE), Meta::system("test"));
    let id: Uuid = ID.parse().unwrap();
    let reference = keeper.store(id, SecretPayload::new("first"), &of("p"), &work).await.unwrap();
    keeper.store(id, SecretPayload::new("second"), &of("p"), &work).await.unwrap();
    let refused = keeper.store(id, SecretPayload::new("third"), &of("q"), &work).await;
    assert!(matches!(refused, Err(PortError::Conflict(_))), "{refused:?}");
    assert_eq!(stub.count(&format!("POST /v1/secret/data/{ID}")), 1, "{:?}", stub.calls());
    assert_eq!(keeper.read(&reference, &of("p"), &work).await.unwrap().expose(), "first");
    let refused = keeper.read(&reference, &of("q"), &work).await;
    assert!(matches!(refused, Err(PortError::Forbidden(_))), "{refused:?}");
    for _ in 0..2 {
        keeper.delete(&reference, &work).await.unwrap();
    }
    let gone = keeper.read(&reference, &of("p"), &work).await;
    assert!(matches!(gone, Err(PortError::NotFound(_))), "{gone:?}");
}

#[tokio::test]
async fn an_id_that_is_no_uuid_reaches_no_address_in_vault() {
    let stub = StubService::start(|_, _| versioned(&certificate(VALUE))).await;
    let keeper = vault(store(&stub), with_token(), PATIENCE);
    for id in ["", "../sys/mounts", "a?list=true", "{00000000-0000-4000-8000-000000000007}"] {
        let refused = read(&keeper, id).await;
        assert!(matches!(refused, Err(PortError::NotFound(_))), "{id}: {refused:?}");
    }
    assert_eq!(stub.calls().len(), 0);
    assert_eq!(read(&keeper, "00000000-0000-4000-8000-000000000007").await.unwrap(), b"PEM");
}

#[tokio::test]
async fn nonsense_of_vault_s_is_no_certificate() {
    type Fits = fn(&PortError) -> bool;
    let unavailable: Fits = |error| matches!(error, PortError::Unavailable(_));
    let invalid: Fits = |error| matches!(error, PortError::Invalid(_));
    let forbidden: Fits = |error| matches!(error, PortError::Forbidden(_));
    let missing: Fits = |error| matches!(error, PortError::NotFound(_));
    let in_store = |record: Value| json!({"data": {"data": record}}).to_string();
    let long = "00".repeat(LONGEST + 1);
    for (status, body, fits) in [
        (404, String::new(), missing),
        (403, String::new(), forbidden),
        (400, String::new(), unavailable),
        (500, String::new(), unavailable),
        (503, String::new(), unavailable),
        (200, "[]".to_owned(), unavailable),
        (200, in_store(Value::Null), unavailable),
        (200, in_store(json!({"type": "symmetric", "value": VALUE})), invalid),
        (200, in_store(certificate("")), invalid),
        (200, in_store(certificate("504")), invalid),
        (200, in_store(certificate("+5+4")), invalid),
        (200, in_store(certificate("PEM!")), invalid),
        (200, in_store(certificate(&long)), invalid),
    ] {
        let shown: String = body.chars().take(80).collect();
        let stub = StubService::start(move |_, _| StubAnswer::Says(status, body.clone())).await;
        let refused = read(&vault(store(&stub), with_token(), PATIENCE), ID).await.unwrap_err();
        assert!(fits(&refused), "{status} {shown}: {refused:?}");
    }
}

#[tokio::test]
async fn a_vault_that_hangs_ends_with_the_timeout() {
    let stub = StubService::start(|_, _| StubAnswer::Silence).await;
    for login in [with_token(), with_role()] {
        let refused = read(&vault(store(&stub), login, Duration::from_millis(100)), ID).await;
        assert!(matches!(refused, Err(PortError::Unavailable(_))), "{refused:?}");
    }
}
