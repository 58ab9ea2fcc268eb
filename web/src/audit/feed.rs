//! The live feed: server-sent events, resumed by `Last-Event-ID`.
//!
//! The id of an event is its position. So a client that resumes with its last id misses nothing and sees nothing twice.
//! A feed first searches the log for the events that the client lacks. Then it follows the log's own subscription.
//! Memory is bounded: at most [`WAITING`] chunks wait for a client. A client that takes no chunk for [`SLOW`] is
//! disconnected, and can resume at its last id. The caller's right is checked again every [`RECHECK`], so a feed
//! outlives its token by at most that time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use bytes::Bytes;
use chronova_actors::ports::identity::TokenError;
use chronova_events::envelope::{Position, Recorded};
use chronova_events::store::{EventStore, StoreError};
use futures::StreamExt as _;
use futures::stream::LocalBoxStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::events::{PERSONAL, without};
use super::filters::AuditQuery;
use super::line::Format;
use super::open_feeds::FeedPermit;
use crate::app::App;
use crate::auth::TokenClaim;
use crate::fault::Fault;
use crate::policy::PolicyTarget;
use crate::service::Service;

/// Chunks that may wait for one client.
const WAITING: usize = 8;
/// A chunk is sent when it has this many bytes, or at the end of a page or batch of events.
const CHUNK: usize = 32 << 10;
/// The largest number of events that one search of the log returns.
const PAGE: usize = 512;
/// A client that takes no chunk for this long is disconnected.
const SLOW: Duration = Duration::from_secs(15);
/// A feed sends a heartbeat at this interval. So a client sees that a feed without events is still alive.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
pub(super) const RECHECK: Duration = Duration::from_mins(1);

/// The caller's right to the feed, which is checked repeatedly.
pub(super) struct FeedRight {
    pub app: Arc<App>,
    pub headers: HeaderMap,
    pub rule: &'static str,
    /// Whether the feed shows personal fields.
    pub personal: bool,
}

impl FeedRight {
    pub(super) async fn holds(&self) -> bool {
        // A feed may run for days. If the identity service cannot confirm the right, the feed ends, and the client may
        // connect again.
        let rules = &self.app.config.service_tokens;
        let claim = TokenClaim { headers: &self.headers, asked: None, request: None, rules };
        let caller = match self.app.authentication.caller(&claim).await {
            Ok(Some(caller)) => caller,
            Ok(None) | Err(TokenError::Invalid | TokenError::Unavailable(_)) => return false,
        };
        let allows = |rule| self.app.policy.allows(Service::Chronova, rule, &caller, &PolicyTarget::of(&caller));
        allows(self.rule) && (!self.personal || allows(PERSONAL))
    }
}

/// Starts a feed and returns the body of the answer.
pub(super) fn start(
    right: FeedRight,
    store: Arc<dyn EventStore>,
    asked: AuditQuery,
    format: Format,
) -> Result<LocalBoxStream<'static, io::Result<Bytes>>, Fault> {
    let (place, closing) = (right.app.feeds.enter()?, right.app.feeds.closing.subscribe());
    Ok(serve(place, closing, move |client| AuditFeed { right, store, asked, format, client }.follow()))
}

/// Runs a feed for one client until `work` or the server ends. Returns the body of the answer.
pub(super) fn serve<W>(
    place: FeedPermit,
    mut closing: watch::Receiver<bool>,
    work: impl FnOnce(FeedClient) -> W + 'static,
) -> LocalBoxStream<'static, io::Result<Bytes>>
where
    W: Future<Output = Result<(), FeedEnd>> + 'static,
{
    let (sender, receiver) = mpsc::channel(WAITING);
    let client = FeedClient { sender, chunk: String::new(), told: Position::START };
    actix_web::rt::spawn(async move {
        let _place = place;
        let why = tokio::select! {
            end = work(client) => end.err().unwrap_or(FeedEnd::Done),
            _ = closing.wait_for(|closing| *closing) => FeedEnd::Closing,
        };
        tracing::debug!(%why, "a feed ended");
    });
    let stream = futures::stream::unfold(receiver, |mut receiver| async move {
        let chunk: Bytes = receiver.recv().await?;
        Some((Ok(chunk), receiver))
    });
    stream.boxed_local()
}

