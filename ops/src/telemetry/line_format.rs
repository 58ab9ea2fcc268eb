//! The form of text lines that the operator chooses, in the words of oslo.log: `[DEFAULT]
//! logging_context_format_string` for lines that a request caused, `logging_default_format_string` for all other lines,
//! and `logging_debug_format_suffix` at the end of lines of the level DEBUG.

use std::fmt::{self, Write as _};

use chrono::{DateTime, Utc};
use chronova_events::clock::{Clock as _, SystemClock};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::LogSettings;

/// oslo.log's defaults. They apply if the operator has set another one of the three options.
const CONTEXT: &str = "%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s \
                       [%(global_request_id)s %(request_id)s %(user_identity)s] %(instance)s%(message)s";
const DEFAULT: &str = "%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s [-] %(instance)s%(message)s";
const SUFFIX: &str = "%(funcName)s %(pathname)s:%(lineno)d";
const DATE: &str = "%Y-%m-%d %H:%M:%S";

/// The part of a line that a field of a format stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineField {
    Time,
    Milliseconds,
    Process,
    Level,
    Target,
    Message,
    RequestId,
    File,
    LineNumber,
    /// Something that no line here has. oslo.log writes a dash if it has none.
    Dash,
    /// Something that no line here has. oslo.log writes nothing if it has none.
    Nothing,
}

/// The fields that the formats of Nova's operators name.
const FIELDS: [(&str, LineField); 33] = [
    ("asctime", LineField::Time),
    ("msecs", LineField::Milliseconds),
    ("process", LineField::Process),
    ("levelname", LineField::Level),
    ("name", LineField::Target),
    ("module", LineField::Target),
    ("message", LineField::Message),
    ("request_id", LineField::RequestId),
    ("pathname", LineField::File),
    ("filename", LineField::File),
    ("lineno", LineField::LineNumber),
    ("global_request_id", LineField::Dash),
    ("user_identity", LineField::Dash),
    ("user", LineField::Dash),
    ("user_id", LineField::Dash),
    ("user_name", LineField::Dash),
    ("user_domain", LineField::Dash),
    ("tenant", LineField::Dash),
    ("project", LineField::Dash),
    ("project_id", LineField::Dash),
    ("project_name", LineField::Dash),
    ("project_domain", LineField::Dash),
    ("domain", LineField::Dash),
    ("system_scope", LineField::Dash),
    ("error_summary", LineField::Dash),
    ("hostname", LineField::Dash),
    ("funcName", LineField::Dash),
    ("processName", LineField::Dash),
    ("thread", LineField::Dash),
    ("threadName", LineField::Dash),
    ("instance", LineField::Nothing),
    ("resource", LineField::Nothing),
    ("color", LineField::Nothing),
];

#[derive(Debug, Clone, PartialEq, Eq)]
enum LinePiece {
    Text(String),
    Field { field: LineField, width: usize, left: bool, zeros: bool },
}

/// The formats of the lines of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineForms {
    context: Vec<LinePiece>,
    default: Vec<LinePiece>,
    suffix: Vec<LinePiece>,
    date: String,
}

/// Why a text is no format; `None` if it is one.
pub(crate) fn problem(text: &str) -> Option<String> {
    parse(text).err()
}

fn parse(text: &str) -> Result<Vec<LinePiece>, String> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('%') {
        pieces.push(LinePiece::Text(before.to_owned()));
        rest = if let Some(after) = after.strip_prefix('%') {
            pieces.push(LinePiece::Text("%".to_owned()));
            after
        } else {
            let (piece, after) = field(after)?;
            pieces.push(piece);
            after
        };
    }
    pieces.push(LinePiece::Text(rest.to_owned()));
    Ok(pieces)
}

/// Reads `(levelname)-8s`, the text after a percent sign. Returns the rest, too.
fn field(text: &str) -> Result<(LinePiece, &str), String> {
    let wrong = || "a percent sign does not begin a field such as %(message)s, nor %%".to_owned();
    let (name, after) = text.strip_prefix('(').and_then(|text| text.split_once(')')).ok_or_else(wrong)?;
    let known = FIELDS.iter().find(|(known, _)| *known == name);
    let (_, field) = known.ok_or_else(|| format!("there is no field %({name})s"))?;
    let end = after.find(['s', 'd']).ok_or_else(wrong)?;
    let (how, rest) = (&after[..end], &after[end + 1..]);
    let digits = how.trim_start_matches('-');
    let width: u8 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| wrong())? };
    let (left, zeros) = (how.starts_with('-'), digits.starts_with('0'));
    Ok((LinePiece::Field { field: *field, width: width.into(), left, zeros }, rest))
}

impl LineForms {
    /// The formats that the operator has set; `None` if there are none. The configuration's check has accepted them.
    pub(super) fn of(settings: &LogSettings) -> Option<Self> {
        let (context, default) = (settings.context_format.as_deref(), settings.default_format.as_deref());
        let suffix = settings.debug_suffix.as_deref();
        context.or(default).or(suffix)?;
        let form = |text: &str| parse(text).unwrap_or_default();
        Some(Self {
            context: form(context.unwrap_or(CONTEXT)),
            default: form(default.unwrap_or(DEFAULT)),
            suffix: form(&format!(" {}", suffix.unwrap_or(SUFFIX))),
            date: settings.date_format.clone().unwrap_or_else(|| DATE.to_owned()),
        })
    }

