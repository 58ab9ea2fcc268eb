//! The read models of a server. They are loaded from checkpoint and log at start-up, checkpointed while it works, and
//! rebuilt beside the live ones if their version changed. `/healthz`, metrics and log report the progress.

mod gauges;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::{CheckpointKeeper, Checkpoints, OpenedViews};
use chronova_projections::history::History;
use chronova_projections::progress::{WorkProgress, WorkRegistry};
use chronova_projections::replay::{self, ReplayEnd};
use chronova_projections::views::Views;
use chronova_projections::{rebuild, runner};
use chronova_web::health::HealthReport;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::commands::DataDir;
use crate::config::Config;
use crate::config::targets::Targets;

pub(super) use gauges::ReadModelGauges;

/// How often the server's log reports the progress of a long job.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// Differences between old and new that a rebuild on demand reports.
const TOLD_DIFFERENCES: usize = 20;

/// The read models, and the tasks that maintain them.
pub(super) struct ReadModels {
    pub views: Arc<Views>,
    pub history: Arc<History>,
    keeper: Arc<CheckpointKeeper>,
    works: Arc<WorkRegistry>,
    store: Arc<dyn EventStore>,
    remarks: Arc<Vec<String>>,
    provisional: BTreeSet<&'static str>,
    tasks: JoinSet<()>,
}

impl ReadModels {
    /// Loads them from the newest usable checkpoint, and the rest from the log.
    pub(super) async fn open(
        config: &Config,
        targets: &Targets,
        store: &Arc<dyn EventStore>,
        works: &Arc<WorkRegistry>,
    ) -> Result<Self> {
        let mut telling = JoinSet::new();
        telling.spawn(tell(Arc::clone(works)));
        let data = DataDir(config.chronova.data_dir.clone());
        let keys = data.keys_of_views(&**store).context("checkpoints of the read models cannot be sealed")?;
        let checkpoints = Checkpoints::new(data.views(), targets.checkpoints, keys);
        let opened = checkpoints.open(&**store).await.context("cannot load the read models from a checkpoint")?;
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
            rebuild::fill(&**store, &views, &absent, works).await.context("cannot fold the event log")?;
        }
        let views = Arc::new(views);
        let progress = WorkProgress::new("replay", store.head().0.saturating_sub(views.position().0));
        let replaying = works.begin(&progress);
        replay::replay(&**store, &views, ReplayEnd::Head, &progress).await.context("cannot fold the event log")?;
        drop(replaying);
        // The next checkpoint cannot build on one that was skipped or that lacks a read model.
        let good = from.filter(|_| remarks.is_empty());
        let from = good.map(|found| found.mark.position).unwrap_or_default();
        let keeper = CheckpointKeeper::new(Arc::clone(&views), Arc::clone(&checkpoints), targets.keeper, from);
        let history = History::new(Arc::clone(store), Arc::clone(&views), Some(checkpoints), targets.history);
        let (store, works, remarks) = (Arc::clone(store), Arc::clone(works), Arc::new(remarks));
        Ok(Self { views, history, keeper, works, store, remarks, provisional, tasks: telling })
    }

    /// Starts the maintenance tasks; from now on the read models follow the log.
    pub(super) fn attend(&mut self) {
        let (keeper, at_once) = (Arc::clone(&self.keeper), !self.remarks.is_empty() && self.provisional.is_empty());
        self.tasks.spawn(async move {
            if at_once {
                keeper.write().await;
            }
            keeper.keep().await;
        });
        if !self.provisional.is_empty() {
            let (store, views, works) = (Arc::clone(&self.store), Arc::clone(&self.views), Arc::clone(&self.works));
            let (names, keeper) = (self.provisional.clone(), Arc::clone(&self.keeper));
            self.tasks.spawn(async move {
                if renew(&*store, &views, &names, &works, 0).await {
                    keeper.write().await;
                }
            });
        }
    }

    /// Rebuilds all of them beside the live ones, at an operator's request.
    pub(super) fn rebuild_all(&mut self) {
        let (store, views, works) = (Arc::clone(&self.store), Arc::clone(&self.views), Arc::clone(&self.works));
        self.tasks.spawn(async move {
            let names = Views::NAMES.iter().copied().collect();
            renew(&*store, &views, &names, &works, TOLD_DIFFERENCES).await;
        });
    }

    pub(super) fn gauges(&self) -> prometheus::Result<ReadModelGauges> {
        ReadModelGauges::new(Arc::clone(&self.keeper), Arc::clone(&self.history), Arc::clone(&self.works))
    }

    /// The part of `/healthz` about the read models.
    pub(super) fn tale(&self) -> HealthReport {
        let (views, store, keeper) = (Arc::clone(&self.views), Arc::clone(&self.store), Arc::clone(&self.keeper));
        let (works, remarks) = (Arc::clone(&self.works), Arc::clone(&self.remarks));
        Arc::new(move || {
            let kept = keeper.kept();
            json!({
                "position": views.position(),
                "log_position": store.head(),
                "checkpoint": {"position": kept.position, "failure": kept.failure},
                "remarks": *remarks,
                "work": under_way(&works),
            })
        })
    }

    /// Folds the last events, and writes a checkpoint, if that is allowed.
    pub(super) async fn close(mut self, writes: bool) {
        self.tasks.shutdown().await;
        if !writes {
            return;
        }
        match runner::catch_up(&*self.store, &self.views).await {
            Ok(position) if position == self.keeper.kept().position => {}
            // The task has logged its error; the event log has everything.
            Ok(_) => drop(self.keeper.write().await),
            Err(error) => tracing::warn!(%error, "no checkpoint was written"),
        }
    }
}

/// Work under way, as `/healthz` shows it.
pub(super) fn under_way(works: &WorkRegistry) -> Value {
    let work = works.under_way();
    let shown = work.iter().map(|progress| {
        let now = progress.now();
        let (percent, rate) = ((now.percent * 10.0).round() / 10.0, now.events_per_second.round());
        let eta = now.eta.map(|eta| eta.as_secs());
        json!({"what": progress.what, "percent": percent, "events_per_second": rate, "eta_seconds": eta})
    });
    shown.collect()
}

/// Reports the progress of long jobs in the server's log.
async fn tell(works: Arc<WorkRegistry>) {
    loop {
        tokio::time::sleep(TOLD_EVERY).await;
        for progress in works.under_way() {
            tracing::info!("{}: {}", progress.what, progress.now());
        }
    }
}

/// Logs the result of a rebuild of the named read models.
async fn renew(
    store: &dyn EventStore,
    views: &Arc<Views>,
    names: &BTreeSet<&'static str>,
    works: &Arc<WorkRegistry>,
    compare: usize,
) -> bool {
    match rebuild::beside(store, views, names, works, compare).await {
        Ok(rebuilt) if rebuilt.differences.is_empty() => {
            tracing::info!(position = %rebuilt.position, "{} read models were rebuilt and exchanged", names.len());
            true
        }
        Ok(rebuilt) => {
            tracing::error!(position = %rebuilt.position, "rebuilt read models differ from the old ones (old | new)");
            for difference in &rebuilt.differences {
                tracing::error!("{difference}");
            }
            true
        }
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            tracing::error!(%error, cause, "cannot rebuild the read models; those of the older version stay in use");
            false
        }
    }
}
