//! An event as a message of syslog (RFC 5424). The text of the message is the event's JSON form.

use chronova_events::envelope::Recorded;
use chronova_events::registry::DecodeError;
use serde_json::Value;

use super::line::json_line;

/// `log audit`.
const FACILITY: u8 = 13;
const WARNING: u8 = 4;
const NOTICE: u8 = 5;
/// The length of the longest MSGID.
const LONGEST_ID: usize = 32;
/// The largest `sequenceId` of the structured data `meta`.
const LARGEST_SEQUENCE: u64 = 2_147_483_647;

/// The message, without a line end or a length. Control characters are escaped in JSON, so the message is one line. A
/// failure has the severity `warning`, every other event `notice`.
pub fn syslog_message(recorded: &Recorded) -> Result<String, DecodeError> {
    let line = json_line(recorded)?;
    let severity = if line["outcome"] == "failure" { WARNING } else { NOTICE };
    let kind: String = recorded.kind.chars().filter(char::is_ascii_graphic).take(LONGEST_ID).collect();
    Ok(message(severity, &recorded.recorded_at.to_string(), (&kind, recorded.position.0), &line))
}

/// `sequenceId` begins at 1 and wraps, so that a reader notices a gap. Host name and process are left out, because
/// members of a cluster write one log.
fn message(severity: u8, time: &str, (kind, position): (&str, u64), line: &Value) -> String {
    let sequence = position.saturating_sub(1) % LARGEST_SEQUENCE + 1;
    let priority = FACILITY * 8 + severity;
    format!("<{priority}>1 {time} - chronova - {kind} [meta sequenceId=\"{sequence}\"] {line}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_has_the_fields_of_rfc_5424() {
        let line = json!({"position": 7, "text": "two\nlines"});
        let written = message(WARNING, "2026-01-31T12:00:00.000000Z", ("access.login_failed", 7), &line);
        let head = "<108>1 2026-01-31T12:00:00.000000Z - chronova - access.login_failed [meta sequenceId=\"7\"] ";
        assert_eq!(written.strip_prefix(head), Some(line.to_string().as_str()));
        assert!(!written.contains('\n'));
        let sequence = |position| {
            let written = message(NOTICE, "t", ("k", position), &json!({}));
            written.split('"').nth(1).map(str::to_owned)
        };
        assert_eq!(sequence(LARGEST_SEQUENCE).as_deref(), Some("2147483647"));
        assert_eq!(sequence(LARGEST_SEQUENCE + 1).as_deref(), Some("1"));
    }
}
