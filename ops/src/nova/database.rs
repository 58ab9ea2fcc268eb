//! The databases of one Nova cloud.

use std::collections::BTreeMap;

use super::rows::{NovaRow, NovaTable};

/// One database of Nova or Placement.
pub trait NovaDatabase: Send + Sync {
    /// The table of this name; `None` if the database has no such table.
    fn table(&self, name: &str) -> Option<&NovaTable>;
}

/// Databases in memory, for dumps and tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TablesInMemory(pub BTreeMap<String, NovaTable>);

impl NovaDatabase for TablesInMemory {
    fn table(&self, name: &str) -> Option<&NovaTable> {
        self.0.get(name)
    }
}

/// All databases of a cloud.
pub struct NovaDatabases {
    pub api: Box<dyn NovaDatabase>,
    pub cell0: Box<dyn NovaDatabase>,
    pub cells: Vec<Box<dyn NovaDatabase>>,
    pub placement: Box<dyn NovaDatabase>,
}

impl std::fmt::Debug for NovaDatabases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NovaDatabases").field("cells", &self.cells.len()).finish_non_exhaustive()
    }
}

impl NovaDatabases {
    /// nova_api, cell 0, the cells, placement.
    pub fn all(&self) -> impl Iterator<Item = &dyn NovaDatabase> {
        let cells = self.cells.iter().map(AsRef::as_ref);
        [self.api.as_ref(), self.cell0.as_ref()].into_iter().chain(cells).chain([self.placement.as_ref()])
    }
}

/// The rows of a table; no rows if there is no such table.
pub fn rows<'a>(database: &'a dyn NovaDatabase, table: &'a str) -> impl Iterator<Item = NovaRow<'a>> {
    database.table(table).into_iter().flat_map(move |found| found.rows(table))
}

/// Like [`rows`], but without rows that are marked as deleted.
pub fn live_rows<'a>(database: &'a dyn NovaDatabase, table: &'a str) -> impl Iterator<Item = NovaRow<'a>> {
    rows(database, table).filter(|row| !row.is_deleted())
}

/// The rows of a table, grouped by the text of a column. Rows without a text there are left out.
pub fn rows_by<'a>(
    database: &'a dyn NovaDatabase,
    table: &'a str,
    column: &str,
) -> BTreeMap<&'a str, Vec<NovaRow<'a>>> {
    let mut by: BTreeMap<&str, Vec<NovaRow<'a>>> = BTreeMap::new();
    for row in rows(database, table) {
        if let Some(key) = row.text(column) {
            by.entry(key).or_default().push(row);
        }
    }
    by
}
