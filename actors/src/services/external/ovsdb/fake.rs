//! A small database server for tests. It carries out the operations that the clients send. Like OVN's database, it
//! removes rows that nothing refers to.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Mutex as AsyncMutex;
use uuid::Uuid;

use super::frames::OvsdbFrames;
use super::values::{OvsdbAtom, OvsdbRow, OvsdbValue};

/// The tables whose rows stay without a reference.
const ROOTS: [&str; 5] = ["NB_Global", "DHCP_Options", "Logical_Switch", "Logical_Router", "Port_Group"];

type FakeTables = BTreeMap<String, BTreeMap<Uuid, OvsdbRow>>;

/// The server's rows, and its behaviour.
#[derive(Debug, Default)]
pub(crate) struct FakeOvsdbState {
    pub(crate) tables: FakeTables,
    /// The number of transactions so far.
    pub(crate) transactions: usize,
    /// How many operations each transaction had.
    pub(crate) sizes: Vec<usize>,
    /// The transactions that are refused from now on.
    pub(crate) refusals: usize,
    /// Whether the next transaction ends the connection before its answer.
    pub(crate) hangs_up: bool,
    pub(crate) echoes: usize,
    pub(crate) connections: usize,
}

/// A server on a port of this machine.
#[derive(Debug)]
pub(crate) struct FakeOvsdb {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<Mutex<FakeOvsdbState>>,
    clients: Arc<AsyncMutex<Vec<OwnedWriteHalf>>>,
    task: tokio::task::JoinHandle<()>,
}

impl FakeOvsdb {
    pub(crate) async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::default())
    }

    pub(crate) fn on(listener: TcpListener, state: Arc<Mutex<FakeOvsdbState>>) -> Self {
        let (address, clients) = (listener.local_addr().unwrap(), Arc::<AsyncMutex<Vec<OwnedWriteHalf>>>::default());
        let task = tokio::spawn(accept(listener, Arc::clone(&state), Arc::clone(&clients)));
        Self { address, state, clients, task }
    }

    /// Ends the server and its connections. The state stays for a later server.
    pub(crate) async fn stop(self) -> Arc<Mutex<FakeOvsdbState>> {
        self.task.abort();
        self.hang_up().await;
        self.state
    }

    /// Ends the connections.
    pub(crate) async fn hang_up(&self) {
        for mut client in self.clients.lock().await.drain(..) {
            let _ = client.shutdown().await;
        }
    }

    /// Sends bytes to the clients, in two pieces.
    pub(crate) async fn say(&self, message: &Value) {
        for client in self.clients.lock().await.iter_mut() {
            let bytes = message.to_string().into_bytes();
            let (first, second) = bytes.split_at(bytes.len() / 2);
            client.write_all(first).await.unwrap();
            client.flush().await.unwrap();
            tokio::task::yield_now().await;
            client.write_all(second).await.unwrap();
        }
    }

    /// Changes rows as another client would, and tells the clients.
    pub(crate) async fn change(&self, operations: Vec<Value>) {
        let updates = {
            let mut state = self.state.lock().unwrap();
            let before = state.tables.clone();
            let results = carry_out(&mut state.tables, &operations);
            assert!(results.is_ok(), "{results:?}");
            updates(&before, &state.tables)
        };
        self.say(&json!({"method": "update", "params": [null, updates], "id": null})).await;
    }

    /// The rows of a table.
    pub(crate) fn rows(&self, table: &str) -> Vec<OvsdbRow> {
        self.state.lock().unwrap().tables.get(table).map(|rows| rows.values().cloned().collect()).unwrap_or_default()
    }
}

async fn accept(
    listener: TcpListener,
    state: Arc<Mutex<FakeOvsdbState>>,
    clients: Arc<AsyncMutex<Vec<OwnedWriteHalf>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        state.lock().unwrap().connections += 1;
        let (mut reader, writer) = stream.into_split();
        let index = {
            let mut all = clients.lock().await;
            all.push(writer);
            all.len() - 1
        };
        let (state, clients) = (Arc::clone(&state), Arc::clone(&clients));
        tokio::spawn(async move {
            let mut frames = OvsdbFrames::new(1 << 24);
            while reader.read_buf(&mut frames.bytes).await.is_ok_and(|count| count > 0) {
                while let Some(message) = frames.next().unwrap() {
                    let answers = answer(&state, &message);
                    let mut all = clients.lock().await;
                    let Some(writer) = all.get_mut(index) else { return };
                    match answers {
                        None => _ = writer.shutdown().await,
                        Some(answers) => {
                            for one in answers {
                                let _ = writer.write_all(one.to_string().as_bytes()).await;
                            }
                        }
                    }
                }
            }
        });
    }
}

