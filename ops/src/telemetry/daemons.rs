//! Log lines for the machine's log daemons: syslog in the form of RFC 5424, and systemd's journal in its own protocol.
//!
//! Both take datagrams on a Unix socket. Each line is sent by itself to the socket's path, so a daemon that is started
//! again gets the next line. A line that is not taken is lost, and no request waits for it.

use std::fmt::{Debug, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use chronova_events::clock::{Clock as _, SystemClock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The name under which the daemons show the lines.
const IDENTIFIER: &str = "chronova";
/// The private enterprise number that RFC 5612 reserves for examples; the project has none of its own.
const ENTERPRISE: &str = "chronova@32473";

/// The facilities of `syslog_log_facility` with their numbers.
pub const FACILITIES: [(&str, u8); 18] = [
    ("LOG_KERN", 0),
    ("LOG_USER", 1),
    ("LOG_MAIL", 2),
    ("LOG_DAEMON", 3),
    ("LOG_AUTH", 4),
    ("LOG_SYSLOG", 5),
    ("LOG_LPR", 6),
    ("LOG_NEWS", 7),
    ("LOG_CRON", 9),
    ("LOG_AUTHPRIV", 10),
    ("LOG_LOCAL0", 16),
    ("LOG_LOCAL1", 17),
    ("LOG_LOCAL2", 18),
    ("LOG_LOCAL3", 19),
    ("LOG_LOCAL4", 20),
    ("LOG_LOCAL5", 21),
    ("LOG_LOCAL6", 22),
    ("LOG_LOCAL7", 23),
];

/// A log daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogDaemon {
    Syslog { facility: u8 },
    Journal,
}

impl LogDaemon {
    fn path(self) -> &'static str {
        match self {
            Self::Syslog { .. } => "/dev/log",
            Self::Journal => "/run/systemd/journal/socket",
        }
    }
}

/// Sends lines to a daemon.
pub(super) struct DaemonLayer {
    daemon: LogDaemon,
    socket: UnixDatagram,
    path: PathBuf,
    host: String,
}

/// The fields of a span, in the order in which they were set.
struct SpanFields(Vec<(&'static str, String)>);

/// The fields of an event, and its message.
#[derive(Default)]
struct LineFields {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for LineFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => self.fields.push((name, value.to_owned())),
        }
    }
}

/// One line for a daemon.
#[derive(Debug)]
struct DaemonLine<'a> {
    level: Level,
    target: &'a str,
    place: Option<(&'a str, u32)>,
    message: &'a str,
    fields: &'a [(&'static str, String)],
}

impl DaemonLayer {
    pub(super) fn open(daemon: LogDaemon) -> std::io::Result<Self> {
        Self::open_at(daemon, daemon.path().into())
    }

    fn open_at(daemon: LogDaemon, path: PathBuf) -> std::io::Result<Self> {
        if !path.exists() {
            return Err(std::io::Error::other(format!("{} does not exist", path.display())));
        }
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        Ok(Self { daemon, socket, path, host })
    }

