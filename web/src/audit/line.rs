//! Renders one event in each form for people and programs.
//!
//! Fields are shown as they were recorded, with two exceptions. Secrets are hidden, because no auditor needs them:
//! hashes of passwords and of console tokens, the password that a guest posted, and the id of a TPM's secret. Personal
//! fields show a replacement if they were erased, or if their key is lost.

use std::fmt::Write as _;

use chronova_events::envelope::{Cause, Recorded};
use chronova_events::registry::{DecodeError, Event};
use chronova_events::sealed::Personal;
use serde_json::{Map, Value, json};

use super::cadf::CadfEvent;
use super::syslog::syslog_message;

/// The format of a rendered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A JSON object.
    #[default]
    Json,
    /// CloudEvents 1.0, structured mode.
    CloudEvents,
    /// An event of CADF (DSP0262), as pyCADF reads it.
    Cadf,
    /// A message of syslog (RFC 5424).
    Syslog,
    /// Comma-separated values (RFC 4180).
    Csv,
    /// Columns for a terminal.
    Table,
}

impl Format {
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "json" | "jsonl" => Some(Self::Json),
            "cloudevents" => Some(Self::CloudEvents),
            "cadf" => Some(Self::Cadf),
            "syslog" => Some(Self::Syslog),
            "csv" => Some(Self::Csv),
            "table" => Some(Self::Table),
            _ => None,
        }
    }

    /// The head line of a listing in this format, with its line end.
    pub fn head(self) -> Option<String> {
        match self {
            Self::Json | Self::CloudEvents | Self::Cadf | Self::Syslog => None,
            Self::Csv => Some(CSV.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",") + "\r\n"),
            Self::Table => Some(columns(["POSITION", "TIME", "WHO", "ACTION", "TARGET", "OUTCOME", "KIND", "REQUEST"])),
        }
    }

    /// One event as a line, with its line end.
    pub fn line(self, recorded: &Recorded) -> Result<String, DecodeError> {
        Ok(match self {
            Self::Json => json_line(recorded)?.to_string() + "\n",
            Self::CloudEvents => cloud_event(recorded)?.to_string() + "\n",
            Self::Cadf => cadf_event(recorded)?.to_string() + "\n",
            Self::Syslog => syslog_message(recorded)? + "\n",
            Self::Csv => csv(recorded)?,
            Self::Table => table(recorded)?,
        })
    }
}

/// One event as one JSON object.
pub fn json_line(recorded: &Recorded) -> Result<Value, DecodeError> {
    let event = recorded.event()?;
    let payload = shown(event);
    let meta = &recorded.meta;
    let cadf = CadfEvent::of(recorded, event, &payload);
    let mut line = Map::new();
    let mut put = |key: &str, value: Value| {
        line.insert(key.to_owned(), value);
    };
    put("position", json!(recorded.position.0));
    put("stream", json!(recorded.stream.as_str()));
    put("revision", json!(recorded.revision.0));
    put("id", json!(recorded.id.to_string()));
    put("kind", json!(&*recorded.kind));
    put("version", json!(recorded.version));
    put("recorded_at", json!(recorded.recorded_at.to_string()));
    put("request_id", json!(meta.request_id.as_ref().map(ToString::to_string)));
    put("correlation", json!(meta.correlation.to_string()));
    put("causation", json!(meta.causation.map(|id| id.to_string())));
    put("cause", cause(&meta.cause));
    for (key, value) in cadf.fields() {
        put(key, value);
    }
    match recorded.personal() {
        Personal::Clear | Personal::Sealed => {}
        Personal::Erased => put("personal", json!("erased")),
        Personal::Lost => put("personal", json!("key lost")),
    }
    put("payload", payload);
    Ok(Value::Object(line))
}

/// One event as a CloudEvent: <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md>. `sequence` is
/// CloudEvents' own extension attribute of that name.
pub fn cloud_event(recorded: &Recorded) -> Result<Value, DecodeError> {
    let mut data = json_line(recorded)?;
    if let Some(data) = data.as_object_mut() {
        data.retain(|key, _| !["id", "stream", "recorded_at"].contains(&key.as_str()));
    }
    Ok(json!({
        "specversion": "1.0",
        "id": recorded.id.to_string(),
        "source": "urn:chronova:log",
        "type": format!("chronova.{}", recorded.kind),
        "subject": recorded.stream.as_str(),
        "time": recorded.recorded_at.to_string(),
        "datacontenttype": "application/json",
        "sequence": format!("{:020}", recorded.position.0),
        "correlationid": recorded.meta.correlation.to_string(),
        "data": data,
    }))
}

