//! Random databases: the recorded one with more servers, and with damage: orphans, missing rows, NULLs and nonsense
//! values. `adopt` converts the whole database, or refuses it with a list. It never panics, and the log has everything
//! that the report says is adopted.

use std::sync::LazyLock;

use chronova::commands::adopt::{AdoptedThing, AdoptionHistory, AdoptionReport, AdoptionVerdict};
use chronova::nova::database::TablesInMemory;
use chronova::nova::rows::NovaTable;
use chronova_events::ids::InstanceId;
use chronova_events::store::memory::MemoryStore;
use chronova_projections::processes::Processes;
use chronova_projections::runner;
use chronova_projections::views::Views;
use proptest::prelude::*;

use super::given::Tables;

static RECORDED: LazyLock<Tables> = LazyLock::new(Tables::recorded);

/// One change of a database.
#[derive(Debug, Clone)]
enum Damage {
    /// A value is replaced.
    Value { table: usize, row: usize, column: usize, value: Option<String> },
    /// A row is removed.
    Gone { table: usize, row: usize },
    /// A row is duplicated.
    Twice { table: usize, row: usize },
    /// A value of one row is copied into another.
    Mixed { table: usize, from: usize, to: usize, column: usize },
    /// A part of a text (often a serialized object) is replaced.
    Piece { table: usize, row: usize, column: usize, find: &'static str, put: &'static str },
    /// A table is emptied.
    Empty { table: usize },
    /// There is one more server: the rows of a recorded one under another id. Some tables lack its rows, and its host may
    /// be NULL.
    Server { of: usize, id: u128, lacks: Vec<usize>, homeless: bool },
}

fn rubbish() -> impl Strategy<Value = Damage> {
    let at = || 0_usize..10_000;
    let value = prop_oneof![
        Just(None),
        Just(Some(String::new())),
        Just(Some("0".to_owned())),
        Just(Some("-1".to_owned())),
        Just(Some("1".to_owned())),
        Just(Some("4294967295".to_owned())),
        Just(Some("18446744073709551615".to_owned())),
        Just(Some("{}".to_owned())),
        Just(Some("[]".to_owned())),
        Just(Some("[null, 1, {\"a\": []}]".to_owned())),
        Just(Some("9999-12-31 23:59:59".to_owned())),
        Just(Some("0000-00-00 00:00:00".to_owned())),
        Just(Some("00000000-0000-4000-8000-000000000001".to_owned())),
        Just(Some("active".to_owned())),
        Just(Some("resized".to_owned())),
        Just(Some("shelved_offloaded".to_owned())),
        Just(Some("soft-delete".to_owned())),
        Just(Some("migrating".to_owned())),
        "[ -~äß]{1,8}".prop_map(Some),
    ];
    let piece = prop_oneof![
        Just(("\"nova_object.data\"", "\"data\"")),
        Just((": 1,", ": -1,")),
        Just((": 1,", ": 99999999999999999999,")),
        Just((": null", ": {}")),
        Just((": \"", ": [\"")),
        Just(("\"id\"", "\"di\"")),
        Just(("{", "[")),
    ];
    let lacks = prop_oneof![3 => Just(Vec::new()), 1 => proptest::collection::vec(at(), 1..4)];
    let server = (at(), any::<u128>(), lacks, proptest::bool::weighted(0.1));
    prop_oneof![
        3 => server.prop_map(|(of, id, lacks, homeless)| Damage::Server { of, id, lacks, homeless }),
        6 => (at(), at(), at(), value).prop_map(|(table, row, column, value)| Damage::Value { table, row, column, value }),
        2 => (at(), at()).prop_map(|(table, row)| Damage::Gone { table, row }),
        1 => (at(), at()).prop_map(|(table, row)| Damage::Twice { table, row }),
        2 => (at(), at(), at(), at()).prop_map(|(table, from, to, column)| Damage::Mixed { table, from, to, column }),
        2 => (at(), at(), at(), piece).prop_map(|(table, row, column, (find, put))| Damage::Piece { table, row, column, find, put }),
        1 => at().prop_map(|table| Damage::Empty { table }),
    ]
}

fn spoil(database: &mut TablesInMemory, rubbish: &Damage) {
    let mut full: Vec<_> = database.0.values_mut().filter(|table| !table.rows.is_empty()).collect();
    if full.is_empty() {
        return;
    }
    let count = full.len();
    let mut pick = |table: &usize| full.swap_remove(*table % count);
    match rubbish {
        Damage::Value { table, row, column, value } => {
            let table = pick(table);
            let (row, column) = (row % table.rows.len(), column % table.columns.len());
            table.rows[row][column].clone_from(value);
        }
        Damage::Gone { table, row } => {
            let table = pick(table);
            let row = row % table.rows.len();
            table.rows.remove(row);
        }
        Damage::Twice { table, row } => {
            let table = pick(table);
            let row = table.rows[row % table.rows.len()].clone();
            table.rows.push(row);
        }
        Damage::Mixed { table, from, to, column } => {
            let table = pick(table);
            let (from, to, column) = (from % table.rows.len(), to % table.rows.len(), column % table.columns.len());
            let value = table.rows[from][column].clone();
            table.rows[to][column] = value;
        }
        Damage::Piece { table, row, column, find, put } => {
            let table = pick(table);
            let (row, column) = (row % table.rows.len(), column % table.columns.len());
            if let Some(text) = &mut table.rows[row][column] {
                *text = text.replacen(find, put, 3);
            }
        }
        Damage::Empty { table } => pick(table).rows.clear(),
        // See `another_server`, which changes all databases.
        Damage::Server { .. } => {}
    }
}