/// Why a feed ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum FeedEnd {
    #[error("the client has gone")]
    Gone,
    #[error("the client is too slow")]
    Slow,
    #[error("the client's right to see the feed has ended")]
    NoRight,
    #[error("the server is shutting down")]
    Closing,
    #[error("everything asked for was sent")]
    Done,
    #[error("the log cannot be read")]
    Log(#[from] StoreError),
    #[error("an event cannot be read")]
    Decode(#[from] chronova_events::registry::DecodeError),
}

struct AuditFeed {
    right: FeedRight,
    store: Arc<dyn EventStore>,
    asked: AuditQuery,
    format: Format,
    client: FeedClient,
}

impl AuditFeed {
    async fn follow(mut self) -> Result<(), FeedEnd> {
        self.client.chunk.push_str("retry: 2000\n\n");
        self.client.flush().await?;
        let mut recheck = Instant::now() + RECHECK;
        let mut at = self.catch_up(&mut recheck).await?;
        let mut live = self.store.subscribe(at);
        let mut beat = Instant::now() + HEARTBEAT;
        while at < self.asked.up_to {
            if let Ok(batch) = timeout_at(beat.min(recheck), live.next()).await {
                for recorded in &batch? {
                    at = recorded.position;
                    self.asked.criteria.learn_from(recorded);
                    self.offer(recorded).await?;
                }
                self.client.flush().await?;
            }
            // The check of the right and the heartbeat must be on time, even if the log is busy.
            if Instant::now() >= recheck {
                self.check(&mut recheck).await?;
            }
            if Instant::now() >= beat {
                self.client.beat(at).await?;
                beat = Instant::now() + HEARTBEAT;
            }
        }
        Ok(())
    }

    /// Sends the events that are already in the log.
    async fn catch_up(&mut self, recheck: &mut Instant) -> Result<Position, FeedEnd> {
        let mut at = self.asked.after;
        while at < self.asked.up_to {
            let found = self.store.search(at, PAGE, &self.asked.criteria).await?;
            for recorded in &found.events {
                self.offer(recorded).await?;
            }
            self.client.flush().await?;
            if found.until == at {
                break;
            }
            at = found.until;
            if Instant::now() >= *recheck {
                self.check(recheck).await?;
            }
        }
        Ok(at)
    }

    async fn offer(&mut self, recorded: &Recorded) -> Result<(), FeedEnd> {
        if recorded.position > self.asked.up_to || !self.asked.criteria.admits(recorded) {
            return Ok(());
        }
        let blank = without(recorded, self.right.personal)?;
        let line = self.format.line(blank.as_ref().unwrap_or(recorded))?;
        self.client.put(recorded.position, line.trim_end()).await
    }

    async fn check(&self, recheck: &mut Instant) -> Result<(), FeedEnd> {
        *recheck = Instant::now() + RECHECK;
        if self.right.holds().await { Ok(()) } else { Err(FeedEnd::NoRight) }
    }
}

/// The sender to the client, with the chunk that is being filled.
pub(super) struct FeedClient {
    sender: mpsc::Sender<Bytes>,
    pub(super) chunk: String,
    /// The last position that the client got.
    told: Position,
}

impl FeedClient {
    async fn put(&mut self, position: Position, data: &str) -> Result<(), FeedEnd> {
        self.chunk.push_str("id: ");
        self.chunk.push_str(&position.to_string());
        self.chunk.push_str("\ndata: ");
        self.chunk.push_str(data);
        self.chunk.push_str("\n\n");
        self.told = position;
        if self.chunk.len() >= CHUNK { self.flush().await } else { Ok(()) }
    }

    /// Sends an event without data. The client remembers the id of this event. A resumed feed then does not search the
    /// skipped events again.
    async fn beat(&mut self, at: Position) -> Result<(), FeedEnd> {
        self.chunk.push_str(": alive\n");
        if at > self.told {
            self.chunk.push_str("id: ");
            self.chunk.push_str(&at.to_string());
            self.chunk.push('\n');
            self.told = at;
        }
        self.chunk.push('\n');
        self.flush().await
    }

    pub(super) async fn flush(&mut self) -> Result<(), FeedEnd> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        match timeout(SLOW, self.sender.send(chunk)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(FeedEnd::Gone),
            Err(_) => Err(FeedEnd::Slow),
        }
    }
}
