//! The subscriber that turns `tracing` spans into spans of traces.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use chronova_events::clock::{Clock as _, SystemClock};
use chronova_events::entropy;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, filter_fn};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use uuid::Uuid;

use super::{EndedSpan, SpanKind, SpanValue, TARGET};

/// The name and the target of the span of a request that a listener takes. The span of a request that another member
/// has forwarded has the same name and another target.
const REQUEST: (&str, &str) = ("request", "chronova_web::server");
const FORWARDED: (&str, &str) = ("request", "chronova_web::cluster::door");

/// The field that completes the name of a span.
const NAMED_BY: [(&str, &str); 6] = [
    ("request", "operation"),
    ("process", "kind"),
    ("step", "step"),
    ("undo", "step"),
    ("hypervisor", "call"),
    ("service", "service"),
];

pub struct TraceLayer {
    ended: SyncSender<Option<EndedSpan>>,
    /// The number of spans that were lost because the queue was full.
    lost: Arc<AtomicU64>,
}

impl Debug for TraceLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceLayer").finish_non_exhaustive()
    }
}

/// A span that has not ended.
struct OpenSpan {
    trace: u128,
    id: u64,
    parent: Option<u64>,
    kind: SpanKind,
    begun: i64,
    since: Instant,
    fields: TraceFields,
}

