//! Values of columns (RFC 7047, section 5.1), and the copy of a database's tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use thiserror::Error;
use uuid::Uuid;

/// A scalar.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum OvsdbAtom {
    Text(String),
    Integer(i64),
    /// The bits of a real number. No column that Chronova writes has one.
    Real(u64),
    Boolean(bool),
    /// A reference to a row.
    Row(Uuid),
    /// A reference to a row that the same transaction inserts under this name.
    Inserted(String),
}

/// The value of a column. A column with exactly one scalar is a set of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OvsdbValue {
    Set(BTreeSet<OvsdbAtom>),
    Map(BTreeMap<OvsdbAtom, OvsdbAtom>),
}

/// The columns of a row.
pub type OvsdbRow = BTreeMap<String, OvsdbValue>;

/// A message of the server does not have the form of RFC 7047.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the database sent {0}")]
pub struct MalformedOvsdb(pub String);

fn malformed(what: &str, value: &Value) -> MalformedOvsdb {
    let text: String = value.to_string().chars().take(80).collect();
    MalformedOvsdb(format!("{what}: {text}"))
}

/// The text without NUL characters. The database ends the connection of a client that sends one.
pub fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "") } else { text }
}

impl OvsdbAtom {
    /// A text that the database accepts.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(storable(text.into()))
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Integer(number) => json!(number),
            Self::Real(bits) => json!(f64::from_bits(*bits)),
            Self::Boolean(is) => json!(is),
            Self::Row(uuid) => json!(["uuid", uuid.to_string()]),
            Self::Inserted(name) => json!(["named-uuid", name]),
        }
    }

    fn read(value: &Value) -> Result<Self, MalformedOvsdb> {
        match value {
            Value::String(text) => Ok(Self::Text(text.clone())),
            Value::Bool(is) => Ok(Self::Boolean(*is)),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Ok(Self::Integer(number)),
                (None, Some(real)) => Ok(Self::Real(real.to_bits())),
                (None, None) => Err(malformed("a number out of range", value)),
            },
            Value::Array(parts) => match parts.as_slice() {
                [Value::String(kind), Value::String(text)] if kind == "uuid" => {
                    text.parse().map(Self::Row).map_err(|_| malformed("a wrong id", value))
                }
                [Value::String(kind), Value::String(text)] if kind == "named-uuid" => Ok(Self::Inserted(text.clone())),
                _ => Err(malformed("a wrong scalar", value)),
            },
            _ => Err(malformed("a wrong scalar", value)),
        }
    }
}

impl OvsdbValue {
    pub fn one(atom: OvsdbAtom) -> Self {
        Self::Set(BTreeSet::from([atom]))
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::one(OvsdbAtom::text(text))
    }

    /// A map of texts.
    pub fn texts(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self::Map(pairs.into_iter().map(|(key, value)| (OvsdbAtom::text(key), OvsdbAtom::text(value))).collect())
    }

    /// The scalar, if there is exactly one.
    pub fn single(&self) -> Option<&OvsdbAtom> {
        match self {
            Self::Set(atoms) if atoms.len() == 1 => atoms.first(),
            _ => None,
        }
    }

