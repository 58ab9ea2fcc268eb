//! Tests calls to a service that answers, that answers late or not at all, or that answers too much.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::super::stub::{StubAnswer, StubService};
use super::*;
use crate::ports::UserToken;

fn client(timeout: Duration) -> std::sync::Arc<ServiceClient> {
    let options = CallOptions { name: "stub", timeout, retries: 2, tls: TlsTrust::default() };
    ServiceClient::new(options).unwrap()
}

const LONG: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_call_carries_its_headers_and_the_id_of_its_request() {
    let stub = StubService::start(|_, _| StubAnswer::Says(200, "{\"a\": 1}".to_owned())).await;
    let request = "req-1".into();
    let call = ServiceRequest::get(format!("{}/a", stub.url)).on_behalf_of(Some(&request));
    let call = call.secret("x-auth-token", &UserToken::new("s3cret"));
    assert!(!format!("{call:?}").contains("s3cret"), "no secret is printed");
    let answer = client(LONG).call(call).await.unwrap();
    assert_eq!((answer.status, answer.json().unwrap()["a"].as_u64()), (200, Some(1)));
    let calls = stub.calls();
    assert_eq!(calls[0].line, "GET /a");
    assert_eq!(calls[0].header("x-openstack-request-id"), Some("req-1"));
    assert_eq!(calls[0].header("x-auth-token"), Some("s3cret"));
}

#[tokio::test]
async fn a_call_that_found_no_service_is_repeated() {
    let stub =
        StubService::start(|_, before| StubAnswer::Says(if before < 2 { 503 } else { 200 }, String::new())).await;
    let client = client(LONG);
    assert_eq!(client.call(ServiceRequest::get(&stub.url)).await.unwrap().status, 200);
    assert_eq!((stub.calls().len(), client.trouble()), (3, None));
    assert_eq!((client.tally().calls(CallOutcome::Unanswered), client.tally().calls(CallOutcome::Done)), (2, 1));
}

/// The client cannot know whether the service has made the change.
#[tokio::test]
async fn an_unanswered_change_is_not_repeated() {
    let stub = StubService::start(|_, _| StubAnswer::Says(503, String::new())).await;
    let failure = client(LONG).call(ServiceRequest::post(&stub.url)).await.unwrap_err();
    assert_eq!(failure, CallFailure::Unanswered("stub answers 503".to_owned()));
    assert_eq!(stub.calls().len(), 1);
}

/// Only after a timeout, its own or a proxy's, the service may still make the change.
#[tokio::test]
async fn a_change_is_late_only_after_a_timeout() {
    for (status, is_late) in [(502, false), (503, false), (504, true)] {
        let stub = StubService::start(move |_, _| StubAnswer::Says(status, String::new())).await;
        let failure = client(LONG).call(ServiceRequest::post(&stub.url)).await.unwrap_err();
        assert_eq!(matches!(failure, CallFailure::Late(_)), is_late, "{status}: {failure:?}");
    }
    // The first attempt is late, and the second finds no service.
    let stub =
        StubService::start(|_, before| StubAnswer::Says(if before == 0 { 504 } else { 503 }, String::new())).await;
    let failure = client(LONG).call(ServiceRequest::put(&stub.url)).await.unwrap_err();
    assert_eq!((failure, stub.calls().len()), (CallFailure::Late("stub answers 503".to_owned()), 3));
    // The first attempt is late, and the second succeeds.
    let stub =
        StubService::start(|_, before| StubAnswer::Says(if before == 0 { 504 } else { 200 }, String::new())).await;
    assert!(client(LONG).call(ServiceRequest::put(&stub.url)).await.unwrap().was_late);
    // The first attempt is late, and meanwhile other calls have opened the circuit breaker.
    let client = client(LONG);
    let others = std::sync::Arc::clone(&client);
    let stub = StubService::start(move |_, _| {
        for _ in 0..8 {
            others.breaker.failed(std::time::Instant::now(), "refused");
        }
        StubAnswer::Says(504, String::new())
    })
    .await;
    let failure = client.call(ServiceRequest::put(&stub.url)).await.unwrap_err();
    assert_eq!((failure, stub.calls().len()), (CallFailure::Late("refused".to_owned()), 1));
}

