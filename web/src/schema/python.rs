//! Values as Python writes them, because Nova's error messages quote them so.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The text of Python's `repr(value)`: `'text'`, `True`, `None`, `{'a': [1, 2.5]}`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(value, &mut out);
    out
}

/// The text of Python's `str(value)`: a string is unchanged.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// The `repr` of each value, joined by commas: `'a', 'b'`.
pub(super) fn list<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    values.into_iter().map(repr).collect::<Vec<_>>().join(", ")
}

fn write_repr(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_text(key, out);
                out.push_str(": ");
                write_repr(item, out);
            }
            out.push('}');
        }
    }
}

fn write_number(number: &Number, out: &mut String) {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            if float != 0.0 && !(1e-4..1e16).contains(&float.abs()) {
                // Python writes the exponent with a sign and at least two digits.
                let scientific = format!("{float:e}");
                let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
                let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
                let _ = write!(out, "{mantissa}e{sign}{digits:0>2}");
            } else {
                let _ = write!(out, "{float:?}");
            }
        }
        _ => {
            let _ = write!(out, "{number}");
        }
    }
}

/// Uses single quotes, unless the text has single quotes and no double quotes. Escapes control characters, and white
/// space other than the space. Python also escapes other characters that are not printable, such as U+200B.
fn write_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() || (c.is_whitespace() && c != ' ') => {
                let code = u32::from(c);
                let _ = if code < 0x100 { write!(out, "\\x{code:02x}") } else { write!(out, "\\u{code:04x}") };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_as_python() {
        assert_eq!(
            repr(&json!({"a": [1, 2.5, true, null], "b'": "it's"})),
            r#"{'a': [1, 2.5, True, None], "b'": "it's"}"#
        );
        assert_eq!(repr(&json!("q'\"\n\u{1}")), r#"'q\'"\n\x01'"#);
        assert_eq!(repr(&json!(1e16)), "1e+16");
        assert_eq!(repr(&json!(1.0)), "1.0");
        assert_eq!(repr(&json!(0.00001)), "1e-05");
        assert_eq!(text(&json!("plain")), "plain");
    }
}
