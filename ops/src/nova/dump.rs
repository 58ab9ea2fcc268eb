//! Reads SQL dumps of `mysqldump` and `mariadb-dump`, and plain-text dumps of `pg_dump`.
//!
//! Only three kinds of statements matter. `CREATE TABLE` names the columns. `INSERT` (MySQL) or `COPY` (PostgreSQL) has
//! the rows. `SET standard_conforming_strings` says what a backslash in a text means. The syntax of these statements is
//! so regular that no full SQL parser is needed. The reader skips other statements as a whole, so a text in them is
//! never taken for a statement.

use std::path::Path;

use thiserror::Error;

use super::database::TablesInMemory;

/// Why a dump cannot be read.
#[derive(Debug, Error)]
pub enum DumpError {
    #[error("{file}: {source}")]
    File {
        file: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{file}, line {line}: {reason}")]
    Syntax { file: String, line: usize, reason: String },
}

/// Reads the dump in a file.
pub fn read(path: &Path) -> Result<TablesInMemory, DumpError> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|source| DumpError::File { file: file.clone(), source })?;
    // A binary column may hold invalid UTF-8. No column that the adoption reads is binary, so replacing it is harmless.
    let text = String::from_utf8_lossy(&bytes);
    parse(&text).map_err(|(at, reason)| {
        let line = text.get(..at).map_or(0, |before| before.matches('\n').count()) + 1;
        DumpError::Syntax { file, line, reason }
    })
}

/// The first words of those parts of `CREATE TABLE` that define no column.
const NO_COLUMNS: [&str; 9] =
    ["PRIMARY", "UNIQUE", "KEY", "CONSTRAINT", "FULLTEXT", "SPATIAL", "CHECK", "INDEX", "FOREIGN"];

/// The place of the error, in bytes, and its reason.
type SyntaxError = (usize, String);

/// Reads the text of a dump.
pub fn parse(text: &str) -> Result<TablesInMemory, SyntaxError> {
    let mut reader = DumpReader { text, at: 0, escapes: !is_of_postgresql(text), tables: TablesInMemory::default() };
    while reader.statement()? {}
    Ok(reader.tables)
}

/// Whether the comment at the beginning is that of `pg_dump` or `pg_dumpall`.
fn is_of_postgresql(text: &str) -> bool {
    let mut head = text.lines().take_while(|line| line.is_empty() || line.starts_with("--"));
    head.any(|line| line.starts_with("-- PostgreSQL database "))
}

struct DumpReader<'a> {
    text: &'a str,
    at: usize,
    /// Whether a backslash in a quoted text introduces a special character. In a dump of PostgreSQL it means itself,
    /// unless the dump sets `standard_conforming_strings = off`.
    escapes: bool,
    tables: TablesInMemory,
}

