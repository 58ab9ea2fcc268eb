//! Traces: spans of requests, processes, steps and calls, sent to a collector by OTLP over HTTP, as JSON.
//!
//! | span | what it covers | parent |
//! |---|---|---|
//! | `request` | one HTTP request | none |
//! | `process` | one run of a process | the request that began it |
//! | `step`, `undo` | one attempt of a step | its process |
//! | `hypervisor` | one call to a compute host | the request or the step |
//! | `service` | one call to an external service | the request or the step |
//!
//! The id of a trace is the id of its request, so the members of a cluster and a restarted server add to the same trace
//! without any exchange. The first half of that id is the id of the request's span. Calls that neither a request nor a
//! process makes, such as heartbeats, are in no trace.
//!
//! The spans are `tracing` spans of the level INFO. The span of a request is also in log lines. All other spans have
//! the target [`TARGET`], and log lines leave them out. Without a collector nothing is subscribed to them, and each
//! costs two loads of an atomic. The export has no effect on requests: if the collector is slow or away, spans are
//! lost.
//!
//! The crates of OpenTelemetry are not used. The exporter needs one small, stable message of the protocol
//! (`ExportTraceServiceRequest`), and those crates would bring another version of tonic and prost.

mod layer;
mod otlp;

use thiserror::Error;

pub use self::layer::TraceLayer;
pub use self::otlp::TraceExporter;

/// The target of spans that are only for traces.
pub(super) const TARGET: &str = "spans";

#[derive(Debug, Error)]
pub enum TraceError {
    #[error(
        "[chronova] otlp_endpoint is {0:?}: give the address of a collector on this machine or its network, as in \
         http://127.0.0.1:4318/v1/traces"
    )]
    Endpoint(String),
    #[error("the thread that exports traces does not start")]
    Thread(#[source] std::io::Error),
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
enum SpanValue {
    Text(String),
    Number(i64),
    Truth(bool),
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq)]
struct EndedSpan {
    trace: u128,
    id: u64,
    parent: Option<u64>,
    name: String,
    kind: SpanKind,
    /// Since the epoch, in microseconds.
    begun: i64,
    took: std::time::Duration,
    attributes: Vec<(&'static str, SpanValue)>,
    /// The message, if the work failed.
    error: Option<String>,
}

/// The kinds of OTLP with their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
}
