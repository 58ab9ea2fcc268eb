//! Random damage: a database within its schema, with orphans, missing rows, NULLs and nonsense values. `adopt` converts
//! the whole database, or refuses it with a list. It never panics.

use std::sync::LazyLock;

use chronova::commands::adopt::AdoptionVerdict;
use chronova::nova::database::TablesInMemory;
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
    prop_oneof![
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
    }
}

/// Some damages, each with the number of its database.
fn spoilt() -> impl Strategy<Value = Vec<(u8, Damage)>> {
    proptest::collection::vec((0_u8..6, rubbish()), 1..6)
}

/// Checks that the log folds into consistent read models.
fn folds(events: chronova::commands::adopt::AdoptionHistory) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let log = MemoryStore::new();
        events.write(&*log).await.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let views = Views::new();
        runner::catch_up(log.as_ref(), &views).await.unwrap();
        prop_assert!(views.processes.read(Processes::is_empty), "the adoption begins a process");
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
            folds(history)?;
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