impl DumpReader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, SyntaxError> {
        Err((self.at, reason.into()))
    }

    /// Skips blanks, comments, and the `\restrict` lines of `pg_dump`.
    fn skip(&mut self) -> Result<(), SyntaxError> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            let rest = self.rest();
            if rest.starts_with("--")
                || rest.starts_with('#')
                || rest.starts_with("\\restrict")
                || rest.starts_with("\\unrestrict")
            {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else { return self.fail("a comment without an end") };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.rest().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        if found {
            self.at += word.len();
        }
        found
    }

    /// Reads one statement; `false` if there is none left.
    fn statement(&mut self) -> Result<bool, SyntaxError> {
        self.skip()?;
        if self.rest().is_empty() {
            return Ok(false);
        }
        if self.eat("CREATE TABLE ") {
            self.eat("IF NOT EXISTS ");
            self.create()?;
        } else if self.eat("INSERT INTO ") || self.eat("INSERT IGNORE INTO ") || self.eat("REPLACE INTO ") {
            self.insert()?;
        } else if self.eat("COPY ") {
            return self.copy().map(|()| true);
        } else if self.eat("SET standard_conforming_strings = ") {
            self.escapes = self.eat("off") || self.eat("'off'");
        }
        self.end()?;
        Ok(true)
    }

    /// Skips the rest of a statement.
    fn end(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.peek() {
                None => return Ok(()),
                Some(';') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\'' | '"' | '`') => self.quoted().map(drop)?,
                Some('/') if self.rest().starts_with("/*") => self.skip()?,
                Some('-') if self.rest().starts_with("--") => self.skip()?,
                Some(_) => {
                    self.take();
                }
            }
        }
    }

    /// Reads a name, quoted or not. A schema before the name is dropped.
    fn name(&mut self) -> Result<String, SyntaxError> {
        self.skip()?;
        let name = match self.peek() {
            Some('`' | '"') => self.quoted()?,
            _ => {
                let rest = self.rest();
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
                let name = rest.get(..end).unwrap_or_default().to_owned();
                self.at += end;
                name
            }
        };
        if name.is_empty() {
            return self.fail("a name is missing");
        }
        if self.eat(".") { self.name() } else { Ok(name) }
    }

    /// Whether a backslash introduces a special character in the quoted text that begins here. In PostgreSQL's `E'...'`
    /// it always does.
    fn escapes_here(&self) -> bool {
        let mut before = self.text.get(..self.at).unwrap_or_default().chars().rev();
        let has_mark = matches!(before.next(), Some('E' | 'e'));
        let is_word = before.next().is_some_and(|c| c.is_alphanumeric() || c == '_');
        match self.peek() {
            Some('`') => false,
            Some('\'') => self.escapes || (has_mark && !is_word),
            _ => self.escapes,
        }
    }

    /// Reads a quoted text. A doubled quote means one quote.
    fn quoted(&mut self) -> Result<String, SyntaxError> {
        let (begun, escapes) = (self.at, self.escapes_here());
        let Some(quote) = self.take() else { return self.fail("a text is missing") };
        let mut text = String::new();
        while let Some(next) = self.take() {
            match next {
                '\\' if escapes => match self.take() {
                    Some('n') => text.push('\n'),
                    Some('r') => text.push('\r'),
                    Some('t') => text.push('\t'),
                    Some('0') => text.push('\0'),
                    Some('Z') => text.push('\x1a'),
                    Some('b') => text.push('\x08'),
                    Some(other) => text.push(other),
                    None => break,
                },
                next if next == quote => {
                    if self.peek() != Some(quote) {
                        return Ok(text);
                    }
                    self.take();
                    text.push(quote);
                }
                next => text.push(next),
            }
        }
        Err((begun, "a text without an end".to_owned()))
    }

    /// Reads the name at the beginning of each part in the parentheses. Keys and constraints are no columns.
    fn create(&mut self) -> Result<(), SyntaxError> {
        let table = self.name()?;
        self.skip()?;
        // No table of Nova is created by `CREATE TABLE ... AS SELECT` or a similar statement.
        if !self.eat("(") {
            return Ok(());
        }
        let mut columns = Vec::new();
        loop {
            self.skip()?;
            let is_quoted = matches!(self.peek(), Some('`' | '"'));
            let name = self.name()?;
            if is_quoted || !NO_COLUMNS.contains(&name.to_ascii_uppercase().as_str()) {
                columns.push(name);
            }
            if !self.next_follows()? {
                break;
            }
        }
        self.tables.0.entry(table).or_default().columns = columns;
        Ok(())
    }

    /// Skips past the next comma at this depth of parentheses; `false` if the parentheses end first.
    fn next_follows(&mut self) -> Result<bool, SyntaxError> {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => return self.fail("a parenthesis without an end"),
                Some('\'' | '"' | '`') => {
                    self.quoted()?;
                    continue;
                }
                Some('(') => depth += 1,
                Some(')') if depth == 0 => {
                    self.take();
                    return Ok(false);
                }
                Some(')') => depth -= 1,
                Some(',') if depth == 0 => {
                    self.take();
                    return Ok(true);
                }
                Some(_) => {}
            }
            self.take();
        }
    }

    fn names(&mut self) -> Result<Vec<String>, SyntaxError> {
        let mut names = Vec::new();
        loop {
            names.push(self.name()?);
            self.skip()?;
            if self.eat(")") {
                return Ok(names);
            }
            if !self.eat(",") {
                return self.fail("`,` or `)` is missing among the columns");
            }
        }
    }

    fn insert(&mut self) -> Result<(), SyntaxError> {
        let table = self.name()?;
        self.skip()?;
        let columns = if self.eat("(") { Some(self.names()?) } else { None };
        self.skip()?;
        if !self.eat("VALUES") {
            return self.fail("only rows with VALUES can be read");
        }
        let columns = self.columns(&table, columns)?;
        loop {
            self.skip()?;
            if !self.eat("(") {
                return self.fail("a row is missing");
            }
            let row = self.values()?;
            if row.len() != columns {
                return self.fail(format!("{table} has {columns} columns, and a row has {} values", row.len()));
            }
            self.tables.0.entry(table.clone()).or_default().rows.push(row);
            self.skip()?;
            if !self.eat(",") {
                return Ok(());
            }
        }
    }

    /// Notes the columns of a table if the statement names them. Returns the number of columns.
    fn columns(&mut self, table: &str, named: Option<Vec<String>>) -> Result<usize, SyntaxError> {
        let at = self.at;
        let known = self.tables.0.entry(table.to_owned()).or_default();
        if let Some(named) = named {
            if !known.rows.is_empty() && known.columns != named {
                return Err((at, format!("the rows of {table} do not have the same columns")));
            }
            known.columns = named;
        }
        if known.columns.is_empty() {
            return Err((at, format!("the columns of {table} are not known: the dump has no CREATE TABLE for it")));
        }
        Ok(known.columns.len())
    }

    fn values(&mut self) -> Result<Vec<Option<String>>, SyntaxError> {
        let mut values = Vec::new();
        loop {
            self.skip()?;
            values.push(self.value()?);
            self.skip()?;
            if self.eat(")") {
                return Ok(values);
            }
            if !self.eat(",") {
                return self.fail("`,` or `)` is missing in a row");
            }
        }
    }

    fn value(&mut self) -> Result<Option<String>, SyntaxError> {
        if self.eat("_binary ") {
            self.skip()?;
        }
        if self.rest().get(..2).is_some_and(|start| start.eq_ignore_ascii_case("E'")) {
            self.at += 1;
        }
        if self.peek() == Some('\'') {
            return self.quoted().map(Some);
        }
        let rest = self.rest();
        let end = rest.find([',', ')', '\n', ' ']).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default().to_owned();
        if word.is_empty() {
            return self.fail("a value is missing");
        }
        self.at += end;
        Ok(if word.eq_ignore_ascii_case("NULL") { None } else { Some(word) })
    }

    /// Reads `COPY public.instances (id, uuid) FROM stdin;` and then one row per line, up to the line `\.`.
    fn copy(&mut self) -> Result<(), SyntaxError> {
        let table = self.name()?;
        self.skip()?;
        let columns = if self.eat("(") { Some(self.names()?) } else { None };
        self.skip()?;
        if !self.eat("FROM stdin") {
            return self.end();
        }
        self.end()?;
        self.eat("\r\n");
        self.eat("\n");
        let columns = self.columns(&table, columns)?;
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                return self.fail(format!("the rows of {table} have no end"));
            }
            let line = rest.lines().next().unwrap_or_default();
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            if line == "\\." {
                self.at += length;
                return Ok(());
            }
            let row: Vec<Option<String>> = line.split('\t').map(unescaped).collect();
            if row.len() != columns {
                return self.fail(format!("{table} has {columns} columns, and a row has {} values", row.len()));
            }
            self.at += length;
            self.tables.0.entry(table.clone()).or_default().rows.push(row);
        }
    }
}

/// Decodes a value that PostgreSQL's `COPY` wrote; `None` is NULL.
fn unescaped(text: &str) -> Option<String> {
    if text == "\\N" {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(next) = chars.next() {
        if next != '\\' {
            plain.push(next);
            continue;
        }
        plain.push(match chars.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('v') => '\x0b',
            Some(other) => other,
            None => '\\',
        });
    }
    Some(plain)
}
