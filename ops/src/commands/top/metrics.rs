//! The metrics that a view shows, read from Prometheus' text format.

use std::collections::BTreeMap;
use std::time::Duration;

/// The metrics of one moment. A metric that the server does not have is 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TopSample {
    pub(super) version: String,
    /// Answered requests, by service.
    pub(super) requests: BTreeMap<String, f64>,
    /// Requests whose answer had a status of 500 or more.
    pub(super) failed: f64,
    /// The time that answered requests took, in seconds.
    pub(super) spent: f64,
    pub(super) in_flight: f64,
    /// The newest position of the log, and the position that the read models have reached.
    pub(super) log: f64,
    pub(super) views: f64,
    pub(super) hosts_up: f64,
    pub(super) hosts_down: f64,
    pub(super) unfinished: f64,
    pub(super) stuck: f64,
}

/// The change between two moments, for each second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TopRates {
    /// The services with requests, the busiest first.
    pub(super) requests: Vec<(String, f64)>,
    pub(super) failed: f64,
    pub(super) events: f64,
    /// The mean time of a request, in seconds; `None` without a request.
    pub(super) mean: Option<f64>,
}

impl TopSample {
    pub(super) fn of(text: &str) -> Self {
        let mut sample = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((series, value)) = line.rsplit_once(' ')
                && let Ok(value) = value.parse::<f64>()
            {
                sample.take(series, value);
            }
        }
        sample
    }

    fn take(&mut self, series: &str, value: f64) {
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        match name {
            "chronova_build_info" => label(labels, "version").unwrap_or_default().clone_into(&mut self.version),
            "chronova_http_requests_total" => {
                let service = label(labels, "service").unwrap_or_default();
                *self.requests.entry(service.to_owned()).or_default() += value;
                if label(labels, "status").is_some_and(|status| status.starts_with('5')) {
                    self.failed += value;
                }
            }
            "chronova_http_operation_seconds_total" => self.spent += value,
            "chronova_http_requests_in_flight" => self.in_flight += value,
            "chronova_log_position" => self.log = value,
            "chronova_views_position" => self.views = value,
            "chronova_hosts" if label(labels, "state") == Some("up") => self.hosts_up = value,
            "chronova_hosts" => self.hosts_down = value,
            "chronova_processes_unfinished" => self.unfinished = value,
            "chronova_processes_stuck" => self.stuck = value,
            _ => {}
        }
    }

    /// The rates since `earlier`, which was `passed` ago. A server that was started meanwhile counts from 0.
    pub(super) fn since(&self, earlier: &Self, passed: Duration) -> TopRates {
        let seconds = passed.as_secs_f64().max(0.001);
        let grown = |now: f64, before: f64| if now >= before { now - before } else { now };
        let mut requests: Vec<(String, f64)> = self
            .requests
            .iter()
            .map(|(service, now)| {
                (service.clone(), grown(*now, earlier.requests.get(service).copied().unwrap_or_default()) / seconds)
            })
            .filter(|(_, rate)| *rate > 0.0)
            .collect();
        requests.sort_by(|a, b| b.1.total_cmp(&a.1));
        let all: f64 = requests.iter().map(|(_, rate)| rate * seconds).sum();
        TopRates {
            requests,
            failed: grown(self.failed, earlier.failed) / seconds,
            events: grown(self.log, earlier.log) / seconds,
            mean: (all > 0.0).then(|| grown(self.spent, earlier.spent) / all),
        }
    }
}

/// The value of a label. Chronova's labels have no quotes in their values.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let labels = labels.trim_end_matches('}').split(',');
    let mut pairs = labels.filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim_matches('"'))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const TEXT: &str = "\
# HELP chronova_hosts Compute hosts.
# TYPE chronova_hosts gauge
chronova_build_info{commit=\"abc\",version=\"0.1.0\"} 1
chronova_hosts{state=\"down\"} 1
chronova_hosts{state=\"up\"} 3
chronova_http_operation_seconds_total{operation=\"servers.index\",service=\"compute\"} 1.5
chronova_http_requests_in_flight{service=\"compute\"} 2
chronova_http_requests_total{operation=\"servers.index\",service=\"compute\",status=\"200\"} 90
chronova_http_requests_total{operation=\"servers.index\",service=\"compute\",status=\"503\"} 10
chronova_http_requests_total{operation=\"tokens.create\",service=\"identity\",status=\"201\"} 50
chronova_log_position 12345
chronova_processes_stuck 1
chronova_processes_unfinished 4
chronova_views_position 12340
";

    #[test]
    fn metrics_are_read_and_compared() {
        let sample = TopSample::of(TEXT);
        assert_eq!((sample.version.as_str(), sample.log, sample.views), ("0.1.0", 12_345.0, 12_340.0));
        assert_eq!((sample.hosts_up, sample.hosts_down, sample.in_flight), (3.0, 1.0, 2.0));
        assert_eq!((sample.unfinished, sample.stuck, sample.failed), (4.0, 1.0, 10.0));
        let mut earlier = sample.clone();
        earlier.requests.insert("compute".to_owned(), 60.0);
        (earlier.failed, earlier.log, earlier.spent) = (8.0, 12_325.0, 0.5);
        let rates = sample.since(&earlier, Duration::from_secs(2));
        assert_eq!(rates.requests, [("compute".to_owned(), 20.0)]);
        assert_eq!((rates.failed, rates.events, rates.mean), (1.0, 10.0, Some(0.025)));
        // The server was restarted.
        earlier.requests.insert("identity".to_owned(), 1_000.0);
        let rates = sample.since(&earlier, Duration::from_secs(2));
        assert_eq!(rates.requests, [("identity".to_owned(), 25.0), ("compute".to_owned(), 20.0)]);
        assert_eq!(sample.since(&sample, Duration::from_secs(2)).mean, None);
    }
}
