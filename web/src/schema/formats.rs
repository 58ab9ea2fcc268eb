//! The `format` keywords of the APIs. The formats for names refuse values that are no strings. The other formats check
//! only strings, like python-jsonschema's checks of the same names.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use fancy_regex::Regex;
use ipnet::IpNet;
use serde_json::Value;
use uuid::Uuid;

use crate::pattern;

/// Why a value does not have the format. Nova's name formats add an explanation.
pub(super) struct FormatRefusal {
    pub explanation: Option<String>,
}

const NAMES: [&str; 13] = [
    "name",
    "name_with_leading_trailing_spaces",
    "az_name",
    "az_name_with_leading_trailing_spaces",
    "uuid",
    "date-time",
    "base64",
    "regex",
    "cidr",
    "uri",
    "ipv4",
    "ipv6",
    "email",
];

pub(super) fn known(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) fn check(name: &str, value: &Value) -> Result<(), FormatRefusal> {
    let explained = |fits: bool, explanation: &str| {
        if fits { Ok(()) } else { Err(FormatRefusal { explanation: Some(explanation.to_owned()) }) }
    };
    let text = value.as_str();
    match name {
        "name" => explained(
            text.is_some_and(|text| is_name(text, false)),
            "printable characters. Can not start or end with whitespace.",
        ),
        "name_with_leading_trailing_spaces" => explained(
            text.is_some_and(|text| is_padded_name(text, false)),
            "printable characters with at least one non space character",
        ),
        "az_name" => explained(
            text.is_some_and(|text| is_name(text, true)),
            "printable characters except :.Can not start or end with whitespace.",
        ),
        "az_name_with_leading_trailing_spaces" => explained(
            text.is_some_and(|text| is_padded_name(text, true)),
            "printable characters except :, with at least one non space character",
        ),
        _ => {
            let Some(text) = text else { return Ok(()) };
            let fits = match name {
                "uuid" => uuid_of(text).is_some(),
                "date-time" => is_date_time(text),
                "base64" => is_base64(text),
                "regex" => !text.is_empty() && pattern::compile(text).is_some(),
                "cidr" => is_cidr(text),
                "uri" => is_uri(text),
                "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
                "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
                "email" => text.contains('@'),
                _ => true,
            };
            if fits { Ok(()) } else { Err(FormatRefusal { explanation: None }) }
        }
    }
}

/// Control characters, unassigned characters, and line and paragraph separators are not printable.
static UNPRINTABLE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{C}\p{Zl}\p{Zp}]").ok());

fn prints(text: &str) -> bool {
    UNPRINTABLE.as_ref().is_some_and(|regex| matches!(regex.is_match(text), Ok(false)))
}

fn is_name(text: &str, zone: bool) -> bool {
    prints(text) && text.trim().len() == text.len() && !(zone && text.contains(':'))
}

fn is_padded_name(text: &str, zone: bool) -> bool {
    prints(text) && !text.trim().is_empty() && !(zone && text.contains(':'))
}

/// The UUID, if the text without `urn:`, `uuid:`, braces and dashes has exactly 32 hexadecimal digits. Source: oslo's
/// `is_uuid_like`.
pub(crate) fn uuid_of(text: &str) -> Option<Uuid> {
    let bare: String =
        text.replace("urn:", "").replace("uuid:", "").chars().filter(|c| !matches!(c, '{' | '}' | '-')).collect();
    if bare.len() == 32 { Uuid::try_parse(&bare).ok() } else { None }
}

/// Whether the text has a form of ISO 8601 that clients send: a date, with or without time, fraction and offset.
pub(crate) fn is_date_time(text: &str) -> bool {
    use chrono::{DateTime, NaiveDate, NaiveDateTime};
    let with_t = text.replacen(' ', "T", 1);
    DateTime::parse_from_rfc3339(&with_t).is_ok()
        || ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z", "%Y%m%dT%H%M%S%#z"]
            .iter()
            .any(|form| DateTime::parse_from_str(&with_t, form).is_ok())
        || [
            "%Y-%m-%dT%H:%M:%S%.f",
            "%Y-%m-%dT%H:%M:%S%.fZ",
            "%Y-%m-%dT%H:%M",
            "%Y-%m-%dT%H:%MZ",
            "%Y%m%dT%H%M%S",
            "%Y%m%dT%H%M%SZ",
        ]
        .iter()
        .any(|form| NaiveDateTime::parse_from_str(&with_t, form).is_ok())
        || ["%Y-%m-%d", "%Y%m%d"].iter().any(|form| NaiveDate::parse_from_str(text, form).is_ok())
}

/// Whether Python's decoder accepts the text. The decoder skips characters outside the alphabet, but needs the right
/// padding.
fn is_base64(text: &str) -> bool {
    let compact: Vec<u8> =
        text.bytes().filter(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')).collect();
    base64::engine::general_purpose::STANDARD.decode(compact).is_ok()
}

fn is_cidr(text: &str) -> bool {
    !text.contains(char::is_whitespace) && text.contains('/') && text.parse::<IpNet>().is_ok()
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let scheme_fits = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    scheme_fits && !host.is_empty() && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(format: &str, value: &Value) -> bool {
        check(format, value).is_ok()
    }

    #[test]
    fn formats() {
        let good = [
            ("name", "web 1"),
            ("name", "ünïcode\u{a0}x"),
            ("name_with_leading_trailing_spaces", "  x "),
            ("uuid", "12345678123456781234567812345678"),
            ("uuid", "{12345678-1234-5678-1234-567812345678}"),
            ("uuid", "urn:uuid:12345678-1234-5678-1234-567812345678"),
            ("date-time", "2026-01-02T03:04:05Z"),
            ("date-time", "2026-01-02T03:04:05.123456"),
            ("date-time", "2026-01-02"),
            ("date-time", "2026-01-02 03:04:05+00:00"),
            ("base64", "aGVsbG8="),
            ("base64", "aGVs\nbG8="),
            ("base64", ""),
            ("regex", "^a.*"),
            ("cidr", "10.0.0.0/8"),
            ("cidr", "fd00::/8"),
            ("uri", "http://host:1/x"),
            ("ipv4", "1.2.3.4"),
            ("ipv6", "::1"),
        ];
        for (format, text) in good {
            assert!(fits(format, &json!(text)), "{format} {text:?}");
        }
        let bad = [
            ("name", " x"),
            ("name", "x\u{3000}"),
            ("name", "a\u{7}b"),
            ("name_with_leading_trailing_spaces", "  "),
            ("az_name", "a:b"),
            ("uuid", "1234"),
            ("uuid", "g2345678123456781234567812345678"),
            ("date-time", "yesterday"),
            ("base64", "abc"),
            ("regex", ""),
            ("regex", "("),
            ("cidr", "10.0.0.0"),
            ("cidr", "10.0.0.0 /8"),
            ("uri", "host/x"),
            ("ipv4", "1.2.3"),
            ("ipv6", "1.2.3.4"),
        ];
        for (format, text) in bad {
            assert!(!fits(format, &json!(text)), "{format} {text:?}");
        }
        assert!(!fits("name", &json!(1)) && fits("uuid", &json!(1)));
    }
}