/// Copies all rows about a server of the cell. The copies have ids of their own.
fn another_server(tables: &mut Tables, (of, id): (usize, u128), lacks: &[usize], homeless: bool) {
    let instances = &tables.cell.0["instances"];
    let at = |column: &str| instances.columns.iter().position(|name| name == column).unwrap();
    let old = instances.rows.get(of % instances.rows.len().max(1)).and_then(|row| row[at("uuid")].clone());
    let Some(old) = old.filter(|id| !id.is_empty()) else { return };
    let new = uuid::Uuid::from_u128(id).to_string();
    let databases = [&mut tables.cell, &mut tables.api, &mut tables.placement];
    let all = databases.into_iter().flat_map(|database| database.0.iter_mut());
    for (number, (name, table)) in all.enumerate() {
        if name == "instances" || !lacks.iter().any(|lack| lack % 40 == number) {
            copy_rows(table, &old, &new, homeless && name == "instances");
        }
    }
}

fn copy_rows(table: &mut NovaTable, old: &str, new: &str, homeless: bool) {
    let at = |column: &str| table.columns.iter().position(|name| name == column);
    let (number, uuid, host) = (at("id"), at("uuid"), at("host"));
    let highest = number.map_or(0, |number| {
        table.rows.iter().filter_map(|row| row[number].as_ref()?.parse::<u64>().ok()).max().unwrap_or(0)
    });
    let mut more = Vec::new();
    for row in table.rows.iter().filter(|row| row.iter().flatten().any(|value| value.contains(old))) {
        let mut copy: Vec<_> = row.iter().map(|value| Some(value.as_ref()?.replace(old, new))).collect();
        if let Some(number) = number.filter(|number| row[*number].as_ref().is_some_and(|id| id.parse::<u64>().is_ok()))
        {
            copy[number] = Some(highest.saturating_add(1 + more.len() as u64).to_string());
        }
        // A block device, a migration or a fault has a UUID of its own.
        if let Some(uuid) = uuid.filter(|uuid| copy[*uuid] == row[*uuid] && row[*uuid].is_some()) {
            let own = row[uuid].clone().unwrap_or_default();
            copy[uuid] = Some(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, (own + new).as_bytes()).to_string());
        }
        if let Some(host) = host.filter(|_| homeless) {
            copy[host] = None;
        }
        more.push(copy);
    }
    table.rows.extend(more);
}

/// Some damages, each with the number of its database.
fn spoilt() -> impl Strategy<Value = Vec<(u8, Damage)>> {
    proptest::collection::vec((0_u8..6, rubbish()), 1..6)
}

/// Checks that the log folds into consistent read models, which have each server and each host that the report adopts.
fn folds(report: &AdoptionReport, events: AdoptionHistory) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let log = MemoryStore::new();
        events.write(&*log).await.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let views = Views::new();
        runner::catch_up(log.as_ref(), &views).await.unwrap();
        prop_assert!(views.processes.read(Processes::is_empty), "the adoption begins a process");
        let adopted = |wanted: AdoptedThing| {
            let kept = [AdoptionVerdict::Adopted, AdoptionVerdict::Noted];
            report.verdicts().filter(move |(thing, _, verdict)| *thing == wanted && kept.contains(verdict))
        };
        for (_, id, _) in adopted(AdoptedThing::Server) {
            let known = views.servers.read(|servers| servers.get(InstanceId(id.parse().unwrap())).is_some());
            prop_assert!(known, "the report adopts the server {}, and the log lacks it", id);
        }
        prop_assert_eq!(
            adopted(AdoptedThing::Host).count(),
            views.hosts.read(|hosts| hosts.all().count()),
            "the log has other hosts than the report adopts"
        );
        views.servers.read(|servers| {
            for row in servers.all() {
                let Some(server) = row.instance.alive() else { continue };
                prop_assert!(server.ongoing.is_none() && server.building().is_none());
                if let Some(placed) = &server.placement {
                    prop_assert!(views.hosts.read(|hosts| hosts.get(placed.host).is_some()), "its host is missing");
                    let held = views.placement.read(|view| {
                        view.ledger.consumers.contains_key(&chronova_events::ids::ConsumerId::new(row.id.to_string()))
                    });
                    prop_assert!(held, "{} has a host and no allocation", row.id);
                }
            }
            Ok(())
        })?;
        prop_assert!(chronova_actors::reconcile::quota::plan(&views).is_empty(), "a reconciler would change the quota");
        prop_assert!(chronova_actors::reconcile::quota::misfits(&views).is_empty(), "quota use and servers differ");
        prop_assert!(chronova_actors::reconcile::server_groups::plan(&views).is_empty(), "a member has no server");
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_spoilt_database_is_adopted_or_refused(changes in spoilt()) {
        let mut tables = RECORDED.clone();
        for (which, rubbish) in &changes {
            if let Damage::Server { of, id, lacks, homeless } = rubbish {
                another_server(&mut tables, (*of, *id), lacks, *homeless);
                continue;
            }
            let database = match which {
                0 | 1 => &mut tables.cell,
                2 => &mut tables.cell0,
                3 | 4 => &mut tables.api,
                _ => &mut tables.placement,
            };
            spoil(database, rubbish);
        }
        let (report, history) = tables.clone().judge();
        if report.is_clear() {
            folds(&report, history)?;
        } else {
            let obstacles: Vec<_> =
                report.verdicts().filter(|(_, _, verdict)| *verdict == AdoptionVerdict::InTheWay).collect();
            prop_assert!(!obstacles.is_empty());
            for (_, id, _) in obstacles {
                prop_assert!(report.reasons(id).iter().all(|reason| !reason.is_empty()), "{}", id);
            }
        }
        // Every report can be printed.
        report.print(&mut Vec::new()).unwrap();
    }
}
