//! Tests which tokens a call carries, and how a call continues if a service refuses one of them.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use chronova_events::clock::SystemClock;
use serde_json::json;

use super::super::account::DomainChoice;
use super::super::{AccountScope, Credentials, NamedInDomain, ServiceAccount};
use super::*;
use crate::services::external::http::TlsTrust;
use crate::services::external::stub::{StubAnswer, StubCall, StubService};

const LOGIN: &str = "POST /v3/auth/tokens";
const ASKED: &str = "GET /v2/images/1";

fn calls(name: &'static str) -> CallOptions {
    CallOptions { name, timeout: Duration::from_mins(1), retries: 0, tls: TlsTrust::default() }
}

fn session(stub: &StubService, user: &str) -> Arc<KeystoneSession> {
    let named =
        |name: &str| NamedInDomain::Name { name: name.to_owned(), domain: DomainChoice::Id("default".to_owned()) };
    let account = ServiceAccount {
        auth_url: stub.url.clone(),
        credentials: Credentials::Password { user: named(user), password: UserToken::new("s3cret") },
        scope: AccountScope::Project(named("service")),
    };
    KeystoneSession::new(account, ServiceClient::new(calls("keystone")).unwrap(), Arc::new(SystemClock))
}

/// Starts a stub that is both Keystone and the called service. It issues the tokens `own-1`, `own-2`, ...
async fn stub(judge: impl Fn(&StubCall) -> u16 + Send + Sync + 'static) -> StubService {
    let logins = std::sync::atomic::AtomicUsize::new(0);
    StubService::start(move |call, _| {
        if !call.line.starts_with(LOGIN) {
            return StubAnswer::Says(judge(call), "{}".to_owned());
        }
        let token = ["own-1", "own-2", "own-3"][logins.fetch_add(1, std::sync::atomic::Ordering::Relaxed)];
        let url = format!("http://{}", call.header("host").unwrap());
        let endpoint =
            |interface: &str, region: &str, url: &str| json!({"interface": interface, "region_id": region, "url": url});
        let endpoints = [
            endpoint("public", "R", "http://unreachable.invalid"),
            endpoint("internal", "other", "http://unreachable.invalid"),
            endpoint("internal", "R", &url),
        ];
        let body = json!({"token": {
            "user": {"id": "u1", "name": "nova"},
            "expires_at": "2999-01-01T00:00:00.000000Z",
            "catalog": [{"type": "image", "endpoints": endpoints}],
        }});
        StubAnswer::Gives(201, token, body.to_string())
    })
    .await
}

fn place(endpoints: &[&str]) -> ServicePlace {
    ServicePlace {
        endpoints: endpoints.iter().map(|url| (*url).to_owned()).collect(),
        service_type: "image".to_owned(),
        interfaces: vec!["internal".to_owned(), "public".to_owned()],
        region: Some("R".to_owned()),
        version: "v2",
        vouches_for_itself: false,
    }
}

fn service(stub: &StubService, endpoints: &[&str], vouches: bool) -> Arc<CalledService> {
    let accounts = CallingAccounts { own: session(stub, "nova"), vouching: vouches.then(|| session(stub, "vouching")) };
    CalledService::new(calls("image"), place(endpoints), accounts).unwrap()
}

async fn status(service: &CalledService, asker: Asker<'_>) -> Result<u16, CallFailure> {
    let request = "req-1".into();
    let build = |root: &str| ServiceRequest::get(format!("{root}/images/1"));
    service.call(asker, Some(&request), build).await.map(|answer| answer.status)
}

fn asked(stub: &StubService) -> Vec<StubCall> {
    stub.calls().into_iter().filter(|call| call.line.starts_with(ASKED)).collect()
}

#[tokio::test]
async fn a_call_for_a_user_carries_both_tokens() {
    let stub = stub(|_| 200).await;
    let user = UserToken::new("user");
    assert_eq!(status(&service(&stub, &[], true), Asker::User(&user)).await, Ok(200));
    let calls = asked(&stub);
    assert_eq!(calls[0].header("x-auth-token"), Some("user"));
    assert_eq!(calls[0].header("x-service-token"), Some("own-2"), "own-1 came with the catalogue");
    assert_eq!(calls[0].header("x-openstack-request-id"), Some("req-1"));
}

#[tokio::test]
async fn a_user_s_token_goes_alone_where_nobody_vouches() {
    let stub = stub(|_| 200).await;
    let user = UserToken::new("user");
    let alone = service(&stub, &[&stub.url], false);
    assert_eq!(status(&alone, Asker::User(&user)).await, Ok(200));
    let calls = asked(&stub);
    assert_eq!((calls[0].header("x-auth-token"), calls[0].header("x-service-token")), (Some("user"), None));
    assert_eq!(stub.count(LOGIN), 0, "no account logs in");
}

#[tokio::test]
async fn a_call_for_nobody_carries_the_account_s_token() {
    let stub = stub(|_| 200).await;
    assert_eq!(status(&service(&stub, &[], true), Asker::Own).await, Ok(200));
    let calls = asked(&stub);
    assert_eq!((calls[0].header("x-auth-token"), calls[0].header("x-service-token")), (Some("own-1"), None));
}

