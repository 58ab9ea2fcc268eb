//! Counters of the HTTP layer, in the registry that `/metrics` shows.

mod open_metrics;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chronova_events::ids::RequestId;
use prometheus::{
    CounterVec, Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// Operations that last as long as the client likes, because the client follows events, or sends or receives the bytes
/// of an image.
const AT_THE_CLIENTS_PACE: [&str; 4] = ["events.list", "changes.follow", "images.upload", "images.download"];

/// The upper bounds of the durations' buckets, in seconds.
const BUCKETS: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// The latest request of a bucket, by which a reader of the metrics finds it in the logs.
#[derive(Debug, Clone)]
struct RequestExemplar {
    request_id: RequestId,
    seconds: f64,
}

/// The exemplars by service and number of the bucket.
type Exemplars = HashMap<(&'static str, usize), RequestExemplar>;

/// Counts requests by service, operation and status. Also measures their durations, and counts the requests in flight.
#[derive(Debug, Clone)]
pub struct HttpMetrics {
    registry: Registry,
    requests: IntCounterVec,
    /// The durations by service, not by operation. There are more than 500 operations, and each would have a line per
    /// bucket.
    seconds: HistogramVec,
    spent: CounterVec,
    in_flight: IntGaugeVec,
    exemplars: Arc<Mutex<Exemplars>>,
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
                .buckets(BUCKETS.to_vec()),
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
        Ok(Self { registry, requests, seconds, spent, in_flight, exemplars: Arc::default() })
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn began(&self, service: &str) -> InFlight {
        let gauge = self.in_flight.with_label_values(&[service]);
        gauge.inc();
        InFlight { gauge }
    }

    pub(crate) fn answered(
        &self,
        service: &'static str,
        operation: &str,
        status: u16,
        took: Duration,
        request_id: &RequestId,
    ) {
        let seconds = took.as_secs_f64();
        self.requests.with_label_values(&[service, operation, &status.to_string()]).inc();
        self.spent.with_label_values(&[service, operation]).inc_by(seconds);
        if AT_THE_CLIENTS_PACE.contains(&operation) {
            return;
        }
        self.seconds.with_label_values(&[service]).observe(seconds);
        let bucket = BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
        let exemplar = RequestExemplar { request_id: request_id.clone(), seconds };
        let mut exemplars = self.exemplars.lock().unwrap_or_else(PoisonError::into_inner);
        exemplars.insert((service, bucket), exemplar);
    }

    /// Everything in the registry, in a format that the client accepts: OpenMetrics with exemplars, or Prometheus' text
    /// format. Returns the content type, too.
    pub fn render(&self, accept: &str) -> Result<(&'static str, String), prometheus::Error> {
        let mut buffer = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut buffer)?;
        let text = String::from_utf8_lossy(&buffer).into_owned();
        if !open_metrics::is_accepted(accept) {
            return Ok(("text/plain; version=0.0.4; charset=utf-8", text));
        }
        let latest = self.exemplars.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let named = latest.into_iter().map(|((service, bucket), exemplar)| {
            let bound = BUCKETS.get(bucket).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            let RequestExemplar { request_id, seconds } = exemplar;
            let series = format!("chronova_http_request_seconds_bucket{{service=\"{service}\",le=\"{bound}\"}}");
            (series, format!("{{request_id=\"{request_id}\"}} {seconds}"))
        });
        Ok((open_metrics::CONTENT_TYPE, open_metrics::render(&text, &named.collect())))
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

    fn text(metrics: &HttpMetrics) -> String {
        metrics.render("text/plain").unwrap().1
    }

    fn answered(metrics: &HttpMetrics, service: &'static str, operation: &str, took: Duration) {
        metrics.answered(service, operation, 200, took, &RequestId::new("req-1"));
    }

    #[test]
    fn counts_and_shows() {
        let metrics = HttpMetrics::new(Registry::new()).unwrap();
        let guard = metrics.began("compute");
        answered(&metrics, "compute", "servers.index", Duration::from_millis(3));
        let before = text(&metrics);
        assert!(before.contains("chronova_http_requests_in_flight{service=\"compute\"} 1"), "{before}");
        drop(guard);
        let after = text(&metrics);
        assert!(after.contains(
            "chronova_http_requests_total{operation=\"servers.index\",service=\"compute\",status=\"200\"} 1"
        ));
        assert!(after.contains("chronova_http_requests_in_flight{service=\"compute\"} 0"));
    }

    #[test]
    fn an_operation_adds_no_line_per_bucket() {
        let metrics = HttpMetrics::new(Registry::new()).unwrap();
        let buckets = || text(&metrics).lines().filter(|line| line.contains("_bucket{")).count();
        answered(&metrics, "compute", "servers.index", Duration::from_millis(3));
        let one = buckets();
        assert_ne!(one, 0);
        answered(&metrics, "compute", "servers.show", Duration::from_millis(3));
        answered(&metrics, "image", "images.download", Duration::from_secs(90));
        assert_eq!(buckets(), one);
        let spent = "chronova_http_operation_seconds_total{operation=\"images.download\",service=\"image\"} 90";
        assert!(text(&metrics).contains(spent), "{}", text(&metrics));
    }

    #[test]
    fn buckets_name_their_latest_request_in_open_metrics() {
        const ACCEPT: &str = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let metrics = HttpMetrics::new(Registry::new()).unwrap();
        for (id, millis) in [("req-old", 4), ("req-new", 3), ("req-slow", 90_000)] {
            metrics.answered("compute", "servers.index", 200, Duration::from_millis(millis), &RequestId::new(id));
        }
        answered(&metrics, "image", "images.download", Duration::from_secs(90));
        let (kind, open) = metrics.render(ACCEPT).unwrap();
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        let exemplars: Vec<&str> = open.lines().filter(|line| line.contains(" # {")).collect();
        let bucket = "chronova_http_request_seconds_bucket{service=\"compute\",le=";
        let expected = [
            format!("{bucket}\"0.005\"}} 2 # {{request_id=\"req-new\"}} 0.003"),
            format!("{bucket}\"+Inf\"}} 3 # {{request_id=\"req-slow\"}} 90"),
        ];
        assert_eq!(exemplars, expected, "{open}");
        assert!(open.contains("# TYPE chronova_http_requests counter\n"), "{open}");
        assert!(open.contains("\nchronova_http_requests_total{operation=\"servers.index\""), "{open}");
        assert!(open.ends_with("\n# EOF\n") && open.matches("# EOF").count() == 1, "{open}");
        let (kind, plain) = metrics.render("text/plain;version=0.0.4").unwrap();
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        assert!(
            !plain.contains("req-") && !plain.contains("EOF") && plain.contains("# TYPE chronova_http_requests_total")
        );
    }
}
