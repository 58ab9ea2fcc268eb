//! The read models of a member, kept in checkpoints. At start-up, they are loaded from a checkpoint and the log. While
//! the member works, it writes new checkpoints. If the version of a read model changed, or an operator requests it, the
//! read model is rebuilt beside the live one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chronova_events::error_chain::ErrorChain;
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::{CheckpointError, CheckpointKeeper, Checkpoints, KeeperOptions, OpenedViews};
use chronova_projections::history::{History, HistoryOptions};
use chronova_projections::progress::{WorkProgress, WorkRegistry};
use chronova_projections::replay::{self, ReplayEnd};
use chronova_projections::runner::ProjectionError;
use chronova_projections::views::Views;
use chronova_projections::{rebuild, runner};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How often the server's log reports the progress of a long job.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// The most differences between old and new that a rebuild on demand reports.
const TOLD_DIFFERENCES: usize = 20;

/// Why the read models cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error("cannot load the read models from a checkpoint")]
    Checkpoint(#[source] CheckpointError),
    #[error("cannot fold the event log")]
    Fold(#[source] ProjectionError),
}

/// The read models, their checkpoints, and the read models of the past.
pub struct KeptCheckpoints {
    pub views: Arc<Views>,
    pub history: Arc<History>,
    pub keeper: Arc<CheckpointKeeper>,
    /// Long jobs that are under way.
    pub works: Arc<WorkRegistry>,
    /// Remarks on the checkpoints at start-up. They say which checkpoints were skipped, and what must be rebuilt.
    pub remarks: Vec<String>,
    log: Arc<dyn EventStore>,
    /// The read models of an older version, which are shown until they are rebuilt.
    provisional: BTreeSet<&'static str>,
    /// Whether the read models of an older version were rebuilt. The keeper writes no checkpoint before that, because
    /// the checkpoint would label them with the present version.
    renewed: watch::Sender<bool>,
    /// Reports the progress of long jobs.
    telling: AbortHandle,
}

impl std::fmt::Debug for KeptCheckpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptCheckpoints").field("remarks", &self.remarks).finish_non_exhaustive()
    }
}

impl KeptCheckpoints {
    /// Loads the read models from the newest usable checkpoint, and the rest from the log.
    ///
    /// # Errors
    /// The checkpoints or the log cannot be read, or an event cannot be folded.
    pub async fn load(
        log: &Arc<dyn EventStore>,
        checkpoints: Arc<Checkpoints>,
        keeper: KeeperOptions,
        history: HistoryOptions,
        works: &Arc<WorkRegistry>,
    ) -> Result<Self, LoadError> {
        let telling = tokio::spawn(tell_progress(Arc::clone(works))).abort_handle();
        let opened = checkpoints.open(&**log).await.map_err(LoadError::Checkpoint)?;
        let remarks = opened.remarks();
        for remark in &remarks {
            tracing::warn!("{remark}");
        }
        match &opened.from {
            Some(found) => tracing::info!(position = %found.mark.position, "read models loaded from a checkpoint"),
            None => tracing::info!("no usable checkpoint: folding the read models from the whole log"),
        }
        let OpenedViews { views, from, provisional, absent, .. } = opened;
        if !absent.is_empty() {
            rebuild::fill(&**log, &views, &absent, works).await.map_err(LoadError::Fold)?;
        }
        let views = Arc::new(views);
        let progress = WorkProgress::new("replay", log.head().0.saturating_sub(views.position().0));
        let replaying = works.begin(&progress);
        replay::replay(&**log, &views, ReplayEnd::Head, &progress).await.map_err(LoadError::Fold)?;
        drop(replaying);
        // If there are remarks, the keeper starts at position 0, as if no checkpoint existed. So the next checkpoint is
        // due soon, and `write_last` does not skip it.
        let good = from.filter(|_| remarks.is_empty());
        let from = good.map(|found| found.mark.position).unwrap_or_default();
        let keeper = CheckpointKeeper::new(Arc::clone(&views), Arc::clone(&checkpoints), keeper, from);
        let history = History::new(Arc::clone(log), Arc::clone(&views), Some(checkpoints), history);
        let (log, works) = (Arc::clone(log), Arc::clone(works));
        let renewed = watch::Sender::new(provisional.is_empty());
        Ok(Self { views, history, keeper, works, remarks, log, provisional, renewed, telling })
    }

    /// Writes checkpoints while the read models change; never ends.
    pub(super) async fn keep(self: Arc<Self>) {
        // `self` has the sender, so the wait cannot fail.
        let mut renewed = self.renewed.subscribe();
        let _ = renewed.wait_for(|renewed| *renewed).await;
        if !self.remarks.is_empty() {
            self.keeper.write().await;
        }
        Arc::clone(&self.keeper).keep().await;
    }

    /// Rebuilds the read models of an older version, if there are any. Writes no checkpoint.
    pub(super) async fn renew_older(self: Arc<Self>) {
        if !self.provisional.is_empty() {
            self.renew(&self.provisional, 0).await;
        }
    }

