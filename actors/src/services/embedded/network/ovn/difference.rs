//! The operations that lead from the present rows to the wanted rows.
//!
//! Rows without a mark are never changed. A reference from a row of Chronova to a row of another program stays, too.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::rows::{MARK, NorthboundKey, NorthboundTable, WantedCell, WantedRow, WantedRows, key};
use crate::services::external::ovsdb::{OvsdbAtom, OvsdbRow, OvsdbTables, OvsdbValue};

/// The key in `external_ids` of a resource's name.
const TITLE: &str = "chronova:name";

/// The rows of Chronova that the database has.
struct OwnRows {
    by_key: BTreeMap<NorthboundKey, Uuid>,
    by_id: BTreeMap<Uuid, NorthboundKey>,
    /// Second rows with the same mark.
    doubled: BTreeSet<Uuid>,
}

impl OwnRows {
    fn of(tables: &OvsdbTables) -> Self {
        let mut own = Self { by_key: BTreeMap::new(), by_id: BTreeMap::new(), doubled: BTreeSet::new() };
        for table in NorthboundTable::ALL {
            let rows = tables.table(table.name()).map(|table| &table.rows);
            for (uuid, row) in rows.into_iter().flatten() {
                let Some(mark) = row.get("external_ids").and_then(|ids| ids.text_at(MARK)) else { continue };
                let key = key(table, mark);
                own.by_id.insert(*uuid, key.clone());
                match own.by_key.entry(key) {
                    Entry::Occupied(_) => drop(own.doubled.insert(*uuid)),
                    Entry::Vacant(free) => drop(free.insert(*uuid)),
                }
            }
        }
        own
    }
}

/// The operations of one transaction, empty if nothing differs. It inserts at most `most` rows, and updates rows only
/// while it has fewer than `most` operations. The next difference has the rest. References always change in the same
/// transaction, because the database drops a new row that nothing refers to. An unwanted row of Chronova is removed
/// only if `may_remove` allows this for its mark.
pub(super) fn difference(
    wanted: &WantedRows,
    tables: &OvsdbTables,
    may_remove: &dyn Fn(&str) -> bool,
    most: usize,
) -> Vec<Value> {
    let own = OwnRows::of(tables);
    let missing = wanted.keys().filter(|key| !own.by_key.contains_key(*key)).take(most);
    let inserted: BTreeMap<&NorthboundKey, String> =
        missing.enumerate().map(|(index, key)| (key, format!("row{index}"))).collect();
    let look = RowChange { own: &own, inserted: &inserted, wanted, may_remove, most };
    let mut operations: Vec<Value> = inserted
        .iter()
        .filter_map(|(key, name)| {
            let row = look.new_row(key, wanted.get(*key)?);
            Some(json!({"op": "insert", "table": key.table.name(), "uuid-name": name, "row": row}))
        })
        .collect();
    for (key, uuid) in &own.by_key {
        match (wanted.get(key), tables.row(key.table.name(), *uuid)) {
            (Some(row), Some(present)) => look.change(key, *uuid, row, present, &mut operations),
            (None, _) if key.table.is_root() && may_remove(&key.mark) => operations.push(delete(key, *uuid)),
            _ => {}
        }
    }
    let doubled = own.doubled.iter().filter_map(|uuid| Some((own.by_id.get(uuid)?, *uuid)));
    operations.extend(doubled.filter(|(key, _)| key.table.is_root()).map(|(key, uuid)| delete(key, uuid)));
    operations
}

fn chosen(uuid: Uuid) -> Value {
    json!([["_uuid", "==", ["uuid", uuid.to_string()]]])
}

fn delete(key: &NorthboundKey, uuid: Uuid) -> Value {
    json!({"op": "delete", "table": key.table.name(), "where": chosen(uuid)})
}

struct RowChange<'a> {
    own: &'a OwnRows,
    inserted: &'a BTreeMap<&'a NorthboundKey, String>,
    wanted: &'a WantedRows,
    may_remove: &'a dyn Fn(&str) -> bool,
    most: usize,
}

