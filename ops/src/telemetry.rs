//! The log lines of a running server.
//!
//! They are `tracing` events, one line each, as text or as JSON. A line includes the fields of its enclosing spans.
//! The HTTP layer opens a span with `request_id`, so an operator can find each line that a request causes.
//! Level and target come from `[DEFAULT] debug`, `log_file`, `log_dir`, `use_json`, `use_stderr`, `use_syslog` and
//! `use_journal`. With `log_config_append`, they come from its file alone. The environment variable `RUST_LOG`
//! overrides the level. Log files are opened for appending and can be reopened after rotation.
//!
//! [`traces`] exports spans to a collector, if one is configured.
//!
//! Invariant: no request fails because a log line cannot be written.

mod daemons;
pub mod line_format;
pub mod log_config;
pub mod traces;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use chronova_events::clock::{Clock as _, SystemClock};
use thiserror::Error;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry as Subscriber, reload};

use daemons::{DaemonLayer, LogDaemon};
use line_format::LineForms;
use traces::TraceLayer;

pub use daemons::FACILITIES;

#[derive(Debug, Error)]
pub enum TelemetryError {
    #[error("the log file {} cannot be opened", .path.display())]
    LogFile { path: PathBuf, source: io::Error },
    #[error("{daemon} takes no lines")]
    Daemon { daemon: &'static str, source: io::Error },
    #[error("RUST_LOG is not a list of filter directives")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    #[error("the level cannot be changed")]
    Level(#[source] reload::Error),
    #[error("logging is set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Where the server logs to, and in which form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSettings {
    pub debug: bool,
    pub json: bool,
    /// `None` logs to no file.
    pub file: Option<PathBuf>,
    /// Whether to log to standard error even if there is a log file.
    pub stderr: bool,
    /// Whether the log file is opened again when another file has its name.
    pub watch: bool,
    /// The facility of syslog; `None` logs nothing there.
    pub syslog: Option<u8>,
    /// Whether to log to systemd's journal.
    pub journal: bool,
    /// Matters only if no other target is set. Then `true` logs nothing, and `false` logs to standard error.
    pub quiet: bool,
    /// The form of times in text lines, as in strftime.
    pub date_format: Option<String>,
    /// The format of text lines that a request caused.
    pub context_format: Option<String>,
    /// The format of all other text lines.
    pub default_format: Option<String>,
    /// The end of text lines of the level DEBUG.
    pub debug_suffix: Option<String>,
    /// The filter of `log_config_append`, in place of `debug`.
    pub levels: Option<String>,
}

impl LogSettings {
    fn present_filter(&self) -> Result<EnvFilter, TelemetryError> {
        self.filter(std::env::var("RUST_LOG").ok().as_deref())
    }

    /// The filter; `rust_log` is the environment variable RUST_LOG. `[DEFAULT] debug` turns on DEBUG only for
    /// Chronova's crates, because the DEBUG lines of the libraries would outnumber Chronova's own.
    fn filter(&self, rust_log: Option<&str>) -> Result<EnvFilter, TelemetryError> {
        let directives = match rust_log.filter(|text| !text.trim().is_empty()) {
            Some(text) => text.to_owned(),
            None if self.levels.is_some() => self.levels.clone().unwrap_or_default(),
            None if self.debug => format!("info,{}", OUR_TARGETS.map(|target| format!("{target}=debug")).join(",")),
            None => "info".to_owned(),
        };
        // Spans that are only for traces do not belong in log lines.
        let without_traces: Directive = format!("{}=off", traces::TARGET).parse().map_err(TelemetryError::Filter)?;
        Ok(EnvFilter::try_new(directives).map_err(TelemetryError::Filter)?.add_directive(without_traces))
    }
}

/// A directive matches targets by prefix, so `chronova` covers every crate of the project.
const OUR_TARGETS: [&str; 1] = ["chronova"];

/// The process's logging and its log file. The server keeps this value until it ends.
#[derive(Debug, Clone)]
pub struct Logging {
    file: Option<LogFile>,
    filter: reload::Handle<EnvFilter, Subscriber>,
}

impl Logging {
    /// Sets up the process's logging; call it once.
    pub fn start(settings: &LogSettings) -> Result<Self, TelemetryError> {
        Self::start_with(settings, None)
    }

    /// Like [`Logging::start`]; `traces` gets the spans of traces.
    pub fn start_with(settings: &LogSettings, traces: Option<TraceLayer>) -> Result<Self, TelemetryError> {
        let (filter, handle) = reload::Layer::new(settings.present_filter()?);
        let file = settings.file.as_deref().map(|path| LogFile::open(path, settings.watch)).transpose()?;
        let elsewhere = file.is_some() || settings.syslog.is_some() || settings.journal || settings.quiet;
        let stderr = !elsewhere || settings.stderr;
        let color = io::stderr().is_terminal();
        let syslog = settings.syslog.map(|facility| daemon("syslog", LogDaemon::Syslog { facility })).transpose()?;
        let journal = settings.journal.then(|| daemon("the journal", LogDaemon::Journal)).transpose()?;
        let layers = [
            file.clone().map(|file| layer(file, settings, false)),
            stderr.then(|| layer(io::stderr, settings, color)),
            syslog,
            journal,
        ];
        let layers: Vec<_> = layers.into_iter().flatten().collect();
        let lines = tracing_subscriber::registry().with(layers.with_filter(filter));
        let set = match traces {
            Some(traces) => lines.with(traces.with_filter(TraceLayer::filter())).try_init(),
            None => lines.try_init(),
        };
        set.map_err(TelemetryError::Twice)?;
        Ok(Self { file, filter: handle })
    }

    /// Changes the level to that of `settings`.
    pub fn set_level(&self, settings: &LogSettings) -> Result<(), TelemetryError> {
        self.filter.reload(settings.present_filter()?).map_err(TelemetryError::Level)
    }

    /// Reopens the log file under its name, so that lines go to the new file after a rotation (SIGHUP).
    pub fn reopen(&self) -> Result<(), TelemetryError> {
        self.file.as_ref().map_or(Ok(()), LogFile::reopen)
    }
}

fn daemon(name: &'static str, daemon: LogDaemon) -> Result<Box<dyn Layer<Subscriber> + Send + Sync>, TelemetryError> {
    let opened = DaemonLayer::open(daemon).map_err(|source| TelemetryError::Daemon { daemon: name, source })?;
    Ok(opened.boxed())
}

/// Writes times in the format of `log_date_format`, which the check of the configuration has accepted.
struct OperatorTime(String);

impl FormatTime for OperatorTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        write!(writer, "{}", SystemClock.now().to_utc().format(&self.0))
    }
}

