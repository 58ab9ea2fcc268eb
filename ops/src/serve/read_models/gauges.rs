//! Metrics of checkpoints, past states and long jobs, counted at each scrape.

use std::sync::Arc;

use chronova_actors::runtime::KeptCheckpoints;
use chronova_projections::checkpoint::CheckpointKeeper;
use chronova_projections::history::History;
use chronova_projections::progress::WorkRegistry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGauge, Opts};

pub(in super::super) struct ReadModelGauges {
    keeper: Arc<CheckpointKeeper>,
    history: Arc<History>,
    works: Arc<WorkRegistry>,
    position: IntGauge,
    bytes: IntGauge,
    failing: IntGauge,
    held: IntGauge,
    held_bytes: IntGauge,
    percent: GaugeVec,
    rate: GaugeVec,
    eta: GaugeVec,
}

impl ReadModelGauges {
    pub(in super::super) fn new(kept: &KeptCheckpoints) -> prometheus::Result<Self> {
        let gauge = |name, help| IntGauge::with_opts(Opts::new(name, help));
        let work = |name, help| GaugeVec::new(Opts::new(name, help), &["work"]);
        Ok(Self {
            keeper: Arc::clone(&kept.keeper),
            history: Arc::clone(&kept.history),
            works: Arc::clone(&kept.works),
            position: gauge("chronova_checkpoint_position", "Position of the newest checkpoint of the read models.")?,
            bytes: gauge("chronova_checkpoint_bytes", "Size of the newest checkpoint written by this process.")?,
            failing: gauge("chronova_checkpoint_failing", "1 when the latest checkpoint could not be written.")?,
            held: gauge("chronova_past_states", "Past states held in memory for queries of the past.")?,
            held_bytes: gauge("chronova_past_states_bytes", "Approximate memory of the past states.")?,
            percent: work("chronova_replay_percent", "How far a replay or rebuild of read models has come.")?,
            rate: work("chronova_replay_events_per_second", "Events that a replay or rebuild folds in a second.")?,
            eta: work("chronova_replay_eta_seconds", "Time until a replay or rebuild will be done.")?,
        })
    }

    fn parts(&self) -> [&dyn Collector; 8] {
        [&self.position, &self.bytes, &self.failing, &self.held, &self.held_bytes, &self.percent, &self.rate, &self.eta]
    }

    fn count(&self) {
        let kept = self.keeper.kept();
        self.position.set(signed(kept.position.0));
        self.bytes.set(signed(kept.bytes));
        self.failing.set(i64::from(kept.failure.is_some()));
        let (held, bytes) = self.history.held();
        self.held.set(signed(held as u64));
        self.held_bytes.set(signed(bytes));
        for gauge in [&self.percent, &self.rate, &self.eta] {
            gauge.reset();
        }
        for progress in self.works.under_way() {
            let (now, labels) = (progress.now(), [progress.what.as_str()]);
            self.percent.with_label_values(&labels).set(now.percent);
            self.rate.with_label_values(&labels).set(now.events_per_second);
            if let Some(eta) = now.eta {
                self.eta.with_label_values(&labels).set(eta.as_secs_f64());
            }
        }
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Collector for ReadModelGauges {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.count();
        self.parts().into_iter().flat_map(Collector::collect).collect()
    }
}
