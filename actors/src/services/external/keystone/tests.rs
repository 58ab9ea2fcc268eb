//! Tests [`KeystoneProvider`] with a stub of Keystone, which gives valid answers, invalid answers and refusals.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use chronova_events::clock::SystemClock;
use futures::future::join_all;
use serde_json::json;

use super::super::http::{CallOptions, TlsTrust};
use super::super::stub::{StubAnswer, StubCall, StubService};
use super::account::DomainChoice;
use super::*;
use crate::ports::UserToken;
use crate::ports::identity::{IdentityProvider as _, TokenError, TokenOwner, TokenQuestion};

fn provider(stub: &StubService, cache_time: Option<Duration>) -> Arc<KeystoneProvider> {
    let named =
        |name: &str| NamedInDomain::Name { name: name.to_owned(), domain: DomainChoice::Id("default".to_owned()) };
    let account = ServiceAccount {
        auth_url: stub.url.clone(),
        credentials: Credentials::Password { user: named("nova"), password: UserToken::new("s3cret") },
        scope: AccountScope::Project(named("service")),
    };
    let calls = CallOptions { name: "keystone", timeout: Duration::from_mins(1), retries: 0, tls: TlsTrust::default() };
    let options = KeystoneOptions {
        account,
        calls,
        interface: "internal".to_owned(),
        region: None,
        cache_time,
        include_catalogue: true,
    };
    KeystoneProvider::new(options, Arc::new(SystemClock)).unwrap()
}

async fn owner(provider: &KeystoneProvider, token: &str, allow_expired: bool) -> Result<Arc<TokenOwner>, TokenError> {
    let token = UserToken::new(token);
    provider.owner(TokenQuestion { token: &token, allow_expired, request: None }).await
}

/// A token's document; the catalogue names the service that was called.
fn document(call: &StubCall, expires_at: &str) -> String {
    let url = format!("http://{}", call.header("host").unwrap());
    let endpoints = json!([{"interface": "internal", "region_id": "R", "url": url}]);
    json!({"token": {
        "user": {"id": "u1", "name": "ann", "domain": {"id": "default"}},
        "expires_at": expires_at,
        "catalog": [{"type": "identity", "endpoints": endpoints}],
    }})
    .to_string()
}

const FAR: &str = "2999-01-01T00:00:00.000000Z";
const PAST: &str = "2001-01-01T00:00:00.000000Z";
const LOGIN: &str = "POST /v3/auth/tokens";
const QUESTION: &str = "GET /v3/auth/tokens";

/// Starts a Keystone that gives Chronova's account a token, and answers other calls with `judge`.
async fn judging(judge: impl Fn(&StubCall) -> StubAnswer + Send + Sync + 'static) -> StubService {
    StubService::start(move |call, _| match call.line.starts_with(LOGIN) {
        true => StubAnswer::Gives(201, "own", document(call, FAR)),
        false => judge(call),
    })
    .await
}

#[tokio::test]
async fn nobody_is_let_in_whom_keystone_does_not_name() {
    let answers = [
        (500, "{}"),
        (200, ""),
        (200, "{}"),
        (200, "{\"token\": {}}"),
        (200, "{\"token\": {\"user\": {\"id\": \"u\", \"name\": \"u\"}, \"expires_at\": \"soon\"}}"),
        (204, ""),
        (301, ""),
        (401, "{}"),
        (403, "{}"),
        (429, "{}"),
        (503, "{}"),
    ];
    for (status, body) in answers {
        let stub = judging(move |_| StubAnswer::Says(status, body.to_owned())).await;
        let provider = provider(&stub, Some(Duration::from_mins(5)));
        for allow_expired in [false, true] {
            let found = owner(&provider, "user", allow_expired).await;
            assert!(matches!(found, Err(TokenError::Unavailable(_))), "{status} {body}: {found:?}");
        }
    }
    let stub = judging(|_| StubAnswer::Says(404, String::new())).await;
    assert_eq!(owner(&provider(&stub, None), "user", false).await, Err(TokenError::Invalid));
}

#[tokio::test]
async fn keystone_s_word_counts_for_a_while() {
    let good = |call: &StubCall| StubAnswer::Says(200, document(call, FAR));
    for (time, asked) in [(Some(Duration::from_mins(5)), 1), (None, 3)] {
        let stub = judging(good).await;
        let provider = provider(&stub, time);
        for _ in 0..3 {
            assert_eq!(owner(&provider, "user", false).await.unwrap().user.as_str(), "u1");
        }
        assert_eq!((stub.count(QUESTION), stub.count(LOGIN)), (asked, 1));
        owner(&provider, "other", false).await.unwrap();
        assert_eq!(stub.count(QUESTION), asked + 1, "questions after a second token");
    }
}

