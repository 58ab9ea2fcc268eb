//! The thread that sends spans to the collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Agent;

use super::layer::TraceLayer;
use super::{EndedSpan, SpanValue, TraceError};

/// The number of spans that wait for the thread; further ones are lost.
const QUEUE: usize = 8_192;
/// The largest number of spans in one message.
const BATCH: usize = 512;
/// The longest time that a span waits for others.
const WAIT: Duration = Duration::from_secs(2);
/// The time limit of one message.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a server that stops waits for the last messages: a collector may hang.
const LAST: Duration = Duration::from_secs(5);
/// The interval at which a server that stops checks whether the last messages are sent.
const LOOK: Duration = Duration::from_millis(5);

/// Exports spans until it is dropped. Then it sends the last ones, if the collector takes them in time.
#[derive(Debug)]
pub struct TraceExporter {
    end: SyncSender<Option<EndedSpan>>,
    thread: Option<JoinHandle<()>>,
}

impl TraceExporter {
    /// Starts the export to `endpoint`. `instance`: the name of this process among those of the cloud.
    ///
    /// # Errors
    /// The address is not an `http` URL, or the thread does not start.
    pub fn start(endpoint: &str, instance: &str) -> Result<(Self, TraceLayer), TraceError> {
        let wrong = || TraceError::Endpoint(without_credentials(endpoint));
        let url: ureq::http::Uri = endpoint.parse().map_err(|_| wrong())?;
        if url.scheme_str() != Some("http") || url.host().is_none() {
            return Err(wrong());
        }
        let (end, spans) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let layer = TraceLayer::new(end.clone(), Arc::clone(&lost));
        let sender =
            SpanSender { agent: agent(), url: endpoint.to_owned(), instance: instance.to_owned(), fails: false };
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || run(sender, &spans, &lost));
        Ok((Self { end, thread: Some(thread.map_err(TraceError::Thread)?) }, layer))
    }
}

impl Drop for TraceExporter {
    #[expect(clippy::disallowed_methods, reason = "the process ends, and waits for the last spans for a limited time")]
    fn drop(&mut self) {
        // If the queue is full or the collector does not answer, the thread ends with the process.
        let asked = self.end.try_send(None).is_ok();
        let until = Instant::now() + LAST;
        let Some(thread) = self.thread.take().filter(|_| asked) else { return };
        while !thread.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
}

fn agent() -> Agent {
    Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER)).build().into()
}

fn run(mut sender: SpanSender, spans: &Receiver<Option<EndedSpan>>, lost: &AtomicU64) {
    // The HTTP client makes no spans, so an export causes no further export.
    loop {
        let (batch, ended) = next_batch(spans);
        sender.send(&batch);
        let missed = lost.swap(0, Ordering::Relaxed);
        if missed > 0 {
            tracing::warn!(spans = missed, "spans of traces were lost, because the collector is too slow");
        }
        if ended {
            return;
        }
    }
}

/// The next spans, and whether the export ends.
fn next_batch(spans: &Receiver<Option<EndedSpan>>) -> (Vec<EndedSpan>, bool) {
    let mut batch = Vec::new();
    match spans.recv() {
        Ok(Some(first)) => batch.push(first),
        Ok(None) | Err(_) => return (batch, true),
    }
    let until = Instant::now() + WAIT;
    while batch.len() < BATCH {
        match spans.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Some(span)) => batch.push(span),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return (batch, true),
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    (batch, false)
}

struct SpanSender {
    agent: Agent,
    url: String,
    instance: String,
    /// Whether the last message was refused, so that the log has one line for each change.
    fails: bool,
}

impl SpanSender {
    /// Sends a message. Spans that the collector does not take are lost.
    fn send(&mut self, spans: &[EndedSpan]) {
        if spans.is_empty() {
            return;
        }
        let sent = self.agent.post(&self.url).send_json(message(&self.instance, spans));
        let problem = match sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answers {}", answer.status().as_u16())),
            Err(error) => Some(error.to_string()),
        };
        let url = without_credentials(&self.url);
        match &problem {
            Some(reason) if !self.fails => tracing::warn!(url, reason, "the collector takes no traces"),
            None if self.fails => tracing::info!(url, "the collector takes traces again"),
            _ => {}
        }
        self.fails = problem.is_some();
    }
}

/// The address without the user and the password that it may have. A password may contain any character.
fn without_credentials(url: &str) -> String {
    let Some((before, rest)) = url.rsplit_once('@') else { return url.to_owned() };
    match before.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://{rest}"),
        None => rest.to_owned(),
    }
}

