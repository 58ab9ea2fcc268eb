//! Reads the databases of a running Nova.
//!
//! The hard part is one view over several databases while Nova writes to them. No transaction spans them. So the reader
//! proceeds in three steps:
//!
//! 1. It begins a read-only transaction in every database. Each one sees its database as of this moment.
//! 2. It reads all tables, row by row.
//! 3. It begins a second transaction in every database, and compares all rows with those that were read. It leaves out
//!    the columns that Nova writes every few seconds.
//!
//! Every transaction of step 1 begins before any transaction of step 3. If no row differs, each database had these rows
//! during the whole time between the two steps, so the rows of all databases belong together. (A row that was changed
//! and changed back would go unseen. Nova's rows have times, generations and growing numbers, so this does not happen.)
//! A difference is reported by table, row and column.
//!
//! The rows of the adopted tables are in memory, up to a limit. The second reading keeps one row at a time.

mod mysql;
mod postgres;

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use chronova_events::envelope::Timestamp;
use thiserror::Error;

use super::address::{NovaDatabaseAddress, NovaEngine};
use super::database::{NovaDatabase, TablesInMemory};
use super::rows::{NovaTable, time};
use super::schema::NovaTableUse;

/// Why a live database cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{database} ({address}): {reason}")]
pub struct LiveReadError {
    /// The database in the words of the report: `nova_api`, `cell 1`.
    pub database: String,
    /// The address without its password.
    pub address: String,
    pub reason: String,
}

/// A row as the database writes it in text; `None` is NULL.
type TextRow = Vec<Option<String>>;
/// Receives the rows of a statement one by one. An error ends the statement.
type RowSink<'a> = dyn FnMut(TextRow) -> Result<(), String> + Send + 'a;

/// A connection to one database.
#[async_trait]
trait LiveLink: Send {
    /// Begins a read-only transaction that sees the database as of now. Ends the previous transaction.
    async fn begin(&mut self) -> Result<(), String>;
    /// Runs a statement, and gives each row to `take`.
    async fn each(&mut self, sql: &str, take: &mut RowSink<'_>) -> Result<(), String>;
    /// Ends the transaction and the connection.
    async fn close(self: Box<Self>);
    /// Quotes the name of a table or column.
    fn quoted(&self, name: &str) -> String;
    /// The statement for the tables that the account may read: their names and columns, in the order of the columns.
    fn columns(&self) -> &'static str;
    /// The statement for the primary keys of all tables: their names and columns, in the order of the keys.
    fn keys(&self) -> &'static str;
    /// The expression for the time of the server, in UTC.
    fn clock(&self) -> &'static str;
}

/// The bytes that a reading may still take.
#[derive(Debug)]
pub struct ReadLimit {
    left: usize,
    most: usize,
}

impl ReadLimit {
    pub fn of(most: usize) -> Self {
        Self { left: most, most }
    }

    fn take(&mut self, row: &[Option<String>]) -> Result<(), String> {
        let bytes: usize = row.iter().map(|value| size_of_val(value) + value.as_ref().map_or(0, String::len)).sum();
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let most = self.most / (1024 * 1024);
            format!("its rows take more than {most} MiB of memory: run nova-manage db archive_deleted_rows, or raise --max-memory")
        })?;
        Ok(())
    }
}

/// A row that changed between the two readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChange {
    pub table: &'static str,
    /// The values of the primary key, and the UUID of the row if it has one.
    pub row: String,
    /// `was added`, `was removed`, or the columns. No values: they may be secret.
    pub change: String,
}

impl std::fmt::Display for LiveChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.table, self.row, self.change)
    }
}

/// The columns and the primary key of a table.
#[derive(Debug, Default, Clone)]
struct LiveTable {
    columns: Vec<String>,
    key: Vec<String>,
}

/// A connected database.
pub struct LiveDatabase {
    pub name: String,
    address: String,
    link: Box<dyn LiveLink>,
    tables: BTreeMap<String, LiveTable>,
}

impl std::fmt::Debug for LiveDatabase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveDatabase").field("name", &self.name).field("address", &self.address).finish_non_exhaustive()
    }
}

impl LiveDatabase {
    pub async fn connect(name: &str, address: &NovaDatabaseAddress) -> Result<Self, LiveReadError> {
        let link: Result<Box<dyn LiveLink>, String> = match address.engine {
            NovaEngine::MySql => mysql::MySqlLink::open(address).await.map(|link| Box::new(link) as _),
            NovaEngine::Postgres => postgres::PostgresLink::open(address).await.map(|link| Box::new(link) as _),
        };
        let (name, address) = (name.to_owned(), address.to_string());
        match link {
            Ok(link) => Ok(Self { name, address, link, tables: BTreeMap::new() }),
            Err(reason) => Err(LiveReadError { database: name, address, reason }),
        }
    }

    fn failed(&self, reason: impl Into<String>) -> LiveReadError {
        LiveReadError { database: self.name.clone(), address: self.address.clone(), reason: reason.into() }
    }

    /// Fixes the moment that the next reading sees.
    pub async fn begin(&mut self) -> Result<(), LiveReadError> {
        self.link.begin().await.map_err(|reason| self.failed(reason))
    }