/// Without this rule, a user with a bad token could make Chronova log in at each request.
#[tokio::test]
async fn a_refused_user_does_not_cost_a_new_token() {
    let stub = stub(|_| 401).await;
    let (service, user) = (service(&stub, &[], true), UserToken::new("user"));
    for _ in 0..3 {
        assert_eq!(status(&service, Asker::User(&user)).await, Ok(401));
    }
    assert_eq!((asked(&stub).len(), stub.count(LOGIN)), (3, 2));
}

/// The catalogue comes with the token `own-1`, also for a user's call.
#[tokio::test]
async fn a_refusal_doubts_only_tokens_that_the_call_carried() {
    let user = UserToken::new("user");
    for (asker, vouches, carried) in [
        (Asker::User(&user), false, None),
        (Asker::User(&user), true, Some("own-2")),
        (Asker::Own, false, Some("own-1")),
    ] {
        let stub = stub(|_| 401).await;
        let service = service(&stub, &[], vouches);
        let tokens = service.tokens(asker, None).await.unwrap();
        let doubted: Vec<&str> =
            service.carried(asker, &tokens).into_iter().map(|(_, token)| token.token.expose()).collect();
        assert_eq!(doubted, Vec::from_iter(carried), "{asker:?}");
    }
}

#[tokio::test]
async fn the_next_address_is_called_where_one_does_not_answer() {
    let stub = stub(|_| 200).await;
    let with_version = format!("{}/v2/", stub.url);
    let service = service(&stub, &["http://127.0.0.1:9", &with_version], false);
    assert_eq!(status(&service, Asker::Own).await, Ok(200));
    let build = |root: &str| ServiceRequest::post(format!("{root}/images/1"));
    let made = service.call(Asker::Own, None, build).await;
    assert!(matches!(made, Err(CallFailure::Unanswered(_))), "a change goes to one address: {made:?}");
}

#[tokio::test]
async fn a_catalogue_without_the_service_is_told() {
    let stub = stub(|_| 200).await;
    let place = ServicePlace { service_type: "network".to_owned(), ..place(&[]) };
    let accounts = CallingAccounts { own: session(&stub, "nova"), vouching: None };
    let service = CalledService::new(calls("network"), place, accounts).unwrap();
    let told = "the catalogue has no internal or public endpoint of the type network in region R".to_owned();
    assert_eq!(status(&service, Asker::Own).await, Err(CallFailure::Unanswered(told)));
}

#[tokio::test]
async fn an_upload_that_stands_still_ends() {
    let stub = stub(|_| 200).await;
    let accounts = CallingAccounts { own: session(&stub, "nova"), vouching: None };
    let calls = CallOptions { timeout: Duration::from_millis(100), ..calls("image") };
    let service = CalledService::new(calls, place(&[]), accounts).unwrap();
    let first = futures::stream::iter([Ok(bytes::Bytes::from_static(b"half"))]);
    let stands = futures::StreamExt::chain(first, futures::stream::pending());
    let sent =
        service.upload(Asker::Own, None, |root| ServiceRequest::put(format!("{root}/file")), Box::pin(stands)).await;
    assert_eq!(sent.unwrap_err(), CallFailure::Unanswered("an upload to image makes no progress".to_owned()));
}

/// The first address is late, and the second makes the change.
#[tokio::test]
async fn a_change_that_was_late_at_one_address_is_noted() {
    let (hangs, works) = (stub(|_| 504).await, stub(|_| 200).await);
    let (service, request) = (service(&works, &[&hangs.url, &works.url], false), RequestId::new("req-1"));
    let build = |root: &str| ServiceRequest::put(format!("{root}/images/1"));
    let made = service.call(Asker::Own, Some(&request), build).await;
    assert_eq!(made.map(|answer| answer.status), Ok(200));
    assert!(service.late.of(&request).is_some());
}

/// The stub answers as a proxy whose service hangs, so all calls are late.
#[tokio::test]
async fn a_request_with_a_late_change_settles_once() {
    let stub = stub(|_| 504).await;
    let accounts = CallingAccounts { own: session(&stub, "nova"), vouching: None };
    let calls = CallOptions { timeout: Duration::from_millis(300), ..calls("image") };
    let service = CalledService::new(calls, place(&[]), accounts).unwrap();
    let [asks, changes, deletes] = ["req-1", "req-2", "req-3"].map(RequestId::from);
    let make = async |request: &RequestId, build: fn(String) -> ServiceRequest| {
        let made = service.call(Asker::Own, Some(request), |root| build(format!("{root}/images"))).await;
        assert!(matches!(made, Err(CallFailure::Late(_))), "{made:?}");
    };
    make(&asks, ServiceRequest::get).await;
    make(&changes, ServiceRequest::post).await;
    make(&deletes, ServiceRequest::delete).await;
    assert!(!service.settle(None).await);
    for harmless in [&asks, &deletes] {
        assert!(!service.settle(Some(harmless)).await, "{harmless}");
    }
    assert!(service.settle(Some(&changes)).await);
    assert!(!service.settle(Some(&changes)).await, "the request waits once");
}
