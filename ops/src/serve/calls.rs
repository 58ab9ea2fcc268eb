//! The metrics of the calls to other services, read at each scrape.

use std::sync::Arc;

use chronova_actors::services::external::http::{CallOutcome, ServiceClient};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGaugeVec, Opts};

/// Reads the tallies of the clients.
pub(super) struct CallGauges {
    clients: Vec<Arc<ServiceClient>>,
    calls: IntGaugeVec,
    seconds: GaugeVec,
    answering: IntGaugeVec,
}

impl CallGauges {
    pub(super) fn new(clients: Vec<Arc<ServiceClient>>) -> prometheus::Result<Self> {
        let opts = |name: &str, help: &str| Opts::new(format!("chronova_service_{name}"), help);
        let calls = opts("calls", "Calls to other services since start-up, by outcome.");
        let seconds = opts("call_seconds", "Total time of the calls to other services.");
        let answering = opts("answers", "1 if the service answers, 0 if it does not.");
        Ok(Self {
            clients,
            calls: IntGaugeVec::new(calls, &["service", "outcome"])?,
            seconds: GaugeVec::new(seconds, &["service"])?,
            answering: IntGaugeVec::new(answering, &["service"])?,
        })
    }

    fn parts(&self) -> [&dyn Collector; 3] {
        [&self.calls, &self.seconds, &self.answering]
    }

    fn count(&self) {
        // Several addresses of one service count together.
        self.calls.reset();
        self.seconds.reset();
        self.answering.reset();
        for client in &self.clients {
            let (name, tally) = (client.name(), client.tally());
            for outcome in CallOutcome::ALL {
                let calls = i64::try_from(tally.calls(outcome)).unwrap_or(i64::MAX);
                self.calls.with_label_values(&[name, outcome.name()]).add(calls);
            }
            self.seconds.with_label_values(&[name]).add(tally.time().as_secs_f64());
            let answers = self.answering.with_label_values(&[name]);
            answers.set(answers.get().max(i64::from(client.trouble().is_none())));
        }
    }
}

impl Collector for CallGauges {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.count();
        self.parts().into_iter().flat_map(Collector::collect).collect()
    }
}