    /// The text, if there is exactly one.
    pub fn as_text(&self) -> Option<&str> {
        match self.single() {
            Some(OvsdbAtom::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The text at this key of a map.
    pub fn text_at(&self, key: &str) -> Option<&str> {
        let Self::Map(pairs) = self else { return None };
        match pairs.get(&OvsdbAtom::text(key)) {
            Some(OvsdbAtom::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The rows that a set refers to.
    pub fn rows(&self) -> impl Iterator<Item = Uuid> + '_ {
        let atoms = match self {
            Self::Set(atoms) => Some(atoms),
            Self::Map(_) => None,
        };
        atoms.into_iter().flatten().filter_map(|atom| match atom {
            OvsdbAtom::Row(uuid) => Some(*uuid),
            _ => None,
        })
    }

    pub fn to_json(&self) -> Value {
        match self {
            Self::Set(atoms) => match self.single() {
                Some(one) => one.to_json(),
                None => json!(["set", atoms.iter().map(OvsdbAtom::to_json).collect::<Vec<_>>()]),
            },
            Self::Map(pairs) => {
                let pairs: Vec<Value> =
                    pairs.iter().map(|(key, value)| json!([key.to_json(), value.to_json()])).collect();
                json!(["map", pairs])
            }
        }
    }

    pub fn read(value: &Value) -> Result<Self, MalformedOvsdb> {
        let Some([Value::String(kind), Value::Array(parts)]) = value.as_array().map(Vec::as_slice) else {
            return OvsdbAtom::read(value).map(Self::one);
        };
        match kind.as_str() {
            "set" => parts.iter().map(OvsdbAtom::read).collect::<Result<_, _>>().map(Self::Set),
            "map" => parts.iter().map(pair).collect::<Result<_, _>>().map(Self::Map),
            _ => Err(malformed("a wrong value", value)),
        }
    }
}

fn pair(value: &Value) -> Result<(OvsdbAtom, OvsdbAtom), MalformedOvsdb> {
    match value.as_array().map(Vec::as_slice) {
        Some([key, value]) => Ok((OvsdbAtom::read(key)?, OvsdbAtom::read(value)?)),
        _ => Err(malformed("a wrong pair", value)),
    }
}

/// The rows of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OvsdbTable {
    pub rows: BTreeMap<Uuid, Arc<OvsdbRow>>,
    by_name: BTreeMap<String, Uuid>,
}

impl OvsdbTable {
    /// The row whose column `name` has this text.
    pub fn named(&self, name: &str) -> Option<&Arc<OvsdbRow>> {
        self.rows.get(self.by_name.get(name)?)
    }

    fn put(&mut self, uuid: Uuid, row: OvsdbRow) {
        self.remove(uuid);
        if let Some(name) = row.get("name").and_then(OvsdbValue::as_text) {
            self.by_name.insert(name.to_owned(), uuid);
        }
        self.rows.insert(uuid, Arc::new(row));
    }

    fn remove(&mut self, uuid: Uuid) {
        let Some(row) = self.rows.remove(&uuid) else { return };
        if let Some(name) = row.get("name").and_then(OvsdbValue::as_text)
            && self.by_name.get(name) == Some(&uuid)
        {
            self.by_name.remove(name);
        }
    }
}

/// A copy of the monitored tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OvsdbTables(BTreeMap<String, Arc<OvsdbTable>>);

impl OvsdbTables {
    pub fn table(&self, name: &str) -> Option<&OvsdbTable> {
        self.0.get(name).map(Arc::as_ref)
    }

    pub fn row(&self, table: &str, uuid: Uuid) -> Option<&Arc<OvsdbRow>> {
        self.0.get(table)?.rows.get(&uuid)
    }

    /// Takes over `table-updates` (RFC 7047, section 4.1.6).
    pub(super) fn apply(&mut self, updates: &Value) -> Result<(), MalformedOvsdb> {
        let updates = updates.as_object().ok_or_else(|| malformed("wrong updates", updates))?;
        for (name, rows) in updates {
            let rows = rows.as_object().ok_or_else(|| malformed("wrong updates of a table", rows))?;
            let table = Arc::make_mut(self.0.entry(name.clone()).or_default());
            for (uuid, update) in rows {
                let uuid: Uuid = uuid.parse().map_err(|_| malformed("a wrong id", update))?;
                match update.get("new").and_then(Value::as_object) {
                    Some(new) => table.put(uuid, columns(new)?),
                    None => table.remove(uuid),
                }
            }
        }
        Ok(())
    }
}

fn columns(row: &Map<String, Value>) -> Result<OvsdbRow, MalformedOvsdb> {
    row.iter().map(|(name, value)| Ok((name.clone(), OvsdbValue::read(value)?))).collect()
}