    async fn rows(&mut self, sql: &str) -> Result<Vec<TextRow>, LiveReadError> {
        let mut rows = Vec::new();
        let mut take = |row: TextRow| {
            rows.push(row);
            Ok(())
        };
        self.link.each(sql, &mut take).await.map_err(|reason| self.failed(reason))?;
        Ok(rows)
    }

    /// Ends the connection, because an open transaction keeps Nova from changing the schema.
    pub async fn close(self) {
        self.link.close().await;
    }

    /// The time of the database's server.
    pub async fn clock(&mut self) -> Result<Timestamp, LiveReadError> {
        let read = self.rows(&format!("SELECT {}", self.link.clock())).await?;
        let text = read.first().and_then(|row| row.first()?.as_deref());
        text.and_then(time).ok_or_else(|| self.failed("its clock cannot be read"))
    }

    /// Reads the columns and primary keys of all tables that the account may read.
    async fn look(&mut self) -> Result<(), LiveReadError> {
        let (columns, keys) = (self.link.columns(), self.link.keys());
        let mut tables: BTreeMap<String, LiveTable> = BTreeMap::new();
        for row in self.rows(columns).await? {
            if let [Some(table), Some(column)] = row.as_slice() {
                tables.entry(table.clone()).or_default().columns.push(column.clone());
            }
        }
        for row in self.rows(keys).await? {
            // A table that the account may not read may have a visible key.
            if let [Some(table), Some(column)] = row.as_slice()
                && let Some(known) = tables.get_mut(table)
            {
                known.key.push(column.clone());
            }
        }
        self.tables = tables;
        Ok(())
    }

    /// Refuses a database that lacks what every supported release has, or that hides a part of it from the account.
    async fn fits(&mut self, wanted: &[NovaTableUse]) -> Result<(), LiveReadError> {
        let unseen = wanted.iter().map(|table| table.name).filter(|name| !self.tables.contains_key(*name));
        let unseen: Vec<&str> = unseen.collect();
        if !unseen.is_empty() {
            let reason = format!(
                "it has no table {}, or the account may not read it: is it the database of {}? Give an account with the \
                 right to SELECT in all tables of it",
                unseen.join(", "),
                self.name
            );
            return Err(self.failed(reason));
        }
        for table in wanted {
            let known = self.tables.get(table.name).cloned().unwrap_or_default();
            if let Some(lack) = table.needed.iter().find(|column| !known.columns.iter().any(|name| name == *column)) {
                let reason = format!(
                    "{} has no column {lack}: its schema is not that of Zed or a later release. Upgrade it \
                     (nova-manage api_db sync and db sync, placement-manage db sync)",
                    table.name
                );
                return Err(self.failed(reason));
            }
            // MySQL hides columns that the account may not read, but it refuses a `*` that covers them.
            let all = format!("SELECT * FROM {} LIMIT 0", self.link.quoted(table.name));
            self.rows(&all).await?;
        }
        Ok(())
    }

    /// The statement for all rows of a table, in the order of the primary key. `mysqldump` writes the rows in the same
    /// order.
    fn select(&self, name: &str, table: &LiveTable) -> String {
        let list = |names: &[String]| names.iter().map(|name| self.link.quoted(name)).collect::<Vec<_>>().join(", ");
        let order = if table.key.is_empty() { String::new() } else { format!(" ORDER BY {}", list(&table.key)) };
        format!("SELECT {} FROM {}{order}", list(&table.columns), self.link.quoted(name))
    }

    /// Reads the tables, as of the moment of [`LiveDatabase::begin`].
    pub async fn read(
        &mut self,
        wanted: &[NovaTableUse],
        limit: &mut ReadLimit,
    ) -> Result<TablesInMemory, LiveReadError> {
        self.look().await?;
        self.fits(wanted).await?;
        let mut read = TablesInMemory::default();
        for table in wanted {
            let Some(known) = self.tables.get(table.name).cloned() else { continue };
            let sql = self.select(table.name, &known);
            let mut rows = Vec::new();
            let mut take = |row: TextRow| {
                limit.take(&row)?;
                rows.push(row);
                Ok(())
            };
            let done = self.link.each(&sql, &mut take).await;
            done.map_err(|reason| self.failed(format!("{}: {reason}", table.name)))?;
            read.0.insert(table.name.to_owned(), NovaTable { columns: known.columns, rows });
        }
        Ok(read)
    }

    /// Compares the tables with those that were read before, as of the moment of the second [`LiveDatabase::begin`].
    pub async fn changes(
        &mut self,
        wanted: &[NovaTableUse],
        before: &dyn NovaDatabase,
    ) -> Result<Vec<LiveChange>, LiveReadError> {
        let mut changes = Vec::new();
        for table in wanted {
            let Some(known) = self.tables.get(table.name).cloned() else { continue };
            let Some(before) = before.table(table.name) else { continue };
            let sql = self.select(table.name, &known);
            let mut comparison = RowComparison::new(table, &known, before);
            let mut take = |row: TextRow| {
                comparison.compare(&row);
                Ok(())
            };
            let done = self.link.each(&sql, &mut take).await;
            done.map_err(|reason| self.failed(format!("{}: {reason}", table.name)))?;
            changes.extend(comparison.end());
        }
        Ok(changes)
    }
}

