//! The live feed: server-sent events, resumed by `Last-Event-ID`.
//!
//! The id of an event is its position, so a client that comes back with the last id it saw misses nothing and sees nothing
//! twice. Catching up is a search of the log; then the feed follows the log's own subscription. Memory is bounded: at most
//! [`WAITING`] chunks wait for a client, and one that does not take them for [`SLOW`] is let go; it comes back where it was.
//! The right to see is asked again every [`RECHECK`], so a feed does not outlive its token.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use bytes::Bytes;
use chronova_events::envelope::{Position, Recorded};
use chronova_events::store::{EventStore, StoreError};
use futures::StreamExt as _;
use futures::stream::LocalBoxStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::events::{PERSONAL, without};
use super::filters::Asked;
use super::line::Format;
use crate::app::App;
use crate::fault::Fault;
use crate::policy::Target;
use crate::service::Service;

/// Chunks that may wait for one client.
const WAITING: usize = 8;
/// A chunk is sent when it has this many bytes, or when nothing more is there.
const CHUNK: usize = 32 << 10;
/// Events searched for at once.
const PAGE: usize = 512;
/// A client that takes nothing for so long is let go.
const SLOW: Duration = Duration::from_secs(15);
/// A quiet feed says so often that it is alive, and how far it is.
const HEARTBEAT: Duration = Duration::from_secs(15);
const RECHECK: Duration = Duration::from_mins(1);

/// Who may see the feed: asked again and again.
pub(super) struct Right {
    pub app: Arc<App>,
    pub headers: HeaderMap,
    pub rule: &'static str,
    /// Whether personal fields are shown, too.
    pub personal: bool,
}

impl Right {
    async fn holds(&self) -> bool {
        // An identity service that is away for a moment takes nobody's rights away.
        let caller = match self.app.authentication.caller(&self.headers).await {
            Ok(Some(caller)) => caller,
            Ok(None) | Err(crate::auth::AuthError::Invalid) => return false,
            Err(crate::auth::AuthError::Unavailable(_)) => return true,
        };
        let allows = |rule| self.app.policy.allows(Service::Chronova, rule, &caller, &Target::of(&caller));
        allows(self.rule) && (!self.personal || allows(PERSONAL))
    }
}

/// Starts a feed; what it gives is the body of the answer.
pub(super) fn start(
    right: Right,
    store: Arc<dyn EventStore>,
    asked: Asked,
    format: Format,
) -> Result<LocalBoxStream<'static, io::Result<Bytes>>, Fault> {
    let feeds = &right.app.feeds;
    let (place, closing) = (feeds.enter()?, feeds.closing.subscribe());
    let (sender, receiver) = mpsc::channel(WAITING);
    let feed =
        Feed { right, store, asked, format, client: Client { sender, chunk: String::new(), told: Position::START } };
    actix_web::rt::spawn(async move {
        let _place = place;
        let why = feed.run(closing).await;
        tracing::debug!(%why, "a feed ended");
    });
    let stream = futures::stream::unfold(receiver, |mut receiver| async move {
        let chunk: Bytes = receiver.recv().await?;
        Some((Ok(chunk), receiver))
    });
    Ok(stream.boxed_local())
}

/// Why a feed ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client has gone")]
    Gone,
    #[error("the client is too slow")]
    Slow,
    #[error("the right to see it has ended")]
    NoRight,
    #[error("the server is about to end")]
    Closing,
    #[error("everything asked for was sent")]
    Done,
    #[error("the log cannot be read")]
    Log(#[from] StoreError),
    #[error("an event cannot be read")]
    Decode(#[from] chronova_events::registry::DecodeError),
}

struct Feed {
    right: Right,
    store: Arc<dyn EventStore>,
    asked: Asked,
    format: Format,
    client: Client,
}

impl Feed {
    async fn run(mut self, mut closing: watch::Receiver<bool>) -> End {
        let work = self.follow();
        let ended = closing.wait_for(|closing| *closing);
        tokio::select! {
            end = work => end.err().unwrap_or(End::Done),
            _ = ended => End::Closing,
        }
    }

    async fn follow(&mut self) -> Result<(), End> {
        self.client.chunk.push_str("retry: 2000\n\n");
        self.client.flush().await?;
        let mut recheck = Instant::now() + RECHECK;
        let mut at = self.catch_up(&mut recheck).await?;
        let mut live = self.store.subscribe(at);
        let mut beat = Instant::now() + HEARTBEAT;
        while at < self.asked.up_to {
            match timeout_at(beat.min(recheck), live.next()).await {
                Ok(batch) => {
                    for recorded in &batch? {
                        at = recorded.position;
                        self.asked.criteria.learn_from(recorded);
                        self.offer(recorded).await?;
                    }
                    self.client.flush().await?;
                }
                Err(_) if Instant::now() >= recheck => self.check(&mut recheck).await?,
                Err(_) => {
                    self.client.beat(at).await?;
                    beat = Instant::now() + HEARTBEAT;
                }
            }
        }
        Ok(())
    }

    /// What is in the log already.
    async fn catch_up(&mut self, recheck: &mut Instant) -> Result<Position, End> {
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

    async fn offer(&mut self, recorded: &Recorded) -> Result<(), End> {
        if recorded.position > self.asked.up_to || !self.asked.criteria.admits(recorded) {
            return Ok(());
        }
        let blank = without(recorded, self.right.personal)?;
        let line = self.format.line(blank.as_ref().unwrap_or(recorded))?;
        self.client.put(recorded.position, line.trim_end()).await
    }

    async fn check(&self, recheck: &mut Instant) -> Result<(), End> {
        *recheck = Instant::now() + RECHECK;
        if self.right.holds().await { Ok(()) } else { Err(End::NoRight) }
    }
}

/// The other end, with the chunk that is being filled for it.
struct Client {
    sender: mpsc::Sender<Bytes>,
    chunk: String,
    /// The last position it was told of.
    told: Position,
}

impl Client {
    async fn put(&mut self, position: Position, data: &str) -> Result<(), End> {
        self.chunk.push_str("id: ");
        self.chunk.push_str(&position.to_string());
        self.chunk.push_str("\ndata: ");
        self.chunk.push_str(data);
        self.chunk.push_str("\n\n");
        self.told = position;
        if self.chunk.len() >= CHUNK { self.flush().await } else { Ok(()) }
    }

    /// An event without data: the client takes the id, so that it need not search again what was not for it.
    async fn beat(&mut self, at: Position) -> Result<(), End> {
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

    async fn flush(&mut self) -> Result<(), End> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        match timeout(SLOW, self.sender.send(chunk)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Slow),
        }
    }
}
