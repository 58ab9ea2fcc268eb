//! Dumps as text: a written dump is read back unchanged, and a malformed one is an error with its line number.

use std::fmt::Write as _;

use chronova::nova::dump;
use chronova::nova::rows::NovaTable;
use proptest::prelude::*;

/// A table as `mysqldump` writes it.
pub(super) fn mysql(name: &str, table: &NovaTable) -> String {
    let mut text =
        format!("-- a dump\n/*!40101 SET NAMES utf8mb4 */;\nDROP TABLE IF EXISTS `{name}`;\nCREATE TABLE `{name}` (\n");
    for column in &table.columns {
        let _ = writeln!(text, "  `{column}` varchar(255) DEFAULT NULL COMMENT 'a, b (c)',");
    }
    text.push_str(
        "  PRIMARY KEY (`id`),\n  CONSTRAINT `fk` FOREIGN KEY (`id`) REFERENCES `o` (`id`)\n) ENGINE=InnoDB;\n",
    );
    let _ = writeln!(text, "LOCK TABLES `{name}` WRITE;");
    if !table.rows.is_empty() {
        let value = |value: &Option<String>| match value {
            None => "NULL".to_owned(),
            Some(text) => {
                let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\0', "\\0");
                format!("'{escaped}'")
            }
        };
        let row = |row: &Vec<Option<String>>| format!("({})", row.iter().map(value).collect::<Vec<_>>().join(","));
        let rows: Vec<String> = table.rows.iter().map(row).collect();
        let _ = writeln!(text, "INSERT INTO `{name}` VALUES\n{};", rows.join(",\n"));
    }
    text.push_str("UNLOCK TABLES;\n");
    text
}

/// A table as `pg_dump` writes it.
fn postgres(name: &str, table: &NovaTable) -> String {
    let mut text =
        format!("--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\nCREATE TABLE public.{name} (\n");
    let columns: Vec<String> =
        table.columns.iter().map(|column| format!("    {column} character varying(255)")).collect();
    let _ = writeln!(text, "{}\n);\n", columns.join(",\n"));
    let _ = writeln!(text, "COPY public.{name} ({}) FROM stdin;", table.columns.join(", "));
    for row in &table.rows {
        let value = |value: &Option<String>| match value {
            None => "\\N".to_owned(),
            Some(text) => text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"),
        };
        let _ = writeln!(text, "{}", row.iter().map(value).collect::<Vec<_>>().join("\t"));
    }
    text.push_str("\\.\n\nALTER TABLE ONLY public.instances ADD CONSTRAINT k PRIMARY KEY (id);\n");
    text
}

/// A table as `pg_dump --inserts` writes it.
fn postgres_inserts(name: &str, table: &NovaTable) -> String {
    let mut text =
        "--\n-- PostgreSQL database dump\n--\n\n\\restrict k\n\nSET standard_conforming_strings = on;\n".to_owned();
    let columns: Vec<String> = table.columns.iter().map(|column| format!("    {column} text")).collect();
    let _ = writeln!(text, "CREATE TABLE public.{name} (\n{}\n);\n", columns.join(",\n"));
    for row in &table.rows {
        let value = |value: &Option<String>| match value {
            None => "NULL".to_owned(),
            Some(text) => format!("'{}'", text.replace('\'', "''")),
        };
        let values = row.iter().map(value).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "INSERT INTO public.{name} VALUES ({values});");
    }
    text
}

fn tables() -> impl Strategy<Value = NovaTable> {
    let value = proptest::option::of("[ -~\n\t\r'\\\\äöü;(),`\"\u{1F600}]{0,12}");
    (1_usize..5).prop_flat_map(move |columns| {
        let rows = proptest::collection::vec(proptest::collection::vec(value.clone(), columns), 0..6);
        let names = (0..columns).map(|number| format!("c{number}")).collect::<Vec<_>>();
        rows.prop_map(move |rows| NovaTable { columns: names.clone(), rows })
    })
}