#[derive(Default)]
struct TraceFields(Vec<(&'static str, SpanValue)>);

impl TraceFields {
    fn set(&mut self, field: &Field, value: SpanValue) {
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, known)) => *known = value,
            None => self.0.push((field.name(), value)),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).and_then(|(_, value)| match value {
            SpanValue::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.0.iter().find(|(known, _)| *known == name).and_then(|(_, value)| match value {
            SpanValue::Number(number) => Some(*number),
            _ => None,
        })
    }
}

impl Visit for TraceFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, SpanValue::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, SpanValue::Text(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, SpanValue::Number(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, SpanValue::Number(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, SpanValue::Truth(value));
    }
}

impl TraceLayer {
    pub(super) fn new(ended: SyncSender<Option<EndedSpan>>, lost: Arc<AtomicU64>) -> Self {
        Self { ended, lost }
    }

    /// Selects the spans that belong in traces. Their level is INFO, and the filter gives INFO as its maximum.
    /// Otherwise `tracing`, and `log` with it, would ask the subscribers about each TRACE line of every library.
    pub(in crate::telemetry) fn filter() -> FilterFn {
        let takes: fn(&Metadata<'_>) -> bool = Self::takes;
        filter_fn(takes).with_max_level_hint(LevelFilter::INFO)
    }

    fn takes(metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
            && *metadata.level() <= Level::INFO
            && (metadata.target() == TARGET || is(metadata, REQUEST) || is(metadata, FORWARDED))
    }
}

fn is(metadata: &Metadata<'_>, (name, target): (&str, &str)) -> bool {
    (metadata.name(), metadata.target()) == (name, target)
}

/// The trace of a request: the UUID in its id. Ids of other clients may have another form.
fn trace_of(request: &str) -> u128 {
    let own = request.strip_prefix("req-").unwrap_or(request).parse::<Uuid>();
    own.unwrap_or_else(|_| Uuid::new_v5(&Uuid::NAMESPACE_OID, request.as_bytes())).as_u128()
}

/// The id of the span of a trace's request.
fn root_of(trace: u128) -> u64 {
    Uuid::from_u128(trace).as_u64_pair().0
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = TraceFields::default();
        attributes.record(&mut fields);
        let metadata = attributes.metadata();
        let above = span
            .parent()
            .and_then(|parent| parent.extensions().get::<OpenSpan>().map(|open: &OpenSpan| (open.trace, open.id)));
        let of_request = fields.text("request_id").map(trace_of).or(above.map(|(trace, _)| trace));
        // A process that no request began is a trace of its own.
        let Some(trace) = of_request.or_else(|| fields.text("process").map(trace_of)) else { return };
        let (root, is_request) = (root_of(trace), is(metadata, REQUEST));
        let is_first = is_request || of_request.is_none();
        let parent = if is_first { None } else { Some(above.map_or(root, |(_, id)| id)) };
        let own = if is_request { root } else { entropy::uuid().as_u64_pair().1 };
        let kind = match metadata.name() {
            "request" => SpanKind::Server,
            "hypervisor" | "service" => SpanKind::Client,
            _ => SpanKind::Internal,
        };
        let (begun, since) = (SystemClock.now().0, Instant::now());
        span.extensions_mut().insert(OpenSpan { trace, id: own, parent, kind, begun, since, fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        if self.ended.try_send(Some(open.end(span.name()))).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl OpenSpan {
    fn end(self, name: &'static str) -> EndedSpan {
        let took = self.since.elapsed();
        let field = NAMED_BY.iter().find(|(known, _)| *known == name).map(|(_, field)| *field);
        let name = match field.and_then(|field| self.fields.text(field)) {
            Some(detail) => format!("{name} {detail}"),
            None => name.to_owned(),
        };
        let failed = |status: i64| (status >= 500).then(|| format!("status {status}"));
        let error = self.fields.text("error").map(str::to_owned);
        let error = error.or_else(|| self.fields.number("status").and_then(failed));
        let attributes = self.fields.0.into_iter().filter(|(name, _)| *name != "error").collect();
        let (trace, id, parent, kind, begun) = (self.trace, self.id, self.parent, self.kind, self.begun);
        EndedSpan { trace, id, parent, name, kind, begun, took, attributes, error }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::sync::mpsc::sync_channel;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    const REQUEST_ID: &str = "req-00112233-4455-6677-8899-aabbccddeeff";
    const TRACE: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;

    /// The spans that `work` makes, in the order of their ends.
    fn traced(room: usize, work: impl FnOnce()) -> (Vec<EndedSpan>, u64) {
        let (sender, receiver) = sync_channel(room);
        let lost = Arc::new(AtomicU64::new(0));
        let layer = TraceLayer::new(sender, Arc::clone(&lost)).with_filter(TraceLayer::filter());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
        (receiver.try_iter().flatten().collect(), lost.load(Ordering::Relaxed))
    }

    #[test]
    fn a_request_and_its_process_are_one_trace() {
        let (spans, lost) = traced(16, || {
            let request = tracing::info_span!(target: "chronova_web::server", "request", request_id = REQUEST_ID,
                operation = tracing::field::Empty, status = tracing::field::Empty);
            request.in_scope(|| {
                let call = tracing::info_span!(target: "spans", "service", service = "keystone");
                call.in_scope(|| tracing::info!("an event is no span"));
                tracing::info_span!("of another target").in_scope(|| {});
            });
            request.record("operation", "servers.create");
            request.record("status", 503_u16);
            drop(request);
            let process = tracing::info_span!(target: "spans", parent: None, "process", kind = "build_instance",
                process = "p-1", request_id = REQUEST_ID);
            process.in_scope(|| {
                let step = tracing::info_span!(target: "spans", "step", step = "spawn_guest",
                    error = tracing::field::Empty);
                step.in_scope(|| tracing::info_span!(target: "spans", "hypervisor", call = "spawn").in_scope(|| {}));
                step.record("error", "no room");
            });
        });
        assert_eq!(lost, 0);
        let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
        let wanted = [
            "service keystone",
            "request servers.create",
            "hypervisor spawn",
            "step spawn_guest",
            "process build_instance",
        ];
        assert_eq!(names, wanted);
        assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
        let [service, request, call, step, process] = &spans[..] else { panic!("{spans:#?}") };
        assert_eq!((request.id, request.parent), (0x0011_2233_4455_6677, None));
        assert_eq!((service.parent, process.parent), (Some(request.id), Some(request.id)));
        assert_eq!((step.parent, call.parent), (Some(process.id), Some(step.id)));
        assert_eq!((request.kind, service.kind, step.kind), (SpanKind::Server, SpanKind::Client, SpanKind::Internal));
        assert_eq!(request.error.as_deref(), Some("status 503"));
        assert_eq!((step.error.as_deref(), process.error.as_deref()), (Some("no room"), None));
        assert!(request.attributes.contains(&("status", SpanValue::Number(503))), "{request:?}");
    }

    #[test]
    fn calls_outside_of_requests_are_in_no_trace() {
        let (spans, _) = traced(16, || {
            tracing::info_span!(target: "spans", "hypervisor", call = "usage").in_scope(|| {});
            let process = "33333333-2222-4333-8444-555555555555";
            tracing::info_span!(target: "spans", "process", kind = "drain_host", process).in_scope(|| {});
        });
        let [process] = &spans[..] else { panic!("{spans:#?}") };
        assert_eq!((process.name.as_str(), process.trace >> 96), ("process drain_host", 0x3333_3333));
        assert_eq!(process.parent, None, "no request began it, so the trace has no other span above it");
    }

    #[test]
    fn a_full_queue_loses_spans_and_nothing_else() {
        let (spans, lost) = traced(2, || {
            for _ in 0..5 {
                tracing::info_span!(target: "spans", "process", process = "p").in_scope(|| {});
            }
        });
        assert_eq!((spans.len(), lost), (2, 3));
    }

    #[test]
    fn ids_of_any_form_name_a_trace() {
        assert_eq!(trace_of(REQUEST_ID), TRACE);
        assert_eq!(trace_of("00112233-4455-6677-8899-aabbccddeeff"), TRACE);
        assert_eq!(trace_of("no uuid"), trace_of("no uuid"));
        assert_ne!(trace_of("no uuid"), trace_of("another"));
    }
}
