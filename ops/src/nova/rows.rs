//! Rows of a table, and their values by type.
//!
//! A release may lack a column that another release has. An optional value is then `None`; a required value is an
//! error.

use chronova_events::envelope::Timestamp;
use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

/// A table: its columns, and its rows in the order of the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NovaTable {
    pub columns: Vec<String>,
    /// The rows. Each has one value per column; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl NovaTable {
    pub fn rows<'a>(&'a self, name: &'a str) -> impl Iterator<Item = NovaRow<'a>> {
        self.rows.iter().map(move |values| NovaRow { table: name, columns: &self.columns, values })
    }
}

/// A value that does not fit the type of its column.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{table}.{column} is {value}, and should be {wanted}")]
pub struct NovaValueError {
    pub table: String,
    pub column: String,
    pub value: String,
    pub wanted: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub struct NovaRow<'a> {
    pub table: &'a str,
    columns: &'a [String],
    values: &'a [Option<String>],
}

impl<'a> NovaRow<'a> {
    pub fn text(&self, column: &str) -> Option<&'a str> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.values.get(at)?.as_deref()
    }

    /// The text, if it is not empty.
    pub fn words(&self, column: &str) -> Option<&'a str> {
        self.text(column).filter(|text| !text.is_empty())
    }

    pub fn required(&self, column: &str) -> Result<&'a str, NovaValueError> {
        self.text(column).ok_or_else(|| self.wrong(column, "a text"))
    }

    pub fn number(&self, column: &str) -> Result<Option<i64>, NovaValueError> {
        self.parsed(column, "a number", |text| text.parse().ok())
    }

    pub fn count(&self, column: &str) -> Result<Option<u64>, NovaValueError> {
        self.parsed(column, "a number that is not negative", |text| text.parse().ok())
    }

    /// Like [`NovaRow::count`], for a number of 32 bits; NULL is 0.
    pub fn small(&self, column: &str) -> Result<u32, NovaValueError> {
        Ok(self.parsed(column, "a number from 0 to 4294967295", |text| text.parse().ok())?.unwrap_or(0))
    }

    /// Reads a number with a fraction; it may have an exponent.
    pub fn real(&self, column: &str) -> Result<Option<f64>, NovaValueError> {
        self.parsed(column, "a number", |text| text.parse().ok().filter(|number: &f64| number.is_finite()))
    }

    /// Reads a boolean: MySQL writes 0 and 1, PostgreSQL f and t.
    pub fn flag(&self, column: &str) -> bool {
        matches!(self.text(column), Some("1" | "t" | "true" | "True"))
    }

    pub fn uuid(&self, column: &str) -> Result<Option<Uuid>, NovaValueError> {
        self.parsed(column, "a UUID", |text| Uuid::parse_str(text).ok())
    }

    pub fn required_uuid(&self, column: &str) -> Result<Uuid, NovaValueError> {
        self.uuid(column)?.ok_or_else(|| self.wrong(column, "a UUID"))
    }

    pub fn time(&self, column: &str) -> Result<Option<Timestamp>, NovaValueError> {
        self.parsed(column, "a time", time)
    }

    /// When the row was created; the Unix epoch if the row does not say.
    pub fn created_at(&self) -> Result<Timestamp, NovaValueError> {
        Ok(self.time("created_at")?.unwrap_or_default())
    }

    /// When the row last changed; the time of its creation if it never did.
    pub fn updated_at(&self) -> Result<Timestamp, NovaValueError> {
        Ok(self.time("updated_at")?.unwrap_or(self.created_at()?))
    }

    pub fn json(&self, column: &str) -> Result<Option<Value>, NovaValueError> {
        self.parsed(column, "JSON", |text| serde_json::from_str(text).ok())
    }

    /// Nova keeps a deleted row and writes the row's own number into `deleted`.
    pub fn is_deleted(&self) -> bool {
        !matches!(self.text("deleted"), None | Some("0" | "f" | "false" | ""))
    }

    pub fn wrong(&self, column: &str, wanted: &'static str) -> NovaValueError {
        let value = match self.text(column) {
            Some(text) => format!("`{}`", text.chars().take(60).collect::<String>()),
            None => "NULL".to_owned(),
        };
        NovaValueError { table: self.table.to_owned(), column: column.to_owned(), value, wanted }
    }

    fn parsed<T>(
        &self,
        column: &str,
        wanted: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, NovaValueError> {
        match self.words(column) {
            None => Ok(None),
            Some(text) => parse(text).map(Some).ok_or_else(|| self.wrong(column, wanted)),
        }
    }
}

/// Parses `2026-11-22 13:14:13`, also with a fraction, a `T`, or UTC as the zone. Nova writes UTC.
pub fn time(text: &str) -> Option<Timestamp> {
    let plain = text.trim_end_matches('Z').trim_end_matches("+00:00").trim_end_matches("+00").replace('T', " ");
    let parsed = chrono::NaiveDateTime::parse_from_str(&plain, "%Y-%m-%d %H:%M:%S%.f").ok()?;
    Some(Timestamp(parsed.and_utc().timestamp_micros()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_are_read_in_the_forms_of_both_databases_and_of_objects() {
        let expected = Timestamp(1_795_353_253_000_000);
        for text in
            ["2026-11-22 13:14:13", "2026-11-22 13:14:13.000000", "2026-11-22T13:14:13Z", "2026-11-22T13:14:13+00:00"]
        {
            assert_eq!(time(text), Some(expected), "{text}");
        }
        assert_eq!(time("yesterday"), None);
        assert_eq!(time(""), None);
    }

    #[test]
    fn a_wrong_value_names_its_table_and_column() {
        let table = NovaTable {
            columns: vec!["id".into(), "uuid".into(), "deleted".into()],
            rows: vec![vec![Some("x".into()), None, Some("7".into())]],
        };
        let row = table.rows("instances").next().unwrap();
        assert_eq!(
            row.count("id").unwrap_err().to_string(),
            "instances.id is `x`, and should be a number that is not negative"
        );
        assert_eq!(row.required_uuid("uuid").unwrap_err().to_string(), "instances.uuid is NULL, and should be a UUID");
        assert_eq!(row.number("none").unwrap(), None);
        assert!(row.is_deleted());
    }
}
