//! SQL for MySQL and MariaDB.

use chronova_events::envelope::Timestamp;

/// The statements of one file. They are one transaction.
#[derive(Debug, Default)]
pub(super) struct SqlFile(Vec<String>);

impl SqlFile {
    pub(super) fn push(&mut self, statement: impl Into<String>) {
        self.0.push(statement.into());
    }

    pub(super) fn text(&self) -> String {
        let mut text = "SET NAMES utf8mb4;\nSET SESSION sql_mode = '';\nSTART TRANSACTION;\n".to_owned();
        for statement in &self.0 {
            text.push_str(statement);
            text.push_str(";\n");
        }
        text.push_str("COMMIT;\n");
        text
    }
}

/// A text as a literal.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for letter in text.chars() {
        match letter {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            '\0' => quoted.push_str("\\0"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\x1a' => quoted.push_str("\\Z"),
            letter => quoted.push(letter),
        }
    }
    quoted.push('\'');
    quoted
}

pub(super) fn maybe(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), quoted)
}

/// A time as Nova's columns have it: whole seconds in UTC.
pub(super) fn time(at: Timestamp) -> String {
    format!("'{}'", at.to_utc().format("%Y-%m-%d %H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_its_literal() {
        assert_eq!(quoted("a'b\\\n"), "'a''b\\\\\\n'");
        assert_eq!(maybe(None), "NULL");
        assert_eq!(time(Timestamp(1_795_353_253_000_000)), "'2026-11-22 13:14:13'");
    }
}