#[tokio::test]
async fn a_silent_service_is_left_alone() {
    let stub = StubService::start(|_, _| StubAnswer::Silence).await;
    let client = client(Duration::from_millis(50));
    for made in [1, 2, 3, 3, 3] {
        let failure = client.call(ServiceRequest::get(&stub.url)).await.unwrap_err();
        let expected = "stub does not answer within 0.05 s".to_owned();
        // Once the breaker refuses the calls, none of them is under way.
        let is_made = client.tally().calls(CallOutcome::NotMade) == 0;
        assert_eq!(failure, if is_made { CallFailure::Late(expected) } else { CallFailure::Unanswered(expected) });
        assert_eq!(client.tally().calls(CallOutcome::Unanswered), made);
    }
    assert_eq!(client.tally().calls(CallOutcome::NotMade), 2);
    assert!(client.trouble().is_some());
}

/// A download and an upload count these answers as a call with a whole body does.
#[tokio::test]
async fn an_error_of_a_proxy_is_no_answer_to_a_stream() {
    let stub = StubService::start(|_, _| StubAnswer::Says(504, String::new())).await;
    let (client, unanswered) = (client(LONG), CallFailure::Unanswered("stub answers 504".to_owned()));
    for _ in 0..2 {
        let opened = client.open(ServiceRequest::get(&stub.url)).await.map(|answer| answer.status());
        assert_eq!(opened, Err(unanswered.clone()));
    }
    let bytes = futures::stream::iter([Ok(bytes::Bytes::from_static(b"x"))]);
    let sent = client.upload(ServiceRequest::put(&stub.url), Box::pin(bytes)).await.map(|answer| answer.status);
    assert_eq!(sent, Err(unanswered.clone()));
    assert_eq!(client.tally().calls(CallOutcome::Unanswered), 3);
    let refused = client.open(ServiceRequest::get(&stub.url)).await.map(|answer| answer.status());
    assert_eq!(refused, Err(unanswered));
    assert_eq!((client.tally().calls(CallOutcome::NotMade), stub.calls().len()), (1, 3));
}

#[tokio::test]
async fn an_answer_is_read_up_to_a_bound() {
    let stub = StubService::start(|_, _| StubAnswer::Says(200, "x".repeat(9 * 1024 * 1024))).await;
    let failure = client(LONG).call(ServiceRequest::get(&stub.url)).await.unwrap_err();
    assert_eq!(failure, CallFailure::Unanswered("stub sent too large an answer".to_owned()));
    assert_eq!(stub.calls().len(), 1, "a call with too large an answer is not repeated");
}

#[tokio::test]
async fn the_service_s_words_are_found_in_json_and_in_pages() {
    let page = "<html>\n <body>\n  <h1>403 Forbidden</h1>\n  Not\nallowed<br /><br />\n </body>\n</html>";
    for (body, words) in [
        ("{\"error\": {\"message\": \"no\"}}", "403: no"),
        ("{\"message\": \"no\"}", "403: no"),
        (page, "403: Not allowed"),
        ("nonsense", "403"),
    ] {
        let stub = StubService::start(move |_, _| StubAnswer::Says(403, body.to_owned())).await;
        let answer = client(LONG).call(ServiceRequest::get(&stub.url)).await.unwrap();
        assert_eq!(answer.complaint(), words);
    }
}

#[tokio::test]
async fn a_malformed_call_is_not_made() {
    let client = client(LONG);
    for call in [ServiceRequest::get("http://[").header("a", "b"), ServiceRequest::get("http://c").header("a", "\n")] {
        assert_eq!(client.call(call).await.unwrap_err(), CallFailure::Malformed);
    }
}