/// Compares the rows of one table with those that were read first.
struct RowComparison<'a> {
    table: &'static str,
    before: &'a NovaTable,
    /// Positions of columns: those of the primary key, those by which a row is found again, and those whose changes
    /// matter.
    primary: Vec<usize>,
    key: Vec<usize>,
    matter: Vec<usize>,
    /// The UUID that names the row for people.
    uuid: Option<usize>,
    /// The rows of the first reading that the second has not had yet. Without a primary key, rows may be equal.
    left: HashMap<TextRow, Vec<&'a TextRow>>,
    changes: Vec<LiveChange>,
}

impl<'a> RowComparison<'a> {
    fn new(table: &NovaTableUse, known: &LiveTable, before: &'a NovaTable) -> Self {
        let at = |name: &str| known.columns.iter().position(|column| column == name);
        let restless = |at: &usize| table.restless.iter().any(|name| *name == known.columns[*at]);
        let matter: Vec<usize> = (0..known.columns.len()).filter(|at| !restless(at)).collect();
        let primary: Vec<usize> = known.key.iter().filter_map(|name| at(name)).collect();
        // Without a primary key, a row is found again by the values of all columns whose changes matter.
        let key = if primary.is_empty() { matter.clone() } else { primary.clone() };
        let mut left: HashMap<TextRow, Vec<&TextRow>> = HashMap::new();
        for row in &before.rows {
            left.entry(key.iter().map(|at| row[*at].clone()).collect()).or_default().push(row);
        }
        let uuid = at("instance_uuid").or_else(|| at("uuid")).or_else(|| at("consumer_id"));
        Self { table: table.name, before, primary, key, matter, uuid, left, changes: Vec::new() }
    }

    fn compare(&mut self, row: &[Option<String>]) {
        let key: TextRow = self.key.iter().map(|at| row[*at].clone()).collect();
        match self.left.get_mut(&key).and_then(Vec::pop) {
            None => self.note(row, "was added".to_owned()),
            Some(old) => {
                let differ = self.matter.iter().filter(|at| old[**at] != row[**at]);
                let names: Vec<&str> = differ.map(|at| self.before.columns[*at].as_str()).collect();
                if !names.is_empty() {
                    let change = format!("changed: {}", names.join(", "));
                    self.note(row, change);
                }
            }
        }
    }

    fn note(&mut self, row: &[Option<String>], change: String) {
        let text = |at: &usize| row[*at].as_deref().unwrap_or("NULL").to_owned();
        let mut words: Vec<String> = self.primary.iter().map(text).collect();
        words.extend(self.uuid.filter(|at| !self.primary.contains(at)).as_ref().map(|at| format!("({})", text(at))));
        if words.is_empty() {
            words.push("a row".to_owned());
        }
        self.changes.push(LiveChange { table: self.table, row: words.join(" "), change });
    }

    fn end(mut self) -> Vec<LiveChange> {
        let mut removed: Vec<&TextRow> = std::mem::take(&mut self.left).into_values().flatten().collect();
        removed.sort();
        for row in removed {
            self.note(row, "was removed".to_owned());
        }
        self.changes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::nova::schema::CELL_TABLES;

    fn rows(texts: &[&str]) -> Vec<TextRow> {
        texts.iter().map(|row| row.split(' ').map(|value| Some(value.to_owned())).collect()).collect()
    }

    /// The changes between two readings of Nova's table `services`.
    fn changes(key: &[&str], before: &[&str], after: &[&str]) -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let known = LiveTable { columns: owned(&["id", "host", "report_count"]), key: owned(key) };
        let before = NovaTable { columns: known.columns.clone(), rows: rows(before) };
        let services = CELL_TABLES.iter().find(|table| table.name == "services").unwrap();
        let mut comparison = RowComparison::new(services, &known, &before);
        for row in rows(after) {
            comparison.compare(&row);
        }
        comparison.end().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_row_is_compared_with_the_one_of_its_primary_key() {
        let changed = changes(&["id"], &["1 h1 5", "2 h2 5", "3 h3 5"], &["4 h4 1", "3 h9 5", "2 h2 6"]);
        assert_eq!(changed, ["services 4 was added", "services 3 changed: host", "services 1 was removed"]);
    }

    #[test]
    fn equal_rows_without_a_primary_key_are_counted() {
        let twice = ["1 h1 5", "1 h1 5"];
        assert!(changes(&[], &twice, &twice).is_empty());
        assert!(changes(&[], &twice, &["1 h1 6", "1 h1 7"]).is_empty(), "a heartbeat must not matter");
        assert_eq!(changes(&[], &twice, &["1 h1 5"]), ["services a row was removed"]);
        assert_eq!(changes(&[], &twice, &["1 h1 5", "1 h1 5", "1 h1 5"]), ["services a row was added"]);
    }
}