#[tokio::test]
async fn many_requests_with_one_new_token_ask_once() {
    let stub = judging(|call| StubAnswer::Says(200, document(call, FAR))).await;
    let provider = provider(&stub, Some(Duration::from_mins(5)));
    let found = join_all((0..30).map(|_| owner(&provider, "user", false))).await;
    assert!(found.iter().all(Result::is_ok));
    assert_eq!((stub.count(QUESTION), stub.count(LOGIN)), (1, 1));
}

/// If each request asked Keystone by itself, each would wait for its own timeout, one after the other.
#[tokio::test]
async fn many_requests_share_a_failure() {
    let stub = judging(|_| StubAnswer::Says(500, String::new())).await;
    let provider = provider(&stub, None);
    let found = join_all((0..30).map(|_| owner(&provider, "user", false))).await;
    assert!(found.iter().all(|found| matches!(found, Err(TokenError::Unavailable(_)))), "{found:?}");
    assert_eq!((stub.count(QUESTION), stub.count(LOGIN)), (1, 1));
    assert!(owner(&provider, "user", false).await.is_err());
    assert_eq!(stub.count(QUESTION), 2, "questions after the next request");
}

/// With `allow_expired`, Keystone accepts an expired token. The cached answer is not used for a request without
/// `allow_expired`.
#[tokio::test]
async fn leave_for_an_expired_token_is_not_kept() {
    let stub = judging(|call| match call.line.contains("allow_expired=1") {
        true => StubAnswer::Says(200, document(call, PAST)),
        false => StubAnswer::Says(404, String::new()),
    })
    .await;
    let provider = provider(&stub, Some(Duration::from_mins(5)));
    assert_eq!(owner(&provider, "user", false).await, Err(TokenError::Invalid));
    assert!(owner(&provider, "user", true).await.is_ok());
    assert_eq!(owner(&provider, "user", false).await, Err(TokenError::Invalid));
}

#[tokio::test]
async fn a_token_of_its_own_that_counts_no_more_is_exchanged() {
    let stub = StubService::start(|call, before| match (call.line.starts_with(LOGIN), before) {
        (true, 0) => StubAnswer::Gives(201, "first", document(call, FAR)),
        (true, _) => StubAnswer::Gives(201, "second", document(call, FAR)),
        (false, _) if call.header("x-auth-token") == Some("first") => StubAnswer::Says(401, String::new()),
        (false, _) => StubAnswer::Says(200, document(call, FAR)),
    })
    .await;
    assert!(owner(&provider(&stub, None), "user", false).await.is_ok());
    assert_eq!((stub.count(LOGIN), stub.count(QUESTION)), (2, 2));
}

#[tokio::test]
async fn a_refused_account_lets_nobody_in_and_does_not_hammer() {
    let stub = StubService::start(|_, _| {
        StubAnswer::Says(
            401,
            "{\"error\": {\"message\": \"The request you have made requires authentication.\"}}".to_owned(),
        )
    })
    .await;
    let provider = provider(&stub, Some(Duration::from_mins(5)));
    for _ in 0..5 {
        let found = owner(&provider, "user", false).await;
        let Err(TokenError::Unavailable(reason)) = found else { panic!("{found:?}") };
        assert!(reason.contains("a token to the service's own account (401") && !reason.contains("s3cret"), "{reason}");
    }
    assert_eq!((stub.count(LOGIN), stub.count(QUESTION)), (1, 0));
}

#[tokio::test]
async fn a_keystone_in_trouble_is_asked_again_at_once() {
    for status in [500, 503] {
        let stub = StubService::start(move |call, before| match (call.line.starts_with(LOGIN), before) {
            (true, 0) => StubAnswer::Says(status, String::new()),
            (true, _) => StubAnswer::Gives(201, "own", document(call, FAR)),
            (false, _) => StubAnswer::Says(200, document(call, FAR)),
        })
        .await;
        let provider = provider(&stub, None);
        let found = owner(&provider, "user", false).await;
        let Err(TokenError::Unavailable(reason)) = found else { panic!("{found:?}") };
        assert!(reason.contains(&status.to_string()) && !reason.contains("refused"), "{reason}");
        assert!(owner(&provider, "user", false).await.is_ok(), "{status}: no second login");
        assert_eq!(stub.count(LOGIN), 2, "{status}");
    }
}

#[tokio::test]
async fn text_that_is_no_token_is_not_sent() {
    let stub = judging(|call| StubAnswer::Says(200, document(call, FAR))).await;
    let provider = provider(&stub, None);
    for text in ["", "a b", "a\r\nx-auth-token: own", "\u{fc}", "\u{0}", &"A".repeat(16 * 1024 + 1)] {
        assert_eq!(owner(&provider, text, true).await, Err(TokenError::Invalid));
    }
    assert_eq!(stub.calls().len(), 0);
}