impl RowChange<'_> {
    /// The reference to a row; `None`: a later transaction inserts the row.
    fn reference(&self, key: &NorthboundKey) -> Option<OvsdbAtom> {
        let present = self.own.by_key.get(key).copied().map(OvsdbAtom::Row);
        present.or_else(|| self.inserted.get(key).cloned().map(OvsdbAtom::Inserted))
    }

    fn references<'k>(&self, keys: impl IntoIterator<Item = &'k NorthboundKey>) -> BTreeSet<OvsdbAtom> {
        keys.into_iter().filter_map(|key| self.reference(key)).collect()
    }

    fn new_row(&self, key: &NorthboundKey, row: &WantedRow) -> Map<String, Value> {
        let cells = row.cells.iter().map(|(column, cell)| {
            let value = match cell {
                WantedCell::Value(value) => value.to_json(),
                WantedCell::Rows(rows) => OvsdbValue::Set(self.references(rows)).to_json(),
                WantedCell::Row(row) => OvsdbValue::Set(self.references(row)).to_json(),
            };
            ((*column).to_owned(), value)
        });
        let ids = OvsdbValue::texts(marks(key, row).into_iter().map(|(key, value)| (key.to_owned(), value)));
        cells.chain([("external_ids".to_owned(), ids.to_json())]).collect()
    }

    /// Adds the operations that turn a present row into the wanted row.
    fn change(&self, key: &NorthboundKey, uuid: Uuid, row: &WantedRow, present: &OvsdbRow, into: &mut Vec<Value>) {
        let (mut update, mut mutations) = (Map::new(), Vec::new());
        for (column, cell) in &row.cells {
            let now = present.get(*column);
            match cell {
                WantedCell::Value(value) if !is_equal(now, value) => {
                    update.insert((*column).to_owned(), value.to_json());
                }
                WantedCell::Value(_) => {}
                WantedCell::Row(row) => {
                    let value = OvsdbValue::Set(self.references(row));
                    if !is_equal(now, &value) {
                        update.insert((*column).to_owned(), value.to_json());
                    }
                }
                WantedCell::Rows(rows) => self.mutate_rows(column, rows, now, &mut mutations),
            }
        }
        mutate_marks(key, row, present.get("external_ids"), &mut mutations);
        let table = key.table.name();
        if !update.is_empty() && into.len() < self.most {
            into.push(json!({"op": "update", "table": table, "where": chosen(uuid), "row": update}));
        }
        if !mutations.is_empty() {
            into.push(json!({"op": "mutate", "table": table, "where": chosen(uuid), "mutations": mutations}));
        }
    }

    fn mutate_rows(
        &self,
        column: &str,
        rows: &BTreeSet<NorthboundKey>,
        now: Option<&OvsdbValue>,
        mutations: &mut Vec<Value>,
    ) {
        let now: BTreeSet<OvsdbAtom> = now.into_iter().flat_map(OvsdbValue::rows).map(OvsdbAtom::Row).collect();
        let wanted = self.references(rows);
        let extra: BTreeSet<OvsdbAtom> =
            now.iter().filter(|atom| !wanted.contains(*atom) && self.is_removed(atom)).cloned().collect();
        let lacking: BTreeSet<OvsdbAtom> = wanted.difference(&now).cloned().collect();
        for (mutator, atoms) in [("delete", extra), ("insert", lacking)] {
            if !atoms.is_empty() {
                mutations.push(json!([column, mutator, OvsdbValue::Set(atoms).to_json()]));
            }
        }
    }

    /// Whether an unwanted reference is removed. It is removed if it leads to a row of Chronova that is wanted
    /// elsewhere, is a duplicate, or may be removed.
    fn is_removed(&self, atom: &OvsdbAtom) -> bool {
        let OvsdbAtom::Row(uuid) = atom else { return false };
        let Some(key) = self.own.by_id.get(uuid) else { return false };
        self.own.doubled.contains(uuid) || self.wanted.contains_key(key) || (self.may_remove)(&key.mark)
    }
}

/// Whether the column has this value. The copy leaves out no column, but an empty set and an absent one are the same.
fn is_equal(now: Option<&OvsdbValue>, wanted: &OvsdbValue) -> bool {
    match (now, wanted) {
        (Some(now), wanted) => now == wanted,
        (None, OvsdbValue::Set(atoms)) => atoms.is_empty(),
        (None, OvsdbValue::Map(pairs)) => pairs.is_empty(),
    }
}

fn marks(key: &NorthboundKey, row: &WantedRow) -> Vec<(&'static str, String)> {
    let title = row.title.clone().map(|title| (TITLE, title));
    [(MARK, key.mark.clone())].into_iter().chain(title).collect()
}

/// Insertion into a map keeps the value of a present key, so the key is deleted first.
fn mutate_marks(key: &NorthboundKey, row: &WantedRow, now: Option<&OvsdbValue>, mutations: &mut Vec<Value>) {
    let present = |name: &str| now.and_then(|ids| ids.text_at(name));
    let marks = marks(key, row);
    let differing: Vec<&(&str, String)> =
        marks.iter().filter(|(name, text)| present(name) != Some(text.as_str())).collect();
    let dropped = row.title.is_none() && present(TITLE).is_some();
    let deleted: BTreeSet<OvsdbAtom> = differing
        .iter()
        .map(|(name, _)| *name)
        .chain(dropped.then_some(TITLE))
        .filter(|name| present(name).is_some())
        .map(OvsdbAtom::text)
        .collect();
    if !deleted.is_empty() {
        mutations.push(json!(["external_ids", "delete", OvsdbValue::Set(deleted).to_json()]));
    }
    if !differing.is_empty() {
        let pairs = differing.iter().map(|(name, text)| ((*name).to_owned(), text.clone()));
        mutations.push(json!(["external_ids", "insert", OvsdbValue::texts(pairs).to_json()]));
    }
}
