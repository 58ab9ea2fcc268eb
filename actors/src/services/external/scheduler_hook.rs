//! The scheduler hook over HTTP, as [`SchedulerHook`].
//!
//! Each question is one POST of JSON, and each answer is JSON with status 200. No call is repeated: the deadline of a
//! decision is short, and the scheduler asks again anyway if it decides again.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::http::{ServiceClient, ServiceRequest};
use crate::ports::scheduler_hook::SchedulerHook;

/// The operator's program at an address.
#[derive(Debug)]
pub struct HttpSchedulerHook {
    client: Arc<ServiceClient>,
    url: String,
}

impl HttpSchedulerHook {
    pub fn new(client: Arc<ServiceClient>, url: String) -> Arc<Self> {
        Arc::new(Self { client, url })
    }

    /// The client, for metrics.
    pub fn client(&self) -> &Arc<ServiceClient> {
        &self.client
    }
}

#[async_trait]
impl SchedulerHook for HttpSchedulerHook {
    async fn ask(&self, question: &Value) -> Result<Value, String> {
        let request = ServiceRequest::post(self.url.clone()).header("accept", "application/json").json(question);
        let answer = self.client.call(request).await.map_err(|failure| failure.to_string())?;
        match answer.status {
            200 => answer.json().ok_or_else(|| "its answer is not JSON".to_owned()),
            _ => Err(format!("its answer is {}", answer.complaint())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use serde_json::json;

    use super::super::http::{CallOptions, TlsTrust};
    use super::super::stub::{StubAnswer, StubService};
    use super::*;

    fn hook(stub: &StubService, timeout: Duration) -> Arc<HttpSchedulerHook> {
        let calls = CallOptions { name: "scheduler_hook", timeout, retries: 0, tls: TlsTrust::default() };
        HttpSchedulerHook::new(ServiceClient::new(calls).unwrap(), format!("{}/judge", stub.url))
    }

    #[tokio::test]
    async fn the_hook_gets_a_question_as_json_and_its_answer_is_read() {
        let stub = StubService::start(|_, _| StubAnswer::Says(200, json!({"hosts": []}).to_string())).await;
        let answer = hook(&stub, Duration::from_secs(30)).ask(&json!({"version": 1})).await.unwrap();
        assert_eq!(answer, json!({"hosts": []}));
        let call = stub.calls()[0].clone();
        assert_eq!(call.line, "POST /judge");
        assert_eq!(call.header("content-type"), Some("application/json"));
        assert_eq!(serde_json::from_str::<Value>(&call.body).unwrap(), json!({"version": 1}));
    }

    #[tokio::test]
    async fn a_hook_that_fails_is_asked_once_and_the_reason_is_told() {
        let stub = StubService::start(|_, _| StubAnswer::Says(500, "broken".to_owned())).await;
        let reason = hook(&stub, Duration::from_secs(30)).ask(&json!({})).await.unwrap_err();
        assert!(reason.contains("500"), "{reason}");
        assert_eq!(stub.calls().len(), 1, "no call is repeated");
        let wordy = StubService::start(|_, _| StubAnswer::Says(200, "yes".to_owned())).await;
        let reason = hook(&wordy, Duration::from_secs(30)).ask(&json!({})).await.unwrap_err();
        assert!(reason.contains("not JSON"), "{reason}");
    }

    #[tokio::test]
    async fn a_silent_hook_ends_at_the_deadline() {
        let stub = StubService::start(|_, _| StubAnswer::Silence).await;
        let reason = hook(&stub, Duration::from_millis(50)).ask(&json!({})).await.unwrap_err();
        assert!(!reason.is_empty());
    }
}
