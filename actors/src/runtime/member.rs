//! The parts that every member of a cluster runs: the read models that follow the log.
//!
//! Checkpoints, the HTTP listeners and the feeds read the same models; the program around this crate starts them. Nothing
//! here writes to the log or to a host, so any number of members may run it on one log.

use std::sync::Arc;

use chronova_events::store::EventStore;
use chronova_projections::runner;
use chronova_projections::views::Views;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The running read models.
#[derive(Debug)]
pub struct FollowingMember {
    following: JoinHandle<()>,
    broken: watch::Receiver<Option<String>>,
}

impl FollowingMember {
    /// Makes `views` follow the log for ever.
    pub fn start(store: Arc<dyn EventStore>, views: Arc<Views>) -> Self {
        let (break_down, broken) = watch::channel(None);
        let following = tokio::spawn(async move {
            let error = runner::follow(store, views).await;
            tracing::error!(%error, "the read models cannot follow the log any more");
            break_down.send_replace(Some(error.to_string()));
        });
        Self { following, broken }
    }

    /// The reason why the read models do not follow the log any more; `None` while they do.
    pub fn broken(&self) -> watch::Receiver<Option<String>> {
        self.broken.clone()
    }

    pub fn stop(self) {
        self.following.abort();
    }
}
