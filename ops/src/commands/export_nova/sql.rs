//! SQL for MySQL and MariaDB.

use chronova_events::envelope::Timestamp;

/// The statements of one file. They are one transaction.
#[derive(Debug, Default)]
pub(super) struct SqlFile {
    /// Statements that fail if the database lacks something that the other statements need.
    checks: Vec<String>,
    statements: Vec<String>,
}

/// In the strict mode, a text that a column cannot keep is an error. In other modes the server cuts the text.
const HEAD: &str = "SET NAMES utf8mb4;\nSET SESSION sql_mode = 'STRICT_ALL_TABLES';\n";
/// SQL has no statement that only fails. A second row with the same key fails, and the message has the key.
const PROBLEMS: &str = "CREATE TEMPORARY TABLE chronova_problems (problem VARCHAR(255) PRIMARY KEY);\n";

impl SqlFile {
    pub(super) fn push(&mut self, statement: impl Into<String>) {
        self.statements.push(statement.into());
    }

    /// Adds a check: the file fails with this problem, and changes nothing, if `rows` (`FROM ... WHERE ...`) has a row.
    pub(super) fn refuse(&mut self, problem: &str, rows: &str) {
        let problem: String = problem.chars().take(255).collect();
        self.checks.push(format!(
            "INSERT INTO chronova_problems SELECT {} FROM (SELECT 1 UNION ALL SELECT 2) twice, (SELECT 1 {rows}) found",
            quoted(&problem)
        ));
    }

    pub(super) fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        if !self.checks.is_empty() {
            text.push_str(PROBLEMS);
        }
        text.push_str("START TRANSACTION;\n");
        for statement in self.checks.iter().chain(&self.statements) {
            text.push_str(statement);
            text.push_str(";\n");
        }
        text.push_str("COMMIT;\n");
        if !self.checks.is_empty() {
            text.push_str("DROP TEMPORARY TABLE chronova_problems;\n");
        }
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