fn layer<W>(writer: W, settings: &LogSettings, color: bool) -> Box<dyn Layer<Subscriber> + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    if settings.json {
        // `spans` has the fields of the enclosing spans, request_id among them; the outermost span comes first.
        layer.json().flatten_event(true).with_current_span(false).with_span_list(true).boxed()
    } else {
        match (LineForms::of(settings), &settings.date_format) {
            // No colours: the operator's form says everything, and the request's id is read from the fields as text.
            (Some(forms), _) => layer.with_ansi(false).event_format(forms).boxed(),
            (None, Some(form)) => layer.with_ansi(color).with_timer(OperatorTime(form.clone())).boxed(),
            (None, None) => layer.with_ansi(color).boxed(),
        }
    }
}

/// A file that lines are appended to. Clones share the file.
#[derive(Debug, Clone)]
struct LogFile {
    path: Arc<Path>,
    file: Arc<Mutex<File>>,
    /// Whether each write first checks that the path still leads to this file.
    watch: bool,
}

impl LogFile {
    fn open(path: &Path, watch: bool) -> Result<Self, TelemetryError> {
        Ok(Self { path: path.into(), file: Arc::new(Mutex::new(append_to(path)?)), watch })
    }

    /// Opens the path again if it leads to another file, or to none. If that fails, the old file stays in use.
    fn follow(&self, file: &mut File) {
        let same =
            |now: &std::fs::Metadata, known: &std::fs::Metadata| (now.dev(), now.ino()) == (known.dev(), known.ino());
        let known = file.metadata();
        let stays = match (std::fs::metadata(&self.path), &known) {
            (Ok(now), Ok(known)) => same(&now, known),
            _ => false,
        };
        if !stays && let Ok(opened) = append_to(&self.path) {
            *file = opened;
        }
    }

