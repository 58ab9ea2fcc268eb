//! The read models of a server, with their checkpoints in the data folder. `/healthz` and the metrics report their
//! progress.

mod gauges;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use chronova_actors::runtime::KeptCheckpoints;
use chronova_events::store::EventStore;
use chronova_projections::checkpoint::Checkpoints;
use chronova_projections::progress::WorkRegistry;
use chronova_web::health::HealthReport;
use serde_json::{Value, json};

use crate::commands::DataDir;
use crate::config::Config;
use crate::config::targets::Targets;

pub(super) use gauges::ReadModelGauges;

/// Loads the read models from the newest usable checkpoint, and the rest from the log.
pub(super) async fn load(
    config: &Config,
    targets: &Targets,
    log: &Arc<dyn EventStore>,
    works: &Arc<WorkRegistry>,
) -> Result<KeptCheckpoints> {
    let data = DataDir(config.chronova.data_dir.clone());
    let keys = data.keys_of_views(&**log).context("checkpoints of the read models cannot be sealed")?;
    let checkpoints = Checkpoints::new(data.views(), targets.checkpoints, keys);
    Ok(KeptCheckpoints::load(log, checkpoints, targets.keeper, targets.history, works).await?)
}

/// The part of `/healthz` about the read models.
pub(super) fn report(kept: &Arc<KeptCheckpoints>, log: Arc<dyn EventStore>) -> HealthReport {
    let kept = Arc::clone(kept);
    Arc::new(move || {
        let newest = kept.keeper.kept();
        json!({
            "position": kept.views.position(),
            "log_position": log.head(),
            "checkpoint": {"position": newest.position, "failure": newest.failure},
            "remarks": kept.remarks,
            "work": under_way(&kept.works),
        })
    })
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