proptest! {
    #[test]
    fn a_dump_of_mysql_is_read_as_it_was_written(table in tables(), other in tables()) {
        let text = mysql("first", &table) + &mysql("second", &other);
        let read = dump::parse(&text).map_err(|(at, reason)| TestCaseError::fail(format!("{at}: {reason}\n{text}")))?;
        prop_assert_eq!(&read.0["first"], &table);
        prop_assert_eq!(&read.0["second"], &other);
    }

    #[test]
    fn a_dump_of_postgresql_is_read_as_it_was_written(table in tables(), other in tables()) {
        let text = postgres("first", &table) + &postgres("second", &other);
        let read = dump::parse(&text).map_err(|(at, reason)| TestCaseError::fail(format!("{at}: {reason}\n{text}")))?;
        prop_assert_eq!(&read.0["first"], &table);
        prop_assert_eq!(&read.0["second"], &other);
    }

    #[test]
    fn a_dump_of_postgresql_with_inserts_is_read_as_it_was_written(table in tables(), other in tables()) {
        let text = postgres_inserts("first", &table) + &postgres_inserts("second", &other);
        let read = dump::parse(&text).map_err(|(at, reason)| TestCaseError::fail(format!("{at}: {reason}\n{text}")))?;
        prop_assert_eq!(&read.0["first"], &table);
        prop_assert_eq!(&read.0["second"], &other);
    }

    /// A damaged dump is read or refused; the reader never panics.
    #[test]
    fn a_damaged_dump_is_read_or_refused(table in tables(), cut in 0_usize..400, with in "[ -~\n]{0,6}") {
        let text = mysql("first", &table) + &postgres("second", &table);
        let at = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let _ = dump::parse(&format!("{}{with}{}", &text[..at], &text[at..]));
        let _ = dump::parse(&format!("{}{with}", &text[..at]));
    }
}

/// MySQL writes `\\` for a backslash. PostgreSQL writes `\`, except in `E'...'` or without standard-conforming strings.
#[test]
fn a_backslash_means_what_the_database_of_the_dump_means() {
    let read = |head: &str, values: &str| {
        let text = format!("{head}\nCREATE TABLE t (a text, b text);\nINSERT INTO t VALUES ({values});\n");
        let read = dump::parse(&text).unwrap_or_else(|(at, reason)| panic!("{at}: {reason}\n{text}"));
        let [row] = &read.0["t"].rows[..] else { panic!("{:?}", read.0["t"]) };
        row.iter().map(|value| value.clone().unwrap()).collect::<Vec<_>>()
    };
    let pg = "--\n-- PostgreSQL database dump\n--\n";
    assert_eq!(read(pg, r"'C:\', 'x''y'"), [r"C:\", "x'y"]);
    assert_eq!(read(pg, r"E'C:\\', e'x\'y'"), [r"C:\", "x'y"]);
    assert_eq!(read(&format!("{pg}SET standard_conforming_strings = on;"), r"'a\', 'b'"), [r"a\", "b"]);
    assert_eq!(read(&format!("{pg}SET standard_conforming_strings = off;"), r"'a\\', 'b'"), [r"a\", "b"]);
    // A statement that is skipped ends at its own semicolon.
    assert_eq!(read(&format!(r"{pg}COMMENT ON TABLE t IS 'ends in \';"), "'a', 'b'"), ["a", "b"]);
    assert_eq!(read(&format!(r"{pg}COMMENT ON TABLE t IS E'it\'s; so';"), "'a', 'b'"), ["a", "b"]);
    for head in ["-- MySQL dump 10.13", "/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump 10.19", ""] {
        assert_eq!(read(head, r"'C:\\', 'x\'y'"), [r"C:\", "x'y"], "{head}");
    }
}

#[test]
fn an_error_names_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nova.sql");
    std::fs::write(&path, "CREATE TABLE `t` (\n  `a` int\n);\nINSERT INTO `t` VALUES (1),\n(1,2);\n").unwrap();
    let error = dump::read(&path).unwrap_err().to_string();
    assert!(error.ends_with("line 5: t has 1 columns, and a row has 2 values"), "{error}");
    std::fs::write(&path, "INSERT INTO `t` VALUES (1);\n").unwrap();
    let error = dump::read(&path).unwrap_err().to_string();
    assert!(error.contains("the columns of t are not known"), "{error}");
    let error = dump::read(&folder.path().join("none.sql")).unwrap_err().to_string();
    assert!(error.contains("none.sql"), "{error}");
}