    fn value(&self, field: LineField, now: DateTime<Utc>, request: Option<&str>, of: &Metadata<'_>) -> String {
        match field {
            LineField::Time => {
                // A date format with an unknown specifier writes nothing. The configuration's check refuses it.
                let mut time = String::new();
                let _ = write!(time, "{}", now.format(&self.date));
                time
            }
            LineField::Milliseconds => format!("{:03}", now.timestamp_subsec_millis()),
            LineField::Process => std::process::id().to_string(),
            LineField::Level => level(*of.level()).to_owned(),
            LineField::Target => of.target().to_owned(),
            LineField::RequestId => request.unwrap_or("-").to_owned(),
            LineField::File => of.file().unwrap_or("-").to_owned(),
            LineField::LineNumber => of.line().unwrap_or_default().to_string(),
            LineField::Dash => "-".to_owned(),
            // The message is written by itself, because it includes the fields of the event.
            LineField::Message | LineField::Nothing => String::new(),
        }
    }
}

/// The level in Python's words.
fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

fn padded(value: &str, width: usize, left: bool, zeros: bool) -> String {
    match (left, zeros) {
        (true, _) => format!("{value:<width$}"),
        (false, true) => format!("{value:0>width$}"),
        (false, false) => format!("{value:>width$}"),
    }
}

/// The id of the request whose span encloses the event.
fn request_of<S, N>(context: &FmtContext<'_, S, N>) -> Option<String>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    context.event_scope()?.from_root().find_map(|span| {
        let extensions = span.extensions();
        let fields = &extensions.get::<FormattedFields<N>>()?.fields;
        let (_, value) = fields.split_once("request_id=")?;
        Some(value.split_whitespace().next()?.trim_matches('"').to_owned())
    })
}

impl<S, N> FormatEvent<S, N> for LineForms
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (request, now, metadata) = (request_of(context), SystemClock.now().to_utc(), event.metadata());
        let pieces = if request.is_some() { &self.context } else { &self.default };
        let is_debug = *metadata.level() >= Level::DEBUG;
        for piece in pieces.iter().chain(is_debug.then_some(&self.suffix).into_iter().flatten()) {
            match piece {
                LinePiece::Text(text) => writer.write_str(text)?,
                LinePiece::Field { field: LineField::Message, .. } => {
                    context.field_format().format_fields(writer.by_ref(), event)?;
                }
                LinePiece::Field { field, width, left, zeros } => {
                    let value = self.value(*field, now, request.as_deref(), metadata);
                    writer.write_str(&padded(&value, *width, *left, *zeros))?;
                }
            }
        }
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::super::{LogFile, layer};
    use super::*;

    /// The lines of three events: one in the span of a request, one outside, and one of the level DEBUG.
    fn lines(settings: &LogSettings) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = LogFile::open(&path, false).unwrap();
        let subscriber = tracing_subscriber::registry().with(vec![layer(file, settings, false)]);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("request", request_id = "req-1");
            span.in_scope(|| tracing::info!(target: "nova.api", instance = "i-1", "built"));
            tracing::warn!(target: "nova.api", "late");
            tracing::debug!(target: "nova.api", "looked");
        });
        std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_have_the_operators_formats() {
        let settings = LogSettings {
            context_format: Some("%(levelname)s [%(request_id)s %(user_identity)s] %(instance)s%(message)s".to_owned()),
            default_format: Some("%(levelname)-8s|%(name)10s|%(message)s|100%%".to_owned()),
            debug_suffix: Some("at %(pathname)s:%(lineno)05d".to_owned()),
            ..LogSettings::default()
        };
        let lines = lines(&settings);
        assert_eq!(lines[0], "INFO [req-1 -] built instance=\"i-1\"");
        assert_eq!(lines[1], "WARNING |  nova.api|late|100%");
        let (said, at) = lines[2].split_once(" at ").unwrap();
        assert_eq!(said, "DEBUG   |  nova.api|looked|100%");
        let (file, number) = at.rsplit_once(':').unwrap();
        assert!(file.ends_with("line_format.rs") && number.len() == 5 && number.starts_with("00"), "{at}");
    }

    /// If one format is set, the others are oslo.log's.
    #[test]
    fn formats_that_are_not_set_are_those_of_oslo() {
        let settings = LogSettings {
            debug_suffix: Some(String::new()),
            date_format: Some("%Y!".to_owned()),
            ..LogSettings::default()
        };
        let (lines, process) = (lines(&settings), std::process::id());
        assert!(lines[0].contains(&format!(" {process} INFO nova.api [- req-1 -] built")), "{}", lines[0]);
        assert!(lines[1].ends_with(&format!(" {process} WARNING nova.api [-] late")), "{}", lines[1]);
        let (date, rest) = lines[1].split_once("!.").unwrap();
        assert!(date.len() == 4 && rest.as_bytes()[3] == b' ', "{}", lines[1]);
    }

    #[test]
    fn a_format_with_an_unknown_field_is_refused() {
        for text in [CONTEXT, DEFAULT, SUFFIX, "", "%(color)s%(message)s", "no field at all"] {
            assert_eq!(problem(text), None, "{text}");
        }
        for text in ["%(mesage)s", "%(message)", "%message", "100%", "%(levelname)999s", "%(message)x"] {
            assert!(problem(text).is_some(), "{text}");
        }
    }
}