/// One event in the schema of pyCADF, the library of OpenStack's services. An attachment has the fields that CADF
/// lacks.
pub fn cadf_event(recorded: &Recorded) -> Result<Value, DecodeError> {
    let event = recorded.event()?;
    let payload = shown(event);
    let mut line = Map::new();
    for (key, value) in CadfEvent::of(recorded, event, &payload).fields() {
        if !value.is_null() {
            line.insert(key.to_owned(), value);
        }
    }
    let time = recorded.recorded_at.to_string();
    let content = json!({
        "position": recorded.position.0,
        "kind": &*recorded.kind,
        "request_id": recorded.meta.request_id.as_ref().map(ToString::to_string),
        "payload": payload,
    });
    let own = [
        ("typeURI", json!("http://schemas.dmtf.org/cloud/audit/1.0/event")),
        ("eventType", json!("activity")),
        ("id", json!(recorded.id.to_string())),
        // pyCADF writes the offset without a colon.
        ("eventTime", json!(format!("{}+0000", time.trim_end_matches('Z')))),
        ("observer", json!({"typeURI": "service/oss", "id": "observer", "name": "chronova"})),
        ("attachments", json!([{"name": "event", "typeURI": "application/json", "content": content}])),
    ];
    line.extend(own.map(|(key, value)| (key.to_owned(), value)));
    Ok(Value::Object(line))
}

fn cause(cause: &Cause) -> Value {
    match cause {
        Cause::User { user, project, roles, source } => {
            let mut cause =
                json!({"user": user.as_str(), "project": project.as_ref().map(ToString::to_string), "roles": roles});
            if let Some(source) = source {
                cause["source"] = json!(**source);
            }
            cause
        }
        Cause::Process { process } => json!({"process": process.to_string()}),
        Cause::System { part } => json!({"system": part}),
    }
}

/// A column: its name, and the path of its cells in the JSON form.
type AuditColumn = (&'static str, &'static str);

/// The columns of the CSV form.
const CSV: &[AuditColumn] = &[
    ("position", "/position"),
    ("recorded_at", "/recorded_at"),
    ("stream", "/stream"),
    ("revision", "/revision"),
    ("kind", "/kind"),
    ("version", "/version"),
    ("initiator_type", "/initiator/typeURI"),
    ("initiator_id", "/initiator/id"),
    ("project_id", "/initiator/project_id"),
    ("address", "/initiator/host/address"),
    ("agent", "/initiator/host/agent"),
    ("action", "/action"),
    ("target_type", "/target/typeURI"),
    ("target_id", "/target/id"),
    ("outcome", "/outcome"),
    ("reason_code", "/reason/reasonCode"),
    ("reason", "/reason/reasonText"),
    ("request_id", "/request_id"),
    ("correlation", "/correlation"),
    ("causation", "/causation"),
    ("id", "/id"),
    ("personal", "/personal"),
    ("payload", "/payload"),
];

fn csv(recorded: &Recorded) -> Result<String, DecodeError> {
    let line = json_line(recorded)?;
    let cells: Vec<String> = CSV.iter().map(|(_, pointer)| cell(line.pointer(pointer))).collect();
    Ok(cells.join(",") + "\r\n")
}

/// RFC 4180: a cell with a comma, a quote or a line break is quoted, quotes are doubled.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn table(recorded: &Recorded) -> Result<String, DecodeError> {
    let event = recorded.event()?;
    let cadf = CadfEvent::of(recorded, event, &shown(event));
    let position = recorded.position.to_string();
    let time = recorded.recorded_at.iso_micros();
    let kind = recorded.kind.split_once('.').map_or("", |(noun, _)| noun);
    let target = format!("{kind} {}", printable(&cadf.target.id));
    let request = recorded.meta.request_id.as_ref().map(ToString::to_string).unwrap_or_default();
    let who = printable(&cadf.initiator.resource.id);
    Ok(columns([&position, &time, &who, cadf.action, &target, cadf.outcome, &recorded.kind, &printable(&request)]))
}

/// The text without control characters: a text from outside must not move the cursor of the terminal, or begin a line.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

const WIDTHS: [usize; 8] = [9, 26, 36, 12, 52, 7, 30, 0];

fn columns(cells: [&str; 8]) -> String {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(WIDTHS) {
        // Writing to a text cannot fail.
        let _ = write!(line, "{cell:<width$} ");
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

/// The payload without secrets.
pub fn shown(event: &Event) -> Value {
    let mut value = event.json();
    hide(&mut value);
    value
}

const SECRET_WORDS: [&str; 4] = ["password", "secret", "private_key", "hash"];

fn hide(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                let secret = SECRET_WORDS.iter().any(|word| key.contains(word));
                if secret && !inner.is_null() && !inner.is_boolean() {
                    *inner = Value::from("(hidden)");
                } else {
                    hide(inner);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_flags_are_not() {
        let mut value = json!({"a": [{"password_hash": "x", "name": "n"}], "password_changed": true, "secret": null});
        hide(&mut value);
        let expected =
            json!({"a": [{"password_hash": "(hidden)", "name": "n"}], "password_changed": true, "secret": null});
        assert_eq!(value, expected);
    }

    #[test]
    fn cells_are_quoted_as_rfc_4180_says() {
        for (value, text) in [
            (json!("plain"), "plain"),
            (json!("a,b"), "\"a,b\""),
            (json!("say \"x\""), "\"say \"\"x\"\"\""),
            (json!("two\r\nlines"), "\"two\r\nlines\""),
            (json!(7), "7"),
            (json!(null), ""),
            (json!({"a": 1}), "\"{\"\"a\"\":1}\""),
        ] {
            assert_eq!(cell(Some(&value)), text);
        }
        assert_eq!(printable("a\x1b[2Jb"), "a?[2Jb");
    }
}
