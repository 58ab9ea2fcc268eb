//! The metrics of the reconcilers, read at each scrape.

use std::sync::Arc;

use chronova_actors::reconcile::run_counts::ReconcilerTally;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGaugeVec, Opts};

/// Reads the tallies at each scrape.
pub(super) struct ReconcilerGauges {
    tallies: Vec<Arc<ReconcilerTally>>,
    runs: IntGaugeVec,
    failures: IntGaugeVec,
    last_run: GaugeVec,
    last_seconds: GaugeVec,
}

impl ReconcilerGauges {
    pub(super) fn new(tallies: Vec<Arc<ReconcilerTally>>) -> prometheus::Result<Self> {
        let labels = &["reconciler"];
        let opts = |name: &str, help: &str| Opts::new(format!("chronova_reconciler_{name}"), help);
        Ok(Self {
            tallies,
            runs: IntGaugeVec::new(opts("runs", "Runs since start-up."), labels)?,
            failures: IntGaugeVec::new(
                opts("failures", "Findings since start-up that could not be repaired."),
                labels,
            )?,
            last_run: GaugeVec::new(opts("last_run_seconds", "End of the last run, since the epoch."), labels)?,
            last_seconds: GaugeVec::new(opts("duration_seconds", "How long the last run took."), labels)?,
        })
    }

    fn parts(&self) -> [&dyn Collector; 4] {
        [&self.runs, &self.failures, &self.last_run, &self.last_seconds]
    }

    fn count(&self) {
        for tally in &self.tallies {
            let (read, labels) = (tally.read(), &[tally.name]);
            self.runs.with_label_values(labels).set(i64::try_from(read.runs).unwrap_or(i64::MAX));
            self.failures.with_label_values(labels).set(i64::try_from(read.failures).unwrap_or(i64::MAX));
            if let Some(at) = read.last_run {
                self.last_run.with_label_values(labels).set(seconds(at.0));
                let micros = i64::try_from(read.last_micros).unwrap_or(i64::MAX);
                self.last_seconds.with_label_values(labels).set(seconds(micros));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric needs no more than the precision of a float")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}

impl Collector for ReconcilerGauges {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.count();
        self.parts().into_iter().flat_map(Collector::collect).collect()
    }
}
