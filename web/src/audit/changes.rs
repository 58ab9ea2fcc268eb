//! `GET /chronova/v1/changes`: a project's live feed of its own servers.
//!
//! The feed only says which servers of the caller's project have changed. The client then reads these servers from the
//! Compute API, whose policy decides what the client sees. The feed has no history: a client that connects reads its
//! lists again.
//!
//! Invariant: a project's feed reveals nothing about other projects. So the feed shows no positions of the log, because
//! positions count the events of all projects. The times of its heartbeats do not depend on other projects either.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::envelope::Recorded;
use chronova_events::ids::{InstanceId, ProjectId};
use chronova_events::store::EventStore;
use chronova_projections::views::Views;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::answers;
use super::events::SSE;
use super::feed::{FeedClient, FeedEnd, FeedRight, HEARTBEAT, RECHECK, serve};
use crate::ctx::Ctx;
use crate::fault::Fault;
use crate::handler;
use crate::reply::Reply;
use crate::route::{Route, get};

const RULE: &str = "chronova:changes:list";

pub(super) const ROUTES: &[Route] =
    &[get("changes.follow", "/changes", handler!(follow)).policy(RULE).answers(answers::changes)];

/// The longest wait until the read models show an event. The feed waits before it names the server, so that a client
/// that reads the server at once finds the change.
const PATIENCE: Duration = Duration::from_secs(5);

async fn follow(ctx: Ctx) -> Result<Reply, Fault> {
    if !ctx.header("Accept").unwrap_or_default().contains(SSE) {
        return Err(Fault::bad_request(format!("This is a live feed: send the header Accept: {SSE}.")));
    }
    let project = ctx.caller().project.clone();
    let project =
        project.ok_or_else(|| Fault::bad_request("The feed covers one project: use a token of that project."))?;
    let feeds = &ctx.app.feeds;
    let (place, closing) = (feeds.enter_for(&project, &ctx.caller().user)?, feeds.closing.subscribe());
    let right = FeedRight { app: ctx.app.clone(), headers: ctx.headers.clone(), rule: RULE, personal: false };
    let (store, views) = (Arc::clone(ctx.app.log()?), Arc::clone(&ctx.queries()?.views));
    let stream = serve(place, closing, |client| ChangeFeed { right, store, views, project, client }.run());
    let reply = Reply::stream(SSE, None, stream).header("Cache-Control", "no-store");
    Ok(reply.header("X-Accel-Buffering", "no"))
}

struct ChangeFeed {
    right: FeedRight,
    store: Arc<dyn EventStore>,
    views: Arc<Views>,
    project: ProjectId,
    client: FeedClient,
}

impl ChangeFeed {
    async fn run(mut self) -> Result<(), FeedEnd> {
        // The subscription begins before the first bytes are sent. The client reads its lists after these bytes, so the
        // feed has every event that the lists lack.
        let mut live = self.store.subscribe(self.views.position());
        self.client.chunk.push_str("retry: 2000\n\n");
        self.client.flush().await?;
        let (mut beat, mut recheck) = (Instant::now() + HEARTBEAT, Instant::now() + RECHECK);
        loop {
            if let Ok(batch) = timeout_at(beat.min(recheck), live.next()).await {
                self.tell(&batch?).await?;
            }
            // The check of the right and the heartbeat must be on time, even if the log is busy.
            if Instant::now() >= recheck {
                recheck = Instant::now() + RECHECK;
                if !self.right.holds().await {
                    return Err(FeedEnd::NoRight);
                }
            }
            if Instant::now() >= beat {
                self.client.chunk.push_str(": alive\n\n");
                self.client.flush().await?;
                beat = Instant::now() + HEARTBEAT;
            }
        }
    }

    /// Names the project's servers in a batch of events, each once.
    async fn tell(&mut self, batch: &[Arc<Recorded>]) -> Result<(), FeedEnd> {
        let Some(last) = batch.last() else { return Ok(()) };
        self.views.wait_for(last.position, PATIENCE).await;
        let touched: BTreeSet<InstanceId> = batch.iter().filter_map(|recorded| server_of(recorded)).collect();
        let own: Vec<String> = self.views.servers.read(|servers| {
            let own = |id: &InstanceId| {
                let server = servers.get(*id).and_then(|row| row.server());
                server.is_some_and(|server| server.request.project == self.project)
            };
            touched.into_iter().filter(own).map(|id| id.to_string()).collect()
        });
        if own.is_empty() {
            return Ok(());
        }
        let message = json!({"servers": own}).to_string();
        self.client.chunk.extend(["data: ", message.as_str(), "\n\n"]);
        self.client.flush().await
    }
}

/// The server whose stream has the event.
fn server_of(recorded: &Recorded) -> Option<InstanceId> {
    (recorded.stream.category() == "instance").then(|| recorded.stream.key().parse().ok()).flatten()
}