/// An `ExportTraceServiceRequest` in the JSON form of OTLP 1: ids are hexadecimal, 64-bit numbers are texts.
fn message(instance: &str, spans: &[EndedSpan]) -> Value {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            text("service.name", "chronova"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", instance),
        ]},
        "scopeSpans": [{"scope": {"name": "chronova"}, "spans": spans.iter().map(shown).collect::<Vec<Value>>()}],
    }]})
}

fn shown(span: &EndedSpan) -> Value {
    let begun = u128::try_from(span.begun).unwrap_or_default() * 1_000;
    let attributes: Vec<Value> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut shown = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": span.kind as u8,
        "startTimeUnixNano": begun.to_string(),
        "endTimeUnixNano": (begun + span.took.as_nanos()).to_string(),
        "attributes": attributes,
        "status": match &span.error {
            Some(message) => json!({"code": 2, "message": message}),
            None => json!({}),
        },
    });
    if let Some(parent) = span.parent {
        shown["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    shown
}

fn attribute(name: &str, value: &SpanValue) -> Value {
    let value = match value {
        SpanValue::Text(text) => json!({"stringValue": text}),
        SpanValue::Number(number) => json!({"intValue": number.to_string()}),
        SpanValue::Truth(truth) => json!({"boolValue": truth}),
    };
    json!({"key": format!("chronova.{name}"), "value": value})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;

    use super::super::SpanKind;
    use super::*;

    fn span(name: &str, error: Option<&str>) -> EndedSpan {
        EndedSpan {
            trace: 0xab,
            id: 0xcd,
            parent: error.map(|_| 0xef),
            name: name.to_owned(),
            kind: SpanKind::Client,
            begun: 1_700_000_000_000_000,
            took: Duration::from_nanos(2_500),
            attributes: vec![("call", SpanValue::Text("spawn".to_owned())), ("status", SpanValue::Number(7))],
            error: error.map(str::to_owned),
        }
    }

    /// Answers one request, and returns its path and its body.
    fn collect(listener: &TcpListener, answer: &str) -> (String, Value) {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).unwrap();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        write!(&stream, "HTTP/1.1 {answer}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}").unwrap();
        (first.trim().to_owned(), serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn spans_reach_the_collector_at_the_latest_at_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let collector = std::thread::spawn(move || collect(&listener, "200 OK"));
        let (exporter, layer) = TraceExporter::start(&url, "control-1").unwrap();
        exporter.end.send(Some(span("hypervisor spawn", None))).unwrap();
        exporter.end.send(Some(span("step spawn_guest", Some("no room")))).unwrap();
        drop((layer, exporter));
        let (head, body) = collector.join().unwrap();
        assert_eq!(head, "POST /v1/traces HTTP/1.1");
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let wanted = json!({
            "traceId": "000000000000000000000000000000ab", "spanId": "00000000000000cd", "name": "hypervisor spawn",
            "kind": 3, "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000000002500",
            "attributes": [{"key": "chronova.call", "value": {"stringValue": "spawn"}},
                           {"key": "chronova.status", "value": {"intValue": "7"}}],
            "status": {},
        });
        assert_eq!(spans[0], wanted);
        assert_eq!(spans[1]["parentSpanId"], "00000000000000ef");
        assert_eq!(spans[1]["status"], json!({"code": 2, "message": "no room"}));
        let resource = body["resourceSpans"][0]["resource"]["attributes"].to_string();
        assert!(resource.contains("chronova") && resource.contains("control-1"), "{resource}");
    }

    #[test]
    fn a_collector_that_is_away_or_refuses_changes_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let mut sender = SpanSender { agent: agent(), url, instance: String::new(), fails: false };
        let collector = std::thread::spawn(move || collect(&listener, "503 Busy"));
        sender.send(&[span("a", None)]);
        collector.join().unwrap();
        assert!(sender.fails);
        // The listener is gone by now.
        sender.send(&[span("b", None)]);
        assert!(sender.fails);
    }

    #[test]
    fn the_address_is_checked() {
        for wrong in ["", "127.0.0.1:4318", "https://collector:4318/v1/traces", "grpc://127.0.0.1:4317", "http://"] {
            assert!(matches!(TraceExporter::start(wrong, ""), Err(TraceError::Endpoint(_))), "{wrong:?}");
        }
    }

    #[test]
    fn credentials_in_the_address_are_not_shown() {
        for (url, shown) in [
            ("http://tracer:s3cret@collector:4318/v1/traces", "http://collector:4318/v1/traces"),
            ("http://tracer:s3c/r@t@collector/v1/traces", "http://collector/v1/traces"),
            ("tracer:s3cret@collector", "collector"),
            ("http://collector:4318/v1/traces", "http://collector:4318/v1/traces"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
        let told = TraceExporter::start("https://tracer:s3cret@collector/", "").unwrap_err().to_string();
        assert!(told.contains("https://collector/") && !told.contains("s3cret"), "{told}");
    }
}