/// The messages that answer this one; `None`: the connection ends.
fn answer(state: &Mutex<FakeOvsdbState>, message: &Value) -> Option<Vec<Value>> {
    let mut state = state.lock().unwrap();
    let (id, params) = (&message["id"], &message["params"]);
    match message["method"].as_str() {
        Some("monitor") => {
            let all = updates(&FakeTables::new(), &state.tables);
            Some(vec![json!({"id": id, "result": all, "error": null})])
        }
        Some("echo") => Some(vec![json!({"id": id, "result": params, "error": null})]),
        Some("transact") => {
            if std::mem::take(&mut state.hangs_up) {
                return None;
            }
            state.transactions += 1;
            if state.refusals > 0 {
                state.refusals -= 1;
                let refusal = json!([{}, {"error": "constraint violation", "details": "not today"}]);
                return Some(vec![json!({"id": id, "result": refusal, "error": null})]);
            }
            let operations = &params.as_array().unwrap()[1..];
            state.sizes.push(operations.len());
            let mut after = state.tables.clone();
            match carry_out(&mut after, operations) {
                Ok(results) => {
                    let news = updates(&state.tables, &after);
                    state.tables = after;
                    let update = json!({"method": "update", "params": [null, news], "id": null});
                    Some(vec![update, json!({"id": id, "result": results, "error": null})])
                }
                Err(error) => {
                    let refusal = json!([{"error": "referential integrity violation", "details": error}]);
                    Some(vec![json!({"id": id, "result": refusal, "error": null})])
                }
            }
        }
        _ => {
            state.echoes += usize::from(message["result"].is_array());
            Some(vec![])
        }
    }
}

fn updates(before: &FakeTables, after: &FakeTables) -> Value {
    let mut tables = Map::new();
    for table in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let none = BTreeMap::new();
        let (old, new) = (before.get(table).unwrap_or(&none), after.get(table).unwrap_or(&none));
        let mut rows = Map::new();
        for uuid in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            let shown = |row: &OvsdbRow| {
                row.iter().map(|(name, value)| (name.clone(), value.to_json())).collect::<Map<String, Value>>()
            };
            match (old.get(uuid), new.get(uuid)) {
                (Some(old), Some(new)) if old == new => {}
                (Some(old), Some(new)) => {
                    _ = rows.insert(uuid.to_string(), json!({"old": shown(old), "new": shown(new)}));
                }
                (None, Some(new)) => _ = rows.insert(uuid.to_string(), json!({"new": shown(new)})),
                (old, _) => _ = rows.insert(uuid.to_string(), json!({"old": old.map(shown)})),
            }
        }
        if !rows.is_empty() {
            tables.insert(table.clone(), Value::Object(rows));
        }
    }
    Value::Object(tables)
}

fn carry_out(tables: &mut FakeTables, operations: &[Value]) -> Result<Vec<Value>, String> {
    let names: BTreeMap<String, Uuid> = operations
        .iter()
        .filter_map(|operation| Some((operation["uuid-name"].as_str()?.to_owned(), Uuid::new_v4())))
        .collect();
    let mut results = Vec::new();
    for operation in operations {
        let table = tables.entry(operation["table"].as_str().ok_or("no table")?.to_owned()).or_default();
        let read = |value: &Value| OvsdbValue::read(value).map_err(|e| e.to_string()).and_then(|v| resolved(v, &names));
        match operation["op"].as_str() {
            Some("insert") => {
                let uuid = operation["uuid-name"].as_str().and_then(|name| names.get(name)).copied();
                let row = operation["row"].as_object().ok_or("no row")?;
                let row =
                    row.iter().map(|(name, value)| Ok((name.clone(), read(value)?))).collect::<Result<_, String>>()?;
                table.insert(uuid.unwrap_or_else(Uuid::new_v4), row);
            }
            Some("delete") => _ = table.remove(&chosen(operation)?),
            Some("update") => {
                if let Some(row) = table.get_mut(&chosen(operation)?) {
                    for (name, value) in operation["row"].as_object().ok_or("no row")? {
                        row.insert(name.clone(), read(value)?);
                    }
                }
            }
            Some("mutate") => {
                if let Some(row) = table.get_mut(&chosen(operation)?) {
                    for mutation in operation["mutations"].as_array().ok_or("no mutations")? {
                        mutate(row, mutation, &read)?;
                    }
                }
            }
            other => return Err(format!("unknown operation {other:?}")),
        }
        results.push(json!({"count": 1}));
    }
    collect(tables);
    dangling(tables).map_or(Ok(results), Err)
}

