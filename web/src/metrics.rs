//! Counters of the HTTP layer, in the registry that `/metrics` shows.

use std::time::Duration;

use prometheus::{
    CounterVec, Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// Operations that last as long as the client likes: it follows events, or sends and receives an image's bytes.
const AT_THE_CLIENTS_PACE: [&str; 4] = ["events.list", "changes.follow", "images.upload", "images.download"];

/// Counts requests by service, operation and status. Also measures their durations, and counts the requests in flight.
#[derive(Debug, Clone)]
pub struct HttpMetrics {
    registry: Registry,
    requests: IntCounterVec,
    /// By service alone: there are some 400 operations, and each would have a line per bucket.
    seconds: HistogramVec,
    spent: CounterVec,
    in_flight: IntGaugeVec,
}

impl HttpMetrics {
    /// Registers the web layer's metrics; fails when the registry already has them.
    pub fn new(registry: Registry) -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new("chronova_http_requests_total", "Answered requests."),
            &["service", "operation", "status"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new("chronova_http_request_seconds", "Time from the request's head to the answer's head.")
                .buckets(vec![0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0]),
            &["service"],
        )?;
        let spent = CounterVec::new(
            Opts::new("chronova_http_operation_seconds_total", "The sum of the requests' times."),
            &["service", "operation"],
        )?;
        let in_flight = IntGaugeVec::new(
            Opts::new("chronova_http_requests_in_flight", "Requests that are being served."),
            &["service"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(spent.clone()))?;
        registry.register(Box::new(in_flight.clone()))?;
        Ok(Self { registry, requests, seconds, spent, in_flight })
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn began(&self, service: &str) -> InFlight {
        let gauge = self.in_flight.with_label_values(&[service]);
        gauge.inc();
        InFlight { gauge }
    }

    pub(crate) fn answered(&self, service: &str, operation: &str, status: u16, took: Duration) {
        self.requests.with_label_values(&[service, operation, &status.to_string()]).inc();
        self.spent.with_label_values(&[service, operation]).inc_by(took.as_secs_f64());
        if !AT_THE_CLIENTS_PACE.contains(&operation) {
            self.seconds.with_label_values(&[service]).observe(took.as_secs_f64());
        }
    }

    /// Everything in the registry, in Prometheus' text format.
    pub fn render(&self) -> Result<String, prometheus::Error> {
        let mut buffer = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer).into_owned())
    }
}

/// Counts a request as being served until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    gauge: prometheus::IntGauge,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn counts_and_shows() {
        let metrics = HttpMetrics::new(Registry::new()).unwrap();
        let guard = metrics.began("compute");
        metrics.answered("compute", "servers.index", 200, Duration::from_millis(3));
        let text = metrics.render().unwrap();
        assert!(text.contains("chronova_http_requests_in_flight{service=\"compute\"} 1"), "{text}");
        drop(guard);
        let text = metrics.render().unwrap();
        assert!(text.contains(
            "chronova_http_requests_total{operation=\"servers.index\",service=\"compute\",status=\"200\"} 1"
        ));
        assert!(text.contains("chronova_http_requests_in_flight{service=\"compute\"} 0"));
    }

    #[test]
    fn an_operation_adds_no_line_per_bucket() {
        let metrics = HttpMetrics::new(Registry::new()).unwrap();
        let buckets = || metrics.render().unwrap().lines().filter(|line| line.contains("_bucket{")).count();
        metrics.answered("compute", "servers.index", 200, Duration::from_millis(3));
        let one = buckets();
        assert_ne!(one, 0);
        metrics.answered("compute", "servers.show", 200, Duration::from_millis(3));
        metrics.answered("image", "images.download", 200, Duration::from_secs(90));
        assert_eq!(buckets(), one);
        let text = metrics.render().unwrap();
        let spent = "chronova_http_operation_seconds_total{operation=\"images.download\",service=\"image\"} 90";
        assert!(text.contains(spent), "{text}");
    }
}