    fn datagram(&self, line: &DaemonLine<'_>) -> Vec<u8> {
        match self.daemon {
            LogDaemon::Syslog { facility } => syslog(line, facility, &self.host).into_bytes(),
            LogDaemon::Journal => journal(line),
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for DaemonLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut line = LineFields::default();
        attributes.record(&mut line);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(SpanFields(line.fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut line = LineFields::default();
        values.record(&mut line);
        if let Some(span) = context.span(id)
            && let Some(known) = span.extensions_mut().get_mut::<SpanFields>()
        {
            known.0.extend(line.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = LineFields::default();
        event.record(&mut line);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(known) = span.extensions().get::<SpanFields>() {
                line.fields.extend(known.0.iter().cloned());
            }
        }
        let metadata = event.metadata();
        let line = DaemonLine {
            level: *metadata.level(),
            target: metadata.target(),
            place: metadata.file().zip(metadata.line()),
            message: &line.message,
            fields: &line.fields,
        };
        // A line that is lost must not fail the work that it describes.
        let _ = self.socket.send_to(&self.datagram(&line), &self.path);
    }
}

/// The severity of RFC 5424.
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// `<14>1 2026-01-31T12:00:00.000000Z host chronova 42 - [chronova@32473 target="chronova" request_id="req-1"] built`
fn syslog(line: &DaemonLine<'_>, facility: u8, host: &str) -> String {
    let priority = u16::from(facility) * 8 + u16::from(severity(line.level));
    let host = if host.is_empty() { "-" } else { host };
    let mut text = format!("<{priority}>1 {} {host} {IDENTIFIER} {} - ", SystemClock.now(), std::process::id());
    match line.fields {
        [] => text.push('-'),
        fields => {
            let _ = write!(text, "[{ENTERPRISE} target=\"{}\"", escaped(line.target));
            for (name, value) in fields {
                let _ = write!(text, " {}=\"{}\"", parameter(name), escaped(value));
            }
            text.push(']');
        }
    }
    text.push(' ');
    text.push_str(line.message);
    text
}

/// The name of a parameter may have neither blanks nor `=`, `]` or `"`. It has at most 32 signs.
fn parameter(name: &str) -> String {
    name.chars().filter(|sign| sign.is_ascii_graphic() && !"=]\"".contains(*sign)).take(32).collect()
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for sign in value.chars() {
        if matches!(sign, '"' | '\\' | ']') {
            text.push('\\');
        }
        text.push(sign);
    }
    text
}

/// `NAME=value` lines. A value of several lines has its length before it.
fn journal(line: &DaemonLine<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |name: &str, value: &str| {
        bytes.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            bytes.push(b'\n');
            bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            bytes.push(b'=');
        }
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(b'\n');
    };
    put("MESSAGE", line.message);
    put("PRIORITY", &severity(line.level).to_string());
    put("SYSLOG_IDENTIFIER", IDENTIFIER);
    put("LOGGER_NAME", line.target);
    put("LOGGER_LEVEL", line.level.as_str());
    if let Some((file, number)) = line.place {
        put("CODE_FILE", file);
        put("CODE_LINE", &number.to_string());
    }
    for (name, value) in line.fields {
        let upper: String = name
            .chars()
            .map(|sign| if sign.is_ascii_alphanumeric() { sign.to_ascii_uppercase() } else { '_' })
            .collect();
        // The journal drops fields whose names begin with an underscore or a digit.
        if upper.starts_with(|sign: char| sign.is_ascii_uppercase()) {
            put(&upper, value);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    /// The datagram that a daemon gets for one event within a request's span.
    fn sent(daemon: LogDaemon) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        let layer = DaemonLayer::open_at(daemon, path).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("request", request_id = "req-1");
            span.in_scope(|| tracing::warn!(instance = "a\"]b", "two\nlines"));
        });
        let mut bytes = vec![0; 8192];
        let length = server.recv(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn syslog_gets_lines_of_rfc_5424_with_fields() {
        let line = String::from_utf8(sent(LogDaemon::Syslog { facility: 16 })).unwrap();
        // Facility 16 and severity 4.
        assert!(line.starts_with("<132>1 20"), "{line}");
        let head: Vec<&str> = line.split(' ').take(7).collect();
        assert!(head[1].ends_with('Z') && head[3] == "chronova" && head[4].parse::<u32>().is_ok(), "{line}");
        assert!(line.contains("[chronova@32473 target=\"") && line.contains(" request_id=\"req-1\""), "{line}");
        assert!(line.contains(" instance=\"a\\\"\\]b\"") && line.ends_with("] two\nlines"), "{line}");
    }

    #[test]
    fn the_journal_gets_fields() {
        let bytes = sent(LogDaemon::Journal);
        let text = String::from_utf8_lossy(&bytes);
        for field in [
            "PRIORITY=4\n",
            "SYSLOG_IDENTIFIER=chronova\n",
            "REQUEST_ID=req-1\n",
            "INSTANCE=a\"]b\n",
            "LOGGER_LEVEL=WARN\n",
        ] {
            assert!(text.contains(field), "{field}: {text}");
        }
        let message = b"MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\n";
        assert!(bytes.starts_with(message), "{text}");
    }

    #[test]
    fn a_daemon_that_is_not_there_is_an_error() {
        assert!(DaemonLayer::open_at(LogDaemon::Journal, "/nowhere".into()).is_err());
    }
}
