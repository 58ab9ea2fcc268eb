//! Calls that carry a stream of bytes: the download or the upload of an image.
//!
//! A stream can be sent only once, so none of these calls is repeated. A call may take long, but it fails if no byte
//! moves for the timeout of a call. After the last byte of an upload, the wait is longer (`STORING`).

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyExt as _, BodyStream, Limited, StreamBody};
use hyper::Response;
use hyper::body::{Frame, Incoming};

use super::client::{
    CallFailure, LONGEST_ANSWER, ServiceAnswer, ServiceClient, ServiceRequest, Silence, is_of_a_proxy,
};

/// After the last byte, the service may need this many timeouts to store the data before it answers.
const STORING: u32 = 10;

impl ServiceClient {
    /// Makes a call whose answer is a stream of bytes.
    pub async fn open(&self, request: ServiceRequest) -> Result<OpenedAnswer, CallFailure> {
        let message = request.message(request.whole_body())?;
        let began = self.begin()?;
        let asked = self.client.request(message);
        let asked =
            async { asked.await.map_err(|error| Silence { reason: self.silence(&error), again: false, late: false }) };
        let answer = tokio::time::timeout(self.options.timeout, asked).await.unwrap_or_else(|_| Err(self.late()));
        let answer = match answer {
            Ok(answer) if is_of_a_proxy(answer.status().as_u16()) => Err(Silence {
                reason: format!("{} answers {}", self.options.name, answer.status().as_u16()),
                again: false,
                late: false,
            }),
            other => other,
        };
        self.end(began, answer.as_ref().ok().map(|answer| answer.status().as_u16()));
        let response = answer.map_err(|failure| self.gave_none(failure.reason))?;
        Ok(OpenedAnswer { response, name: self.options.name, patience: self.options.timeout })
    }

    /// Sends a stream of bytes.
    pub async fn upload(
        &self,
        request: ServiceRequest,
        bytes: BoxStream<'static, std::io::Result<Bytes>>,
    ) -> Result<ServiceAnswer, CallFailure> {
        let progress = Arc::new(UploadProgress::default());
        let (moved, ended) = (Arc::clone(&progress), Arc::clone(&progress));
        let end = futures::stream::poll_fn(move |_| {
            ended.note(true);
            Poll::Ready(None)
        });
        let watched = bytes.map_ok(Frame::data).inspect(move |_| moved.note(false)).chain(end);
        let request = request.kind("application/octet-stream");
        let message = request.message(StreamBody::new(watched).boxed_unsync())?;
        let began = self.begin()?;
        let sending = async {
            let response = self.client.request(message).await.map_err(|error| self.silence(&error))?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER).collect().await;
            let body = body.map_err(|_| format!("{} ended its answer early", self.options.name))?;
            let (status, headers) = (parts.status.as_u16(), parts.headers);
            Ok(ServiceAnswer { status, headers, body: body.to_bytes(), was_late: false })
        };
        let answer = tokio::select! {
            answer = sending => answer,
            () = progress.stalled(self.options.timeout) => Err(format!("an upload to {} makes no progress", self.options.name)),
        };
        let answer = match answer {
            Ok(answer) if is_of_a_proxy(answer.status) => {
                Err(format!("{} answers {}", self.options.name, answer.complaint()))
            }
            other => other,
        };
        self.end(began, answer.as_ref().ok().map(|answer| answer.status));
        answer.map_err(|reason| self.gave_none(reason))
    }

    fn gave_none(&self, reason: String) -> CallFailure {
        self.breaker.failed(Instant::now(), &reason);
        CallFailure::Unanswered(reason)
    }
}

/// The time at which an upload last made progress, and whether its last byte is sent.
struct UploadProgress(Mutex<(Instant, bool)>);

impl Default for UploadProgress {
    fn default() -> Self {
        Self(Mutex::new((Instant::now(), false)))
    }
}

impl UploadProgress {
    fn note(&self, ended: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), ended);
    }

    /// Returns when the upload has made no progress for `patience`.
    async fn stalled(&self, patience: Duration) {
        loop {
            let (last, ended) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let patience = if ended { patience * STORING } else { patience };
            match patience.checked_sub(last.elapsed()) {
                // Progress during the sleep extends the wait, so the loop computes the rest again.
                Some(rest) if !rest.is_zero() => tokio::time::sleep(rest).await,
                _ => return,
            }
        }
    }
}

/// An answer whose status and headers were read. The body is still a stream.
#[derive(Debug)]
pub struct OpenedAnswer {
    response: Response<Incoming>,
    name: &'static str,
    patience: Duration,
}

impl OpenedAnswer {
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The bytes of the body. The stream ends with an error if no byte comes for the timeout of a call.
    pub fn bytes(self) -> BoxStream<'static, std::io::Result<Bytes>> {
        let (name, patience, body) = (self.name, self.patience, BodyStream::new(self.response.into_body()));
        let broke_off = move |what: &str| std::io::Error::other(format!("{name} {what}"));
        futures::stream::unfold(Some(body), move |body| async move {
            let mut body = body?;
            loop {
                return match tokio::time::timeout(patience, body.next()).await {
                    Ok(None) => None,
                    Ok(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) => Some((Ok(data), Some(body))),
                        Err(_) => continue, // trailers
                    },
                    Ok(Some(Err(error))) => Some((Err(broke_off(&format!("ended its answer early: {error}"))), None)),
                    Err(_) => Some((Err(broke_off("stopped sending its answer")), None)),
                };
            }
        })
        .boxed()
    }
}
