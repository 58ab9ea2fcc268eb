//! The read models of a server: from checkpoint and log at the start, kept on disk while it works, rebuilt beside the live
//! ones where their version changed, and what is told about all that.

mod gauges;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::{Checkpoints, Keeper, Opened};
use chronova_projections::history::History;
use chronova_projections::progress::{Progress, Works};
use chronova_projections::replay::{self, Until};
use chronova_projections::views::Views;
use chronova_projections::{rebuild, runner};
use chronova_web::health::Tale;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::commands::DataDir;
use crate::config::Config;
use crate::config::targets::Targets;

pub(super) use gauges::ReadModelGauges;

/// How often the log of the server tells how far a long work has come.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// Differences between old and new that a rebuild on demand tells.
const TOLD_DIFFERENCES: usize = 20;

/// The read models, and those who look after them.
pub(super) struct ReadModels {
    pub views: Arc<Views>,
    pub history: Arc<History>,
    keeper: Arc<Keeper>,
    works: Arc<Works>,
    store: Arc<dyn EventStore>,
    remarks: Arc<Vec<String>>,
    provisional: BTreeSet<&'static str>,
    tasks: JoinSet<()>,
}

impl ReadModels {
    /// Takes them from the newest checkpoint that can be used, and what it lacks from the log.
    pub(super) async fn open(
        config: &Config,
        targets: &Targets,
        store: &Arc<dyn EventStore>,
        works: &Arc<Works>,
    ) -> Result<Self> {
        let mut telling = JoinSet::new();
        telling.spawn(tell(Arc::clone(works)));
        let data = DataDir(config.chronova.data_dir.clone());
        let keys = data.keys_of_views(&**store).context("checkpoints of the read models cannot be sealed")?;
        let checkpoints = Checkpoints::new(data.views(), targets.checkpoints, keys);
        let opened = checkpoints.open(&**store).await.context("the read models cannot be taken from a checkpoint")?;
        let remarks = opened.remarks();
        for remark in &remarks {
            tracing::warn!("{remark}");
        }
        match &opened.from {
            Some(found) => tracing::info!(position = %found.mark.position, "read models taken from their checkpoint"),
            None => tracing::info!("read models are folded from the whole log"),
        }
        let Opened { views, from, provisional, absent, .. } = opened;
        if !absent.is_empty() {
            rebuild::fill(&**store, &views, &absent, works).await.context("the event log cannot be folded")?;
        }
        let views = Arc::new(views);
        let progress = Progress::new("replay", store.head().0.saturating_sub(views.position().0));
        let replaying = works.begin(&progress);
        replay::replay(&**store, &views, Until::Head, &progress).await.context("the event log cannot be folded")?;
        drop(replaying);
        // A checkpoint that was passed over, or that lacks a read model, is no start for the next one.
        let good = from.filter(|_| remarks.is_empty());
        let from = good.map(|found| found.mark.position).unwrap_or_default();
        let keeper = Keeper::new(Arc::clone(&views), Arc::clone(&checkpoints), targets.keeper, from);
        let history = History::new(Arc::clone(store), Arc::clone(&views), Some(checkpoints), targets.history);
        let (store, works, remarks) = (Arc::clone(store), Arc::clone(works), Arc::new(remarks));
        Ok(Self { views, history, keeper, works, store, remarks, provisional, tasks: telling })
    }

    /// Begins to look after them; they are followed from now on.
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

    /// Rebuilds all of them beside the live ones, because an operator asked for it.
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
    pub(super) fn tale(&self) -> Tale {
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

    /// Takes in what was appended last, and keeps a checkpoint.
    pub(super) async fn close(mut self) {
        self.tasks.shutdown().await;
        match runner::catch_up(&*self.store, &self.views).await {
            Ok(position) if position == self.keeper.kept().position => {}
            // Says itself what went wrong; the log has everything.
            Ok(_) => drop(self.keeper.write().await),
            Err(error) => tracing::warn!(%error, "no checkpoint is kept"),
        }
    }
}

/// Work under way, as `/healthz` shows it.
pub(super) fn under_way(works: &Works) -> Value {
    let work = works.under_way();
    let shown = work.iter().map(|progress| {
        let now = progress.now();
        let (percent, rate) = ((now.percent * 10.0).round() / 10.0, now.events_per_second.round());
        let eta = now.eta.map(|eta| eta.as_secs());
        json!({"what": progress.what, "percent": percent, "events_per_second": rate, "eta_seconds": eta})
    });
    shown.collect()
}

/// Says in the server's log how far long works have come.
async fn tell(works: Arc<Works>) {
    loop {
        tokio::time::sleep(TOLD_EVERY).await;
        for progress in works.under_way() {
            tracing::info!("{}: {}", progress.what, progress.now());
        }
    }
}

/// Says whether the named read models are new.
async fn renew(
    store: &dyn EventStore,
    views: &Arc<Views>,
    names: &BTreeSet<&'static str>,
    works: &Arc<Works>,
    compare: usize,
) -> bool {
    match rebuild::beside(store, views, names, works, compare).await {
        Ok(rebuilt) if rebuilt.differences.is_empty() => {
            tracing::info!(position = %rebuilt.position, "{} read models were rebuilt and exchanged", names.len());
            true
        }
        Ok(rebuilt) => {
            tracing::error!(position = %rebuilt.position, "rebuilt read models replaced ones that differed (old | new)");
            for difference in &rebuilt.differences {
                tracing::error!("{difference}");
            }
            true
        }
        Err(error) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            tracing::error!(%error, cause, "read models could not be rebuilt; those of the other version stay");
            false
        }
    }
}