    fn reopen(&self) -> Result<(), TelemetryError> {
        let file = append_to(&self.path)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }
}

fn append_to(path: &Path) -> Result<File, TelemetryError> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|source| TelemetryError::LogFile { path: path.to_owned(), source })
}

impl<'w> MakeWriter<'w> for LogFile {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if self.watch {
            self.follow(&mut file);
        }
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The line that `layer` writes for one event within a request's span.
    fn line(json: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = LogFile::open(&path, false).unwrap();
        let settings = LogSettings { json, ..LogSettings::default() };
        let subscriber = tracing_subscriber::registry().with(vec![layer(file, &settings, false)]);
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("request", request_id = "req-1");
            span.in_scope(|| tracing::info!(instance = "i-1", "built"));
        });
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn every_text_line_carries_the_request_id() {
        let line = line(false);
        assert!(line.contains("request{request_id=\"req-1\"}"), "{line}");
        assert!(line.contains("built") && line.contains("instance=\"i-1\""), "{line}");
    }

    #[test]
    fn every_json_line_carries_the_request_id() {
        let line: serde_json::Value = serde_json::from_str(&line(true)).unwrap();
        assert_eq!(line["message"], "built");
        assert_eq!(line["instance"], "i-1");
        assert_eq!(line["spans"][0]["request_id"], "req-1");
    }

    #[test]
    fn after_a_rotation_lines_go_to_the_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = LogFile::open(&path, false).unwrap();
        file.write_all(b"old\n").unwrap();
        std::fs::rename(&path, dir.path().join("log.1")).unwrap();
        file.reopen().unwrap();
        file.write_all(b"new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
    }

    #[test]
    fn a_watched_file_is_followed_without_a_signal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = LogFile::open(&path, true).unwrap();
        file.write_all(b"old\n").unwrap();
        std::fs::rename(&path, dir.path().join("log.1")).unwrap();
        file.write_all(b"new\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new\n");
    }

    #[test]
    fn times_have_the_operators_form() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let settings = LogSettings { date_format: Some("%Y year".to_owned()), ..LogSettings::default() };
        let file = LogFile::open(&path, false).unwrap();
        let subscriber = tracing_subscriber::registry().with(vec![layer(file, &settings, false)]);
        tracing::subscriber::with_default(subscriber, || tracing::info!("built"));
        let line = std::fs::read_to_string(&path).unwrap();
        assert!(line[4..].starts_with(" year"), "{line}");
    }

    #[test]
    fn traces_change_neither_the_level_nor_the_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (file, settings) = (LogFile::open(&path, false).unwrap(), LogSettings::default());
        let (_exporter, traces) = traces::TraceExporter::start("http://127.0.0.1:9/v1/traces", "").unwrap();
        let lines = vec![layer(file, &settings, false)].with_filter(settings.filter(None).unwrap());
        let subscriber = tracing_subscriber::registry().with(lines).with(traces.with_filter(TraceLayer::filter()));
        let most = tracing::Subscriber::max_level_hint(&subscriber);
        assert_eq!(most, Some(tracing::level_filters::LevelFilter::INFO));
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!(target: "spans", "service", service = "keystone");
            assert!(!span.is_disabled(), "the traces do not get the span");
            span.in_scope(|| tracing::info!("built"));
        });
        let line = std::fs::read_to_string(&path).unwrap();
        assert!(line.contains("built") && !line.contains("keystone"), "{line}");
    }

    #[test]
    fn levels_come_from_debug_and_rust_log() {
        let settings = LogSettings { debug: true, ..LogSettings::default() };
        assert_eq!(settings.filter(None).unwrap().to_string(), "chronova=debug,spans=off,info");
        assert_eq!(settings.filter(Some("warn")).unwrap().to_string(), "spans=off,warn");
        assert_eq!(LogSettings::default().filter(Some(" ")).unwrap().to_string(), "spans=off,info");
        assert!(settings.filter(Some("a=b=c")).is_err());
    }
}