/// The row that `where` names. Only `_uuid` is understood.
fn chosen(operation: &Value) -> Result<Uuid, String> {
    let uuid = operation["where"][0][2][1].as_str().ok_or("no condition")?;
    uuid.parse().map_err(|_| "a wrong id".to_owned())
}

fn mutate(
    row: &mut OvsdbRow,
    mutation: &Value,
    read: &dyn Fn(&Value) -> Result<OvsdbValue, String>,
) -> Result<(), String> {
    let (column, mutator) = (mutation[0].as_str().ok_or("no column")?, mutation[1].as_str().ok_or("no mutator")?);
    let value = read(&mutation[2])?;
    let present = row.entry(column.to_owned()).or_insert_with(|| match &value {
        OvsdbValue::Set(_) => OvsdbValue::Set(BTreeSet::new()),
        OvsdbValue::Map(_) => OvsdbValue::Map(BTreeMap::new()),
    });
    match (mutator, present, value) {
        ("insert", OvsdbValue::Set(present), OvsdbValue::Set(more)) => present.extend(more),
        ("delete", OvsdbValue::Set(present), OvsdbValue::Set(less)) => present.retain(|atom| !less.contains(atom)),
        // A key that is there keeps its value (RFC 7047, section 5.1).
        ("insert", OvsdbValue::Map(present), OvsdbValue::Map(more)) => {
            for (key, value) in more {
                present.entry(key).or_insert(value);
            }
        }
        ("delete", OvsdbValue::Map(present), OvsdbValue::Map(pairs)) => {
            present.retain(|key, value| pairs.get(key) != Some(&*value));
        }
        ("delete", OvsdbValue::Map(present), OvsdbValue::Set(keys)) => present.retain(|key, _| !keys.contains(key)),
        (mutator, ..) => return Err(format!("unknown mutator {mutator}")),
    }
    Ok(())
}

fn resolved(value: OvsdbValue, names: &BTreeMap<String, Uuid>) -> Result<OvsdbValue, String> {
    let atom = |atom: OvsdbAtom| match atom {
        OvsdbAtom::Inserted(name) => names.get(&name).copied().map(OvsdbAtom::Row).ok_or(format!("no row {name}")),
        other => Ok(other),
    };
    match value {
        OvsdbValue::Set(atoms) => atoms.into_iter().map(atom).collect::<Result<_, _>>().map(OvsdbValue::Set),
        map @ OvsdbValue::Map(_) => Ok(map),
    }
}

/// Whether the references of the column keep no row.
fn is_weak(table: &str, column: &str) -> bool {
    matches!((table, column), ("Port_Group", "ports") | ("Logical_Switch_Port", "dhcpv4_options" | "dhcpv6_options"))
}

/// The rows that a reference keeps.
fn references(tables: &FakeTables) -> BTreeSet<Uuid> {
    let mut kept = BTreeSet::new();
    for (table, rows) in tables {
        for (column, value) in rows.values().flatten() {
            if !is_weak(table, column) {
                kept.extend(value.rows());
            }
        }
    }
    kept
}

/// Removes rows that nothing refers to.
fn collect(tables: &mut FakeTables) {
    loop {
        let (used, mut removed) = (references(tables), false);
        for (_, rows) in tables.iter_mut().filter(|(name, _)| !ROOTS.contains(&name.as_str())) {
            let before = rows.len();
            rows.retain(|uuid, _| used.contains(uuid));
            removed |= rows.len() != before;
        }
        if !removed {
            return;
        }
    }
}

/// A reference to no row. A weak reference (the ports of a group, the DHCP options of a port) simply ends.
fn dangling(tables: &mut FakeTables) -> Option<String> {
    let all: BTreeSet<Uuid> = tables.values().flat_map(BTreeMap::keys).copied().collect();
    for (table, rows) in tables.iter_mut() {
        for row in rows.values_mut() {
            for (column, value) in row.iter_mut() {
                let weak = is_weak(table, column);
                let OvsdbValue::Set(atoms) = value else { continue };
                let is_gone = |atom: &OvsdbAtom| matches!(atom, OvsdbAtom::Row(uuid) if !all.contains(uuid));
                if weak {
                    atoms.retain(|atom| !is_gone(atom));
                } else if atoms.iter().any(is_gone) {
                    return Some(format!("{table}.{column}"));
                }
            }
        }
    }
    None
}