    pub(super) async fn rebuild_all(self: Arc<Self>) {
        let names = Views::NAMES.iter().copied().collect();
        self.renew(&names, TOLD_DIFFERENCES).await;
    }

    /// Folds the events that the read models do not have yet, and writes a checkpoint unless the newest one already has
    /// all events. Does nothing while read models of an older version are not rebuilt yet.
    pub(super) async fn write_last(&self) {
        if !*self.renewed.borrow() {
            return;
        }
        match runner::catch_up(&*self.log, &self.views).await {
            Ok(position) if position == self.keeper.kept().position => {}
            // The keeper has logged its error. Nothing is lost, because the log has every event.
            Ok(_) => drop(self.keeper.write().await),
            Err(error) => tracing::warn!(%error, "no checkpoint was written"),
        }
    }

    /// Rebuilds the named read models beside the live ones, and logs the result.
    async fn renew(&self, names: &BTreeSet<&'static str>, compare: usize) {
        let rebuilt = rebuild::beside(&*self.log, &self.views, names, &self.works, compare).await;
        if rebuilt.is_ok() && self.provisional.is_subset(names) {
            self.renewed.send_replace(true);
        }
        match rebuilt {
            Ok(rebuilt) if rebuilt.differences.is_empty() => {
                tracing::info!(position = %rebuilt.position, "{} read models were rebuilt and exchanged", names.len());
            }
            Ok(rebuilt) => {
                tracing::error!(position = %rebuilt.position, "rebuilt read models differ from the old ones (old | new)");
                for difference in &rebuilt.differences {
                    tracing::error!("{difference}");
                }
            }
            Err(error) => {
                let error = ErrorChain(&error);
                tracing::error!(%error, "cannot rebuild the read models; the present ones stay in use");
            }
        }
    }
}

impl Drop for KeptCheckpoints {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

/// Reports the progress of long jobs in the server's log; never ends.
async fn tell_progress(works: Arc<WorkRegistry>) {
    loop {
        tokio::time::sleep(TOLD_EVERY).await;
        for progress in works.under_way() {
            tracing::info!("{}: {}", progress.what, progress.now());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chronova_events::clock::SystemClock;
    use chronova_events::envelope::{Meta, NewEvent, StreamId, Timestamp};
    use chronova_events::host;
    use chronova_events::ids::HostId;
    use chronova_events::sealed::keys::KeyRing;
    use chronova_events::store::Expected;
    use chronova_events::store::memory::MemoryStore;
    use chronova_projections::checkpoint::{CheckpointOptions, relabel};
    use uuid::Uuid;

    use super::*;
    use crate::runtime::Member;

    /// The next start must rebuild the read model again, if the member stops before the end of the rebuild.
    #[tokio::test]
    async fn no_checkpoint_is_written_before_an_older_read_model_is_rebuilt() {
        let log: Arc<dyn EventStore> = MemoryStore::new();
        for event in host::samples() {
            let new = NewEvent::new(event, Timestamp(1), &Meta::system("test"));
            log.append(&StreamId::new("host", HostId(Uuid::from_u128(1))), Expected::Any, vec![new]).await.unwrap();
        }
        let views = Views::new();
        runner::catch_up(&*log, &views).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let keys = KeyRing::in_memory().unwrap();
        let checkpoints = Checkpoints::new(folder.path(), CheckpointOptions::default(), keys);
        let saved = checkpoints.save(&views).unwrap();
        relabel(&saved.path, "placement", 1).unwrap();
        let older = async || checkpoints.open(&*log).await.unwrap().provisional;
        assert_eq!(older().await, BTreeSet::from(["placement"]));

        let works = Arc::default();
        let load = async || {
            let (keeper, history) = (KeeperOptions::default(), HistoryOptions::default());
            KeptCheckpoints::load(&log, Arc::clone(&checkpoints), keeper, history, &works).await.unwrap()
        };
        let kept = Arc::new(load().await);
        kept.write_last().await;
        assert_eq!(older().await, BTreeSet::from(["placement"]), "the older state has the present version's number");
        // During an upgrade a follower of the new version rebuilds what an older leader has written, and writes nothing.
        let follower = Member::start_from_checkpoints(Arc::clone(&log), Arc::new(SystemClock), load().await);
        let renewed = &follower.checkpoints.as_ref().unwrap().renewed;
        renewed.subscribe().wait_for(|renewed| *renewed).await.unwrap();
        follower.stop().await;
        assert_eq!(older().await, BTreeSet::from(["placement"]), "a follower has written a checkpoint");
        Arc::clone(&kept).renew_older().await;
        kept.write_last().await;
        assert_eq!(older().await, BTreeSet::new());
        // After the rebuild, checkpoints are written again.
        let again = NewEvent::new(host::samples().remove(0), Timestamp(1), &Meta::system("test"));
        log.append(&StreamId::new("host", HostId(Uuid::from_u128(2))), Expected::Any, vec![again]).await.unwrap();
        kept.write_last().await;
        assert_eq!(kept.keeper.kept().position, log.head());
    }
}
