//! The forms of what a command lists: a table for people, JSON and YAML for programs.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ListForm {
    /// Columns or text, for people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One YAML document with the content of the JSON document
    Yaml,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::Args)]
pub struct ListFormArgs {
    /// The form of the output
    #[arg(long, short = 'o', value_enum, value_name = "FORM", default_value_t)]
    pub output: ListForm,
    /// Print JSON: the same as `--output json`
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
}

impl ListFormArgs {
    /// Writes `listed` in a form for programs. Returns false for the table, which the caller writes itself.
    pub(super) fn write(self, listed: &impl Serialize, out: &mut dyn Write) -> io::Result<bool> {
        match self.output {
            ListForm::Table if !self.json => return Ok(false),
            ListForm::Table | ListForm::Json => writeln!(out, "{}", escaped(&serde_json::to_string_pretty(listed)?))?,
            ListForm::Yaml => write_yaml(&serde_json::to_value(listed)?, 0, out)?,
        }
        Ok(true)
    }
}

/// Writes a value as a block of YAML 1.2. Scalars are those of JSON, which YAML includes: a text is always in quotes, so
/// no text turns into another type.
fn write_yaml(value: &Value, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                write!(out, "{:1$}-", "", depth * 2)?;
                write_below(item, depth, out)?;
            }
            Ok(())
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                write!(out, "{:1$}{2}:", "", depth * 2, key_in_yaml(key))?;
                write_below(field, depth, out)?;
            }
            Ok(())
        }
        scalar => writeln!(out, "{}", escaped(&scalar.to_string())),
    }
}

/// The JSON with DEL and the C1 control characters as escapes. JSON may have them in a text as they are, but a terminal
/// takes some of them for the start of a control sequence.
pub(super) fn escaped(json: &str) -> String {
    let one = |c: char| match c {
        '\u{7f}'..='\u{9f}' => format!("\\u{:04x}", u32::from(c)),
        other => other.to_string(),
    };
    match json.chars().any(|c| ('\u{7f}'..='\u{9f}').contains(&c)) {
        true => json.chars().map(one).collect(),
        false => json.to_owned(),
    }
}

/// A key without quotes, unless YAML could read it as another type than text.
fn key_in_yaml(key: &str) -> String {
    const OTHER_MEANINGS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        && !OTHER_MEANINGS.contains(&key.to_ascii_lowercase().as_str());
    if plain { key.to_owned() } else { escaped(&Value::from(key).to_string()) }
}

/// Writes a value after `-` or `key:`. A value with parts begins on the next line.
fn write_below(value: &Value, depth: usize, out: &mut dyn Write) -> io::Result<()> {
    let has_parts = match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    };
    out.write_all(if has_parts { b"\n" } else { b" " })?;
    write_yaml(value, depth + 1, out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn written(output: ListForm, json: bool, listed: &Value) -> Option<String> {
        let mut out = Vec::new();
        let done = ListFormArgs { output, json }.write(listed, &mut out).unwrap();
        done.then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn yaml_has_the_content_of_json() {
        let listed = json!({
            "hosts": [
                {"name": "h1", "servers": 3, "up": true, "load": 0.25, "reason": null, "traits": [], "more": {}},
                {"name": "no", "reason": "two\nlines: \"quoted\", ü", "of": [[1, -2], ["1", "null", "~", ""]]},
            ],
            "no": 1,
            "a key: with a colon": {"deep": {"deeper": [{"deepest": "# no comment"}]}},
        });
        let text = written(ListForm::Yaml, false, &listed).unwrap();
        assert!(text.starts_with("hosts:\n  -\n    name: \"h1\"\n    servers: 3\n"), "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), listed, "{text}");
        for small in [json!([]), json!("text"), json!(null), json!([[]])] {
            let text = written(ListForm::Yaml, false, &small).unwrap();
            assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), small, "{text}");
        }
    }

    #[test]
    fn no_form_controls_the_terminal() {
        let listed = json!({"a\u{85}b": ["c\u{9b}2J", "d\u{7f}\u{1b}[2J\n", "\u{a0}ü"]});
        for output in [ListForm::Json, ListForm::Yaml] {
            let text = written(output, false, &listed).unwrap();
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
            assert!(text.contains("c\\u009b2J") && text.contains("\u{a0}ü"), "{text}");
            let read: Value = match output {
                ListForm::Yaml => serde_saphyr::from_str(&text).unwrap(),
                _ => serde_json::from_str(&text).unwrap(),
            };
            assert_eq!(read, listed, "{text}");
        }
    }

    #[test]
    fn a_table_is_left_to_the_caller() {
        assert_eq!(written(ListForm::Table, false, &json!([1])), None);
        assert_eq!(written(ListForm::Table, true, &json!([1])).unwrap(), "[\n  1\n]\n");
        assert_eq!(written(ListForm::Json, false, &json!([1])).unwrap(), "[\n  1\n]\n");
    }
}
