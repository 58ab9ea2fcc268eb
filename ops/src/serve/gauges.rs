//! Metrics of the control plane's work, counted at each scrape.

use std::sync::Arc;

use chronova_actors::operations::Queries;
use chronova_events::store::EventStore;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, IntGaugeVec, Opts};

/// Reads the values from the read models at each scrape.
pub(super) struct Gauges {
    queries: Arc<Queries>,
    store: Arc<dyn EventStore>,
    pending: IntGauge,
    stuck: IntGauge,
    hosts: IntGaugeVec,
    head: IntGauge,
    views: IntGauge,
}

impl Gauges {
    pub(super) fn new(queries: Arc<Queries>, store: Arc<dyn EventStore>) -> prometheus::Result<Self> {
        let gauge = |name, help| IntGauge::with_opts(Opts::new(name, help));
        let hosts = Opts::new("chronova_hosts", "Compute hosts, by whether they answer.");
        Ok(Self {
            queries,
            store,
            pending: gauge("chronova_processes_unfinished", "Processes that have not ended.")?,
            stuck: gauge(
                "chronova_processes_stuck",
                "Processes that are stuck: a step that has to succeed fails at every attempt.",
            )?,
            hosts: IntGaugeVec::new(hosts, &["state"])?,
            head: gauge("chronova_log_position", "Position of the newest event of the log.")?,
            views: gauge("chronova_views_position", "Position up to which the read models have followed the log.")?,
        })
    }

    fn parts(&self) -> [&dyn Collector; 5] {
        [&self.pending, &self.stuck, &self.hosts, &self.head, &self.views]
    }

    fn count(&self) {
        let views = &self.queries.views;
        let (pending, stuck) = views.processes.read(|view| (view.len(), view.stuck().count()));
        let (all, up) = views.hosts.read(|view| (view.all().count(), view.all().filter(|host| host.answers()).count()));
        self.pending.set(signed(pending as u64));
        self.stuck.set(signed(stuck as u64));
        self.hosts.with_label_values(&["up"]).set(signed(up as u64));
        self.hosts.with_label_values(&["down"]).set(signed((all - up) as u64));
        self.head.set(signed(self.store.head().0));
        self.views.set(signed(views.position().0));
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Collector for Gauges {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.count();
        self.parts().into_iter().flat_map(Collector::collect).collect()
    }
}
