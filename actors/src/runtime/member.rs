//! Every member of a cluster runs these parts: the read models, which follow the log, and their checkpoints.
//!
//! The HTTP listeners and the feeds read the read models. The program around this crate starts the listeners and feeds.
//! Nothing here writes to the log or to a host, so any number of members may run on one log. A [`Member`] has no
//! command gateway. To send a command, it has to lead ([`super::Leadership`]).

use std::sync::Arc;
use std::time::Duration;

use chronova_events::clock::Clock;
use chronova_events::store::EventStore;
use chronova_projections::runner::{self, ProjectionError};
use chronova_projections::views::Views;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::checkpoints::KeptCheckpoints;

/// How long a stop waits until the read models show the last events.
const LAST_EVENTS: Duration = Duration::from_millis(10);

/// A running member.
pub struct Member {
    pub log: Arc<dyn EventStore>,
    pub clock: Arc<dyn Clock>,
    pub views: Arc<Views>,
    /// `None` keeps the read models only in memory.
    pub checkpoints: Option<Arc<KeptCheckpoints>>,
    writes_checkpoints: bool,
    broken: watch::Receiver<Option<String>>,
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("position", &self.views.position()).finish_non_exhaustive()
    }
}

impl Member {
    /// Folds the log into `views`, and makes them follow it, without checkpoints.
    ///
    /// # Errors
    /// The log cannot be read, or an event cannot be folded.
    pub async fn start(
        log: Arc<dyn EventStore>,
        clock: Arc<dyn Clock>,
        views: impl Into<Arc<Views>>,
    ) -> Result<Self, ProjectionError> {
        let views = views.into();
        runner::catch_up(log.as_ref(), &views).await?;
        Ok(Self::follow(log, clock, views, None))
    }

    /// Makes read models that were loaded from a checkpoint follow the log, and writes further checkpoints. Read models
    /// of an older version are rebuilt meanwhile.
    pub fn start_with_checkpoints(
        log: Arc<dyn EventStore>,
        clock: Arc<dyn Clock>,
        checkpoints: KeptCheckpoints,
    ) -> Self {
        let mut member = Self::start_from_checkpoints(log, clock, checkpoints);
        member.keep_checkpoints();
        member
    }

    /// Like [`Member::start_with_checkpoints`], but writes no checkpoint, because several members share the folder, and
    /// only the leader writes to it.
    pub fn start_from_checkpoints(
        log: Arc<dyn EventStore>,
        clock: Arc<dyn Clock>,
        checkpoints: KeptCheckpoints,
    ) -> Self {
        let (views, checkpoints) = (Arc::clone(&checkpoints.views), Arc::new(checkpoints));
        let mut member = Self::follow(log, clock, views, Some(Arc::clone(&checkpoints)));
        member.tasks.spawn(checkpoints.renew_older());
        member
    }

    /// Writes checkpoints from now on.
    pub fn keep_checkpoints(&mut self) {
        self.writes_checkpoints = true;
        if let Some(checkpoints) = &self.checkpoints {
            self.tasks.spawn(Arc::clone(checkpoints).keep());
        }
    }

    fn follow(
        log: Arc<dyn EventStore>,
        clock: Arc<dyn Clock>,
        views: Arc<Views>,
        checkpoints: Option<Arc<KeptCheckpoints>>,
    ) -> Self {
        let (break_down, broken) = watch::channel(None);
        let mut tasks = JoinSet::new();
        let following = runner::follow(Arc::clone(&log), Arc::clone(&views));
        tasks.spawn(async move {
            let error = following.await;
            tracing::error!(%error, "the read models cannot follow the log any more");
            break_down.send_replace(Some(error.to_string()));
        });
        Self { log, clock, views, checkpoints, writes_checkpoints: false, broken, tasks }
    }

    /// The reason why the read models do not follow the log any more; `None` while they do.
    pub fn broken(&self) -> watch::Receiver<Option<String>> {
        self.broken.clone()
    }

    /// Rebuilds all read models from the log beside the live ones, at an operator's request.
    pub fn rebuild_all(&mut self) {
        if let Some(checkpoints) = &self.checkpoints {
            self.tasks.spawn(Arc::clone(checkpoints).rebuild_all());
        }
    }

    /// Folds the last events, and writes a last checkpoint if this member writes checkpoints.
    pub async fn stop(mut self) {
        self.views.wait_for(self.log.head(), LAST_EVENTS).await;
        self.tasks.shutdown().await;
        if let Some(checkpoints) = self.checkpoints.as_ref().filter(|_| self.writes_checkpoints) {
            checkpoints.write_last().await;
        }
    }
}
